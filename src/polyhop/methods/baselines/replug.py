"""REPLUG: the question is answered from each passage by itself, and the answers' probabilities are averaged.

Shi, Min, Yasunaga, Seo, James, Lewis, Zettlemoyer, Yih: "REPLUG: Retrieval-Augmented Black-Box Language Models", 2023.

Followed (§3.2): the question is asked with each passage alone; an answer's probability is the sum over passages of its
probability after that passage, weighted by the softmax of the similarity of passage and question.
Settled here: whole answers are combined, because a model behind a server does not return the distribution over its next
token. The candidates are the answers that the passages gave, compared after normalisation. ``probability`` selects the
source of their probabilities. ``scored``: every candidate is scored after every passage, in the words of the ``text``
rendering: the paper's sum for a whole answer, which needs a model that scores given text. ``own``: each passage's own
answer has the mean probability of its words, or 1 if the model gives none, every other answer 0. ``auto`` is ``scored``
with a model that scores any text, else ``own``. ``sampled``: the share of several samples with that answer. Only
probabilities are averaged, never logits. The similarity is the run's (TF-IDF cosine unless the retriever has an
encoder): a cosine, as in the paper; a retriever's own scores have any scale, and the softmax of BM25's would give
almost all weight to the first passage. 5 passages (the paper: 10).

Example: "In which town was the leader of the Kon-Tiki expedition born?" Three of five passages give Larvik with
probabilities of 0.9, 0.5 and 0.4, two give Oslo with 0.3 each. At weights of about 0.2 Larvik has 0.36, Oslo 0.12.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.errors import CapabilityError
from polyhop.methods.baselines.one_shot import direct
from polyhop.methods.context import fit_to_context
from polyhop.methods.registry import method
from polyhop.methods.voting import answering
from polyhop.prompts.tasks.answers import ANSWER_READ, Response
from polyhop.types import Evidence, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.run import Run

TASK = ANSWER_READ.name


@method(
    "replug",
    family="one retrieval",
    calls=5,
    paper="Shi et al., 2023",
    layers=lambda settings: 1 + (settings["probability"] in ("auto", "scored")),
    needs=lambda settings: ("retriever", *([f"score:{TASK}"] if settings["probability"] == "scored" else [])),
)
async def passage_ensemble(
    question: str,
    run: Run,
    *,
    k: Positive = 5,  # the paper: 10
    probability: Literal["auto", "scored", "own", "sampled"] = "auto",  # scored, from tokens, or from samples
    samples: Positive = 5,  # number per passage, if "sampled"
    temperature: Annotated[float, Ge(0)] = 0.7,  # if "sampled"
    shots: NonNegative = 3,
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,
) -> Answer:
    """Answer from each passage separately; take the most probable answer, weighted by similarity (§3.2)."""
    hits: list[Passage] = []
    with run.gathering():
        hits = await run.search(question, max(k, rank_limit))
    if not hits:
        return await direct(question, run, shots=shots)
    options: Any = {"shots": shots, "logprobs": True}
    draws = hits[:k]
    if probability == "sampled":
        options["temperature"] = temperature
        draws = draws * samples

    replies: dict[Passage, list[Response]] = {passage: [] for passage in draws}

    def shown(passage: Passage) -> dict[str, Any]:
        return fit_to_context(
            ANSWER_READ, [passage], run, options=options, context_tokens=context_tokens, question=question
        )

    async def answer_from(passage: Passage, *, last: bool) -> None:
        with run.gathering():  # a call that the budget does not allow is left out
            reply = await run.ask(ANSWER_READ, options=options, final=last, **shown(passage))
            replies[passage].append(reply)

    async def score(passage: Passage) -> dict[str, float]:
        targets = [f"Answer: {wording}" for wording in wordings.values()]
        scores = await run.score(TASK, targets, options={"shots": shots}, **shown(passage))
        return {answer: math.exp(sum(score.logprobs)) for answer, score in zip(wordings, scores, strict=True)}

    with run.gathering():
        others = [answer_from(passage, last=False) for passage in draws[1:]]
        await run.gather(*others, answer_from(draws[0], last=True))  # the best passage has the reserved call

    read = [passage for passage, given in replies.items() if given]
    wordings: dict[str, str] = {}  # the candidates, each as it was first worded
    for reply in answering([reply for passage in read for reply in replies[passage]]):
        wordings.setdefault(normalise(reply.answer), reply.answer)
    likelihoods = [own_answers(replies[passage], sampled=probability == "sampled") for passage in read]
    can_score = probability == "auto" and run.capabilities(TASK).score_any
    if wordings and (can_score or probability == "scored"):
        with run.gathering():
            try:
                likelihoods = await run.gather(*map(score, read))
            except CapabilityError:  # its server turned out not to
                if probability == "scored":
                    raise

    weights = softmax(run.similarity(question, [f"{passage.title}\n{passage.text}" for passage in read]))
    under = list(zip(weights, likelihoods, strict=True))
    masses = {answer: sum(weight * likely.get(answer, 0.0) for weight, likely in under) for answer in wordings}
    best = max(masses, key=lambda answer: masses[answer], default="")
    run.note("ensemble", weights=dict(zip((p.id for p in read), weights, strict=True)), probabilities=masses)
    return Answer(
        wordings.get(best, ""),
        passages=tuple(hits[:rank_limit]),
        evidence=tuple(Evidence((passage,), answer_of(replies[passage][0])) for passage in read),
        confidence=min(1.0, masses.get(best, 0.0)),
        statistics={"candidates": len(wordings)},
    )


def answer_of(reply: Response) -> str | None:
    """Return the reply's answer; None if it has none."""
    return None if reply.declines(reply.answer) else reply.answer


def own_answers(replies: Sequence[Response], *, sampled: bool) -> dict[str, float]:
    """Return the probability of each answer by a passage's own replies: their shares, or that of one reply."""
    found: dict[str, float] = defaultdict(float)
    for reply in replies:
        if reply.answer:
            probability = None if sampled else reply.probability(reply.answer)
            found[normalise(reply.answer)] += (1.0 if probability is None else probability) / len(replies)
    return found


def softmax(values: Sequence[float]) -> list[float]:
    """Scale scores to weights that sum to 1.

    >>> softmax([0.5, 0.5])
    [0.5, 0.5]
    """
    powers = [math.exp(value - max(values)) for value in values]
    return [power / sum(powers) for power in powers]
