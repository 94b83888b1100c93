"""The command line as a person meets it: results on stdout, the rest on stderr, exit codes, clear errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from polyhop.prompts.tasks import SCORED, TASKS
from tests.kit.openai_server import FakeServer, Fault
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]


PASSAGES = [
    {"id": "1", "title": "Alien (film)", "text": "Alien is a 1979 film directed by Ridley Scott."},
    {"id": "2", "title": "Ridley Scott", "text": "Ridley Scott is an English director born in South Shields."},
    {"id": "3", "title": "Lake Balaton", "text": "Lake Balaton is a lake in Hungary."},
]
QUESTIONS = [
    {
        "id": "q1",
        "question": "Where was the director of Alien born?",
        "answers": ["South Shields"],
        "gold_pids": ["1", "2"],
    },
    {"id": "q2", "question": "In which country is Lake Balaton?", "answers": ["Hungary"], "gold_pids": ["3"]},
]


def write_lines(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "corpus.jsonl", PASSAGES)


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "questions.jsonl", QUESTIONS)


def test_ask_answers_with_citations(cli: Cli, corpus: Path) -> None:
    result = cli("ask", "Where was the director of Alien born?", "--corpus", corpus, "--show", "trace")
    assert result.code == 0
    assert "Answer: South Shields" in result.out
    assert "] Ridley Scott" in result.out
    assert "tor.review" in result.out
    assert "pocket is a small trained reader with rules" in result.err


def test_ask_as_json(cli: Cli, corpus: Path) -> None:
    result = cli("ask", "Where was the director of Alien born?", "--corpus", corpus, "--json", "-o", "widths=2,2")
    answer = json.loads(result.out)
    assert answer["answer"] == "South Shields"
    assert {step["kind"] for step in answer["trace"]["steps"]} >= {"branch", "ask", "search"}
    assert answer["usage"]["calls"] == sum(answer["usage"]["calls_by_task"].values())


def test_run_writes_a_folder_and_goes_on_there(cli: Cli, corpus: Path, questions: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ("run", "--dataset", questions, "--corpus", corpus, "--out", out, "--method", "one-r")
    first = cli(*arguments, "--limit", "1", "--json")
    assert first.code == 0
    assert json.loads(first.out)["questions"] == 1
    second = cli(*arguments, "--json")
    assert json.loads(second.out)["questions"] == 2
    rows = [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == ["q1", "q2"]
    assert all((out / row["trace"]).exists() for row in rows)
    metrics = json.loads((out / "metrics.json").read_text())["metrics"]
    assert metrics["em"]["n"] == 2
    other = cli(*arguments, "-o", "k=1")
    assert other.code == 2
    assert "other settings: settings" in other.err


def test_index_and_search(cli: Cli, corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    assert cli("index", "build", corpus, "--out", folder).code == 0
    assert "passages: 3" in cli("index", "info", folder).out
    found = json.loads(cli("search", folder, "director Alien", "-k", "2", "--links", "--json").out)
    assert found[0]["id"] == "1"
    assert found[0]["links"] == ["2"]
    again = cli("index", "build", corpus, "--out", folder)
    assert again.code == 2
    assert "overwrite" in again.err


@pytest.mark.parametrize(
    "verb", [["methods"], ["methods", "tor"], ["prompts", "list"], ["prompts", "show", "tor.review"], ["doctor"]]
)
def test_listings(cli: Cli, verb: list[str]) -> None:
    result = cli(*verb)
    assert result.code == 0
    assert result.out.strip()


def test_prompts_show_what_the_model_sees(cli: Cli) -> None:
    result = cli("prompts", "show", "tor.fuse", "--rendered", "--rendering", "json")
    assert "--- assistant" in result.out
    assert '"answer": text' in result.out


@pytest.mark.parametrize("rendering", ["auto", "text", "json"])
@pytest.mark.parametrize("task", [*TASKS, *SCORED])
def test_every_prompt_is_shown_as_the_model_sees_it(cli: Cli, task: str, rendering: str) -> None:
    result = cli("prompts", "show", task, "--rendered", "--rendering", rendering)
    assert result.code == 0
    if task in SCORED:
        assert result.out.rstrip().endswith(("Question:", "Document:"))
    else:
        assert result.out.startswith("--- system\n")
        assert "\n--- user\n" in result.out


def test_a_task_without_demonstrations_says_so(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "tor.enough.demos.jsonl").write_text("", encoding="utf-8")
    result = cli("prompts", "show", "tor.enough", "--rendered", "--prompts", str(tmp_path))
    assert result.code == 2
    assert "tor.enough has no demonstrations" in result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "tro"], "did you mean 'tor'?"),
        (["-o", "widht=3"], "unknown setting of tor 'widht'; did you mean 'widths'?"),
        (["-o", "widths=a"], "widths"),
        (["-o", "widths"], "KEY=VALUE"),
        (["--lm", "opnai:x"], "openai"),
        (["--lm", "scripted:nowhere.jsonl"], "nowhere.jsonl"),
        (["--lm-for", "reviewer"], "ROLE=LM"),
        (["--retriever", "bm52"], "did you mean 'bm25'?"),
        (["--show", "everything"], "trace"),
        (["--rendering", "xml"], "'text' or 'json'"),
        (["--max-calls", "0"], "above 0"),
        (["--prompts", "nowhere"], "no such folder"),
        (["--lm", "openai:m@http://127.0.0.1:9/v1"], "http://127.0.0.1:9"),
    ],
)
def test_wrong_use_is_named_and_exits_2(
    cli: Cli, corpus: Path, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyhop.net.client.backoff", lambda *_: 0.0, raising=False)
    result = cli("ask", "Where was he born?", "--corpus", corpus, *arguments)
    assert result.code == 2, result
    assert message in result.err
    assert "Traceback" not in result.err
    assert not result.out


def test_a_question_needs_words_and_a_method_its_corpus(cli: Cli, corpus: Path) -> None:
    assert "the question is empty" in cli("ask", "  ", "--corpus", corpus).err
    without = cli("ask", "Where?", "--method", "one-r")
    assert without.code == 2
    assert "--corpus" in without.err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.jsonl", "", "empty.jsonl"),
        ("bad.jsonl", '{"id": "1", "title": "t", "text": "x"}\n{"id": ', "bad.jsonl:2"),
        ("missing.jsonl", '{"id": "1", "title": "t"}\n', "missing.jsonl:1"),
        ("strange.parquet", "PAR1", "strange.parquet"),
    ],
)
def test_a_bad_corpus_is_named(cli: Cli, tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    result = cli("ask", "Where was he born?", "--corpus", tmp_path / name)
    assert result.code == 2
    assert message in result.err


def test_a_missing_corpus_or_index_is_named(cli: Cli, tmp_path: Path) -> None:
    for arguments in (("ask", "Where?", "--corpus", tmp_path / "no"), ("index", "info", tmp_path / "no")):
        result = cli(*arguments)
        assert result.code == 2
        assert str(tmp_path / "no") in result.err


@pytest.mark.slow
async def test_a_refused_key_is_not_tried_again(tmp_path: Path, corpus: Path) -> None:
    """In a process of its own, as a person would; the key itself is never shown."""
    import asyncio
    import os

    async with FakeServer(faults=[Fault(status=401)] * 3) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "polyhop", "ask", "Where was he born?", "--corpus", str(corpus),
            "--lm", f"openai:m@{server.url}",
            env={**os.environ, "OPENAI_API_KEY": "sk-very-secret", "POLYHOP_CACHE": str(tmp_path / "c")},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await process.communicate()
        assert process.returncode == 2
        assert b"OPENAI_API_KEY" in err
        assert b"sk-very-secret" not in out + err
        assert b"Traceback" not in err
        assert len(server.requests) == 1


# --- tune and --set-from ---------------------------------------------------------------------------------------------


def test_tune_reader_tells_its_threshold_beside_the_default(cli: Cli, corpus: Path, questions: Path) -> None:
    arguments = ("tune", "reader", "--dataset", questions, "--corpus", corpus)
    result = cli(*arguments)
    assert result.code == 0, result.err
    assert "pocket · 2 questions (0 left out)" in result.out
    assert "fitted" in result.out
    assert "default" in result.out
    assert "AUROC" in result.out
    assert "passages, " in result.err
    fit = json.loads(cli(*arguments, "--json").out)
    assert fit["fitted"]["f1"] >= fit["default"]["f1"]
    assert fit["cases"] >= fit["right"] >= 2


def test_a_fitted_threshold_is_used_by_searchain(cli: Cli, corpus: Path, questions: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "theta.json", tmp_path / "run"
    tuning = cli("tune", "reader", "--dataset", questions, "--corpus", corpus, "--out", file, "--json")
    theta = json.loads(tuning.out)["fitted"]["at"]
    arguments = ("run", "--dataset", questions, "--corpus", corpus, "--method", "searchain", "--limit", "1")
    assert cli(*arguments, "--set-from", file, "--out", out).code == 0
    assert json.loads((out / "run.json").read_text())["settings"]["confidence"] == theta


def test_tune_ge_writes_settings_that_run_and_ask_take(cli: Cli, corpus: Path, questions: Path, tmp_path: Path) -> None:
    file, work = tmp_path / "ge.json", tmp_path / "work"
    arguments = ("--dataset", questions, "--corpus", corpus)
    grid = ("--retrieve-below", "0.6,0.9", "--keep-above", "0.4", "--limit", "1", "-o", "max_steps=2")
    result = cli("tune", "ge", *arguments, *grid, "--out", file, "--work", work)
    assert result.code == 0, result.err
    assert "best" in result.out
    assert "confirm it on others" in result.out
    assert {folder.name for folder in work.iterdir()} == {
        "retrieve_below=0.6,keep_above=0.4",
        "retrieve_below=0.9,keep_above=0.4",
    }
    kept = json.loads(file.read_text())
    assert kept["settings"]["max_steps"] == 2
    assert json.loads(cli("tune", "ge", *arguments, *grid, "--work", work, "--json").out)["grid"][1]["failed"] == 0
    out = tmp_path / "run"
    fitted = (*arguments, "--method", "ge", "--limit", "1", "--set-from", file)
    assert cli("run", *fitted, "-o", "keep_above=0.1", "--out", out).code == 0
    held = json.loads((out / "run.json").read_text())["settings"]
    assert held["retrieve_below"] == kept["settings"]["retrieve_below"]
    assert held["max_steps"] == 2
    assert held["keep_above"] == 0.1  # -o wins
    question = ("ask", "In which country is Lake Balaton?", "--corpus", corpus, "--set-from", file)
    assert cli(*question, "--method", "ge").code == 0
    other = cli(*question)
    assert other.code == 2
    assert "holds settings of ge, not of tor" in other.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ge", "--keep-above", "many"], "keep_above='many'"),
        (["ge", "--keep-above", ""], "keep_above=''"),
        (["ge", "-o", "keep_above=0.5"], "keep_above is tuned"),
        (["ge", "-o", "kep=1"], "kep"),
        (["ge", "--objective", "bleu"], "unknown objective 'bleu'"),
        (["reader", "--reader", "pockt"], "did you mean 'pocket'?"),
        (["reader", "--retriever", "bm52"], "did you mean 'bm25'?"),
    ],
)
def test_wrong_tuning_is_named_and_exits_2(
    cli: Cli, corpus: Path, questions: Path, arguments: list[str], message: str
) -> None:
    result = cli("tune", arguments[0], "--dataset", questions, "--corpus", corpus, *arguments[1:])
    assert result.code == 2, result
    assert message in result.err
    assert not result.out


def test_the_tasks_of_a_method_are_named(cli: Cli) -> None:
    assert "Valid: tor.complete, tor.enough, tor.fuse, tor.merged, tor.review.\n" in cli("prompts", "show", "tor").err


def test_an_interrupt_is_answered_in_a_word(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("polyhop.cli.listings.print_methods", interrupted)
    assert cli("methods") == (130, "", "polyhop: stopped\n")


@pytest.mark.slow
def test_the_demo_is_short_unless_all_is_wanted(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyhop.cli.ask.SHOWN", 1)
    monkeypatch.setattr("polyhop.cli.ask.MEASURED", 2)
    result = cli("demo", "--method", "tor")
    answer, tree, table, after = map(result.out.index, ("Answer:", "├── ", "demo · 2 questions", "  polyhop ask"))
    assert answer < tree < table < after
    assert "tor.review" not in result.out
    assert "Gold answer: Vienna ✓" in result.out
    assert len(result.out[table:after].splitlines()) < 15
    monkeypatch.setattr("polyhop.evaluation.runner.evaluate", lambda *_, limit, **__: pytest.fail(f"limit {limit}"))
    with pytest.raises(pytest.fail.Exception, match="limit None"):
        cli("demo", "--method", "tor", "--full")
