"""Examples over one passage: facts, their look-alikes and claims; held-out domains stay out."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest
from training.data import Example
from training.sets import HELD_OUT
from training.single import Fact, contrasts, documents, encyclopedic, renamed

from tests.training.test_sets import SET


@pytest.fixture
def made(tmp_path: Path) -> list[Example]:
    for domain in ("company", HELD_OUT[0]):
        (tmp_path / domain).mkdir()
        (tmp_path / domain / "ledger.txt").write_text(SET.replace("Ledger", domain.title()), encoding="utf-8")
    return list(documents(tmp_path, random.Random(0)))


def test_facts_are_read_off_one_passage(made: list[Example]) -> None:
    facts = {example.question: example for example in made if example.source == "single"}
    assert {"Who leads the Company team?", "Where does Tomas Lindqvist work?"} <= facts.keys()
    for example in facts.values():
        assert len(example.passages) == 1
        assert example.spans
    assert not any(HELD_OUT[0].title() in example.question for example in made)


def test_passages_without_the_answer_answer_nothing(made: list[Example]) -> None:
    near = [example for example in made if example.source == "single_near"]
    assert near
    for example in near:
        assert example.kind == "none"
        assert not example.enough
        if "Tomas" in example.question:
            assert "Malmö" not in example.passages[0][1]


def test_a_name_gives_way_to_one_of_its_role() -> None:
    fact = Fact("Where does Ana Roth live?", "Cork", ("people", "Ana Roth lives in Cork."))
    names = {"who": ["Ana Roth", "Ida Kuhn"], "where": ["Oslo"]}
    assert renamed(fact, names, random.Random(0)) == "Where does Ida Kuhn live?"
    both = fact._replace(passage=("people", "Ana Roth lives in Cork, Ida Kuhn in Oslo."))
    assert renamed(both, names, random.Random(0)) is None


def _write(folder: Path, name: str, rows: list[dict[str, object]]) -> None:
    (folder / "reader").mkdir(exist_ok=True)
    with gzip.open(folder / "reader" / f"{name}.jsonl.gz", "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(row) + "\n" for row in rows)


def test_every_true_claim_has_a_false_one(tmp_path: Path) -> None:
    text = "Ana Roth leads the lab in Cork. Ida Kuhn leads the mill in Oslo."
    rows: list[dict[str, object]] = [
        {"question": question, "context": text, "title": "", "type": "span",
         "answers": [{"text": answer, "start": text.index(answer)}]}
        for question, answer in (("Who leads the lab?", "Ana Roth"), ("Who leads the mill?", "Ida Kuhn"))
    ]  # fmt: skip
    _write(tmp_path, "squad_dev", rows)
    claims = {(example.question, example.kind) for example in encyclopedic(tmp_path, random.Random(0))}
    assert claims == {
        ("Does Ana Roth lead the lab?", "yes"), ("Does Ida Kuhn lead the lab?", "no"),
        ("Does Ida Kuhn lead the mill?", "yes"), ("Does Ana Roth lead the mill?", "no"),
    }  # fmt: skip


def test_contrasts_stay_together(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"question": f"Is it {number}?", "context": f"{kind} {number}", "type": kind}
        for number in range(6)
        for kind in ("yes", "no", "none")
    ]
    _write(tmp_path, "condaqa", [*rows, {"question": "Alone?", "context": "x", "type": "yes"}])
    made = list(contrasts(tmp_path, random.Random(0), most=6))
    assert [example.kind for example in made] == ["yes", "no", "none"] * 2
    assert len({example.question for example in made}) == 2
