"""Tasks that every method shares: answer from passages, extract a span, rerank, and grade an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polyhop.lm.pocket.reading.answer import UNKNOWN, Solution, read_path
from polyhop.lm.pocket.reading.correctness import correct_probability
from polyhop.lm.pocket.reading.judge import extract_span, path_answer, relevance, sufficiency
from polyhop.lm.pocket.reading.question import parse_question
from polyhop.lm.pocket.reading.weighing import promises, weigh_answers
from polyhop.metrics import cover_em_token
from polyhop.types import Passage

ANSWER_CONFIDENCE = "answer with confidence"
"""The key of a pair beside an output: the words of the answer, and the confidence in them."""
CALLS = "calls of tools"
"""The key of calls in place of an output: the name of each tool, and its arguments."""
MIN_CONFIDENCE = 0.001  # above 0, because its logarithm is taken
_HIGHEST_GRADE = 4  # of a passage that answers by itself

Fields = Mapping[str, Any]
Value = dict[str, Any]


def read_answer(fields: Fields) -> Value:
    """Answer a question from passages."""
    return answer_from_passages(fields["question"], fields["passages"], fields.get("paths"))


def answer_from_passages(
    question: str, passages: Sequence[Passage], paths: Sequence[tuple[Passage, ...]] | None = None
) -> Value:
    """Answer a question from passages, or the accepted paths that they are on, with a rationale and a confidence."""
    weighed = weigh_answers(question, passages, paths)
    answer = weighed.answer or UNKNOWN
    rationale = _missing_values(weighed.solution) if weighed.answer is None else _rationale(weighed.solution)
    confidence = max(MIN_CONFIDENCE, round(correct_probability(question, passages, weighed), 3))
    return {"rationale": rationale, "answer": answer, ANSWER_CONFIDENCE: (answer, confidence)}


def _rationale(solution: Solution) -> str | None:
    """The steps of a chain, the two values of a comparison, or the sentence of the answer."""
    if solution.verdict:
        return "; ".join(f"{side.name}: {side.value}" for side in solution.verdict.sides if side.value) or None
    steps = [f"{hop.subject} – {hop.step.relation}: {hop.value.text}" for hop in solution.hops if hop.value]
    if steps:
        return "; ".join(steps)
    return solution.ranked[0].page.sentence(solution.ranked[0].mention.sentence) if solution.ranked else None


def _missing_values(solution: Solution) -> str | None:
    """The two values of a comparison that they do not decide, and which are missing."""
    if solution.verdict is None or not solution.is_undecided:
        return None
    return "; ".join(f"{side.name}: {side.value or 'no value found'}" for side in solution.verdict.sides)


def answer_without_passages(question: str) -> Value:
    """Answer without passages: "no" to a yes/no question, else "unknown"."""
    answer = "no" if parse_question(question).type == "boolean" else UNKNOWN
    return {"rationale": None, "answer": answer}


def extract(fields: Fields) -> Value:
    """Extract the span of highest confidence from the passages. ``Pocket`` turns its confidence into a log-probability
    even if none is asked for."""
    spans = [
        (span, number)
        for number, passage in enumerate(fields["passages"], 1)
        if (span := extract_span(fields["question"], passage))
    ]
    if not spans:
        return {"answer": None, "passage": None, "confidence": None}
    span, number = max(spans, key=lambda pair: pair[0].confidence)
    return {"answer": span.text, "passage": number, "confidence": max(MIN_CONFIDENCE, round(span.confidence, 3))}


def read_whole_path(fields: Fields) -> Value:
    """Answer from a path as one input, yes and no included. The confidence is kept as for ``extract``."""
    answer, confidence = path_answer(fields["question"], fields["passages"])
    if not answer or not confidence:
        return {"answer": None, "passage": None, "confidence": None}
    return {"answer": answer, "passage": None, "confidence": max(MIN_CONFIDENCE, round(confidence, 3))}


def judge_path(fields: Fields) -> Value:
    """Judge whether a path is what the question needs: relevant, and twice as probably so if it is sufficient too."""
    reading = read_path(fields["question"], fields["passages"])
    probability = relevance(reading) * (1 + sufficiency(reading)) / 2
    verdict = "yes" if probability >= 0.5 else "no"
    return {"relevant": verdict == "yes", ANSWER_CONFIDENCE: (verdict, max(probability, 1 - probability))}


def order_passages(fields: Fields) -> Value:
    """Order passages by how promising each is among the others; equally promising ones keep their order."""
    promise = promises(fields["question"], fields["passages"])
    return {"order": [i + 1 for i in sorted(range(len(promise)), key=lambda i: -promise[i])]}


def grade_passage(fields: Fields) -> Value:
    """Grade how far a passage helps, by its relevance."""
    return {"grade": round(_HIGHEST_GRADE * relevance(read_path(fields["question"], [fields["passage"]])))}


def find_claims(fields: Fields) -> Value:
    """Take an answer as one claim, stated by the passages with its words in a row; its meaning is not understood."""
    claim = fields["prediction"] or ""
    texts = (f"{passage.title} {passage.text}" for passage in fields["passages"])
    stating = [number for number, text in enumerate(texts, 1) if cover_em_token(text, [claim]) == 1.0]
    return {"claims": [f"{claim} {''.join(f'[{number}]' for number in stating) or '[none]'}"]}


def grade_answer(fields: Fields) -> Value:
    """Call a prediction correct if it contains the words of a gold answer in a row; its meaning is not understood."""
    return {"correct": cover_em_token(fields["prediction"], fields["answers"]) == 1.0}
