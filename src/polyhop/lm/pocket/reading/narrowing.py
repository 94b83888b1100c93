"""Many passages at once: every pair of the most promising ones is read, and the answers are weighed together."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from polyhop.common.text import normalise
from polyhop.lm.pocket.encoder.cache import looks
from polyhop.lm.pocket.encoder.outputs import Look
from polyhop.lm.pocket.reading import blends
from polyhop.lm.pocket.reading.answer import Solution, spoken
from polyhop.lm.pocket.reading.candidates import mentions
from polyhop.lm.pocket.reading.judge import relevant, sufficient
from polyhop.lm.pocket.reading.study import study
from polyhop.types import Passage

FEW = 2  # passages that are read as they are
_MOST = 40  # passages that are looked at
_KEPT = 6  # most promising passages that are tried together
_PART = 0.7  # of a reading's probability, where it and the answer are not the same
_NAMED = 0.6  # of a passage's relevance that passes on to those it names


def shares(solution: Solution) -> Mapping[str, float]:
    """The probability of each answer a solution holds: 1 for one that was found, spread over the ranked for a guess."""
    if solution.complete or not solution.ranked:
        return {solution.answer: 1.0} if solution.answer else {}
    top = solution.ranked[0].score
    found: dict[str, float] = defaultdict(float)
    for ranked in solution.ranked:
        found[spoken(solution.asked, ranked)] += math.exp(ranked.score - top)
    total = sum(found.values())
    return {answer: value / total for answer, value in found.items()}


class Weighed(NamedTuple):
    """An answer, the solution that speaks most for it, and its share of all that speaks for some answer."""

    answer: str | None
    solution: Solution
    share: float


def best_answer(question: str, passages: Sequence[Passage]) -> tuple[str | None, Solution]:
    """The answer from many passages and the solution that speaks most for it (see ``weighed``)."""
    answer, solution, _ = weighed(question, passages)
    return answer, solution


def weighed(question: str, passages: Sequence[Passage]) -> Weighed:
    """The answer from many passages, weighed against others.

    All passages together, if they settle the question by a comparison or a chain; else the sum over pairs of how
    promising a pair is, squared, times the probability it gives the answer.
    """
    passages = passages[:_MOST]
    whole = study(question, passages).solution
    if len(passages) <= FEW or whole.complete or not whole.ranked:
        return Weighed(whole.answer, whole, shares(whole).get(whole.answer or "", 0.0))
    masses: dict[str, float] = defaultdict(float)
    strongest: dict[str, tuple[float, Solution]] = {}
    pairs = list(combinations(_kept(question, passages), 2))
    looks(question, pairs)  # all together
    for pair in pairs:
        solution = study(question, pair).solution
        if whole.narrowed and not solution.narrowed:
            continue  # the chain got further in the whole than in this pair
        promise = max(_chance(question, pair), _chance(question, pair[::-1])) ** 2
        for answer, share in shares(solution).items():
            masses[answer] += promise * share
            if answer not in strongest or promise * share > strongest[answer][0]:
                strongest[answer] = (promise * share, solution)
    if not masses:
        return Weighed(whole.answer, whole, shares(whole).get(whole.answer or "", 0.0))
    best = max(masses, key=lambda answer: masses[answer])
    return Weighed(best, strongest[best][1], masses[best] / (sum(masses.values()) or 1.0))


def sureness(question: str, passages: Sequence[Passage], told: Weighed) -> float:
    """The probability that an answer is right: a logistic model over whether a rule settled it, its share, and how
    likely the encoder reads it off a pair of the passages at best."""
    if told.answer is None:
        return 0.0
    reasons = sure_reasons(question, passages, told)
    odds = sum(weight * value for weight, value in zip(blends.SURE, reasons, strict=True))
    return 1.0 / (1.0 + math.exp(-odds))


def sure_reasons(question: str, passages: Sequence[Passage], told: Weighed) -> tuple[float, float, float, float]:
    """What ``blends.SURE`` weighs: whether a rule settled the answer, its share where none did, how likely it is read,
    and one."""
    kept = _kept(question, passages[:_MOST])
    paths = list(combinations(kept, min(2, len(kept))))
    seen = zip(paths, looks(question, paths), strict=True)
    likeliest = 0.0 if told.answer is None else max(_read(told.answer, path, look) for path, look in seen)
    settled = told.solution.complete
    return float(settled), 0.0 if settled else told.share, likeliest, 1.0


def _read(answer: str, path: Sequence[Passage], look: Look) -> float:
    """The probability that the encoder reads an answer off a path; of one that it reads a part or more of, less."""
    plain = normalise(answer)
    if plain in ("yes", "no"):
        return look.kinds[plain]
    told = [(normalise(span.text(path)), math.exp(span.log_share)) for span in look.spans]
    same = [share if text == plain else _PART * share for text, share in told if plain in text or text in plain]
    return look.kinds["span"] * max(same, default=0.0)


def _kept(question: str, passages: Sequence[Passage]) -> list[Passage]:
    """The most promising passages, in their given order."""
    promise = promises(question, passages)
    places = sorted(range(len(passages)), key=lambda place: -promise[place])[:_KEPT]
    return [passages[place] for place in sorted(places)]


def promises(question: str, passages: Sequence[Passage]) -> list[float]:
    """How promising each passage is, 0 to 1: relevant alone, or named by one that is."""
    pages = study(question, passages).pages
    looks(question, [[passage] for passage in passages])  # all together
    alone = [relevant(study(question, [passage])) for passage in passages]
    return [
        max(alone[at], *(_NAMED * alone[by] for by, other in enumerate(pages) if mentions(other, page)), 0.0)
        for at, page in enumerate(pages)
    ]


def _chance(question: str, path: Sequence[Passage]) -> float:
    found = study(question, path)
    return relevant(found) * sufficient(found)
