"""Chains of relations, followed through the pages: each step's value is the next step's subject."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from polyhop.common.text import bare_title, find_folded, fold
from polyhop.lm.pocket.reading.descriptions import Step
from polyhop.lm.pocket.reading.facts import Value, facts
from polyhop.lm.pocket.reading.passage import Page
from polyhop.lm.pocket.reading.text import content_roots

_CLOSE_ENOUGH = 0.6  # of a name to a title
_ALIAS = r"\b(?:known as|called|born|stage name|pen name|nicknamed),? (?:the )?"  # before a subject's other name


def link(name: str, pages: Sequence[Page]) -> Page | None:
    """The page whose subject a name means: of that title, else one whose title, else whose lead, holds its words."""
    key, bare = fold(name).strip(' ?.,"'), fold(bare_title(name)).strip(' ?.,"')
    if not bare:
        return None
    for page in pages:
        if fold(page.title) == key:
            return page
    exact = [page for page in pages if page.folded_name == bare]
    if exact:
        return exact[0]
    wanted = set(content_roots(bare))
    best: tuple[float, Page] | None = None
    for page in pages:
        score = _closeness(wanted, bare, page)
        if score > _CLOSE_ENOUGH and (best is None or score > best[0]):
            best = (score, page)
    return best[1] if best else None


def _closeness(wanted: set[str], bare: str, page: Page) -> float:
    title = set(page.name_roots)
    if not wanted or not title:
        return 0.0
    shared = len(wanted & title)
    if shared == min(len(wanted), len(title)) and shared:
        return 0.62 + 0.38 * shared / max(len(wanted), len(title))
    lead = set(page.roots[:30])
    if wanted <= lead and len(wanted) > 1 and title & wanted:
        return 0.7
    if len(wanted) > 1 and re.match(rf".{{0,150}}{_ALIAS}{re.escape(bare)}\b", page.folded, re.DOTALL):
        return 0.61
    return shared / max(len(wanted), len(title))


@dataclass(frozen=True, slots=True)
class Hop:
    """A step followed: its subject's name and page, and the value found, each None where it was not."""

    step: Step
    subject: str | None
    page: Page | None
    value: Value | None


def follow(steps: Sequence[Step], pages: Sequence[Page]) -> list[Hop]:
    """Follow a chain through the pages until a step finds nothing; one hop for each step tried."""
    hops: list[Hop] = []
    for step in steps:
        subject: str | None = step.subject
        if source := step.source(len(hops)):
            value = hops[source - 1].value
            subject = value.text if value else None
        page = link(subject, pages) if subject else None
        values = facts(page, step.relation) if page and step.relation else []
        found = _linked_first(values, pages) if values else _said_elsewhere(subject, step.relation, pages)
        hops.append(Hop(step, subject, page, found))
        if found is None:
            break
    return hops


def _linked_first(values: Sequence[Value], pages: Sequence[Page]) -> Value:
    """Of several values (two directors) the one with a page of its own."""
    titles = {page.folded_name for page in pages}
    return next((value for value in values if fold(value.text) in titles), values[0])


# "X is the father of Y" on X's own page, for a question about Y.
_INVERSE = {
    "father": r"\bfather of\b", "mother": r"\bmother of\b",
    "spouse": r"\b(?:wife|husband|consort|widow) of\b|\bmarried\b",
    "child": r"\b(?:son|daughter|child) of\b", "sibling": r"\b(?:brother|sister) of\b",
    "director": r"\bdirect", "writer": r"\bwrote\b|\bwritten\b|\bauthor\b",
    "founder": r"\bfound", "composer": r"\bcompos",
    "performer": r"\b(?:song|single|album)s?\b",
}  # fmt: skip


def _said_elsewhere(subject: str | None, relation: str | None, pages: Sequence[Page]) -> Value | None:
    pattern = _INVERSE.get(relation or "")
    if not subject or not pattern:
        return None
    for page in pages:
        for cue in re.finditer(pattern, page.text):
            if find_folded(subject, page.text[cue.end() : cue.end() + 120]):
                return Value(page.name, page.sentence_at(cue.start()))
    return None
