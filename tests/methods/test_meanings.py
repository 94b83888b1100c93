"""The meanings of settings, which are the comments beside them in a method's source."""

from __future__ import annotations

from typing import Annotated

import pytest

from polyhop.answer import Answer
from polyhop.engine.run import Run
from polyhop.methods.meanings import meaning, meanings
from polyhop.methods.registry import Method, method_named


def of(function: object) -> Method:
    return Method("own", function, "", lambda settings: 1, lambda settings: ())  # type: ignore[arg-type]


def test_the_comment_beside_a_setting_is_its_meaning() -> None:
    async def inner(
        question: str,
        run: Run,
        *,
        depth: Annotated[int, "steps"] = 3,  # maximum number of hops
        width: int = 2,
    ) -> Answer:
        return Answer("")

    assert dict(meanings(of(inner))) == {"depth": "maximum number of hops", "width": ""}


def test_a_method_without_a_source_has_no_meanings() -> None:
    made: dict[str, object] = {}
    exec("async def typed(question, run, *, depth=3): ...", made)  # noqa: S102
    assert dict(meanings(of(made["typed"]))) == {}


@pytest.mark.parametrize(
    ("method", "setting", "words"),
    [
        ("crag", "strip_sentences", "length of a strip (§4.4)"),
        ("tor", "shots", "demonstrations per prompt (§4.4)"),
        ("cot-sc", "shots", "demonstrations per prompt"),
    ],
)
def test_the_part_of_the_paper_comes_after_the_words(method: str, setting: str, words: str) -> None:
    assert meaning(method_named(method), setting) == words
