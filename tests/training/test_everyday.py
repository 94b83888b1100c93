"""Examples of document sets: their spans are the answers, held-out domains stay out."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from training.everyday import everyday
from training.sets import HELD_OUT

from tests.training.test_sets import SET


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for domain in ("company", HELD_OUT[0]):
        (tmp_path / domain).mkdir()
        (tmp_path / domain / "ledger.txt").write_text(SET.replace("Ledger", domain.title()), encoding="utf-8")
    return tmp_path


def test_a_set_gives_examples(folder: Path) -> None:
    made = list(everyday(folder, random.Random(0)))
    assert {example.source for example in made} == {"everyday", "everyday_step"}
    assert not any(HELD_OUT[0].title() in example.question for example in made)
    whole = [example for example in made if "lead of the Company" in example.question and example.enough]
    assert whole
    for example in whole:
        assert {example.passages[at][1][start:end] for at, start, end in example.spans} == {"Malmö"}
    on_the_way = {
        example.passages[at][1][start:end]
        for example in made
        if "lead of the Company" in example.question and not example.enough and example.relevant
        for at, start, end in example.spans
        if len(example.passages) == 1 and "led by" in example.passages[at][1]
    }
    assert "Tomas Lindqvist" in on_the_way
    steps = [example for example in made if example.source == "everyday_step"]
    assert {example.kind for example in steps} == {"span", "none"}
    assert {example.kind for example in made if "budget" in example.question} == {"none"}
