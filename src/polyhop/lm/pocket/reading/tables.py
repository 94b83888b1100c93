"""Pocket's tables: words, countries and relations written by hand, and weights fitted by ``benchmarks/``.

They are TOML files in ``tables/``, read on first use.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

FOLDER = Path(__file__).parents[1] / "tables"
WEIGHTS, BLENDS = FOLDER / "weights.toml", FOLDER / "blends.toml"

AnswerType: TypeAlias = Literal[
    "person", "place", "country", "group", "work", "date", "year", "number", "boolean", "reason", "name", "thing"
]
Weights: TypeAlias = dict[str, float]


def _read(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))


# --- words ------------------------------------------------------------------------------------------------------------


class Words(NamedTuple):
    """The tables of ``words.toml``. ``families``: each stem of a group, and the stem that names the group."""

    units: frozenset[str]
    common: frozenset[str]
    phrase_ends: frozenset[str]
    families: dict[str, str]
    type_of_noun: dict[str, AnswerType]
    months: dict[str, int]
    numbers: dict[str, float]
    multipliers: dict[str, float]
    quantities: frozenset[str]


@lru_cache(maxsize=1)
def words() -> Words:
    """The words that pocket knows by heart."""
    table = _read(FOLDER / "words.toml")
    groups = [group.split() for group in table["families"]]
    return Words(
        units=frozenset(table["units"].split()),
        common=frozenset(table["common"].split()),
        phrase_ends=frozenset(table["phrase_ends"].split()),
        families={member: group[0] for group in groups for member in group},
        type_of_noun={noun: type_ for type_, nouns in table["head_nouns"].items() for noun in nouns.split()},
        months=table["months"],
        numbers={word: float(number) for word, number in table["number_words"].items()},
        multipliers={word: float(number) for word, number in table["multipliers"].items()},
        quantities=frozenset(table["quantities"].split()),
    )


# --- measures ---------------------------------------------------------------------------------------------------------


class Measures(NamedTuple):
    """The tables of ``measures.toml``. ``units``: the dimension and factor of each; ``before``: those that stand before
    a number; ``wins``: by the word of a comparison, the sign of the winning value for each dimension, the likeliest
    first; ``asked``: the dimensions that a question's words ask for; ``groups``: the words that state the same measure
    as a word."""

    units: dict[str, tuple[str, float]]
    before: frozenset[str]
    currencies: frozenset[str]
    suffixes: dict[str, float]
    wins: dict[str, dict[str, int]]
    asked: dict[re.Pattern[str], frozenset[str]]
    dimensions: dict[str, str]
    ending: frozenset[str]
    empty: frozenset[str]
    verbs: frozenset[str]
    groups: dict[str, frozenset[str]]


@lru_cache(maxsize=1)
def measures() -> Measures:
    """The units, and the words of comparisons."""
    table = _read(FOLDER / "measures.toml")
    groups: dict[str, frozenset[str]] = {}
    for row in table["groups"]:
        for word in row.split():
            groups[word] = groups.get(word, frozenset()).union(row.split())
    return Measures(
        units={
            unit: (dimension, float(factor))
            for dimension, rows in table["units"].items() for row, factor in rows.items() for unit in row.split()
        },
        before=frozenset(table["before"].split()),
        currencies=frozenset(table["currencies"].split()),
        suffixes={suffix: float(factor) for suffix, factor in table["suffixes"].items()},
        wins={
            word: {sign[:-1]: 1 if sign[-1] == "+" else -1 for sign in signs.split()}
            for signs, row in table["wins"].items() for word in row.split()
        },
        asked={
            re.compile(rf"\b(?:{words})\b", re.IGNORECASE): frozenset(
                own for each in named.split() for own in (table["currencies"].split() if each == "money" else [each])
            )
            for words, named in table["asked"].items()
        },
        dimensions={dimension: "|".join(row.split()) for dimension, row in table["dimensions"].items()},
        ending=frozenset(table["ending"].split()),
        empty=frozenset(table["empty"].split()),
        verbs=frozenset(table["verbs"].split()),
        groups=groups,
    )  # fmt: skip


# --- countries --------------------------------------------------------------------------------------------------------


class Countries(NamedTuple):
    """The tables of ``countries.toml``, by names in lower case: countries, adjectives of peoples, regions."""

    names: dict[str, str]
    peoples: dict[str, str]
    regions: dict[str, str]
    people_pattern: re.Pattern[str]
    place_pattern: re.Pattern[str]


@lru_cache(maxsize=1)
def countries() -> Countries:
    """The countries, their peoples and a few of their regions."""
    table = _read(FOLDER / "countries.toml")
    peoples = _by_name(table["people"])
    names = {country.lower(): country for country in table["people"]} | _by_name(table["other_names"])
    regions = _by_name(table["regions"])
    return Countries(names, peoples, regions, _pattern(peoples), _pattern(names | regions))


def _by_name(rows: Mapping[str, str]) -> dict[str, str]:
    cells = ((country, name.strip().lower()) for country, cell in rows.items() for name in cell.split(","))
    return {name: country for country, name in cells if name}


def _pattern(names: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted(map(re.escape, names), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(longest_first)})(?!\w)", re.IGNORECASE)


def country_of(text: str) -> str | None:
    """The country that a nationality, the name of a country, or a place that ends with its country means.

    >>> country_of("Danish"), country_of("Mexico"), country_of("Austin, Texas"), country_of("Nowhere")
    ('Denmark', 'Mexico', 'United States', None)
    """
    table = countries()
    key = text.strip(" .,").lower()
    if country := table.peoples.get(key) or table.names.get(key) or table.regions.get(key):
        return country
    places = table.place_pattern.findall(text)
    if places:
        last = places[-1].lower()
        return table.names.get(last) or table.regions[last]
    peoples = table.people_pattern.findall(text)
    return table.peoples[peoples[0].lower()] if peoples else None


# --- relations --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to state a relation (see ``relations.toml``)."""

    cue: re.Pattern[str]
    kinds: tuple[str, ...]
    reach: int
    before: re.Pattern[str] | None
    several: bool
    lead: bool


