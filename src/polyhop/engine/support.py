"""Support: the cited passages, read alone, give the answer. One rule for all methods.

With ``verify_support`` the language model reads the passages, in one more call; by default pocket's reader does if the
model is ``pocket``; else nothing reads them, and only the answer's words are looked for. The result depends on the
question, its kind, the answer and the cited passages alone, whatever the method knew besides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from polyhop.answer import Answer, Checked, references
from polyhop.common.sentences import sentence_spans
from polyhop.common.text import find_folded, normalise, occurrences
from polyhop.engine.calibration import SUPPORTED_FROM
from polyhop.prompts.agreement import agree
from polyhop.prompts.tasks.support import SUPPORT_CHECK
from polyhop.types import BlindReading, Kind, Passage, Quotation, Support

if TYPE_CHECKING:
    from polyhop.engine.equipment import Equipment
    from polyhop.engine.run import Run

CONTRADICTED_FROM = 0.8
"""The minimum probability of a reading at which another answer of the same kind contradicts this one."""
MAX_PASSAGES = 10
"""The maximum number of cited passages that are read again."""
_MIN_COVERAGE = 0.5  # share of the question's words in passages that bear on it
_VERDICTS = ("yes", "no", "both", "supports", "refutes", "not enough info")
_MAX_QUOTED = 400  # characters


async def check_support(answer: Answer, question: str, run: Run, engine: Equipment) -> Checked:
    """Return the support of an answer, and the quotation that shows it."""
    passages = [reference.passage for reference in references(answer)][:MAX_PASSAGES]
    if not answer.text or not passages:
        return Checked(answer.support, answer.quotation, answer.signals)
    reading = None
    if engine.verify_support:
        with run.gathering():  # a spent budget leaves the words
            check = await run.ask(SUPPORT_CHECK, question=question, passages=passages, prediction=answer.text)
            reading = check.as_reading(answer.text)
    elif engine.support_reader is not None:
        reading = await engine.support_reader.read_alone(question, passages, run.kind)
    reading = reading or find_words(question, answer.text, passages, run.kind)
    probability, supported_from = reading.probability, SUPPORTED_FROM
    if calibration := engine.calibration:
        probability = calibration.support(reading)
        supported_from = calibration.support_threshold(run.recorder.method)
    signals = {f"reading {name}": value for name, value in reading.features.items()}
    agrees = bool(reading.answer) and (
        agree(answer.text, reading.answer or "") if reading.agrees is None else reading.agrees
    )
    if probability is not None:
        signals |= {"support": probability, "agrees": float(agrees)}
    reading = replace(reading, probability=probability, agrees=agrees)
    support, quotation = judge(question, answer.text, passages, reading, supported_from)
    return Checked(support, quotation, signals)


def find_words(question: str, answer: str, passages: Sequence[Passage], kind: Kind) -> BlindReading:
    """Look for the answer in passages that bear on the question. Words alone cannot settle yes or no, a claim, a
    paragraph, or a choice between things that the question names.

    >>> mill = Passage("1", "Dark Mill", "Dark Mill is a 1931 film directed by Rolf Anders.")
    >>> find_words("Who directed Dark Mill?", "Rolf Anders", [mill], "qa").answer
    'Rolf Anders'
    >>> find_words("Who lent Ida Kuhn a boat?", "Rolf Anders", [mill], "qa").answer is None
    True
    """
    if kind in ("boolean", "fact", "long") or normalise(answer) in _VERDICTS:
        return BlindReading(None)
    texts = [f"{passage.title}\n{passage.text}" for passage in passages]
    if not any(find_folded(answer, text) for text in texts):
        return BlindReading(None)
    asked = _stems(question)
    covered = asked & set[str]().union(*map(_stems, texts))
    bears = len(covered) >= _MIN_COVERAGE * len(asked) and not _stems(answer) <= asked
    return BlindReading(answer, agrees=True) if bears else BlindReading(None)


def judge(
    question: str,
    answer: str,
    passages: Sequence[Passage],
    reading: BlindReading,
    supported_from: float = SUPPORTED_FROM,
) -> tuple[Support, Quotation | None]:
    """Compare an answer with what its passages give when they are read alone, and quote the sentence that shows it."""
    if not reading.answer or (quotation := quote(question, passages, reading)) is None:
        return "not verified", None
    probability = 1.0 if reading.probability is None else reading.probability
    agrees = agree(answer, reading.answer) if reading.agrees is None else reading.agrees
    if agrees and probability >= supported_from:
        return "supported", quotation
    if not agrees and probability >= CONTRADICTED_FROM and _kind_of(answer) == _kind_of(reading.answer):
        return "contradicted", quotation
    return "not verified", None


def quote(question: str, passages: Sequence[Passage], reading: BlindReading) -> Quotation | None:
    """Quote the sentence that states a reading's answer and shares the most words with the question. A verdict has no
    words of its own; None if the words of any other answer are in no passage."""
    asked = _stems(question)
    best: tuple[int, Quotation] | None = None
    for words in filter(None, (reading.words, reading.answer)):
        for passage in passages if best is None else ():
            for start, end in _places(words, passage):
                text = passage.text[start:end]
                shared = len(asked & _stems(text))
                if best is None or shared > best[0]:
                    best = shared, Quotation(passage.id, start, end, text, reading.answer or "")
    return best and best[1]


def _places(words: str, passage: Passage) -> Iterator[tuple[int, int]]:
    """Yield the sentences that contain some words; all for a verdict or a title."""
    sentences = [_trimmed(passage.text, *span) for span in sentence_spans(passage.text)]
    if normalise(words) in _VERDICTS or find_folded(words, passage.title):
        yield from ((start, min(end, start + _MAX_QUOTED)) for start, end in sentences if start < end)
    for start, end in occurrences(words, passage.text):
        first = max((span[0] for span in sentences if span[0] <= start), default=start)
        last = min((span[1] for span in sentences if span[1] >= end), default=end)
        yield max(first, start - _MAX_QUOTED), min(last, end + _MAX_QUOTED)


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


def _kind_of(answer: str) -> str:
    """The kind of value that an answer is: only equal kinds can contradict each other."""
    from polyhop.lm.pocket.reading.text import parse_date, parse_number  # late: most answers need no reading

    if normalise(answer) in _VERDICTS:
        return "verdict"
    return "date" if parse_date(answer) else "number" if parse_number(answer) is not None else "words"


def _stems(text: str) -> set[str]:
    from polyhop.lm.pocket.reading.text import content_stems

    return set(content_stems(text))
