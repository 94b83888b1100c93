"""Text taken apart: tokens with their places, sentences, stems, and how much each stem tells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from polyhop.common.text import STOP_WORDS, fold
from polyhop.lm.pocket.reading.lexicon import COMMON, FAMILIES

TOKEN = re.compile(r"\w+(?:[.'’&-]\w+)*|[^\w\s]")
QUOTES = frozenset('"“”«»')
_SENTENCE_END = frozenset(".!?")
_ABBREVIATIONS = frozenset(
    "mr mrs ms dr prof st mt jr sr gen col lt capt sgt rev hon gov sen vs etc no vol inc ltd co ca".split()
)
_SUFFIXES = (
    ("ies", "y"), ("sses", "ss"), ("ing", ""), ("edly", ""), ("ed", ""), ("es", ""), ("s", ""), ("e", "")
)  # fmt: skip
_GENERAL_WEIGHT, _NUMBER_WEIGHT = 0.25, 0.8


@dataclass(slots=True)
class Wording:
    """A text's tokens, where each starts, its stem, and the number of its sentence: four lists of one length."""

    text: str
    tokens: list[str]
    starts: list[int]
    roots: list[str]
    sentence_of: list[int]


def take_apart(text: str) -> Wording:
    """Tokens, places, stems and sentences of a text.

    >>> wording = take_apart("J. Smith left. He died.")
    >>> wording.tokens, wording.sentence_of
    (['J', '.', 'Smith', 'left', '.', 'He', 'died', '.'], [0, 0, 0, 0, 0, 1, 1, 1])
    """
    found = list(TOKEN.finditer(text))
    tokens = [match.group() for match in found]
    return Wording(text, tokens, [match.start() for match in found], list(map(stem, tokens)), _sentence_numbers(tokens))


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """A word without accents, possessive and inflection, and words of one family made one.

    >>> stem("Directed"), stem("director"), stem("cities"), stem("city's")
    ('direct', 'direct', 'city', 'city')
    """
    bare = fold(word).replace("’", "'").removesuffix("'s").strip("'.")
    if bare in FAMILIES:
        return FAMILIES[bare]
    root = bare
    if bare.isalpha() and bare.isascii():
        for suffix, ending in _SUFFIXES:
            if bare.endswith(suffix) and len(bare) - len(suffix) >= 3 and not (suffix == "s" and bare.endswith("ss")):
                root = bare[: len(bare) - len(suffix)] + ending
                break
    return FAMILIES.get(root, root)


@lru_cache(maxsize=65536)
def weight(root: str) -> float:
    """How much a stem tells, from 0 (stop words) to 1: general words little, numbers and rare-looking words much.

    English words grow longer as they grow rarer; without a corpus's counts, length and a list of general words do.
    """
    if root in STOP_WORDS or not root or not root[0].isalnum():
        return 0.0
    if root in COMMON_ROOTS:
        return _GENERAL_WEIGHT
    if root.isdigit():
        return _NUMBER_WEIGHT
    return min(1.0, 0.5 + 0.06 * len(root))


COMMON_ROOTS = frozenset(stem(word) for word in COMMON)


def content_roots(text: str) -> tuple[str, ...]:
    """The stems of a text's telling words, in order.

    >>> content_roots("The capital of Norway")
    ('capital', 'norway')
    """
    return tuple(root for root in map(stem, TOKEN.findall(text)) if weight(root))


def is_short(token: str) -> bool:
    """An initial or abbreviation, whose full stop ends no sentence."""
    return (len(token) == 1 and token.isalpha()) or "." in token or token.lower() in _ABBREVIATIONS


def _sentence_numbers(tokens: Sequence[str]) -> list[int]:
    numbers: list[int] = []
    number = 0
    for place, token in enumerate(tokens):
        numbers.append(number)
        if token in _SENTENCE_END and place and place + 1 < len(tokens):
            before, after = tokens[place - 1], tokens[place + 1]
            opens = after[0].isupper() or after[0].isdigit() or after in QUOTES
            number += opens and not (token == "." and is_short(before))
    return numbers
