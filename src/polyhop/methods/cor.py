"""Chain of Reviews: the prompts of Tree of Reviews along a single path, the paper's baseline.

Li et al., "Tree of Reviews", 2024, §4.4 "CoR" and Table 13. No public code.

Followed: one path; each round the review sees all passages retrieved so far. Settled here: top 5 per query and at most
3 searches (§4.3). An irrelevant but unfinished chain continues with its query. The answer is one fusion over all
passages and, if the chain was accepted, its brief analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polyhop.answer import Answer
from polyhop.methods.registry import method
from polyhop.methods.tor import Fusion, fuse
from polyhop.prompts.tasks.answers import ANSWER_COT
from polyhop.prompts.tasks.tor import COR_REVIEW
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
    """Search, review all passages so far, search again with the review's query, until they are enough (§4.4)."""
    passages: list[Passage] = []
    analysis: str | None = None
    accepted = False
    turns = 0

    with run.gathering():
        query = question
        while not accepted and turns < max_turns:
            turns += 1
            with run.branch("turn", query) as turn:
                found = await run.search(query, k)
                passages += [passage for passage in found if passage not in passages]
                review = await run.ask(
                    COR_REVIEW,
                    options={"shots": shots},
                    question=question,
                    passages=list(passages),
                    thoughts=thoughts,
                )
                accepted = review.supported and bool(passages)  # without passages nothing is supported
                analysis, query = review.answer, review.query or question
                turn.verdict = "accept" if accepted else "search"

    evidence = Evidence(tuple(passages), analysis if accepted else None)
    if passages:
        response = await fuse(question, [evidence], run, mode=fusion, context_tokens=context_tokens, shots=shots)
    else:
        response = await run.ask(ANSWER_COT, options={"shots": shots}, final=True, question=question)
    return Answer(
        response.answer,
        passages=tuple(passages[:rank_limit]),
        evidence=(evidence,) if accepted else (),
        supported=accepted,
        statistics={"rounds": turns},
    )
