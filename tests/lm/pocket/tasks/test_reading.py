"""The tasks that answer from passages, and without any."""

from __future__ import annotations

import pytest

from tests.lm.pocket.scene import ANDERS, FERRY, MILL, QUESTION, ask


async def test_reading_gives_the_answer_and_its_rationale() -> None:
    read = await ask("answer.read_cot", question=QUESTION, passages=[FERRY, ANDERS, MILL])
    assert read["answer"] == "Bremen"
    assert "Rolf Anders" in read["rationale"]
    one = await ask("answer.read", question="Who directed Dark Mill?", passages=[MILL])
    assert one["answer"] == "Rolf Anders"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who built the Ost bridge?", "unknown"),
        ("Is Ost a town in Norland?", "no"),
        ("Who is older, Ann Lee or Ida Kuhn?", "unknown"),
        ("", "unknown"),
    ],
)
async def test_closed_book_it_knows_nothing_and_says_so(question: str, answer: str) -> None:
    assert (await ask("answer.direct", question=question))["answer"] == answer
    assert (await ask("answer.cot", question=question))["answer"] == answer
