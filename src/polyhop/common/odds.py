"""Probabilities and their log-odds."""

from __future__ import annotations

import math

_MAX_LOG_ODDS = 30.0


def sigmoid(log_odds: float) -> float:
    """Return the probability of log-odds.

    >>> sigmoid(0.0), sigmoid(-1e9) > 0
    (0.5, True)
    """
    return 1.0 / (1.0 + math.exp(-max(-_MAX_LOG_ODDS, min(log_odds, _MAX_LOG_ODDS))))


def log_odds(probability: float, highest: float) -> float:
    """Return the log-odds of a probability, which is bounded by ``highest`` and ``1 - highest``.

    >>> log_odds(0.5, 0.99), round(log_odds(1.0, 0.99), 2)
    (0.0, 4.6)
    """
    bounded = min(highest, max(1.0 - highest, probability))
    return math.log(bounded / (1.0 - bounded))
