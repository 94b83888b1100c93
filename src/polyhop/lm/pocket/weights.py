"""The weights of the reader and the judges, fitted by ``benchmarks/pocket_fit.py``: larger is stronger."""

from __future__ import annotations

# Reasons for and against a candidate answer (``reading.features``).
WEIGHTS: dict[str, float] = {
    "beside": 1.97, "best page": -0.29, "best sentence": -0.12, "comma after": 0.20, "comma before": 0.14,
    "cue before": 0.73, "first sentence": 0.03, "focused": 4.54, "head after": 1.09, "head before": 1.16,
    "head inside": 2.84, "in parenthesis": -0.36, "is a title": 1.92, "is in question": -1.63, "is own title": -1.09,
    "known elsewhere": -0.13, "late": -0.37, "long": 0.29, "near": 0.23, "of after": -0.92, "page": -2.11,
    "page in question": 0.65, "page is reached": 2.61, "page's best sentence": 0.40, "part of title": -0.03,
    "quoted": -1.02, "repeats question": -1.21, "sentence": 0.66, "title of the class": 2.10,
}  # fmt: skip

# What is added to a reason's weight where the question asks for a type.
BY_TYPE: dict[str, dict[str, float]] = {
    "boolean": {
        "beside": -0.25, "cue before": 0.00, "first sentence": 0.04, "focused": -0.25, "near": -0.28,
        "sentence": 0.23,
    },
    "country": {
        "beside": 0.18, "cue before": 0.37, "first sentence": 0.73, "focused": -0.06, "near": -0.43,
        "sentence": -0.65,
    },
    "date": {
        "beside": -0.11, "cue before": -0.31, "first sentence": 0.52, "focused": -0.70, "near": -1.04,
        "sentence": -0.16,
    },
    "group": {
        "beside": -0.08, "cue before": 0.24, "first sentence": -0.47, "focused": 0.86, "near": 0.72, "sentence": 1.34,
    },
    "name": {
        "beside": 0.16, "cue before": 0.00, "first sentence": 0.35, "focused": 0.01, "near": -0.06, "sentence": -0.30,
    },
    "number": {
        "beside": 0.84, "cue before": -0.18, "first sentence": -0.39, "focused": 0.77, "near": 1.61, "sentence": 0.73,
    },
    "person": {
        "beside": 1.35, "cue before": -0.33, "first sentence": 0.06, "focused": 1.75, "near": -1.09,
        "sentence": -0.52,
    },
    "place": {
        "beside": -0.48, "cue before": 1.19, "first sentence": -0.06, "focused": 0.28, "near": -0.05,
        "sentence": -0.45,
    },
    "reason": {
        "beside": -0.11, "cue before": 0.00, "first sentence": -1.36, "focused": -0.40, "near": -0.50,
        "sentence": -0.84,
    },
    "thing": {
        "beside": -0.20, "cue before": 0.00, "first sentence": 0.08, "focused": 1.30, "near": 0.38, "sentence": 1.26,
    },
    "work": {
        "beside": 0.03, "cue before": -0.80, "first sentence": -0.12, "focused": 0.44, "near": 0.15, "sentence": 0.53,
    },
    "year": {
        "beside": 0.61, "cue before": 0.63, "first sentence": 0.58, "focused": 0.54, "near": 0.72, "sentence": -0.47,
    },
}  # fmt: skip

