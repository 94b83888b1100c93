"""Choosing among answers: the encoder reads the sentences in which they stand side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp

from polyhop.common.odds import sigmoid
from polyhop.common.text import normalise
from polyhop.lm.pocket.encoder.cache import MAX_PASSAGES, predict
from polyhop.lm.pocket.reading.answer import Solution
from polyhop.lm.pocket.reading.claims import Excerpt, excerpt
from polyhop.lm.pocket.reading.passage import ParsedPassage
from polyhop.types import Passage

_MAX_CHARACTERS = 250  # of a sentence and the one before it, read beside three others


def excerpt_of(answer: str, solution: Solution, passage: Passage) -> Excerpt:
    """The sentence of an answer, with the one before it; the passage if the answer is not in one."""
    candidate = solution.candidate(answer)
    return around(candidate.page, candidate.mention.sentence) if candidate else Excerpt(passage.title, passage.text)


def around(page: ParsedPassage, sentence: int) -> Excerpt:
    """A sentence, with the one before it if that fits."""
    return excerpt(page, sentence, sentence, after=0, most=_MAX_CHARACTERS)


def side_by_side(excerpts: Iterable[Excerpt]) -> list[Excerpt]:
    """The first excerpts that are read together, each once."""
    return list(dict.fromkeys(excerpts))[:MAX_PASSAGES]


def choose(question: str, answers: Sequence[tuple[str, Excerpt]]) -> list[float | None]:
    """The probability of each answer when the excerpts of the best are read together, any of which may answer or none;
    None for an answer in none of those that are read."""
    path = side_by_side(found for _, found in answers)
    output = predict(question, [path])[0]
    answerable, chosen = sigmoid(output.answerable), list[float | None]()
    for answer, found in answers:
        own = (span for span in output.spans if path[span.passage] == found and _overlap(span.text(path), answer))
        chosen.append(answerable * sum(exp(span.log_probability) for span in own) if found in path else None)
    return chosen


def _overlap(one: str, other: str) -> bool:
    """True if the words of one text are in the other."""
    one, other = f" {normalise(one)} ", f" {normalise(other)} "
    return one in other or other in one
