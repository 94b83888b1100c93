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
pathway.

Example: "In which town was the director of The Golden Calf born?" The question is searched; the summary names the
director; not enough, so the reasoner asks "Where was Ann Lee born?"; that is searched, summarized for the question and
answered for itself; now it is enough, and the generator answers from both memories.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.methods.context import cut_to_fit
from polyhop.methods.registry import method
from polyhop.prompts.tasks import Task
from polyhop.prompts.tasks.resp import RESP_GENERATE, RESP_JUDGE, RESP_PLAN, RESP_RESPOND, RESP_SUMMARIZE
from polyhop.types import Evidence, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run

PLANS = 2
"""Maximum number of plans per sub-question; the second if the first repeats another sub-question."""


def _layers(settings: Mapping[str, Any]) -> int:
    """Count the calls in turn: each iteration summarizes, judges and plans; the last goes straight to the answer. The
    second plan of a sub-question is a corrective retry and not counted."""
    iterations: int = settings["max_iterations"]
    waiting = iterations - 1 if settings["local_source"] == "memory" else 0  # the local half waits for the global one
    return 3 * iterations - 1 + waiting


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
) -> Answer:
    """Retrieve, summarize for the question and the sub-question, plan the next, until the memories are enough (§3)."""
    global_evidence: list[str] = []  # §3.1: summaries for the overarching question
    local_pathway: list[dict[str, str | None]] = []  # §3.1: every sub-question with its response, if it has one
    asked: list[str] = []
    retrieved: list[Passage] = []
    sources: dict[str, Evidence] = {}  # by question searched: the passages that gave the memories something
    repeats = 0
    sufficient = False
    options: Options = {"shots": shots, "max_tokens": output_tokens}

    def fits(task: Task[Any], **fields: Any) -> bool:
        return run.prompt_tokens(task, options=options, **fields) <= input_tokens

    def shown(task: Task[Any], **fields: Any) -> dict[str, Any]:
        """Return the fields of a call with the memories, as much of them as the prompt can hold."""
        evidence, pathway = list(global_evidence), list(local_pathway)
        while True:
            fields["memory"] = {"global_evidence": list(evidence), "local_pathway": list(pathway)}
            if not (evidence or pathway) or fits(task, **fields):
                return fields
            del (evidence or pathway)[0]

    async def summarize(query: str, hits: list[Passage]) -> None:
        kept = cut_to_fit(hits, lambda few: fits(RESP_SUMMARIZE, question=question, passages=few), run)
        reply = await run.ask(RESP_SUMMARIZE, options=options, question=question, passages=kept)
        if normalise(reply.summary) not in {"", *map(normalise, global_evidence)}:
            global_evidence.append(reply.summary)
            sources[query] = Evidence(tuple(hits))

    async def respond(query: str, hits: list[Passage]) -> None:
        fields: dict[str, Any] = {"sub_question": query, "passages": None, "memory": None}
        if local_source == "memory":
            fields = shown(RESP_RESPOND, **fields)
        else:
            fields["passages"] = cut_to_fit(hits, lambda few: fits(RESP_RESPOND, **{**fields, "passages": few}), run)
        reply = await run.ask(RESP_RESPOND, options=options, **fields)
        response = (reply.response or None) if reply.answered else None
        local_pathway.append({"sub_question": query, "response": response})
        if response and local_source == "passages":
            sources[query] = Evidence(tuple(hits))

    async def digest(query: str, hits: list[Passage]) -> None:
        if not hits:  # nothing to summarize, nothing to answer from
            if len(asked) > 1:
                local_pathway.append({"sub_question": query, "response": None})
        elif len(asked) == 1:  # §3.2: the first sub-question is the overarching question itself
            await summarize(query, hits)
        elif local_source == "memory":
            await summarize(query, hits)
            await respond(query, hits)
        else:
            await run.gather(summarize(query, hits), respond(query, hits))  # §3.1: both at once

    async def judge() -> bool:
        if not (global_evidence or any(pair["response"] for pair in local_pathway)):
            return False  # an empty memory is enough for nothing
        judged = await run.ask(RESP_JUDGE, options=options, **shown(RESP_JUDGE, question=question))
        return judged.sufficient

    async def plan() -> str | None:
        """Plan the next sub-question, distinct from those asked (§3.2); None if the reasoner has none."""
        nonlocal repeats
        rejected: str | None = None
        for _ in range(PLANS):
            fields = shown(RESP_PLAN, question=question, asked=list(asked), rejected=rejected)
            planned = await run.ask(RESP_PLAN, options=options, **fields)
            if (wanted := normalise(planned.sub_question)) not in map(normalise, asked):
                return planned.sub_question if wanted else None
            repeats += 1
            rejected = planned.sub_question
        return None

    with run.gathering():
        query: str | None = question
        while query is not None:
            asked.append(query)
            with run.branch("iteration", query) as iteration:
                hits = await run.search(query, k)
                retrieved += hits
                await digest(query, hits)
                run.note("memory", global_evidence=list(global_evidence), local_pathway=list(local_pathway))
                if len(asked) == max_iterations:  # §4.2: straight to the answer
                    iteration.verdict = "limit"
                    break
                sufficient = await judge()
                query = None if sufficient else await plan()
                iteration.verdict = "sufficient" if sufficient else "plan" if query else "no plan"

    response = await run.ask(RESP_GENERATE, options=options, final=True, **shown(RESP_GENERATE, question=question))
    evidence = tuple(sources[query] for query in asked if query in sources)
    return Answer(
        response.answer,
        passages=tuple(dict.fromkeys(retrieved)),
        evidence=evidence,
        supported=sufficient and bool(evidence),
        statistics={
            "iterations": len(asked),
            "repeats": repeats,
            "summaries": len(global_evidence),
            "responses": sum(pair["response"] is not None for pair in local_pathway),
        },
    )
