"""The simplest baselines: closed-book, from one retrieval, and retrieval alone.

- ``direct``: Brown et al., "Language Models are Few-Shot Learners", 2020.
- ``cot``: Wei et al., "Chain-of-Thought Prompting Elicits Reasoning in Large Language Models", 2022.
- ``one-r``: one-step retrieval, read directly or by chain of thought, as in Tree of Reviews §4.3 (OneR).
- ``bm25``: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009.
- ``tfidf``, ``tfidf-bm25``: the baselines without training of PromptRank (Khalifa et al., "Few-shot Reranking for
  Multi-hop QA via Language Model Prompting", 2023), Table 1: TF-IDF; its hits and the pages they link to, by BM25.
- ``zero-few-cot``: Kojima, Gu, Reid, Matsuo, Iwasawa, "Large Language Models are Zero-Shot Reasoners", 2022, in its
  Zero-Plus-Few-Shot form, the row of GE-Reasoning's Table 4: "Let's think step by step." before the reasoning, in the
  demonstrations and in the question. ``shots=0`` is the paper's zero-shot form.
- ``cot-sc``: Wang et al., "Self-Consistency Improves Chain of Thought Reasoning in Language Models", 2022, with the
  5 samples at temperature 0.7 of GE-Reasoning §4.3 (the paper draws 40).

Settled here: ``one-r`` reads its first 5 passages and ranks 15, so that recall@15 is comparable with the other methods.
A method of retrieval alone is its retriever of the same name as a row of a table; it asks no language model, unless
``rerank`` does, and ranks 20 passages, for R@20 and AR@20 of PromptRank's Table 1. With ``answer_by=reader`` the reader
answers from each passage and its most confident answer counts: PromptRank's Table 2, which gives TF-IDF no path score.
A chain of thought ends with a sentence that gives the answer; no second call asks for it, as Kojima et al. do.
``cot-sc`` needs a model that samples; log-probabilities, if the model gives them, settle ties.

Example: "In which town was the leader of the Kon-Tiki expedition born?" Five chains of ``cot-sc`` end in Larvik, Oslo,
Larvik, Larvik and Bergen: the answer is Larvik, with a confidence of 0.6.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from annotated_types import Ge

from polyhop.answer import Answer
from polyhop.common.sentences import sentences
from polyhop.methods.context import Style, reading
from polyhop.methods.path_reading import ask_reader
from polyhop.methods.registry import method
from polyhop.methods.voting import majority, sampled
from polyhop.prompts.tasks.answers import ANSWER_COT, ANSWER_DIRECT, ZERO_SHOT_COT
from polyhop.types import Evidence, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run


@method("direct", family="closed book", calls=1, paper="Brown et al., 2020", layers=lambda settings: 1)
async def direct(question: str, run: Run, *, shots: NonNegative = 3) -> Answer:
    """Answer from the model's own knowledge, without reasoning."""
    response = await run.ask(ANSWER_DIRECT, options={"shots": shots}, final=True, question=question)
    return Answer(response.answer)


@method("cot", family="closed book", calls=1, paper="Wei et al., 2022", layers=lambda settings: 1)
async def chain_of_thought(question: str, run: Run, *, shots: NonNegative = 3) -> Answer:
    """Answer from the model's own knowledge, reasoning step by step first."""
    response = await run.ask(ANSWER_COT, options={"shots": shots}, final=True, question=question)
    return Answer(response.answer, statistics={"sentences": len(sentences(response.rationale or ""))})


@method(
    "one-r",
    family="one retrieval",
    calls=1,
    paper="Tree of Reviews (Li et al., 2024), §4.3",
    layers=lambda settings: 1,
    needs=("retriever",),
)
async def one_retrieval(
    question: str,
    run: Run,
    *,
    k: Positive = 5,
    style: Style = "direct",
    shots: NonNegative = 3,
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,
) -> Answer:
    """Search once with the question, read the first ``k`` passages, and answer."""
    passages: list[Passage] = []
    with run.gathering():
        passages = await run.search(question, max(k, rank_limit))
    return await answered_from(
        question, run, passages, k=k, style=style, shots=shots, context_tokens=context_tokens, rank_limit=rank_limit
    )


