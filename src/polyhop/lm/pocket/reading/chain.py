"""Chains of relations: a nested question decomposed into steps, and the steps followed through the pages.

"When was the director of Dark Mill born?" is two steps: (Dark Mill; director; #1), (#1; birth date; #2). The value of a
step is the subject of the next. A step whose relation is unknown keeps its sub-question, for the reader.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from polyhop.common.text import bare_title, find_folded, fold
from polyhop.lm.pocket.reading.facts import facts
from polyhop.lm.pocket.reading.passage import FactValue, ParsedPassage
from polyhop.lm.pocket.reading.tables import relations
from polyhop.lm.pocket.reading.text import content_stems, find_names, name_before, name_from

MAX_STEPS = 6
_PLACES = (
    "country|nation|state|city|county|continent|region|district|province|town|village|municipality|island|territory"
)
_TOWNS = frozenset({"city", "town", "village"})
_WORKS = (
    "film|movie|song|single|album|book|novel|play|series|band|company|show|magazine|game|opera|painting|bridge|poem"
)
_LITTLE = "of|the|a|an|is|was|were|are|did|do|does|in|on|by|and|that|which|who|whose|for"  # these describe nothing
_KIND = rf"(?:the )?(?:(?:(?!(?:{_LITTLE}) )[\w-]+ ){{0,2}}?(?:{_WORKS}) )?"
_AGENTS = (
    "person|people|man|woman|one|engineer|director|painter|company|band|artist|group|author|studio|organization"
    "|association|network"
)
_WHERE = re.compile(
    rf"\bthe (?P<noun>{_PLACES}) (?:(?:where|in which|that|which) )?(?:the (?:village|city|town) of )?{_KIND}(?=\S)",
    re.IGNORECASE,
)
_WHERE_END = re.compile(
    r" (?:is|was|are|lies|can be)(?: \w+)?"
    r" (?:located|found|situated|in|part of|from|based|citizen(?: of)?|born|fought)\b(?: (?:in|at|of))?"
    r"|(?: was)? born(?: in)?| died(?: in)?| took place| (?:comes|came) from| occurred"
)  # fmt: skip
_SLOT = re.compile(r"#\d+")
_REFERENCE = re.compile(r"#[0-9]{1,3}")
_WHEN = "(?:when|(?:in |on )?(?:what|which) (?:year|date|day))"
_SITES = "city|place|town|county|village|island|archipelago|country|state"
_WHERE_ASKED = rf"(?:where|(?:in |on )?(?:what|which) (?:[\w-]+ )?(?:{_SITES}))"
# Relations by the question that is left once every description is replaced by the slot "#".
_LAST: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), relation)
    for pattern, relation in (
        (rf"^{_WHERE_ASKED} (?:was|is|were) # born", "birth place"),
        (rf"^{_WHEN} (?:was|is|were) # born", "birth date"),
        (r"^when is #(?: ['’]s|['’]s)? ?birthday|^what is #(?: ['’]s|['’]s)? birthday", "birth date"),
        (rf"^{_WHERE_ASKED} did # die", "death place"),
        (rf"^{_WHEN} did # die", "death date"),
        (r"^(?:why|how) did # die|^what did # die of", "death cause"),
        (r"^(?:what|which) (?:nationality|country) (?:is|was|does)?\s*#", "country"),
        (r"^(?:what|which) award.*#.*receive|^what is the award that # (?:received|won)", "award"),
        (r"^where (?:did|does|was|is) # (?:study|graduate|educated|go to school)", "school"),
        (r"^where (?:did|does) # work", "employer"),
        (rf"^{_WHEN} (?:was|were) # (?:founded|established|formed|started|created|launched)", "start"),
        (rf"^{_WHEN} (?:was|were|did) # (?:released|published|come out|premiered)", "release"),
        (r"^who directed #", "director"), (r"^who wrote #", "writer"),
        (r"^who (?:founded|formed|created) #", "founder"),
    )
)  # fmt: skip
_DONE = re.compile(r"^(?:who|what|where|when|which(?: \w+)?) (?:is|was|are|were)(?: the)? ?#\s*\??$", re.IGNORECASE)


class _Descriptions(NamedTuple):
    """The patterns of a description of a name: "the director of X", "the person who wrote X", "X's mother"."""

    of: re.Pattern[str]
    who: re.Pattern[str]
    possessive: re.Pattern[str]


@lru_cache(maxsize=1)
def _descriptions() -> _Descriptions:
    nouns = "|".join(sorted(map(re.escape, relations().nouns), key=len, reverse=True))
    verbs = "|".join(relations().verbs)
    return _Descriptions(
        re.compile(rf"(?:\bthe )?\b(?P<noun>{nouns}|{_PLACES})s? (?:of|for) {_KIND}(?=\S)", re.IGNORECASE),
        re.compile(
            rf"\bthe (?:\w+ )?(?:{_AGENTS})s? (?:who|that|which) (?P<noun>{verbs}) {_KIND}(?=\S)", re.IGNORECASE
        ),
        re.compile(rf"['’]s? (?:\w+ )??(?P<noun>{nouns})\b"),
    )


@dataclass(frozen=True, slots=True)
class Step:
    """A step: the ``relation`` (None if unknown) of ``subject``, which is a name or "#k", the value of step k."""

    subject: str
    relation: str | None
    question: str

    def source(self, before: int) -> int | None:
        """The number of the step whose value is the subject, from 1 to ``before``; None if the subject is a name, as a
        "#3" that the question itself contains.

        >>> Step("#1", "spouse", "").source(1), Step("#3", "spouse", "").source(1), Step("Ann", "spouse", "").source(1)
        (1, None, None)
        """
        number = int(self.subject[1:]) if _REFERENCE.fullmatch(self.subject) else 0
        return number if 1 <= number <= before else None


@lru_cache(maxsize=512)
def decompose(question: str) -> tuple[Step, ...]:
    """Decompose a nested question into steps, innermost first; () if it is not understood as one.

    >>> [(s.subject, s.relation) for s in decompose("When was the director of film Dark Mill born?")]
    [('Dark Mill', 'director'), ('#1', 'birth date')]
    >>> [(s.subject, s.relation) for s in decompose("Who is Ann Lee's paternal grandfather?")]
    [('Ann Lee', 'father'), ('#1', 'father')]
    """
    steps: list[Step] = []
    text = question
    while len(steps) < MAX_STEPS and (description := _innermost(text, bool(steps))):
        names, subject, start, end = description
        for name in names:
            steps.append(Step(subject, name, f"What is the {name} of {subject}?"))
            subject = f"#{len(steps)}"
        text = f"{text[:start]}{subject}{text[end:]}"
    if not steps:
        return _direct(question)
    slot = f"#{len(steps)}"
    plain = _SLOT.sub("#", text).strip()
    if slot not in text:
        return ()
    if _DONE.match(plain):
        return tuple(steps)
    return (*steps, Step(slot, _last_relation(plain), text))


def _last_relation(plain: str) -> str | None:
    """The relation that a question asks for, its subject masked by "#"."""
    return next((name for pattern, name in _LAST if pattern.search(plain)), None)


def _direct(question: str) -> tuple[Step, ...]:
    """The single step of a question about a name: "When was Dark Mill released?"."""
    for name in find_names(question):
        masked = re.sub(rf"{_KIND}{re.escape(name)}", "#", question.strip(), count=1)
        if relation := _last_relation(masked):
            return (Step(name, relation, question),)
    return ()


def _innermost(text: str, inside: bool) -> tuple[tuple[str, ...], str, int, int] | None:
    """The innermost description of a name (or a slot): its relations, the name, and the start and end of it all."""
    for match in _descriptions().possessive.finditer(text):
        slot = re.search(r"#\d+\s?$", text[: match.start()])
        before = slot.span() if slot else None if inside else name_before(text, match.start())
        if before:
            return relations().nouns[match["noun"].lower()], text[slice(*before)].strip(), before[0], match.end()
    for pattern in (_descriptions().of, _descriptions().who, _WHERE):
        for match in reversed(list(pattern.finditer(text))):
            found = _subject_at(text, match.end())
            if found is None:
                continue
            end = found[1]
            if pattern is _WHERE:
                close = _WHERE_END.match(text, end)
                if close is None:
                    continue
                end = close.end()
            names = _relations(match["noun"].lower(), text[found[1] : end])
            return names, text[slice(*found)], match.start(), end
    return None


def _relations(noun: str, ending: str) -> tuple[str, ...]:
    """The relations that a noun stands for; a town "where X was born" is the birth place of X."""
    if noun in _TOWNS and (event := re.search("born|died", ending)):
        return ("birth place" if event[0] == "born" else "death place",)
    if noun == "nation":
        return ("country",)
    nouns, verbs = relations().nouns, relations().verbs
    return nouns.get(noun) or (verbs.get(noun, noun),)


def _subject_at(text: str, start: int) -> tuple[int, int] | None:
    slot = re.compile(r"(?:the )?(#\d+)").match(text, start)
    if slot:
        return slot.span(1)
    found = name_from(text, start)
    return found if found and found[0] - start <= 5 else None


# --- chains followed --------------------------------------------------------------------------------------------------


_MIN_SIMILARITY = 0.6  # of a name to a title
_ALIAS = r"\b(?:known as|called|born|stage name|pen name|nicknamed),? (?:the )?"  # before another name of a subject


def find_page(name: str, pages: Sequence[ParsedPassage]) -> ParsedPassage | None:
    """Find the page whose subject a name means: by its title, else by the words of its title, else by those of its
    lead."""
    key, bare = fold(name).strip(' ?.,"'), fold(bare_title(name)).strip(' ?.,"')
    if not bare:
        return None
    for page in pages:
        if fold(page.title) == key:
            return page
    exact = [page for page in pages if page.folded_name == bare]
    if exact:
        return exact[0]
    wanted = set(content_stems(bare))
    best: tuple[float, ParsedPassage] | None = None
    for page in pages:
        score = _similarity(wanted, bare, page)
        if score > _MIN_SIMILARITY and (best is None or score > best[0]):
            best = (score, page)
    return best[1] if best else None


def _similarity(wanted: set[str], bare: str, page: ParsedPassage) -> float:
    title = set(page.name_stems)
    if not wanted or not title:
        return 0.0
    shared = len(wanted & title)
    if shared == min(len(wanted), len(title)) and shared:
        return 0.62 + 0.38 * shared / max(len(wanted), len(title))
    lead = set(page.stems[:30])
    if wanted <= lead and len(wanted) > 1 and title & wanted:
        return 0.7
    if len(wanted) > 1 and re.match(rf".{{0,150}}{_ALIAS}{re.escape(bare)}\b", page.folded, re.DOTALL):
        return 0.61
    return shared / max(len(wanted), len(title))


@dataclass(frozen=True, slots=True)
class Hop:
    """A followed step: the name and page of its subject, and its value; each None if it was not found."""

    step: Step
    subject: str | None
    page: ParsedPassage | None
    value: FactValue | None


def follow_chain(steps: Sequence[Step], pages: Sequence[ParsedPassage]) -> list[Hop]:
    """Follow a chain through the pages until a step finds no value; one hop per step tried."""
    hops: list[Hop] = []
    for step in steps:
        subject: str | None = step.subject
        if source := step.source(len(hops)):
            known = hops[source - 1].value
            subject = known.text if known else None
        page = find_page(subject, pages) if subject else None
        values = facts(page, step.relation) if page and step.relation else []
        value = _best_value(values, pages) if values else _inverse_value(subject, step.relation, pages)
        hops.append(Hop(step, subject, page, value))
        if value is None:
            break
    return hops


def _best_value(values: Sequence[FactValue], pages: Sequence[ParsedPassage]) -> FactValue:
    """The first of several values (two directors) that has a page of its own, else the first."""
    titles = {page.folded_name for page in pages}
    return next((value for value in values if fold(value.text) in titles), values[0])


def _inverse_value(subject: str | None, relation: str | None, pages: Sequence[ParsedPassage]) -> FactValue | None:
    """The value of a relation that the page of the value states: "X is the father of Y" on the page of X."""
    pattern = relations().inverse.get(relation or "")
    if not subject or not pattern:
        return None
    for page in pages:
        for cue in re.finditer(pattern, page.text):
            if find_folded(subject, page.text[cue.end() : cue.end() + 120]):
                return FactValue(page.name, page.sentence_at(cue.start()))
    return None
