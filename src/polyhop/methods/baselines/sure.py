"""SuRe: several candidate answers, a summary of the passages for each; the candidate with the best summary wins.

Kim, Nam, Mo, Park, Lee, Seo, Ha, Shin: "SuRe: Summarizing Retrievals using Answer Candidates for Open-domain QA of
LLMs", 2024. Code: github.com/bbuing9/ICLR24_SuRe.

Followed (§3): one reply gives candidates from all passages. Each gets a summary conditioned on it, in sight of the
others; each summary is judged valid or not (1 or 0), and every two are compared, in both orders against position bias
(1, 0, or 0.5 for neither). The candidate with the highest sum wins, the first if several have it. All decoding is
greedy.
Settled here: 5 passages and 3 demonstrations, as in every baseline (the paper: ``k=10``, ``shots=0``). A single
candidate is the answer, without a comparison. An empty summary is invalid, without a call. If the budget ends before
the comparison, the first candidate is the answer. Without a candidate the passages are read as in ``one-r``. Needs
nothing beyond completion.

Example: "In which town was the leader of the Kon-Tiki expedition born?" Candidates Callao and Larvik. The summary for
Callao says from where the raft started, the one for Larvik who led the expedition and where he was born. Only the
second is valid, and it is preferred in both orders. Larvik wins by 2 to 0.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.methods.baselines.one_shot import answered_from
from polyhop.methods.context import fit_to_context
from polyhop.methods.registry import method
from polyhop.prompts.tasks import Task
from polyhop.prompts.tasks.summaries import SURE_CANDIDATES, SURE_RANK, SURE_SUMMARIZE, SURE_VALIDATE
from polyhop.types import Evidence, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.run import Run


@method(
    "sure",
    family="one retrieval",
    calls=5,
    paper="Kim et al., 2024",
    layers=lambda settings: 2 + bool(settings["validity"] or settings["ranking"]),
    needs=("retriever",),
)
async def summarized_retrieval(
    question: str,
    run: Run,
    *,
    k: Positive = 5,  # the paper: 10
    candidates: Annotated[int, Ge(2)] = 2,  # K, §3.2: each gets a summary
    validity: bool = True,  # §3.3, instance-wise: each is judged
    ranking: bool = True,  # §3.3, pair-wise: each pair is compared
    shots: NonNegative = 3,  # the paper: 0
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,
) -> Answer:
    """Summarize the passages for each of several candidate answers; take the best supported one (§3)."""
    options: Any = {"shots": shots}
    hits: list[Passage] = []
    found: list[str] = []
    summaries: list[str] = []
    scores: list[float] = []

    def shown(task: Task[Any], **fields: Any) -> dict[str, Any]:
        """Return the fields of a call with as many of the passages as its prompt can hold."""
        fields["question"] = question
        return fit_to_context(task, read, run, options=options, context_tokens=context_tokens, **fields)

    async def generate() -> list[str]:
        reply = await run.ask(SURE_CANDIDATES, options=options, **shown(SURE_CANDIDATES, count=candidates))
        distinct: dict[str, str] = {}
        for candidate in filter(None, reply.candidates):
            distinct.setdefault(normalise(candidate), candidate)
        return list(distinct.values())[:candidates]

    async def summarize(candidate: str) -> str:
        fields = shown(SURE_SUMMARIZE, candidates=found, candidate=candidate)
        return (await run.ask(SURE_SUMMARIZE, options=options, **fields)).summary

    async def valid(i: int) -> float:
        if not summaries[i]:
            return 0.0
        reply = await run.ask(
            SURE_VALIDATE, options=options, question=question, candidate=found[i], summary=summaries[i]
        )
        return float(reply.valid)

    async def preferred(first: int, second: int) -> float:
        """Ask which summary is better: 1 for the first, 0 for the second, 0.5 for neither."""
        shown = [summaries[first], summaries[second]]
        reply = await run.ask_once(SURE_RANK, options=options, question=question, summaries=shown)
        return {1: 1.0, 2: 0.0, None: 0.5}[reply.better]

    with run.gathering():
        hits = await run.search(question, max(k, rank_limit))
        read = hits[:k]
        found = await generate() if read else []  # §3.2
        if len(found) > 1:
            summaries = await run.gather(*map(summarize, found))
            indices = range(len(found)) if validity else ()
            pairs = list(permutations(range(len(found)), 2)) if ranking else []
            judged = await run.gather(*map(valid, indices), *(preferred(*pair) for pair in pairs))  # §3.3
            scores = [judged[i] if validity else 0.0 for i in range(len(found))]
            for (first, second), share in zip(pairs, judged[len(indices) :], strict=True):
                scores[first] += share / 2  # each pair is compared twice, in both orders
                scores[second] += (1 - share) / 2

    if not found:
        return await answered_from(
            question, run, hits, k=k, shots=shots, context_tokens=context_tokens, rank_limit=rank_limit
        )
    best = scores.index(max(scores)) if scores else 0
    run.note("candidates", candidates=found, summaries=summaries, scores=scores)
    most = validity + ranking * (len(found) - 1)
    return Answer(
        found[best],
        passages=tuple(hits[:rank_limit]),
        evidence=(Evidence(tuple(read), found[best]),),
        confidence=scores[best] / most if scores and most else None,
        statistics={"candidates": len(found)},
    )
