"""Deciding a question of yes or no: the encoder reads the few sentences that bear on it most."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from polyhop.lm.pocket.reading.passage import ParsedPassage

_MAX_CHARACTERS = 500  # of an excerpt, unless a single sentence is longer


class Excerpt(NamedTuple):
    """Sentences of a passage that follow one another, under its title."""

    title: str
    text: str


def excerpt(page: ParsedPassage, first: int, last: int, before: int = 1, after: int = 1) -> Excerpt:
    """The sentences ``first`` to ``last`` of a page, with as many before and after as fit."""
    count = page.sentence_of[-1] + 1
    for fewer in range(max(before, after) + 1):
        low, high = max(0, first - max(0, before - fewer)), min(count - 1, last + max(0, after - fewer))
        text = page.text[sentence_start(page, low) : sentence_end(page, high)].strip()
        if len(text) <= _MAX_CHARACTERS:
            break
    return Excerpt(page.title, text)


def sentence_start(page: ParsedPassage, number: int) -> int:
    """The character at which a sentence begins."""
    return page.starts[bisect_left(page.sentence_of, number)]


def sentence_end(page: ParsedPassage, number: int) -> int:
    """The character at which a sentence ends."""
    last = bisect_left(page.sentence_of, number + 1) - 1
    return page.starts[last] + len(page.tokens[last])
