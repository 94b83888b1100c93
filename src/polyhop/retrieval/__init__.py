"""Retrievers and rerankers: what searches a corpus, and what orders what was found anew. Names are looked up here; new
ones register by decorator or entry point."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeAlias

from polyhop.errors import UsageError
from polyhop.named import AnyFactory, Named
from polyhop.retrieval.base import AskingRetriever, Reranker, Retriever
from polyhop.retrieval.index import Index, build_index, index_for, open_index

__all__ = [
    "AskingRetriever",
    "Index",
    "Reranker",
    "Retriever",
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

Factory: TypeAlias = "Callable[..., Retriever | AskingRetriever]"
"""What makes a retriever over an index; a class with ``__init__(index)`` is one."""

_retrievers: Named[Retriever | AskingRetriever] = Named("retriever", "polyhop.retrievers")
_rerankers: Named[Reranker] = Named("reranker", "polyhop.rerankers")


def register_retriever(name: str) -> Callable[[AnyFactory], AnyFactory]:
    """Decorate a class or function, called with an ``Index``, as the retriever ``name``; the latest of a name counts.

    A name that ends in a colon is a prefix: ``mine:`` opens ``mine:FILE``, called with the index and ``FILE``. A
    package does the same by an entry point ``name`` in the group ``polyhop.retrievers``.
    """
    return _retrievers.register(name)


def retrievers() -> list[str]:
    """The names that ``open_retriever`` knows."""
    return _retrievers.names()


def open_retriever(spec: str, index: Index) -> Retriever | AskingRetriever:
    """The retriever of a name over an index.

    Raises:
        UnknownName: no retriever is called so; the message lists those that are.
    """
    return _retrievers.open(spec, index)


def open_plain_retriever(spec: str, index: Index) -> Retriever:
    """``open_retriever``, where no language model is at hand: one that asks a model is a ``UsageError``."""
    opened = open_retriever(spec, index)
    if isinstance(opened, AskingRetriever):
        raise UsageError(
            f"the retriever {spec} asks a language model: use it to answer (run, ask), or search with bm25"
        )
    return opened


def register_reranker(name: str) -> Callable[[AnyFactory], AnyFactory]:
    """Decorate a class or function, called without arguments, as the reranker ``name``; the latest of a name counts.

    A name that ends in a colon is a prefix: ``mine:`` opens ``mine:FILE``, called with ``FILE``. A package does the
    same by an entry point ``name`` in the group ``polyhop.rerankers``.
    """
    return _rerankers.register(name)


def rerankers() -> list[str]:
    """The names that ``open_reranker`` knows."""
    return _rerankers.names()


def open_reranker(spec: str) -> Reranker:
    """The reranker of a name.

    Raises:
        UnknownName: no reranker is called so; the message lists those that are.
    """
    return _rerankers.open(spec)


@register_retriever("bm25")
def _bm25(index: Index) -> Retriever:
    from polyhop.retrieval.bm25 import BM25

    return BM25(index)


@register_retriever("tfidf")
def _tfidf(index: Index) -> Retriever:
    from polyhop.retrieval.tfidf import TfIdf

    return TfIdf(index)


@register_retriever("tfidf-bm25")
def _tfidf_bm25(index: Index) -> Retriever:
    from polyhop.retrieval.tfidf_bm25 import TfIdfBM25

    return TfIdfBM25(index)


@register_retriever("mdr:")
def _mdr(index: Index, folder: str) -> Retriever:
    from polyhop.retrieval.mdr import MDR

    return MDR(index, folder)


@register_retriever("dense:")
def _dense(index: Index, spec: str) -> Retriever:
    from polyhop.retrieval.dense import open_dense

    return open_dense(index, spec)


@register_retriever("hybrid:")
def _hybrid(index: Index, spec: str) -> Retriever:
    from polyhop.retrieval.hybrid import Hybrid, parts_of

    fusion, parts = parts_of(spec, retrievers())
    opened = [(open_plain_retriever(name, index), weight) for name, weight in parts]
    return Hybrid(index, opened, fusion=fusion)


def _above(name: str) -> Callable[..., Any]:
    """A factory of ``polyhop.ranking``, a floor higher: PromptRank is a method first. Loaded when it is used."""

    def make(*given: Any) -> Any:
        return getattr(importlib.import_module("polyhop.ranking"), name)(*given)

    return make


for _name in ("promptrank", "promptrank:"):
    register_retriever(_name)(_above("path_retriever"))
    register_reranker(_name)(_above("likelihood_reranker"))
