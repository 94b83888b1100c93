"""The messages of a call whose reply continues a text, in place of one that answers an instruction."""

from __future__ import annotations

from typing import Any

import pytest

from polyhop.prompts.book import PromptBook
from polyhop.prompts.protocol import named
from polyhop.prompts.tasks import CONTINUED

BOOK = PromptBook()
FIELDS: dict[str, Any] = {
    "question": "Who led it?", "system": "Think, then search.", "user": "Question: Who led it?",
    "assistant": "<think>The raft is", "draft": "", "tags": named("search-r1").marks, "steps": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("form", "roles"),
    [("turn", "system user assistant"), ("text", "system user assistant"), ("shown", "system user")],
)
@pytest.mark.parametrize("task", CONTINUED)
def test_the_text_so_far_is_a_turn_of_the_model_or_shown_in_the_users(task: str, form: str, roles: str) -> None:
    turns = BOOK[task].render({**FIELDS, "form": form})
    assert " ".join(turn["role"] for turn in turns) == roles
    assert turns[0]["content"] == FIELDS["system"]
    assert [turn["role"] for turn in turns if FIELDS["assistant"] in turn["content"]] == [roles.split()[-1]]


@pytest.mark.parametrize("task", CONTINUED)
def test_before_its_first_word_there_is_no_turn_of_the_model(task: str) -> None:
    turns = BOOK[task].render({**FIELDS, "form": "text", "assistant": ""})
    assert [turn["role"] for turn in turns] == ["system", "user"]
