"""KnowTrace: the facts of the question, traced as triplets; each round names the relations that are still missing.

Li, Dai, Zhang, Chen, Dong, Wen: "KnowTrace: Bootstrapping Iterative Retrieval-Augmented Generation with Structured
Knowledge Tracing", 2025.

Followed: a round explores, then completes. Exploration sees the question and the triplets so far, never a passage; it
answers if they are enough, else it names pairs of an entity and a relation. Completion searches each pair by itself,
and takes the triplets about it from the passages found. The triplets are shown as triplets, the best of the paper's
three ways. Not followed: the self-training on supporting triplets, traced back from right answers.
Settled here: 5 passages per pair and at most 3 rounds, as in Tree of Reviews' comparison; ``max_pairs`` per round.
Exploration and completion are checked against descriptions of the paper; its prompts, its limits and the authors' code
could not be read. Completion is ``ge.extract``, with the pair as the question. A pair is looked up once; a round
without a new pair ends the tracing, as does the last round: then the triplets are asked for the answer. Without any
triplet, the question is answered by ``cot``. Needs nothing beyond completion.

Example: "In which town was the leader of the Kon-Tiki expedition born?" Nothing is known: look up (Kon-Tiki expedition;
led by). Its passages state (Kon-Tiki expedition; led by; Thor Heyerdahl): look up (Thor Heyerdahl; birth place). With
(Thor Heyerdahl; birth place; Larvik) the facts are enough: Larvik.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from polyhop.answer import Answer
from polyhop.common.text import distinct
from polyhop.methods.baselines.one_shot import chain_of_thought
from polyhop.methods.context import first_retrieved, fit_fields
from polyhop.methods.graph import Triplet, triplet_text
from polyhop.methods.registry import method
from polyhop.prompts.tasks import Task
from polyhop.prompts.tasks.ge import GE_EXTRACT
from polyhop.prompts.tasks.knowledge import KNOWTRACE_EXPLORE, TRIPLETS_ANSWER
from polyhop.prompts.triplets import key
from polyhop.types import Evidence, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run


@method(
    "knowtrace",
    family="iterative",
    calls=4,
    paper="KnowTrace (Li et al., 2025)",
    layers=lambda settings: 2 * int(settings["max_turns"]) + 1,
    needs=("retriever",),
)
async def knowledge_tracing(
    question: str,
    run: Run,
    *,
    k: Positive = 5,  # N; ToR §4.3
    max_turns: Positive = 3,  # L, the number of rounds; ToR §4.3
    max_pairs: Positive = 3,  # P, of a round
    shots: NonNegative = 3,  # ToR §4.4
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,  # ToR §4.2
) -> Answer:
    """Name the missing relations and complete them from passages, until the triplets suffice (Algorithm 1)."""
    options: Options = {"shots": shots}
    graph: dict[tuple[str, ...], Triplet] = {}  # G, the newest triplets first
    found: dict[str, list[Passage]] = {}  # by pair
    evidence: list[Evidence] = []
    answer: str | None = None

    async def ask(task: Task[Any], *, final: bool = False, **fields: Any) -> Any:
        fields = fit_fields(task, run, options=options, context_tokens=context_tokens, **fields)
        return await run.ask_once(task, options=options, final=final, **fields)

    async def complete(pair: str) -> list[Triplet]:
        """Search the pair, and take the triplets about it from the passages."""
        with run.branch("pair", pair) as branch:
            branch.verdict = "nothing found"
            found[pair] = hits = await run.search(pair.replace(";", ""), k)
            reply = await ask(GE_EXTRACT, passages=hits, sub_question=pair) if hits else None
            triplets = [triplet.model_dump() for triplet in reply.triplets] if reply else []
            if triplets:
                evidence.append(Evidence(tuple(hits), analysis=", ".join(map(triplet_text, triplets))))
                branch.verdict = "complete"
        return triplets

    with run.gathering():
        for _ in range(max_turns):
            step = await ask(KNOWTRACE_EXPLORE, question=question, triplets=[*graph.values()])
            answer = step.answer
            pairs = distinct(step.pairs, but=found)[:max_pairs]
            if answer or not pairs:
                break
            completed = await run.gather(*map(complete, pairs))
            graph = {key(triplet): triplet for triplets in completed for triplet in triplets} | graph

    statistics = {"pairs": len(found), "triplets": len(graph)}
    if not (answer or graph):
        return replace(await chain_of_thought(question, run, shots=shots), statistics=statistics)
    if not answer:
        answer = (await ask(TRIPLETS_ANSWER, final=True, question=question, triplets=[*graph.values()])).answer
    return Answer(
        answer,
        passages=first_retrieved(found.values(), rank_limit),
        evidence=tuple(evidence),
        statistics=statistics,
    )
