"""The facts that a page states of its own subject: the values of a relation, found by the rules of
``relations.toml``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from polyhop.common.text import STOP_WORDS
from polyhop.lm.pocket.reading.passage import FactValue, Mention, ParsedPassage
from polyhop.lm.pocket.reading.tables import Rule, countries, country_of, relations, words
from polyhop.lm.pocket.reading.text import find_dates

_PARENTHESIS = re.compile(r"\(([^()]{4,240})\)")
_DASH = re.compile(r"\s?[–—-]\s")


def facts(page: ParsedPassage, relation: str) -> list[FactValue]:
    """The values that a page states for a relation of its subject, best first; [] if it states none.

    >>> from polyhop.lm.pocket.reading.passage import parse_passage
    >>> from polyhop.types import Passage
    >>> text = "Dark Mill is a 1931 German film directed by Rolf Anders (1899 – 1950) and starring Ida Kuhn."
    >>> page = parse_passage(Passage("1", "Dark Mill", text))
    >>> [facts(page, r)[0].text for r in ("director", "release", "country")]
    ['Rolf Anders', '1931', 'German']
    """
    if relation not in page.facts:
        page.facts[relation] = _extract(page, relation)
    return page.facts[relation]


def _extract(page: ParsedPassage, relation: str) -> list[FactValue]:
    found: list[FactValue] = []
    if relation in ("birth date", "death date", "birth place", "death place"):
        found = _lifespan(page).get(relation, [])
    elif relation == "country":
        found = _country(page)
    elif relation in relations().place_kinds:
        found = _place(page, relation)
    if not found:
        for rule in relations().rules.get(relation, ()):
            found = list(_apply(rule, page))
            if found:
                break
    own = page.name.casefold()
    return [value for value in found if value.text.casefold() != own]


def _apply(rule: Rule, page: ParsedPassage) -> Iterator[FactValue]:
    last_start = page.starts[-1] if page.starts else 0
    for cue in rule.cue.finditer(page.text):
        end = cue.end()
        values = 0
        for mention in page.mentions_from(end):
            start = page.starts[mention.first]
            if start - end > rule.reach or start > last_start:
                break
            if mention.kind not in rule.kinds or (rule.lead and mention.sentence) or _describes(page, mention):
                continue
            if page.sentence_at(max(0, cue.start())) != mention.sentence:
                break
            if rule.before is None or rule.before.search(page.text[max(end - 12, start - 48) : start]):
                yield FactValue(mention.text, mention.sentence)
                values += 1
                if not rule.several:
                    break
                end = start + len(mention.text)
                if not re.match(r"\s?(?:,|and|&)\s", page.text[end : end + 6]):
                    break
        if rule.lead and values:
            return


def _lifespan(page: ParsedPassage) -> dict[str, list[FactValue]]:
    """The dates and places of birth and death in the parenthesis that opens a biography."""
    for match in _PARENTHESIS.finditer(page.text[:600]):
        inside = match[1]
        dates = list(find_dates(inside))
        if not dates:
            continue
        dash = next((d for d in _DASH.finditer(inside) if d.start() >= dates[0].end - 1), None)
        out: dict[str, list[FactValue]] = {}
        if dash is None:
            dash = re.search(r"(?<=\d)[–—-](?=\d)", inside)
        cut = dash.start() if dash else len(inside)
        only_death = re.search(r"\b(?:d\.|died)\s", inside) and not dash
        halves = (("death", 0, cut),) if only_death else (("birth", 0, cut), ("death", cut, len(inside)))
        for event, low, high in halves:
            date = next((inside[d.start : d.end] for d in dates if low <= d.start < high), None)
            if date:
                out[f"{event} date"] = [FactValue(date, 0)]
            offset = match.start(1)
            place = next(
                (
                    m.text for m in page.mentions
                    if m.kind == "name" and offset + low <= page.starts[m.first] < offset + high
                    and re.search(r"(?:\b(?:in|at)|,)\s$", page.text[: page.starts[m.first]][-5:])
                ),
                None,
            )  # fmt: skip
            if place:
                out[f"{event} place"] = [FactValue(place, 0)]
        return out
    return {}


def _describes(page: ParsedPassage, mention: Mention) -> bool:
    """True for a name that only describes the next one: "the *Aztec* ruler Moctezuma"."""
    for step in (1, 2):
        following = mention.last + step
        if mention.kind != "name" or following >= len(page.tokens) or not _plain(page.tokens[following - 1]):
            return False
        if page.tokens[following][0].isupper():
            return True
    return False


def _plain(token: str) -> bool:
    return token[0].islower() and token not in words().phrase_ends and token not in STOP_WORDS


def _country(page: ParsedPassage) -> list[FactValue]:
    """The country: the people named right after "is a", else the last country or region of the first sentence, else any
    people."""
    lead = [m for m in page.mentions if m.sentence <= 1]
    peoples = [m for m in lead if m.kind == "people"]
    for mention in peoples:
        near = page.tokens[max(0, mention.first - 4) : mention.first]
        if mention.sentence == 0 and {"is", "was", "are", "were"} & set(near):
            return [FactValue(_adjective(mention.text), 0)]
    places = [m for m in lead if m.kind == "name" and country_of(m.text) and m.sentence == lead[0].sentence]
    if places:
        named = [m for m in places if m.text.lower() in countries().names]
        return [FactValue((named or places)[-1].text, 0)]
    if peoples:
        return [FactValue(_adjective(peoples[0].text), peoples[0].sentence)]
    later = next((m for m in page.mentions if m.kind == "name" and country_of(m.text)), None)
    return [FactValue(later.text, later.sentence)] if later else []


def _place(page: ParsedPassage, kind: str) -> list[FactValue]:
    """The name of a place of one kind in the first sentences: a state by its name, others by the word beside them."""
    marks = relations().place_kinds[kind]
    names = [m for m in page.mentions if m.kind == "name" and m.sentence <= 2]
    for mention in names:
        after = page.tokens[mention.last : mention.last + 1]
        before = page.tokens[max(0, mention.first - 2) : mention.first]
        worded = any(word in (*mention.text.lower().split(), *after, *before) for word in marks)
        listed = kind == "state" and mention.text.lower() in countries().regions
        if worded or listed:
            return [FactValue(mention.text, mention.sentence)]
    if kind in ("city", "town", "village"):
        found = [value for rule in relations().rules["location"] for value in _apply(rule, page)]
        return found[:1]
    return []


def _adjective(people: str) -> str:
    return people.partition("-")[0].strip() if people.lower() not in countries().peoples else people
