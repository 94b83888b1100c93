"""The weights of the reader and the judges, fitted by ``benchmarks/pocket_fit.py``: larger is stronger."""

from __future__ import annotations

# Reasons for and against a candidate answer (``reading.features``).
WEIGHTS: dict[str, float] = {
    "beside": 2.09, "best page": -0.18, "best sentence": -0.13, "comma after": 0.24, "comma before": 0.11,
    "cue before": 0.69, "first sentence": 0.02, "focused": 4.67, "head after": 1.07, "head before": 1.14,
    "head inside": 2.79, "in parenthesis": -0.41, "is a title": 1.96, "is in question": -1.63, "is own title": -1.12,
    "known elsewhere": -0.13, "late": -0.41, "long": 0.28, "near": 0.20, "of after": -0.95, "page": -2.08,
    "page in question": 1.02, "page is reached": 2.88, "page's best sentence": 0.44, "part of title": -0.10,
    "quoted": -1.01, "repeats question": -1.24, "sentence": 0.56, "title of the class": 2.13,
}  # fmt: skip

# What is added to a reason's weight where the question asks for a type.
BY_TYPE: dict[str, dict[str, float]] = {
    "boolean": {
        "beside": -0.22, "cue before": 0.00, "first sentence": -0.01, "focused": -0.24, "near": -0.27,
        "sentence": 0.19,
    },
    "country": {
        "beside": 0.35, "cue before": 0.36, "first sentence": 0.55, "focused": -0.08, "near": -0.43,
        "sentence": -0.66,
    },
    "date": {
        "beside": -0.18, "cue before": -0.25, "first sentence": 0.55, "focused": -0.70, "near": -1.02,
        "sentence": -0.09,
    },
    "group": {
        "beside": -0.13, "cue before": 0.24, "first sentence": -0.43, "focused": 0.96, "near": 0.92, "sentence": 1.39,
    },
    "name": {
        "beside": 0.16, "cue before": 0.00, "first sentence": 0.45, "focused": 0.04, "near": -0.04, "sentence": -0.45,
    },
    "number": {
        "beside": 0.87, "cue before": -0.23, "first sentence": -0.30, "focused": 0.87, "near": 1.73, "sentence": 0.65,
    },
    "person": {
        "beside": 1.33, "cue before": -0.34, "first sentence": 0.14, "focused": 1.79, "near": -1.05,
        "sentence": -0.48,
    },
    "place": {
        "beside": -0.48, "cue before": 1.21, "first sentence": -0.03, "focused": 0.13, "near": -0.28,
        "sentence": -0.45,
    },
    "reason": {
        "beside": -0.11, "cue before": 0.00, "first sentence": -1.36, "focused": -0.40, "near": -0.54,
        "sentence": -0.79,
    },
    "thing": {
        "beside": -0.22, "cue before": 0.00, "first sentence": 0.08, "focused": 1.35, "near": 0.23, "sentence": 1.39,
    },
    "work": {
        "beside": 0.02, "cue before": -0.73, "first sentence": -0.13, "focused": 0.43, "near": 0.18, "sentence": 0.51,
    },
    "year": {
        "beside": 0.61, "cue before": 0.64, "first sentence": 0.53, "focused": 0.55, "near": 0.79, "sentence": -0.57,
    },
}  # fmt: skip

