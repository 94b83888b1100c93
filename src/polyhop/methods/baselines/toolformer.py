"""Toolformer in context: the model writes a text with calls of a search; each result is inserted before it goes on.

Schick, Dwivedi-Yu, Dessì, Raileanu, Lomeli, Zettlemoyer, Cancedda, Scialom: "Toolformer: Language Models Can Teach
Themselves to Use Tools", 2023; by in-context learning, as SearChain §4.1.2 has it among its baselines.

Followed: a call is written in the text, at the point that needs a fact; the writing stops there, the result is inserted
after the arrow, and the writing continues (§2). Not followed: the paper fine-tunes a model on calls that made its text
more probable; here nothing is trained, and demonstrations show how to call. The only tool is the search.
Settled here: a call returns the run's top 5 passages whole (the paper: a snippet). There are at most 3 calls, as in
every method of the comparison (the paper allows one per text: ``max_turns=1``), after which the text is finished
without one. A repeated query, or a reply that cannot be read, also ends the calling. Needs nothing beyond completion.

Example: "In which town was the leader of the Kon-Tiki expedition born?" The Kon-Tiki expedition was led by
[Search("Who led the Kon-Tiki expedition?") → …] Thor Heyerdahl. He was born in [Search("In which town was Thor
Heyerdahl born?") → …] Larvik. The answer is Larvik.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.methods.context import answer_from_passages, cut_oldest, first_retrieved
from polyhop.methods.registry import method
from polyhop.prompts.tasks.acting import TOOLFORMER_FINISH, TOOLFORMER_WRITE
from polyhop.types import NonNegative, Positive, T, TypedTask

if TYPE_CHECKING:
    from polyhop.engine.run import Run


@method(
    "toolformer",
    family="iterative",
    calls=2,
    paper="Schick et al., 2023",
    layers=lambda settings: int(settings["max_turns"]) + 1,
    needs=("retriever",),
)
async def toolformer(
    question: str,
    run: Run,
    *,
    k: Positive = 5,  # ToR §4.3
    max_turns: Positive = 3,  # ToR §4.3
    shots: NonNegative = 3,  # ToR §4.4
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,  # ToR §4.2
) -> Answer:
    """Write a text that calls the search when it needs a fact, until the answer (§2)."""
    written: list[dict[str, Any]] = []

    async def write(task: TypedTask[T], *, final: bool = False) -> T:
        """Continue the text, with as many inserted passages as ``context_tokens`` allows, the newest first."""

        def fits(pieces: list[Mapping[str, Any]]) -> bool:
            return (
                run.prompt_tokens(task, options={"shots": shots}, question=question, written=pieces) <= context_tokens
            )

        pieces = cut_oldest(written, fits, run)
        return await run.ask(task, options={"shots": shots}, final=final, question=question, written=pieces)

    answer: str | None = None
    with run.gathering():
        while len(written) < max_turns:
            piece = await write(TOOLFORMER_WRITE)
            answer = piece.answer
            called = {normalise(earlier["query"]) for earlier in written}
            if not piece.query or normalise(piece.query) in called:
                break
            with run.branch("call", piece.query) as call:
                hits = await run.search(piece.query, k)
                call.verdict = "inserted" if hits else "nothing found"
            written.append({"text": piece.text, "query": piece.query, "passages": hits})

    if not answer:
        response = await write(TOOLFORMER_FINISH, final=True)
        answer = response.answer
    passages = first_retrieved((piece["passages"] for piece in written), rank_limit)
    return answer_from_passages(
        passages,
        answer,
        statistics={"searches": len(written)},
    )
