"""Parts of a run, by type or by what the method did, and the rate at which search misleads (SearChain, Table 3)."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from polyhop import Passage, Question, ScriptedLM, evaluate
from polyhop.cli import main
from polyhop.errors import UnknownName
from polyhop.evaluation.compare import compare
from polyhop.evaluation.report import Report
from polyhop.evaluation.statistics import Mean
from polyhop.types import Span

TRUTH = {"q0": "zero", "q1": "one", "q2": "two", "q3": "three", "q4": "four"}
RIGHT_CLOSED = {"q0", "q1", "q2"}
CORRECTED_TO = {"q2": "two and a half", "q3": "three"}
"""The answers after the search: it changes the chain's answer to q2 and corrects that to q3."""
QUESTIONS = [
    Question(
        name,
        f"What is {name}?",
        (answer,),
        gold_ids=("a", "b", "b"),
        steps=({"question": "?"},) * 3 if name >= "q3" else (),
        metadata={"type": "bridge" if name < "q2" else "comparison"},
    )
    for name, answer in TRUTH.items()
]


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals are not what is tested here."""
    monkeypatch.setattr("polyhop.evaluation.compare.COMPARISON_RESAMPLES", 20)
    monkeypatch.setattr("polyhop.evaluation.statistics.RESAMPLES", 20)


def script(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    name = fields["question"][8:10]
    answer = TRUTH[name] if name in RIGHT_CLOSED else "elsewhere"
    if task == "searchain.trace":
        return {"content": "So.", "answer": fields["nodes"][-1]["answer"]}
    more = [{"query": "And then?", "answer": "this"}] if name >= "q3" else []
    return {"nodes": [*more, {"query": fields["question"], "answer": answer}], "final": answer}


def search(query: str, k: int) -> list[Passage]:
    return [Passage(query, "", CORRECTED_TO.get(query[8:10], "nothing"))]


def read(question: str, passages: Any) -> list[Span]:
    text = passages[0].text
    return [Span(passages[0].id, text, 0, len(text), float(text != "nothing"))]


def run(out: Path | None = None, **settings: Any) -> Report:
    given: dict[str, Any] = {"method": "searchain", "lm": ScriptedLM(script), "retriever": search, "reader": read}
    return evaluate(QUESTIONS, out=out, consistency="one-way", **given, **settings)


def test_misled_are_those_right_closed_book_and_wrong_with_search(monkeypatch: pytest.MonkeyPatch) -> None:
    closed, searching = run(open_book=False), run()
    assert (closed.metrics["cover_em"].value, searching.metrics["cover_em"].value) == (3 / 5, 4 / 5)
    none_of_three = Mean(0.0, 3, 0.0, 0.0)  # "two and a half" holds "two"
    assert compare(closed, searching).misled == compare(searching, closed).misled == none_of_three
    monkeypatch.setitem(CORRECTED_TO, "q2", "2.5")
    misled = compare(closed, run()).misled
    assert misled is not None
    assert (misled.value, misled.n) == (1 / 3, 3)


def test_misled_compares_a_closed_book_run_with_one_that_searches() -> None:
    closed, searching = run(open_book=False), run()
    assert compare(closed, closed).misled is None
    assert compare(searching, searching).misled is None
    never_right = closed.only(lambda row: row["id"] in ("q3", "q4"))
    assert compare(never_right, searching).misled is None
    assert compare(never_right, searching).to_dict()["misled"] is None


def test_steps_by_hop() -> None:
    parts = run(open_book=False).by("hops")
    assert {name: (part.statistics["steps"].value, len(part.rows)) for name, part in parts.items()} == {
        "2": (1.0, 3),
        "3": (2.0, 2),
    }
    assert [(name, len(part.rows)) for name, part in run().by("type").items()] == [("bridge", 2), ("comparison", 3)]


def test_the_questions_that_search_changed() -> None:
    parts = run().by("changed by search")
    assert {name: [row["id"] for row in part.rows] for name, part in parts.items()} == {
        "0": ["q0", "q1", "q4"],
        "1": ["q2", "q3"],
    }
    assert parts["0"].metrics["cover_em"].value == 2 / 3
    assert parts["0"].metrics["cover_em"].n == 3
    assert parts["1"].usage.calls == sum(row["usage"]["calls"] for row in parts["1"].rows)


def test_a_key_that_no_question_has_is_an_error_with_those_there_are() -> None:
    with pytest.raises(UnknownName, match=r"'node'.*nodes"):
        run().by("node")
    with pytest.raises(UnknownName, match="'type'"):
        run().only(lambda row: False).by("type")


def test_report_by_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def output(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["polyhop", *arguments])
        monkeypatch.setenv("COLUMNS", "160")
        with contextlib.suppress(SystemExit):
            main()
        return capsys.readouterr().out

    open_book, closed_book = str(tmp_path / "open"), str(tmp_path / "closed")
    run(Path(open_book)), run(Path(closed_book), open_book=False)
    parts = json.loads(output("report", open_book, closed_book, "--by", "changed by search", "--format", "json"))
    assert {name: part["metrics"]["cover_em"]["value"] for name, part in parts.items()} == {
        f"{open_book}, changed by search 0": 0.666667,
        f"{closed_book}, changed by search 0": 0.666667,  # the same questions, though it searched for none
        f"{open_book}, changed by search 1": 1.0,
        f"{closed_book}, changed by search 1": 0.5,
    }
    lines = output("report", closed_book, "--by", "hops").splitlines()
    assert [line.split()[1::2] for line in lines if line.startswith("steps")] == [["1.00", "2.00"]]
    assert "| steps |" in output("report", closed_book, "--by", "type", "--format", "markdown")
    assert "misled: 0.0 % of the 3 questions right without search" in output("compare", closed_book, open_book)
    (comparison,) = json.loads(output("compare", closed_book, open_book, "--json"))["comparisons"]
    assert comparison["misled"] == {"value": 0.0, "low": 0.0, "high": 0.0, "n": 3}
