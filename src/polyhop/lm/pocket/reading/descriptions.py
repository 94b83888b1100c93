"""Nested descriptions in a question, taken apart from the inside out.

"When was the director of Dark Mill born?" is two steps: (Dark Mill; director; #1), (#1; birth date; #2). A step whose
relation is unknown keeps its sub-question, for the reader.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from polyhop.lm.pocket.reading.names import find_names, name_before, name_from

MOST_STEPS = 6

# Nouns for a relation of the thing they are said of. Two relations are two steps.
_NOUNS: dict[str, tuple[str, ...]] = {
    noun: tuple(relations.split(" > "))
    for relations, nouns in {
        "director": "director, film director",
        "writer": "screenwriter, author, writer",
        "composer": "composer",
        "performer": "performer, singer, artist",
        "producer": "producer",
        "publisher": "publisher",
        "founder": "founder",
        "creator": "creator, painter, designer, architect, inventor, builder",
        "spouse": "husband, wife, spouse",
        "father": "father",
        "mother": "mother",
        "child": "son, daughter, child",
        "sibling": "brother, sister, sibling",
        "father > father": "paternal grandfather, grandfather",
        "father > mother": "paternal grandmother",
        "mother > father": "maternal grandfather",
        "mother > mother": "maternal grandmother, grandmother",
        "spouse > father": "father-in-law",
        "spouse > mother": "mother-in-law",
        "mother > spouse": "stepfather",
        "father > spouse": "stepmother",
        "father > sibling": "uncle",
        "mother > sibling": "aunt",
        "birth place": "birthplace, place of birth, birth place, city of birth, hometown",
        "birth date": "date of birth, birthday",
        "death place": "place of death",
        "death date": "date of death",
        "death cause": "cause of death",
        "country": "nationality, country of origin, country of citizenship",
        "headquarters": "headquarters",
    }.items()
    for noun in nouns.split(", ")
}
_VERBS = {
    "directed": "director", "wrote": "writer", "composed": "composer", "performed": "performer", "produced": "producer",
    "published": "publisher", "released": "publisher", "made": "founder",
    "founded": "founder", "created": "creator", "designed": "creator",
    "painted": "creator", "built": "creator", "invented": "creator", "sang": "performer",
}  # fmt: skip
_PLACES = (
    "country|nation|state|city|county|continent|region|district|province|town|village|municipality|island|territory"
)
_TOWNS = frozenset({"city", "town", "village"})
_WORKS = (
    "film|movie|song|single|album|book|novel|play|series|band|company|show|magazine|game|opera|painting|bridge|poem"
)
_LITTLE = "of|the|a|an|is|was|were|are|did|do|does|in|on|by|and|that|which|who|whose|for"  # words that describe nothing
_KIND = rf"(?:the )?(?:(?:(?!(?:{_LITTLE}) )[\w-]+ ){{0,2}}?(?:{_WORKS}) )?"
_NOUN = "|".join(sorted(map(re.escape, _NOUNS), key=len, reverse=True))
# The three ways a description leans on a name: "the director of X", "the person who wrote X", "X's mother".
_OF = re.compile(rf"(?:\bthe )?\b(?P<noun>{_NOUN}|{_PLACES})s? (?:of|for) {_KIND}(?=\S)", re.IGNORECASE)
_AGENTS = (
    "person|people|man|woman|one|engineer|director|painter|company|band|artist|group|author|studio|organization"
    "|association|network"
)
_WHO = re.compile(
    rf"\bthe (?:\w+ )?(?:{_AGENTS})s?"
    rf" (?:who|that|which) (?P<noun>{'|'.join(_VERBS)}) {_KIND}(?=\S)",
    re.IGNORECASE,
)  # fmt: skip
_WHERE = re.compile(
    rf"\bthe (?P<noun>{_PLACES}) (?:(?:where|in which|that|which) )?(?:the (?:village|city|town) of )?{_KIND}(?=\S)",
    re.IGNORECASE,
)
_WHERE_END = re.compile(
    r" (?:is|was|are|lies|can be)(?: \w+)?"
    r" (?:located|found|situated|in|part of|from|based|citizen(?: of)?|born|fought)\b(?: (?:in|at|of))?"
    r"|(?: was)? born(?: in)?| died(?: in)?| took place| (?:comes|came) from| occurred"
)  # fmt: skip
_POSSESSIVE = re.compile(rf"['’]s? (?:\w+ )??(?P<noun>{_NOUN})\b")
_SLOT = re.compile(r"#\d+")
_REFERENCE = re.compile(r"#[0-9]{1,3}")
_WHEN = "(?:when|(?:in |on )?(?:what|which) (?:year|date|day))"
_SITES = "city|place|town|county|village|island|archipelago|country|state"
_WHERE_ASKED = rf"(?:where|(?:in |on )?(?:what|which) (?:[\w-]+ )?(?:{_SITES}))"
# What is left when every description is gone: the last question about the slot "#".
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


@dataclass(frozen=True, slots=True)
class Step:
    """One hop: ``relation`` (None: only ``question`` tells) of ``subject``, a name or "#k", the value of step k."""

    subject: str
    relation: str | None
    question: str

    def source(self, before: int) -> int | None:
        """The step, from 1, whose value is the subject, of the ``before`` steps that come first; None for a name, as
        a "#3" of the question's own is.

        >>> Step("#1", "spouse", "").source(1), Step("#3", "spouse", "").source(1), Step("Ann", "spouse", "").source(1)
        (1, None, None)
        """
        number = int(self.subject[1:]) if _REFERENCE.fullmatch(self.subject) else 0
        return number if 1 <= number <= before else None


@lru_cache(maxsize=512)
def chain(question: str) -> tuple[Step, ...]:
    """The steps of a nested question, innermost first; () where it is not understood as one.

    >>> [(s.subject, s.relation) for s in chain("When was the director of film Dark Mill born?")]
    [('Dark Mill', 'director'), ('#1', 'birth date')]
    >>> [(s.subject, s.relation) for s in chain("Who is Ann Lee's paternal grandfather?")]
    [('Ann Lee', 'father'), ('#1', 'father')]
    """
    steps: list[Step] = []
    text = question
    while len(steps) < MOST_STEPS and (peeled := _peel(text, bool(steps))):
        relations, subject, start, end = peeled
        for name in relations:
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
    """The relation a question with its subject masked by "#" asks for."""
    return next((name for pattern, name in _LAST if pattern.search(plain)), None)


def _direct(question: str) -> tuple[Step, ...]:
    """The one step of a question about a name itself: "When was Dark Mill released?"."""
    for name in find_names(question):
        masked = re.sub(rf"{_KIND}{re.escape(name)}", "#", question.strip(), count=1)
        if relation := _last_relation(masked):
            return (Step(name, relation, question),)
    return ()


def _peel(text: str, inside: bool) -> tuple[tuple[str, ...], str, int, int] | None:
    """The innermost description that leans on a name (or a slot): its relations, the name, and where it stands."""
    for match in _POSSESSIVE.finditer(text):
        slot = re.search(r"#\d+\s?$", text[: match.start()])
        before = slot.span() if slot else None if inside else name_before(text, match.start())
        if before:
            return _NOUNS[match["noun"].lower()], text[slice(*before)].strip(), before[0], match.end()
    for pattern in (_OF, _WHO, _WHERE):
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
            relations = _relations(match["noun"].lower(), text[found[1] : end])
            return relations, text[slice(*found)], match.start(), end
    return None


def _relations(noun: str, ending: str) -> tuple[str, ...]:
    """The relations a noun stands for; a town "where X was born" is X's birth place."""
    if noun in _TOWNS and (event := re.search("born|died", ending)):
        return ("birth place" if event[0] == "born" else "death place",)
    if noun == "nation":
        return ("country",)
    return _NOUNS.get(noun) or ((_VERBS[noun],) if noun in _VERBS else (noun,))


def _subject_at(text: str, start: int) -> tuple[int, int] | None:
    slot = re.compile(r"(?:the )?(#\d+)").match(text, start)
    if slot:
        return slot.span(1)
    found = name_from(text, start)
    return found if found and found[0] - start <= 5 else None
