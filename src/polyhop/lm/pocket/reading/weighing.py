"""The best answer among many passages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from polyhop.common.text import normalise
from polyhop.lm.pocket.encoder.cache import MAX_PASSAGES, predict
from polyhop.lm.pocket.reading.answer import PathReading, Solution, read_path
from polyhop.lm.pocket.reading.candidates import names_page
from polyhop.lm.pocket.reading.claims import decide
from polyhop.lm.pocket.reading.documents import (
    Weighed,
    answers_in_steps,
    answers_of_documents,
    answers_to_inner,
)
from polyhop.lm.pocket.reading.fitting import fit
from polyhop.lm.pocket.reading.judge import (
    answer_probabilities,
    is_hopeless,
    is_likely,
    relevance,
    sufficiency,
)
from polyhop.types import Passage

_FEW = 2  # passages that are read as they are
_MAX_PASSAGES = 40  # that are weighed
_MAX_PAIRED = 6  # most promising passages that are read in pairs
_UNNAMED_WEIGHT = 0.5  # of a pair without a passage about what the question names, if there is one
_PASSED_ON = 0.6  # share of a passage's relevance that counts for the passages it names
_LITTLE = 0.05  # weight of an answer read off a single passage of own documents, below which pairs are read too
_SURE = 0.7  # share of an answer read off pairs of articles, below which a question is also answered in two steps
_PAIRS_WEIGHT = 0.1  # of the answers read off pairs of own documents' passages

Path = tuple[Passage, ...]


class WeighedAnswer(NamedTuple):
    """An answer, the solution that supports it most, and its share of the weight of all answers; its weight, where it
    was read off own documents; the paths that were read: none if rules settle a question over articles; the cosine of
    its sentence to the question, the probability that it is right when it is read again beside the question, and that
    when the sentences of the best answers are read side by side, where they were computed."""

    answer: str | None
    solution: Solution
    share: float
    weight: float | None = None
    paths: Sequence[Path] = ()
    nearness: float | None = None
    verified: float | None = None
    chosen: float | None = None


def best_answer(question: str, passages: Sequence[Passage]) -> tuple[str | None, Solution]:
    """The best answer from many passages, and the solution that supports it most (see ``weigh_answers``)."""
    weighed = weigh_answers(question, passages)
    return weighed.answer, weighed.solution


def weigh_answers(question: str, passages: Sequence[Passage], paths: Sequence[Path] | None = None) -> WeighedAnswer:
    """Weigh the answers from many passages.

    All passages together decide if they settle the question by a comparison or a chain. Else the weight of an answer is
    the sum over pairs of the promise of a pair, squared, times the probability that the pair gives the answer. Parts of
    files are read one by one, and in pairs where that tells little.

    ``paths`` of articles that were accepted are read as they are, and of the other pairs those that are likely by
    rules. Where no paths are given, what a question only describes is no answer to it; and where the pairs tell little,
    such a question is also answered in two steps.
    """
    passages = passages[:_MAX_PASSAGES]
    reading = read_path(question, passages)
    if not reading.of_documents:
        return _weigh_articles(question, passages, reading, paths)
    whole = reading.solution
    alone = [(passage,) for passage in _most_promising(question, passages)]
    if whole.is_open_claim:
        return _claimed(question, passages, whole)._replace(paths=alone)
    if whole.verdict and whole.is_guess:
        return WeighedAnswer(whole.verdict.answer, whole, whole.verdict.probability, paths=alone)
    if whole.is_undecided:
        return WeighedAnswer(None, whole, 0.0, paths=alone)
    if whole.complete and not whole.is_cell:
        return _as_read(whole, alone)
    return _weigh_documents(question, passages, whole)._replace(paths=alone)


def _weigh_articles(
    question: str, passages: Sequence[Passage], reading: PathReading, paths: Sequence[Path] | None
) -> WeighedAnswer:
    """Weigh the answers read off paths of articles, unless rules settle the question."""
    outline = reading.outline
    if outline.complete:
        return _as_read(outline, ())
    promising = _most_promising(question, passages)
    pairs = _pairs(question, promising)
    whole = reading.solution if outline.verdict else outline
    if len(passages) > _FEW and outline.answer is None and (whole.ranked or not outline.verdict):
        accepted = [path for path in paths or () if len(path) <= MAX_PASSAGES]
        read = [*accepted, *_other_likely(question, pairs, accepted)] if accepted else pairs
        totals, strongest = _weigh_paths(question, passages, read, whole)
        if any(totals.values()):
            if paths is None and not whole.verdict and whole.parsed.type != "boolean":
                _follow_description(question, promising, totals, strongest)
            return _heaviest(totals, strongest)._replace(paths=read)
    return _as_read(reading.solution, pairs if len(passages) > 1 else [tuple(passages)])


def _follow_description(
    question: str, passages: Sequence[Passage], totals: dict[str, float], strongest: dict[str, tuple[float, Solution]]
) -> None:
    """Multiply the weight of an answer by the probability that it is not just what the question describes. If no answer
    is sure then, add those found in steps: one of weight w counts as w times all that was read off pairs."""
    everything, spellings = sum(totals.values()), {normalise(answer): answer for answer in totals}
    for inner in answers_to_inner(question, passages) or ():
        if answer := spellings.get(normalise(inner.answer)):
            totals[answer] *= max(0.0, 1.0 - inner.weight)
    if max(totals.values()) >= _SURE * everything:
        return
    for found in answers_in_steps(question, passages) or ():
        answer = spellings.setdefault(normalise(found.answer), found.answer)
        totals[answer] = totals.get(answer, 0.0) + everything * found.weight
        strongest.setdefault(answer, (everything * found.weight, found.solution))


def _other_likely(question: str, pairs: Sequence[Path], paths: Sequence[Path]) -> list[Path]:
    """The pairs that are on none of the paths, and likely by rules."""
    others = [pair for pair in pairs if not any(set(pair) <= set(path) for path in paths)]
    return [pair for pair in others if any(is_likely(read_path(question, each)) for each in (pair, pair[::-1]))]


def _as_read(whole: Solution, paths: Sequence[Path]) -> WeighedAnswer:
    share = answer_probabilities(whole).get(whole.answer or "", 0.0)
    return WeighedAnswer(whole.answer, whole, share, paths=paths)


def _heaviest(totals: Mapping[str, float], strongest: Mapping[str, tuple[float, Solution]]) -> WeighedAnswer:
    best = max(totals, key=lambda answer: totals[answer])
    return WeighedAnswer(best, strongest[best][1], totals[best] / (sum(totals.values()) or 1.0))


def _claimed(question: str, passages: Sequence[Passage], whole: Solution) -> WeighedAnswer:
    yes, decided = decide(question, passages)
    answer, share = ("yes", yes) if yes > 0.5 else ("no", 1.0 - yes)
    return WeighedAnswer(answer, replace(whole, yes=yes), share, decided)


def _weigh_documents(question: str, passages: Sequence[Passage], whole: Solution) -> WeighedAnswer:
    """Weigh the answers from parts of files: read off single passages, and in two steps if the question describes what
    it is about; where all weigh little, off pairs too."""
    totals: dict[str, float] = defaultdict(float)
    strongest: dict[str, tuple[float, Solution]] = {}
    best: dict[str, Weighed] = {}
    for found in answers_of_documents(question, passages):
        totals[found.answer] += found.weight
        if found.answer not in strongest or found.weight > strongest[found.answer][0]:
            strongest[found.answer] = found.weight, found.solution
            best[found.answer] = found
    if len(passages) > 1 and max(totals.values(), default=0.0) < _LITTLE:
        pairs = _pairs(question, _most_promising(question, passages))
        paired, solutions = _weigh_paths(question, passages, pairs, whole)
        everything = sum(paired.values()) or 1.0
        for answer, weight in paired.items():
            if fitting := fit(whole.parsed, answer):
                totals[answer] += _PAIRS_WEIGHT * fitting * weight / everything
                strongest.setdefault(answer, solutions[answer])
    if not totals:
        return WeighedAnswer(None, whole, 0.0)
    heaviest = _heaviest(totals, strongest) if any(totals.values()) else _as_read(whole, ())
    heaviest = heaviest._replace(weight=totals.get(heaviest.answer or "", 0.0))
    read = best.get(heaviest.answer or "")
    return heaviest._replace(nearness=read.nearness, verified=read.verified, chosen=read.chosen) if read else heaviest


def _weigh_paths(
    question: str, passages: Sequence[Passage], paths: Sequence[Path], whole: Solution
) -> tuple[dict[str, float], dict[str, tuple[float, Solution]]]:
    """The weights of the answers read off paths of passages, and the strongest solution for each."""
    totals: dict[str, float] = defaultdict(float)
    strongest: dict[str, tuple[float, Solution]] = {}
    predict(question, paths)  # in one batch
    named, spellings = _named(question, passages), dict[str, str]()
    for path in paths:
        solution = read_path(question, path).solution
        if whole.narrowed and not solution.narrowed:
            continue  # the chain got further in the whole than on this path
        promise = max(_promise(question, path), _promise(question, path[::-1])) ** 2
        promise *= 1.0 if not named or any(passage in named for passage in path) else _UNNAMED_WEIGHT
        for text, share in answer_probabilities(solution).items():
            answer = spellings.setdefault(normalise(text), text)
            totals[answer] += promise * share
            if answer not in strongest or promise * share > strongest[answer][0]:
                strongest[answer] = (promise * share, solution)
    return totals, strongest


def _pairs(question: str, passages: Sequence[Passage]) -> list[Path]:
    """The pairs of passages that may bear on the question by rules; all of them if none does."""
    pairs: list[Path] = list(combinations(passages, 2))
    may = [pair for pair in pairs if not all(is_hopeless(read_path(question, each)) for each in (pair, pair[::-1]))]
    return may or pairs


def _named(question: str, passages: Sequence[Passage]) -> list[Passage]:
    """The passages about what the question names."""
    matches = read_path(question, passages).matches.by_page
    return [passage for passage, match in zip(passages, matches, strict=False) if match.title_in_question]


def _most_promising(question: str, passages: Sequence[Passage]) -> list[Passage]:
    """The most promising passages, in their given order."""
    if len(passages) <= _MAX_PAIRED:
        return list(passages)
    promise = promises(question, passages)
    best = sorted(range(len(passages)), key=lambda i: -promise[i])[:_MAX_PAIRED]
    return [passages[i] for i in sorted(best)]


def promises(question: str, passages: Sequence[Passage]) -> list[float]:
    """The promise of each passage, 0 to 1: its relevance alone, or a share of that of a passage that names it."""
    pages = read_path(question, passages).pages
    predict(question, [[passage] for passage in passages])  # in one batch
    alone = [relevance(read_path(question, [passage])) for passage in passages]
    return [
        max(alone[i], *(_PASSED_ON * alone[j] for j, other in enumerate(pages) if names_page(other, page)), 0.0)
        for i, page in enumerate(pages)
    ]


def _promise(question: str, path: Sequence[Passage]) -> float:
    reading = read_path(question, path)
    return relevance(reading) * sufficiency(reading)
