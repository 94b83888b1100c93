"""Verify-and-Edit: if sampled chains of thought disagree, one of them is checked by search, sentence by sentence.

Zhao, Li, Joty, Qin, Bing: "Verify-and-Edit: A Knowledge-Enhanced Chain-of-Thought Framework", 2023. Code:
github.com/RuochenZhao/Verify-and-Edit.

Followed (§3): several chains of thought and their majority (CoT-SC). If at least half of them agree, the answer stays.
Otherwise the most probable chain with the majority's answer is edited: each of its sentences gets a verifying question,
a search for it, and a new sentence from the passages; the question is answered again from the edited rationale.
Settled here: 5 passages per sentence (the paper ranks the sentences of its passages and keeps 3). The first 3 sentences
are verified, with one search each, and the others are kept, because every baseline has at most 3 turns (the paper has
no limit: raise ``max_turns``). A sentence is also kept if nothing is found or the passages do not answer. Without a
verifying question the sentence itself is searched and asked. A chain without a rationale has its answer as its only
sentence, a non-answer the question itself. Sentences are verified at once, since they are independent. Needs a model
that samples; log-probabilities, if the model gives them, choose the chain and settle ties; else the first wins.

Example: "In which town was the leader of the Kon-Tiki expedition born?" Five chains give four answers. The first says
"The expedition was led by Roald Amundsen. He was born in Borge." Who led it? The passages say Thor Heyerdahl. Where was
he born? The second sentence is edited likewise, and the new rationale leads to Larvik.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge

from polyhop.answer import Answer
from polyhop.common.sentences import sentences
from polyhop.methods.context import fit_to_context
from polyhop.methods.registry import method
from polyhop.methods.voting import majority, sampled
from polyhop.prompts.tasks.answers import ANSWER_COT, Response
from polyhop.prompts.tasks.iterative import VERIFY_EDIT_ANSWER, VERIFY_EDIT_EDIT, VERIFY_EDIT_QUESTION
from polyhop.types import Evidence, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.run import Run


@method(
    "verify-edit",
    family="iterative",
    calls=5,
    paper="Zhao et al., 2023",
    layers=lambda settings: 4,
    needs=("retriever",),
)
async def verify_and_edit(
    question: str,
    run: Run,
    *,
    samples: Positive = 5,  # n, the number of chains
    temperature: Annotated[float, Ge(0)] = 0.7,
    edit_below: Annotated[float, Ge(0)] = 0.5,  # edit if a smaller share of samples agrees; above 1: always
    k: Positive = 5,
    max_turns: Positive = 3,  # maximum number of sentences that are verified
    shots: NonNegative = 3,  # SearChain, Table 8: 2, and 4 for FEVER
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,
) -> Answer:
    """Sample chains of thought; if few agree, verify and edit one by search and answer again (§3)."""
    options: Any = {"shots": shots}
    found: dict[int, Evidence] = {}
    retrieved: dict[int, list[Passage]] = {}

    async def verify(i: int) -> None:
        """Edit one sentence of the chain from the passages found for it; if the budget ends, keep it."""
        with run.gathering(), run.branch("sentence", chain[i]) as branch:
            branch.verdict = "stands"
            asked = await run.ask(  # §3.2
                VERIFY_EDIT_QUESTION, options=options, question=question, sentence=chain[i]
            )
            query = asked.sub_question or chain[i]
            retrieved[i] = await run.search(query, k)  # §3.3
            if not retrieved[i]:
                return
            fields = fit_to_context(
                VERIFY_EDIT_EDIT, retrieved[i], run, options=options, context_tokens=context_tokens, sub_question=query
            )
            edited = await run.ask(VERIFY_EDIT_EDIT, options=options, **fields)  # §3.4
            if edited.sentence:
                chain[i] = edited.sentence
                found[i] = Evidence(tuple(retrieved[i][: len(fields["passages"])]), edited.sentence)
                branch.verdict = "edited"

    replies = await sampled(  # §3.1
        run,
        ANSWER_COT,
        [{"question": question}] * samples,
        options={"shots": shots, "temperature": temperature},
        final=False,
    )
    vote = majority(replies)
    statistics = {"samples": vote.cast, "agreement": vote.share}
    answered = any(not reply.declines(vote.answer) for reply in vote.winners)
    if answered and vote.share >= edit_below:
        return Answer(vote.answer, confidence=vote.share, statistics={**statistics, "edited": 0})

    known = vote.answer if answered else question  # a model that knows nothing has the question looked up
    chain = sentences(likeliest(vote.winners).rationale or known) if vote.answer else []
    with run.gathering():
        await run.gather(*map(verify, range(min(len(chain), max_turns))))
    response = await run.ask(  # §3.5
        VERIFY_EDIT_ANSWER, options=options, final=True, question=question, rationale=" ".join(chain)
    )
    hits = (passage for i in sorted(retrieved) for passage in retrieved[i])
    return Answer(
        response.answer,
        passages=tuple(dict.fromkeys(hits))[:rank_limit],
        evidence=tuple(found[i] for i in sorted(found)),
        statistics={**statistics, "edited": len(found)},
    )


def likeliest(replies: Sequence[Response]) -> Response:
    """Return the reply with the most probable answer; the first if the model gives no probabilities."""
    return max(replies, key=lambda reply: reply.probability(reply.answer) or 0.0)
