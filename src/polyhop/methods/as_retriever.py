"""Path ranking for every method: PromptRank and ``hops`` as retrievers, and PromptRank as a reranker.

By name: ``--retriever promptrank``, ``--retriever hops``, ``--rerank promptrank``; ``promptrank:FILE`` and
``hops:FILE`` read their settings from a file, which ``polyhop tune promptrank`` writes. Their calls are traced,
budgeted and cached with the question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from polyhop.methods.hops import RANKING, ranked_by_paths, scoring_needs
from polyhop.methods.path_score import PathScoring
from polyhop.methods.paths import follows_links, ranked
from polyhop.methods.promptrank import promptrank
from polyhop.methods.registry import USUAL_RETRIEVER, method_named, read_retriever, read_settings, select
from polyhop.retrieval import open_retriever, register_reranker, register_retriever
from polyhop.retrieval.base import AnyRetriever, RunRetriever, as_retriever
from polyhop.retrieval.index import Index
from polyhop.types import Passage, QuestionRun

if TYPE_CHECKING:
    from polyhop.engine.run import Run

NAME, HOPS = "promptrank", "hops"


class PathRetriever(RunRetriever):
    """A retriever of the passages on the paths after which a query is most likely. ``start``: the retriever of the
    first passages. ``settings``: the method's; those of reading have no effect."""

    def __init__(self, start: AnyRetriever, name: str = NAME, **settings: Any) -> None:
        self.base_retriever, self.name = as_retriever(start), name
        self.chosen = _chosen(NAME, settings, start)
        self._settings = {**method_named(NAME).resolve(settings), "answer_by": "none"}
        self.needs = (*follows_links(self._settings), *select(PathScoring, self._settings).needs)

    async def search(self, query: str, k: int, run: QuestionRun) -> Sequence[Passage]:
        """Return the ``k`` best passages of all scored paths, then of the first search."""
        first = max(k, self._settings["first"])
        return (await promptrank(query, cast("Run", run), **{**self._settings, "first": first})).passages[:k]


class HopsRetriever(RunRetriever):
    """A retriever of the passages on the best paths; by default its scorer asks no language model. ``start``: the
    retriever of the first passages. ``settings``: the method's; those of reading have no effect."""

    def __init__(self, start: AnyRetriever, name: str = HOPS, **settings: Any) -> None:
        self.base_retriever, self.name = as_retriever(start), name
        self.chosen = _chosen(HOPS, settings, start)
        self._settings = {key: method_named(HOPS).resolve(settings)[key] for key in RANKING}
        self.needs = (*follows_links(self._settings), *scoring_needs(self._settings["scorer"]))

    async def search(self, query: str, k: int, run: QuestionRun) -> Sequence[Passage]:
        """Return the ``k`` best passages of all scored paths."""
        first = max(k, self._settings["first"])
        ranking, _ = await ranked_by_paths(query, cast("Run", run), **{**self._settings, "first": first})
        return ranking[:k]


class LikelihoodReranker:
    """A reranker by the likelihood of the query after each passage alone (§4.1's single-hop reranking).

    ``settings``: the method's.
    """

    def __init__(self, name: str = NAME, **settings: Any) -> None:
        self.name, self.chosen = name, _chosen(NAME, settings)
        self._settings = method_named(NAME).resolve(settings)
        self.first: int = self._settings["first"]
        self.needs = select(PathScoring, self._settings).needs

    async def rerank_by(self, run: Run, query: str, passages: Sequence[Passage], k: int) -> Sequence[Passage]:
        """Return the ``k`` likeliest passages; those that a spent budget left unscored come last, in their order."""
        scorer = select(PathScoring, self._settings).open(query, run)
        with run.gathering():
            await scorer.score([(passage,) for passage in passages])
        best = [passage for (passage,) in ranked(scorer.scores, scorer.scores)]
        return list(dict.fromkeys((*best, *passages)))[:k]


@register_retriever("promptrank")
@register_retriever("promptrank:")
def path_retriever(index: Index, path: str = "") -> PathRetriever:
    """Open ``promptrank`` over an index, from its TF-IDF or from the retriever that the settings file names."""
    return PathRetriever(_start(NAME, index, path), _name(NAME, path), **_settings(NAME, path))


@register_retriever("hops")
@register_retriever("hops:")
def hops_retriever(index: Index, path: str = "") -> HopsRetriever:
    """Open ``hops`` over an index, from its BM25 or from the retriever that the settings file names."""
    return HopsRetriever(_start(HOPS, index, path), _name(HOPS, path), **_settings(HOPS, path))


@register_reranker("promptrank")
@register_reranker("promptrank:")
def likelihood_reranker(path: str = "") -> LikelihoodReranker:
    """Open the reranker ``promptrank``, with the settings of a file if one is named."""
    return LikelihoodReranker(_name(NAME, path), **_settings(NAME, path))


def _start(method: str, index: Index, path: str) -> AnyRetriever:
    return open_retriever((read_retriever(path) if path else None) or method_named(method).retriever, index)


def _name(method: str, path: str) -> str:
    return f"{method}:{path}" if path else method


def _chosen(name: str, settings: Mapping[str, Any], start: object = None) -> dict[str, Any]:
    """Return the settings that differ from the defaults and, if it does too, the name of the first retriever."""
    method = method_named(name)
    defaults, given = method.resolve({}), method.resolve(settings)
    chosen = {setting: value for setting, value in given.items() if value != defaults[setting]}
    usual = "bm25" if method.retriever == USUAL_RETRIEVER else method.retriever
    base = getattr(start, "name", usual)
    return chosen if base == usual else {**chosen, "start": base}


def _settings(method: str, path: str) -> dict[str, Any]:
    return read_settings(path, method) if path else {}
