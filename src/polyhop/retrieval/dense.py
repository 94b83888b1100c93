"""Dense retrieval: the passages whose vectors have the largest inner product with the query's, found exactly.

Source: Karpukhin, Oğuz, Min, Lewis, Wu, Edunov, Chen and Yih, "Dense Passage Retrieval for Open-Domain Question
Answering", 2020, §3: two encoders and an inner product. Which prefixes, pooling and scaling a model wants is told in
``encoders.families``. The passages are encoded on first use and kept in 16 bits in the index's folder
(``vectors.py``); every product is made, in blocks (``exact.py``), which is meant for up to a few hundred thousand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from polyhop.errors import SettingError
from polyhop.retrieval.base import OverIndex
from polyhop.retrieval.encoders import open_encoder
from polyhop.retrieval.exact import nearest_passages
from polyhop.retrieval.vectors import PassageEncoder, passage_vectors
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.retrieval.encoders.base import Encoder
    from polyhop.retrieval.encoders.stored import Matrix
    from polyhop.retrieval.index import Index


class Dense(OverIndex):
    """Dense retrieval over an index. Safe across threads; ties are broken by passage id, also at the cut.

    ``vectors``: the passages', (passages, size), in the index's order, made elsewhere; None encodes them here, where
    they are not encoded yet, and goes on where it was stopped.
    """

    def __init__(
        self, index: Index, encoder: Encoder, *, vectors: Matrix | None = None, name: str | None = None
    ) -> None:
        self.name, self.encoder = name or encoder.name, encoder
        self._index = index
        if vectors is None:
            vectors = passage_vectors(
                index, PassageEncoder(encoder.name, encoder.key, encoder.size, lambda: encoder.passages)
            )
        self._vectors = vectors

    def _scored(self, query: str, k: int) -> list[tuple[Passage, float]]:
        """Each passage with its inner product."""
        return self._scored_many([query], k)[0]

    def _scored_many(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float]]]:
        asked = [query for query in queries if query.strip()]
        if not asked:
            return [[] for _ in queries]
        found = iter(nearest_passages(self._index, self._vectors, self.encoder.queries(asked), k))
        return [next(found) if query.strip() else [] for query in queries]


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
    vectors = read_vectors(file, len(index), encoder.size)
    return Dense(index, encoder, vectors=vectors, name=f"dense:vectors:{file}@{encoder.name.removeprefix('dense:')}")
