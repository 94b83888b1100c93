"""The probability that a weighed answer is correct, and the features of its reading."""

from __future__ import annotations

import math
from collections.abc import Sequence

from polyhop.common.odds import log_odds, sigmoid
from polyhop.common.text import fold, normalise, occurrences
from polyhop.lm.pocket.encoder.cache import predict
from polyhop.lm.pocket.encoder.inputs import EncoderOutput, TitledText
from polyhop.lm.pocket.reading.answer import PathReading, read_path
from polyhop.lm.pocket.reading.documents import inner_weight
from polyhop.lm.pocket.reading.passage import share_of
from polyhop.lm.pocket.reading.tables import blends
from polyhop.lm.pocket.reading.text import content_stems
from polyhop.lm.pocket.reading.weighing import WeighedAnswer
from polyhop.types import Passage

_PARTIAL = 0.7  # share of a span's probability that counts if the answer only overlaps it
_SUREST = 0.98  # probability whose log-odds are taken
_LEAST = 1e-4  # weight whose logarithm is taken


def correct_probability(question: str, passages: Sequence[Passage], weighed: WeighedAnswer) -> float:
    """The probability that an answer is correct, by a logistic model of ``correct_features``."""
    if weighed.answer is None:
        return 0.0
    features = correct_features(question, passages, weighed)
    odds = sum(weight * value for weight, value in zip(blends().correct, features, strict=True))
    return sigmoid(odds)


def correct_features(
    question: str, passages: Sequence[Passage], weighed: WeighedAnswer
) -> tuple[float, float, float, float]:
    """The features of a correct answer: 1 if a rule settled it, else its share; the probability that the encoder reads
    it off the best of the paths that are read; and a constant."""
    outputs = predict(question, weighed.paths) if weighed.answer is not None else []
    paths = zip(weighed.paths, outputs, strict=False)
    read = max((_probability_of(weighed.answer or "", path, output) for path, output in paths), default=0.0)
    settled = weighed.solution.complete
    return float(settled), 0.0 if settled else weighed.share, read, 1.0


def reading_features(question: str, passages: Sequence[Passage], weighed: WeighedAnswer) -> dict[str, float]:
    """The features of an answer that passages give when they are read alone: of its reading, and of its form."""
    settled, share, read, _ = correct_features(question, passages, weighed)
    outputs = predict(question, weighed.paths)
    best = max(outputs, key=lambda output: output.sufficiency, default=None)
    answerable = max((output.answerable for output in outputs), default=0.0)
    parsed, verdict, answer = weighed.solution.parsed, weighed.solution.verdict, weighed.answer or ""
    stems, has_digit = set(content_stems(answer)), any(map(str.isdigit, answer))
    weight, inner = weighed.weight, None if weighed.weight is None else inner_weight(question, passages)
    return {
        "settled": settled,
        "share": share,
        "read": read,
        "weight": 0.0 if weight is None else math.log(max(weight, _LEAST)),
        "inner": 0.0 if inner is None else math.log(max(inner, _LEAST)),
        "in steps": float(inner is not None),
        "nearness": weighed.nearness or 0.0,
        "not near": float(weighed.nearness is None),
        "verified": 0.0 if weighed.verified is None else log_odds(weighed.verified, _SUREST),
        "not verified": float(weighed.verified is None),
        "chosen": 0.0 if weighed.chosen is None else log_odds(weighed.chosen, _SUREST),
        "not chosen": float(weighed.chosen is None),
        "sufficiency": best.sufficiency if best else 0.0,
        "nothing": best.kinds["none"] if best else 0.0,
        "answerable": answerable,
        "answerable by yes or no": answerable if parsed.type == "boolean" else 0.0,
        **_place_features(answer, read_path(question, passages)),
        "comparison": float(parsed.comparison is not None),
        "guessed comparison": float(parsed.comparison is not None and not settled),
        "compared": 0.0 if verdict is None or verdict.answer is None else log_odds(verdict.probability, _SUREST),
        "yes or no": float(parsed.type == "boolean"),
        "words": float(min(len(answer.split()), 10)),
        "in question": float(stems <= parsed.terms.keys()),
        "digits": float(has_digit),
        "no digits": float(parsed.type in ("number", "date", "year") and not has_digit),
        "digits in a name": float(parsed.type in ("person", "place", "country", "group") and has_digit),
        "passages": math.log(len(passages)),
    }


def _place_features(answer: str, reading: PathReading) -> dict[str, float]:
    """Features of where an answer stands: the question's words in its sentence, and its words and names on its page."""
    parsed, asked = reading.parsed, reading.parsed.terms.keys()
    sentences = [
        (page, asked & set(content_stems(page.sentence(page.sentence_at(start)))))
        for page in reading.pages
        for start, _ in occurrences(answer, page.text)
    ]
    pages = [page for page, _ in sentences] or reading.pages
    names = [fold(name) for name in parsed.names]
    named = [sum(name in page.folded_with_title for name in names) for page in pages]
    return {
        "sentence": max((len(near) for _, near in sentences), default=0) / max(1, len(asked)),
        "coverage": max(share_of(parsed.terms, [page]) for page in pages),
        "names": max(named) / len(names) if names else 1.0,
        "files": float(reading.of_documents),
    }


def _probability_of(answer: str, path: Sequence[TitledText], output: EncoderOutput) -> float:
    """The probability that the encoder reads an answer off a path; less if its span is only a part of it, or more."""
    plain = normalise(answer)
    if plain in ("yes", "no"):
        return output.kinds[plain]
    spans = [(normalise(span.text(path)), math.exp(span.log_probability)) for span in output.spans]
    shares = [share if text == plain else _PARTIAL * share for text, share in spans if plain in text or text in plain]
    return output.kinds["span"] * max(shares, default=0.0)
