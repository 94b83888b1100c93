"""PromptRank's recipes: the instructions and demonstrations of each row, and shapes that come out either way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from polyhop.cli.app import app
from polyhop.errors import PromptError
from polyhop.evaluation.reproduction.benchmarks import Benchmark, Benchmarks
from polyhop.evaluation.reproduction.jobs import CannotRun, Job, UserInputs, jobs
from polyhop.evaluation.reproduction.recipe import recipe
from polyhop.evaluation.reproduction.reproduce import reproduce
from polyhop.evaluation.tuning.instructions import our_instructions
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.registry import method_named
from tests.methods.test_path_prompts import labelled

RANKED = ["before: One.", "Two.", "after: Three.", "Four.", "before: Five.", "Six."]


def jobs_of(key: str, row: str, **given: Any) -> list[Job]:
    """The jobs of a row on the demonstration set."""
    table = recipe(f"promptrank/{key}")
    (found,) = [each for each in table.rows if each.name == row]
    return jobs(table, found, next(iter(table.datasets)), None, UserInputs(Benchmarks({}), **given))


def values(found: list[Job], setting: str) -> list[Any]:
    return [dict(job.settings).get(setting) for job in found]


# --- instructions -----------------------------------------------------------------------------------------------------


def test_the_best_is_the_first_and_the_ensemble_the_first_five() -> None:
    for given, ranked in ((RANKED, RANKED), (None, our_instructions())):
        best = jobs_of("table1", "T5-XL, best instruction, T 1.4", instructions=given)
        several = jobs_of("table1", "T5-XL, max over 5 instructions, T 1.4", instructions=given)
        assert values(best, "instructions") == [(ranked[0],)]
        assert values(several, "instructions") == [tuple(ranked[:5])]
    with pytest.raises(CannotRun, match="5 instructions are needed; the file has 2"):
        jobs_of("table1", "T5-XL, max over 5 instructions, T 1.4", instructions=RANKED[:2])


def test_every_row_of_figures_4_and_5_is_at_temperature_1() -> None:
    for key in ("figure4", "figure5"):
        assert {row.settings["temperature"] for row in recipe(f"promptrank/{key}").rows} == {1.0}


def test_figure_4s_manual_instruction_runs_at_both_positions_and_the_best_needs_a_file() -> None:
    manual = jobs_of("figure4", "T5-XL, manual", instructions=RANKED)
    assert values(manual, "instruction_position") == ["after", "before"]
    assert values(manual, "instructions") == [None, None]
    assert values(jobs_of("figure4", "T5-XL, searched", instructions=RANKED), "instructions") == [(i,) for i in RANKED]
    best = jobs_of("figure4", "T5-XL, best on 128", instructions=RANKED)
    assert values(best, "instructions") == [("before: One.",)]
    with pytest.raises(CannotRun, match="the best of 128 labelled questions: --instructions FILE"):
        jobs_of("figure4", "T5-XL, best on 128")


def test_figure_5_compares_instructions_worded_for_their_position() -> None:
    assert values(jobs_of("figure5", "T5-XL, before", instructions=RANKED), "instructions") == [
        ("before: One.",),
        ("before: Five.",),
    ]
    assert values(jobs_of("figure5", "T5-XL, after", instructions=RANKED), "instructions") == [
        ("Two.",),
        ("after: Three.",),
        ("Four.",),
        ("Six.",),
    ]
    assert len(jobs_of("figure5", "T5-XL, after")) == 32
    assert len(jobs_of("figure5", "T5-XL, before", repeat=3)) == 3
    with pytest.raises(CannotRun, match="no instruction that stands before the path"):
        jobs_of("figure5", "T5-XL, before", instructions=["Two."])


# --- demonstrations ---------------------------------------------------------------------------------------------------


def test_demonstrations_are_drawn_from_the_file_by_the_seed_of_each_run(tmp_path: Path) -> None:
    file = str(labelled(tmp_path / "demos.jsonl", 4, 4))
    found = jobs_of("table1", "T5-XL, 8 demonstrations", demos_from=file)
    assert [job.seed for job in found] == [0, 1, 2, 3, 4]
    assert set(values(found, "demos_from")) == {file}
    assert set(values(found, "demo_seed")) == {None}
    assert values(jobs_of("table1", "T5-XL, no instruction", demos_from=file), "demos_from") == [None]
    with pytest.raises(CannotRun, match="demos=10: there are 4 comparison and 4 bridge questions"):
        jobs_of("table1", "T5-XL, 10 demonstrations", demos_from=file)


def test_the_runs_show_other_demonstrations(tmp_path: Path) -> None:
    file = labelled(tmp_path / "demos.jsonl", 30, 30)
    lm = ScriptedLM({}, score=lambda request: -1.0)
    question = {
        "id": "q",
        "question": "Where is the mill?",
        "answers": ["Here"],
        "gold_titles": ["P"],
        "type": "bridge",
    }
    (tmp_path / "dev.jsonl").write_text(json.dumps(question))
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"id": "p", "title": "P", "text": "The mill stands in Bath."}))
    given = {"hotpotqa": Benchmark({"dev": tmp_path / "dev.jsonl"}, tmp_path / "corpus.jsonl")}
    reproduce("promptrank/tableA5", given, lm, demos_from=file)
    prompts = [call.prompt for call in lm.score_calls]
    assert len(prompts) == 5 * 5
    assert len(set(prompts)) > 20  # 10 demonstrations a run, five runs
    with pytest.raises(PromptError, match=r"none\.jsonl: cannot be read"):
        reproduce("promptrank/tableA5", given, lm, demos_from=tmp_path / "none.jsonl")


# --- what the paper had, and what is ours -----------------------------------------------------------------------------


def test_the_tables_of_answers_weigh_raw_values_as_the_papers_reader_does() -> None:
    for key, row in (("table2", "no instruction"), ("table2", "10 demonstrations"), ("table3", "2 demonstrations")):
        assert recipe(f"promptrank/{key}").settings["promptrank"] == {"combine": "raw", "path_weight": 0.9}
        if key == "table2":  # the demonstration set has no test questions
            assert set(values(jobs_of(key, row), "combine")) == {"raw"}
            assert set(values(jobs_of(key, row), "path_weight")) == {0.9}
    chosen = method_named("promptrank").resolve({})
    assert (chosen["combine"], chosen["path_weight"]) == ("scaled", 0.5)


@pytest.mark.slow
def test_what_is_ours_and_the_demonstrations_are_printed(tmp_path: Path) -> None:
    arguments = ["reproduce", "promptrank/table2", "--limit", "1", "--repeat", "1", "--out", str(tmp_path)]
    printed = " ".join(CliRunner().invoke(app, arguments).output.split())
    assert "demonstrations: promptrank 0 to 10" in printed
    assert "set in every row: promptrank combine=raw" in printed
    assert "our values The instructions, unless --instructions FILE gives some" in printed
    assert "the paper's ten, typed from its Table A1, best first, with before: in front" in printed
