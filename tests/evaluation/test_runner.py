"""Runs over datasets: what is written, what a stop loses, what a failing model does."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import polyhop
from polyhop import Passage, Question, ScriptedLM
from polyhop.cli.tables import print_report
from polyhop.errors import DataError, LMError, UsageError
from polyhop.evaluation import predictions, runner
from polyhop.evaluation.figures import numbers
from polyhop.evaluation.pages.summary import tables
from polyhop.evaluation.report import Report
from polyhop.evaluation.runner import run_settings
from polyhop.evaluation.store import RunFolder, read_report
from polyhop.metrics import profiles
from polyhop.pipeline import Pipeline
from tests.evaluation.test_store import files

CORPUS = [Passage(f"p{n}", f"Town {n}", f"Town {n} lies on the river {n}.") for n in range(8)]
QUESTIONS = [
    Question(f"q{n}", f"On which river lies Town {n}?", answers=(f"river {n}",), gold_ids=(f"p{n}",)) for n in range(8)
]


def find(query: str, k: int) -> list[Passage]:
    return [passage for passage in CORPUS if passage.title in query][:k]


def answering(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"answer": fields["passages"][0].text.partition("the ")[2].rstrip(".")}


def run(lm: Any, out: Path | None = None, questions: list[Question] = QUESTIONS, **more: Any) -> Report:
    return polyhop.evaluate(questions, method="one-r", lm=lm, retriever=find, out=out, **more)


def test_a_run_is_measured_and_written_down(tmp_path: Path) -> None:
    report = run(ScriptedLM(answering), tmp_path / "run")
    assert report.metrics["em"].value == report.metrics["f1"].value == 1.0
    assert report.metrics["recall_all@5"].value == 1.0
    assert report.usage.calls == 8
    assert report.parsed_at_first_try == 1.0
    rows = [json.loads(line) for line in (tmp_path / "run" / "predictions.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [question.id for question in QUESTIONS]
    trace = json.loads((tmp_path / "run" / rows[3]["trace"]).read_text())
    assert trace["trace"]["question"] == "On which river lies Town 3?"
    held = json.loads((tmp_path / "run" / "run.json").read_text())
    assert held["method"] == "one-r"
    assert held["settings"]["k"] == 5
    assert len(held["prompts"]["answer.read"]) == 16


def test_the_own_time_of_questions_and_the_pace_of_the_run_stand_side_by_side(tmp_path: Path) -> None:
    report = run(ScriptedLM(answering), tmp_path / "run", QUESTIONS[:3])
    assert report.throughput is not None
    first = read_report(tmp_path / "run").throughput
    assert first == pytest.approx(report.throughput)
    run(ScriptedLM(answering), tmp_path / "run", QUESTIONS[:3])  # nothing is left: the pace stays
    assert read_report(tmp_path / "run").throughput == first
    resumed = run(ScriptedLM(answering), tmp_path / "run", QUESTIONS)
    assert resumed.throughput != first
    printed = Console(file=io.StringIO(), width=100)
    print_report(resumed, printed)
    lines = printed.file.getvalue().splitlines()  # type: ignore[attr-defined]
    for label in ("seconds (own time)", "questions per second (whole run)"):
        assert [line for line in lines if re.match(rf"{re.escape(label)}  +\d", line)]
        assert f">{label}<" in tables({"one": resumed}, None)
    assert {"seconds", "elapsed", "throughput"} <= {*map(str, numbers({"one": resumed})[0])}
    assert {"seconds", "elapsed", "throughput"} <= resumed.to_dict()["volatile"].keys()
    assert resumed.only(lambda row: row["id"] == "q1").throughput is None  # a part of a run has no pace of its own


def test_the_pace_of_a_run_is_its_questions_by_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "monotonic", iter([10.0, 14.0]).__next__)
    assert run(ScriptedLM(answering), questions=QUESTIONS[:3]).throughput == 0.75


def test_the_largest_concurrency_of_a_run_is_kept(tmp_path: Path) -> None:
    for concurrency, kept in ((1, 1), (4, 4), (2, 4)):
        run(ScriptedLM(answering), tmp_path / "run", QUESTIONS[:concurrency], concurrency=concurrency)
        held = json.loads((tmp_path / "run" / "run.json").read_text())
        assert held["volatile"]["concurrency"] == kept
    (tmp_path / "run" / "metrics.json").unlink()  # it has not finished
    assert read_report(tmp_path / "run").throughput is None


@pytest.mark.parametrize("given", [True, False])
def test_what_an_answer_may_be_is_among_the_settings_of_a_run(given: bool) -> None:
    """A run with other such settings is another run; where they are not given, older folders have none."""
    options: dict[str, Any] = {"verify_support": True, "allow_unanswerable": True, "abstain_below": 0.3}
    lm = ScriptedLM(answering)
    with Pipeline(None, "one-r", lm, retriever=find, **(options if given else {})) as pipeline:
        settings = run_settings(pipeline, "questions")
    assert {name: settings[name] for name in options} == (options if given else dict.fromkeys(options))


def test_a_folder_is_one_processes_until_all_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the end of a short run, which writes the predictions again, would lose the rows that a longer one adds."""
    finish, tried = RunFolder.finish, list[Path]()

    def finishing(folder: RunFolder, *given: Any) -> None:
        with pytest.raises(UsageError, match="another process is running here"):
            RunFolder(folder.folder, {}, QUESTIONS)
        tried.append(folder.folder)
        finish(folder, *given)

    monkeypatch.setattr(RunFolder, "finish", finishing)
    run(ScriptedLM(answering), tmp_path / "run", QUESTIONS[:2])
    assert tried == [tmp_path / "run"]
    RunFolder(tmp_path / "run", json.loads((tmp_path / "run" / "run.json").read_text()), QUESTIONS).close()