class Relations(NamedTuple):
    """The tables of ``relations.toml``. ``nouns``: the relations, one or two, that a noun stands for."""

    person_relations: frozenset[str]
    rules: dict[str, tuple[Rule, ...]]
    place_kinds: dict[str, tuple[str, ...]]
    nouns: dict[str, tuple[str, ...]]
    verbs: dict[str, str]
    compared_through: dict[str, str]
    inverse: dict[str, str]
    wordings: dict[str, tuple[str, str]]
    value_types: dict[str, str]


@lru_cache(maxsize=1)
def relations() -> Relations:
    """The relations that encyclopedias state of their subjects, and how."""
    table = _read(FOLDER / "relations.toml")
    before = {name: re.compile(pattern) for name, pattern in table["before"].items()}

    def rule(row: Mapping[str, Any]) -> Rule:
        kinds, reach = tuple(row.get("kinds", "name").split()), row.get("reach", 40)
        preceded = before[row["before"]] if "before" in row else None
        return Rule(re.compile(row["cue"]), kinds, reach, preceded, row.get("several", False), row.get("lead", False))

    return Relations(
        person_relations=frozenset(table["person_relations"].split()),
        rules={relation: tuple(map(rule, rows)) for relation, rows in table["rules"].items()},
        place_kinds={kind: tuple(marks.split()) for kind, marks in table["place_kinds"].items()},
        nouns={
            noun: tuple(names.split(" > ")) for names, nouns in table["nouns"].items() for noun in nouns.split(", ")
        },
        verbs=table["verbs"],
        compared_through=table["compared_through"],
        inverse=table["inverse"],
        wordings={relation: (question, sentence) for relation, (question, sentence) in table["wordings"].items()},
        value_types=table["value_types"],
    )


# --- weights ----------------------------------------------------------------------------------------------------------


@dataclass
class LinearModels:
    """The linear models of ``weights.toml``, fitted by ``benchmarks/pocket_fit.py``, ``hops_fit.py``, ``screen_fit.py``
    and ``comparison_fit.py``: weights by the names of features. ``candidate_by_type`` adds to ``candidate`` where the
    question asks for a type of answer."""

    candidate: Weights
    candidate_by_type: dict[str, Weights]
    kind_fit: dict[str, Weights]
    relevance: Weights
    sufficiency: Weights
    bridge: Weights
    path_start: Weights
    path_step: Weights
    screen_first: Weights
    screen_later: Weights
    pair: Weights
    read_pair: Weights


@lru_cache(maxsize=1)
def weights() -> LinearModels:
    """The weights in use."""
    return LinearModels(**_read(WEIGHTS))


class Blend(NamedTuple):
    """Weights of the log-odds by rules and of those by the encoder, and a constant."""

    rules: float
    encoder: float
    constant: float

    def log_odds(self, rules: float, encoder: float) -> float:
        """The blended log-odds."""
        return self.rules * rules + self.encoder * encoder + self.constant


class SpanBlend(NamedTuple):
    """Weights of a candidate's score by rules and of the encoder's log-probability of its text, at least ``floor``."""

    rules: float
    encoder: float
    floor: float


class CorrectWeights(NamedTuple):
    """Weights of the features of a correct answer: settled by a rule, its share, its probability by the encoder, 1."""

    settled: float
    share: float
    read: float
    constant: float


@dataclass
class Blends:
    """The blends of ``blends.toml``, fitted by ``benchmarks/pocket_blend.py``; ``document_reading`` and ``bridge``
    are set by hand.

    Own documents have judgements of their own: their titles are no names, which the rules count on.
    """

    relevance: Blend
    sufficiency: Blend
    document_relevance: Blend
    document_sufficiency: Blend
    reading: SpanBlend
    document_reading: SpanBlend
    bridge: SpanBlend
    correct: CorrectWeights


@lru_cache(maxsize=1)
def blends() -> Blends:
    """The blends in use."""
    table = _read(BLENDS)
    return Blends(
        relevance=Blend(**table["relevance"]),
        sufficiency=Blend(**table["sufficiency"]),
        document_relevance=Blend(**table["document_relevance"]),
        document_sufficiency=Blend(**table["document_sufficiency"]),
        reading=SpanBlend(**table["reading"]),
        document_reading=SpanBlend(**table["document_reading"]),
        bridge=SpanBlend(**table["bridge"]),
        correct=CorrectWeights(**table["correct"]),
    )
