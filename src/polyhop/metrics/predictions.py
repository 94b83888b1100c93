"""What a metric may look at: what was predicted for one question, beside its gold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyhop.metrics.facts import Fact, Triple
from polyhop.types import Passage, Question

SCORED_METADATA = ("type", "evidences", "entity_aliases", "answerable", "pair")
"""What metrics look at of a question's ``metadata``."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A question's gold and what was predicted for it. No text of a passage is looked at.

    ``text``: the answer; ``answers`` is false where the method gives none, only a ranking. ``passages``: ranked, best
    first. ``answer_rank``: the rank of the first that holds a gold answer (``rankings.span_rank``). ``cited``: the
    passages the answer rests on; ``facts``: the sentences of them, ``triples``: what the answer was put together from;
    None where the method or the corpus tells no such thing.
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
        """Whether there is an answer to score and a gold one to score it by."""
        return self.answers and bool(self.question.answers)
