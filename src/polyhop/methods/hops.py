"""hops: a first search, the links of its passages, and a ranking of the paths of both; then one reading.

Polyhop's own method: multi-hop retrieval without a language model. Followed:

* PromptRank (Khalifa et al., 2023, §2): the beam of paths, each extended by the links of its last passage; a passage
  has the score of its best path.
* PathRetriever (Asai et al., "Learning to Retrieve Reasoning Paths over Wikipedia Graph for Question Answering", 2020):
  a small trained scorer judges a path, passage by passage.
* Baleen (Khattab et al., "Baleen: Robust Multi-Hop Reasoning at Scale via Condensed Retrieval", 2021) and MDR (Xiong
  et al., 2021): the second query, made of the question and the passages found (``requery``): a name that the built-in
  reader extracts from the path, and the words of the question that the path does not contain.
* IRCoT (Trivedi et al., "Interleaving Retrieval with Chain-of-Thought Reasoning for Knowledge-Intensive Multi-Step
  Questions", 2023): an answer leads to the next search (``steps``), here without a language model. A question about
  something that it only describes is split, and the passages that its steps are read off come after the best path.

Settled here: ``scorer=pocket`` is the path scorer that the run was given (``lm/pocket/paths.py``), the only one with
second queries and steps; ``reasons`` is its linear model alone, ``likelihood`` the likelihood of the question, ``ppr``
personalised PageRank over the links, ``promptrank`` PromptRank's score at its defaults, the only one by a language
model. A path's score has four decimal places; passages with equal scores are ordered by id. The defaults were chosen on
training questions.

Example: "In which town was the director of Dark Mill born?" finds the film's page, which says who directed it and
links to Ann Lee. Her page shares only "born" with the question; it ranks second for the path that leads to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from polyhop.answer import Answer
from polyhop.common.pagerank import TOLERANCE, pagerank_of
from polyhop.common.text import content_words
from polyhop.methods.baselines.one_shot import answered_from
from polyhop.methods.context import Style
from polyhop.methods.path_score import PathScoring
from polyhop.methods.paths import (
    Path,
    Scorer,
    beam_search,
    follows_links,
    linked,
    paths_of,
    ranked,
)
from polyhop.methods.registry import method, method_named, select
from polyhop.types import NonNegative, Passage, Positive, are_of_documents

if TYPE_CHECKING:
    from polyhop.engine.run import Run

ScorerName: TypeAlias = Literal["pocket", "reasons", "likelihood", "ppr", "promptrank"]

PPR_DAMPING = 0.5
"""The probability that a walk of ``scorer=ppr`` follows a link."""

SCORE_DECIMALS = 4
"""Decimal places of a path's score."""

MAX_SPLITS = 3
"""The most times that a question is split, one part inside the other."""

READ, READ_OF_FILES = 5, 8
"""Numbers of articles, and of parts of files, that are read: in a folder seldom two passages say the same."""

RANKING = ("first", "keep", "links", "hops", "requery", "leads", "requeried", "steps", "scorer")
"""The settings that the ranking of passages reads."""


def scoring_needs(scorer: ScorerName) -> tuple[str, ...]:
    """Return the needs of a scorer: abilities of the language model."""
    return select(PathScoring, method_named("promptrank").resolve({})).needs if scorer == "promptrank" else ()


@method(
    "hops",
    family="one retrieval",
    calls=1,
    paper="ours, after PromptRank and PathRetriever",
    layers=lambda settings: 1 + (int(settings["hops"]) if settings["scorer"] == "promptrank" else 0),
    needs=lambda settings: ("retriever", *follows_links(settings), *scoring_needs(settings["scorer"])),
)
async def hops(
    question: str,
    run: Run,
    *,
    first: Positive = 100,  # passages of the first search
    keep: Positive = 20,  # number of paths extended at every hop
    links: NonNegative = 10,  # maximum number of links followed from a path, best first by the linear scorer
    hops: Positive = 2,  # maximum number of passages per path
    requery: NonNegative = 3,  # number of hits of each second query that extend a path
    leads: NonNegative = 2,  # second queries per path: names that pocket's reader finds in it
    requeried: NonNegative = 3,  # number of best paths of each length that get second queries
    steps: NonNegative = 5,  # hits read for each step of a question about something that it only describes
    scorer: ScorerName = "pocket",  # the scorer of paths
    k: Positive | None = None,  # number of passages read; if not set, 5 articles, or 8 parts of files
    style: Style = "direct",
    shots: NonNegative = 3,
    context_tokens: Positive = 4096,  # of the prompt that reads the passages
    rank_limit: Positive = 20,
) -> Answer:
    """Follow links from the first hits, rank the paths, and read the best passages."""
    ranking, statistics = await ranked_by_paths(
        question, run, first=first, keep=keep, links=links, hops=hops,
        requery=requery, leads=leads, requeried=requeried, steps=steps, scorer=scorer,
    )  # fmt: skip
    read = k or (READ_OF_FILES if are_of_documents(ranking) else READ)
    answer = await answered_from(
        question, run, ranking, k=read, style=style, shots=shots, context_tokens=context_tokens, rank_limit=rank_limit
    )
    return replace(answer, statistics={**answer.statistics, **statistics})