# How well a kind of mention fits a type of answer.
FIT: dict[str, dict[str, float]] = {
    "boolean": {
        "country": -0.01, "date": -0.24, "name": 0.14, "number": -0.70, "people": -0.29, "phrase": -1.24,
        "quoted": 1.52, "region": -0.14, "short name": 0.15, "year": 0.75,
    },
    "country": {
        "country": 3.89, "date": -1.05, "name": -0.53, "number": -0.84, "people": 2.95, "phrase": -1.84,
        "quoted": -0.42, "region": -0.46, "short name": -0.86, "year": -0.97,
    },
    "date": {
        "country": -0.74, "date": 4.40, "name": -1.52, "number": -0.87, "people": -1.08, "phrase": -2.28,
        "quoted": 0.77, "region": -0.54, "short name": -0.97, "year": 2.69,
    },
    "group": {
        "country": 0.98, "date": -0.59, "name": 1.52, "number": -0.76, "people": -0.34, "phrase": -2.11,
        "quoted": 0.25, "region": -0.28, "short name": 2.10, "year": -0.79,
    },
    "name": {
        "country": -0.36, "date": -0.58, "name": 0.71, "number": -0.44, "people": -0.52, "phrase": -2.02,
        "quoted": 3.21, "region": -0.21, "short name": 0.74, "year": -0.44,
    },
    "number": {
        "country": 0.40, "date": -0.60, "name": -1.08, "number": 3.31, "people": -0.41, "phrase": -1.53,
        "quoted": -0.04, "region": -0.26, "short name": -0.72, "year": 0.82,
    },
    "person": {
        "country": 1.49, "date": -0.92, "name": 2.50, "number": -1.71, "people": 1.35, "phrase": -2.71,
        "quoted": -0.80, "region": -0.32, "short name": 1.47, "year": -0.91,
    },
    "place": {
        "country": 1.15, "date": -1.44, "name": 1.19, "number": -0.50, "people": -0.84, "phrase": -1.97,
        "quoted": -0.48, "region": 2.51, "short name": 1.71, "year": -2.07,
    },
    "reason": {
        "country": -0.01, "date": 0.04, "name": -0.42, "number": -0.27, "people": -0.14, "phrase": 2.09,
        "quoted": -0.14, "region": -0.17, "short name": -0.34, "year": -0.48,
    },
    "thing": {
        "country": -0.56, "date": -1.38, "name": 0.95, "number": -0.36, "people": -0.76, "phrase": -0.23,
        "quoted": 2.22, "region": -0.20, "short name": 0.58, "year": -0.82,
    },
    "work": {
        "country": -0.15, "date": -0.55, "name": 1.09, "number": -0.60, "people": -0.70, "phrase": -2.65,
        "quoted": 4.18, "region": -0.04, "short name": 0.33, "year": -0.85,
    },
    "year": {
        "country": -0.31, "date": 2.95, "name": -1.56, "number": -0.41, "people": -0.65, "phrase": -1.91,
        "quoted": -0.43, "region": -0.16, "short name": -0.93, "year": 3.36,
    },
}  # fmt: skip

# Reasons for a path to bear on the question (``judging.relevance_features``).
RELEVANT: dict[str, float] = {
    "best sentence": -0.61, "class asked for": 0.39, "comparison": 0.61, "comparison, title absent": -3.55,
    "coverage": 0.16, "later": -2.00, "linked": 3.53, "links back": 1.05, "names": 1.03, "new": 1.97,
    "off the chain": -0.76, "on the chain": 0.35, "one": -1.51, "solves": 1.99, "title close to a name": 0.53,
    "title in question": 1.05,
}  # fmt: skip

# Reasons for a path to be enough (``judging.sufficiency_features``).
SUFFICIENT: dict[str, float] = {
    "all titles in question": 2.79, "answer on last page": 0.13, "chain stuck": 0.40, "chain waits": -1.15,
    "comparison": 0.68, "comparison complete": -0.94, "complete": 2.20, "coverage": 1.87, "guess on several": -0.24,
    "last step open": -0.48, "last step's coverage": 0.36, "linked": 3.08, "margin": -0.13, "names": 1.91,
    "one": -9.75, "score": 0.19, "several": 3.53, "side missing": -2.06, "three or more": 0.51,
}  # fmt: skip

# Reasons for a name to lead on to the next passage (``queries.bridge_candidates``).
BRIDGE: dict[str, float] = {
    "beside": 3.27, "best page": -0.00, "best sentence": 0.12, "comma after": 0.32, "comma before": -0.09,
    "cue before": 0.07, "first sentence": -1.03, "focused": 1.37, "head after": 0.75, "head before": 0.32,
    "head inside": -0.13, "in parenthesis": -1.07, "is a title": 0.00, "is in question": -1.40, "is own title": 0.00,
    "kind name": 0.66, "kind quoted": 1.42, "kind short name": -1.43, "known elsewhere": 0.00, "late": 0.43,
    "long": -0.62, "near": 2.28, "of after": 0.39, "on last page": -0.00, "page": -0.00, "page in question": -0.00,
    "page is reached": 0.00, "page's best sentence": 0.12, "part of title": -0.32, "quoted": -0.13,
    "repeats question": 0.87, "sentence": 2.94, "title of the class": 0.00,
}  # fmt: skip
