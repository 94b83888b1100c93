"""RECOMP: the passages are compressed to a short summary, and the question is answered from that alone.

Xu, Shi, Choi: "RECOMP: Improving Retrieval-Augmented LMs with Context Compression and Selective Augmentation", 2023.

Followed: two compressors. The abstractive one writes a summary of all passages for the question; the extractive one
keeps the sentences most similar to the question. An empty summary means that retrieval does not help, and the question
is answered closed-book (selective augmentation).
Not followed: compressors trained for the task. The abstractive one is prompted, in the role ``compressor``; to use a
sequence-to-sequence checkpoint instead, give ``--lm-for compressor=hf:PATH`` and a prompt file in the form that it was
trained on (``--prompts``: ``recomp.compress.md`` with ``shots = 0``). Its whole reply is the summary; an empty reply is
requested once more, then the summary is empty. The extractive one ranks by the run's similarity, TF-IDF cosine unless
the retriever has an encoder.
Settled here: a sentence is shown with the title of its passage, which explains its pronouns; the kept sentences are in
the order of the passages; one that shares no word with the question is dropped. Needs nothing beyond completion.

Example: "In which town was the leader of the Kon-Tiki expedition born?" Of five passages the summary keeps that Thor
Heyerdahl led the expedition and was born in Larvik; from these two sentences the answer is Larvik.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from polyhop.answer import Answer
from polyhop.common.sentences import sentences
from polyhop.methods.baselines.one_shot import direct
from polyhop.methods.context import fit_to_context
from polyhop.methods.registry import method
from polyhop.prompts.tasks.summaries import RECOMP_ANSWER, RECOMP_COMPRESS
from polyhop.types import Evidence, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run


@method(
    "recomp",
    family="one retrieval",
    calls=2,
    paper="Xu et al., 2023",
    layers=lambda settings: 1 + (settings["compress"] == "abstractive"),
    needs=("retriever",),
)
async def compressed_retrieval(
    question: str,
    run: Run,
    *,
    k: Positive = 5,
    compress: Literal["abstractive", "extractive"] = "abstractive",  # a summary is written, or sentences are picked
    kept: Positive = 2,  # number of sentences, of the extractive compressor
    shots: NonNegative = 3,
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,
) -> Answer:
    """Compress the passages to a summary and answer from it, or closed-book if it is empty (§2)."""
    options: Options = {"shots": shots}
    hits: list[Passage] = []
    sources: Sequence[Passage] = ()
    summary = ""
    with run.gathering():
        hits = await run.search(question, max(k, rank_limit))
        if compress == "extractive":
            summary, sources = extract(question, hits[:k], kept, run)
        elif hits:
            fields = fit_to_context(
                RECOMP_COMPRESS, hits[:k], run, options=options, context_tokens=context_tokens, question=question
            )
            reply = await run.ask(RECOMP_COMPRESS, options=options, **fields)
            summary, sources = reply.summary, hits[: len(fields["passages"])]

    passages = tuple(hits[:rank_limit])
    statistics = {"summary words": len(summary.split())}
    if not summary:  # §2, selective augmentation
        return replace(await direct(question, run, shots=shots), passages=passages, statistics=statistics)
    response = await run.ask(RECOMP_ANSWER, options=options, final=True, question=question, summary=summary)
    evidence = (Evidence(tuple(sources), response.answer),)
    return Answer(response.answer, passages=passages, evidence=evidence, statistics=statistics)


def extract(question: str, passages: Sequence[Passage], kept: int, run: Run) -> tuple[str, list[Passage]]:
    """Join the sentences most similar to the question; also return the passages they come from."""
    titled = [(passage, f"[{passage.title}] {text}") for passage in passages for text in sentences(passage.text)]
    similarity = run.similarity(question, [sentence for _, sentence in titled])
    nearest = sorted(range(len(titled)), key=lambda i: -similarity[i])[:kept]
    chosen = [titled[i] for i in sorted(nearest) if similarity[i] > 0]
    return " ".join(sentence for _, sentence in chosen), list(dict.fromkeys(passage for passage, _ in chosen))
