"""SearChain's recipes: they set what the paper had, and print the reader, the demonstrations and what is ours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from polyhop.cli.app import app
from polyhop.evaluation.reproduction.benchmarks import Benchmark, Benchmarks
from polyhop.evaluation.reproduction.jobs import Job, UserInputs, beside, jobs, settings_of_paper
from polyhop.evaluation.reproduction.recipe import keys, recipe
from polyhop.evaluation.reproduction.reproduce import reproduce
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.registry import method_named
from polyhop.types import Passage, Span

RESULTS = [key for key in keys() if key.startswith("searchain/") and recipe(key).is_result]


def every_job(key: str, **given: Any) -> list[Job]:
    """The runs of all rows of a recipe, also those that a row is compared with."""
    table, inputs = recipe(key), UserInputs(Benchmarks({}), **given)
    rows = [row for row in table.rows if row.method and not row.ours]
    rows += [beside(row, row.beside) for row in rows if row.beside]
    return [job for row in rows for name in table.datasets for job in jobs(table, row, name, None, inputs)]


@pytest.mark.parametrize("key", RESULTS)
def test_a_recipe_sets_what_the_paper_had(key: str) -> None:
    for job in every_job(key):
        settings = dict(job.settings)
        if "k" in method_named(job.method).settings:
            assert settings["k"] == 1, job.method
        if job.method == "searchain":
            assert (settings["consistency"], settings["max_rounds"]) == ("one-way", 5)
            assert "span" not in settings  # pocket picks its spans its own way
        if job.method == "dsp":
            assert settings["max_turns"] == 2


class Dpr:
    """A reader that takes the way to pick its spans."""

    name, threshold, span = "dpr-like", 1.5, "joint"

    def __init__(self) -> None:
        self.spans: set[str | None] = set()

    def read(self, question: str, passages: Sequence[Passage], *, span: Any = None) -> list[Span]:
        self.spans.add(span)
        return []


@pytest.mark.parametrize("reader", ["dpr:folder", Dpr()])
def test_a_dpr_reader_picks_its_spans_as_in_the_paper(reader: Any) -> None:
    for key in RESULTS:
        found = [dict(job.settings) for job in every_job(key, reader=reader) if job.method == "searchain"]
        assert {settings["span"] for settings in found} == {"independent"}
    assert settings_of_paper(recipe("searchain/table1"), "cot", UserInputs(Benchmarks({}))) == {}


@pytest.fixture
def hotpotqa(tmp_path: Path) -> dict[str, Benchmark]:
    questions, corpus = tmp_path / "dev.jsonl", tmp_path / "corpus.jsonl"
    questions.write_text(json.dumps({"id": "q", "question": "Where is Oslo?", "answers": ["Norway"]}))
    corpus.write_text(json.dumps({"id": "p", "title": "Oslo", "text": "Oslo is in Norway."}))
    return {"hotpotqa": Benchmark({"dev": questions}, corpus)}


def knows(task: str, fields: Any) -> Any:
    if task == "searchain.chain":
        return {"nodes": [{"query": "Where is Oslo?", "answer": "Norway"}], "final": "Norway"}
    return {"content": "So [1].", "answer": "Norway"}


def test_a_table_says_which_reader_and_demonstrations_it_had(hotpotqa: dict[str, Benchmark], tmp_path: Path) -> None:
    reader = Dpr()
    found = reproduce("searchain/table2", hotpotqa, ScriptedLM(knows), reader=reader)
    assert (found.reader, found.demonstrations) == ("dpr-like", {"searchain": "2"})
    assert found.settings == {"searchain": {"consistency": "one-way", "span": "independent"}}
    assert reader.spans == {"independent"}
    kept = found.to_dict()
    assert (kept["reader"], kept["demonstrations"], kept["settings"]) == (
        "dpr-like",
        {"searchain": "2"},
        {"searchain": {"consistency": "one-way", "span": "independent"}},
    )
    own = tmp_path / "prompts"
    own.mkdir()
    demo = {
        "fields": {"question": "Q?", "nodes": [{"query": "A?", "answer": "a"}]},
        "output": {"content": "A [1].", "answer": "a"},
    }
    (own / "searchain.trace.demos.jsonl").write_text(json.dumps(demo))
    found = reproduce("searchain/table2", hotpotqa, ScriptedLM(knows), reader=reader, prompts=own)
    assert found.demonstrations == {"searchain": "1 to 2 (asked for 2)"}


def test_a_table_without_readings_names_no_reader(hotpotqa: dict[str, Benchmark]) -> None:
    found = reproduce("tor/table4", hotpotqa, "pocket")
    assert (found.reader, found.to_dict()["reader"]) == ("", None)
    assert found.demonstrations == {"tor": "3"}


@pytest.mark.parametrize("key", ["searchain/table2", "searchain/table7"])
def test_the_terminal_says_what_is_ours(key: str) -> None:
    result = CliRunner().invoke(app, ["reproduce", key, "--limit", "1"])
    assert result.exit_code == 0, result.output
    printed = " ".join(result.output.split())
    assert "reader: pocket" in printed
    assert "demonstrations: searchain 2" in printed
    assert "set in every row: searchain consistency=one-way" in printed
    assert "our values One passage per query for every method that searches: an assumption." in printed
