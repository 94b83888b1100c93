"""PromptRank for every method: a retriever that follows paths from another's hits, and a reranker of any retriever's.

By name: ``--retriever promptrank`` and ``--rerank promptrank``, or ``promptrank:FILE`` with the settings of a file that
``polyhop tune promptrank`` wrote. Their calls are the question's own: traced, budgeted and cached with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from polyhop.methods.paths import PathScores
from polyhop.methods.promptrank import likelihood, promptrank, ranked
from polyhop.methods.registry import method_named
from polyhop.methods.settings import read_retriever, read_settings
from polyhop.retrieval import open_retriever
from polyhop.retrieval.base import AskingRetriever, Retriever, links_of
from polyhop.retrieval.index import Index
from polyhop.types import Passage, Search

if TYPE_CHECKING:
    from polyhop.engine import Run

NAME = "promptrank"


class PathRetriever:
    """The passages of the paths that make a query likeliest. ``start``: what finds the first ones; ``settings``: the
    method's, of which those of reading do nothing here."""

    def __init__(self, start: Retriever | AskingRetriever | Search, name: str = NAME, **settings: Any) -> None:
        self.start, self.name = start, name
        self._settings = {**method_named(NAME).resolve(settings), "answer_by": "none"}
        self.needs = likelihood(self._settings).needs

    async def search_by(self, run: Run, query: str, k: int) -> Sequence[Passage]:
        """The ``k`` best passages of all scored paths, then of the first search."""
        first = max(k, self._settings["first"])
        return (await promptrank(query, run, **{**self._settings, "first": first})).passages[:k]

    def links(self, passage: Passage) -> list[Passage]:
        """The links of the retriever it starts from."""
        return links_of(self.start, passage)


class LikelihoodReranker:
    """Passages by how likely each makes the query, alone (§4.1's single-hop reranking). ``settings``: the method's."""

    def __init__(self, name: str = NAME, **settings: Any) -> None:
        self.name = name
        self._settings = method_named(NAME).resolve(settings)
        self.first: int = self._settings["first"]
        self.needs = likelihood(self._settings).needs

    async def rerank_by(self, run: Run, query: str, passages: Sequence[Passage], k: int) -> Sequence[Passage]:
        """The ``k`` likeliest; what a spent budget left unscored comes last, as it came."""
        scores = PathScores(likelihood(self._settings), query, run)
        with run.gathering():
            await scores.score([(passage,) for passage in passages])
        best = [passage for (passage,) in ranked(scores.known, scores.known)]
        return list(dict.fromkeys((*best, *passages)))[:k]


def path_retriever(index: Index, path: str = "") -> PathRetriever:
    """The retriever ``promptrank`` over an index, from its TF-IDF; with a file's settings, from what the file names."""
    start = (read_retriever(path) if path else None) or method_named(NAME).retriever
    return PathRetriever(open_retriever(start, index), _name(path), **_settings(path))


def likelihood_reranker(path: str = "") -> LikelihoodReranker:
    """The reranker ``promptrank``, with the settings of a file where one is named."""
    return LikelihoodReranker(_name(path), **_settings(path))


def _name(path: str) -> str:
    return f"{NAME}:{path}" if path else NAME


def _settings(path: str) -> dict[str, Any]:
    return read_settings(path, NAME) if path else {}
