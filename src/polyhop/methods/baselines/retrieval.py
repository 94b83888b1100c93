"""Retrieval alone: the question is searched once, its passages are ranked, and nothing is answered.

- ``bm25``: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009.
- ``tfidf``, ``tfidf-bm25``: the baselines without training of PromptRank (Khalifa et al., "Few-shot Reranking for
  Multi-hop QA via Language Model Prompting", 2023), Table 1: TF-IDF; its hits and the pages they link to, by BM25.

Each is its retriever of the same name, which holds what the paper leaves open; here it becomes a row of a table. No
language model is asked, unless ``rerank`` does. 20 passages are ranked: Table 1 goes to R@20 and AR@20.

Example: "Where was the director of Alien born?" finds the film's page; ``tfidf-bm25`` follows its link to "Ridley
Scott", whom "director" and "born" then rank second.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from polyhop.answer import Answer
from polyhop.methods.registry import method
from polyhop.types import Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.run import Run

PROMPTRANK = "PromptRank (Khalifa et al., 2023), Table 1"


def ranking(name: str, paper: str) -> Callable[[Callable[..., Awaitable[Answer]]], Callable[..., Awaitable[Answer]]]:
    """Register a function as the method that ranks by the retriever of its name, and gives no answer."""
    return method(
        name,
        family="retrieval only",
        calls=0,
        paper=paper,
        layers=lambda _: 0,
        needs=("retriever",),
        retriever=name,
        answers=lambda settings: False,
    )


@ranking("bm25", "Robertson and Zaragoza, 2009")
async def bm25(question: str, run: Run, *, rank_limit: Positive = 20) -> Answer:
    """Rank passages by BM25, without an answer."""
    return await _ranked(question, run, rank_limit)


@ranking("tfidf", PROMPTRANK)
async def tfidf(question: str, run: Run, *, rank_limit: Positive = 20) -> Answer:
    """Rank passages by TF-IDF cosine, without an answer."""
    return await _ranked(question, run, rank_limit)


@ranking("tfidf-bm25", PROMPTRANK)
async def tfidf_bm25(question: str, run: Run, *, rank_limit: Positive = 20) -> Answer:
    """Rank TF-IDF's hits and the passages they link to by BM25, without an answer."""
    return await _ranked(question, run, rank_limit)


async def _ranked(question: str, run: Run, rank_limit: int) -> Answer:
    passages: list[Passage] = []
    with run.gathering():
        passages = await run.search(question, rank_limit)
    return Answer("", passages=tuple(passages))
