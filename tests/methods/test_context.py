"""Prompts that are too long: what is shortened first, what goes, and the note that says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from polyhop.methods.context import cut_oldest, fit_fields, fit_items, fit_passages, fit_to_context
from polyhop.prompts.tasks.answers import ANSWER_READ
from polyhop.types import Passage

NEWEST, OLDER, OLDEST = (Passage(name, name.upper(), f"{name} " * 10) for name in ("newest", "older", "oldest"))
PASSAGES = [NEWEST, OLDER, OLDEST]


class Notebook:
    """The part of a run that shortening uses; a token is a word."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, dict[str, Any]]] = []

    def note(self, name: str, **data: Any) -> None:
        self.notes.append((name, data))

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def truncate(self, text: str, tokens: int) -> str:
        return " ".join(text.split()[:tokens])

    def prompt_tokens(
        self, task: Any, *, options: Any, passages: Sequence[Passage], triplets: Any = (), history: Any = ()
    ) -> int:
        """A triplet and a step of the history are 10 tokens each."""
        return sum(1 + len(passage.text.split()) for passage in passages) + 10 * (len(triplets) + len(history))


def within(words: int) -> Callable[[Sequence[Passage]], bool]:
    """True for passages of at most so many words, their titles counted."""
    return lambda passages: sum(1 + len(passage.text.split()) for passage in passages) <= words


@pytest.mark.parametrize(
    ("words", "lengths", "note"),
    [
        (33, [10, 10, 10], None),
        (32, [10, 10, 0], {"shortened": ["OLDEST"]}),
        (22, [10, 0, 0], {"shortened": ["OLDER", "OLDEST"]}),
        (12, [10, 0], {"shortened": ["OLDER"], "passages": ["OLDEST"]}),
        (11, [10], {"passages": ["OLDER", "OLDEST"]}),
        (10, [9], {"shortened": ["NEWEST"], "passages": ["OLDER", "OLDEST"]}),
        (1, [0], {"shortened": ["NEWEST"], "passages": ["OLDER", "OLDEST"]}),
        (0, [], {"passages": ["NEWEST", "OLDER", "OLDEST"]}),
    ],
)
def test_the_oldest_become_titles_then_they_go_and_the_newest_is_cut_last(
    words: int, lengths: list[int], note: dict[str, list[str]] | None
) -> None:
    run: Any = Notebook()
    kept = fit_passages(PASSAGES, within(words), run)
    assert kept == PASSAGES[: len(kept)]
    assert [len(passage.text.split()) for passage in kept] == lengths
    assert run.notes == ([("left out", note)] if note else [])


def test_no_passages_are_no_note() -> None:
    run: Any = Notebook()
    assert fit_passages([], within(0), run) == []
    assert run.notes == []


@pytest.mark.parametrize(("room", "kept"), [(0, ""), (2, "ab"), (3, "abc"), (9, "abc")])
def test_the_first_items_are_kept_as_many_as_fit(room: int, kept: str) -> None:
    assert "".join(fit_items("abc", lambda items: len(items) <= room)) == kept


def test_a_baseline_notes_the_passages_that_its_prompt_cannot_hold() -> None:
    run: Any = Notebook()
    fields = fit_to_context(ANSWER_READ, PASSAGES, run, options={}, context_tokens=15)
    assert [len(passage.text.split()) for passage in fields["passages"]] == [10, 3]
    assert run.notes == [("left out", {"shortened": ["OLDER"], "passages": ["OLDEST"]})]
    steps = [{"passages": [OLDEST]}, {"passages": [NEWEST]}]
    assert cut_oldest(steps, lambda cut: within(12)([p for step in cut for p in step["passages"]]), run) == [
        {"passages": [replace(OLDEST, text="")]}, {"passages": [NEWEST]},
    ]  # fmt: skip
    assert run.notes[1:] == [("left out", {"shortened": ["OLDEST"]})]


@pytest.mark.parametrize(
    ("tokens", "kept", "lost"),
    [
        (51, "newest ab 12", {}),
        (50, "newest ab 12", {"shortened": ["NEWEST"]}),
        (40, "ab 12", {"passages": ["NEWEST"]}),
        (39, "a 12", {"passages": ["NEWEST"], "triplets": ["(b; is; it)"]}),
        (20, "12", {"passages": ["NEWEST"], "triplets": ["(a; is; it)", "(b; is; it)"]}),
        (10, "2", {"passages": ["NEWEST"], "triplets": ["(a; is; it)", "(b; is; it)"], "steps": ["1"]}),
        (0, "", {"passages": ["NEWEST"], "triplets": ["(a; is; it)", "(b; is; it)"], "steps": ["1", "2"]}),
    ],
)
def test_passages_go_first_then_the_last_triplets_then_the_oldest_steps(
    tokens: int, kept: str, lost: dict[str, list[str]]
) -> None:
    run: Any = Notebook()
    fields = fit_fields(
        ANSWER_READ, run, options={}, context_tokens=tokens,
        passages=[NEWEST],
        triplets=[{"head": name, "relation": "is", "tail": "it"} for name in "ab"],
        history=[{"sub_question": name, "answer": "it"} for name in "12"],
    )  # fmt: skip
    names = (
        [passage.id for passage in fields["passages"]],
        [triplet["head"] for triplet in fields["triplets"]],
        [step["sub_question"] for step in fields["history"]],
    )
    assert " ".join(filter(None, map("".join, names))) == kept
    assert {kind: left_out for _, note in run.notes for kind, left_out in note.items()} == lost
