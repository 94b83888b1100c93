"""Pocket on real questions: it answers as well as measured."""

from __future__ import annotations

import json

import pytest

from polyhop.lm.pocket.tasks import do
from polyhop.metrics import f1
from polyhop.types import Passage
from tests.conftest import SHARED

pytestmark = pytest.mark.slow


@pytest.mark.shared
@pytest.mark.parametrize(("name", "floor"), [("hotpotqa", 0.43), ("2wikimultihopqa", 0.68), ("musique", 0.27)])
def test_reading_gold_passages_stays_as_good_as_measured(name: str, floor: float) -> None:
    passages: dict[str, Passage] = {}
    for line in (SHARED / name / "corpus.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        passages[row["pid"]] = Passage(row["pid"], row["title"], row["text"])
    scores = []
    for line in (SHARED / name / "dev.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        gold = [passages[pid] for pid in row["gold_pids"]]
        answer = do("answer.read", {"question": row["question"], "passages": gold})["answer"]
        scores.append(f1(answer, row["answers"]))
    assert sum(scores) / len(scores) >= floor
