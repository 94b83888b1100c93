"""Chain of Reviews: the prompts of Tree of Reviews along a single path, the paper's baseline.

Li et al., "Tree of Reviews", 2024, §4.4 "CoR" and Table 13. No public code.

Followed: one path; each round the review sees all passages retrieved so far. Settled here: top 5 per query and at most
3 searches (§4.3). An irrelevant chain continues with its query. A query that was searched before ends the chain, and so
does a search that finds nothing new, because the same review would follow. The answer is one fusion over all passages
and, if the chain was accepted, its brief analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.methods.context import ask_about
from polyhop.methods.registry import method
from polyhop.methods.tor import Fusion, fuse
from polyhop.prompts.tasks.answers import ANSWER_COT
from polyhop.prompts.tasks.tor import COR_REVIEW, Review
from polyhop.types import Evidence, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.run import Run


@method(
    "cor",
    family="iterative",
    calls=3,
    paper="Tree of Reviews (Li et al., 2024), §4.4",
    layers=lambda settings: int(settings["max_turns"]) + 1,
    needs=("retriever",),
)
async def chain_of_reviews(
    question: str,
    run: Run,
    *,
    k: Positive = 5,  # §4.3
    max_turns: Positive = 3,  # §4.3
    thoughts: bool = True,  # Table 13: the review writes its reasoning
    fusion: Fusion = "evidence",  # the evidence in the prompt of the answer
    shots: NonNegative = 3,  # §4.4
    context_tokens: Positive = 4096,  # §4.4: of a whole prompt
    rank_limit: Positive = 15,  # §4.2
) -> Answer:
    """Search, review all passages so far, search again with the review's query, until they suffice (§4.4)."""
    passages: list[Passage] = []
    queries = [question]
    accepted: Review | None = None
    shared: dict[str, Any] = {"options": {"shots": shots}, "context_tokens": context_tokens, "question": question}

    with run.gathering():  # a spent budget ends the chain
        for query in queries:  # reviews add to them
            with run.branch("turn", query) as turn:
                turn.verdict = "stop"  # unless the review accepts or has a new query
                new = [passage for passage in await run.search(query, k) if passage not in passages]
                if not new:
                    break
                passages += new
                review = await ask_about(COR_REVIEW, passages, run, **shared, thoughts=thoughts)
                next_query = review.query or question
                if review.relevant and review.supported:
                    accepted, turn.verdict = review, "accept"
                elif len(queries) < max_turns and normalise(next_query) not in map(normalise, queries):
                    queries.append(next_query)
                    turn.verdict = "search"

    statistics = {"rounds": len(queries)}
    if not passages:
        closed_book = await run.ask(ANSWER_COT, options={"shots": shots}, final=True, question=question)
        return Answer(closed_book.answer, statistics=statistics)
    found = tuple(passages)
    chain = Evidence(found, accepted.answer, accepted.analysis) if accepted else Evidence(found)
    response, shown = await fuse(question, [chain], run, fusion=fusion, context_tokens=context_tokens, shots=shots)
    evidence = tuple(piece for piece in shown if piece.passages) if accepted else ()
    return Answer(
        response.answer,
        passages=found[:rank_limit],
        evidence=evidence,
        statistics=statistics,
    )
