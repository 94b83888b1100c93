"""Quantities in a text: dates, times of day, and numbers with their units, converted so that they can be compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from polyhop.common.text import STOP_WORDS
from polyhop.lm.pocket.reading.tables import measures, words
from polyhop.lm.pocket.reading.text import Date, earlier, find_dates

_CLOCK = re.compile(
    r"(?:(?<![\w.,:-])|(?<=:\d\d-))(?:(?P<hour>\d{1,2})(?:[:.](?P<minute>\d{2}))? ?(?P<half>[ap])\.?m\b"
    r"|(?P<h>\d{1,2}):(?P<m>\d{2}))(?![\w:%])",
    re.IGNORECASE,
)
_GAP = re.compile(r"(?:,? and|,)? ?")  # between the parts of one quantity: "2 h 10 min", "1 year and 3 months"
_TO = re.compile(r" ?(?:to|until|till|[-–—]) ?", re.IGNORECASE)  # between the two times of a period
_AND = re.compile(r" and ", re.IGNORECASE)
_BETWEEN = re.compile(r"\bbetween $", re.IGNORECASE)
_DAY = 24 * 60  # minutes
_WORKING = 7 / 5  # days that a working day takes
_WORD_BEFORE = re.compile(r"(\w{1,30}) $")
_COUNTED = re.compile(r"\bhow many ([^\W\d_]{2,})", re.IGNORECASE)
_RACE = re.compile(r"(?<![\w.,:-])(?:(\d{1,2}):)?(\d{1,2}):(\d{2}(?:\.\d{1,3})?)(?![\w:])")
YEAR = re.compile("1[5-9][0-9]{2}|20[0-9]{2}")
"""A number that may be a year."""
_BARE_YEAR = re.compile(r"\d{4}")
_YEAR_DIGITS = 4


class Quantity(NamedTuple):
    """A quantity: its characters in the text, its dimension ("number" without a unit), and its value in the first unit
    of the dimension; that of a date is ``date``."""

    start: int
    end: int
    dimension: str
    value: float
    date: Date | None = None


def find_quantities(text: str) -> list[Quantity]:
    """Find the quantities of a text, in order. A bare year is a date and a number, and "9:30 to 11:00" a time taken
    beside its two times of day.

    >>> [q[2:4] for q in find_quantities("1.2 km in 2 h 10 min, two dozen guests, $3.5m, at 9:30 am, half a year")]
    [('length', 1200.0), ('time', 7800.0), ('number', 24.0), ('usd', 3500000.0), ('clock', 570.0), ('time', 15778800.0)]
    """
    numbers = list(_joined(text, _numbers(text)))
    found = [number for number in numbers if number.dimension != "number"]
    found += [lapse for lapse in _lapses(text) if not _inside(lapse, found)]
    clocks = [clock for clock in _clocks(text) if not _inside(clock, found)]
    found += clocks
    for date in find_dates(text):
        if text[date.start : date.end].isdigit() and date.end - date.start < _YEAR_DIGITS:
            continue  # "520" is seldom the year
        quantity = Quantity(
            date.start, date.end, "date", 0.0, Date(*date.value) if isinstance(date.value, Date) else None
        )
        if not _inside(quantity, found):
            found.append(quantity)
    taken = [other for other in found if not _BARE_YEAR.fullmatch(text, other.start, other.end)]
    found += [number for number in numbers if number.dimension == "number" and not _inside(number, taken)]
    found += _periods(text, clocks)
    return sorted(found, key=lambda quantity: quantity[:3])


def less(first: Quantity, second: Quantity) -> bool | None:
    """True if the first of two quantities of one dimension is less or earlier; None if they are equal, or if a part of
    a date that is unknown would decide."""
    if first.date and second.date:
        return earlier(first.date, second.date)
    return None if first.value == second.value else first.value < second.value


def dimensions_asked(question: str) -> frozenset[str]:
    """The dimensions of the number that a question asks for; empty if it does not tell.

    >>> sorted(dimensions_asked("How long does it take?")), sorted(dimensions_asked("How many days does it take?"))
    (['clock', 'length', 'time'], ['time'])
    """
    table = measures()
    if (counted := _COUNTED.search(question)) and (unit := table.units.get(counted[1].lower())):
        return frozenset([unit[0]])
    return next((asked for pattern, asked in table.asked.items() if pattern.search(question)), frozenset())


def dimension_in(wins: Mapping[str, int], quantity: Quantity) -> str | None:
    """The name under which the winning values judge the dimension of a quantity; None if they do not."""
    own = quantity.dimension
    names: tuple[str, ...] = (own, "money" if own in measures().currencies else own, "time" if own == "clock" else own)
    if own != "date":
        names += ("*",)
    return next((name for name in names if name in wins), None)


def _inside(quantity: Quantity, found: Iterable[Quantity]) -> bool:
    return any(quantity.start < other.end and other.start < quantity.end for other in found)


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    table, tables = measures(), words()

    def either(names: Iterable[str]) -> str:
        return "|".join(sorted(map(re.escape, names), key=len, reverse=True))

    signs = [unit for unit in table.units if unit in table.before]
    units = either(table.units).replace("\\-", "[ -]")  # "per cent"
    tens = either(word for word in tables.numbers if word.endswith("ty"))
    return re.compile(
        rf"(?<![\w.,/#:-])(?P<currency>(?:{either(signs)}) ?)?(?P<minus>[-−])?"
        r"(?:(?P<digits>(?:\d{1,3}(?:[, ]\d{3}\b){1,4}|\d{1,15})(?:\.\d{1,6})?)|(?P<part>half (?:an?|of an?) |an? )"
        rf"|(?P<words>(?:(?:{tens})[ -])?(?:{either(tables.numbers)})\b))"
        rf"(?: ?(?P<times>{either(tables.multipliers)}|{either(table.suffixes)})\b)?"
        rf"(?:(?: (?:calendar|full|whole|(?P<working>working|business)))?[ -]?(?P<unit>{units}))?(?!\w)",
        re.IGNORECASE,
    )


def _numbers(text: str) -> Iterator[Quantity]:
    table, tables = measures(), words()
    for match in _pattern().finditer(text):
        part, times = match["part"], (match["times"] or "").lower()
        unit = (match["unit"] or "").lower().replace(" ", "-")
        currency = (match["currency"] or "").strip().lower()
        if part and (not (times or unit) or _is_rate(text, match.start())):
            continue
        if match["digits"]:
            value = float(re.sub(r"[, ]", "", match["digits"]))
        elif match["words"]:
            value = sum(tables.numbers[word] for word in re.split(r"[ -]", match["words"].lower()))
        else:
            value = 0.5 if part.lower().startswith("half") else 1.0
        if currency and unit == "m":  # £3.5m
            times, unit = "mn", ""
        value *= tables.multipliers.get(times) or table.suffixes.get(times, 1.0)
        dimension, factor = table.units.get(currency or unit, ("number", 1.0))
        factor *= _WORKING if match["working"] and dimension == "time" else 1.0
        yield Quantity(match.start(), match.end(), dimension, round((-value if match["minus"] else value) * factor, 6))


def _is_rate(text: str, start: int) -> bool:
    """True for "a day" after what is counted per day."""
    before = (
        words_before.group(1).lower() if (words_before := _WORD_BEFORE.search(text, max(0, start - 30), start)) else ""
    )
    return bool(before) and before not in STOP_WORDS and before not in measures().groups


def _joined(text: str, numbers: Iterable[Quantity]) -> Iterator[Quantity]:
    """The quantities, with the smaller parts of one ("2 h 10 min") added to it."""
    held: Quantity | None = None
    for number in numbers:
        alike = held is not None and number.dimension == held.dimension != "number" and 0 < number.value < held.value
        if held and alike and _GAP.fullmatch(text, held.end, number.start):
            held = held._replace(end=number.end, value=held.value + number.value)
            continue
        if held:
            yield held
        held = number
    if held:
        yield held


def _lapses(text: str) -> Iterator[Quantity]:
    """The times taken, in hours, minutes and seconds, or with tenths: "2:17:48", "6:41.8"."""
    for match in _RACE.finditer(text):
        if match[1] or "." in match[3]:
            seconds = 3600 * int(match[1] or 0) + 60 * int(match[2]) + float(match[3])
            yield Quantity(match.start(), match.end(), "time", seconds)


def _periods(text: str, clocks: Sequence[Quantity]) -> Iterator[Quantity]:
    """The times taken from one time of day to the next: "9:30 to 11:00", "between 9:30 and 11:00"."""
    for first, last in pairwise(clocks):
        between = _BETWEEN.search(text, max(0, first.start - len("between ")), first.start)
        if _TO.fullmatch(text, first.end, last.start) or (between and _AND.fullmatch(text, first.end, last.start)):
            yield Quantity(first.start, last.end, "time", 60 * ((last.value - first.value) % _DAY))


def _clocks(text: str) -> Iterator[Quantity]:
    """The times of day, in minutes."""
    for match in _CLOCK.finditer(text):
        hour, minute = int(match["hour"] or match["h"]), int(match["minute"] or match["m"] or 0)
        if match["half"]:
            hour = hour % 12 + 12 * (match["half"].lower() == "p")
        if hour < 25 and minute < 60:
            yield Quantity(match.start(), match.end(), "clock", 60.0 * hour + minute)
