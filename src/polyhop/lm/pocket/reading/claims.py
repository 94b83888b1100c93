"""Deciding a question of yes or no: the encoder reads the few sentences that bear on it most."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from polyhop.lm.pocket.encoder.cache import predict
from polyhop.lm.pocket.reading.answer import PathReading, read_path
from polyhop.lm.pocket.reading.passage import ParsedPassage
from polyhop.types import Passage

_MAX_CHARACTERS = 500  # of an excerpt, unless a single sentence is longer
_BY_WORDS = 3  # sentences that share most with the question
_BY_ENCODER = 3  # passages, off each of which the encoder reads a span that may decide the question
_TITLE_WEIGHT = 0.4  # of the question's words in the title, beside those in a sentence


class Decision(NamedTuple):
    """The answer of excerpts to a question of yes or no: the probability of "yes", and that they decide it at all."""

    yes: float
    decided: float


class Excerpt(NamedTuple):
    """Sentences of a passage that follow one another, under its title."""

    title: str
    text: str


def excerpt(
    page: ParsedPassage, first: int, last: int, before: int = 1, after: int = 1, most: int = _MAX_CHARACTERS
) -> Excerpt:
    """The sentences ``first`` to ``last`` of a page, with up to ``before`` and ``after`` neighbours: fewer if there are
    more than ``most`` characters."""
    count = page.sentence_of[-1] + 1
    for fewer in range(max(before, after) + 1):
        low, high = max(0, first - max(0, before - fewer)), min(count - 1, last + max(0, after - fewer))
        text = page.text[sentence_start(page, low) : sentence_end(page, high)].strip()
        if len(text) <= most:
            break
    return Excerpt(page.title, text)


def sentence_start(page: ParsedPassage, number: int) -> int:
    """The character at which a sentence begins."""
    return page.starts[bisect_left(page.sentence_of, number)]


def sentence_end(page: ParsedPassage, number: int) -> int:
    """The character at which a sentence ends."""
    last = bisect_left(page.sentence_of, number + 1) - 1
    return page.starts[last] + len(page.tokens[last])


def decide(question: str, passages: Sequence[Passage]) -> Decision:
    """Read a question of yes or no over the excerpts of passages that bear on it most, each weighed by how much it
    decides."""
    reading = read_path(question, passages)
    by_words = [excerpt(reading.pages[i], number, number) for i, number in _nearest(reading)[:_BY_WORDS]]
    found = list(dict.fromkeys([*by_words, *_by_encoder(question, reading)]))
    kinds = [output.kinds for output in predict(question, [[each] for each in found])]
    weights = [(each["yes"] + each["no"]) ** 2 for each in kinds]
    shares = [each["yes"] / (each["yes"] + each["no"] or 1.0) for each in kinds]
    yes = sum(weight * share for weight, share in zip(weights, shares, strict=True)) / (sum(weights) or 1.0)
    return Decision(yes, max(map(math.sqrt, weights), default=0.0))


def _nearest(reading: PathReading) -> list[tuple[int, int]]:
    """The sentences that share most with the question, best first: their page and their number."""
    ranked: list[tuple[float, int, int]] = []
    for i, page in enumerate(reading.pages):
        for number, stems in _sentences(page):
            share = sum(weight for stem, weight in reading.parsed.terms.items() if stem in stems)
            share += _TITLE_WEIGHT * sum(reading.parsed.terms.get(stem, 0.0) for stem in page.title_stems - stems)
            ranked.append((-share, i, number))
    return [(i, number) for _, i, number in sorted(ranked)]


def _by_encoder(question: str, reading: PathReading) -> Iterator[Excerpt]:
    """The excerpts around the spans that the encoder reads off the most promising pages."""
    outputs = predict(question, [[page] for page in reading.pages])
    order = sorted(range(len(outputs)), key=lambda i: -outputs[i].answerable)
    for i in order[:_BY_ENCODER]:
        page = reading.pages[i]
        span = next((span for span in outputs[i].spans if not span.in_title), None)
        if span and page.sentence_of:
            yield excerpt(page, page.sentence_at(span.start), page.sentence_at(max(span.start, span.end - 1)))


def _sentences(page: ParsedPassage) -> Iterator[tuple[int, set[str]]]:
    """The number and the stems of each sentence."""
    stems: dict[int, set[str]] = {}
    for stem, number in zip(page.stems, page.sentence_of, strict=True):
        stems.setdefault(number, set()).add(stem)
    yield from stems.items()
