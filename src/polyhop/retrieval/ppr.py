"""Retrieval by personalised PageRank over passages and the names they mention, without a language model.

A graph of passages and phrases walked by personalised PageRank is HippoRAG's (Gutiérrez et al., "HippoRAG:
Neurobiologically Inspired Long-Term Memory for Large Language Models", 2024), whose phrases and edges a language model
extracts. Here the names are those of the index's links: titles that texts mention, or the targets of hyperlinks.

Settled here: a walk starts at the first hits of another retriever, by the softmax of their z-scores, and, three times
in ten, at the names in the question. From a passage it goes to a name that the passage mentions or has as its title;
from a name, nine times in ten, to a passage with that title, otherwise to one that mentions it. These numbers were
chosen on training questions. The graph is derived from the links when the retriever is opened, so it is as current as
the index.

Example: "In which town was the director of Dark Mill born?" starts at the film's page, which mentions Ann Lee; the walk
goes to her page, although it shares only "born" with the question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import exp
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np

from polyhop.common.pagerank import Graph, pagerank
from polyhop.common.registry import check_at_least, check_options, path_and_options, with_options
from polyhop.errors import IndexFolderError, SettingError, UsageError
from polyhop.retrieval.base import OverIndex, Retriever, ScoringRetriever
from polyhop.retrieval.hybrid import z_scores
from polyhop.retrieval.title_mentions import Names, names_of
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.retrieval.index import Index
    from polyhop.retrieval.links import Links

FIRST, DAMPING = 100, 0.7
TITLED_SHARE = 0.9
"""Share of the walks from a name that go to the passages with that title."""
NAMED_SHARE = 0.3
"""Share of the walks that start at the names in the question, if it has any."""
MAX_MENTIONS = 100
"""Maximum number of passages that mention a name for a walk to go to them: of more, each would get next to nothing."""


class PPR(OverIndex):
    """Personalised PageRank over an index. As safe across threads as ``start``; ties are broken by passage id.

    Args:
        start: finds the ``first`` passages, with scores.
        damping: the probability of a further step, from a passage to a name or from a name to a passage.
    """

    def __init__(
        self, index: Index, start: Retriever, *, first: int = FIRST, damping: float = DAMPING, name: str = "ppr"
    ) -> None:
        check_at_least(1, first=first)
        if not 0 < damping < 1:
            raise SettingError(f"damping={damping:g}: must be above 0 and below 1")
        if not isinstance(start, ScoringRetriever):
            raise UsageError(f"{name}: {start.name} has no scores to start from: use bm25, dense:… or hybrid:…")
        if index.link_tables is None:
            raise UsageError(f"{name} follows links, and the index was built without: build it with links")
        self.name, self.encoder = name, getattr(start, "encoder", None)
        self._index, self._start, self._first, self._damping = index, start, first, damping
        self._names = Names(index.analysis, own=index.link_mode == "own")
        self._names.load(index.state)
        try:
            self._graph = name_graph(index.link_tables)
        except (IndexError, ValueError) as error:
            raise IndexFolderError(f"its links are damaged ({error}); build the index again", index.folder) from None

    def _scored_many(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float]]]:
        found = self._start.search_many_scored(queries, max(k, self._first))
        return [self._walked(query, hits, k) for query, hits in zip(queries, found, strict=True)]

    def _walked(self, query: str, hits: Sequence[tuple[Passage, float]], k: int) -> list[tuple[Passage, float]]:
        nodes, shares = pagerank(self._graph, self._seeds(query, hits), self._damping)
        passages = nodes < self._index.rows
        return self._index.passages.best_scored(nodes[passages], shares[passages], k)

    def _seeds(self, query: str, hits: Sequence[tuple[Passage, float]]) -> dict[int, float]:
        """Return the weight of each node where walks start: passages, and names in the question."""
        values = z_scores(hits)
        highest = max(values.values(), default=0.0)
        ordinals = {passage: self._index.passages.ordinal(passage.id) for passage in values}
        seeds = {row: exp(values[hit] - highest) for hit, row in ordinals.items() if row is not None}
        named = list(dict.fromkeys(self._named(query)))
        weight = sum(seeds.values()) * NAMED_SHARE / (1 - NAMED_SHARE) if seeds else 1.0
        return seeds | dict.fromkeys(named, weight / max(1, len(named)))

    def _named(self, query: str) -> Iterator[int]:
        """Yield the nodes of the names in a question."""
        for name in self._names.matches(query):
            node = self._index.rows + self._names.number[name]
            if self._graph.starts[node] < self._graph.starts[node + 1] and names_of(name, self._index.analysis):
                yield node


def name_graph(links: Links) -> Graph:
    """Derive the graph of passages and names from the links of an index; name ``i`` is the node after the passages'
    last by ``i``. No walk goes to a name that only one passage has, which would lead back, or that leads to none."""
    (rows, mentioned), (title_rows, titled) = links.mentions(), links.titles()
    count = links.names
    titles = np.bincount(titled, minlength=count)
    known = title_rows.astype(np.int64) * count + titled
    kept = (titles[mentioned] > 0) & ~np.isin(rows.astype(np.int64) * count + mentioned, known)
    rows, mentioned = rows[kept], mentioned[kept]
    mentions = np.bincount(mentioned, minlength=count)
    shared, rare = titles + mentions > 1, mentions <= MAX_MENTIONS
    own, kept, back = shared[titled], shared[mentioned], (shared & rare)[mentioned]
    to_titles = TITLED_SHARE / np.maximum(titles, 1)
    to_mentions = (1 - TITLED_SHARE) / np.maximum(mentions, 1)
    edges: list[tuple[Any, Any, Any]] = [
        (rows[kept], links.rows + mentioned[kept], np.ones(int(kept.sum()))),
        (title_rows[own], links.rows + titled[own], np.ones(int(own.sum()))),
        (links.rows + titled, title_rows, to_titles[titled]),
        (links.rows + mentioned[back], rows[back], to_mentions[mentioned[back]]),
    ]
    sources, targets, weights = (np.concatenate(part) for part in zip(*edges, strict=True))
    return Graph.of(
        links.rows + count, sources.astype(np.uint32), targets.astype(np.uint32), weights.astype(np.float32)
    )


def open_ppr(index: Index, spec: str, open_start: Callable[[str, Index], Retriever]) -> PPR:
    """Open ``ppr?OPTIONS``: ``start`` (a retriever's name, by default bm25; write an ``&`` in it as ``%26``),
    ``first``, ``damping``.

    Raises:
        UsageError: an option is unknown or wrong, or the retriever cannot be opened.
    """
    path, given = path_and_options("ppr", spec, "start=hybrid:bm25+dense:pocket")
    if path:
        raise SettingError(f"ppr:{path}: what walks start from is an option, as in ppr?start={path}")
    check_options("ppr", given, ("start", "first", "damping"))
    name = with_options("ppr", given)
    start = open_start(unquote(str(given.pop("start", "bm25"))), index)
    try:
        given["damping"] = float(given.get("damping", DAMPING))
    except ValueError:
        raise SettingError(f"damping={given['damping']}: must be a number above 0 and below 1") from None
    return PPR(index, start, **given, name=name)
