"""The input of a metric: the prediction for one question, and its gold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyhop.metrics.facts import Fact, Triple
from polyhop.types import Passage, Question

SCORED_METADATA = ("type", "evidences", "entity_aliases", "answerable", "pair")
"""The fields of a question's ``metadata`` that metrics read."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A question with its gold, and a prediction for it. Metrics read no text of a passage.

    Attributes:
        text: the answer; ``answers`` is false if the method gives none, only a ranking.
        passages: ranked, best first.
        answer_rank: the rank of the first passage that contains a gold answer (``rankings.span_rank``).
        cited: the passages that support the answer.
        facts: the supporting sentences; None if the method or the corpus reports none.
        triples: the evidence of the answer; None if the method reports none.
    """

    question: Question
    text: str = ""
    answers: bool = True
    passages: Sequence[Passage] = ()
    answer_rank: int | None = None
    cited: Sequence[Passage] = ()
    facts: Sequence[Fact] | None = None
    triples: Sequence[Triple] | None = None

    @property
    def is_scored(self) -> bool:
        """True if there are an answer and a gold answer to score it by."""
        return self.answers and bool(self.question.answers)
