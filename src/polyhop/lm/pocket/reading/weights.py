"""The weights of reader, judges and path scorer, fitted by ``benchmarks/pocket_fit.py`` and ``hops_fit.py``."""

from __future__ import annotations

# Reasons for and against a candidate answer (``reading.features``).
WEIGHTS: dict[str, float] = {
    "beside": 2.07, "best page": -0.25, "best sentence": -0.09, "comma after": 0.22, "comma before": 0.10,
    "cue before": 0.68, "first sentence": 0.05, "focused": 4.63, "head after": 1.10, "head before": 1.19,
    "head inside": 2.85, "in parenthesis": -0.40, "is a title": 1.95, "is in question": -1.68, "is own title": -1.21,
    "known elsewhere": -0.12, "late": -0.42, "long": 0.32, "near": 0.20, "of after": -0.93, "page": -2.05,
    "page in question": 0.98, "page is reached": 2.86, "page's best sentence": 0.48, "part of title": -0.03,
    "quoted": -1.02, "repeats question": -1.22, "sentence": 0.50, "title of the class": 2.06,
}  # fmt: skip

# What is added to a reason's weight where the question asks for a type.
BY_TYPE: dict[str, dict[str, float]] = {
    "boolean": {
        "beside": -0.26, "cue before": 0.00, "first sentence": 0.01, "focused": -0.27, "near": -0.30,
        "sentence": 0.18,
    },
    "country": {
        "beside": 0.33, "cue before": 0.38, "first sentence": 0.56, "focused": -0.08, "near": -0.45,
        "sentence": -0.79,
    },
    "date": {
        "beside": -0.14, "cue before": -0.30, "first sentence": 0.54, "focused": -0.73, "near": -1.07,
        "sentence": -0.08,
    },
    "group": {
        "beside": -0.13, "cue before": 0.26, "first sentence": -0.42, "focused": 0.97, "near": 0.93, "sentence": 1.40,
    },
    "name": {
        "beside": 0.15, "cue before": 0.00, "first sentence": 0.45, "focused": 0.06, "near": -0.03, "sentence": -0.44,
    },
    "number": {
        "beside": 0.83, "cue before": -0.26, "first sentence": -0.27, "focused": 0.81, "near": 1.65, "sentence": 0.66,
    },
    "person": {
        "beside": 1.35, "cue before": -0.32, "first sentence": 0.11, "focused": 1.75, "near": -1.08,
        "sentence": -0.46,
    },
    "place": {
        "beside": -0.44, "cue before": 1.22, "first sentence": -0.03, "focused": 0.13, "near": -0.33,
        "sentence": -0.41,
    },
    "reason": {
        "beside": -0.08, "cue before": 0.00, "first sentence": -1.40, "focused": -0.40, "near": -0.54,
        "sentence": -0.78,
    },
    "thing": {
        "beside": -0.22, "cue before": 0.00, "first sentence": 0.08, "focused": 1.34, "near": 0.23, "sentence": 1.41,
    },
    "work": {
        "beside": 0.01, "cue before": -0.70, "first sentence": -0.11, "focused": 0.50, "near": 0.34, "sentence": 0.43,
    },
    "year": {
        "beside": 0.62, "cue before": 0.63, "first sentence": 0.51, "focused": 0.56, "near": 0.80, "sentence": -0.55,
    },
}  # fmt: skip

