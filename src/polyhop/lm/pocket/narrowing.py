"""Many passages at once: every pair of the most promising ones is read, and the answers are weighed together."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations

from polyhop.lm.pocket.judging import relevant, sufficient
from polyhop.lm.pocket.reading import mentions
from polyhop.lm.pocket.solving import Solution, spoken
from polyhop.lm.pocket.study import study
from polyhop.types import Passage

FEW = 2  # passages that are read as they are
_MOST = 40  # passages that are looked at
_KEPT = 6  # most promising passages that are tried together
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


def best_answer(question: str, passages: Sequence[Passage]) -> tuple[str | None, Solution]:
    """The answer from many passages and the solution that speaks most for it.

    All passages together, if they settle the question by a comparison or a chain; else the sum over pairs of how
    promising a pair is, squared, times the probability it gives the answer.
    """
    passages = passages[:_MOST]
    whole = study(question, passages).solution
    if len(passages) <= FEW or whole.complete or not whole.ranked:
        return whole.answer, whole
    masses: dict[str, float] = defaultdict(float)
    strongest: dict[str, tuple[float, Solution]] = {}
    for pair in combinations(_kept(question, passages), 2):
        solution = study(question, pair).solution
        if whole.narrowed and not solution.narrowed:
            continue  # the chain got further in the whole than in this pair
        promise = max(_chance(question, pair), _chance(question, pair[::-1])) ** 2
        for answer, share in shares(solution).items():
            masses[answer] += promise * share
            if answer not in strongest or promise * share > strongest[answer][0]:
                strongest[answer] = (promise * share, solution)
    if not masses:
        return whole.answer, whole
    best = max(masses, key=lambda answer: masses[answer])
    return best, strongest[best][1]


def _kept(question: str, passages: Sequence[Passage]) -> list[Passage]:
    """The most promising passages, in their given order."""
    promise = promises(question, passages)
    places = sorted(range(len(passages)), key=lambda place: -promise[place])[:_KEPT]
    return [passages[place] for place in sorted(places)]


def promises(question: str, passages: Sequence[Passage]) -> list[float]:
    """How promising each passage is, 0 to 1: relevant alone, or named by one that is."""
    pages = study(question, passages).pages
    alone = [relevant(study(question, [passage])) for passage in passages]
    return [
        max(alone[at], *(_NAMED * alone[by] for by, other in enumerate(pages) if mentions(other, page)), 0.0)
        for at, page in enumerate(pages)
    ]


def _chance(question: str, path: Sequence[Passage]) -> float:
    found = study(question, path)
    return relevant(found) * sufficient(found)
