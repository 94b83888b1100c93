"""Answers in one call: closed-book, or from one retrieval.

- ``direct``: Brown et al., "Language Models are Few-Shot Learners", 2020.
- ``cot``: Wei et al., "Chain-of-Thought Prompting Elicits Reasoning in Large Language Models", 2022.
- ``one-r``: one-step retrieval, read directly or by chain of thought, as in Tree of Reviews §4.3 (OneR).

Settled here: ``one-r`` reads its first 5 passages and ranks 15, so that recall@15 compares like with like.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from polyhop.answer import Answer
from polyhop.common.text import sentences
from polyhop.methods.registry import method
from polyhop.prompts.tasks.answers import ANSWER_COT, ANSWER_DIRECT, ANSWER_READ, ANSWER_READ_COT
from polyhop.types import Evidence, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.run import Run


@method("direct", family="closed book", calls=1, paper="Brown et al., 2020", layers=lambda settings: 1)
async def direct(question: str, run: Run, *, shots: NonNegative = 3) -> Answer:
    """Answer from the model's own knowledge, without a word of reasoning."""
    response = await run.ask(ANSWER_DIRECT, options={"shots": shots}, final=True, question=question)
    return Answer(response.answer)


@method("cot", family="closed book", calls=1, paper="Wei et al., 2022", layers=lambda settings: 1)
async def chain_of_thought(question: str, run: Run, *, shots: NonNegative = 3) -> Answer:
    """Answer from the model's own knowledge, reasoning step by step first."""
    response = await run.ask(ANSWER_COT, options={"shots": shots}, final=True, question=question)
    return Answer(response.answer, statistics={"sentences": len(sentences(response.rationale or ""))})


@method(
    "one-r",
    family="one retrieval",
    calls=1,
    paper="Tree of Reviews (Li et al., 2024), §4.3",
    layers=lambda settings: 1,
    needs=("retriever",),
)
async def one_retrieval(
    question: str,
    run: Run,
    *,
    k: Positive = 5,
    style: Literal["direct", "cot"] = "direct",
    shots: NonNegative = 3,
    rank_limit: Positive = 15,
) -> Answer:
    """Search the question once, read the first ``k`` passages, answer."""
    passages: list[Passage] = []
    with run.gathering():
        passages = await run.search(question, max(k, rank_limit))
    return await answered_from(question, run, passages, k=k, style=style, shots=shots, rank_limit=rank_limit)


async def answered_from(
    question: str,
    run: Run,
    passages: Sequence[Passage],
    *,
    k: int,
    shots: int,
    rank_limit: int,
    style: Literal["direct", "cot"] = "direct",
) -> Answer:
    """The answer read from the first ``k`` passages found; closed-book where there are none."""
    read = tuple(passages[:k])
    if not read:
        return await chain_of_thought(question, run, shots=shots)
    task = ANSWER_READ if style == "direct" else ANSWER_READ_COT
    response = await run.ask(task, options={"shots": shots}, final=True, question=question, passages=list(read))
    return Answer(
        response.answer,
        passages=tuple(passages[:rank_limit]),
        evidence=(Evidence(read, response.answer),),
        supported=True,
    )
