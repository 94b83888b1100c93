"""Questions about things that they only describe, split in two.

"Where does the nurse who found the key live?" is "Which nurse found the key?", and "Where does # live?" of the answer.
The rules are those of English relative clauses and prepositions.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from polyhop.lm.pocket.reading.tables import words

SLOT = "#"
"""Stands in the outer question for the answer to the inner one."""
_ASKING = r"(?:who|whom|whose|what|which|where|when|why|how)\b"
_HEAD = r"(?P<head>(?:(?!(?:who|that|which|whose|whom|where|with|of|for|in|on|at|from|by|and|or)\b)[\w'’&.-]+ ){1,4})"
_CLAUSE = re.compile(
    rf"\b(?:the|our|that) {_HEAD}(?P<word>who|that|which|whose|whom|where|to whom)\b (?P<body>[^?,;]+)", re.IGNORECASE
)
_REDUCED = re.compile(
    rf"\b(?:the|our) {_HEAD}(?P<word>with|of|behind|in charge of)\b (?P<body>[^?,;]+)",
    re.IGNORECASE,
)
_WHOEVER = re.compile(
    r"\b(?:whoever|whichever(?: of us)?|the one who|someone who|anyone who) (?P<body>[^?,;]+)", re.IGNORECASE
)
_AUXILIARY = r"(?:do|does|did|is|are|was|were|has|have|had|can|could|will|would|may|must|should)"
_ENDS_WITH_AUXILIARY = re.compile(rf"\b(?!(?:is|are|was|were) ){_AUXILIARY} $", re.IGNORECASE)
_ENDS_WITH_BEING = re.compile(r"\b(?:is|are|was|were) $", re.IGNORECASE)
_VERBS = (
    "live|work|stay|arrive|come|leave|sit|teach|sing|study|play|pay|sell|sold|cost|take|start|begin|end|join|joined"
    "|retire|have|use|need|want|wear|look|write|make|made|built|build|run|get|earn|own|drive|keep|speak|sail|ship|last"
    "|weigh|hold|carry|grow|train|learn|cook|eat|drink|bring|lie|stand|hang|belong|open|close|meet|move|moved|based"
    "|located|kept|held|born|found|stored|paid|called|named|caught|go|do|sign|report|lead|own|say|see|buy|land|live|charge"
)
_ADVERBS = (
    r"(?: (?:in|at|on|to|from|for|with|by|up|off|out|after|of|now|today|before|first|himself|herself|itself|over|back"
    r"|away|under|as|down|work|a living|per \w+|(?:next|last|this) \w+))*"
)
_TAIL = re.compile(rf" (?P<tail>(?:{_VERBS}){_ADVERBS})$", re.IGNORECASE)
_WAITS_FOR_VERB = re.compile(rf"\b(?:do|does|did) (?:the|our) (?:(?!\b(?:{_VERBS})\b).)*$", re.IGNORECASE)
_EXTRAPOSED = re.compile(
    rf"^(?P<front>.*\b{_AUXILIARY} )(?:the|our) (?P<head>[\w-]+(?: [\w-]+)??) (?P<tail>(?:{_VERBS}|\w+ed){_ADVERBS}) "
    r"(?P<word>who|that|which|whose) (?P<body>[^?,;]+)$",
    re.IGNORECASE,
)
_OPENING = re.compile(r"^(?:someone|somebody) (?P<someone>.+)|^one of (?P<one>.+)", re.IGNORECASE)
_PRONOUN = re.compile(r"\b(?:he|she|they|him|it|his|her|their|its|them)\b", re.IGNORECASE)
_POSSESSIVES = frozenset("his her their its".split())
_EMPTY = re.compile(r"^(?:who|what|which|where|when)(?:(?: (?:is|are|was|were))|['’]s)?(?: the)? ?$", re.IGNORECASE)
_KEYWORDS = re.compile(rf"^(?!{_AUXILIARY}\b).*\b(?:of|for) $", re.IGNORECASE)
_OBJECT = re.compile(r"(?:the|an?|our|his|her|their|I|we|you|they|he|she|it|[A-Z][\w'’.-]*) ")
_AGENTS = ("er", "or", "ist", "ian", "man", "chair", "cook", "head", "host", "captain", "nurse", "person")
_PERSONS = frozenset("person one woman man people somebody lady guy".split())


class Split(NamedTuple):
    """A question about something described: the question of what is described, and the question about ``SLOT``."""

    inner: str
    outer: str

    def about(self, name: str) -> str:
        """The outer question about a name."""
        return self.outer.replace(SLOT, name)


@lru_cache(maxsize=512)
def split(question: str) -> Split | None:
    """Split a question at its innermost description; None if it describes nothing.

    >>> split("Where does the nurse who found the key live?")
    Split(inner='Which nurse found the key?', outer='Where does # live?')
    >>> split("What is the job of whoever keeps the charts?")
    Split(inner='Who keeps the charts?', outer='What is the job of #?')
    >>> split("One of the cooks has won a prize. Where was she born?")
    Split(inner='Which of the cooks has won a prize?', outer='Where was # born?')
    >>> split("Who keeps the charts?") is None
    True
    """
    text = " ".join(question.split()).rstrip(" ?.")
    return _two_sentences(text) or _described(text)


def _two_sentences(text: str) -> Split | None:
    first, stop, second = text.partition(". ")
    opening, pronoun = _OPENING.match(first), _PRONOUN.search(second)
    if not stop or not opening or not pronoun:
        return None
    inner = f"Who {opening['someone']}?" if opening["someone"] else f"Which of {opening['one']}?"
    slot = f"{SLOT}'s" if pronoun[0].lower() in _POSSESSIVES else SLOT
    return Split(inner, f"{second[: pronoun.start()]}{slot}{second[pronoun.end() :]}?")


def _described(text: str) -> Split | None:
    if extraposed := _EXTRAPOSED.match(text):
        head, word, body = extraposed["head"], extraposed["word"].lower(), extraposed["body"]
        return Split(f"{_inner(head, word, body)}?", f"{extraposed['front']}{SLOT} {extraposed['tail']}?")
    for pattern in (_WHOEVER, _CLAUSE, _REDUCED):
        for start in reversed(_starts(pattern, text)):
            match = pattern.match(text, start)
            if match and (found := _split_at(text, match)):
                return found
    return None


def _starts(pattern: re.Pattern[str], text: str) -> list[int]:
    """Return the starts of the matches of a pattern, of overlapping ones too."""
    found: list[int] = []
    while match := pattern.search(text, found[-1] + 1 if found else 0):
        found.append(match.start())
    return found


def _split_at(text: str, match: re.Match[str]) -> Split | None:
    """The split at one description; None if it is the whole question, or if the question's verb is not found."""
    front, described, tail = text[: match.start()], match[0], ""
    if re.search(rf"\b{_ASKING}", match["body"], re.IGNORECASE) or _EMPTY.match(front):
        return None
    if not re.search(rf"\b{_ASKING}", front, re.IGNORECASE) and not _KEYWORDS.match(front):
        return None
    needs_verb = _ENDS_WITH_AUXILIARY.search(front) or _WAITS_FOR_VERB.search(front)
    if needs_verb or _ENDS_WITH_BEING.search(front):
        ending = _TAIL.search(described)
        if ending is None and needs_verb:
            return None
        if ending is not None:
            described, tail = described[: ending.start()], ending[0]
    body = described[match.start("body") - match.start() :]
    if not body.strip():
        return None
    groups = match.groupdict()
    head, word = (groups.get("head") or "").strip(), (groups.get("word") or "who").lower()
    return Split(f"{_inner(head, word, body)}?", f"{front}{SLOT}{tail}?")


def _inner(head: str, word: str, body: str) -> str:
    """The question of a description: its noun, the word that follows it, and the rest."""
    is_person = not head or head.split()[-1].lower() in _PERSONS
    subject = "Who" if is_person else f"Which {head}"
    if word == "whose":
        return f"Whose {body}"
    if word in ("who", "that", "which"):
        return (
            f"{'Who' if is_person else f'Which {head}'} is it that {body}"
            if _OBJECT.match(body)
            else f"{subject} {body}"
        )
    if word == "where":
        return f"In which {head} {body}"
    if word in ("whom", "to whom"):
        return f"{subject} is it {word} {body}"
    noun = head.split()[-1].lower()
    asks = "Who" if words().type_of_noun.get(noun) == "person" or noun.endswith(_AGENTS) else "What"
    return f"{asks} is the {head} {word} {body}"
