"""ColBERT: another retriever's candidates, or any list of passages, ranked by MaxSim over their tokens' vectors.

Sources: ``checkpoint.py`` tells them. Followed: the encoders and MaxSim (2020, §3.2 and §3.3), re-ranking the first
1,000 hits of BM25 (2020, §4.2). Differs: candidates come from a retriever over passages, not from the centroids of
token vectors (2022, §3.4); vectors are kept in one byte a number, not in residuals of 1 or 2 bits (``maxsim.py``).

One example: "Who directed the film that Ann Lee starred in?" shares few words with "Dark Mill is a picture by Rolf
Anders, with Ann Lee in the lead", but "directed" is near "by" there, "film" near "picture", "starred" near "lead".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from polyhop.common.registry import path_and_options, with_options
from polyhop.errors import SettingError, UnknownName
from polyhop.retrieval.base import OverIndex, Retriever
from polyhop.retrieval.late_interaction.checkpoint import ColbertCheckpoint
from polyhop.retrieval.late_interaction.maxsim import codes_of, max_sims
from polyhop.retrieval.late_interaction.tokens import token_vectors
from polyhop.retrieval.reranking.base import ScoringReranker, checked_first, ranked
from polyhop.types import Passage

if TYPE_CHECKING:
    from collections.abc import Callable

    from polyhop.retrieval.index import Index

FIRST = 1000
"""Candidates that are ranked, by default."""
RERANKED = 100
"""Hits that the reranker encodes and ranks, by default."""

_OF_CHECKPOINT = ("query_tokens", "passage_tokens", "batch_size", "device", "dtype")
_MACHINE = ("batch_size", "device")


class Colbert(OverIndex):
    """ColBERT over an index. Safe across threads; ties are broken by passage id.

    Opening it encodes the passages where they are not encoded yet; it goes on where it was stopped. ``start``: what
    finds the ``first`` candidates, or as many as are asked for.
    """

    def __init__(
        self, index: Index, checkpoint: ColbertCheckpoint, start: Retriever, *, first: int = FIRST, name: str = ""
    ) -> None:
        self.name, self.start, self.first = name or checkpoint.name, start, checked_first(first)
        self._index, self._checkpoint = index, checkpoint
        self._tokens = token_vectors(index, checkpoint.name, checkpoint.key, checkpoint.size, checkpoint.passages)

    def _scored_many(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float]]]:
        found = self.start.search_many(queries, max(k, self.first))
        return [self._ranked(query, passages)[:k] for query, passages in zip(queries, found, strict=True)]

    def _ranked(self, query: str, passages: Sequence[Passage]) -> list[tuple[Passage, float]]:
        """Those that the index holds, best first."""
        ordinals = {passage: self._index.passages.ordinal(passage.id) for passage in passages}
        held = {passage: self._tokens.of(ordinal) for passage, ordinal in ordinals.items() if ordinal is not None}
        if not held:
            return []
        return ranked(list(held), max_sims(self._checkpoint.query(query), list(held.values())).tolist())


class ColbertReranker(ScoringReranker):
    """Any retriever's hits by MaxSim, their tokens encoded anew for every query: for corpora without an index."""

    def __init__(self, checkpoint: ColbertCheckpoint, *, first: int = RERANKED, name: str = "") -> None:
        self.name, self.first = name or checkpoint.name, checked_first(first)
        self._checkpoint = checkpoint

    def scores(self, query: str, passages: Sequence[Passage]) -> list[float]:
        """The MaxSim of each passage."""
        codes = [codes_of(vectors) for vectors in self._checkpoint.passages(passages)]
        scores: list[float] = max_sims(self._checkpoint.query(query), codes).tolist()
        return scores


def open_colbert(index: Index, spec: str, open_start: Callable[[str, Index], Retriever]) -> Colbert:
    """``PATH[?OPTIONS]``: ``start`` (a retriever's name, bm25 by default, an ``&`` within it written ``%26``),
    ``first``, ``query_tokens``, ``passage_tokens``, ``batch_size``, ``device``, ``dtype``.

    Raises:
        UsageError: the checkpoint or the retriever cannot be opened.
    """
    name, checkpoint, own = _opened(spec, ("start", "first"))
    start = open_start(unquote(str(own.pop("start", "bm25"))), index)
    return Colbert(index, checkpoint, start, **own, name=name)


def open_colbert_reranker(spec: str) -> ColbertReranker:
    """``PATH[?OPTIONS]``: as ``open_colbert``'s, without ``start``."""
    name, checkpoint, own = _opened(spec, ("first",))
    return ColbertReranker(checkpoint, **own, name=name)


def _opened(spec: str, own: Sequence[str]) -> tuple[str, ColbertCheckpoint, dict[str, Any]]:
    """The name with all that changes a ranking, the checkpoint, and those of the options that are not for it."""
    path, given = path_and_options("colbert", spec, "&".join(f"{option}=…" for option in own))
    if not path:
        raise SettingError("colbert: needs the folder of a checkpoint, as in colbert:colbertv2.0")
    if strange := sorted(given.keys() - {*own, *_OF_CHECKPOINT}):
        raise UnknownName("option of colbert", strange[0], [*own, *_OF_CHECKPOINT])
    name = with_options(f"colbert:{path}", {option: value for option, value in given.items() if option not in _MACHINE})
    theirs = {option: given.pop(option) for option in _OF_CHECKPOINT if option in given}
    return name, ColbertCheckpoint(f"colbert:{path}", path, **theirs), given
