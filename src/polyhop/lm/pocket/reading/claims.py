"""Deciding a question of yes or no: the encoder reads the few sentences that bear on it most."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from polyhop.common.text import words
from polyhop.lm.pocket.encoder.cache import predict
from polyhop.lm.pocket.reading.answer import PathReading, read_path
from polyhop.lm.pocket.reading.passage import ParsedPassage
from polyhop.lm.pocket.reading.tables import words as word_tables
from polyhop.types import Passage

_MAX_CHARACTERS = 500  # of an excerpt, unless a single sentence is longer
_BY_WORDS = 3  # sentences that share most with the question
_BY_ENCODER = 3  # passages, off each of which the encoder reads a span that may decide the question
_CLAIM_SENTENCES = 2  # that are looked at for a denial
_CLOSE = 0.5  # share of the first sentence's words that the next needs
_LIKELY, _UNLIKELY = 0.55, 0.4  # probabilities of "yes" without and with a denial
_DENIALS = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|\w+n['’]t|forbidden|prohibited|dropped|removed"
    r"|refused|rejected|cancelled|canceled|abolished|discontinued)\b",
    re.IGNORECASE,
)
_TITLE_WEIGHT = 0.4  # of the question's words in the title, beside those in a sentence


class Decision(NamedTuple):
    """The answer of excerpts to a question of yes or no: the probability of "yes", and that they decide it at all."""

    yes: float
    decided: float


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


def decide(question: str, passages: Sequence[Passage]) -> Decision:
    """Read a question of yes or no over the excerpts of passages that bear on it most. Each counts as far as it
    decides; a denial in the sentences that share most with the question counts beside them."""
    reading = read_path(question, passages)
    near = _nearest(reading)
    by_words = [excerpt(reading.pages[i], number, number) for _, i, number in near[:_BY_WORDS]]
    found = list(dict.fromkeys([*by_words, *_by_encoder(question, reading)]))
    kinds = [output.kinds for output in predict(question, [[each] for each in found])]
    weights = [(each["yes"] + each["no"]) ** 2 for each in kinds]
    shares = [each["yes"] / (each["yes"] + each["no"] or 1.0) for each in kinds]
    yes = sum(weight * share for weight, share in zip(weights, shares, strict=True)) / (sum(weights) or 1.0)
    stated = _stated(question, reading, near)
    both = yes * stated + (1.0 - yes) * (1.0 - stated)
    return Decision(yes * stated / (both or 1.0), max(map(math.sqrt, weights), default=0.0))


def _nearest(reading: PathReading) -> list[tuple[float, int, int]]:
    """The sentences that share most with the question, best first: what they share, their page and their number."""
    ranked: list[tuple[float, int, int]] = []
    for i, page in enumerate(reading.pages):
        for number, stems in _sentences(page):
            share = sum(weight for stem, weight in reading.parsed.terms.items() if stem in stems)
            share += _TITLE_WEIGHT * sum(reading.parsed.terms.get(stem, 0.0) for stem in page.title_stems - stems)
            ranked.append((share, i, number))
    return sorted(ranked, key=lambda each: (-each[0], each[1:]))


def _stated(question: str, reading: PathReading, near: Sequence[tuple[float, int, int]]) -> float:
    """The probability of "yes" by the words of the nearest sentences: low if one denies and the question does not, or
    the other way round."""
    close = [each for each in near[:_CLAIM_SENTENCES] if each[0] >= _CLOSE * near[0][0]]
    texts = [reading.pages[i].sentence(number) for _, i, number in close]
    denied = any(map(_DENIALS.search, texts)) != bool(_DENIALS.search(question))
    return _UNLIKELY if denied or _is_opposite(question, " ".join(texts)) else _LIKELY


def _is_opposite(question: str, text: str) -> bool:
    """True if a text has the opposite of a word of the question, and not that word."""
    asked, stated = set(words(question)), set(words(text))
    opposites = word_tables().opposites
    return any(opposites[word] & stated and word not in stated for word in asked & opposites.keys())


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
