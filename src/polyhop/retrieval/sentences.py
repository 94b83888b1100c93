"""Dense retrieval by sentences: a passage scores as its sentence that is nearest to the query.

Source: Dai and Callan, "Deeper Text Understanding for IR with Contextual Neural Language Modeling", 2019, §3 (MaxP): a
text scores as the best of its parts. A short question is nearer to the sentence that answers it than to a passage that
also says other things. Each sentence is encoded under the title of its passage. All of them are compared at every
query, by the cosine, and stored as ``token_vectors.py`` describes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from polyhop.common.sentences import sentences
from polyhop.errors import SettingError
from polyhop.retrieval.base import OverIndex
from polyhop.retrieval.encoders import open_encoder
from polyhop.retrieval.exact import passages_of
from polyhop.retrieval.token_vectors import Vectors, max_sims, token_vectors
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.retrieval.encoders.base import Encoder
    from polyhop.retrieval.index import Index


class NearestSentence(OverIndex):
    """Dense retrieval by sentences over an index. Safe across threads; ties are broken by passage id.

    Opening it encodes the passages that are not encoded yet, and resumes after a stop.
    """

    def __init__(self, index: Index, encoder: Encoder) -> None:
        self.name, self.encoder = f"sentences:{encoder.name.removeprefix('dense:')}", encoder
        self._index = index
        vectors = token_vectors(index, self.name, f"sentences {encoder.key}", encoder.size, self._encoded)
        removed = index.passages.removed
        rows = range(index.rows) if removed is None else np.flatnonzero(~removed).tolist()
        self._vectors = {row: vectors.of(row) for row in rows}

    def _encoded(self, passages: Sequence[Passage]) -> list[Vectors]:
        parts = [sentences_of(passage) for passage in passages]
        vectors = self.encoder.passages([sentence for part in parts for sentence in part])
        return [vectors[start:end] for start, end in pairwise(accumulate(map(len, parts), initial=0))]

    def _scored(self, query: str, k: int) -> list[tuple[Passage, float]]:
        if not (query.strip() and self._vectors):
            return []
        scores = max_sims(self.encoder.queries([query]), list(self._vectors.values()))
        least = np.sort(scores)[-k:][0]
        hits = [(float(score), row) for score, row in zip(scores, self._vectors, strict=True) if score >= least]
        return passages_of(self._index, hits, k)


def sentences_of(passage: Passage) -> list[Passage]:
    """The sentences of a passage, also those that a line ends, each under its title; the passage itself without one.

    >>> [each.text for each in sentences_of(Passage("1", "Fees", "A visit is 9.\\nA year\\nis 240. Dogs are free."))]
    ['A visit is 9.', 'A year', 'is 240.', 'Dogs are free.']
    """
    found = [replace(passage, text=sentence) for line in passage.text.splitlines() for sentence in sentences(line)]
    return found or [passage]


def open_sentences(index: Index, spec: str) -> NearestSentence:
    """Open ``ENCODER`` (``encoders.open_encoder``). Raises ``UsageError`` if it cannot be opened."""
    if not spec:
        raise SettingError("sentences: needs an encoder, as in sentences:pocket")
    return NearestSentence(index, open_encoder(spec))
