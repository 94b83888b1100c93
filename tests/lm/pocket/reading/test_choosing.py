"""Answers side by side: the sentences that are read together, and the probabilities that come of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from polyhop.lm.pocket.encoder.inputs import EncoderOutput, SpanPrediction, TitledText
from polyhop.lm.pocket.reading import choosing
from polyhop.lm.pocket.reading.answer import read_path
from polyhop.lm.pocket.reading.choosing import around, choose, excerpt_of, side_by_side
from polyhop.lm.pocket.reading.claims import Excerpt
from polyhop.lm.pocket.reading.passage import parse_passage
from polyhop.types import Passage


def part(title: str, text: str) -> Passage:
    """A part of a file."""
    return Passage(title, title, text, metadata={"source": f"{title}.md"})


POOL = part("Pool", "It opens at seven. A guest pays 9 crowns. A member pays 4 crowns.")


def predicting(
    monkeypatch: pytest.MonkeyPatch, spans: Mapping[str, float], answerable: float = 0.0
) -> list[Sequence[TitledText]]:
    """Have the encoder read these words off the first text that contains them, with these log-probabilities, and find
    the whole answerable with these log-odds. Returns the paths that it reads."""
    read: list[Sequence[TitledText]] = []

    def predict(_: str, paths: Sequence[Sequence[TitledText]]) -> list[EncoderOutput]:
        read.extend(paths)
        texts = [each.text for each in paths[0]]
        found = []
        for words, log_probability in spans.items():
            at = next(number for number, text in enumerate(texts) if words in text)
            start = texts[at].index(words)
            found.append(SpanPrediction(at, False, start, start + len(words), log_probability))
        return [EncoderOutput(0.0, 0.0, answerable, {}, tuple(found))]

    monkeypatch.setattr(choosing, "predict", predict)
    return read


def test_an_answer_stands_in_its_sentence_and_the_one_before_it() -> None:
    solution = read_path("What does a member pay?", [POOL]).solution
    found = next(each.text for each in solution.ranked if "4" in each.text)
    excerpt = excerpt_of(found, solution, POOL)
    assert excerpt == Excerpt("Pool", "A guest pays 9 crowns. A member pays 4 crowns.")
    assert excerpt_of("nothing of the kind", solution, POOL) == Excerpt("Pool", POOL.text)


def test_the_sentence_before_is_left_out_if_both_are_long() -> None:
    page = parse_passage(part("Log", f"It {'very ' * 60}rained. The tent held."))
    assert around(page, 1).text == "The tent held."


def test_four_excerpts_are_read_together_each_once() -> None:
    excerpts = [Excerpt("Log", str(number)) for number in (1, 2, 1, 3, 4, 5)]
    assert [each.text for each in side_by_side(excerpts)] == ["1", "2", "3", "4"]


def test_an_answer_has_the_probability_of_the_spans_with_its_words_in_its_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = predicting(monkeypatch, {"9 crowns": -1.0, "4 crowns": -0.5, "4": -2.0})
    guests, members = Excerpt("Pool", "A guest pays 9 crowns."), Excerpt("Pool", "A member pays 4 crowns.")
    asked = [("9 crowns", guests), ("4 crowns", members), ("4", guests)]
    chosen = choose("What does a member pay?", asked)
    assert chosen == [pytest.approx(0.368 / 2, abs=1e-3), pytest.approx((0.607 + 0.135) / 2, abs=1e-3), 0]
    assert read == [[guests, members]]


def test_the_excerpts_may_answer_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [("9 crowns", Excerpt("Pool", "A guest pays 9 crowns."))]
    predicting(monkeypatch, {"9 crowns": 0.0}, answerable=2.0)
    assert choose("What does a guest pay?", asked) == [pytest.approx(0.881, abs=1e-3)]
    predicting(monkeypatch, {"9 crowns": 0.0}, answerable=-2.0)
    assert choose("What does a guest pay?", asked) == [pytest.approx(0.119, abs=1e-3)]


def test_an_answer_whose_sentence_is_not_read_has_no_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    predicting(monkeypatch, {"1 crown": -0.1})
    asked = [(f"{number} crown", Excerpt("Pool", f"It costs {number} crown.")) for number in range(1, 7)]
    assert choose("What does it cost?", asked)[3:] == [0, None, None]
