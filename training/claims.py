"""Claims made of questions: "Which city does Ana work from?" is "Does Ana work from #?", where # stands for the answer.

The rules are those of English questions; a question that none of them fits is left alone. A claim about the answer is
true, one about another value of its kind is false (``rivals``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from polyhop.common.text import normalise
from polyhop.lm.pocket.reading.passage import find_mentions
from polyhop.lm.pocket.reading.text import tokenize

SLOT = "#"
"""Stands in a claim for the value."""
_BE = "is|are|was|were"
_DO = "does|do|did"
_MODAL = "can|could|will|would|may|must|should"
_TO = "in|on|at|from|to|by|for|with|since|until|after|before|within|under|behind|of|about|into|near|up to"
_PREPOSITION = re.compile(rf"^(?:{_TO}|between|over|above|next to|beside|opposite)\b", re.IGNORECASE)
_ADJUNCT = re.compile(
    r" (?:in|on|at|from|to|by|for|with|since|until|after|before|during|as|per|(?<!the )(?:this|last|next)) "
)
_ENDS_WITH_PREPOSITION = re.compile(rf" (?:{_TO})$")
_THING = re.compile(r"^(?:the|a|an|our|my|his|her|its|their|this|that|[A-Z\d\"“]|\w+['’]s )")
_FRONTED = re.compile(
    rf"^(?P<lead>{_TO}) (?:which|what|whom|how many|how much|when|where|whose)(?P<noun>(?: [\w-]+){{0,2}}?) "
    rf"(?P<verb>{_BE}|{_DO}|has|have|had|{_MODAL}) (?P<rest>.+)$",
    re.IGNORECASE,
)
_SUBJECT = re.compile(rf"^(?P<word>who|what) (?P<verb>{_BE}|has|had) (?P<rest>.+)$", re.IGNORECASE)
_WHICH = re.compile(rf"^(?:which|what)(?: [\w-]+){{1,2}}? (?P<verb>{_BE}) (?P<rest>.+)$", re.IGNORECASE)
_OBJECT = re.compile(
    rf"^(?:who|whom|what|which|how much|how long|how far|how fast|how often)(?P<noun>(?: [\w-]+){{0,2}}?) "
    rf"(?P<verb>{_DO}) (?P<rest>.+)$",
    re.IGNORECASE,
)
_WHERE = re.compile(rf"^(?:where|when) (?P<verb>{_BE}|{_DO}|has|have|had|{_MODAL}) (?P<rest>.+)$", re.IGNORECASE)
_MANY = re.compile(
    rf"^how many (?P<noun>[\w-]+(?: [\w-]+)??) (?P<verb>{_BE}|{_DO}|has|have|had) (?P<rest>.+)$", re.IGNORECASE
)
_HOW = re.compile(rf"^how (?P<adjective>[\w-]+) (?P<verb>{_BE}) (?P<rest>.+)$", re.IGNORECASE)
_WHO_VERB = re.compile(r"^who (?P<verb>[a-z]{2,}[^su\W]s) (?P<rest>.+)$", re.IGNORECASE)
_WHO_DID = re.compile(r"^who (?P<rest>(?!has\b|had\b|else\b)[a-z]+ .+)$", re.IGNORECASE)
_WHICH_DID = re.compile(
    rf"^which (?P<noun>[a-z]+) (?P<rest>(?!{_MODAL}\b|of\b|other\b)[a-z]+(?:ed|t|n|s|d|e) .+)$", re.IGNORECASE
)
_TIMES = dict.fromkeys(("year", "month", "century", "city", "country"), "in") | {
    "day": "on",
    "date": "on",
    "time": "at",
}
_DIMENSIONS = ("long", "high", "wide", "thick", "deep", "old")
_KINDS = ("date", "year", "number", "name", "quoted", "people")


def claim(question: str, before: str = "") -> str | None:
    """Rewrite a question as a question of yes or no about ``SLOT``; None if no rule fits. ``before``: the word before
    the answer in its passage, which says "in", "at" or "from".

    >>> claim("Which city does Ana work from?")
    'Does Ana work from #?'
    >>> claim("Who is the head of the lab?"), claim("What is the price of the oil?")
    ('Is # the head of the lab?', 'Is the price of the oil #?')
    >>> claim("When was Ana born?", "in"), claim("How many doors does the barn have?")
    ('Was Ana born in #?', 'Does the barn have # doors?')
    >>> claim("Who leads the team?"), claim("Who founded the club in 1990?")
    ('Does # lead the team?', 'Was it # who founded the club in 1990?')
    >>> claim("Why did Ana leave?") is None
    True
    """
    text = " ".join(question.split()).rstrip(" ?.")
    made = next((found for rule in (_of_place, _of_amount, _of_thing, _of_doer) if (found := rule(text, before))), None)
    return made and f"{made[0].upper()}{made[1:]}?"


def _of_place(text: str, before: str) -> str | None:
    """Questions that open with a preposition, "where" or "when"."""
    if match := _FRONTED.match(text):
        counted = f" {match['noun'].strip()}" if "how many" in text.lower() else ""
        return f"{match['verb'].lower()} {match['rest']} {match['lead'].lower()} {SLOT}{counted}"
    if match := _WHERE.match(text):
        is_led = _PREPOSITION.match(before) and not _ENDS_WITH_PREPOSITION.search(match["rest"])
        lead = f"{before.lower()} " if is_led else ""
        return f"{match['verb'].lower()} {match['rest']} {lead}{SLOT}"
    return None


def _of_amount(text: str, before: str) -> str | None:
    """Questions of how many, and how long, high or old."""
    if match := _MANY.match(text):
        noun, verb, rest = match["noun"], match["verb"].lower(), match["rest"]
        if rest.lower().startswith("there"):
            return f"{verb} there {SLOT} {noun}{rest[5:]}"
        return f"{verb} {SLOT} {noun} {rest}" if verb in _BE.split("|") else f"{verb} {_with(rest, f'{SLOT} {noun}')}"
    if match := _HOW.match(text):
        ending = f" {match['adjective']}" if match["adjective"] in _DIMENSIONS else ""
        return f"{match['verb'].lower()} {match['rest']} {SLOT}{ending}"
    return None


def _of_thing(text: str, before: str) -> str | None:
    """Questions of who, what and which: about the subject of "is" and "has", or the object of another verb."""
    if match := _SUBJECT.match(text):
        word, verb, rest = match["word"].lower(), match["verb"].lower(), match["rest"]
        is_subject = word == "what" and _THING.match(rest)
        follows = verb in _BE.split("|") and (is_subject or _ENDS_WITH_PREPOSITION.search(rest))
        return f"{verb} {rest} {SLOT}" if follows else f"{verb} {SLOT} {rest}"
    if match := _OBJECT.match(text):
        lead = _TIMES.get(match["noun"].strip().lower())
        rest, verb = match["rest"], match["verb"].lower()
        if lead and not _ENDS_WITH_PREPOSITION.search(rest):
            return f"{verb} {rest} {lead} {SLOT}"
        return f"{verb} {_with(rest, SLOT)}"
    if match := _WHICH.match(text):
        verb, rest = match["verb"].lower(), match["rest"]
        return f"{verb} {rest} {SLOT}" if _ENDS_WITH_PREPOSITION.search(rest) else f"{verb} {SLOT} {rest}"
    return None


def _of_doer(text: str, before: str) -> str | None:
    """Questions of who does or did something, and which thing did."""
    if match := _WHO_VERB.match(text):
        return f"does {SLOT} {_base(match['verb'].lower())} {match['rest']}"
    if match := _WHO_DID.match(text):
        return f"was it {SLOT} who {match['rest']}"
    if match := _WHICH_DID.match(text):
        return f"is {SLOT} the {match['noun']} that {match['rest']}"
    return None


def _with(rest: str, value: str) -> str:
    """A clause with its object: before the first adjunct, else at the end."""
    found = None if _ENDS_WITH_PREPOSITION.search(rest) else _ADJUNCT.search(rest)
    return f"{rest[: found.start()]} {value}{rest[found.start() :]}" if found else f"{rest} {value}"


def _base(verb: str) -> str:
    """The base form of a verb in the third person.

    >>> [_base(verb) for verb in ("leads", "teaches", "carries", "makes", "does")]
    ['lead', 'teach', 'carry', 'make', 'do']
    """
    if verb.endswith("ies") and len(verb) > 4:
        return f"{verb[:-3]}y"
    return verb[:-2] if re.search(r"(?:ch|sh|ss|x|o|zz)es$", verb) else verb[:-1]


def kind_of(value: str) -> str:
    """The kind of a value: date, year, number, name, quoted, people or phrase.

    >>> kind_of("5 May 2024"), kind_of("20 minutes"), kind_of("Ana Roth"), kind_of("by courier")
    ('date', 'number', 'name', 'phrase')
    """
    kinds = {mention.kind for mention in find_mentions(tokenize(value))}
    return next((kind for kind in _KINDS if kind in kinds), "phrase")


def rivals(answer: str, text: str, others: Iterable[str] = ()) -> Iterator[str]:
    """Other values of an answer's kind: of ``others``, then in the text. A number is exchanged within its answer.

    >>> list(rivals("20 minutes", "It starts after 20 minutes and ends after 45.", ["Ana Roth"]))
    ['45 minutes']
    """
    kind, plain = kind_of(answer), normalise(answer)
    for other in dict.fromkeys(others):
        bare = normalise(other)
        if kind_of(other) == kind and bare not in plain and plain not in bare:
            yield other
    own = next((mention for mention in find_mentions(tokenize(answer)) if mention.kind == kind), None)
    if own is None or kind == "phrase":
        return
    for mention in find_mentions(tokenize(text)):
        if mention.kind == kind and mention.folded not in plain and own.folded not in mention.folded:
            yield answer.replace(own.text, mention.text, 1)
