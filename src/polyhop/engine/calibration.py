"""Calibration: the probability that an answer is right, from what its model and its method say of it.

A small logistic model per method and language model, fitted on answers to labelled questions by ``polyhop tune
confidence`` (``evaluation/tuning/confidence.py``). Its file also has the weights that turn the features of a reading of
the cited passages into a probability of support, the probability from which an answer counts as supported, and the
confidence below which it is withheld.
The calibration of ``pocket`` is shipped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from polyhop.answer import Answer
from polyhop.common.odds import log_odds, sigmoid
from polyhop.errors import DataError, UsageError
from polyhop.types import BlindReading

Weights: TypeAlias = Mapping[str, float]

ANY = "*"
"""The name of the weights for methods that have none of their own."""
SUPPORTED_FROM = 0.5
"""The minimum probability at which a reading with an equal answer supports it, unless a calibration sets another."""
SHIPPED = Path(__file__).parents[1] / "lm" / "pocket" / "tables" / "confidence.json"
_SUREST = 0.99


@dataclass(frozen=True, slots=True)
class Calibration:
    """Weights of one language model: of a reading's features, and of an answer's by method; and the probability from
    which a reading supports an answer, by method."""

    model: str
    methods: Mapping[str, Weights]
    reading: Weights = field(default_factory=dict)
    supported_from: Mapping[str, float] = field(default_factory=dict)
    withhold_below: float | None = None
    fingerprint: str | None = None
    """The hash of a user's file; None for the shipped calibration."""

    def support(self, reading: BlindReading) -> float | None:
        """Return the probability that passages give the answer that was read from them; None if it is not known."""
        if self.reading and reading.features:
            return logistic(self.reading, {"constant": 1.0, **reading.features})
        return reading.probability

    def support_threshold(self, method: str) -> float:
        """Return the minimum probability at which a reading supports an answer of a method."""
        return self.supported_from.get(method, self.supported_from.get(ANY, SUPPORTED_FROM))

    def confidence(self, method: str, answer: Answer) -> float | None:
        """Return the probability that an answer is right; None without weights for the method."""
        weights = self.methods.get(method) or self.methods.get(ANY)
        return logistic(weights, features_of(answer.signals, answer.support)) if weights and answer.text else None


def features_of(signals: Mapping[str, float], support: str) -> dict[str, float]:
    """Return what a confidence is made of: the model's own probability, the agreement of the evidence, and the
    support."""
    own, read, agrees = signals.get("probability"), signals.get("support"), bool(signals.get("agrees", True))
    return {
        "constant": 1.0,
        "probability": 0.0 if own is None else log_odds(own, _SUREST),
        "no probability": float(own is None),
        "agreement": signals.get("agreement", 0.5),
        "support": log_odds(read, _SUREST) if read is not None and agrees else 0.0,
        "disagrees": float(not agrees),
        "supported": float(read is None and support == "supported"),
        "contradicted": float(support == "contradicted"),
    }


def logistic(weights: Weights, features: Mapping[str, float]) -> float:
    """Return the probability of features by a logistic model."""
    return sigmoid(sum(weight * features.get(name, 0.0) for name, weight in weights.items()))


def open_calibration(path: str | Path | None, model: str) -> Calibration | None:
    """Read the calibration of a model; without a path the shipped one, if the model is pocket.

    Raises:
        DataError: the file is missing, or is no calibration.
        UsageError: it is that of another model.
    """
    if path is None and model != "pocket":
        return None
    calibration = read_calibration(path or SHIPPED)
    if path is not None:
        calibration = replace(calibration, fingerprint=sha256(Path(path).read_bytes()).hexdigest()[:16])
    if calibration.model != model:
        raise UsageError(f"{path} calibrates {calibration.model}, not {model}: fit one with polyhop tune confidence")
    return calibration


def read_calibration(path: str | Path) -> Calibration:
    """Read a calibration; ``DataError`` if it is none."""
    try:
        held: dict[str, Any] = orjson.loads(Path(path).read_bytes())
        methods = {str(name): _weights(weights) for name, weights in held["methods"].items()}
        limit = held["withhold_below"]
        return Calibration(
            str(held["model"]), methods, _weights(held["reading"]), _thresholds(held["supported_from"]),
            None if limit is None else float(limit),
        )  # fmt: skip
    except OSError as error:
        raise DataError(f"the calibration cannot be read: {error.strerror}", path) from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError("not a calibration: fit one with polyhop tune confidence", path) from None


def _thresholds(held: Any) -> Weights:
    """Read thresholds by method; files of version 0.1 have one for all."""
    return _weights(held if isinstance(held, Mapping) else {ANY: held})


def _weights(held: Mapping[str, Any]) -> Weights:
    weights = {str(name): float(value) for name, value in held.items()}
    if not all(map(math.isfinite, weights.values())):
        raise ValueError(held)
    return weights
