"""Demonstrate–Search–Predict, its multi-hop program: hops of query, search and summary, then a vote over answers.

Khattab, Santhanam, Li, Hall, Liang, Potts, Zaharia: "Demonstrate-Search-Predict: Composing retrieval and language
models for knowledge-intensive NLP", 2022.

Followed: SEARCH as the paper's multi-hop program: every hop first summarizes the passages of the hop before, then
writes a query from the question, the summaries and those passages. There are two hops, fewer if the query is "N/A"
(§3.3). PREDICT: chains of thought from the passages of all hops, sampled at temperature 0.7, and the majority's answer
(self-consistency, §3.4), with 5 samples as in every vote here (the paper: 20).
Not followed: DEMONSTRATE, which bootstraps demonstrations for every step from labelled training questions (§3.2): these
are written by hand and the same for all questions, and no label is used. Nor does a hop sample several queries and fuse
their rankings (§3.3). The summaries serve the queries alone: the answer is read from the passages.
Settled here: 5 passages per query. If the first hop has no query, the question is searched. A repeated query ends the
search. Needs a model that samples; log-probabilities, if the model gives them, settle ties.

Example: "In which town was the leader of the Kon-Tiki expedition born?" The first query finds the expedition; the
summary, "It was led by Thor Heyerdahl.", leads to "Thor Heyerdahl birthplace". Of 5 chains over both, 4 end in Larvik.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.methods.context import answer_from_passages, first_retrieved, fit_to_context, reading
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
    calls=7,
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
    samples: Positive = 5,  # §3.4: number of chains that vote; the paper: 20
    temperature: Annotated[float, Ge(0)] = 0.7,  # §3.4
    shots: NonNegative = 3,
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,  # ToR §4.2
) -> Answer:
    """Search hop by hop, each query from the results of earlier hops; then predict by a vote (§3)."""
    options: Options = {"shots": shots}
    summaries: list[str] = []
    asked: list[str] = []
    found: list[list[Passage]] = []

    async def write_query() -> str | None:
        """Summarize the last hop's passages and write the next query; None if nothing is missing."""
        fields = {"question": question, "summaries": list(summaries)}
        last = found[-1] if found else []
        hop = await run.ask(
            DSP_HOP, options=options,
            **fit_to_context(DSP_HOP, last, run, options=options, context_tokens=context_tokens, **fields),
        )  # fmt: skip
        if hop.summary and last:
            summaries.append(hop.summary)
        return hop.query or (None if asked else question)

    with run.gathering():  # SEARCH
        while len(asked) < max_turns:
            query = await write_query()
            if not query or normalise(query) in map(normalise, asked):
                break
            asked.append(query)
            with run.branch("hop", query):
                found.append(await run.search(query, k))

    passages = first_retrieved(found, rank_limit)
    task, fields = reading(question, passages, run, style="cot", options=options, context_tokens=context_tokens)
    replies = await sampled(  # PREDICT
        run, task, [fields] * samples, options={**options, "temperature": temperature}
    )
    vote = majority(replies)
    return answer_from_passages(
        passages,
        vote.answer,
        confidence=vote.share,
        statistics={"hops": len(found), "samples": vote.cast, "agreement": vote.share},
    )
