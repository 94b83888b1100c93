"""Mentions: every stretch of a text that could be an answer, with its kind and place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyhop.common.text import STOP_WORDS, fold
from polyhop.lm.pocket.reading.countries import PEOPLES
from polyhop.lm.pocket.reading.lexicon import TELLING
from polyhop.lm.pocket.reading.text import QUOTES, Wording, is_short, weight
from polyhop.lm.pocket.reading.values import find_dates, find_numbers

_MOST_QUOTED = 9  # tokens of a quoted title
_MOST_PHRASE = 4  # tokens of a phrase that is no name
# Small words that may stand inside a name.
_NAME_JOINERS = frozenset("of the de la le du des di da del della von van der den zu el al & y e bin ibn".split())


@dataclass(frozen=True, slots=True)
class Mention:
    """A stretch of a text that could be an answer; ``kind``: name, quoted, people, date, year, number or phrase."""

    text: str
    kind: str
    first: int  # its first token
    last: int  # the token after its last
    sentence: int
    roots: tuple[str, ...]
    folded: str


def find_mentions(wording: Wording) -> list[Mention]:
    """All mentions of a text, by place; a date is no number, and a word belongs to one name or phrase."""
    found: list[Mention] = []
    taken: set[int] = set()

    def add(first: int, last: int, kind: str) -> None:
        start, end = wording.starts[first], wording.starts[last - 1] + len(wording.tokens[last - 1])
        roots = tuple(root for root in wording.roots[first:last] if weight(root))
        text = wording.text[start:end]
        found.append(Mention(text, kind, first, last, wording.sentence_of[first], roots, fold(text)))

    for first, last, kind in _values(wording):
        if first not in taken:
            add(first, last, kind)
            taken.update(range(first, last))
    for first, last in _quoted(wording.tokens):
        add(first, last, "quoted")
    for first, last in _capital_runs(wording, taken):
        cut = _people_end(wording.tokens, first, last)
        if cut > first:
            add(first, cut, "people")
        if cut < last:
            add(cut, last, "name")
        taken.update(range(first, last))
    for first, last in _phrases(wording, taken):
        add(first, last, "phrase")
    return sorted(found, key=lambda mention: (mention.first, -mention.last))


def _values(wording: Wording) -> list[tuple[int, int, str]]:
    """Dates, then numbers, by tokens."""
    place_at = {start: place for place, start in enumerate(wording.starts)}
    spans = []
    for value in (*find_dates(wording.text), *find_numbers(wording.text)):
        first = place_at.get(value.start)
        if first is None:
            continue
        last = first
        while last < len(wording.tokens) and wording.starts[last] < value.end:
            last += 1
        spans.append((first, last, value.kind))
    return spans


def _people_end(tokens: Sequence[str], first: int, last: int) -> int:
    """Where the adjective of a people that opens a run ends: "South Korean", "Danish-born"."""
    if " ".join(tokens[first : min(first + 2, last)]).lower() in PEOPLES:
        return min(first + 2, last)
    return first + (tokens[first].lower().partition("-")[0] in PEOPLES)


def _quoted(tokens: Sequence[str]) -> list[tuple[int, int]]:
    spans = []
    opened: int | None = None
    for place, token in enumerate(tokens):
        if token in QUOTES:
            if opened is not None and 0 < place - opened - 1 <= _MOST_QUOTED:
                spans.append((opened + 1, place))
                opened = None
            else:
                opened = place
    return spans


def _capital_runs(wording: Wording, taken: set[int]) -> list[tuple[int, int]]:
    """Runs of capitalised tokens, small joining words inside allowed, without a stop word in front."""
    runs = []
    tokens, place = wording.tokens, 0
    while place < len(tokens):
        if not tokens[place][0].isupper() or place in taken:
            place += 1
            continue
        first, last = place, place + 1
        while (further := _continued(wording, last, taken)) and wording.sentence_of[further - 1] == wording.sentence_of[
            first
        ]:
            last = further
        while first < last and tokens[first].lower() in STOP_WORDS:
            first += 1
        if first < last:
            runs.append((first, last))
        place = last
    return runs


def _continued(wording: Wording, last: int, taken: set[int]) -> int | None:
    """The end of a name that goes on at token ``last``: by a capital, joining words, an initial's stop or a number."""
    tokens, count = wording.tokens, len(wording.tokens)
    step = last
    while step < count and step - last < 3 and tokens[step] in _NAME_JOINERS:
        step += 1
    if step < count and step not in taken and (tokens[step][0].isupper() or _is_numeral(wording, step)):
        return step + 1
    if last + 1 < count and tokens[last] == "." and is_short(tokens[last - 1]) and tokens[last + 1][0].isupper():
        return last + 2
    return None


def _is_numeral(wording: Wording, place: int) -> bool:
    """A short number right after a word, one space between: "Big Mill 6"."""
    token, before = wording.tokens[place], wording.tokens[place - 1]
    return token.isdigit() and len(token) < 4 and wording.starts[place] == wording.starts[place - 1] + len(before) + 1


def _phrases(wording: Wording, taken: set[int]) -> list[tuple[int, int]]:
    """Runs of plain words between stop words, verbs of telling and marks; long runs by their last words."""
    spans = []
    first: int | None = None
    for place, token in enumerate([*wording.tokens, "."]):
        plain = place not in taken and _is_plain(token)
        if plain and first is None:
            first = place
        elif not plain and first is not None:
            spans.append((max(first, place - _MOST_PHRASE), place))
            if place - first > 2:
                spans.append((place - 2, place))
            if place - first > 1:
                spans.append((place - 1, place))
            first = None
    return spans


def _is_plain(token: str) -> bool:
    return token[0].isalpha() and token.lower() not in STOP_WORDS and token.lower() not in TELLING
