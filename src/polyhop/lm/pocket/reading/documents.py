"""Answers from own documents: each passage is read alone, and a question about something that it only describes is
answered in two steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import exp
from typing import NamedTuple

from polyhop.common.text import normalise
from polyhop.lm.pocket.encoder.cache import embed, predict
from polyhop.lm.pocket.reading.answer import PathReading, Solution, read_path
from polyhop.lm.pocket.reading.choosing import choose, excerpt_of
from polyhop.lm.pocket.reading.comparison import canonical
from polyhop.lm.pocket.reading.descriptions import split
from polyhop.lm.pocket.reading.fitting import fit
from polyhop.lm.pocket.reading.judge import answer_probabilities, answerable, relevance
from polyhop.lm.pocket.reading.verification import verify
from polyhop.types import Passage, are_of_documents

_STEPS_WEIGHT = 6.0  # of an answer found in two steps, beside one read at once
_MAX_STEPS = 3  # descriptions inside each other
_MAX_DESCRIBED = 3  # answers to the inner question that are followed
_VERIFIED_POWER = 0.6  # of the probability that an answer is right, when it is read again
_NEARNESS = 10.0  # logarithm of the weight of an answer whose sentence has a cosine to the question higher by one
_CONSIDERED = 16  # best answers whose sentences are compared with the question
_VERIFIED = 3  # best answers that are read again
_LEAST_VERIFIED = 0.01  # probability that one is right
_CHOSEN_POWER = 0.1  # of the probability of an answer when the sentences of the best are read side by side
_LEAST_CHOSEN = 0.001  # probability of one
_LEAST_DESCRIBED = 0.2  # minimum weight of one that is followed, as a share of the best one's
_NEWER = re.compile(
    r"\b(?:now|new|instead|currently|at present|as of|since|finally|after all|no longer|any ?more|rather than"
    r"|mov(?:es|ed)|chang(?:es|ed)|replac(?:es|ed|ing)|swapped|extended|prolonged|postponed|brought forward|corrected"
    r"|correction|takes over|taken over|raised|lowered|increased|reduced|updated?|amended|amendment|from \d{1,2} \w+"
    r"|not [\w ]{1,20} but|goes from)\b",
    re.IGNORECASE,
)
_OLDER = re.compile(
    r"\b(?:old|previous|previously|former|formerly|originally|at first|used to|superseded|withdrawn|obsolete|expired"
    r"|draft|planned|last year)\b|~~",
    re.IGNORECASE,
)
_NEWER_WEIGHT, _OLDER_WEIGHT = 4.0, 0.4  # times the weight of what a sentence says is new, or old
_WIDER = 0.5  # minimum probability of a wider answer that replaces an answer, as a share of that answer's
_MORE_WORDS = 3  # at most, of a wider answer


class Powers(NamedTuple):
    """The powers in the weight of an answer: of the probability that its passage contains an answer, of the passage's
    relevance as a share of the highest, and of the answer's own probability in it."""

    contains: float
    relevance: float
    share: float


_OF_DOCUMENTS, _OF_ARTICLES = Powers(0.3, 3.0, 0.8), Powers(1.0, 2.0, 1.0)


class Weighed(NamedTuple):
    """An answer, its weight, the solution that gives it, and the passage that it was read off; the cosine of its
    sentence to the question, the probability that it is right when it is read again beside the question, and that when
    the sentences of the best answers are read side by side, each None if it was not computed."""

    answer: str
    weight: float
    solution: Solution
    passage: Passage
    nearness: float | None = None
    verified: float | None = None
    chosen: float | None = None

    def times(self, factor: float) -> Weighed:
        """The answer with its weight multiplied."""
        return self._replace(weight=factor * self.weight)


def answers_of_documents(question: str, passages: Sequence[Passage]) -> list[Weighed]:
    """The answers read off single passages, and those found in two steps."""
    in_steps = answers_in_steps(question, passages) or ()
    return [*read_singly(question, passages), *(found.times(_STEPS_WEIGHT) for found in in_steps)]