async def ranked_by_paths(
    question: str, run: Run, *, first: int, keep: int, links: int, hops: int,
    requery: int, leads: int, requeried: int, steps: int, scorer: ScorerName,
) -> tuple[list[Passage], dict[str, Any]]:  # fmt: skip
    """Rank all passages found: those of the best path, those that the steps of the question are read off, then the
    others by their best path. Also return the number of paths scored."""
    found: list[Passage] = []
    read_off: list[Passage] = []
    beam_scorer = scorer_named(scorer, question, run, found)

    async def expand(path: Path) -> list[Passage]:
        targets = linked(path, run)
        if len(targets) > links:
            scores = run.path_scorer.linear_scores(question, [(*path, target) for target in targets], found)
            by_target = dict(zip(targets, _rounded(scores), strict=True))
            targets = sorted(targets, key=lambda target: -by_target[target])[:links]
        if scorer != "pocket" or not requery:
            return targets
        same_length = [scored for scored in beam_scorer.scores if len(scored) == len(path)]
        if path in ranked(same_length, beam_scorer.scores)[:requeried]:
            for name in await run.path_scorer.leads(question, path, leads):
                targets += await run.search(second_query(question, path, name), requery)
        return targets

    with run.gathering():
        found += await run.search(question, first)
        await beam_search(found, beam_scorer, expand, beam_width=keep, max_hops=hops)
        if scorer == "pocket" and steps:
            read_off += [passage for _, passage in await read_in_steps(question, run, steps)]
    scores = beam_scorer.scores
    paths = sorted(scores, key=lambda path: (-scores[path], [passage.id for passage in path]))
    run.note("paths", ranked=[{"passages": [p.id for p in path], "score": scores[path]} for path in paths])
    score_of = {passage: scores[best] for passage, (best, *_) in paths_of(paths).items()}
    by_score = sorted(score_of, key=lambda passage: (-score_of[passage], passage.id))
    best_path = by_score[: len(paths[0])] if paths else []
    return list(dict.fromkeys((*best_path, *read_off, *by_score, *found))), {"paths scored": len(paths)}


async def read_in_steps(
    question: str, run: Run, hits: int, known: tuple[str, ...] = (), depth: int = 0
) -> list[tuple[str, Passage]]:
    """Answer, in steps, a question about something that it only describes: first the question of what that is, then
    the rest of the question about the answer. Each step is searched for, and read off its best hit.

    Args:
        question: the question, or a part of it.
        run: the question's run.
        hits: the number of hits that are read for a step.
        known: the answers on the way, which answer no later step.
        depth: how often the question was split before.

    Returns:
        The answer of each step, and the passage that it is read off; none if the question describes nothing.
    """
    parts = await run.path_scorer.split(question) if depth < MAX_SPLITS else None
    if parts is None:
        read = await run.path_scorer.read_step(question, await run.search(question, hits), known) if depth else None
        return [read] if read else []
    steps = await read_in_steps(parts.inner, run, hits, known, depth + 1)
    if not steps:
        return []
    name, _ = steps[-1]
    return steps + await read_in_steps(parts.about(name), run, hits, (*known, name), depth + 1)


def scorer_named(scorer: ScorerName, question: str, run: Run, found: Sequence[Passage]) -> Scorer:
    """Open the scorer of the question's paths; they begin at the passages of ``found``, which may be added later."""
    if scorer == "promptrank":
        return select(PathScoring, method_named("promptrank").resolve({})).open(question, run)
    if scorer == "ppr":
        return PageRankScorer(run, found)
    return PocketScorer(question, run, found, scorer)


class PocketScorer:
    """A scorer of one question's paths that needs no language model."""

    def __init__(
        self, question: str, run: Run, found: Sequence[Passage], by: Literal["pocket", "reasons", "likelihood"]
    ) -> None:
        self.question, self.run, self.found, self.by = question, run, found, by
        self.scores: dict[Path, float] = {}

    async def score(self, paths: Sequence[Path]) -> None:
        """Score the paths."""
        scorer = self.run.path_scorer
        if self.by == "pocket":
            scores = await scorer.scores(self.question, paths, self.found)
        elif self.by == "reasons":
            scores = scorer.linear_scores(self.question, paths, self.found)
        else:
            scores = scorer.likelihood_scores(self.question, paths)
        self.scores.update(zip(paths, _rounded(scores), strict=True))


class PageRankScorer:
    """A scorer by personalised PageRank: the mean logarithm of the time that walks spend at the passages of a path.

    Walks start at the first search's hits, by reciprocal rank, and follow the links of all passages scored so far.
    """

    def __init__(self, run: Run, found: Sequence[Passage]) -> None:
        self.run, self.found = run, found
        self.scores: dict[Path, float] = {}
        self._links: dict[Passage, list[Passage]] = {}

    async def score(self, paths: Sequence[Path]) -> None:
        """Score the paths, and those scored before again, as their passages' links add to the graph."""
        new = dict.fromkeys(passage for path in paths for passage in path if passage not in self._links)
        self._links |= {passage: self.run.links(passage) for passage in new}
        seeds = {passage: 1 / rank for rank, passage in enumerate(self.found, 1)}
        shares = pagerank_of(self._links, seeds, PPR_DAMPING)
        paths = list(dict.fromkeys((*self.scores, *paths)))
        scores = [fmean(log(max(shares.get(passage, 0.0), TOLERANCE)) for passage in path) for path in paths]
        self.scores.update(zip(paths, _rounded(scores), strict=True))


def _rounded(scores: Sequence[float]) -> list[float]:
    return [round(score, SCORE_DECIMALS) for score in scores]


def second_query(question: str, path: Path, name: str) -> str:
    """Join the name and the question's content words that no passage on the path contains.

    >>> film = Passage("film", "Dark Mill", "Dark Mill is a film directed by Ann Lee.")
    >>> second_query("In which town was the director of Dark Mill born?", (film,), "Ann Lee")
    'Ann Lee town director born'
    """
    held = {word for passage in path for word in content_words(f"{passage.title} {passage.text}")}
    return " ".join([name, *(word for word in content_words(question) if word not in held)])
