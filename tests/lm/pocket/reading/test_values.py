"""The values of two things that are compared, as the encoder reads them: scripted, so that each step can be seen."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from polyhop.lm.pocket.encoder.inputs import EncoderOutput, SpanPrediction
from polyhop.lm.pocket.reading import values
from polyhop.lm.pocket.reading.compare import compare
from polyhop.lm.pocket.reading.evidence import find_facts
from polyhop.lm.pocket.reading.passage import ParsedPassage, parse_passage
from polyhop.lm.pocket.reading.question import ParsedQuestion, parse_question
from polyhop.lm.pocket.reading.values import read_values
from polyhop.types import Passage

QUESTION = "Which is washed hotter, the red yarn or the blue yarn?"
PAGE = parse_passage(
    Passage("1", "Card 4", "Red: 30 degrees, 12 minutes. For the blue one take 60 degrees, 8 minutes.")
)


def reads(texts: dict[str, str], answerable: float = 3.0) -> object:
    """A scripted encoder: for questions that begin with a key, a span that is the value."""

    def predict(question: str, paths: Sequence[Sequence[ParsedPassage]]) -> list[EncoderOutput]:
        (wanted,) = [value for key, value in texts.items() if question.startswith(key)]
        outputs = []
        for (page,) in paths:
            start = page.text.find(wanted)
            spans = (SpanPrediction(0, False, start, start + len(wanted), math.log(0.9)),) if start >= 0 else ()
            outputs.append(EncoderOutput(0.0, 0.0, answerable if spans else -9.0, {}, spans))
        return outputs

    return predict


def parsed() -> ParsedQuestion:
    return parse_question(QUESTION)


def test_each_thing_is_asked_for_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "predict", reads({"red yarn: ": "30 degrees", "blue yarn: ": "60 degrees"}))
    comparison = parsed().comparison
    assert comparison is not None
    found = find_facts(comparison.options, comparison.measure, [PAGE])
    left, right = read_values(QUESTION, comparison, [PAGE], found)
    assert [fact.text for fact in left if fact.read > 0.5] == ["30 degrees"]
    assert [fact.text for fact in right if fact.read > 0.5] == ["60 degrees"]
    assert {fact.text for fact in found[0]} <= {fact.text for fact in left}


def test_what_is_read_decides_where_rules_find_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "predict", reads({"red yarn: ": "30 degrees", "blue yarn: ": "60 degrees"}))
    comparison = parsed().comparison
    assert comparison is not None
    assert compare(parsed(), comparison, [PAGE], read=True).answer == "blue yarn"


def test_a_value_that_no_passage_states_leaves_a_comparison_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "predict", reads({"red yarn: ": "30 degrees", "blue yarn: ": "nothing"}, -6.0))
    comparison = parsed().comparison
    assert comparison is not None
    assert not compare(parsed(), comparison, [PAGE], read=True).complete


@pytest.mark.parametrize(
    ("text", "first", "second", "answer"),
    [
        ("Wool: at 30 degrees, 12 minutes. Linen: at 60, the first time.", "30 degrees", "60", "linen"),
        ("Wool is washed at 9:30, linen at 8.", "9:30", "8", "wool"),
        ("Wool: 30 degrees. Linen since 1960.", "30 degrees", "1960", None),
    ],
)
def test_a_bare_number_has_the_unit_of_the_other_value(
    monkeypatch: pytest.MonkeyPatch, text: str, first: str, second: str, answer: str | None
) -> None:
    monkeypatch.setattr(values, "predict", reads({"wool: ": first, "linen: ": second}))
    asked = parse_question(
        "Which is washed later, wool or linen?" if ":30" in text else "Which is hotter, wool or linen?"
    )
    assert asked.comparison is not None
    page = parse_passage(Passage("1", "Card 4", text))
    assert compare(asked, asked.comparison, [page], read=True).answer == answer