def test_the_same_command_asks_only_what_is_missing(tmp_path: Path) -> None:
    run(ScriptedLM(answering), tmp_path / "run", QUESTIONS[:3])
    second = ScriptedLM(answering)
    report = run(second, tmp_path / "run")
    assert len(second.calls) == 5
    assert len(report.rows) == 8
    third = ScriptedLM(answering)
    assert len(run(third, tmp_path / "run", QUESTIONS[:2]).rows) == 2
    assert not third.calls
    assert len((tmp_path / "run" / "predictions.jsonl").read_text().splitlines()) == 8


def test_a_last_line_cut_short_is_asked_again(tmp_path: Path) -> None:
    run(ScriptedLM(answering), tmp_path / "run", QUESTIONS[:3])
    path = tmp_path / "run" / "predictions.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    again = ScriptedLM(answering)
    report = run(again, tmp_path / "run", QUESTIONS[:3])
    assert len(again.calls) == 1
    assert [row["id"] for row in report.rows] == ["q0", "q1", "q2"]


def test_a_spoilt_line_in_the_middle_is_named(tmp_path: Path) -> None:
    run(ScriptedLM(answering), tmp_path / "run", QUESTIONS[:3])
    path = tmp_path / "run" / "predictions.jsonl"
    path.write_text("{" + path.read_text())
    with pytest.raises(DataError, match=r"predictions\.jsonl:1"):
        run(ScriptedLM(answering), tmp_path / "run")


def test_a_folder_with_other_settings_is_refused(tmp_path: Path) -> None:
    run(ScriptedLM(answering), tmp_path / "run")
    with pytest.raises(UsageError, match="other settings: settings"):
        run(ScriptedLM(answering), tmp_path / "run", k=2)


def test_a_failing_question_is_named_and_tried_again(tmp_path: Path) -> None:
    def failing(task: str, fields: Mapping[str, Any]) -> Any:
        return LMError("overloaded") if "Town 5" in fields["question"] else answering(task, fields)

    report = run(ScriptedLM(failing), tmp_path / "run", concurrency=1)
    assert report.failed == {"q5": "overloaded"}
    assert len(report.rows) == 7
    again = ScriptedLM(answering)
    assert not run(again, tmp_path / "run").failed
    assert len(again.calls) == 1


def test_a_model_that_never_answers_stops_the_run_at_once(tmp_path: Path) -> None:
    lm = ScriptedLM(lambda task, fields: LMError("refused"))
    with pytest.raises(LMError, match="refused"):
        run(lm, tmp_path / "run", concurrency=2)
    assert len(lm.calls) <= 2


def test_nonsense_never_ends_a_run_nor_becomes_an_answer() -> None:
    report = run(ScriptedLM(lambda task, fields: "\x00" * 50 + "I " * 40))
    assert [row["prediction"] for row in report.rows] == [""] * 8
    assert report.parsed_at_first_try == 0.0
    assert report.usage.defaulted_by_task == {"answer.read": 8}
    assert report.usage.calls == 16


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="file"):
        run(ScriptedLM(answering), tmp_path / "file" / "run")


def test_what_a_model_of_the_users_own_raises_costs_one_question(tmp_path: Path) -> None:
    def broken(task: str, fields: Mapping[str, Any]) -> Any:
        return KeyError("choices") if "Town 5" in fields["question"] else answering(task, fields)

    report = run(ScriptedLM(broken), tmp_path / "run", concurrency=1)
    assert report.failed == {"q5": "KeyError('choices')"}
    assert len(report.rows) == 7


def test_a_model_that_always_raises_ends_the_run_with_its_reason() -> None:
    many = [Question(f"q{n}", f"Town {n}?") for n in range(50)]
    lm = ScriptedLM(lambda task, fields: KeyError("choices"))
    with pytest.raises(polyhop.PolyhopError, match="every question fails: KeyError"):
        polyhop.evaluate(many, method="cot", lm=lm, concurrency=1)
    assert len(lm.calls) == 10