def inner_weight(question: str, passages: Sequence[Passage]) -> float | None:
    """The weight of the best answer to the inner question; None if nothing is described."""
    found = answers_to_inner(question, passages)
    return None if found is None else max((each.weight for each in found), default=0.0)


def answers_to_inner(question: str, passages: Sequence[Passage]) -> list[Weighed] | None:
    """The answers to the inner question, best first; None if nothing is described."""
    parts = split(question)
    return read_singly(parts.inner, passages) if parts else None


def read_singly(question: str, passages: Sequence[Passage], known: Sequence[str] = ()) -> list[Weighed]:
    """The answers of ``read_unverified``, the best of own documents verified and read side by side; best first."""
    found = read_unverified(question, passages, known)
    return _chosen(question, _by_weight(_verified(question, found))) if are_of_documents(passages) else found


def read_unverified(question: str, passages: Sequence[Passage], known: Sequence[str] = ()) -> list[Weighed]:
    """The answers read off each passage alone, best first, each once. ``known``: what the question is about, which
    cannot be its answer.

    The weight of an answer is the product of what ``Powers`` names and, over own documents, of the nearness of its
    sentence to the question beside that of the other answers'.
    """
    predict(question, [[passage] for passage in passages])  # in one batch
    readings = [read_path(question, [passage]) for passage in passages]
    of_documents = are_of_documents(passages)
    powers = _OF_DOCUMENTS if of_documents else _OF_ARTICLES
    best: dict[str, Weighed] = {}
    for passage, reading, relevant in zip(passages, readings, _relative_relevance(readings), strict=True):
        promise = answerable(reading) ** powers.contains * relevant**powers.relevance
        for answer, share in _widened(answer_probabilities(reading.solution)).items():
            weight = promise * share**powers.share
            weight *= _timeliness(reading, answer) * fit(reading.parsed, answer)
            if weight > (best[answer].weight if answer in best else 0.0) and not _is_known(answer, known):
                best[answer] = Weighed(answer, weight, reading.solution, passage)
    found = _by_weight(best.values())
    return _by_weight(_nearest(question, found[:_CONSIDERED])) if of_documents else found


def _nearest(question: str, found: Sequence[Weighed]) -> list[Weighed]:
    """The answers, each weighed by how much farther its sentence is from the question than the nearest of them."""
    if not found:
        return []
    asked, *vectors = embed([canonical(question), *map(_sentence_of, found)])
    nearness = [float(asked @ vector) for vector in vectors]
    highest = max(nearness)
    return [
        each.times(exp(_NEARNESS * (near - highest)))._replace(nearness=near)
        for each, near in zip(found, nearness, strict=True)
    ]


def _sentence_of(found: Weighed) -> str:
    """The sentence of an answer under the title of its passage; the passage if the answer is not in one."""
    return f"{found.passage.title} {_sentence(found.solution, found.answer) or found.passage.text}".strip()


def _sentence(solution: Solution, answer: str) -> str:
    """The sentence that an answer was read off; empty if it is not a candidate."""
    candidate = solution.candidate(answer)
    return candidate.page.sentence(candidate.mention.sentence) if candidate else ""


def _relative_relevance(readings: Sequence[PathReading]) -> list[float]:
    """The relevance of each passage, as a share of the highest."""
    relevances = [relevance(reading) for reading in readings]
    highest = max(relevances, default=1.0)
    return [each / highest for each in relevances]


def _by_weight(found: Iterable[Weighed]) -> list[Weighed]:
    return sorted(found, key=lambda each: -each.weight)


def _verified(question: str, found: Sequence[Weighed]) -> list[Weighed]:
    """The best answers, each weighed by the probability that it is right, and the others by the least of these."""
    first, others = found[:_VERIFIED], found[_VERIFIED:]
    checked = verify(question, [(each.answer, each.passage) for each in first])
    rest = max(min(checked, default=1.0), _LEAST_VERIFIED) ** _VERIFIED_POWER
    verified = [
        each.times(max(probability, _LEAST_VERIFIED) ** _VERIFIED_POWER)._replace(verified=probability)
        for each, probability in zip(first, checked, strict=True)
    ]
    return [*verified, *(each.times(rest) for each in others)]


