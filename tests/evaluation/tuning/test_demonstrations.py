"""Demonstrations from labelled questions: which questions, in which order their passages, and what tuning does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polyhop.data.corpora import open_corpus
from polyhop.errors import DataError, SettingError, UsageError
from polyhop.evaluation.gold import in_link_order
from polyhop.evaluation.tuning.demonstrations import gold_paths, write_demonstrations
from polyhop.evaluation.tuning.promptrank import tune_promptrank
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.path_prompts import draw_pairs, read_demonstrations
from polyhop.retrieval.index import Index, index_for
from polyhop.types import Question

TEXTS = {
    "Film": "The film Dark Mill was made by Ann Lee.",
    "Ann Lee": "Ann Lee was born in Elstow.",
    "Elstow": "Elstow is a village.",
    "Rhine": "The Rhine is long.",
    "Loire": "The Loire is longer in France.",
}
LINKS = {"Film": ["Ann Lee"], "Ann Lee": ["Elstow"], "Loire": ["Rhine"]}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    file = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    rows = [
        {"id": f"p{n}", "title": title, "text": text, "links": LINKS.get(title, [])}
        for n, (title, text) in enumerate(TEXTS.items())
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    return index_for(open_corpus(file))


def question(name: str, kind: str, *titles: str, ids: tuple[str, ...] = ()) -> Question:
    return Question(
        name, f"Of a long mill: {name}", answers=("x",), gold_ids=ids, gold_titles=titles, metadata={"type": kind}
    )


BRIDGE = question("a bridge?", "bridge", "Ann Lee", "Film")
COMPARISON = question("rivers", "comparison", "Rhine", "Loire")


def test_a_bridge_is_in_link_order_and_a_comparison_in_the_datasets(index: Index) -> None:
    bridge, comparison = gold_paths([BRIDGE, COMPARISON], index)
    assert (bridge["kind"], [shown["title"] for shown in bridge["passages"]]) == ("bridge", ["Film", "Ann Lee"])
    assert comparison["kind"] == "comparison"
    assert comparison["passages"][0] == {"title": "Rhine", "text": TEXTS["Rhine"]}
    assert [bridge["question"], comparison["question"]] == ["Of a long mill: a bridge?", "Of a long mill: rivers?"]


def test_of_three_passages_the_path_is_found_and_what_has_none_stays(index: Index) -> None:
    passages = list(index.passages)
    film, maker, town, rhine, _ = passages
    assert in_link_order([town, film, maker], index) == (film, maker, town)
    assert in_link_order([town, film], index) == [town, film]
    assert in_link_order([maker, rhine, film], index) == [maker, rhine, film]


@pytest.mark.parametrize(
    "left_out",
    [
        question("half", "bridge", "Film", "Nowhere"),
        question("one", "bridge", "Film"),
        question("none", "bridge"),
        question("by id", "bridge", "Film", "Ann Lee", ids=("p0", "p77")),
    ],
    ids=lambda question: question.id,
)
def test_what_has_no_whole_path_is_left_out(index: Index, left_out: Question, tmp_path: Path) -> None:
    assert gold_paths([left_out], index) == []
    with pytest.raises(UsageError, match="nothing to demonstrate"):
        write_demonstrations(tmp_path / "demos.jsonl", [left_out], index)


def test_what_is_written_can_be_drawn_from(index: Index, tmp_path: Path) -> None:
    file = tmp_path / "demos.jsonl"
    by_id = replace(COMPARISON, id="ids", text="By id?", gold_ids=("p3", "p4"), gold_titles=())
    assert write_demonstrations(file, [BRIDGE, COMPARISON, by_id], index) == {"bridge": 1, "comparison": 2}
    ((comparison, bridge),) = draw_pairs(read_demonstrations(file), 1, 1)
    assert (comparison["kind"], bridge["question"]) == ("comparison", "Of a long mill: a bridge?")
    with pytest.raises(DataError, match="cannot be written"):
        write_demonstrations(tmp_path, [BRIDGE], index)


@pytest.mark.slow
def test_tuning_draws_from_the_file_that_it_writes(index: Index, tmp_path: Path) -> None:
    file, lm = tmp_path / "demos.jsonl", ScriptedLM({}, score=lambda request: -1.0)
    questions = [question(f"{kind} {n}", kind, *titles) for n in range(3) for kind, titles in GOLD.items()]
    given: dict[str, Any] = {"instructions": ["Ask."], "temperatures": (1.0,), "demos_out": file, "first": 3}
    found = tune_promptrank(questions, index, lm, demos=4, demo_seeds=(0, 1), work=tmp_path / "work", **given)
    assert found.settings["demos_from"] == str(file)
    shown = [call.fields["demonstrations"] for call in lm.score_calls if call.fields["demonstrations"]]
    assert {len(demonstrations) for demonstrations in shown} == {2}
    assert {demonstration["question"] for pair in shown for demonstration in pair} <= {f"{q.text}?" for q in questions}
    own = [call for call in lm.score_calls if call.fields["question"] in str(call.fields["demonstrations"])]
    assert own == []  # no question demonstrates itself
    before = len(lm.score_calls)
    again = tune_promptrank(questions, index, lm, demos=4, demo_seeds=(0, 1), work=tmp_path / "work", **given)
    assert (again.to_dict(), len(lm.score_calls)) == (found.to_dict(), before)
    only_written = tune_promptrank(questions, index, lm, **given)
    assert "demos_from" not in only_written.settings
    with pytest.raises(SettingError, match="demos=6: there are 3 comparison and 2 bridge"):
        tune_promptrank(questions, index, lm, demos=6, **given)


@pytest.mark.slow
def test_a_file_that_changed_is_measured_again(index: Index, tmp_path: Path) -> None:
    file, lm = tmp_path / "demos.jsonl", ScriptedLM({}, score=lambda request: -1.0)
    questions = [question(f"{kind} {n}", kind, *titles) for n in range(3) for kind, titles in GOLD.items()]
    given: dict[str, Any] = {"instructions": ["Ask."], "temperatures": (1.0,), "demos_from": str(file), "demos": 2}
    counts = []
    for some in (questions, questions, questions[::-1]):
        write_demonstrations(file, some, index)
        tune_promptrank(questions, index, lm, demo_seeds=(0,), work=tmp_path / "work", **given)
        counts.append(len(lm.score_calls))
    assert counts[0] == counts[1] < counts[2]


GOLD = {"bridge": ("Film", "Ann Lee"), "comparison": ("Rhine", "Loire")}
