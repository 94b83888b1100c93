"""A question over passages, laid out for the encoder."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from polyhop import Passage
from polyhop.lm.pocket.encoder.inputs import MAX_PIECES, InputBuilder, best_window
from polyhop.lm.pocket.encoder.wordpiece import WordPiece

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ":", "who", "made", "it", "mill", "dark", "a", "ann", "lee"]
INPUTS = InputBuilder(WordPiece(WORDS))


def named(ids: list[int]) -> list[str]:
    """The pieces by name."""
    return [WORDS[number] for number in ids]


def test_question_titles_and_texts_stand_in_a_row_each_with_its_place() -> None:
    row = INPUTS.build("Who made it", [Passage("1", "Dark Mill", "a mill"), Passage("2", "", "Ann Lee")])
    assert named(row.ids) == "[CLS] who made it [SEP] dark mill : a mill [SEP] ann lee [SEP]".split()
    assert row.first == 5
    assert len(row.origins) == len(row.ids) - row.first
    places = [place and (place.passage, place.in_title, place.start, place.end) for place in row.origins]
    assert places == [
        (0, True, 0, 4), (0, True, 5, 9), None, (0, False, 0, 1), (0, False, 2, 6), None,
        (1, False, 0, 3), (1, False, 4, 7), None,
    ]  # fmt: skip


def test_a_long_text_gives_the_stretch_that_holds_most_of_the_question() -> None:
    text = "a " * 400 + "ann made it " + "a " * 400
    row = INPUTS.build("Who made it", [Passage("1", "", text)], max_pieces=40)
    told = named(row.ids[row.first :])
    assert "made" in told
    assert "it" in told
    assert len(row.ids) <= 40


def test_no_passage_is_left_without_a_few_pieces() -> None:
    path = [Passage(str(at), "dark", "mill " * 50) for at in range(4)]
    row = INPUTS.build("who " * 200, path, max_pieces=70)
    assert {place.passage for place in row.origins if place and not place.in_title} == {0, 1, 2, 3}


@given(st.lists(st.text("adl mi", max_size=300), min_size=1, max_size=4), st.integers(100, MAX_PIECES))
def test_a_row_is_never_longer_than_told(texts: list[str], length: int) -> None:
    path = [Passage(str(at), "dark mill", text) for at, text in enumerate(texts)]
    assert len(INPUTS.build("who made it", path, length).ids) <= length


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.frozensets(st.integers(0, 5)), st.integers(1, 10))
def test_the_best_stretch_holds_the_most_and_is_the_earliest_of_those(
    ids: list[int], wanted: frozenset[int], room: int
) -> None:
    held = [len(wanted & set(ids[at : at + room])) for at in range(max(1, len(ids) - room + 1))]
    assert best_window(ids, wanted, room) == held.index(max(held))
