"""Dense retrieval: the passages whose vectors have the largest inner product with the query's.

Source: Karpukhin, Oğuz, Min, Lewis, Wu, Edunov, Chen and Yih, "Dense Passage Retrieval for Open-Domain Question
Answering", 2020, §3: two encoders and an inner product. The prefixes, pooling and scaling of a model are defined in
``encoders.families``. The passages are encoded on first use and stored in 16 bits in the index's folder
(``vectors.py``). Up to a few hundred thousand are compared exactly, in blocks (``exact.py``); of more, compact codes in
memory select candidates (``approximate.py``). A score is the same product either way.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from polyhop.errors import SettingError
from polyhop.retrieval.approximate import AUTO, EXACT_UP_TO, dense_index
from polyhop.retrieval.base import OverIndex
from polyhop.retrieval.encoders import open_encoder
from polyhop.retrieval.exact import nearest, passages_of, products
from polyhop.retrieval.sharding import MapShards
from polyhop.retrieval.vectors import PassageEncoder, passage_vectors
from polyhop.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from polyhop.retrieval.encoders.base import Encoder
    from polyhop.retrieval.encoders.stored import Matrix
    from polyhop.retrieval.index import Index


class Dense(OverIndex):
    """Dense retrieval over an index. Safe across threads; ties are broken by passage id, also at the cut.

    Args:
        vectors: those of the passages, (passages, size), in the order of the index. None encodes the passages that are
            not encoded yet, and resumes after a stop.
        kind: the kind of the dense index, built if it does not exist (``approximate.dense_index``). The attribute
            ``how`` describes the one in use.
        map_shards: encodes shards of passages, here or on a cluster (``sharding.py``).
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
        self._vectors, key = vectors, (self.name, encoder.key)
        self._nearest, self.how = dense_index(index, vectors, key, kind, exact_up_to=exact_up_to)

    def _scored_many(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float]]]:
        asked = [query for query in queries if query.strip()]
        if not asked:
            return [[] for _ in queries]
        found = iter(self._nearest(self.encoder.queries(asked), k))
        return [passages_of(self._index, next(found), k) if query.strip() else [] for query in queries]

    def scores(self, query: str) -> NDArray[np.float32]:
        """Return the score of every passage, by ordinal; removed passages have one too."""
        return products(self._vectors, self.encoder.queries([query])[0])

    def search_among(self, query: str, ordinals: Collection[int], k: int) -> list[tuple[Passage, float]]:
        """Return the ``k`` best of the passages with these ordinals, each with its score, as ``search_scored`` does."""
        if not (query.strip() and ordinals):
            return []
        rows = sorted(ordinals)
        (hits,) = nearest(self._vectors[rows], self.encoder.queries([query]), k)
        return passages_of(self._index, [(score, rows[row]) for score, row in hits], k)


def open_dense(index: Index, spec: str) -> Dense:
    """Open ``ENCODER`` (``encoders.open_encoder``), or ``vectors:FILE@ENCODER``: a file with one vector per passage, in
    the order of the corpus, and the encoder that made them, for the queries.

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
