"""Results tables: which figure is best, second, significantly different; and the same in every form."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from polyhop import Passage, Question, ScriptedLM
from polyhop.engine.budget import Prices
from polyhop.errors import UnknownName
from polyhop.evaluation.figures import distinct
from polyhop.evaluation.report import Report
from polyhop.evaluation.results import Cell, Results, results
from polyhop.evaluation.runner import evaluate
from polyhop.trace import Usage
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]
from tests.kit.reports import report, row


def run(scores: list[float], calls: int = 1, method: str = "cot", **metrics: float) -> Report:
    """A run over as many questions as there are scores."""
    tokens = {"prompt_tokens": 100 * calls, "prompt_tokens_by_model": {"scripted": 100 * calls}}
    usage = Usage(calls=calls, **tokens, searches=1, seconds=calls / 2)  # type: ignore[arg-type]
    return report([row(f"q{n:03}", {"em": em, **metrics}, usage=usage) for n, em in enumerate(scores)], method)


def column(table: Results, name: str) -> dict[str, Cell]:
    at = [measure.name for measure in table.columns].index(name)
    return {run: cells[at] for run, cells in table.rows.items()}


def ranks(table: Results, name: str) -> list[str | None]:
    return [cell.rank for cell in column(table, name).values()]


RUNS = {
    "low": run([0.0] * 40, calls=1),
    "mid": run([1.0] * 12 + [0.0] * 28, calls=8),
    "top": run([1.0] * 20 + [0.0] * 20, calls=4),
}


def test_more_is_better_of_a_metric_and_less_of_a_cost() -> None:
    table = results(RUNS)
    assert ranks(table, "em") == [None, "second", "best"]
    for cost in ("calls", "tokens", "seconds"):
        assert ranks(table, cost) == ["best", None, "second"]
    assert [cell.text for cell in column(table, "em").values()] == ["0.0", "30.0", "50.0"]


def test_intervals_are_added_if_asked_for() -> None:
    assert {cell.interval for cell in column(results(RUNS), "em").values()} == {""}
    widths = [cell.interval for cell in column(results(RUNS, intervals=True), "em").values()]
    assert all(width.startswith("±") for width in widths)


def test_figures_that_read_alike_share_a_rank() -> None:
    close = {"a": run([1.0] * 20), "b": run([1.0] * 19 + [0.9999]), "c": run([0.0] * 20), "d": run([0.0] * 20)}
    assert ranks(results(close), "em") == ["best", "best", "second", "second"]
    assert ranks(results({"alone": close["a"]}), "em") == [None]


def test_what_a_run_has_not_is_a_dash_and_takes_no_part() -> None:
    usage = Usage(searches=1, seconds=0.01)
    retrieving = report([row(f"q{n:03}", {"recall_mean@5": 1.0}, usage=usage) for n in range(40)], "bm25")
    table = results({**RUNS, "bm25": retrieving}, baseline="bm25")
    assert column(table, "em")["bm25"] == Cell()
    assert column(table, "em")["bm25"].text == "–"
    assert ranks(table, "em") == [None, "second", "best", None]
    assert column(table, "calls")["bm25"].rank is None  # it makes none
    assert not any(cell.mark for cells in table.rows.values() for cell in cells)


def test_marks_are_those_of_the_corrected_paired_test() -> None:
    some = run([1.0] * 7 + [0.0] * 33)
    table = results({**RUNS, "some": some}, ["em", "calls"], baseline="low")
    assert [cell.mark for cell in column(table, "em").values()] == ["", "‡", "‡", "†"]
    assert not any(cell.mark for cell in column(table, "calls").values())
    assert any("differs from low" in note and "correction for 3" in note for note in table.notes)
    more = {f"as low {n}": run([0.0] * 40) for n in range(4)}  # more tests, and the weakest is no longer certain
    table = results({**RUNS, "some": some, **more}, ["em"], baseline="low")
    assert [cell.mark for cell in column(table, "em").values()][:4] == ["", "‡", "‡", ""]


def test_runs_on_other_datasets_are_ranked_and_compared_apart() -> None:
    def on(dataset: str, scores: list[float]) -> Report:
        return Report.of(run(scores).rows, {}, method="cot", lm="scripted", dataset=dataset)

    runs = {"a1": on("A", [1.0] * 20), "a2": on("A", [0.0] * 20), "b1": on("B", [0.5] * 20), "b2": on("B", [0.2] * 20)}
    table = results(runs, ["em"], baseline="a1")
    assert ranks(table, "em") == ["best", "second", "best", "second"]
    assert [cell.mark for cell in column(table, "em").values()] == ["", "‡", "", ""]
    assert table.facts["b1"] == {"dataset": "B"}


def test_a_metric_that_repeats_another_is_dropped() -> None:
    rows = [row("a", {"em": 1, "hotpot.em": 1, "squad.em": 0}), row("b", {"em": 0, "hotpot.em": 0, "squad.em": 0})]
    runs = {"one": report(rows), "two": report([row("a", {"em": 1, "musique.answer_em": 1, "f1": 1})])}
    assert distinct(runs) == ["em", "squad.em", "f1"]
    assert distinct({"two": report([row("a", {"em": 1, "hotpot.em": 0, "f1": 1})])}) == ["em", "hotpot.em", "f1"]


def test_columns_come_as_they_were_named_and_an_unknown_one_lists_them() -> None:
    table = results(RUNS, ["calls", "em", "prompt_tokens", "em"])
    assert [measure.name for measure in table.columns] == ["calls", "em", "prompt_tokens"]
    with pytest.raises(UnknownName, match=r"unknown column 'emm'; did you mean 'em'\? Valid: .*calls.*em.*seconds"):
        results(RUNS, ["emm"])
    with pytest.raises(UnknownName, match="unknown run 'best'"):
        results(RUNS, baseline="best")
    with pytest.raises(UnknownName, match="unknown column 'money'"):
        results(RUNS, ["money"])
    assert ranks(results(RUNS, ["money"], prices=Prices.of("1:1")), "money") == ["best", None, "second"]


# --- on the command line, in every form ---------------------------------------------------------------------------

QUESTIONS = [Question(f"q{n}", f"On which river lies Town {n}?", ("Elbe",), gold_ids=("p",)) for n in range(12)]
PASSAGE = Passage("p", "Town", "The town lies on the Elbe.")


def search(query: str, k: int) -> list[Passage]:
    return [PASSAGE]


def replies(task: str, fields: Any) -> dict[str, Any]:
    right = task == "answer.read" or fields["question"].endswith("1?")
    return {"rationale": "", "answer": "Elbe" if right else "Oder"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for method in ("direct", "one-r"):
        evaluate(QUESTIONS, None, method, ScriptedLM(replies), retriever=search, out=tmp_path / "runs" / method)
    evaluate(QUESTIONS, [PASSAGE], "bm25", out=tmp_path / "runs" / "bm25")
    return tmp_path / "runs"


CHOSEN = ("--columns", "em,recall_mean@5,calls", "--baseline", "direct")


def test_a_folder_of_runs_is_its_runs(cli: Cli, folder: Path) -> None:
    found = json.loads(cli("report", folder, "--to", "json").out)
    assert list(found) == [str(folder / name) for name in ("bm25", "direct", "one-r")]
    assert cli("report", folder.parent, "--to", "json").out == cli("report", folder, "--to", "json").out
    assert "not a run's folder" in cli("report", folder / "direct" / "traces").err


def test_names_that_a_person_gives(cli: Cli, folder: Path) -> None:
    done = cli("report", f"Ours={folder / 'one-r'}", folder / "direct", "--to", "markdown", "--columns", "em")
    assert done.out.splitlines()[:4] == [
        "| run | EM |",
        "|---|---|",
        "| Ours | **100.0** |",
        "| direct | <u>16.7</u> |",
    ]
    assert re.search(r"^set/direct\s", cli("report", f"set={folder}", "--columns", "em").out, re.M)


def test_every_form_has_the_same_table(cli: Cli, folder: Path) -> None:
    expected = {"bm25": "– 100.0 0.0", "direct": "16.7 – 1.0", "one-r": "100.0 100.0 1.0"}
    printed = cli("report", folder, *CHOSEN)
    assert printed.code == 0, printed.err
    lines = printed.out.splitlines()
    assert lines[0].split()[:2] == ["run", "EM"]
    assert lines[3].split() == ["one-r", "**100.0**‡", "**100.0**", "**1.0**"]
    assert any("differs from direct" in line for line in lines)
    assert any("ties" not in line and "bold" in line for line in lines)

    table = cli("report", folder, *CHOSEN, "--to", "markdown").out.splitlines()
    assert table[4] == "| one-r | **100.0**‡ | **100.0** | **1.0** |"
    plain = {cells[0]: " ".join(cells[1:]) for cells in map(_plain_cells, table[2:5])}
    assert plain == expected

    tex = cli("report", folder, *CHOSEN, "--to", "latex").out
    assert r"one-r & \textbf{100.0}$^{\ddagger}$ & \textbf{100.0} & \textbf{1.0} \\" in tex
    assert r"direct & \underline{16.7} & -- & \textbf{1.0} \\" in tex
    assert "\\begin{tabular}{lrrr}\n\\toprule\nrun & EM & recall@5 mean & calls \\\\" in tex

    rows = list(csv.DictReader(io.StringIO(cli("report", folder, *CHOSEN, "--to", "csv").out)))
    assert rows[2] == {
        "run": "one-r", "em": "100.0", "em significance": "‡", "recall_mean@5": "100.0",
        "recall_mean@5 significance": "", "calls": "1.0",
    }  # fmt: skip
    assert rows[0]["em"] == ""

    html = folder / "report.html"
    assert cli("report", folder, *CHOSEN, "--to", "html", "--out", html).code == 0
    assert '<th scope="row">one-r</th><td class="number"><strong>100.0</strong>‡</td>' in html.read_text()


def _plain_cells(line: str) -> list[str]:
    return [re.sub(r"[*‡]|</?u>", "", cell).strip() for cell in line.strip("|").split("|")]


def test_compare_begins_with_the_same_table(cli: Cli, folder: Path) -> None:
    done = cli("compare", folder / "direct", folder / "one-r", folder / "bm25")
    assert done.code == 0, done.err
    assert done.out.splitlines()[2].split()[:2] == ["one-r", "**100.0**‡"]
    assert done.out.splitlines()[0].split().count("EM") == 1


def test_a_mistake_names_what_there_is(cli: Cli, folder: Path) -> None:
    done = cli("report", folder, "--columns", "em,cals")
    assert (done.code, "did you mean 'calls'" in done.err) == (2, True)
    assert "unknown run 'tor'. Valid: bm25, direct, one-r" in cli("report", folder, "--baseline", "tor").err
    assert "unknown run 'tor'" in cli("report", folder, "--baseline", "tor", "--by", "hops").err


def test_json_has_the_columns_that_were_chosen(cli: Cli, folder: Path) -> None:
    rows = json.loads(cli("report", folder, *CHOSEN, "--to", "json").out)
    assert rows["one-r"] == {
        "em": 100.0, "em significance": "‡", "recall_mean@5": 100.0, "recall_mean@5 significance": "", "calls": 1.0,
    }  # fmt: skip
    assert rows["bm25"]["em"] is None
    (row,) = json.loads(cli("report", folder / "direct", "--columns", "calls", "--to", "json").out).values()
    assert row == {"calls": 1.0}


def test_parts_are_compared_with_the_baselines_part(cli: Cli, folder: Path) -> None:
    chosen = ("--columns", "em,calls", "--baseline", "direct", "--by", "hops")
    rows = json.loads(cli("report", folder / "direct", folder / "one-r", *chosen, "--to", "json").out)
    assert list(rows) == ["direct, hops 1", "one-r, hops 1"]
    assert (rows["one-r, hops 1"]["em significance"], rows["direct, hops 1"]["em significance"]) == ("‡", "")
    done = cli("report", folder / "direct", folder / "one-r", *chosen)
    assert "differs from direct" in done.out, done.err
    assert "**100.0**‡" in done.out


def test_a_retrieving_run_is_compared_by_what_both_have(cli: Cli, folder: Path) -> None:
    for first, second in (("bm25", "one-r"), ("one-r", "bm25"), ("direct", "bm25")):
        done = cli("compare", folder / first, folder / second)
        assert done.code == 0, done.err
