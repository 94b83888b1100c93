"""The triplets of an index: those that a model extracted from its passages, and a search among them.

``triplets:FILE`` finds passages by their triplets: a passage is as near to a query as the nearest of its triplets. This
is the retrieval of T²RAG (Gong et al., "Beyond Chunks and Graphs: Retrieval-Augmented Generation through
Triplet-Driven Thinking", 2025), which needs no graph. ``hipporag:FILE`` walks over the same triplets (``hipporag.py``).

The file is ``polyhop index triplets``' or HippoRAG's (``data/openie.py``). A triplet is encoded as a text of its three
parts, on first use; passages that the file lacks have no triplets.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from polyhop.common.registry import check_options, path_and_options, with_options
from polyhop.common.text import counted, words
from polyhop.data.openie import PARTS, content_of, key_of, read_openie
from polyhop.errors import DataError, SettingError
from polyhop.prompts.triplets import key
from polyhop.retrieval.base import OverIndex
from polyhop.retrieval.encoders import open_encoder
from polyhop.retrieval.exact import products
from polyhop.retrieval.vectors import text_vectors
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.retrieval.encoders.base import Encoder
    from polyhop.retrieval.index import Index

Fact = Mapping[str, str]
"""A triplet: ``head``, ``relation`` and ``tail``."""

METADATA = "triplets"
"""The metadata of a passage that was found by its triplets: those that are nearest to the query, nearest first."""

_log = logging.getLogger("polyhop.retrieval")


@dataclass(frozen=True, slots=True)
class TripletTable:
    """The distinct triplets of an index, and the phrases that are their heads and tails.

    Attributes:
        facts: the triplets, in the wording of the first passage that states each.
        ends: the phrases of each fact's head and tail, (facts, 2).
        phrases: the distinct phrases, in lower case and without punctuation.
        stated: the passages and the facts that they state, (statements, 2), rising; each pair as often as it is stated.
    """

    facts: Sequence[Fact]
    ends: NDArray[np.int64]
    phrases: Sequence[str]
    stated: NDArray[np.int64]

    @classmethod
    def of(cls, index: Index, path: str) -> TripletTable:
        """Take the triplets of a file for the passages of an index.

        Raises:
            DataError: the file cannot be read, or has none of the passages.
        """
        extracted = read_openie(path)
        facts: dict[tuple[str, ...], tuple[int, Fact]] = {}
        stated: list[tuple[int, int]] = []
        lacking = 0
        for ordinal, passage in enumerate(index.passages.all_rows()):
            found = extracted.get(key_of(content_of(passage))) if index.passages.is_live(ordinal) else None
            lacking += found is None and index.passages.is_live(ordinal)
            for triplet in found.triplets if found else ():
                if all(map(phrase, (triplet["head"], triplet["tail"]))):
                    number, _ = facts.setdefault(key(triplet), (len(facts), triplet))
                    stated.append((ordinal, number))
        if lacking == len(index):
            raise DataError(f"has none of the passages of {index.name}: it was made from another corpus", path)
        if lacking:
            _log.warning("%s lacks %s of %s", path, counted(lacking, "passages"), index.name)
        kept = [fact for _, fact in facts.values()]
        numbers: dict[str, int] = {}
        ends = [[numbers.setdefault(phrase(fact[end]), len(numbers)) for end in ("head", "tail")] for fact in kept]
        pairs = (np.array(rows, np.int64).reshape(-1, 2) for rows in (ends, stated))
        return cls(kept, next(pairs), list(numbers), next(pairs))

    @property
    def texts(self) -> list[str]:
        """The facts as texts to encode."""
        return [" ".join(fact[part] for part in PARTS) for fact in self.facts]


def phrase(text: str) -> str:
    """Return the phrase of a head or tail: its words in lower case.

    >>> phrase("Kon-Tiki (2012 film)")
    'kon tiki 2012 film'
    """
    return " ".join(words(text))


class TripletRetriever(OverIndex):
    """Retrieval by triplets, without a language model. As safe across threads as the encoder; ties are broken by
    passage id. Each passage comes with its nearest triplets, in its metadata."""

    def __init__(self, index: Index, table: TripletTable, encoder: Encoder, *, name: str = "triplets") -> None:
        self.name, self.encoder, self._index, self._table = name, encoder, index, table
        self._vectors = text_vectors(index, table.texts, encoder)
        order = np.argsort(table.stated[:, 1], kind="stable")
        self._passages = table.stated[order, 0]
        self._starts = np.searchsorted(table.stated[order, 1], np.arange(len(table.facts) + 1))

    def _scored_many(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float]]]:
        asked = [query for query in queries if query.strip()]
        encoded = iter(self.encoder.queries(asked) if asked else ())
        return [self._found(next(encoded), k) if query.strip() else [] for query in queries]

    def _found(self, query: NDArray[np.float32], k: int) -> list[tuple[Passage, float]]:
        """Go through the facts, nearest first, until ``k`` passages are found and no other one ties with the last."""
        scores = products(self._vectors, query)
        best: dict[int, tuple[float, list[Fact]]] = {}
        cut: float | None = None
        for fact in np.argsort(-scores, kind="stable").tolist():
            score = float(scores[fact])
            if cut is not None and score < cut:
                break
            for row in dict.fromkeys(self._passages[self._starts[fact] : self._starts[fact + 1]].tolist()):
                best.setdefault(row, (score, []))[1].append(self._table.facts[fact])
            if cut is None and len(best) >= k:
                cut = score
        found = [(with_triplets(self._index.passages.get(row), facts), score) for row, (score, facts) in best.items()]
        return sorted(found, key=lambda hit: (-hit[1], hit[0].id))[:k]


def with_triplets(passage: Passage, facts: Sequence[Fact]) -> Passage:
    """Return a passage with its triplets in its metadata, which methods read (``triplets_of``)."""
    return replace(passage, metadata={**passage.metadata, METADATA: [[fact[part] for part in PARTS] for fact in facts]})


def open_with_triplets(
    prefix: str, index: Index, spec: str, known: Sequence[str] = ()
) -> tuple[str, TripletTable, Encoder, dict[str, object]]:
    """Read ``FILE?encoder=NAME&…``, by default with the encoder ``pocket``; write an ``&`` in its name as ``%26``.

    Returns:
        The retriever's name, the triplets, the encoder and the other options, which must be ``known``.

    Raises:
        UsageError: no file is named, or an option is unknown.
        DataError: the file cannot be read.
    """
    path, given = path_and_options(prefix, spec, "encoder=intfloat/e5-base-v2")
    if not path:
        raise SettingError(
            f"{prefix}: needs a file of triplets, as in {prefix}:triplets.json: see polyhop index triplets"
        )
    check_options(prefix, given, ("encoder", *known))
    name = with_options(f"{prefix}:{path}", given)
    encoder = open_encoder(unquote(str(given.pop("encoder", "pocket"))))
    return name, TripletTable.of(index, path), encoder, given


def open_triplets(index: Index, spec: str) -> TripletRetriever:
    """Open ``triplets:FILE?encoder=NAME``."""
    name, table, encoder, _ = open_with_triplets("triplets", index, spec)
    return TripletRetriever(index, table, encoder, name=name)
