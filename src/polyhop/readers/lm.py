"""The LM reader: one prompted call over all passages.

It is extractive all the same: what the model says is only taken where it stands in a passage. A question of yes or no
has no words to copy, so it has no span.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyhop.common.text import find_folded, normalise
from polyhop.prompts.tasks.parts import READER_EXTRACT, Extraction
from polyhop.readers.base import RunReader
from polyhop.types import Passage, QuestionRun, Span, SpanChoice

_VERDICTS = ("yes", "no")


class LmReader(RunReader):
    """At most one span for all passages together. Confidence, 0 to 1: the geometric mean probability of the answer's
    tokens; the model's own number where it gives no log-probabilities."""

    name = "lm"
    uses_lm = True

    async def read(
        self, question: str, passages: Sequence[Passage], run: QuestionRun | None, *, span: SpanChoice | None = None
    ) -> list[Span]:
        """Return the words that the model found, in the passage that it named, else in the first that contains them;
        [] if none does."""
        self.check_span(span)
        run = self.check_run(run)
        if not passages:
            return []
        silent = not run.capabilities(READER_EXTRACT.name).token_logprobs
        for verbal in (True,) if silent else (False, True):  # one that should give log-probabilities may yet give none
            found = await run.ask(
                READER_EXTRACT,
                options={"logprobs": not verbal},
                question=question,
                passages=list(passages),
                verbal=verbal,
            )
            if found.answer is None or normalise(found.answer) in _VERDICTS:
                return []
            sure = found.confidence if verbal else found.probability(found.answer)
            if sure is not None:
                break
        located = _located(found, passages, sure or 0.0)
        return [located] if located else []


def _located(found: Extraction, passages: Sequence[Passage], sure: float) -> Span | None:
    named = [passages[found.passage - 1]] if found.passage and found.passage <= len(passages) else []
    for passage in (*named, *passages):
        if position := find_folded(found.answer or "", passage.text):
            start, end = position
            return Span(passage.id, passage.text[start:end], start, end, sure)
    return None
