"""Statements of one value of one thing ("Is the tower taller than 200 metres?"): the thing's own value is read beside
the measure's words, and code compares it with the value stated. What passages do not clearly say is not decided."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from polyhop.lm.pocket.reading.compare import Side, Verdict
from polyhop.lm.pocket.reading.comparison import ends_name, measure_words, wins_of
from polyhop.lm.pocket.reading.evidence import StatedValue, find_own_facts
from polyhop.lm.pocket.reading.passage import ParsedPassage
from polyhop.lm.pocket.reading.quantities import Quantity, dimension_in, find_quantities, less
from polyhop.lm.pocket.reading.tables import measures
from polyhop.lm.pocket.reading.text import TOKEN, find_names, name_from, stem_of, stem_weight

_AUXILIARY = re.compile(r"(?:is|was|are|were|do|does|did|has|have|had)(?P<not>n['’]t)? ", re.IGNORECASE)
_PRONOUN = re.compile(r"(?:it|he|she|they|we|i|you|there|this|that|these|those|one|both)\b", re.IGNORECASE)
_BEING = re.compile(r"(?: |^)(?:is|was|are|were|has|have|had|does|did)(?:n['’]t)?(?: |$)")
_LINK = re.compile(
    r"(?! at (?:least|most)\b)\s*(?:of|in|at|on|for|with|from|to|by|and|or|who|that|which|whose|'s?\b|’s?\b|,)",
    re.IGNORECASE,
)
_NOT = re.compile(r"\b(?:not|no|never|\w+n['’]t)\b", re.IGNORECASE)
# The words before a value that make it a bound; the sign of a value that is within it.
_BOUND = re.compile(
    r"(?:(?P<than>\bthan)|\b(?P<above>over|above|exceed(?:s|ed|ing)?)|\b(?P<below>under|below)|\b(?P<after>after)"
    r"|\b(?P<before>before)|\b(?P<least>at least|a minimum of)|\b(?P<most>at most|up to|a maximum of)"
    r"|\b(?P<by>by|until))(?: the)? $",
    re.IGNORECASE,
)
_SIGNS = {"above": 1, "below": -1, "after": 1, "before": -1, "least": 1, "most": -1, "by": -1}
_INCLUSIVE = ("least", "most", "by")
_VAGUE = re.compile(
    r"\b(?:about|around|roughly|approximately|nearly|almost|some|since|from|between|to|first|last|another|further|only)"
    r"(?: the)? $|[~≈<>±–-] ?$",
    re.IGNORECASE,
)
_AT = re.compile(r"\b(?:at|before|after|by|until) $", re.IGNORECASE)
_IN = re.compile(r"\b(?:in|before|after|by|until|than) $", re.IGNORECASE)
_UNIT = re.compile(r"\D*$")
_CLOSE = 0.3  # of the measure's words to the value, 0 to 1
_CLEARLY = 0.15  # closer than another value that says otherwise
_CONVERTED = 0.01  # relative difference of equal values in two units, which are rounded
_HALF_DAY, _HOURS = 720.0, 24


@dataclass(frozen=True, slots=True)
class Threshold:
    """A value stated of a thing. ``sign``: 1 if the thing's own is to be more or later, -1 if less or earlier, 0 if
    equal; ``inclusive``: an equal one will do; ``denied``: the statement says that it is not so; ``counted``: the stem
    of what a bare number counts; ``measure``: the weights of the stems that may stand beside the thing's value;
    ``needed``: the stems that its sentence has as well."""

    thing: str
    text: str
    quantity: Quantity
    sign: int
    inclusive: bool
    denied: bool
    counted: str | None
    measure: Mapping[str, float]
    needed: frozenset[str]


@lru_cache(maxsize=512)
def find_threshold(statement: str) -> Threshold | None:
    """The value that a question of yes or no, or a claim, states of one thing; None if it is no such statement.

    >>> found = find_threshold("Is the Dom Tower taller than 200 metres?")
    >>> found.thing, found.text, found.sign
    ('Dom Tower', '200 metres', 1)
    >>> find_threshold("Is the Dom Tower taller than the Giralda?")
    """
    text = " ".join(statement.split()).rstrip("?. ")
    asking = _AUXILIARY.match(text)
    named = _subject(text, asking.end() if asking else 0)
    if named is None or (asking is None and "?" in statement):
        return None
    thing, end = named
    stated = [found for quantity in find_quantities(text) if (found := _as_written(text, quantity))]
    if len(stated) != 1 or stated[0].start < end or len(find_names(text[end : stated[0].start])) > 0:
        return None
    quantity = stated[0]
    before, after = text[end : quantity.start], text[quantity.end :]
    bound = _bound(before, quantity)
    if bound is None or find_names(after):
        return None
    sign, inclusive = bound
    rest = f"{before} {after}"
    measure = measure_words(rest, thing)
    table, tokens = measures(), TOKEN.findall(after.lower())
    counted = None
    if quantity.dimension == "number" and tokens and tokens[0] not in table.groups:
        counted = stem_of(tokens[0]) if stem_weight(stem_of(tokens[0])) else None
    if quantity.dimension == "number" and sign == 0 and counted is None and not _is_measured(before):
        return None  # "version 2"
    needed = {stem_of(word) for word in TOKEN.findall(_BOUND.sub("", before).lower() + after.lower())
              if stem_weight(stem_of(word)) and word not in table.groups and word not in table.wins
              and word not in table.empty}  # fmt: skip
    denials = len(_NOT.findall(rest)) + bool(asking is None and _NOT.search(text[:end]))
    if not measure or (asking and not before.strip()):
        return None
    return Threshold(
        thing, text[quantity.start : quantity.end], quantity, sign, inclusive, denials % 2 == 1, counted, measure,
        frozenset(needed),
    )  # fmt: skip


def settle(statement: str, pages: Sequence[ParsedPassage]) -> Verdict | None:
    """Decide a statement by the value that passages give of its thing; None if they clearly give none.

    >>> from polyhop.lm.pocket.reading.passage import parse_passage
    >>> from polyhop.types import Passage
    >>> page = parse_passage(Passage("1", "Utrecht", "The Dom Tower is 112 metres high."))
    >>> settle("Is the Dom Tower taller than 0.2 km?", [page]).answer
    'no'
    """
    threshold = find_threshold(statement)
    if threshold is None:
        return None
    judged = sorted(_judged(threshold, pages), key=lambda each: (-each[1].measure, each[1].text))
    if not judged or judged[0][1].measure < _CLOSE:
        return None
    holds, fact = judged[0]
    if any(
        other != holds and (fact.measure - each.measure < _CLEARLY or _beside(fact, each)) for other, each in judged
    ):
        return None
    own = Side(threshold.thing, fact.page, fact.page, fact.text, None)
    stated = Side(threshold.text, None, None, None, None)
    return Verdict("yes" if holds != threshold.denied else "no", (own, stated))


def _beside(fact: StatedValue, other: StatedValue) -> bool:
    """True for two quantities of one sentence, which may both be the thing's: "costs 20 EUR on Monday, else 40 EUR"."""
    return (fact.page, fact.first) == (other.page, other.first) and not fact.in_row and not fact.quantity.date


