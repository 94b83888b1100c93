"""The two values that a comparison compares: a softmax over all pairs of quantities that passages state of the two
things, and over none of them. ``benchmarks/comparison_fit.py`` fits its weights."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from polyhop.lm.pocket.reading.comparison import Comparison
from polyhop.lm.pocket.reading.evidence import StatedValue
from polyhop.lm.pocket.reading.quantities import YEAR, dimension_in, find_quantities, less
from polyhop.lm.pocket.reading.tables import weights

_MAX_FACTS = 12  # of a side, that are paired
_UNREAD = 0.001  # the least probability whose logarithm is taken
_MEASURED = 0.3  # closeness of the measure's words to a value that is clearly of it
_READ = 0.2  # probability by the encoder from which a bare number may have the other one's unit
_HOURS = 24
_NUMBER = re.compile(r"^\W*\d[\d.,]*\s*")
_NEAR = 80  # characters between two values that are stated together

Features = dict[str, float]


class Pair(NamedTuple):
    """A quantity of each thing. ``outcome``: 1 if the first one wins, -1 if the second does, 0 if they are equal; None
    if they do not decide."""

    first: StatedValue
    second: StatedValue
    outcome: int | None
    features: Features


class Choice(NamedTuple):
    """The likeliest outcome, its likeliest pair, and its probability; no outcome for two quantities that cannot be
    compared."""

    first: StatedValue
    second: StatedValue
    outcome: int | None
    probability: float


def choose(
    comparison: Comparison, left: Sequence[StatedValue], right: Sequence[StatedValue], *, read: bool = False
) -> Choice | None:
    """Choose the pair of quantities that decides a comparison; None if no quantity is stated of one of the things, or
    two outcomes are as likely. ``read``: the encoder has read the facts."""
    pairs = list(pairs_of(comparison, left, right))
    features = (*(pair.features for pair in pairs), nothing(comparison))
    table = weights().read_pair if read else weights().pair
    scores = [sum(table[name] * value for name, value in each.items()) for each in features]
    odds = [math.exp(score - max(scores)) for score in scores]
    by_outcome: dict[int, float] = {}
    for pair, chance in zip(pairs, odds, strict=False):
        if pair.outcome is not None:
            by_outcome[pair.outcome] = by_outcome.get(pair.outcome, 0.0) + chance / sum(odds)
    if not by_outcome:
        clear = [next((fact for fact in _promising(side) if fact.measure > _MEASURED), None) for side in (left, right)]
        return Choice(clear[0], clear[1], None, 0.0) if clear[0] and clear[1] else None
    highest = max(by_outcome.values())
    likeliest = [outcome for outcome, chance in by_outcome.items() if math.isclose(chance, highest)]
    if len(likeliest) > 1:
        return None
    deciding = [(score, pair) for score, pair in zip(scores, pairs, strict=False) if pair.outcome == likeliest[0]]
    best = max(deciding, key=lambda each: (each[0], sorted((each[1].first.text, each[1].second.text))))[1]
    return Choice(best.first, best.second, likeliest[0], highest)


def pairs_of(comparison: Comparison, left: Sequence[StatedValue], right: Sequence[StatedValue]) -> Iterator[Pair]:
    """All pairs of quantities of one dimension, of the most promising of each side, with their features."""
    left, right = _promising(left), _promising(right)
    kinds = {(fact.quantity.dimension, fact.label if fact.in_row else fact.text) for fact in (*left, *right)}
    for one, other in product(left, right):
        if one.page is other.page and one.quantity.start == other.quantity.start:
            continue
        a, b = _in_unit_of(other, one), _in_unit_of(one, other)
        if a.quantity.dimension == b.quantity.dimension:
            few = 1.0 / max(1, sum(kind == a.quantity.dimension for kind, _ in kinds))
            yield Pair(a, b, _outcome(comparison, a, b), _features(comparison, a, b, few))


def _in_unit_of(other: StatedValue, fact: StatedValue) -> StatedValue:
    """A bare number in the unit of the other thing's quantity ("at 60 degrees, at 40"; "9:30 and 8"), if the encoder
    reads both; else the fact as it is."""
    is_bare = fact.quantity.dimension == "number" and not YEAR.fullmatch(fact.text)
    if not is_bare or other.quantity.dimension == "number" or min(fact.read, other.read) < _READ:
        return fact
    if other.quantity.dimension == "clock":
        in_minutes = fact.quantity._replace(dimension="clock", value=60 * fact.quantity.value)
        return replace(fact, quantity=in_minutes) if 0 <= fact.quantity.value <= _HOURS else fact
    unit = _NUMBER.sub("", other.text)
    measured = find_quantities(f"{fact.text} {unit}")
    if len(measured) != 1 or measured[0].dimension != other.quantity.dimension or measured[0].date:
        return fact
    return replace(fact, quantity=fact.quantity._replace(dimension=measured[0].dimension, value=measured[0].value))


def nothing(comparison: Comparison) -> Features:
    """The features of no pair, with which all others are compared."""
    return {"nothing": 1.0, "nothing, of a claim": float(comparison.how == "truth")}


def _promising(facts: Sequence[StatedValue]) -> list[StatedValue]:
    """The facts that are most certainly of their thing, and nearest to the measure, or that the encoder reads."""
    return sorted(facts, key=lambda fact: (-fact.read - fact.about * (0.4 + fact.measure), fact.text))[:_MAX_FACTS]


def _outcome(comparison: Comparison, a: StatedValue, b: StatedValue) -> int | None:
    lower = less(a.quantity, b.quantity)
    if comparison.how == "same":
        return int(lower is None) or -1
    sign = comparison.wins.get(dimension_in(comparison.wins, a.quantity) or "")
    if sign is None:
        return None
    if lower is None:
        return None if a.quantity.date and a.quantity[2:] != b.quantity[2:] else 0
    return -sign if lower else sign


def _features(comparison: Comparison, a: StatedValue, b: StatedValue, few: float) -> Features:
    """The features of a pair: its values are of the two things, of the measure, of a likely dimension, and stated
    alike. ``few``: 1 if they are the only quantities of their dimension, less with others beside them."""
    name = "*" if comparison.how == "same" else dimension_in(comparison.wins, a.quantity)
    likely = [each for each in comparison.wins if each != "*"]
    place = min(likely.index(name), 3) if name in likely else None
    closeness = min(a.measure, b.measure)
    same_page = a.page is b.page
    years = [a.quantity.dimension == "number" and bool(YEAR.fullmatch(fact.text)) for fact in (a, b)]
    shared = len(a.label & b.label) / (len(a.label | b.label) or 1)
    features = {
        "about": min(a.about, b.about),
        "about the surer": max(a.about, b.about),
        "measure": closeness,
        "measure, mean": (a.measure + b.measure) / 2,
        "both measured": float(closeness > _MEASURED),
        "no dimension": float(name is None),
        "number": float(a.quantity.dimension == "number"),
        "both like years": float(all(years)),
        "one like a year": float(years[0] != years[1]),
        "clock": float(a.quantity.dimension == "clock"),
        "date": float(a.quantity.dimension == "date"),
        "label": shared,
        "equal": float(a.quantity[2:] == b.quantity[2:]),
        "both in rows": float(a.in_row and b.in_row),
        "one in a row": float(a.in_row != b.in_row),
        "one page": float(same_page),
        "one sentence": float(same_page and a.first == b.first),
        "near": float(same_page and abs(a.quantity.start - b.quantity.start) < _NEAR),
        "few": few,
        "read": min(a.read, b.read),
        "read, log": math.log(max(_UNREAD, a.read)) + math.log(max(_UNREAD, b.read)),
    }
    return features | {f"dimension {number}": float(place == number) for number in range(4)}
