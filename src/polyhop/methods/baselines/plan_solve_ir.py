"""Plan-and-Solve with retrieval: a plan, a search for each of its steps, then the solution, in one round.

Wang, Xu, Lan, Hu, Lan, Lee, Lim: "Plan-and-Solve Prompting: Improving Zero-Shot Chain-of-Thought Reasoning by Large
Language Models", 2023; with retrieval as in SearChain §4.1.2, whose Table 5 counts one round of it.

Followed: understand the question and devise a plan, then carry it out step by step (§2.1). Settled here: plan and
solution are two calls; between them all searches run at once. The steps are written as questions, which are the
queries. The first 3 steps are searched, with 5 passages each, as many as methods of several turns read. The solution
sees the plan and the passages in its order, as many as ``context_tokens`` allows. If the plan cannot be read, or the
budget does not allow it, the question is the plan. If nothing is found, the question is answered by ``cot``. Needs
nothing beyond completion.

Example: "In which town was the leader of the Kon-Tiki expedition born?" The plan: who led the Kon-Tiki expedition? In
which town was the explorer who led the Kon-Tiki expedition born? Both are searched; the solution names Thor Heyerdahl,
then Larvik.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from polyhop.answer import Answer
from polyhop.common.text import distinct
from polyhop.methods.baselines.one_shot import chain_of_thought
from polyhop.methods.context import answer_from_passages, first_retrieved, fit_to_context
from polyhop.methods.registry import method
from polyhop.prompts.tasks.decomposition import PLAN_SOLVE_IR_PLAN, PLAN_SOLVE_IR_SOLVE
from polyhop.types import NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run


@method(
    "plan-solve-ir",
    family="iterative",
    calls=2,
    paper="Wang et al., 2023",
    layers=lambda settings: 2,
    needs=("retriever",),
)
async def plan_search_solve(
    question: str,
    run: Run,
    *,
    k: Positive = 5,  # ToR §4.3
    max_searches: Positive = 3,  # maximum number, that of the turns in ToR §4.3
    shots: NonNegative = 3,  # ToR §4.4
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,  # ToR §4.2
) -> Answer:
    """Plan everything, search for every step of the plan, then carry it out in one reply (§2.1)."""
    options: Options = {"shots": shots}
    plan = [question]
    found: dict[str, list[Passage]] = {}

    async def search(step: str) -> None:
        found[step] = await run.search(step, k)

    with run.gathering():
        planned = await run.ask(PLAN_SOLVE_IR_PLAN, options=options, question=question)
        plan = distinct(planned.sub_questions) or plan
    with run.gathering():
        await run.gather(*map(search, plan[:max_searches]))

    hits = [found[step] for step in plan if step in found]
    statistics = {"plan": len(plan), "searches": len(hits)}
    if not any(hits):
        return replace(await chain_of_thought(question, run, shots=shots), statistics=statistics)
    fields = fit_to_context(
        PLAN_SOLVE_IR_SOLVE,
        first_retrieved(hits, k * max_searches),
        run,
        options=options,
        context_tokens=context_tokens,
        question=question,
        plan=plan,
    )
    response = await run.ask(PLAN_SOLVE_IR_SOLVE, options=options, final=True, **fields)
    return answer_from_passages(first_retrieved(hits, rank_limit), response.answer, statistics=statistics)
