"""Demonstrate–Search–Predict, its multi-hop program: hops of query, search and summary, then a vote over answers.

Khattab, Santhanam, Li, Hall, Liang, Potts, Zaharia: "Demonstrate-Search-Predict: Composing retrieval and language
models for knowledge-intensive NLP", 2022.

Followed: SEARCH as the paper's multi-hop program: every hop first summarizes the passages of the hop before, then
writes a query from the question, the summaries and those passages. Several such replies are sampled at temperature 0.7,
the rankings of their queries are fused, and the first reply's summary counts. There are two hops, fewer if no reply has
a query ("N/A", §3.3). PREDICT: chains of thought from the summaries and the passages of the last hop, sampled at
temperature 0.7, and the majority's answer (self-consistency, §3.4). Queries and chains are 5 each, as in every vote
here (the paper: 10 and 20).
Not followed: DEMONSTRATE, which bootstraps demonstrations for every step from labelled training questions (§3.2): these
are written by hand and the same for all questions, and no label is used. Rankings are fused by reciprocal ranks, not by
the sum of a retriever's scores, which not every retriever has.
Settled here: 5 passages per hop. If the first hop has no query, the question is searched. A hop without a new query
ends the search. Needs a model that samples; log-probabilities, if the model gives them, settle ties.

Example: "In which town was the leader of the Kon-Tiki expedition born?" The first queries find the expedition; the
summary, "It was led by Thor Heyerdahl.", leads to "Thor Heyerdahl birthplace". Of 5 chains from the summary and what
was found last, 4 end in Larvik.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.methods.context import answer_from_passages, first_retrieved, fit_to_context, fused_by_rank, reading
from polyhop.methods.registry import method
from polyhop.methods.voting import majority, sampled
from polyhop.prompts.tasks.iterative import DSP_HOP
from polyhop.types import NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run


@method(
    "dsp",
    family="iterative",
    calls=15,
    paper="Khattab et al., 2022",
    layers=lambda settings: int(settings["max_turns"]) + 1,
    needs=("retriever",),
)
async def demonstrate_search_predict(
    question: str,
    run: Run,
    *,
    k: Positive = 5,  # ToR §4.3
    max_turns: Positive = 2,  # hops, §3.3
    queries: Positive = 5,  # §3.3: number of sampled queries per hop; the paper: 10; 1: one greedy query
    samples: Positive = 5,  # §3.4: number of chains that vote; the paper: 20
    temperature: Annotated[float, Ge(0)] = 0.7,  # §3.3, §3.4
    shots: NonNegative = 3,
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,  # ToR §4.2
) -> Answer:
    """Search hop by hop, with queries from the results of earlier hops; then answer by a vote (§3)."""
    options: Options = {"shots": shots}
    sampling: Options = {**options, "temperature": temperature}
    summaries: list[str] = []
    asked: set[str] = set()
    found: list[list[Passage]] = []  # of the last hop first

    async def write_queries() -> list[str]:
        """Summarize the last hop's passages and write the next queries, all new."""
        last = found[0] if found else []
        fields = fit_to_context(
            DSP_HOP, last, run, options=options, context_tokens=context_tokens,
            question=question, summaries=list(summaries),
        )  # fmt: skip
        hops = await sampled(
            run, DSP_HOP, [fields] * queries, options=sampling if queries > 1 else options, final=False
        )
        if last and (summary := next((hop.summary for hop in hops if hop.summary), None)):
            summaries.append(summary)
        written = [hop.query for hop in hops if hop.query] or ([] if asked else [question])
        distinct = {normalise(query): query for query in reversed(written)}
        return [query for key, query in reversed(distinct.items()) if key not in asked]

    with run.gathering():  # SEARCH
        while len(found) < max_turns and (new := await write_queries()):
            asked |= {normalise(query) for query in new}
            with run.branch("hop", new[0]):
                rankings = await run.gather(*(run.search(query, k) for query in new))
                found.insert(0, fused_by_rank(rankings)[:k])

    known = [Passage("summary", "Found so far", " ".join(summaries))] if summaries else []
    read = [*known, *(found[0] if found else [])]
    task, fields = reading(question, read, run, style="cot", options=options, context_tokens=context_tokens)
    replies = await sampled(run, task, [fields] * samples, options=sampling)  # PREDICT
    vote = majority(replies)
    return answer_from_passages(
        first_retrieved(found, rank_limit),
        vote.answer,
        confidence=vote.share,
        statistics={"hops": len(found), "samples": vote.cast, "agreement": vote.share},
    )