def test_a_bad_record_stops_a_run_before_its_first_call_unless_it_may_be_skipped(tmp_path: Path) -> None:
    path, lm = tmp_path / "questions.jsonl", ScriptedLM({"answer.cot": {"answer": "Ann"}})
    path.write_text('{"id": "q", "question": "Who?", "answers": ["Ann"]}\n{"id": "bad"}\n')
    with pytest.raises(DataError, match=r"questions\.jsonl"):
        polyhop.evaluate(path, method="cot", lm=lm)
    assert not lm.calls
    assert [row["id"] for row in polyhop.evaluate(path, method="cot", lm=lm, skip_bad=True).rows] == ["q"]


def test_a_run_goes_on_while_one_question_of_ten_is_answered() -> None:
    many = [Question(str(n), f"Town {n}?") for n in range(30)]
    lm = ScriptedLM(lambda task, fields: {"answer": "x"} if "0" in fields["question"] else KeyError("choices"))
    report = polyhop.evaluate(many, method="cot", lm=lm, concurrency=1)
    assert [row["id"] for row in report.rows] == ["0", "10", "20"]
    assert len(report.failed) == 27


# --- errors that nobody foresaw, while a row is made or written -------------------------------------------------------


def breaking(monkeypatch: pytest.MonkeyPatch, target: str, question: str = "q5") -> None:
    """Let a function of ``predictions`` fail for a question."""
    function = getattr(predictions, target)

    def broken(asked: Question, *given: Any) -> Any:
        if asked.id == question:
            raise ZeroDivisionError("a fault of ours")
        return function(asked, *given)

    monkeypatch.setattr(predictions, target, broken)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_row_that_cannot_be_made_costs_one_question_and_its_answer_is_kept(
    concurrency: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(ScriptedLM(answering), tmp_path / "whole")
    with monkeypatch.context() as patch:
        breaking(patch, "gold_statistics")
        report = run(ScriptedLM(answering), tmp_path / "run", concurrency=concurrency)
    reason = "answered, but the row could not be written: ZeroDivisionError('a fault of ours')"
    assert report.failed == {"q5": f"{reason}; the answer is in traces/00005.json"}
    assert json.loads((tmp_path / "run" / "traces" / "00005.json").read_text())["answer"] == "river 5"
    assert [row["id"] for row in report.rows] == [f"q{n}" for n in range(8) if n != 5]
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["failed"] == report.failed
    again = ScriptedLM(answering)
    run(again, tmp_path / "run")
    assert len(again.calls) == 1
    assert files(tmp_path / "run") == files(tmp_path / "whole")


def test_answers_whose_rows_all_fail_stop_the_run_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [Question(f"q{n}", f"Town {n}?") for n in range(50)]
    lm = ScriptedLM(lambda task, fields: {"rationale": "So it is.", "answer": "yes"})
    with monkeypatch.context() as patch:
        patch.setattr(predictions, "path_of", lambda answer: {"set": {1}})
        with pytest.raises(polyhop.PolyhopError, match="answered, but the row could not be written: TypeError"):
            polyhop.evaluate(many, method="cot", lm=lm, concurrency=1, out=tmp_path / "run")
    assert len(lm.calls) == 10
    assert len(list((tmp_path / "run" / "traces").iterdir())) == 10
    assert len(polyhop.evaluate(many, method="cot", lm=lm, out=tmp_path / "run").rows) == 50


def test_a_metric_that_fails_costs_its_scores_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(given: object) -> list[dict[str, float]]:
        raise ZeroDivisionError("a fault of ours")

    with monkeypatch.context() as patch:
        patch.setitem(profiles.PROFILES, "hotpot", replace(profiles.PROFILES["hotpot"], score=broken))
        report = run(ScriptedLM(answering), tmp_path / "run", metrics="default,hotpot")
    assert not report.failed
    assert report.metrics["em"].value == 1.0
    assert report.unscored["hotpot.f1"] == "could not be computed: ZeroDivisionError('a fault of ours')"
    assert "hotpot.f1" not in report.rows[0]["metrics"]
    assert read_report(tmp_path / "run", metrics="hotpot").metrics["hotpot.f1"].value == 1.0


def test_an_answer_is_kept_whatever_its_passages_hold(tmp_path: Path) -> None:
    """A retriever of the user's own may add anything to its passages."""

    def find_sets(query: str, k: int) -> list[Passage]:
        return [replace(passage, metadata={"seen": {"today"}}) for passage in find(query, k)]

    out = tmp_path / "run"
    report = polyhop.evaluate(QUESTIONS, method="one-r", lm=ScriptedLM(answering), retriever=find_sets, out=out)
    assert not report.failed
    trace = json.loads((out / "traces" / "00000.json").read_text())
    assert "today" in trace["passages"][0]["metadata"]["seen"]
