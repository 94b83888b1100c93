"""Dense retrieval: the passages whose vectors have the largest inner product with the query's.

Source: Karpukhin, Oğuz, Min, Lewis, Wu, Edunov, Chen and Yih, "Dense Passage Retrieval for Open-Domain Question
Answering", 2020, §3: two encoders and an inner product. The prefixes, pooling and scaling of a model are defined in
``encoders.families``. The passages are encoded on first use and kept in 16 bits in the index's folder
(``vectors.py``). Up to a few hundred thousand every product is made, in blocks (``exact.py``); of more, those with
what a short form of them in memory brings out (``approximate.py``). A score is the same product either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from polyhop.errors import SettingError
from polyhop.retrieval.approximate import AUTO, EXACT_UP_TO, dense_index
from polyhop.retrieval.base import OverIndex
from polyhop.retrieval.encoders import open_encoder
from polyhop.retrieval.exact import passages_of
from polyhop.retrieval.sharding import MapShards
from polyhop.retrieval.vectors import PassageEncoder, passage_vectors
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.retrieval.encoders.base import Encoder
    from polyhop.retrieval.encoders.stored import Matrix
    from polyhop.retrieval.index import Index


class Dense(OverIndex):
    """Dense retrieval over an index. Safe across threads; ties are broken by passage id, also at the cut.

    ``vectors``: the passages', (passages, size), in the index's order, made elsewhere; None encodes them here, where
    they are not encoded yet, and goes on where it was stopped. ``kind``: of the dense index over them, made where it is
    not there (``approximate.dense_index``); ``how`` tells in words what is used.
    ``map_shards``: how shards of passages are encoded, such as all over a cluster (``sharding.py``).
    """

    def __init__(
        self,
        index: Index,
        encoder: Encoder,
        *,
        vectors: Matrix | None = None,
        name: str | None = None,
        kind: str = AUTO,
        exact_up_to: int = EXACT_UP_TO,
        map_shards: MapShards = map,
    ) -> None:
        self.name, self.encoder = name or encoder.name, encoder
        self._index = index
        if vectors is None:
            vectors = passage_vectors(
                index, PassageEncoder(encoder.name, encoder.key, encoder.size, lambda: encoder.passages, map_shards)
            )
        key = (self.name, encoder.key)
        self._nearest, self.how = dense_index(index, vectors, key, kind, exact_up_to=exact_up_to)

    def _scored_many(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float]]]:
        asked = [query for query in queries if query.strip()]
        if not asked:
            return [[] for _ in queries]
        found = iter(self._nearest(self.encoder.queries(asked), k))
        return [passages_of(self._index, next(found), k) if query.strip() else [] for query in queries]


def open_dense(index: Index, spec: str) -> Dense:
    """``ENCODER`` (``encoders.open_encoder``), or ``vectors:FILE@ENCODER``: the passages' vectors from a file, a row
    for each in the corpus' order, and the encoder that made them, for the queries.

    Raises:
        UsageError: the encoder or the file cannot be opened, or they do not fit the index.
    """
    if not spec.startswith("vectors:"):
        return Dense(index, open_encoder(spec))
    from polyhop.retrieval.encoders.stored import read_vectors

    file, _, encoder_spec = spec.removeprefix("vectors:").partition("@")
    if not file or not encoder_spec:
        raise SettingError(
            f"dense:{spec}: needs a file and the encoder for queries, as in dense:vectors:e5.npy@intfloat/e5-base-v2"
        )
    encoder = open_encoder(encoder_spec)
    vectors = read_vectors(file, index.rows, encoder.size)
    return Dense(index, encoder, vectors=vectors, name=f"dense:vectors:{file}@{encoder.name.removeprefix('dense:')}")
