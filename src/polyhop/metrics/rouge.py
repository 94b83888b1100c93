"""ROUGE-L (Lin, 2004): the longest common subsequence of the words of two texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

from polyhop.common.text import words

_ASCII_WORD = re.compile(r"[a-z0-9]+")
_words = lru_cache(maxsize=256)(words)  # an answer is compared with each of its references


def rouge_l(prediction: str, reference: str, kind: Literal["f", "precision", "recall"] = "f") -> float:
    """Compute ROUGE-L with one reference: summary level, words in lower case, no stemming, no stop words, β = 1.

    ``precision`` is over the words of the prediction, ``recall`` over those of the reference; 0 if either has no words.

    >>> rouge_l("police killed the gunman", "the gunman killed the police", "precision")
    0.5
    """
    return _scores(_words(prediction), _words(reference))[kind]


def best_rouge_l(prediction: str, references: Iterable[str]) -> float:
    """Compute ROUGE-L F with the best reference, over words as Google's ``rouge-score`` splits them, without its
    stemmer: runs of ASCII letters and digits, so "don't" is two words and an accent ends a word.

    >>> best_rouge_l("the cat", ["The cat.", "a dog"])
    1.0
    """
    predicted = _ASCII_WORD.findall(prediction.lower())
    return max((_scores(predicted, _ASCII_WORD.findall(text.lower()))["f"] for text in references), default=0.0)


def _scores(predicted: Sequence[str], reference: Sequence[str]) -> dict[str, float]:
    common = _common_subsequence(predicted, reference) if predicted and reference else 0
    if not common:
        return {"f": 0.0, "precision": 0.0, "recall": 0.0}
    precision, recall = common / len(predicted), common / len(reference)
    return {"f": 2 * precision * recall / (precision + recall), "precision": precision, "recall": recall}


def _common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, in time that long answers allow: a row of the table is one
    integer, whose zero bits are the steps (Hyyrö, 2004)."""
    positions: dict[str, int] = {}
    for i, word in enumerate(first):
        positions[word] = positions.get(word, 0) | 1 << i
    mask = (1 << len(first)) - 1
    row = mask
    for word in second:
        if word in positions:
            matches = row & positions[word]
            row = (row + matches | row - matches) & mask
    return len(first) - row.bit_count()
