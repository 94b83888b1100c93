"""ROUGE-L (Lin, 2004): the longest common subsequence of two texts' words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

from polyhop.common.text import words

_ASCII_WORD = re.compile(r"[a-z0-9]+")
_words = lru_cache(maxsize=256)(words)  # an answer is compared with each of its references


def rouge_l(told: str, other: str, kind: Literal["f", "precision", "recall"] = "f") -> float:
    """The common subsequence's length over one side's length or both.

    Summary level, one reference: words in lower case, no stemming, no stop words dropped, β = 1. ``precision`` is over
    the words of ``told``, ``recall`` over those of ``other``; 0 where either has none.

    >>> rouge_l("police killed the gunman", "the gunman killed the police", "precision")
    0.5
    """
    return _of(_words(told), _words(other))[kind]


def best_rouge_l(prediction: str, references: Iterable[str]) -> float:
    """ROUGE-L F with the best reference, over words as Google's ``rouge-score`` takes them, without its stemmer: runs
    of ASCII letters and digits, so that "don't" is two and an accent ends a word.

    >>> best_rouge_l("the cat", ["The cat.", "a dog"])
    1.0
    """
    told = _ASCII_WORD.findall(prediction.lower())
    return max((_of(told, _ASCII_WORD.findall(one.lower()))["f"] for one in references), default=0.0)


def _of(told: Sequence[str], other: Sequence[str]) -> dict[str, float]:
    same = _longest_common_subsequence(told, other) if told and other else 0
    if not same:
        return {"f": 0.0, "precision": 0.0, "recall": 0.0}
    precision, recall = same / len(told), same / len(other)
    return {"f": 2 * precision * recall / (precision + recall), "precision": precision, "recall": recall}


def _longest_common_subsequence(one: Sequence[str], other: Sequence[str]) -> int:
    """Its length, a row of the table an integer whose zero bits are the steps (Hyyrö, 2004): long answers are cheap."""
    places: dict[str, int] = {}
    for at, word in enumerate(one):
        places[word] = places.get(word, 0) | 1 << at
    whole = (1 << len(one)) - 1
    row = whole
    for word in other:
        if word in places:
            hit = row & places[word]
            row = (row + hit | row - hit) & whole
    return len(one) - row.bit_count()