def _subject(text: str, start: int) -> tuple[str, int] | None:
    """The thing that a statement is about, and the end of its name; None for a pronoun or a thing described by
    another."""
    article = re.compile(r"(?:the|a|an|our) ", re.IGNORECASE).match(text, start)
    begin = article.end() if article else start
    name = name_from(text, begin)
    if name and name[0] == begin:
        being = _BEING.search(text, *name)
        end = being.start() if being else name[1]
    else:
        end = begin
        for i, match in enumerate(re.finditer(r"\S+", text[begin:])):
            if i and (ends_name(match.group()) or _BEING.match(match.group()) or match.group()[0].isdigit()):
                break
            end = begin + match.end()
    thing = text[begin:end]
    if _PRONOUN.match(thing) or _LINK.match(text, end) or not any(map(stem_weight, map(stem_of, TOKEN.findall(thing)))):
        return None
    return thing, end


def _as_written(text: str, quantity: Quantity) -> Quantity | None:
    """A quantity by the words before it: a bare year is a date after "in", else a number; a bare number up to 24 is a
    time of day after "at" and the like, unless a noun follows."""
    before, after, written = text[: quantity.start], text[quantity.end :], text[quantity.start : quantity.end]
    if written.lower() == "one":  # "the old one"
        return None
    if re.fullmatch(r"\d{4}", written):
        is_date = bool(_IN.search(before)) and not _opens_with_noun(after)
        return quantity if is_date == (quantity.dimension == "date") else None
    is_hour = quantity.dimension == "number" and 0 <= quantity.value <= _HOURS and quantity.value.is_integer()
    if is_hour and _AT.search(before) and not re.match(r" \w", after):
        return quantity._replace(dimension="clock", value=60 * quantity.value)
    return quantity


