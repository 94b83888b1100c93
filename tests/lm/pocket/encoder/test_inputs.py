"""Inputs of the encoder: a question over passages as pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from polyhop import Passage
from polyhop.lm.pocket.encoder.inputs import MAX_PIECES, InputBuilder, best_window
from polyhop.lm.pocket.encoder.wordpiece import WordPiece

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ":", "who", "made", "it", "mill", "dark", "a", "ann", "lee"]
INPUTS = InputBuilder(WordPiece(WORDS))


def pieces(ids: list[int]) -> list[str]:
    """The pieces by name."""
    return [WORDS[number] for number in ids]


def test_an_input_is_question_titles_and_texts_each_piece_with_its_origin() -> None:
    row = INPUTS.build("Who made it", [Passage("1", "Dark Mill", "a mill"), Passage("2", "", "Ann Lee")])
    assert pieces(row.ids) == "[CLS] who made it [SEP] dark mill : a mill [SEP] ann lee [SEP]".split()
    assert row.first == 5
    assert len(row.origins) == len(row.ids) - row.first
    assert [origin and tuple(origin) for origin in row.origins] == [
        (0, True, 0, 4), (0, True, 5, 9), None, (0, False, 0, 1), (0, False, 2, 6), None,
        (1, False, 0, 3), (1, False, 4, 7), None,
    ]  # fmt: skip


def test_a_long_text_is_cut_to_the_window_with_most_of_the_question() -> None:
    text = "a " * 400 + "ann made it " + "a " * 400
    row = INPUTS.build("Who made it", [Passage("1", "", text)], max_pieces=40)
    kept = pieces(row.ids[row.first :])
    assert "made" in kept
    assert "it" in kept
    assert len(row.ids) <= 40


def test_every_passage_has_a_minimum_of_pieces() -> None:
    path = [Passage(str(n), "dark", "mill " * 50) for n in range(4)]
    row = INPUTS.build("who " * 200, path, max_pieces=70)
    assert {origin.passage for origin in row.origins if origin and not origin.in_title} == {0, 1, 2, 3}


@given(st.lists(st.text("adl mi", max_size=300), min_size=1, max_size=4), st.integers(100, MAX_PIECES))
def test_an_input_has_at_most_max_pieces(texts: list[str], length: int) -> None:
    path = [Passage(str(i), "dark mill", text) for i, text in enumerate(texts)]
    assert len(INPUTS.build("who made it", path, length).ids) <= length


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.frozensets(st.integers(0, 5)), st.integers(1, 10))
def test_the_best_window_is_the_earliest_of_those_with_most_wanted_pieces(
    ids: list[int], wanted: frozenset[int], width: int
) -> None:
    distinct = [len(wanted & set(ids[i : i + width])) for i in range(max(1, len(ids) - width + 1))]
    assert best_window(ids, wanted, width) == distinct.index(max(distinct))
