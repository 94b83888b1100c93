"""Self-ask: the model asks itself follow-up questions, one after another, until the answer follows from their answers.

Press, Zhang, Min, Schmidt, Smith, Lewis: "Measuring and Narrowing the Compositionality Gap in Language Models", 2022;
with retrieval as Tree of Reviews §4.3 sets it up for its comparison.

Followed: the form of follow-ups, intermediate answers and "So the final answer is". Closed-book (``open_book=false``)
the model writes all of it in one reply (§3). Open-book each follow-up is searched, then one call answers it and either
asks the next or finishes (ToR §4.3): it reads passages, where the paper's search engine returns answers. The passages
come before the question and its follow-ups, which distinguishes this method from ReAct.
Settled here: the newest passages come first, as many as ``context_tokens`` allows. After at most 3 searches, the answer
is requested. A repeated follow-up, or a reply that cannot be read, also ends the asking. Needs nothing beyond
completion.

Example: "In which town was the leader of the Kon-Tiki expedition born?" Follow up: Who led the Kon-Tiki expedition?
Its passages are found; intermediate answer: Thor Heyerdahl; follow up: Where was Thor Heyerdahl born? With the passages
of both: Larvik, and so the final answer is Larvik.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.methods.context import first_retrieved, fit_to_context
from polyhop.methods.registry import method
from polyhop.prompts.tasks.self_ask import SELF_ASK_CHAIN, SELF_ASK_TURN, FollowUp
from polyhop.types import Evidence, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run


@method(
    "self-ask",
    family="iterative",
    calls=2,
    paper="Press et al., 2022",
    layers=lambda settings: int(settings["max_turns"]) + 1 if settings["open_book"] else 1,
    needs=lambda settings: ("retriever",) if settings["open_book"] else (),
)
async def self_ask(
    question: str,
    run: Run,
    *,
    open_book: bool = True,  # false: one reply, without search
    k: Positive = 5,  # ToR §4.3
    max_turns: Positive = 3,  # ToR §4.3
    shots: NonNegative = 3,  # ToR §4.4
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,  # ToR §4.2
) -> Answer:
    """Ask follow-up questions, search and answer each, until the final answer follows (ToR §4.3)."""
    options: Options = {"shots": shots}
    if not open_book:
        chain = await run.ask(SELF_ASK_CHAIN, options=options, final=True, question=question)
        return Answer(chain.answer, statistics={"follow_ups": len(chain.steps)})

    history: list[dict[str, str | None]] = []
    found: list[list[Passage]] = []

    async def turn(*, conclude: bool) -> FollowUp:
        """Answer the last follow-up from the passages; return the next follow-up or the final answer."""
        fields = fit_to_context(
            SELF_ASK_TURN,
            first_retrieved(reversed(found), k * max_turns),
            run,
            options=options,
            context_tokens=context_tokens,
            question=question,
            history=[dict(pair) for pair in history],
            conclude=conclude,
        )
        step = await run.ask(SELF_ASK_TURN, options=options, final=conclude, **fields)
        if history and history[-1]["answer"] is None:
            history[-1]["answer"] = step.intermediate
        return step

    answer: str | None = None
    with run.gathering():
        while len(history) < max_turns:
            step = await turn(conclude=False)
            answer, query = step.answer, step.follow_up
            if answer or not query or normalise(query) in [normalise(pair["sub_question"] or "") for pair in history]:
                break
            history.append({"sub_question": query, "answer": None})
            with run.branch("follow up", query) as branch:
                found.append(await run.search(query, k))
                branch.verdict = "searched" if found[-1] else "nothing found"

    if not answer:
        answer = (await turn(conclude=True)).answer or ""
    evidence = tuple(
        Evidence(tuple(hits), pair["answer"])
        for pair, hits in zip(history, found, strict=False)  # if the budget ends, a follow-up may not be searched
        if hits and pair["answer"]
    )
    return Answer(
        answer,
        passages=first_retrieved(found, rank_limit),
        evidence=evidence,
        statistics={"follow_ups": len(history), "searches": len(found)},
    )