def _opens_with_noun(after: str) -> bool:
    found = re.match(r" [a-z]+", after)
    return found is not None and stem_weight(stem_of(found.group().strip())) > 0


def _is_measured(before: str) -> bool:
    """True if a number follows a verb or a word of a measure: "holds 40", and no name that it is the end of."""
    word, table = before.split()[-1:], measures()
    return bool(word) and (word[0].lower() in table.groups or word[0].lower() in table.verbs or word[0] == "is")


def _bound(before: str, quantity: Quantity) -> tuple[int, bool] | None:
    """The sign of a value within the bound, and True if an equal one is; 0 for a value stated without bound."""
    found = _BOUND.search(before)
    if found is None:
        return None if _VAGUE.search(before) else (0, True)
    name = next(key for key, value in found.groupdict().items() if value)
    if name == "than":
        wins = dict(wins_of(before))
        sign = wins.get(dimension_in(wins, quantity) or "")
        return None if sign is None else (sign, False)
    return _SIGNS[name], name in _INCLUSIVE


def _judged(threshold: Threshold, pages: Sequence[ParsedPassage]) -> Iterator[tuple[bool, StatedValue]]:
    """The facts that decide, each with True if the thing's own value is as stated."""
    for fact in find_own_facts(threshold.thing, threshold.measure, pages):
        page, quantity = fact.page, fact.quantity
        before = page.text[max(0, quantity.start - 40) : quantity.start]
        own = _as_written(page.text, quantity)
        if own is None or own.dimension != threshold.quantity.dimension:
            continue
        if _BOUND.search(before) or _VAGUE.search(before) or not _counts(threshold, fact):
            continue
        sentence = set(map(stem_of, TOKEN.findall(page.sentence(page.sentence_at(quantity.start)))))
        if not threshold.needed - {threshold.counted} <= sentence | page.title_stems:
            continue
        if (holds := _holds(threshold, own, fact.text)) is not None:
            yield holds, fact


def _counts(threshold: Threshold, fact: StatedValue) -> bool:
    """True unless a number counts something else: the noun follows it, after one word at most, or names its column."""
    if threshold.counted is None:
        return True
    following = [stem_of(word) for word in TOKEN.findall(fact.page.text[fact.quantity.end :][:60])[:2]]
    return threshold.counted in following or (fact.in_row and threshold.counted in fact.label)


def _holds(threshold: Threshold, own: Quantity, written: str) -> bool | None:
    """True if the thing's own value is as stated; None if an unknown part of a date decides."""
    stated = threshold.quantity
    if own.date and stated.date:
        pairs = list(zip(own.date, stated.date, strict=True))
        lower = less(own, stated)
        equal = lower is None and all(part == known for part, known in pairs if known)
        if lower is None and not equal and all(part in (known, 0) for part, known in pairs):
            return None
        if threshold.sign and equal and threshold.inclusive is False and own.date != stated.date:
            return False  # in 1998 is not before 1998
    else:
        gap = abs(own.value - stated.value)
        if own.dimension == "clock" and threshold.sign == 0 and stated.value <= _HALF_DAY:
            gap = min(gap, abs(gap - _HALF_DAY))
        converted = threshold.sign == 0 and own.dimension != "number" and _unit(written) != _unit(threshold.text)
        equal = gap == 0 or (converted and math.isclose(own.value, stated.value, rel_tol=_CONVERTED))
        lower = None if equal else own.value < stated.value
    if equal or threshold.sign == 0:
        return equal and (threshold.sign == 0 or threshold.inclusive)
    return None if lower is None else lower == (threshold.sign < 0)


def _unit(written: str) -> str:
    return "".join(_UNIT.findall(written.lower())).strip(" -")
