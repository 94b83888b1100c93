"""Recite and answer: the model recalls passages from its own memory, several times, and answers from each recitation.

Sun, Wang, Tay, Yang, Zhou: "Recitation-Augmented Language Models", 2022.

Followed (§3): recitations are sampled, and each is answered from greedily; a recitation has several passages for a
multi-hop question; the recitations vote. Not followed: recitations varied by hints of passages, which need a model
fine-tuned for them. Settled here: the number of samples and the temperature are those of ``cot-sc``; equal recitations
are answered from once, and vote as often as they came.
Needs a model that samples; log-probabilities, if the model gives them, settle ties.

Example: "In which town was the leader of the Kon-Tiki expedition born?" One recitation says who led the expedition and
where he was born, another who sailed with him; each is answered from, and the answers are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

from polyhop.answer import Answer
from polyhop.methods.registry import method
from polyhop.methods.voting import majority, sampled
from polyhop.prompts.tasks.summaries import RECITE_ANSWER, RECITE_RECALL
from polyhop.types import NonNegative, Positive

if TYPE_CHECKING:
    from polyhop.engine.run import Run


@method("recite", family="closed book", calls=6, paper="Sun et al., 2022", layers=lambda settings: 2)
async def recite_and_answer(
    question: str,
    run: Run,
    *,
    samples: Positive = 5,  # as cot-sc
    temperature: Annotated[float, Ge(0)] = 0.7,  # as cot-sc, of the recitations
    shots: NonNegative = 3,
) -> Answer:
    """Sample recitations of relevant passages, answer from each, and take the majority answer (§3)."""
    recited = await sampled(
        run,
        RECITE_RECALL,
        [{"question": question}] * samples,
        options={"shots": shots, "temperature": temperature},
        final=False,
    )
    readings = [{"question": question, "recitations": recitation.recitations} for recitation in recited]
    nothing = {"question": question, "recitations": []}  # if the budget allowed no recitation
    replies = await sampled(run, RECITE_ANSWER, readings or [nothing], options={"shots": shots})
    vote = majority(replies)
    return Answer(vote.answer, confidence=vote.share, statistics={"samples": vote.cast, "agreement": vote.share})
