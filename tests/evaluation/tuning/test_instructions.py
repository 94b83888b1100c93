"""Instructions to try: the list that ships, a file, and what a model fills into templates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.errors import DataError, UsageError
from polyhop.evaluation.tuning.instructions import GAPS, ROUNDS, TEMPLATES, generate_instructions, our_instructions
from polyhop.methods.path_prompts import read_instructions
from polyhop.methods.path_score import PathScoring
from polyhop.methods.registry import method_named, select
from polyhop.prompts.book import PromptBook


def test_ours_are_forty_in_both_places_and_none_is_the_prompt_files() -> None:
    ours = our_instructions()
    assert len(ours) == len({one.casefold() for one in ours}) == 40
    assert PromptBook().scored("promptrank.path").instruction not in ours
    settings = method_named("promptrank").resolve({"instructions": ours})
    positions = [position for _, position in select(PathScoring, settings).placed_instructions]
    assert positions.count("before") == 8
    assert positions.count("after") == 32


def test_a_file_is_read_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("# mine\n\n  Ask, then wait. \nbefore: Read on.\nAsk, then wait.\n")
    assert read_instructions(file) == ["Ask, then wait.", "before: Read on."]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"# nothing\n\n", "no instruction"),
        (b"Ask.\nbefore:\n", r"mine\.txt:2: 'before:' is not an instruction"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "mine.txt").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_instructions(tmp_path / "mine.txt")
    with pytest.raises(DataError, match="cannot be read"):
        read_instructions(tmp_path / "none.txt")


class Filler:
    """Gives its draws out in turn, and none once they are used up."""

    def __init__(self, *draws: Sequence[str]) -> None:
        self.draws, self.asked = list(draws), list[tuple[str, int, int]]()

    def __call__(self, text: str, count: int, seed: int) -> list[Sequence[str]]:
        self.asked.append((text, count, seed))
        given, self.draws = self.draws[:count], self.draws[count:]
        return given


def test_every_second_instruction_is_for_before_the_passages_and_none_keeps_the_guiding_phrase() -> None:
    fill = Filler(*((f"read  {n}", f"write the {n}") for n in range(5)))
    made = generate_instructions(fill, 5, seed=7)
    assert made == [
        "after: Read 0 documents above, then write the 0 question.",
        "before: Read 3 documents below, then write the 3 question.",
        "after: Read 1 documents above, then write the 1 question.",
        "before: Read 4 documents below, then write the 4 question.",
        "after: Read 2 documents above, then write the 2 question.",
    ]
    asked = [(TEMPLATES[position].format(*GAPS), count, 7) for position, count in (("after", 3), ("before", 2))]
    assert fill.asked == asked


def test_what_cannot_be_used_or_came_before_is_drawn_again() -> None:
    useless = [("Read the",), ("", "a"), ("Read", "..."), ("Read", "<extra_id_1> a"), ("Read", "a " * 13), ()]
    fill = Filler(*useless[:2], ("Read", "a"), *useless[2:], ("Read", "a"), ("Look at", "one"))
    assert len(generate_instructions(fill, 2)) == 2
    assert {seed for _, _, seed in fill.asked} == set(range(max(seed for _, _, seed in fill.asked) + 1))


def test_a_model_that_repeats_itself_gives_fewer_and_one_that_cannot_fill_is_an_error() -> None:
    same: list[tuple[int, int]] = []

    def repeat(text: str, count: int, seed: int) -> list[list[str]]:
        same.append((count, seed))
        return [["Read", "a"]] * count

    assert len(generate_instructions(repeat, 200)) == 2
    assert len(same) == 2 * ROUNDS
    with pytest.raises(UsageError, match="filled no gap"):
        generate_instructions(lambda text, count, seed: [["", ""]] * count, 4)


@given(st.lists(st.lists(st.text(max_size=20), max_size=3), max_size=12), st.integers(1, 8))
def test_whatever_is_filled_in_an_instruction_is_one_line_of_its_template(draws: list[list[str]], count: int) -> None:
    try:
        made = generate_instructions(Filler(*draws), count)
    except UsageError:
        return
    assert len(made) == len(set(made)) <= count
    for one in made:
        position, _, text = one.partition(": ")
        assert f"documents {'above' if position == 'after' else 'below'}, then" in text
        assert len(text.splitlines()) == 1
