"""Plan-and-Solve prompting: one call that first writes a plan, then carries it out step by step.

Wang, Xu, Lan, Hu, Lan, Lee, Lim: "Plan-and-Solve Prompting: Improving Zero-Shot Chain-of-Thought Reasoning by Large
Language Models", 2023.

Followed: the prompt asks the model to understand the question, devise a plan and carry it out (§2.1). Settled here: the
answer is read from the last sentence of the solution, not requested in a second call (§2.2), as for every chain of
thought; demonstrations are shown, as in SearChain's Table 8 (the paper is zero-shot: ``shots=0``). Closed-book. Needs
nothing beyond completion.

Example: "In which town was the leader of the Kon-Tiki expedition born?" The plan: find who led the expedition, then
where that person was born. The solution names Thor Heyerdahl, then Larvik.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polyhop.answer import Answer
from polyhop.methods.registry import method
from polyhop.prompts.tasks.decomposition import PLAN_SOLVE_SOLVE
from polyhop.types import NonNegative

if TYPE_CHECKING:
    from polyhop.engine.run import Run


@method("plan-solve", family="closed book", calls=1, paper="Wang et al., 2023", layers=lambda settings: 1)
async def plan_and_solve(question: str, run: Run, *, shots: NonNegative = 3) -> Answer:
    """Devise a plan for the question and carry it out, all in one reply (§2)."""
    response = await run.ask(PLAN_SOLVE_SOLVE, options={"shots": shots}, final=True, question=question)
    return Answer(response.answer, statistics={"plan": len(response.plan)})
