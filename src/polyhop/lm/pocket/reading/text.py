"""Text: tokens with their positions, sentences, stems and their weights, and the dates and numbers in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from polyhop.common.text import STOP_WORDS, fold
from polyhop.lm.pocket.reading.tables import words

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
class TokenizedText:
    """A text with its tokens; the start, stem and sentence number of each are lists of the same length."""

    text: str
    tokens: list[str]
    starts: list[int]
    stems: list[str]
    sentence_of: list[int]


def tokenize(text: str) -> TokenizedText:
    """Split a text into tokens and sentences.

    >>> tokenized = tokenize("J. Smith left. He died.")
    >>> tokenized.tokens, tokenized.sentence_of
    (['J', '.', 'Smith', 'left', '.', 'He', 'died', '.'], [0, 0, 0, 0, 0, 1, 1, 1])
    """
    found = list(TOKEN.finditer(text))
    tokens = [match.group() for match in found]
    return TokenizedText(
        text, tokens, [match.start() for match in found], list(map(stem_of, tokens)), _sentence_numbers(tokens)
    )


@lru_cache(maxsize=65536)
def stem_of(word: str) -> str:
    """The stem of a word: no accents, possessive or inflection, and one stem per family of words.

    >>> stem_of("Directed"), stem_of("director"), stem_of("cities"), stem_of("city's")
    ('direct', 'direct', 'city', 'city')
    """
    bare = fold(word).replace("’", "'").removesuffix("'s").strip("'.")
    families = words().families
    if bare in families:
        return families[bare]
    stem = bare
    if bare.isalpha() and bare.isascii():
        for suffix, ending in _SUFFIXES:
            if bare.endswith(suffix) and len(bare) - len(suffix) >= 3 and not (suffix == "s" and bare.endswith("ss")):
                stem = bare[: len(bare) - len(suffix)] + ending
                break
    return families.get(stem, stem)


@lru_cache(maxsize=65536)
def stem_weight(stem: str) -> float:
    """The weight of a stem, from 0 (stop words) to 1: low for general words, high for numbers and rare-looking words.

    Rarer English words are longer. Length and a list of general words stand in for the counts of a corpus.
    """
    if stem in STOP_WORDS or not stem or not stem[0].isalnum():
        return 0.0
    if stem in common_stems():
        return _GENERAL_WEIGHT
    if stem.isdigit():
        return _NUMBER_WEIGHT
    return min(1.0, 0.5 + 0.06 * len(stem))


@lru_cache(maxsize=1)
def common_stems() -> frozenset[str]:
    """The stems of words that are too general to tell one page from another."""
    return frozenset(stem_of(word) for word in words().common)


def content_stems(text: str) -> tuple[str, ...]:
    """The stems of a text that have a weight, in order.

    >>> content_stems("The capital of Norway")
    ('capital', 'norway')
    """
    return tuple(stem for stem in map(stem_of, TOKEN.findall(text)) if stem_weight(stem))


def is_short(token: str) -> bool:
    """True for an initial or an abbreviation, whose full stop ends no sentence."""
    return (len(token) == 1 and token.isalpha()) or "." in token or token.lower() in _ABBREVIATIONS


def _sentence_numbers(tokens: Sequence[str]) -> list[int]:
    numbers: list[int] = []
    number = 0
    for i, token in enumerate(tokens):
        numbers.append(number)
        if token in _SENTENCE_END and i and i + 1 < len(tokens):
            before, after = tokens[i - 1], tokens[i + 1]
            opens = after[0].isupper() or after[0].isdigit() or after in QUOTES
            number += opens and not (token == "." and is_short(before))
    return numbers


class Date(NamedTuple):
    """A date. Unknown parts are 0; dates are compared by the parts that both have."""

    year: int
    month: int = 0
    day: int = 0


_YEAR = r"(?:1\d{3}|20\d{2}|[5-9]\d{2})"


@lru_cache(maxsize=1)
def _date_pattern() -> re.Pattern[str]:
    month = "|".join(sorted(words().months, key=len, reverse=True))
    forms = (
        rf"(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m1>{month})\.?,? (?P<y1>\d{{3,4}})",  # 5 October 1987
        rf"(?P<m2>{month})\.? (?P<d2>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<y2>\d{{3,4}})",  # October 5, 1987
        rf"(?P<m3>{month})\.?,? (?:of )?(?P<y3>\d{{4}})",  # October 1987
        rf"(?P<d5>\d{{1,2}})(?:st|nd|rd|th)? (?P<m5>{month})|(?P<m4>{month})\.? (?P<d4>\d{{1,2}})(?:st|nd|rd|th)?",
        r"(?P<y6>\d{4})s",  # the 1980s
        rf"(?P<y5>{_YEAR})",
    )
    return re.compile(rf"(?<![\w.,-])(?:{'|'.join(forms)})(?!\w|[.,]\d)", re.IGNORECASE)


@lru_cache(maxsize=1)
def _number_pattern() -> re.Pattern[str]:
    word = "|".join(sorted(words().numbers, key=len, reverse=True))
    return re.compile(
        rf"(?<![\w.])(?:(?P<digits>\d{{1,15}}(?:,\d{{3}}){{0,6}}(?:\.\d{{1,6}})?)|(?P<word>{word}))"
        rf"(?: (?P<times>{'|'.join(words().multipliers)}))?(?!\w)",
        re.IGNORECASE,
    )


class ParsedValue(NamedTuple):
    """A date or number in a text: its characters, its kind and its value."""

    start: int
    end: int
    kind: str
    value: Date | float


def find_dates(text: str) -> Iterator[ParsedValue]:
    """Find the dates in a text. ``kind`` is "date" if the month is known, else "year".

    >>> [(f.kind, f.value) for f in find_dates("He was born on 5 October 1987 and retired in 2014.")]
    [('date', Date(year=1987, month=10, day=5)), ('year', Date(year=2014, month=0, day=0))]
    """
    for match in _date_pattern().finditer(text):
        parts = {key[0]: value for key, value in match.groupdict().items() if value}
        month = words().months[parts["m"].lower()] if "m" in parts else 0
        day = int(parts.get("d", 0))
        if day > 31 or ("m" in parts and "y" not in parts and parts["m"] == "may"):
            continue
        yield ParsedValue(
            match.start(), match.end(), "date" if month else "year", Date(int(parts.get("y", 0)), month, day)
        )


def parse_date(text: str) -> Date | None:
    """The first date in a text.

    >>> parse_date("July 1923"), parse_date("unknown")
    (Date(year=1923, month=7, day=0), None)
    """
    return next((found.value for found in find_dates(text) if isinstance(found.value, Date)), None)


def find_numbers(text: str) -> Iterator[ParsedValue]:
    """Find the numbers in a text, in figures and in words.

    >>> [f.value for f in find_numbers("about 2.5 million people in twelve towns")]
    [2500000.0, 12.0]
    """
    for match in _number_pattern().finditer(text):
        digits, word, times = match["digits"], match["word"], match["times"]
        value = float(digits.replace(",", "")) if digits else words().numbers[word.lower()]
        if times:
            value *= words().multipliers[times.lower()]
        yield ParsedValue(match.start(), match.end(), "number", value)


def parse_number(text: str) -> float | None:
    """The first number in a text.

    >>> parse_number("a crowd of 12,500"), parse_number("none")
    (12500.0, None)
    """
    return next((found.value for found in find_numbers(text) if isinstance(found.value, (int, float))), None)


def earlier(first: Date, second: Date) -> bool | None:
    """True if ``first`` is before ``second``; None if the parts that both have do not decide it.

    >>> earlier(Date(1900), Date(1901, 5)), earlier(Date(1900), Date(1900, 2))
    (True, None)
    """
    for left, right in zip(first, second, strict=True):
        if left != right:
            return None if 0 in (left, right) else left < right
    return None
