"""Fuse the rankings of several retrievers: by z-scores, relative scores or reciprocal ranks, or as shards of a corpus.

Sources: Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion Outperforms Condorcet and Individual Rank Learning
Methods", 2009: the sum of 1 / (60 + rank), which needs no scores. The z-score, (score - mean) / deviation over each
retriever's own hits, keeps how far a hit stands out; a passage that a retriever did not find gets its lowest score.
A relative score is divided by the retriever's best; a passage that it did not find gets 0. That suits retrievers whose
scores start at 0 and that find few passages, as BM25 does for a query with one rare word (the convex combination of
Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", 2023, §3, with 0 as the lowest score).
Shards run the same search over different passages, so their scores are comparable: the best of all are the best.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from math import fsum, isfinite, sqrt
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from polyhop.common.registry import check_at_least
from polyhop.errors import SettingError, UsageError
from polyhop.retrieval.base import Retriever, ScoringRetriever, as_retriever
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.retrieval.encoders.base import Encoder
    from polyhop.retrieval.index import Index

Fusion: TypeAlias = Literal["zscore", "relative", "rrf"]
Joining: TypeAlias = Literal[Fusion, "shards"]
Hits: TypeAlias = Sequence[tuple[Passage, float]]

RRF_K = 60

_WEIGHT = re.compile(r"(?P<name>.+)\*(?P<weight>\d+(?:\.\d+)?)")


class Hybrid(ScoringRetriever):
    """A fusion of retrievers with weights. As safe across threads as they are; ties are broken by passage id, and no
    result depends on the order of the parts. Links come from the index or, without one, from the first part with any.

    ``fusion``: all but ``rrf``, which takes any, need retrievers with scores (``ScoringRetriever``).
    ``depth`` is the number of hits of each part, or ``k`` if that is more.
    """

    def __init__(
        self,
        index: Index | None,
        parts: Sequence[tuple[Retriever, float]],
        *,
        fusion: Joining = "zscore",
        depth: int = 100,
    ) -> None:
        name = "hybrid:" + (f"{fusion}:" if fusion != "zscore" else "")
        name += "+".join(part.name + (f"*{weight:g}" if weight != 1 else "") for part, weight in parts)
        if fusion not in get_args(Joining):
            raise SettingError(f"fusion={fusion!r}: must be {' or '.join(map(repr, get_args(Joining)))}")
        if len(parts) < 2:
            raise SettingError(f"{name}: fuses at least two retrievers, as in hybrid:bm25+dense:intfloat/e5-base-v2")
        for part, weight in parts:
            if not (isfinite(weight) and weight > 0):
                raise SettingError(f"{name}: {part.name} has the weight {weight}; must be a number above 0")
        check_at_least(1, depth=depth)
        for part, _ in parts:
            if fusion != "rrf" and not isinstance(part, ScoringRetriever):
                raise UsageError(f"{name}: {part.name} has no scores, so it is fused by rank: hybrid:rrf:…")
        self.name, self.fusion, self.depth = name, fusion, depth
        self._index, self._parts = index, parts
        self.encoder: Encoder | None = next(filter(None, (getattr(part, "encoder", None) for part, _ in parts)), None)

    async def aclose(self) -> None:
        """Close the connections of all parts."""
        for part, _ in self._parts:
            if close := getattr(part, "aclose", None):
                await close()

    @property
    def linked(self) -> bool:
        """True if the index has links or, without an index, a part has."""
        if self._index is not None:
            return bool(self._index.link_mode)
        return any(as_retriever(part).has_links for part, _ in self._parts)

    def links(self, passage: Passage) -> list[Passage]:
        """Return the passages this one links to."""
        if self._index is not None:
            return self._index.links(passage)
        return next(filter(None, (part.links(passage) for part, _ in self._parts)), [])

    def _scored_many(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float]]]:
        by_part = [(self._hits(part, queries, max(k, self.depth)), weight) for part, weight in self._parts]
        return [
            fused([(found[number], weight) for found, weight in by_part], self.fusion)[:k]
            for number in range(len(queries))
        ]

    def _hits(self, part: Retriever, queries: Sequence[str], depth: int) -> Sequence[Hits]:
        if isinstance(part, ScoringRetriever):
            return part.search_many_scored(queries, depth)
        return [[(passage, 0.0) for passage in found] for found in part.search_many(queries, depth)]


def fused(rankings: Sequence[tuple[Hits, float]], fusion: Joining) -> list[tuple[Passage, float]]:
    """Fuse weighted rankings, best first, into one: by falling sum, then by passage id.

    >>> first, second = Passage("1", "", "one"), Passage("2", "", "two")
    >>> both, one = [(first, 9.0), (second, 5.0)], [(second, 3.0)]
    >>> [(passage.id, round(score, 2)) for passage, score in fused([(both, 1), (one, 1)], "rrf")]
    [('2', 0.03), ('1', 0.02)]
    >>> [(passage.id, score) for passage, score in fused([(both, 1), ([], 2)], "zscore")]
    [('1', 1.0), ('2', -1.0)]
    >>> [(passage.id, round(score, 2)) for passage, score in fused([(both, 1), (one, 1)], "relative")]
    [('2', 1.56), ('1', 1.0)]
    >>> [(passage.id, score) for passage, score in fused([(both[:1], 1), (one, 1)], "shards")]
    [('1', 9.0), ('2', 3.0)]
    """
    weighted = [(_VALUES[fusion](hits), weight) for hits, weight in rankings]
    passages = {passage for values, _ in weighted for passage in values}
    least = [min(values.values(), default=0.0) if fusion == "zscore" else 0.0 for values, _ in weighted]
    scores = [
        (
            passage,
            fsum(weight * values.get(passage, low) for (values, weight), low in zip(weighted, least, strict=True)),
        )
        for passage in passages
    ]
    return sorted(scores, key=lambda hit: (-hit[1], hit[0].id))


def _by_rank(hits: Hits) -> dict[Passage, float]:
    return {passage: 1 / (RRF_K + rank) for rank, (passage, _) in enumerate(hits, 1)}


def z_scores(hits: Hits) -> dict[Passage, float]:
    """Compute z-scores; 0 for all if all scores are equal."""
    if len({score for _, score in hits}) < 2:  # a rounded mean would differ from them
        return dict.fromkeys((passage for passage, _ in hits), 0.0)
    mean = fsum(score for _, score in hits) / len(hits)
    deviation = sqrt(fsum((score - mean) ** 2 for _, score in hits) / len(hits))
    return {passage: (score - mean) / deviation if deviation else 0.0 for passage, score in hits}


def _relative(hits: Hits) -> dict[Passage, float]:
    best = max((score for _, score in hits), default=0.0)
    return {passage: score / best if best > 0.0 else 0.0 for passage, score in hits}


_VALUES: Mapping[Joining, Callable[[Hits], dict[Passage, float]]] = {
    "zscore": z_scores,
    "relative": _relative,
    "rrf": _by_rank,
    "shards": dict,
}


def parts_of(spec: str, known: Collection[str]) -> tuple[Joining, list[tuple[str, float]]]:
    """Parse ``[FUSION:]RETRIEVER[*WEIGHT]+RETRIEVER[*WEIGHT]…``. A plus sign separates parts only if the name of a
    retriever follows, or if the name before it takes no path; a path may contain one.

    >>> parts_of("bm25+dense:my+model", ["bm25", "dense:"])
    ('zscore', [('bm25', 1.0), ('dense:my+model', 1.0)])
    >>> parts_of("bm25+dens:my-model", ["bm25", "dense:"])
    ('zscore', [('bm25', 1.0), ('dens:my-model', 1.0)])
    >>> parts_of("rrf:bm25*0.5+dense:openai:tiny@http://localhost/v1*2", ["bm25", "dense:"])
    ('rrf', [('bm25', 0.5), ('dense:openai:tiny@http://localhost/v1', 2.0)])
    """
    fusion: Joining = "zscore"
    for name in get_args(Joining):
        if spec.startswith(f"{name}:"):
            fusion, spec = name, spec.removeprefix(f"{name}:")
    names: list[str] = []
    for piece in spec.split("+"):
        head, colon, _ = piece.partition(":")
        starts = head + colon in known or head.partition("*")[0] in known
        if starts or not names or not re.search("[:?]", names[-1]):
            names.append(piece)
        else:
            names[-1] += f"+{piece}"
    found = [(name, _WEIGHT.fullmatch(name)) for name in names]
    return fusion, [(match["name"], float(match["weight"])) if match else (name, 1.0) for name, match in found]
