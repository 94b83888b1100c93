"""The fit of an answer to the kind that a question asks for: a number, a phone number, a quantity, a name."""

from __future__ import annotations

import re

from polyhop.common.text import words
from polyhop.lm.pocket.reading.quantities import dimensions_asked, find_quantities
from polyhop.lm.pocket.reading.question import ParsedQuestion
from polyhop.lm.pocket.reading.tables import words as word_tables
from polyhop.lm.pocket.reading.text import find_dates, parse_date, parse_number

_MISFIT = 0.3  # factor for a number or a time where a name is asked for, and for a question as an answer
_TIME = re.compile(
    r"(?:(?:on|every|each|at) )?(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|\w{3,7} o['’]clock|noon|midnight)"
    r"(?: (?:mornings?|afternoons?|evenings?|nights?))?",
    re.IGNORECASE,
)
_ASKS_PHONE = re.compile(r"\b(?:phone|telephone|mobile|fax) number\b|^(?:tele)?phone of\b", re.IGNORECASE)
_PHONE = re.compile(r"[+(]?\d[\d ()/.-]*\d(?: ?(?:ext\.?|x) ?\d+)?")
_ZONE = re.compile(r"[+-]\d{4}")  # of the time at which a mail was sent
_MIN_PHONE_DIGITS, _MIN_MOBILE_DIGITS = 3, 6  # the first of an extension


def fit(parsed: ParsedQuestion, answer: str) -> float:
    """The factor for an answer: 0 for one without a number where a number is asked for, for a date where something is
    counted, for one that is no phone number where one is, and for a time zone; little for a number or a time where a
    name is, for a quantity of another dimension, and for another question."""
    asked = parsed.type
    if _ZONE.fullmatch(answer):
        return 0.0
    if answer.endswith("?"):
        return _MISFIT
    if _ASKS_PHONE.search(parsed.text):
        least = _MIN_MOBILE_DIGITS if "mobile" in parsed.text.lower() else _MIN_PHONE_DIGITS
        is_phone = _PHONE.fullmatch(answer) and sum(map(str.isdigit, answer)) >= least
        return float(bool(is_phone) and not _is_whole_date(answer))
    if asked == "number" and parsed.head and _is_whole_date(answer):
        return 0.0
    if asked in ("number", "year"):
        has_number = any(map(str.isdigit, answer)) or parse_number(answer) is not None
        in_words = not word_tables().quantities.isdisjoint(words(answer))
        return float(has_number or in_words or bool(find_quantities(answer))) * _dimension_fit(parsed.text, answer)
    if asked in ("person", "place", "country", "group"):
        date = parse_date(answer)
        is_date = date is not None and len(answer.split()) <= 3
        is_value = is_date or not any(map(str.isalpha, answer)) or _TIME.fullmatch(answer)
        return _MISFIT if is_value else 1.0
    return 1.0


def _dimension_fit(question: str, answer: str) -> float:
    """The factor for an answer to a question for a number: little for a length of time where a price is asked for."""
    asked, said = dimensions_asked(question), {quantity.dimension for quantity in find_quantities(answer)}
    return _MISFIT if asked and said and said.isdisjoint((*asked, "number", "date")) else 1.0


def _is_whole_date(answer: str) -> bool:
    """True for a date with its month and nothing else."""
    return any(found.kind == "date" and found.end - found.start == len(answer) for found in find_dates(answer))