def _chosen(question: str, found: Sequence[Weighed]) -> list[Weighed]:
    """The answers, each weighed by its probability when the sentences of the best are read side by side, and those that
    were not read by the least of these; best first."""
    if not found:
        return []
    excerpts = [(each.answer, excerpt_of(each.answer, each.solution, each.passage)) for each in found[:_CONSIDERED]]
    chosen = choose(question, excerpts)
    least = max(_LEAST_CHOSEN, min(share for share in chosen if share is not None))
    shares = [least if share is None else max(share, _LEAST_CHOSEN) for share in chosen]
    read = [
        each.times(share**_CHOSEN_POWER)._replace(chosen=probability)
        for each, share, probability in zip(found, shares, chosen, strict=False)
    ]
    return _by_weight([*read, *(each.times(least**_CHOSEN_POWER) for each in found[_CONSIDERED:])])


def read_step(question: str, passages: Sequence[Passage], known: Sequence[str] = ()) -> tuple[str, Passage] | None:
    """The best answer read off single passages, and the passage; None if none of them has one."""
    found = read_singly(question, passages, known)
    return (found[0].answer, found[0].passage) if found else None


def _widened(shares: Mapping[str, float]) -> Mapping[str, float]:
    """The probabilities of answers, with that of the best one added to that of a slightly wider one, if there is one
    at least half as probable.

    >>> _widened({"noon": 0.5, "noon of the day before": 0.3, "Monday": 0.2})
    {'noon of the day before': 0.8, 'Monday': 0.2}
    """
    best = max(shares, key=lambda answer: shares[answer], default="")
    inside, limit = f" {normalise(best)} ", len(normalise(best).split()) + _MORE_WORDS
    wider = [
        answer
        for answer, share in shares.items()
        if answer != best and share >= _WIDER * shares[best]
        and inside in f" {normalise(answer)} " and len(normalise(answer).split()) <= limit
    ]  # fmt: skip
    if not wider:
        return shares
    widest = max(wider, key=lambda answer: shares[answer])
    return {answer: share + (shares[best] if answer == widest else 0.0) for answer, share in shares.items()
            if answer != best}  # fmt: skip


def answers_in_steps(question: str, passages: Sequence[Passage], known: tuple[str, ...] = ()) -> list[Weighed] | None:
    """The answers about each answer to the inner question, best first; None if nothing is described."""
    parts = split(question) if len(known) < _MAX_STEPS else None
    if parts is None:
        return None
    best: dict[str, Weighed] = {}
    described = read_singly(parts.inner, passages, known)[:_MAX_DESCRIBED]
    for inner in described:
        if inner.weight < _LEAST_DESCRIBED * described[0].weight:
            break
        about, held = parts.about(inner.answer), (*known, inner.answer)
        further = answers_in_steps(about, passages, held) or read_singly(about, passages, held)
        for found in (each.times(inner.weight) for each in further[:_MAX_DESCRIBED]):
            if found.answer not in best or found.weight > best[found.answer].weight:
                best[found.answer] = found
    return _by_weight(best.values())


def described(question: str, passages: Sequence[Passage]) -> str | None:
    """The question about what the inner question's answer is, to search with; None if nothing is described."""
    parts = split(question)
    found = read_singly(parts.inner, passages) if parts and passages else []
    return parts.about(found[0].answer) if parts and found else None


def _timeliness(reading: PathReading, answer: str) -> float:
    """The factor for an answer whose sentence says that it is new, or old."""
    sentence = _sentence(reading.solution, answer)
    newer, older = _NEWER.search(sentence), _OLDER.search(sentence)
    return (_NEWER_WEIGHT if newer else 1.0) * (_OLDER_WEIGHT if older else 1.0)


def _is_known(answer: str, known: Sequence[str]) -> bool:
    words = f" {normalise(answer)} "
    names = (f" {normalise(name)} " for name in known)
    return any(words in name or name in words for name in names)
