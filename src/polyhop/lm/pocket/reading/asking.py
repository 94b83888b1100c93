"""Finding the words that ask: in a question, after what a person says of their own situation, or in a request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

QUESTION_WORDS = frozenset("who whom whose which what where when why how".split())
AUXILIARIES = frozenset(
    "is are was were do does did has have had can could will would may might must shall should am".split()
)
_CONTRACTED = re.compile(r"['’](?:s|re|d|ll|ve)$")
_SUBORDINATE = frozenset("when where if".split())  # at the start: "When I am ill, must I call?"
_SUBJECTS = frozenset(
    "i we you he she it they there one anyone anybody someone somebody my our your his her its their this that these"
    " those the a an".split()
)
_BREAKS = frozenset(".,:;-–—")
_LEADS = _BREAKS | frozenset("in of by for from".split())  # before a question word that asks
_REQUEST = re.compile(
    r"(?:please )?(?:"
    r"(?:i|we) (?:(?:also|just|only|still|urgently) )*(?:need|want|wonder)|(?:i'd|we'd|(?:i|we) would) (?:like|love)"
    r"|(?:(?:can|could|would|will) (?:you|someone|somebody|anyone|anybody) (?:please )?)?"
    r"(?:tell|give|show|find|name|list|state|say)(?: (?:me|us))?"
    r"|(?:i'm |we're |i am |we are )?looking for|(?:do you|does anyone|does anybody) know|need"
    r")(?: to (?:know|find out))?(?= )"
)
_OPEN = re.compile(r"\b(?:allowed|permitted|possible|ok|okay|required|necessary|included|compulsory|mandatory)\W*$")


class Asking(NamedTuple):
    """The place where a question asks. ``at``: the index of the question word, or of the last word of a request, before
    what is wanted; None if there is neither. ``yes_or_no``: yes or no would answer it."""

    at: int | None
    yes_or_no: bool = False


def bare_word(token: str) -> str:
    """A token in small letters, a question word without what is contracted with it.

    >>> bare_word("What's"), bare_word("Ann's")
    ('what', "ann's")
    """
    lowered = token.lower().replace("’", "'")
    bare = _CONTRACTED.sub("", lowered)
    return bare if bare in QUESTION_WORDS else lowered


def find_asking(words: Sequence[str], sentence_of: Sequence[int]) -> Asking:
    """Find where a text asks, given its words (``bare_word``) and the sentence of each.

    >>> find_asking("i am ill . who needs to know ?".split(), [0, 0, 0, 0, 1, 1, 1, 1, 1])
    Asking(at=4, yes_or_no=False)
    """
    sentences = [[i for i, _ in group] for _, group in groupby(enumerate(sentence_of), key=lambda each: each[1])]
    asking = [each for each in sentences if words[each[-1]] == "?"]
    if len(sentences) > 1 and asking:
        start = asking[-1][0]
        found = _asking_of(words[start : asking[-1][-1] + 1])
        if found.at is not None or found.yes_or_no:
            return Asking(None if found.at is None else start + found.at, found.yes_or_no)
    return _asking_of(words)


def _asking_of(words: Sequence[str]) -> Asking:
    """The word that asks in a sentence: one at the start, else a "what", else the last "which" or other that is not
    relative, else what a request is for."""
    if not words:
        return Asking(None)
    first = next((i for i, word in enumerate(words[:3]) if word in QUESTION_WORDS), None)
    states = words[0] not in AUXILIARIES and (first is None or (first == 0 and _is_subordinate(words)))
    if states and _ends_with_yes_or_no(words):
        return Asking(None, yes_or_no=True)
    if first is not None:
        return Asking(first)
    request = _REQUEST.match(" ".join(words))
    if words[0] in AUXILIARIES and not request:
        return Asking(None, yes_or_no=True)
    at = [i for i, word in enumerate(words) if word in QUESTION_WORDS]
    certain = [i for i in at if words[i] == "what" or tuple(words[i : i + 2]) == ("how", "many")]
    likely = [i for i in at if i and words[i - 1] in _LEADS]
    if request and not certain and not likely:
        return _requested(words, request.group().count(" ") + 1)
    if chosen := certain or likely or at:
        return Asking(chosen[-1])
    is_open = _OPEN.search(" ".join(words)) is not None
    return Asking(None, is_open or (words[-1] == "?" and not AUXILIARIES.isdisjoint(words)))


def _is_subordinate(words: Sequence[str]) -> bool:
    return words[0] in _SUBORDINATE and len(words) > 1 and words[1] not in AUXILIARIES


def _ends_with_yes_or_no(words: Sequence[str]) -> bool:
    """True if the last clause asks for yes or no: "…, may I come?"."""
    after = max((i + 1 for i, word in enumerate(words) if word in _BREAKS), default=0)
    clause = words[after:]
    return (
        after > 0
        and len(clause) > 2
        and clause[0] in AUXILIARIES
        and clause[1] in _SUBJECTS
        and QUESTION_WORDS.isdisjoint(clause)
    )


def _requested(words: Sequence[str], after: int) -> Asking:
    """The thing that a request is for, or the question in it; both begin at the index ``after``."""
    following = words[after] if after < len(words) else ""
    if following in QUESTION_WORDS:
        return Asking(after)
    return Asking(None, yes_or_no=True) if following in ("whether", "if") else Asking(after - 1)
