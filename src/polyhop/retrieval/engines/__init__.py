"""Search engines people run themselves, as retrievers that bring their own corpus: Elasticsearch, OpenSearch, Qdrant,
PostgreSQL. Each is a ``Store``; ``Remote`` searches one and ``load`` fills one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from polyhop.errors import UnknownName
from polyhop.retrieval.engines.place import Place, place_of

if TYPE_CHECKING:
    from polyhop.retrieval.engines.base import Remote, Store

ENGINES = ("elastic", "opensearch", "postgres", "qdrant")


def open_engine(kind: str, rest: str) -> Remote:
    """The retriever ``KIND:REST``, for a corpus that was loaded there.

    Raises:
        UsageError: the name cannot be read, nothing was loaded there, or something that does not fit.
        RetrievalError: the server cannot be reached, or refuses.
    """
    from polyhop.retrieval.encoders import open_encoder
    from polyhop.retrieval.engines.base import Remote, nothing_loaded

    place = place_of(kind, rest)
    if kind == "qdrant" and "://" not in place.server and not Path(place.server).exists():
        raise nothing_loaded(place)  # its client would make the folder
    store = open_store(place)
    try:
        return Remote(store, open_encoder(place.dense) if place.dense else None, place.fusion)
    except BaseException:
        store.close()
        raise


def open_store(place: Place) -> Store:
    """The store at a place; the server is asked what it is, not what it holds."""
    if place.kind == "qdrant":
        from polyhop.retrieval.engines.qdrant import QdrantStore

        return QdrantStore(place)
    if place.kind == "postgres":
        from polyhop.retrieval.engines.postgres import PostgresStore

        return PostgresStore(place)
    from polyhop.retrieval.engines.elastic import ElasticStore

    return ElasticStore(place)


def engine_place(spec: str) -> Place:
    """The place of an engine's whole name, such as ``qdrant:FOLDER``; ``UnknownName`` for any other."""
    kind, colon, rest = spec.partition(":")
    if not colon or kind not in ENGINES:
        raise UnknownName("engine", spec if "@" in spec else kind + colon, [f"{name}:" for name in ENGINES])
    return place_of(kind, rest)