async def answered_from(
    question: str,
    run: Run,
    passages: Sequence[Passage],
    *,
    k: int,
    shots: int,
    context_tokens: int,
    rank_limit: int,
    style: Style = "direct",
) -> Answer:
    """Answer from the first ``k`` of the passages, as many as the prompt can hold; closed-book if there are none."""
    if not passages:
        return await chain_of_thought(question, run, shots=shots)
    options: Options = {"shots": shots}
    task, fields = reading(question, passages[:k], run, style=style, options=options, context_tokens=context_tokens)
    response = await run.ask(task, options=options, final=True, **fields)
    read = tuple(passages[: len(fields.get("passages", ()))])
    return Answer(
        response.answer,
        passages=tuple(passages[:rank_limit]),
        evidence=(Evidence(read, response.answer),) if read else (),
    )


PROMPTRANK = "PromptRank (Khalifa et al., 2023), Table 1"
AnswerBy: TypeAlias = Literal["none", "reader"]


def ranking(name: str, paper: str) -> Callable[[Callable[..., Awaitable[Answer]]], Callable[..., Awaitable[Answer]]]:
    """Register a function as the method that ranks by the retriever of its name, and answers by a reader or not."""
    return method(
        name,
        family="retrieval only",
        calls=0,
        paper=paper,
        layers=lambda _: 0,
        needs=lambda settings: ("retriever", "reader") if settings["answer_by"] == "reader" else ("retriever",),
        retriever=name,
        answers=lambda settings: settings["answer_by"] == "reader",
    )


@ranking("bm25", "Robertson and Zaragoza, 2009")
async def bm25(question: str, run: Run, *, rank_limit: Positive = 20, answer_by: AnswerBy = "none") -> Answer:
    """Rank passages by BM25."""
    return await _ranked(question, run, rank_limit, answer_by)


@ranking("tfidf", PROMPTRANK)
async def tfidf(question: str, run: Run, *, rank_limit: Positive = 20, answer_by: AnswerBy = "none") -> Answer:
    """Rank passages by TF-IDF cosine."""
    return await _ranked(question, run, rank_limit, answer_by)


@ranking("tfidf-bm25", PROMPTRANK)
async def tfidf_bm25(question: str, run: Run, *, rank_limit: Positive = 20, answer_by: AnswerBy = "none") -> Answer:
    """Rank TF-IDF's hits and the passages they link to by BM25."""
    return await _ranked(question, run, rank_limit, answer_by)


async def _ranked(question: str, run: Run, rank_limit: int, answer_by: AnswerBy) -> Answer:
    passages: list[Passage] = []
    with run.gathering():
        passages = await run.search(question, rank_limit)
    found = Answer("", passages=tuple(passages))
    if answer_by == "none":
        return found
    paths = [(passage,) for passage in passages]  # a passage is a path without a score: the surest reading counts
    return await ask_reader(question, run, found, paths, dict.fromkeys(paths, 0.0), weight=0.0, combine="raw")


@method("zero-few-cot", family="closed book", calls=1, paper="Kojima et al., 2022", layers=lambda settings: 1)
async def zero_plus_few_shot(question: str, run: Run, *, shots: NonNegative = 3) -> Answer:
    """Answer from the model's own knowledge, with "Let's think step by step." in the demonstrations too."""
    response = await run.ask(ZERO_SHOT_COT, options={"shots": shots}, final=True, question=question)
    return Answer(response.answer)


@method("cot-sc", family="closed book", calls=5, paper="Wang et al., 2022", layers=lambda settings: 1)
async def self_consistency(
    question: str,
    run: Run,
    *,
    samples: Positive = 5,  # number of chains that vote: GE-Reasoning §4.3
    temperature: Annotated[float, Ge(0)] = 0.7,  # GE-Reasoning §4.3
    shots: NonNegative = 3,
) -> Answer:
    """Sample several chains of thought and take the most frequent answer (§2)."""
    replies = await sampled(
        run, ANSWER_COT, [{"question": question}] * samples, options={"shots": shots, "temperature": temperature}
    )
    vote = majority(replies)
    return Answer(vote.answer, confidence=vote.share, statistics={"samples": vote.cast, "agreement": vote.share})
