"""FLARE: a tentative sentence is written without passages; if the model is unsure of it, it is searched and rewritten.

Jiang, Xu, Gao, Sun, Liu, Dwivedi-Yu, Yang, Callan, Neubig: "Active Retrieval Augmented Generation", 2023, in its direct
form (FLARE-direct, §3.2).

Followed: the question is searched. A sentence is tried, 64 tokens ahead: the first from the question's passages
(Figure 1), every later one without any. It is kept if all its tokens are at least as likely as θ (``retrieve_below``).
Otherwise it is the next query, without the tokens less likely than β (``mask_below``), or with a question for each
unlikely phrase, whose hits are interleaved; then the sentence is written again from the newest passages alone. The
sentence that states the answer is the last.
Settled here: θ = 0.8 and β = 0.4, the authors' values for 2Wiki (a common re-implementation has 0.2 and 0.2, at which
hardly a sentence is searched); 5 passages per query (the authors: 2) and 3 searches, after which sentences are written
from the last passages; at most 3 questions per sentence. An empty query is replaced by the question. A sentence whose
reply gives no probabilities is unsure. A chain without an answer after 10 sentences ends with a reader call over all
passages. The confidence is that of the first sentence that contains the answer. Needs token log-probabilities.

Example: "In which town was the leader of the Kon-Tiki expedition born?" The first sentence names Thor Heyerdahl; the
second would be "Thor Heyerdahl was born in Oslo.", Oslo at 0.1: "Thor Heyerdahl was born in ." is searched, and the
sentence becomes "Thor Heyerdahl was born in Larvik." The third is sure: So the answer is Larvik.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, zip_longest
from math import exp
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Le

from polyhop.answer import Answer
from polyhop.common.text import find_folded, normalise
from polyhop.methods.context import answer_from_passages, first_retrieved, next_sentence, reading
from polyhop.methods.registry import method
from polyhop.prompts.tasks.iterative import FLARE_QUESTION, Sentence
from polyhop.types import NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run

Share: TypeAlias = Annotated[float, Ge(0), Le(1)]


def _layers(settings: Mapping[str, Any]) -> int:
    """Count the calls in turn: while searches are left, a sentence is tried, asked about, rewritten; then a reader."""
    sentences: int = settings["max_sentences"]
    again: int = (1 + (settings["query"] == "question")) * (settings["retrieve_below"] > 0)
    searched: int = min(settings["max_turns"] - 1, sentences)
    return sentences + searched * again + 1


@method(
    "flare",
    family="iterative",
    calls=2,
    paper="Jiang et al., 2023",
    layers=_layers,
    needs=("retriever", "token_logprobs:cot.sentence"),
)
async def active_retrieval(
    question: str,
    run: Run,
    *,
    k: Positive = 5,  # ToR §4.3; its repository: 2
    max_turns: Positive = 3,  # ToR §4.3: maximum number of searches, with the question's
    max_sentences: Positive = 10,  # maximum number of sentences of the answer
    retrieve_below: Share = 0.8,  # θ, §3.2: a sentence with a less likely token is searched
    query: Literal["mask", "question"] = "mask",  # §3.2: unlikely tokens are left out of the query, or asked about
    mask_below: Share = 0.4,  # β, §3.2: less likely tokens are left out
    max_questions: Positive = 3,  # maximum number per sentence
    look_ahead: Positive = 64,  # maximum number of tokens of a sentence
    shots: NonNegative = 3,
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,  # ToR §4.2
) -> Answer:
    """Draft the next sentence; if it is uncertain, search for it and write it again, until the answer (§3.2)."""
    options: Options = {"shots": shots}
    reasoning: list[str] = []
    steps: list[Sentence] = []
    found: list[list[Passage]] = []
    answer = ""
    confidence: float | None = None

    async def sentence(passages: Sequence[Passage]) -> Sentence | None:
        trying: Options = {**options, "max_tokens": look_ahead, "logprobs": True}
        return await next_sentence(question, reasoning, passages, run, options=trying, context_tokens=context_tokens)

    async def ask_about(tried: Sentence, phrase: str) -> str | None:
        fields: dict[str, Any] = {"reasoning": list(reasoning), "sentence": tried.sentence, "phrase": phrase}
        asked = await run.ask(FLARE_QUESTION, options=options, question=question, **fields)
        return asked.sub_question

    async def queries(tried: Sentence) -> list[str]:
        """Return the explicit queries for a sentence, or the implicit one (§3.2)."""
        unsure = unsure_spans(tried.sentence, tried.completion, mask_below)
        phrases = [tried.sentence[start:end].strip() for start, end in unsure]
        phrases = [phrase for phrase in phrases if any(map(str.isalnum, phrase))][:max_questions]
        asked: list[str | None] = []
        if query == "question":
            asked = await run.gather(*(ask_about(tried, phrase) for phrase in phrases))
        return list(dict.fromkeys(filter(None, asked))) or [masked(tried.sentence, unsure) or question]

    async def search(wanted: Sequence[str]) -> None:
        with run.branch("turn", " | ".join(wanted)):
            found.append(interleaved([await run.search(query, k) for query in wanted])[:k])

    with run.gathering():
        await search([question])  # Figure 1
        while not answer and len(reasoning) < max_sentences:
            active = len(found) < max_turns
            step = await sentence([] if active and reasoning else found[-1])
            if active and step is not None and not sure(step, retrieve_below):
                await search(await queries(step))
                step = await sentence(found[-1])
            if step is None:
                break
            reasoning.append(step.sentence)
            steps.append(step)
            if step.answer:
                answer = " ".join(reasoning[:-1]) if run.kind == "long" else step.answer  # a paragraph: all sentences
                confidence = telling(answer, steps, question).probability(answer)

    passages = first_retrieved(found, rank_limit)
    if not answer:
        task, fields = reading(question, passages, run, style="cot", options=options, context_tokens=context_tokens)
        response = await run.ask(task, options=options, final=True, **fields)
        answer = response.answer
    return answer_from_passages(
        passages,
        answer,
        confidence=confidence,
        statistics={"sentences": len(reasoning), "searches": len(found)},
    )


def sure(tried: Sentence, threshold: float) -> bool:
    """Check that every token of a sentence is at least as likely as the threshold."""
    least = tried.probability(tried.sentence, least=True)
    return threshold == 0 or (least is not None and least >= threshold)


def telling(answer: str, steps: Sequence[Sentence], question: str) -> Sentence:
    """Return the first sentence with the answer, which the conclusion copies; the last for yes and no, and for an
    answer that the question itself contains."""
    chosen_last = normalise(answer) in ("yes", "no") or find_folded(answer, question)
    return next((step for step in steps if not chosen_last and find_folded(answer, step.sentence)), steps[-1])


def unsure_spans(sentence: str, completion: Any, below: float) -> list[tuple[int, int]]:
    """Find the spans of tokens less likely than ``below``, neighbours merged; none if the probabilities are unknown."""
    tokens, logprobs = completion.tokens or (), completion.logprobs or ()
    text = "".join(tokens)
    if sentence not in text and text not in sentence:
        return []
    shift = -text.rfind(sentence) if sentence in text else sentence.rfind(text)
    spans: list[tuple[int, int]] = []
    for token, logprob, end in zip(tokens, logprobs, accumulate(map(len, tokens)), strict=False):
        first, last = max(0, end - len(token) + shift), min(len(sentence), end + shift)
        if first < last and exp(logprob) < below:
            start = spans.pop()[0] if spans and spans[-1][1] == first else first
            spans.append((start, last))
    return spans


def masked(sentence: str, spans: Sequence[tuple[int, int]]) -> str:
    """Remove the spans from the sentence; "" if no word is left.

    >>> masked("Ann was born in Rome.", [(15, 20)])
    'Ann was born in.'
    """
    ends = [0, *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), len(sentence)]
    left = " ".join("".join(sentence[a:b] for a, b in zip(ends, starts, strict=True)).split())
    return left if any(map(str.isalnum, left)) else ""


def interleaved(rankings: Sequence[Sequence[Passage]]) -> list[Passage]:
    """Merge rankings: the first passage of each, then the second of each, and so on, each passage once."""
    rows = zip_longest(*rankings)
    return list(dict.fromkeys(passage for row in rows for passage in row if passage is not None))
