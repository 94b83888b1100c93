"""Chains of thought, closed-book: with a phrase that starts the thinking, and sampled several times with a vote.

- ``zero-few-cot``: Kojima, Gu, Reid, Matsuo, Iwasawa, "Large Language Models are Zero-Shot Reasoners", 2022, in its
  Zero-Plus-Few-Shot form, the row of GE-Reasoning's Table 4: "Let's think step by step." before the reasoning, in the
  demonstrations and in the question. ``shots=0`` is the paper's zero-shot form.
- ``cot-sc``: Wang et al., "Self-Consistency Improves Chain of Thought Reasoning in Language Models", 2022, with the
  5 samples at temperature 0.7 of GE-Reasoning §4.3 (the paper draws 40).

Settled here: the answer is read off the sentence that ends the reasoning, as it is for ``cot``, and not asked for in a
second call as Kojima et al. do. Needs: a model that samples; log-probabilities settle ties where there are some.

Example: "In which town was the leader of the Kon-Tiki expedition born?" Five chains end in Larvik, Oslo, Larvik, Larvik
and Bergen: the answer is Larvik, with a confidence of 0.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

from polyhop.answer import Answer
from polyhop.methods.registry import method
from polyhop.methods.voting import majority, sampled
from polyhop.prompts.tasks.answers import ANSWER_COT, ZERO_SHOT_COT
from polyhop.types import NonNegative, Positive

if TYPE_CHECKING:
    from polyhop.engine.run import Run


@method("zero-few-cot", family="closed book", calls=1, paper="Kojima et al., 2022", layers=lambda settings: 1)
async def zero_plus_few_shot(question: str, run: Run, *, shots: NonNegative = 3) -> Answer:
    """Answer from the model's own knowledge, told to think step by step, beside demonstrations that do."""
    response = await run.ask(ZERO_SHOT_COT, options={"shots": shots}, final=True, question=question)
    return Answer(response.answer)


@method("cot-sc", family="closed book", calls=5, paper="Wang et al., 2022", layers=lambda settings: 1)
async def self_consistency(
    question: str,
    run: Run,
    *,
    samples: Positive = 5,  # chains that vote: GE-Reasoning §4.3
    temperature: Annotated[float, Ge(0)] = 0.7,  # GE-Reasoning §4.3
    shots: NonNegative = 3,
) -> Answer:
    """Sample several chains of thought and take the answer most of them come to (§2)."""
    replies = await sampled(
        run, ANSWER_COT, [{"question": question}] * samples, options={"shots": shots, "temperature": temperature}
    )
    vote = majority(replies)
    return Answer(vote.answer, confidence=vote.share, statistics={"samples": vote.cast, "agreement": vote.share})
