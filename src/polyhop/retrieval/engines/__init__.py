"""Search engines that people run themselves, as retrievers with their own corpus: Elasticsearch, OpenSearch, Qdrant and
PostgreSQL. Each is a ``Store``; ``Remote`` searches one and ``load`` fills one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from polyhop.common.progress import report_progress
from polyhop.common.text import counted
from polyhop.errors import RetrievalError, UnknownName, UsageError
from polyhop.retrieval.base import ScoringRetriever
from polyhop.retrieval.engines.base import (
    EngineAddress,
    Hits,
    Row,
    Store,
    address_of,
    readable,
)
from polyhop.retrieval.engines.manifest import Manifest, Unfit, short_key
from polyhop.retrieval.hybrid import Fusion, fused
from polyhop.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from polyhop.retrieval.encoders.base import Encoder
    from polyhop.retrieval.index import Index

Outcome: TypeAlias = Literal["loaded", "loaded to its end", "already loaded"]

ENGINES = ("elastic", "opensearch", "postgres", "qdrant")
DEPTH = 100
"""Hits of each ranking that are fused, or ``k`` if that is more."""

_BATCH, _BATCH_CHARACTERS = 500, 2_000_000


def open_engine(kind: str, rest: str) -> Remote:
    """Open the retriever ``KIND:REST``, for a corpus that was loaded there.

    Raises:
        UsageError: the name cannot be read, or nothing that fits was loaded there.
        RetrievalError: the server cannot be reached, or refuses.
    """
    from polyhop.retrieval.encoders import open_encoder

    address = address_of(kind, rest)
    if kind == "qdrant" and "://" not in address.server and not Path(address.server).exists():
        raise _nothing_loaded(address)  # its client would create the folder
    store = open_store(address)
    try:
        return Remote(store, open_encoder(address.dense) if address.dense else None, address.fusion)
    except BaseException:
        store.close()
        raise


def open_store(address: EngineAddress) -> Store:
    """Open the store at an address. This checks the server, not its content."""
    if address.kind == "qdrant":
        from polyhop.retrieval.engines.qdrant import QdrantStore

        return QdrantStore(address)
    if address.kind == "postgres":
        from polyhop.retrieval.engines.postgres import PostgresStore

        return PostgresStore(address)
    from polyhop.retrieval.engines.elastic import ElasticStore

    return ElasticStore(address)


def parse_address(spec: str) -> EngineAddress:
    """Parse an engine's whole name, such as ``qdrant:FOLDER``. Raises ``UnknownName`` for an unknown engine."""
    kind, colon, rest = spec.partition(":")
    if not colon or kind not in ENGINES:
        raise UnknownName("engine", spec if "@" in spec else kind + colon, [f"{name}:" for name in ENGINES])
    return address_of(kind, rest)


# --- searching --------------------------------------------------------------------------------------------------------


class Remote(ScoringRetriever):
    """A retriever over the corpus that was loaded into an engine. Safe across threads; ties are broken by passage id.

    It searches for terms without an encoder, for vectors with one, and for both with ``fusion``, which is done here.
    """

    def __init__(self, store: Store, encoder: Encoder | None = None, fusion: Fusion | None = None) -> None:
        self.name, self.encoder, self.fusion = store.address.name, encoder, fusion
        self._store = store
        shown = store.address.shown
        with readable(shown):
            manifest = store.find()
        if manifest is None:
            raise _nothing_loaded(store.address)
        if not manifest.complete:
            raise UsageError(f"the load of {manifest} into {shown} was stopped; repeat it, and it continues")
        if encoder is not None and (manifest.encoder_key, manifest.size) != (short_key(encoder), encoder.size):
            raise UsageError(
                f"{shown} has {manifest.vectors}, not {counted(encoder.size, 'numbers')} by {encoder.name}; "
                "load it with these: polyhop index load … --dense … --overwrite"
            )
        self.fingerprint, self.analysis = manifest.fingerprint, manifest.analysis

    def _scored_many(self, queries: Sequence[str], k: int) -> list[Hits]:
        queries = [_sendable(query) for query in queries]
        asked = [query for query in dict.fromkeys(queries) if query]
        found = dict(zip(asked, self._found(asked, k), strict=True)) if asked else {}
        return [found.get(query, []) for query in queries]

    def _found(self, queries: Sequence[str], k: int) -> list[Hits]:
        if self.encoder is None:
            return [self._by_terms(query, k) for query in queries]
        vectors = self.encoder.queries(queries)
        if self.fusion is None:
            return [self._by_vector(vector, k) for vector in vectors]
        depth = max(k, DEPTH)
        return [
            fused([(self._by_terms(query, depth), 1), (self._by_vector(vector, depth), 1)], self.fusion)[:k]
            for query, vector in zip(queries, vectors, strict=True)
        ]

    def _by_terms(self, query: str, k: int) -> Hits:
        with readable(self._store.address.shown):
            return self._store.by_terms(query, k)

    def _by_vector(self, vector: NDArray[np.float32], k: int) -> Hits:
        with readable(self._store.address.shown):
            return self._store.by_vector(vector, k)

    async def aclose(self) -> None:
        """Close the connections."""
        self._store.close()

    def links(self, passage: Passage) -> list[Passage]:
        """Return the passages this one links to, as in the index that was loaded."""
        with readable(self._store.address.shown):
            ids = list(self._store.linked(passage.id))
            found = self._store.get(ids) if ids else {}
        return [found[id] for id in ids if id in found]


