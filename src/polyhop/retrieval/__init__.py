"""Retrievers search a corpus, rerankers reorder their hits. Both are opened by name here; new ones register by
decorator or entry point."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from polyhop.common.registry import AnyFactory, Registry
from polyhop.errors import UsageError
from polyhop.retrieval.base import (
    AnyRetriever,
    AskingRetriever,
    AwaitedRetriever,
    Reranker,
    Retriever,
    RetrieverObject,
    RunRetriever,
    as_retriever,
)
from polyhop.retrieval.index import Index, build_index, index_for, open_index
from polyhop.types import are_of_documents

__all__ = [
    "AnyRetriever",
    "AskingRetriever",
    "AwaitedRetriever",
    "Index",
    "Reranker",
    "Retriever",
    "RunRetriever",
    "as_retriever",
    "brings_corpus",
    "build_index",
    "index_for",
    "open_index",
    "open_plain_retriever",
    "open_reranker",
    "open_retriever",
    "register_reranker",
    "register_retriever",
    "rerankers",
    "retrievers",
]

OF_DOCUMENTS = "hybrid:relative:bm25+sentences:pocket"
"""The retriever that ``auto`` opens over passages of files."""
MAX_ENCODED = 1000
"""The most passages of files that ``auto`` encodes when it is first opened, which takes some ten seconds."""

_retrievers: Registry[RetrieverObject] = Registry("retriever", "polyhop.retrievers")
_rerankers: Registry[Reranker] = Registry("reranker", "polyhop.rerankers")
_bring_corpus: set[str] = set()


def register_retriever(name: str, *, brings_corpus: bool = False) -> Callable[[AnyFactory], AnyFactory]:
    """Decorate a class or function, called with an ``Index``, as the retriever ``name``, in place of any other.

    A name that ends in a colon is a prefix: ``mine:`` opens ``mine:FILE``, called with the index and ``FILE``. A
    retriever that ``brings_corpus``, such as a search engine, is called without an index. A package can register one
    over an index by an entry point ``name`` in the group ``polyhop.retrievers``.
    """
    (_bring_corpus.add if brings_corpus else _bring_corpus.discard)(name)
    return _retrievers.register(name)


def brings_corpus(spec: str) -> bool:
    """Return True if the retriever with this name searches its own passages; for a hybrid, if all its parts do."""
    name, colon, rest = spec.partition(":")
    if name + colon == "hybrid:":
        from polyhop.retrieval.hybrid import parts_of

        return all(brings_corpus(part) for part, _ in parts_of(rest, retrievers())[1])
    return name + colon in _bring_corpus


def retrievers() -> list[str]:
    """Return the names that ``open_retriever`` knows."""
    return _retrievers.names()


def open_retriever(spec: str, index: Index | None) -> RetrieverObject:
    """Open a retriever by name, over an index or over its own passages.

    Raises:
        UnknownName: no retriever has this name; the message lists those that exist.
        UsageError: it needs an index and none is given.
    """
    name, colon, _ = spec.partition(":")
    if name + colon in _bring_corpus:
        return _retrievers.open(spec)
    if index is None and not brings_corpus(spec):
        raise UsageError(f"the retriever {spec} searches a corpus: give one (corpus=, --corpus)")
    return _retrievers.open(spec, index)


def open_plain_retriever(spec: str, index: Index | None) -> Retriever:
    """Open a retriever that needs no language model. Raises ``UsageError`` for one that does."""
    opened = open_retriever(spec, index)
    if not isinstance(opened, Retriever):
        raise UsageError(
            f"the retriever {spec} asks a language model: use it to answer (run, ask), or search with bm25"
        )
    return opened


def register_reranker(name: str) -> Callable[[AnyFactory], AnyFactory]:
    """Decorate a class or function, called without arguments, as the reranker ``name``, in place of any other.

    A name that ends in a colon is a prefix: ``mine:`` opens ``mine:FILE``, called with ``FILE``. A package can register
    one by an entry point ``name`` in the group ``polyhop.rerankers``.
    """
    return _rerankers.register(name)


def rerankers() -> list[str]:
    """Return the names that ``open_reranker`` knows."""
    return _rerankers.names()


def open_reranker(spec: str) -> Reranker:
    """Open a reranker by name. Raises ``UnknownName``."""
    return _rerankers.open(spec)


@register_retriever("auto")
def _auto(index: Index) -> Retriever:
    """Open BM25; over English passages of files that are few enough to be encoded at once, BM25 fused with vectors of
    their sentences.

    A question often shares no word with the passage that answers it, and in a small folder no other passage says the
    same.
    """
    few = len(index) <= MAX_ENCODED and index.analysis.language == "english"
    return open_plain_retriever(OF_DOCUMENTS if few and are_of_documents(index.passages) else "bm25", index)


@register_retriever("bm25")
def _bm25(index: Index) -> Retriever:
    from polyhop.retrieval.bm25 import BM25

    return BM25(index)


@register_retriever("tfidf")
@register_retriever("tfidf:")
def _tfidf(index: Index, terms: str = "") -> Retriever:
    from polyhop.retrieval.tfidf import tfidf_over

    return tfidf_over(terms)(index)


@register_retriever("tfidf-bm25")
@register_retriever("tfidf-bm25:")
def _tfidf_bm25(index: Index, terms: str = "") -> Retriever:
    from polyhop.retrieval.tfidf import TfIdfBM25, tfidf_over

    return TfIdfBM25(index, tfidf=tfidf_over(terms))


@register_retriever("ppr")
@register_retriever("ppr:")
def _ppr(index: Index, spec: str = "") -> Retriever:
    from polyhop.retrieval.ppr import open_ppr

    return open_ppr(index, spec, open_plain_retriever)


@register_retriever("triplets:")
def _triplets(index: Index, spec: str) -> Retriever:
    from polyhop.retrieval.triplets import open_triplets

    return open_triplets(index, spec)


@register_retriever("hipporag:")
def _hipporag(index: Index, spec: str) -> AskingRetriever:
    from polyhop.retrieval.hipporag import open_hipporag

    return open_hipporag(index, spec)


@register_retriever("mdr:")
def _mdr(index: Index, folder: str) -> Retriever:
    from polyhop.retrieval.mdr import MDR

    return MDR(index, folder)


@register_retriever("dense:")
def _dense(index: Index, spec: str) -> Retriever:
    from polyhop.retrieval.dense import open_dense

    return open_dense(index, spec)


@register_retriever("sentences:")
def _sentences(index: Index, spec: str) -> Retriever:
    from polyhop.retrieval.sentences import open_sentences

    return open_sentences(index, spec)


@register_retriever("web:", brings_corpus=True)
def _web(rest: str) -> Retriever:
    from polyhop.retrieval.services.web import open_web

    return open_web(rest)


@register_retriever("colbert:")
def _colbert(index: Index, spec: str) -> Retriever:
    from polyhop.retrieval.colbert import open_colbert

    return open_colbert(index, spec, open_plain_retriever)


@register_reranker("colbert:")
def _colbert_reranker(spec: str) -> Reranker:
    from polyhop.retrieval.colbert import open_colbert_reranker

    return open_colbert_reranker(spec)


@register_reranker("cross-encoder:")
def _cross_encoder(spec: str) -> Reranker:
    from polyhop.retrieval.reranking.checkpoints import open_cross_encoder

    return open_cross_encoder(spec)


@register_reranker("lm")
@register_reranker("lm:")
def _lm(options: str = "") -> Reranker:
    from polyhop.retrieval.reranking.lm import open_lm_reranker

    return open_lm_reranker(options)


def _served_reranker(kind: str, rest: str) -> Reranker:
    from polyhop.retrieval.reranking.served import open_served_reranker

    return open_served_reranker(kind, rest)


def _served(scheme: str, rest: str) -> Retriever:
    from polyhop.retrieval.services.served import open_served

    return open_served(scheme, rest)


def _rag_server(name: str, rest: str) -> Retriever:
    from polyhop.retrieval.services.rag_servers import open_rag_server

    return open_rag_server(name, rest)


def _engine(kind: str, rest: str) -> Retriever:
    from polyhop.retrieval.engines import open_engine

    return open_engine(kind, rest)


for _scheme in ("http", "https"):
    register_retriever(f"{_scheme}:", brings_corpus=True)(partial(_served, _scheme))
for _name in ("lightrag", "ragflow"):
    register_retriever(f"{_name}:", brings_corpus=True)(partial(_rag_server, _name))
for _kind in ("cohere", "jina", "tei", "vllm"):
    register_reranker(f"{_kind}:")(partial(_served_reranker, _kind))
for _kind in ("elastic", "opensearch", "postgres", "qdrant"):
    register_retriever(f"{_kind}:", brings_corpus=True)(partial(_engine, _kind))


@register_retriever("hybrid:")
def _hybrid(index: Index | None, spec: str) -> Retriever:
    from polyhop.retrieval.hybrid import Hybrid, parts_of

    fusion, parts = parts_of(spec, retrievers())
    opened = [(open_plain_retriever(name, index), weight) for name, weight in parts]
    return Hybrid(index, opened, fusion=fusion)
