"""Several methods over the same questions: one table, like with like."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from polyhop import Passage, Question
from polyhop.cli.app import app
from polyhop.data.corpora import open_corpus
from polyhop.data.questions import read_questions
from polyhop.errors import SettingError, UnknownName, UsageError
from polyhop.evaluation.runner import evaluate
from polyhop.evaluation.runs import evaluate_methods, parse_methods
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.registry import methods

CORPUS = [Passage("p1", "Oslo", "Oslo is the capital of Norway."), Passage("p2", "Lima", "Lima is in Peru.")]
QUESTIONS = [Question("q1", "What is the capital of Norway?", ("Oslo",), gold_ids=("p1",))]
run = CliRunner().invoke


def knows(task: str, fields: object) -> dict[str, str]:
    return {"answer": "Oslo"}


def test_names_are_listed_once_and_all_is_every_method() -> None:
    assert parse_methods("one-r, direct,one-r") == ["one-r", "direct"]
    assert parse_methods("all") == list(methods())
    with pytest.raises(UnknownName, match=r"one_r.*one-r"):
        parse_methods("direct,one_r")


def test_each_method_is_measured_as_by_itself(tmp_path: Path) -> None:
    found = evaluate_methods(["direct", "one-r"], QUESTIONS, CORPUS, ScriptedLM(knows), out=tmp_path, k=1)
    assert list(found.reports) == ["direct", "one-r"]
    assert not found.left_out
    alone = evaluate(QUESTIONS, CORPUS, "one-r", ScriptedLM(knows), out=tmp_path / "alone", k=1)
    assert found.reports["one-r"].metrics == alone.metrics
    kept = json.loads((tmp_path / "one-r" / "run.json").read_text())
    assert kept == json.loads((tmp_path / "alone" / "run.json").read_text())


def test_a_setting_goes_to_the_methods_that_have_it(tmp_path: Path) -> None:
    evaluate_methods(["direct", "one-r"], QUESTIONS, CORPUS, ScriptedLM(knows), out=tmp_path, shots=0, k="2")
    settings = {
        name: json.loads((tmp_path / name / "run.json").read_text())["settings"] for name in ("direct", "one-r")
    }
    assert settings["direct"] == {"shots": 0}
    assert settings["one-r"]["k"] == 2
    assert settings["one-r"]["shots"] == 0


def test_what_no_method_has_or_takes_is_an_error_before_any_call() -> None:
    lm = ScriptedLM({})
    with pytest.raises(UnknownName, match="widths"):
        evaluate_methods(["direct", "one-r"], QUESTIONS, CORPUS, lm, widths=(5,))
    with pytest.raises(SettingError, match="k='none'"):
        evaluate_methods(["direct", "one-r"], QUESTIONS, CORPUS, lm, k="none")
    assert not lm.calls


def test_a_method_that_lacks_something_is_left_out_with_the_reason() -> None:
    found = evaluate_methods(["direct", "one-r", "promptrank"], QUESTIONS, None, ScriptedLM(knows))
    assert list(found.reports) == ["direct"]
    assert "corpus" in found.left_out["one-r"]
    with_corpus = evaluate_methods(["direct", "promptrank"], QUESTIONS, CORPUS, ScriptedLM(knows))
    assert "score" in with_corpus.left_out["promptrank"]


def test_none_that_can_run_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"none of these methods can run.*one-r"):
        evaluate_methods(["one-r", "tor"], QUESTIONS, None, ScriptedLM({}))


def test_a_second_time_asks_nothing(tmp_path: Path) -> None:
    evaluate_methods(["direct", "one-r"], QUESTIONS, CORPUS, ScriptedLM(knows), out=tmp_path)
    again = ScriptedLM(knows)
    seen: list[tuple[int, int]] = []
    evaluate_methods(
        ["direct", "one-r"], QUESTIONS, CORPUS, again, out=tmp_path, progress=lambda d, t: seen.append((d, t))
    )
    assert not again.calls


def test_progress_counts_over_all_methods() -> None:
    seen: list[tuple[int, int]] = []
    evaluate_methods(
        ["direct", "cot"], QUESTIONS, None, ScriptedLM(knows), progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(1, 2), (2, 2)]


@pytest.mark.slow
def test_all_on_the_command_line(tmp_path: Path) -> None:
    result = run(app, ["run", "--dataset", "demo", "--method", "all", "--limit", "1", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    for name in methods():
        assert f"\n{name} " in result.output
        assert (tmp_path / name / "metrics.json").is_file() == (name != "full-context")
    assert "full-context was left out: full-context reads the whole corpus" in result.output


def test_all_as_json() -> None:
    done = run(app, ["run", "--dataset", "demo", "--method", "one-r,direct", "--limit", "1", "--json"])
    assert list(json.loads(done.stdout)["reports"]) == ["one-r", "direct"]


def test_demo_is_a_name_unless_something_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(read_questions("demo")) > 100
    assert sum(1 for _ in open_corpus("demo")) > 300
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").write_text('{"question": "Mine?", "answers": ["yes"]}\n')
    assert [question.text for question in read_questions("demo")] == ["Mine?"]


@pytest.mark.slow
def test_the_typical_calls_of_methods_are_those_of_the_demo() -> None:
    reports = evaluate_methods(parse_methods("all"), "demo", "demo", limit=3).reports
    for name, report in reports.items():
        measured, declared = report.usage.calls / len(report.rows), methods()[name].calls
        assert declared is not None, name
        assert declared * 0.5 <= measured <= declared * 2, (name, measured, declared)


def test_every_method_that_ships_is_of_a_family() -> None:
    shipped = [known for known in methods().values() if known.function.__module__.startswith("polyhop.")]
    assert len(shipped) > 30
    assert not [known.name for known in shipped if known.family == "other"]


@pytest.mark.slow
def test_under_a_set_up_one_retrieval_also_reads_as_much_as_the_methods_that_search_again(tmp_path: Path) -> None:
    many = [*CORPUS, *(Passage(f"n{i}", f"Norway {i}", "Norway has a capital.") for i in range(30))]
    lm = ScriptedLM(knows)
    found = evaluate_methods(["one-r", "iter-retgen"], QUESTIONS, many, lm, out=tmp_path / "runs", setup="resp")
    assert [*found.reports] == ["one-r", "iter-retgen", "one-r k=15"]
    settings = json.loads((tmp_path / "runs" / "one-r-k15" / "run.json").read_text())["settings"]
    assert (settings["k"], settings["rank_limit"], settings["shots"]) == (15, 15, 0)
    row = found.reports["one-r k=15"].rows[0]
    trace = json.loads((tmp_path / "runs" / "one-r-k15" / row["trace"]).read_text())["trace"]
    (call,) = [step for step in trace["steps"] if step["kind"] == "ask"]
    assert len(call["fields"]["passages"]) == 15
    assert [*evaluate_methods(["one-r", "direct"], QUESTIONS, many, lm, setup="resp").reports] == ["one-r", "direct"]
    assert [*evaluate_methods(["one-r", "cor"], QUESTIONS, many, lm, k=3, setup="resp").reports] == ["one-r", "cor"]
    assert len(evaluate_methods(["one-r", "cor"], QUESTIONS, many, lm, setup="promptrank").reports) == 2


def test_a_method_that_lacks_its_data_is_left_out_with_the_reason() -> None:
    ungrounded = [Question("q1", "What is the capital of Norway?", ("Oslo",))]
    found = evaluate_methods(["gold", "one-r"], ungrounded, CORPUS, ScriptedLM(knows))
    assert [*found.reports] == ["one-r"]
    assert "no gold passage" in found.left_out["gold"]
    with pytest.raises(UsageError, match="none of these methods can run; gold: no gold passage"):
        evaluate_methods(["gold"], ungrounded, CORPUS, ScriptedLM(knows))