def _nothing_loaded(address: EngineAddress) -> UsageError:
    """Build the error for an address with nothing to search."""
    return UsageError(f"nothing is loaded at {address.shown}; first: polyhop index load CORPUS '{address.shown}'")


def _sendable(query: str) -> str:
    """Remove from a query what no engine accepts: NUL and unpaired surrogates.

    >>> _sendable(" Ada\\0Lovelace\\ud800 ")
    'Ada Lovelace?'
    """
    return query.encode(errors="replace").decode().replace("\0", " ").strip()


# --- loading ----------------------------------------------------------------------------------------------------------


def load(index: Index, store: Store, encoder: Encoder | None = None, *, overwrite: bool = False) -> Outcome:
    """Load all passages of an index, with the vectors of an encoder (computed once, in the folder of the index).

    Passages that are stored already are not sent again, so a stopped load is resumed. ``overwrite`` first removes an
    earlier load, and never anything that polyhop did not load.

    Raises:
        UsageError: something else is stored there, or the engine cannot store this.
        RetrievalError: the engine cannot be reached, refuses, or lost passages.
    """
    wanted, shown = Manifest.of(index, encoder), store.address.shown
    if wanted.size > store.max_vector_size:
        raise UsageError(
            f"{wanted.encoder} gives vectors of {wanted.size}; {shown} holds up to {store.max_vector_size}"
        )
    found = _find(store, overwrite)
    if found is None:
        store.create(replace(wanted, facts=store.facts(index)))
    elif not found.same(wanted):
        raise UsageError(f"{shown} holds {found}, not {wanted}; load it elsewhere, or --overwrite it")
    elif found.complete:
        return "already loaded"
    _fill(index, store, encoder, resumed=found is not None)
    count = store.finish()
    if count != wanted.passages:
        raise RetrievalError(
            f"{shown} holds {counted(count, 'passages')} after a load of {wanted.passages}; load again"
        )
    store.keep(replace(store.manifest, complete=True))
    return "loaded to its end" if found else "loaded"


def _find(store: Store, overwrite: bool) -> Manifest | None:
    """Find the manifest of an earlier load; with ``overwrite``, remove that load."""
    try:
        found = store.find()
    except Unfit:
        if not overwrite:
            raise
        store.drop()
        return None
    if found is not None and overwrite:
        store.drop()
        return None
    return found


def _fill(index: Index, store: Store, encoder: Encoder | None, *, resumed: bool) -> None:
    import numpy as np

    vectors = None
    if encoder is not None:
        from polyhop.retrieval.vectors import PassageEncoder, passage_vectors

        encode = encoder.passages
        vectors = passage_vectors(index, PassageEncoder(encoder.name, encoder.key, encoder.size, lambda: encode))
    done = 0
    with report_progress("passages loaded") as report:
        for batch in _batches(index):
            known = store.known([passage.id for passage in batch]) if resumed else ()
            rows = [
                Row(
                    passage,
                    [linked.id for linked in index.links(passage)],
                    None if vectors is None else np.array(vectors[index.passages.ordinal(passage.id)], np.float32),
                )
                for passage in batch
                if passage.id not in known
            ]
            if rows:
                store.add(rows)
            done += len(batch)
            report(done, len(index))


def _batches(index: Index) -> Iterator[list[Passage]]:
    """Yield the passages in order, in batches of limited size."""
    batch: list[Passage] = []
    characters = 0
    for passage in index.passages:
        batch.append(passage)
        characters += len(passage.text)
        if len(batch) == _BATCH or characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