# How well a kind of mention fits a type of answer.
FIT: dict[str, dict[str, float]] = {
    "boolean": {
        "country": -0.04, "date": -0.27, "name": 0.13, "number": -0.65, "people": -0.27, "phrase": -1.22,
        "quoted": 1.51, "region": -0.08, "short name": 0.20, "year": 0.71,
    },
    "country": {
        "country": 3.81, "date": -1.09, "name": -0.40, "number": -0.86, "people": 2.90, "phrase": -1.81,
        "quoted": -0.44, "region": -0.45, "short name": -0.80, "year": -0.96,
    },
    "date": {
        "country": -0.71, "date": 4.36, "name": -1.53, "number": -0.92, "people": -1.10, "phrase": -2.31,
        "quoted": 0.77, "region": -0.52, "short name": -0.98, "year": 2.71,
    },
    "group": {
        "country": 0.88, "date": -0.58, "name": 1.48, "number": -0.71, "people": -0.25, "phrase": -2.14,
        "quoted": 0.25, "region": -0.33, "short name": 2.10, "year": -0.81,
    },
    "name": {
        "country": -0.34, "date": -0.61, "name": 0.65, "number": -0.38, "people": -0.57, "phrase": -2.01,
        "quoted": 3.23, "region": -0.19, "short name": 0.66, "year": -0.43,
    },
    "number": {
        "country": 0.40, "date": -0.60, "name": -1.19, "number": 3.31, "people": -0.43, "phrase": -1.49,
        "quoted": 0.01, "region": -0.29, "short name": -0.74, "year": 0.85,
    },
    "person": {
        "country": 1.49, "date": -0.93, "name": 2.49, "number": -1.64, "people": 1.36, "phrase": -2.66,
        "quoted": -0.74, "region": -0.29, "short name": 1.46, "year": -0.90,
    },
    "place": {
        "country": 1.17, "date": -1.40, "name": 1.17, "number": -0.49, "people": -0.81, "phrase": -1.95,
        "quoted": -0.47, "region": 2.53, "short name": 1.75, "year": -2.06,
    },
    "reason": {
        "country": -0.03, "date": -0.02, "name": -0.44, "number": -0.33, "people": -0.20, "phrase": 2.11,
        "quoted": -0.14, "region": -0.23, "short name": -0.34, "year": -0.50,
    },
    "thing": {
        "country": -0.57, "date": -1.39, "name": 0.94, "number": -0.39, "people": -0.75, "phrase": -0.24,
        "quoted": 2.24, "region": -0.19, "short name": 0.56, "year": -0.82,
    },
    "work": {
        "country": -0.18, "date": -0.59, "name": 1.12, "number": -0.63, "people": -0.71, "phrase": -2.74,
        "quoted": 4.08, "region": -0.09, "short name": 0.52, "year": -0.90,
    },
    "year": {
        "country": -0.35, "date": 2.90, "name": -1.46, "number": -0.38, "people": -0.67, "phrase": -1.92,
        "quoted": -0.48, "region": -0.16, "short name": -0.91, "year": 3.36,
    },
}  # fmt: skip

# Reasons for a path to bear on the question (``judging.relevance_features``).
RELEVANT: dict[str, float] = {
    "best sentence": -0.77, "class asked for": 0.34, "comparison": 0.77, "comparison, title absent": -3.57,
    "coverage": 0.27, "later": -1.92, "linked": 3.76, "links back": 1.00, "names": 1.19, "new": 1.86,
    "on the chain": 0.41, "one": -1.78, "solves": 1.46, "title close to a name": 0.66, "title in question": 1.05,
}  # fmt: skip

# Reasons for a path to be enough (``judging.sufficiency_features``).
SUFFICIENT: dict[str, float] = {
    "all titles in question": 2.99, "answer on last page": 0.11, "chain stuck": -0.17, "chain waits": -0.09,
    "comparison": 0.42, "comparison complete": -0.36, "complete": 1.53, "coverage": 1.62, "guess on several": -0.26,
    "last step open": -0.61, "last step's coverage": 0.43, "linked": 3.27, "margin": -0.09, "names": 1.92,
    "one": -9.81, "score": 0.18, "several": 3.75, "side missing": -1.87, "three or more": 0.48,
}  # fmt: skip

# Reasons for a name to lead on to the next passage (``queries.bridge_candidates``).
BRIDGE: dict[str, float] = {
    "beside": 6.21, "best page": -0.00, "best sentence": 0.04, "comma after": 0.16, "comma before": -0.30,
    "cue before": 0.13, "first sentence": -1.20, "focused": 2.50, "head after": 0.63, "head before": 0.35,
    "head inside": -0.21, "in parenthesis": -1.49, "is a title": 0.00, "is in question": -1.57, "is own title": 0.00,
    "kind name": 0.67, "kind quoted": 1.60, "kind short name": -1.76, "known elsewhere": 0.00, "late": -0.10,
    "long": -0.65, "near": 3.15, "of after": 0.43, "on last page": -0.00, "page": -0.00, "page in question": -0.00,
    "page is reached": 0.00, "page's best sentence": 0.04, "part of title": -0.39, "quoted": -0.68,
    "repeats question": 0.61, "sentence": 2.98, "title of the class": 0.00,
}  # fmt: skip
