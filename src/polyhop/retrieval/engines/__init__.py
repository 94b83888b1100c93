"""Search engines people run themselves, as retrievers that bring their own corpus: Elasticsearch, OpenSearch, Qdrant,
PostgreSQL. Each is a ``Store``; ``Remote`` searches one and ``load`` fills one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from polyhop.errors import UnknownName
from polyhop.retrieval.engines.address import EngineAddress, address_of

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

    address = address_of(kind, rest)
    if kind == "qdrant" and "://" not in address.server and not Path(address.server).exists():
        raise nothing_loaded(address)  # its client would make the folder
    store = open_store(address)
    try:
        return Remote(store, open_encoder(address.dense) if address.dense else None, address.fusion)
    except BaseException:
        store.close()
        raise


def open_store(address: EngineAddress) -> Store:
    """The store at an address; the server is asked what it is, not what it holds."""
    if address.kind == "qdrant":
        from polyhop.retrieval.engines.qdrant import QdrantStore

        return QdrantStore(address)
    if address.kind == "postgres":
        from polyhop.retrieval.engines.postgres import PostgresStore

        return PostgresStore(address)
    from polyhop.retrieval.engines.elastic import ElasticStore

    return ElasticStore(address)


def parse_address(spec: str) -> EngineAddress:
    """The address of an engine's whole name, such as ``qdrant:FOLDER``; ``UnknownName`` for any other."""
    kind, colon, rest = spec.partition(":")
    if not colon or kind not in ENGINES:
        raise UnknownName("engine", spec if "@" in spec else kind + colon, [f"{name}:" for name in ENGINES])
    return address_of(kind, rest)
