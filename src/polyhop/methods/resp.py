"""Retrieve, Summarize, Plan: two memories, one for the question and one for the path, decide when to stop.

Jiang, Sun, Liang, Zhang: "Retrieve, Summarize, Plan: Advancing Multi-hop Question Answering with an Iterative
Approach" (ReSP), 2024. No public code of the paper's own.

Followed: §3 and the prompts' structure of Appendix A; zero-shot, top 5, at most 3 iterations (§4.2).
Settled here where the paper is silent or inconsistent: the local half of the summarizer reads the retrieved passages
(§3.1) and not the memories (Appendix A; ``local_source=memory``). A sub-question without a response is remembered too.
"Distinct from previously retrieved sub-questions" is a list in the prompt and a check: a plan that repeats one is
requested once more, with the repeat named; a second repeat, or a plan that cannot be read, ends the search. After the
last iteration nothing is judged. If a search finds nothing, nothing is summarized or answered, and its sub-question is
remembered without a response. Empty memories are not judged; the next sub-question is planned at once. If the memories
are too long for the prompt, whole entries are left out: the oldest global evidence first, then the oldest of the local
pathway. The evidence of the answer is the passages behind those entries that the generator was shown.
Beyond the paper: ``judge_and_plan=merged`` and ``summarize_and_respond=merged`` make one call of two.

Example: "In which town was the director of The Golden Calf born?" The question is searched; the summary names the
director; not enough, so the reasoner asks "Where was Ann Lee born?"; that is searched, summarized for the question and
answered for itself; now it is enough, and the generator answers from both memories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.errors import UsageError
from polyhop.methods.context import cut_to_fit
from polyhop.methods.registry import method
from polyhop.prompts.tasks import Task
from polyhop.prompts.tasks.resp import (
    RESP_GENERATE,
    RESP_JUDGE,
    RESP_JUDGE_PLAN,
    RESP_PLAN,
    RESP_RESPOND,
    RESP_SUMMARIZE,
    RESP_SUMMARIZE_RESPOND,
    SubAnswer,
)
from polyhop.prompts.tasks.summaries import Summary
from polyhop.types import Evidence, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run

Calls: TypeAlias = Literal["separate", "merged"]
PLANS = 2
"""Maximum number of plans per sub-question; the second if the first repeats another sub-question."""


class Entry(NamedTuple):
    """An entry of a memory: the question searched, the text kept from its passages, and the passages that it was read
    from. The text is a summary or a response; None for a sub-question without a response."""

    query: str
    text: str | None
    passages: tuple[Passage, ...] = ()


@dataclass(slots=True)
class Memory:
    """The two memory queues (§3.1): summaries for the overarching question, and every sub-question with its response,
    if it has one."""

    global_evidence: list[Entry] = field(default_factory=list)
    local_pathway: list[Entry] = field(default_factory=list)

    @property
    def knows(self) -> bool:
        """True if it holds a summary or a response."""
        return bool(self.global_evidence) or any(entry.text for entry in self.local_pathway)

    def shown(self) -> dict[str, Any]:
        """Return it as prompts show it."""
        pairs = [{"sub_question": entry.query, "response": entry.text} for entry in self.local_pathway]
        return {"global_evidence": [entry.text for entry in self.global_evidence], "local_pathway": pairs}

    def without_oldest(self) -> Memory:
        """Leave out the oldest global evidence, or the oldest of the local pathway if there is none."""
        skip = bool(self.global_evidence)
        return Memory(self.global_evidence[1:], self.local_pathway[not skip :])

    def evidence(self, asked: Sequence[str]) -> tuple[Evidence, ...]:
        """Return the passages that its entries were read from, per question in the order searched."""
        entries = [*self.global_evidence, *self.local_pathway]
        read = (
            max((entry.passages for entry in entries if entry.query == query), key=len, default=()) for query in asked
        )
        return tuple(Evidence(passages) for passages in read if passages)


def _layers(settings: Mapping[str, Any]) -> int:
    """Count the calls in turn: each iteration summarizes, judges and plans; the last goes straight to the answer. The
    second plan of a sub-question is a corrective retry and not counted."""
    iterations: int = settings["max_iterations"]
    reasoning = 1 if settings["judge_and_plan"] == "merged" else 2
    waiting = iterations - 1 if settings["local_source"] == "memory" else 0  # the local half waits for the global one
    return iterations + reasoning * (iterations - 1) + waiting + 1


@method(
    "resp",
    family="system",
    calls=5,
    paper="Retrieve, Summarize, Plan (Jiang et al., 2024)",
    layers=_layers,
    needs=("retriever",),
)
async def retrieve_summarize_plan(
    question: str,
    run: Run,
    *,
    k: Positive = 5,  # §4.2
    max_iterations: Positive = 3,  # §4.2: maximum number of searches
    input_tokens: Positive = 12_000,  # §4.2: of a whole prompt
    output_tokens: Positive = 200,  # §4.2: of a reply
    shots: NonNegative = 0,  # Appendix A
    local_source: Literal["passages", "memory"] = "passages",  # the source of sub-answers: §3.1, or Appendix A
    judge_and_plan: Calls = "separate",  # ours: merged makes one call of the two
    summarize_and_respond: Calls = "separate",  # ours: merged makes one call of the two
) -> Answer:
    """Retrieve, summarize for the question, answer the sub-question, plan the next, until the memories suffice (§3)."""
    if summarize_and_respond == "merged" and local_source == "memory":
        raise UsageError("resp: summarize_and_respond=merged reads passages: it needs local_source=passages")
    memory = Memory()
    asked: list[str] = []
    retrieved: list[Passage] = []
    repeats = 0
    sufficient = False
    options: Options = {"shots": shots, "max_tokens": output_tokens}

    def fits(task: Task[Any], **fields: Any) -> bool:
        return run.prompt_tokens(task, options=options, **fields) <= input_tokens

    def recall(task: Task[Any], **fields: Any) -> Memory:
        """Return as much of the memories as the prompt can hold."""
        kept = memory
        while (kept.global_evidence or kept.local_pathway) and not fits(task, memory=kept.shown(), **fields):
            kept = kept.without_oldest()
        return kept

    def read(task: Task[Any], hits: Sequence[Passage], **fields: Any) -> list[Passage]:
        """Return as much of the passages as the prompt can hold."""
        return cut_to_fit(hits, lambda few: fits(task, passages=few, **fields), run)

    def note_summary(query: str, reply: Summary, passages: Sequence[Passage]) -> None:
        if normalise(reply.summary) not in {"", *(normalise(entry.text or "") for entry in memory.global_evidence)}:
            memory.global_evidence.append(Entry(query, reply.summary, tuple(passages)))

    def note_response(query: str, reply: SubAnswer | None, passages: Sequence[Passage]) -> None:
        response = (reply.response or None) if reply and reply.answered else None
        memory.local_pathway.append(Entry(query, response, tuple(passages) if response else ()))

    async def summarize(query: str, hits: list[Passage]) -> None:
        if kept := read(RESP_SUMMARIZE, hits, question=question):
            reply = await run.ask(RESP_SUMMARIZE, options=options, question=question, passages=kept)
            note_summary(query, reply, hits[: len(kept)])

    async def respond(query: str, hits: list[Passage]) -> None:
        kept: list[Passage] = []
        known: dict[str, Any] | None = None
        if local_source == "passages":
            kept = read(RESP_RESPOND, hits, sub_question=query, memory=None)
        elif hits and (recalled := recall(RESP_RESPOND, sub_question=query, passages=None)).knows:
            known = recalled.shown()
        reply = None
        if kept or known:
            fields: dict[str, Any] = {"sub_question": query, "passages": kept or None, "memory": known}
            reply = await run.ask(RESP_RESPOND, options=options, **fields)
        note_response(query, reply, hits[: len(kept)])

    async def summarize_respond(query: str, hits: list[Passage]) -> None:
        """Do both in one call (ours)."""
        fields: dict[str, Any] = {"question": question, "sub_question": query}
        reply = None
        if kept := read(RESP_SUMMARIZE_RESPOND, hits, **fields):
            reply = await run.ask(RESP_SUMMARIZE_RESPOND, options=options, passages=kept, **fields)
            note_summary(query, reply, hits[: len(kept)])
        note_response(query, reply, hits[: len(kept)])

    async def digest(query: str, hits: list[Passage]) -> None:
        if len(asked) == 1:  # §3.2: the first sub-question is the overarching question itself
            await summarize(query, hits)
        elif local_source == "memory":
            await summarize(query, hits)
            await respond(query, hits)
        elif summarize_and_respond == "merged":
            await summarize_respond(query, hits)
        else:
            await run.gather(summarize(query, hits), respond(query, hits))  # §3.1: both at once

    async def judge() -> tuple[bool, str | None]:
        """Decide if the memories are enough (§3.2). The second value is the plan that a merged call made (ours)."""
        merged: dict[str, Any] = {"asked": list(asked)} if judge_and_plan == "merged" else {}
        task: Task[Any] = RESP_JUDGE_PLAN if merged else RESP_JUDGE
        known = recall(task, question=question, **merged)
        if not known.knows:  # an empty memory is enough for nothing
            return False, None
        reply = await run.ask(task, options=options, question=question, memory=known.shown(), **merged)
        return reply.sufficient, reply.sub_question if merged else None

    async def plan(planned: str | None) -> str | None:
        """Plan the next sub-question, distinct from those asked (§3.2); None if the reasoner has none. ``planned``: the
        plan that came with the judgement."""
        nonlocal repeats
        rejected: str | None = None
        for _ in range(PLANS):
            if planned is None:
                fields: dict[str, Any] = {"question": question, "asked": list(asked), "rejected": rejected}
                known = recall(RESP_PLAN, **fields)
                planned = (await run.ask(RESP_PLAN, options=options, memory=known.shown(), **fields)).sub_question
            if normalise(planned) not in map(normalise, asked):
                return planned if normalise(planned) else None
            repeats += 1
            rejected, planned = planned, None
        return None

    with run.gathering():
        query: str | None = question
        while query is not None:
            asked.append(query)
            with run.branch("iteration", query) as iteration:
                hits = await run.search(query, k)
                retrieved += hits
                await digest(query, hits)
                run.note("memory", **memory.shown())
                if len(asked) == max_iterations:  # §4.2: straight to the answer
                    iteration.verdict = "limit"
                    break
                sufficient, planned = await judge()
                query = None if sufficient else await plan(planned)
                iteration.verdict = "sufficient" if sufficient else "plan" if query else "no plan"

    known = recall(RESP_GENERATE, question=question)
    response = await run.ask(RESP_GENERATE, options=options, final=True, question=question, memory=known.shown())
    evidence = known.evidence(asked)
    return Answer(
        response.answer,
        passages=tuple(dict.fromkeys(retrieved)),
        evidence=evidence,
        statistics={
            "iterations": len(asked),
            "repeats": repeats,
            "summaries": len(memory.global_evidence),
            "responses": sum(entry.text is not None for entry in memory.local_pathway),
        },
    )
