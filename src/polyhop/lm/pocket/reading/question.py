"""Parsing a question: the type of its answer, its names, its weighted stems, and the comparison it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from polyhop.common.text import STOP_WORDS
from polyhop.lm.pocket.reading.asking import AUXILIARIES, QUESTION_WORDS, Asking, bare_word, find_asking
from polyhop.lm.pocket.reading.comparison import Comparison, find_comparison, wins_of
from polyhop.lm.pocket.reading.tables import AnswerType, countries, words
from polyhop.lm.pocket.reading.text import find_names, stem_of, stem_weight, tokenize

_MAX_CHARACTERS = 1500  # read of a question

_TYPE_OF_WORD: dict[str, AnswerType] = {
    "who": "person", "whom": "person", "whose": "person", "where": "place", "when": "date", "why": "reason",
}  # fmt: skip
# Words after "how" that ask for a number; any other asks for a manner.
_MEASURES = frozenset("many much long old tall high far large big deep wide heavy fast often".split())
# In "what is the name of the band" these nouns point to the noun after "of".
_POINTERS = frozenset("name type kind sort title".split())
_BEING = frozenset("is was are were".split())
_PHRASE_ENDS = frozenset(
    "of in that who which whose where for from with by on to at as per and or , ? . ; : 's".split()
) | (AUXILIARIES - _BEING)


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A parsed question. ``head``: the stem of the noun asked for. ``terms``: the weights of its stems; ``focus``: the
    same, higher near the question word; ``total``: the sum of the terms' weights, never 0."""

    text: str
    type: AnswerType
    head: str | None
    names: tuple[str, ...]
    terms: dict[str, float]
    focus: dict[str, float]
    comparison: Comparison | None
    total: float


@lru_cache(maxsize=512)
def parse_question(question: str) -> ParsedQuestion:
    """Parse a question.

    >>> parsed = parse_question("The author of Dark Mill was born in what city?")
    >>> parsed.type, parsed.head, parsed.names
    ('place', 'city', ('Dark Mill',))
    """
    text = " ".join(question[:_MAX_CHARACTERS].split())
    tokenized = tokenize(text)
    tokens, lowered = tokenized.tokens, [bare_word(token) for token in tokenized.tokens]
    asking = find_asking(lowered, tokenized.sentence_of)
    type_, head = _answer_type(lowered, asking)
    comparison = find_comparison(text, type_ == "boolean")
    is_choice = " or " in text and " or not" not in text and " than " not in text
    if type_ == "boolean" and comparison is None and is_choice and any(wins_of(text)):
        type_ = "thing"  # "Is it colder before or after the winter?" asks for one of two
    names = tuple(comparison.options if comparison else ()) + tuple(find_names(text))
    terms, focus = _terms(tokens, asking.at, head)
    total = sum(terms.values()) or 1.0
    return ParsedQuestion(text, type_, head, tuple(dict.fromkeys(names)), terms, focus, comparison, total)


def _answer_type(lowered: list[str], asking: Asking) -> tuple[AnswerType, str | None]:
    if asking.at is None:
        return ("boolean" if asking.yes_or_no else "thing"), None
    word, following = lowered[asking.at], lowered[asking.at + 1 : asking.at + 12]
    if word == "how":
        return _measured(following)
    if word in _TYPE_OF_WORD:
        return _TYPE_OF_WORD[word], None
    noun = _head_noun(following)
    return ("thing", None) if noun is None else (_type_of(noun), stem_of(noun))


def _measured(following: list[str]) -> tuple[AnswerType, str | None]:
    """The type that "how" asks for: a number, after "how many" with its noun."""
    if not following or following[0] not in _MEASURES:
        return "thing", None
    counted = following[0] in ("many", "much") and len(following) > 1
    return "number", stem_of(following[1]) if counted else None


def _type_of(noun: str) -> AnswerType:
    if noun in countries().peoples:
        return "person"
    singular = f"{noun[:-3]}y" if noun.endswith("ies") else noun.removesuffix("s")
    types = words().type_of_noun
    return types.get(noun) or types.get(singular) or "thing"


def _head_noun(following: list[str]) -> str | None:
    """The noun that "what" or "which" asks about: the last of the first run of known nouns, else the first word."""
    phrase: list[str] = []
    for i, word in enumerate(following):
        if word in _BEING and not phrase:
            continue
        if word == "of" and phrase and phrase[-1] in _POINTERS:
            deeper = _head_noun([word for word in following[i + 1 :] if word not in ("the", "a", "an")])
            return deeper if deeper and phrase[-1] == "name" else phrase[-1]
        listed = word in ("and", "or") and phrase and _known(following[i + 1 : i + 2])
        if (word in _PHRASE_ENDS or word in _BEING) and not listed:
            break
        if word not in STOP_WORDS:
            phrase.append(word)
    if not phrase:
        return next((word for word in following[:4] if word in countries().peoples), None)
    first = next((i for i, word in enumerate(phrase) if _known([word]) and word not in countries().peoples), None)
    if first is None:
        return phrase[0]
    while first + 1 < len(phrase) and _known([phrase[first + 1]]):
        first += 1
    return phrase[first]


def _known(nouns: list[str]) -> bool:
    return any(_type_of(word) != "thing" for word in nouns)


def _terms(tokens: list[str], asking: int | None, head: str | None) -> tuple[dict[str, float], dict[str, float]]:
    terms: dict[str, float] = {}
    focus: dict[str, float] = {}
    for i, token in enumerate(tokens):
        stem = stem_of(token)
        value = stem_weight(stem) * (1.2 if token[0].isupper() else 1.0)
        if not value or bare_word(token) in QUESTION_WORDS:
            continue
        terms[stem] = max(terms.get(stem, 0.0), value)
        near = 1.0 / (1.0 + abs(i - (asking or 0)) / 6)
        focus[stem] = max(focus.get(stem, 0.0), value * near)
    if head in focus:
        focus[head] *= 0.5
    return terms, focus
