"""Dates and numbers: found in text, and read into values that can be compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from polyhop.lm.pocket.reading.lexicon import MONTHS, MULTIPLIERS, NUMBER_WORDS


class Date(NamedTuple):
    """A date as far as it is known; unknown parts are 0, so dates compare by what they share."""

    year: int
    month: int = 0
    day: int = 0


_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_YEAR = r"(?:1\d{3}|20\d{2}|[5-9]\d{2})"
_DATE_FORMS = (
    rf"(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m1>{_MONTH})\.?,? (?P<y1>\d{{3,4}})",  # 5 October 1987
    rf"(?P<m2>{_MONTH})\.? (?P<d2>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<y2>\d{{3,4}})",  # October 5, 1987
    rf"(?P<m3>{_MONTH})\.?,? (?:of )?(?P<y3>\d{{4}})",  # October 1987
    rf"(?P<d5>\d{{1,2}})(?:st|nd|rd|th)? (?P<m5>{_MONTH})|(?P<m4>{_MONTH})\.? (?P<d4>\d{{1,2}})(?:st|nd|rd|th)?",
    r"(?P<y6>\d{4})s",  # the 1980s
    rf"(?P<y5>{_YEAR})",
)
_DATE = re.compile(rf"(?<![\w.,-])(?:{'|'.join(_DATE_FORMS)})(?!\w|[.,]\d)", re.IGNORECASE)
_NUMBER_WORD = "|".join(sorted(NUMBER_WORDS, key=len, reverse=True))
_MULTIPLIER = "|".join(MULTIPLIERS)
_NUMBER = re.compile(
    rf"(?<![\w.])(?:(?P<digits>\d{{1,15}}(?:,\d{{3}}){{0,6}}(?:\.\d{{1,6}})?)|(?P<word>{_NUMBER_WORD}))"
    rf"(?: (?P<times>{_MULTIPLIER}))?(?!\w)",
    re.IGNORECASE,
)


class Found(NamedTuple):
    """A value in a text: where it stands, what it is called, and what it is worth."""

    start: int
    end: int
    kind: str
    value: Date | float


def find_dates(text: str) -> Iterator[Found]:
    """Dates in a text; ``kind`` is "date" (to the day or month) or "year".

    >>> [(f.kind, f.value) for f in find_dates("He was born on 5 October 1987 and retired in 2014.")]
    [('date', Date(year=1987, month=10, day=5)), ('year', Date(year=2014, month=0, day=0))]
    """
    for match in _DATE.finditer(text):
        parts = {key[0]: value for key, value in match.groupdict().items() if value}
        month = MONTHS[parts["m"].lower()] if "m" in parts else 0
        day = int(parts.get("d", 0))
        if day > 31 or ("m" in parts and "y" not in parts and parts["m"] == "may"):
            continue
        yield Found(match.start(), match.end(), "date" if month else "year", Date(int(parts.get("y", 0)), month, day))


def parse_date(text: str) -> Date | None:
    """The first date in a text.

    >>> parse_date("July 1923"), parse_date("unknown")
    (Date(year=1923, month=7, day=0), None)
    """
    return next((found.value for found in find_dates(text) if isinstance(found.value, Date)), None)


def find_numbers(text: str) -> Iterator[Found]:
    """Numbers in figures and words.

    >>> [f.value for f in find_numbers("about 2.5 million people in twelve towns")]
    [2500000.0, 12.0]
    """
    for match in _NUMBER.finditer(text):
        digits, word, times = match["digits"], match["word"], match["times"]
        value = float(digits.replace(",", "")) if digits else NUMBER_WORDS[word.lower()]
        if times:
            value *= MULTIPLIERS[times.lower()]
        yield Found(match.start(), match.end(), "number", value)


def parse_number(text: str) -> float | None:
    """The first number in a text.

    >>> parse_number("a crowd of 12,500"), parse_number("none")
    (12500.0, None)
    """
    return next((found.value for found in find_numbers(text) if isinstance(found.value, (int, float))), None)


def earlier(first: Date, second: Date) -> bool | None:
    """Whether ``first`` lies before ``second``; None where what is known of both does not tell.

    >>> earlier(Date(1900), Date(1901, 5)), earlier(Date(1900), Date(1900, 2))
    (True, None)
    """
    for one, other in zip(first, second, strict=True):
        if one != other:
            return None if 0 in (one, other) else one < other
    return None
