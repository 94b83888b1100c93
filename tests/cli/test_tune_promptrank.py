"""``polyhop tune promptrank`` as a person meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kit.terminal import Cli, run


@pytest.fixture(name="cli")
def tune_promptrank(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    return lambda *words: run(capsys, monkeypatch, ("tune", "promptrank", *words), "120")


@pytest.fixture
def demo(tmp_path: Path) -> tuple[str | Path, ...]:
    """The shipped passages and questions, three instructions, and few values."""
    (tmp_path / "mine.txt").write_text("Ask.\nNow the question, in the words of the documents:\n")
    given = ("--dataset", "demo", "--corpus", "demo", "--limit", "4", "--temperatures", "1,1.4")
    return (*given, "--instructions", tmp_path / "mine.txt")


@pytest.mark.slow
def test_it_tells_what_was_tried_and_keeps_what_was_found(cli: Cli, demo: Any, tmp_path: Path) -> None:
    file, work = tmp_path / "tuned.json", tmp_path / "work"
    more = ("--demos", "2", "--reader", "pocket", "--weights", "0.5,0.9", "-o", "first=20", "--work", work)
    result = cli(*demo, *more, "--out", file)
    assert result.code == 0, result.err
    for line in (
        "(the prompt file's)",
        "(none)",
        "Ask.",
        "R@2 of 2 candidates: mean",
        "(the defaults)",
        "found: first",
    ):
        assert line in result.out
    assert result.out.count("best\n") == 4
    assert "on the questions it was chosen by; confirm it on others" in result.out
    assert "56/56 questions" in result.err
    assert f"--method promptrank --set-from {file}" in result.err
    kept = json.loads(file.read_text())
    assert kept["method"] == "promptrank"
    assert kept["settings"]["first"] == 20
    assert kept["settings"]["path_weight"] in (0.5, 0.9)
    assert kept["fitted_on"]["questions"] == 4
    again = json.loads(cli(*demo, *more, "--json").out)
    assert again["settings"] == kept["settings"]
    assert list(again["stages"]) == ["instruction", "temperature", "demonstrations", "path_weight"]


@pytest.mark.slow
def test_it_writes_ranked_instructions_and_demonstrations(cli: Cli, demo: Any, tmp_path: Path) -> None:
    ranked, shown = tmp_path / "ranked.txt", tmp_path / "demos.jsonl"
    written = ("--instructions-out", ranked, "--demos-out", shown)
    result = cli(*demo, "--limit", "7", "--ensembles", "2,3", "--demos", "2", "-o", "first=20", *written)
    assert result.code == 0, result.err
    assert all(line in result.out for line in ("max of 2", "mean of 3"))
    assert f"instructions kept in {ranked}: -o instructions_from={ranked}" in result.err
    assert f"demonstrations kept in {shown}: -o demos=2 -o demos_from={shown}" in result.err
    assert len(ranked.read_text().splitlines()) == 4  # which measurement, two given, the prompt file's own
    assert {json.loads(line)["kind"] for line in shown.read_text().splitlines()} == {"bridge", "comparison"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ensembles", "2,9"], "an ensemble of 9: there are 3 instructions"),
        (["-o", "temperature=2"], "temperature is tuned"),
        (["-o", "demos=2"], "demos is tuned"),
        (["--temperatures", "1,hot"], "temperature='hot'"),
        (["--demos", "3"], "demos=3"),
        (["--instructions", "nowhere.txt"], "nowhere.txt: the instructions cannot be read"),
        (["--generate", "20"], "--generate and --generator go together"),
        (["--generate", "20", "--generator", "hf:t5"], "give one of them"),
        (["--objective", "bleu"], "unknown objective 'bleu'"),
        (["--lm", "openia:x"], "unknown language model"),
    ],
)
def test_wrong_use_is_named_and_exits_2(cli: Cli, demo: Any, arguments: list[str], message: str) -> None:
    result = cli(*demo, *arguments)
    assert result.code == 2, result
    assert message in result.err
    assert not result.out


def test_a_generator_is_a_model_that_fills_gaps(cli: Cli, demo: Any) -> None:
    result = cli(*demo[:-2], "--generate", "3", "--generator", "pocket")
    assert result.code == 2
    assert "a T5 that fills gaps writes instructions, as in hf:t5-base" in result.err


@pytest.mark.slow
def test_generated_instructions_are_kept_and_not_made_again(
    cli: Cli, demo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    class Filler:
        def __init__(self, name: str) -> None:
            opened.append(name)

        def __call__(self, text: str, count: int, seed: int) -> list[list[str]]:
            return [[f"read {n}", "ask a"] for n in range(count)]

    monkeypatch.setattr("polyhop.lm.hf.generation.SpanFiller", Filler)
    arguments = (*demo[:-2], "--generate", "3", "--generator", "hf:t5-base", "--work", tmp_path / "work", "--json")
    found = [json.loads(cli(*arguments).out) for _ in range(2)]
    assert found[0] == found[1]
    assert opened == ["t5-base"]
    tried = [trial["settings"]["instruction"] for trial in found[0]["stages"]["instruction"]["trials"]]
    assert tried[2] == "after: Read 0 documents above, then ask a question."
    assert len(tried) == 5


def test_an_interrupt_says_how_to_go_on(cli: Cli, demo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*given: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("polyhop.evaluation.tuning.promptrank.tune_promptrank", stopped)
    result = cli(*demo, "--work", tmp_path / "work")
    assert result.code == 130
    assert f"the same command resumes it: {tmp_path / 'work'}" in result.err
    assert "no --work" in cli(*demo).err