# How well a kind of mention fits a type of answer.
FIT: dict[str, dict[str, float]] = {
    "boolean": {
        "country": -0.04, "date": -0.29, "name": 0.16, "number": -0.70, "people": -0.30, "phrase": -1.25,
        "quoted": 1.52, "region": -0.12, "short name": 0.16, "year": 0.73,
    },
    "country": {
        "country": 3.88, "date": -1.03, "name": -0.46, "number": -0.88, "people": 2.94, "phrase": -1.83,
        "quoted": -0.43, "region": -0.50, "short name": -0.88, "year": -0.96,
    },
    "date": {
        "country": -0.75, "date": 4.41, "name": -1.50, "number": -0.92, "people": -1.09, "phrase": -2.27,
        "quoted": 0.79, "region": -0.53, "short name": -1.00, "year": 2.65,
    },
    "group": {
        "country": 0.99, "date": -0.56, "name": 1.54, "number": -0.74, "people": -0.38, "phrase": -2.11,
        "quoted": 0.24, "region": -0.35, "short name": 2.11, "year": -0.82,
    },
    "name": {
        "country": -0.36, "date": -0.62, "name": 0.74, "number": -0.46, "people": -0.52, "phrase": -2.03,
        "quoted": 3.21, "region": -0.21, "short name": 0.73, "year": -0.45,
    },
    "number": {
        "country": 0.44, "date": -0.62, "name": -1.09, "number": 3.29, "people": -0.40, "phrase": -1.51,
        "quoted": -0.02, "region": -0.28, "short name": -0.74, "year": 0.85,
    },
    "person": {
        "country": 1.46, "date": -0.90, "name": 2.51, "number": -1.67, "people": 1.40, "phrase": -2.72,
        "quoted": -0.78, "region": -0.30, "short name": 1.47, "year": -0.91,
    },
    "place": {
        "country": 1.13, "date": -1.41, "name": 1.22, "number": -0.49, "people": -0.83, "phrase": -1.97,
        "quoted": -0.48, "region": 2.51, "short name": 1.72, "year": -2.07,
    },
    "reason": {
        "country": -0.02, "date": 0.03, "name": -0.43, "number": -0.28, "people": -0.14, "phrase": 2.10,
        "quoted": -0.12, "region": -0.20, "short name": -0.32, "year": -0.47,
    },
    "thing": {
        "country": -0.55, "date": -1.39, "name": 0.99, "number": -0.36, "people": -0.77, "phrase": -0.25,
        "quoted": 2.19, "region": -0.16, "short name": 0.55, "year": -0.83,
    },
    "work": {
        "country": -0.16, "date": -0.57, "name": 1.05, "number": -0.61, "people": -0.64, "phrase": -2.66,
        "quoted": 4.16, "region": -0.05, "short name": 0.36, "year": -0.81,
    },
    "year": {
        "country": -0.31, "date": 2.97, "name": -1.56, "number": -0.36, "people": -0.64, "phrase": -1.90,
        "quoted": -0.42, "region": -0.17, "short name": -0.91, "year": 3.34,
    },
}  # fmt: skip

# Reasons for a path to bear on the question (``judging.relevance_features``).
RELEVANT: dict[str, float] = {
    "best sentence": -0.64, "class asked for": 0.38, "comparison": 0.61, "comparison, title absent": -3.56,
    "coverage": 0.16, "later": -2.00, "linked": 3.51, "links back": 1.02, "names": 1.04, "new": 1.99,
    "off the chain": -0.77, "on the chain": 0.37, "one": -1.49, "solves": 1.99, "title close to a name": 0.52,
    "title in question": 1.04,
}  # fmt: skip

# Reasons for a path to be enough (``judging.sufficiency_features``).
SUFFICIENT: dict[str, float] = {
    "all titles in question": 2.75, "answer on last page": 0.16, "chain stuck": 0.47, "chain waits": -1.16,
    "comparison": 0.73, "comparison complete": -0.97, "complete": 2.22, "coverage": 1.88, "guess on several": -0.28,
    "last step open": -0.53, "last step's coverage": 0.35, "linked": 3.06, "margin": -0.13, "names": 1.92,
    "one": -9.74, "score": 0.20, "several": 3.51, "side missing": -2.04, "three or more": 0.52,
}  # fmt: skip

# Reasons for a name to lead on to the next passage (``queries.bridge_candidates``).
BRIDGE: dict[str, float] = {
    "beside": 3.38, "best page": -0.00, "best sentence": 0.11, "comma after": 0.33, "comma before": -0.08,
    "cue before": 0.09, "first sentence": -1.05, "focused": 1.34, "head after": 0.76, "head before": 0.28,
    "head inside": -0.13, "in parenthesis": -1.08, "is a title": 0.00, "is in question": -1.42, "is own title": 0.00,
    "kind name": 0.61, "kind quoted": 1.49, "kind short name": -1.46, "known elsewhere": 0.00, "late": 0.41,
    "long": -0.58, "near": 2.30, "of after": 0.39, "on last page": -0.00, "page": -0.00, "page in question": -0.00,
    "page is reached": 0.00, "page's best sentence": 0.11, "part of title": -0.32, "quoted": -0.29,
    "repeats question": 0.91, "sentence": 2.95, "title of the class": 0.00,
}  # fmt: skip

# Reasons for a path to begin with a passage (``paths.start_reasons``).
START: dict[str, float] = {
    "comparison, title in question": 6.47, "coverage": 5.57, "first sentence": 1.94, "names": 2.11, "place": -0.70,
    "title in question": 2.79,
}  # fmt: skip

# Reasons for a path to go on with a passage (``paths.step_reasons``).
STEP: dict[str, float] = {
    "comparison": -1.60, "comparison, title in question": -2.98, "coverage": -2.72, "first sentence": 4.07,
    "mention": 2.84, "mentions back": -2.11, "names": 1.29, "new": 13.87, "one": -2.07, "place": -0.47,
    "title in question": -3.05,
}  # fmt: skip
