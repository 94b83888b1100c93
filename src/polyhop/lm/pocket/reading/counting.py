"""Counts in comparisons: the noun that a question counts ("more vans"), and the one that a number counts ("9 vans")."""

from __future__ import annotations

import re
from collections.abc import Sequence

from polyhop.common.text import STOP_WORDS
from polyhop.lm.pocket.reading.evidence import StatedValue
from polyhop.lm.pocket.reading.tables import measures
from polyhop.lm.pocket.reading.text import stem_of

_PHRASE = r"(?P<noun>[a-z][\w-]*(?: [a-z][\w-]*){0,2})"
_ASKED = re.compile(rf"\b(?:more|most|fewer|fewest|less|least|as many) {_PHRASE}")
_AFTER = re.compile(rf"[ -]{_PHRASE}")
_PLURALS = frozenset("people children men women staff mice geese sheep cattle fish deer".split())
_READ = 0.5  # probability by the encoder of a number of "rooms" that may count "bedrooms"


def asked_noun(question: str) -> str:
    """The noun, with what describes it, that a question counts; empty if it counts nothing.

    >>> asked_noun("Which depot has more delivery vans, North or South?"), asked_noun("Which costs more?")
    ('delivery vans', '')
    """
    found = (_plural(match["noun"]) for match in _ASKED.finditer(question))
    return next(filter(None, found), "")


def counted_noun(fact: StatedValue) -> str:
    """The noun, with what describes it, that a bare number of a sentence counts; empty if that is not clear."""
    if fact.quantity.dimension != "number" or fact.in_row or fact.unit:
        return ""
    found = _AFTER.match(fact.page.text, fact.quantity.end)
    return _plural(found["noun"]) if found else ""


def of_counted(asked: str, facts: Sequence[StatedValue]) -> list[StatedValue]:
    """The facts without the numbers that count something else than ``asked``: a noun that shares no word with it and
    has no word of the same measure. The encoder may read such a number all the same, unless another one counts the very
    noun."""
    groups = measures().groups
    same = {stem_of(other) for word in asked.split() for other in (word, *groups.get(word, ()))}
    nouns = [counted_noun(fact) for fact in facts]
    others = {noun for noun in nouns if noun and same.isdisjoint(map(stem_of, noun.split()))}
    is_counted = any(noun and noun not in others for noun in nouns)
    return [
        fact
        for fact, noun in zip(facts, nouns, strict=True)
        if noun not in others or (fact.read >= _READ and not is_counted)
    ]


def _plural(phrase: str) -> str:
    """A phrase up to its first plural; empty if it has none before a word that goes on."""
    words = phrase.split()
    for i, word in enumerate(words):
        if word in STOP_WORDS or word in measures().wins or word in measures().units:
            return ""
        if word in _PLURALS or (word.endswith("s") and not word.endswith("ss")):
            return " ".join(words[: i + 1])
    return ""
