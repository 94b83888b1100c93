"""What a question asks for: the type of its answer, its names, its telling words, and whether it compares things."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from polyhop.common.text import STOP_WORDS
from polyhop.lm.pocket.reading.countries import PEOPLES
from polyhop.lm.pocket.reading.lexicon import HEAD_NOUNS, AnswerType
from polyhop.lm.pocket.reading.names import find_names
from polyhop.lm.pocket.reading.pairs import Comparison, find_comparison
from polyhop.lm.pocket.reading.text import stem, weight

MOST_CHARACTERS = 1500  # of a question that are read

_WORD = re.compile(r"\w+(?:[.'’&-]\w+)*|[^\w\s]")
_QUESTION_WORDS = frozenset("who whom whose which what where when why how".split())
_AUXILIARIES = frozenset("is are was were do does did has have had can could will would am".split())
_TYPE_OF_WORD: dict[str, AnswerType] = {
    "who": "person", "whom": "person", "whose": "person", "where": "place", "when": "date", "why": "reason",
}  # fmt: skip
_TYPE_OF_NOUN: dict[str, AnswerType] = {noun: type_ for type_, nouns in HEAD_NOUNS.items() for noun in nouns}
# After "how", what is counted or measured; any other word asks for a manner.
_MEASURES = frozenset("many much long old tall high far large big deep wide heavy fast often big".split())
# "what is the name of the band": these nouns point on to the noun after "of".
_POINTERS = frozenset("name type kind sort title".split())
_BEING = frozenset("is was are were".split())
_PHRASE_ENDS = frozenset(
    "of in that who which whose where for from with by on to at as and or , ? . ; : 's".split()
) | (_AUXILIARIES - _BEING)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question understood as far as it goes; ``terms`` and ``focus`` weigh stems: in all, near the question word."""

    text: str
    type: AnswerType
    head: str | None
    names: tuple[str, ...]
    terms: dict[str, float]
    focus: dict[str, float]
    comparison: Comparison | None

    @property
    def total(self) -> float:
        """The weight of all terms together, never 0."""
        return sum(self.terms.values()) or 1.0


@lru_cache(maxsize=512)
def ask(question: str) -> Asked:
    """Understand a question.

    >>> asked = ask("The author of Dark Mill was born in what city?")
    >>> asked.type, asked.head, asked.names
    ('place', 'city', ('Dark Mill',))
    """
    text = " ".join(question[:MOST_CHARACTERS].split())
    tokens = _WORD.findall(text)
    lowered = [token.lower() for token in tokens]
    place = _question_word(lowered)
    type_, head = _asked_type(lowered, place)
    comparison = find_comparison(text, type_ == "boolean")
    names = tuple(comparison.options if comparison else ()) + tuple(find_names(text))
    terms, focus = _terms(tokens, place, head)
    return Asked(text, type_, head, tuple(dict.fromkeys(names)), terms, focus, comparison)


def _question_word(lowered: list[str]) -> int | None:
    """Where the word that asks stands: at the start, else a "what", else the last "which" or other."""
    for place, word in enumerate(lowered[:3]):
        if word in _QUESTION_WORDS:
            return place
    if lowered and lowered[0] in _AUXILIARIES:
        return None
    places = [place for place, word in enumerate(lowered) if word in _QUESTION_WORDS]
    sure = [place for place in places if lowered[place] == "what" or lowered[place : place + 2] == ["how", "many"]]
    asking = [
        place for place in places if place and lowered[place - 1] in (",", ".", ";", "in", "of", "by", "for", "from")
    ]
    chosen = sure or asking or places
    return chosen[-1] if chosen else None


def _asked_type(lowered: list[str], place: int | None) -> tuple[AnswerType, str | None]:
    if place is None:
        return ("boolean" if _AUXILIARIES & set(lowered) else "thing"), None
    word, following = lowered[place], lowered[place + 1 : place + 12]
    if word == "how":
        return _measured(following)
    if word in _TYPE_OF_WORD:
        return _TYPE_OF_WORD[word], None
    noun = _head_noun(following)
    return ("thing", None) if noun is None else (_type_of(noun), stem(noun))


def _measured(following: list[str]) -> tuple[AnswerType, str | None]:
    """What a "how" asks for: a number, and of what after "how many"."""
    if not following or following[0] not in _MEASURES:
        return "thing", None
    counted = following[0] in ("many", "much") and len(following) > 1
    return "number", stem(following[1]) if counted else None


def _type_of(noun: str) -> AnswerType:
    if noun in PEOPLES:
        return "person"
    singular = f"{noun[:-3]}y" if noun.endswith("ies") else noun.removesuffix("s")
    return _TYPE_OF_NOUN.get(noun) or _TYPE_OF_NOUN.get(singular) or "thing"


def _head_noun(following: list[str]) -> str | None:
    """The noun a "what" or "which" asks about: the last of the first known nouns of its phrase, else its first word."""
    phrase: list[str] = []
    for place, word in enumerate(following):
        if word in _BEING and not phrase:
            continue
        if word == "of" and phrase and phrase[-1] in _POINTERS:
            deeper = _head_noun([word for word in following[place + 1 :] if word not in ("the", "a", "an")])
            return deeper if deeper and phrase[-1] == "name" else phrase[-1]
        listed = word in ("and", "or") and phrase and _known(following[place + 1 : place + 2])
        if (word in _PHRASE_ENDS or word in _BEING) and not listed:
            break
        if word not in STOP_WORDS:
            phrase.append(word)
    if not phrase:
        return next((word for word in following[:4] if word in PEOPLES), None)
    first = next((place for place, word in enumerate(phrase) if _known([word]) and word not in PEOPLES), None)
    if first is None:
        return phrase[0]
    while first + 1 < len(phrase) and _known([phrase[first + 1]]):
        first += 1
    return phrase[first]


def _known(words: list[str]) -> bool:
    return any(_type_of(word) != "thing" for word in words)


def _terms(tokens: list[str], place: int | None, head: str | None) -> tuple[dict[str, float], dict[str, float]]:
    terms: dict[str, float] = {}
    focus: dict[str, float] = {}
    for at, token in enumerate(tokens):
        root = stem(token)
        value = weight(root) * (1.2 if token[0].isupper() else 1.0)
        if not value or token.lower() in _QUESTION_WORDS:
            continue
        terms[root] = max(terms.get(root, 0.0), value)
        near = 1.0 / (1.0 + abs(at - (place or 0)) / 6)
        focus[root] = max(focus.get(root, 0.0), value * near)
    if head in focus:
        focus[head] *= 0.5
    return terms, focus
