"""A run survives anything: killed at random moments, a full disk, a read-only folder, a second process."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polyhop import evaluate
from polyhop.errors import DataError, LMError, UsageError
from polyhop.evaluation.compare import compare
from polyhop.evaluation.store import RunFolder, read_report
from polyhop.lm.replay import ReplayLM
from polyhop.lm.scripted import ScriptedLM
from tests.kit.killed_run import QUESTIONS, find, run, script_into
from tests.kit.tries import tries

ROOT = Path(__file__).parents[2]


def start(folder: Path, method: str = "cor", **environment: str) -> subprocess.Popen[str]:
    """Start the run to be killed, and return once its imports are done."""
    paths = [folder / name for name in ("out", "cache.sqlite", "log")]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.kit.killed_run", *paths, method],
        cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    return process


def files(out: Path) -> dict[str, Any]:
    """Every file of a run but its lock, without what may differ between two equal runs."""

    def steady(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: steady(item) for key, item in value.items() if key not in ("volatile", "crc")}
        return [steady(item) for item in value] if isinstance(value, list) else value

    held: dict[str, Any] = {}
    for path in sorted(path for path in out.rglob("*") if path.is_file() and path.name != "run.lock"):
        lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        held[str(path.relative_to(out))] = [steady(json.loads(line)) for line in lines]
    return held


def whole_run(out: Path, log: Path, method: str = "cor") -> None:
    run(method, ScriptedLM(script_into(log)), out)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "most"), [("cor", 4), ("resp", 1), ("ge", 1), ("searchain", 1)])
def test_killed_at_random_moments_it_ends_like_an_unbroken_run(tmp_path: Path, method: str, most: int) -> None:
    """``POLYHOP_TRIES=20`` kills it twenty times as often."""
    whole_run(tmp_path / "unbroken", tmp_path / "unbroken.log", method)
    draw = random.Random(method)
    kills = rounds = 0
    while kills < tries(most):
        folder = tmp_path / f"round{rounds}"
        folder.mkdir()
        finished: set[str] = set()
        rounds += 1
        for patience in itertools.count(1):  # a busy machine gets on too
            asked_before = (folder / "log").read_text().count("\n") if (folder / "log").exists() else 0
            process = start(folder, method)
            try:
                process.wait(timeout=draw.uniform(0.02, 0.45) * patience)
            except subprocess.TimeoutExpired:
                process.kill()
            _, trouble = process.communicate()
            asked = (folder / "log").read_text().splitlines()[asked_before:] if (folder / "log").exists() else []
            assert not {line.split("\t")[0] for line in asked} & finished, "a finished question was asked again"
            if process.returncode == 0:
                break
            assert process.returncode == -9, trouble
            kills += 1
            path = folder / "out" / "predictions.jsonl"
            lines = path.read_text().split("\n")[:-1] if path.exists() else []
            finished = {json.loads(line)["question"] for line in lines}
        assert files(folder / "out") == files(tmp_path / "unbroken")
        repeated = Counter((folder / "log").read_text().splitlines())
        assert max(repeated.values()) <= 1 + kills


@pytest.mark.slow
def test_on_a_full_disk_it_says_so_and_goes_on_later(tmp_path: Path) -> None:
    whole_run(tmp_path / "unbroken", tmp_path / "unbroken.log")
    limited = start(tmp_path, POLYHOP_FILE_LIMIT="9000")
    _, trouble = limited.communicate(timeout=60)
    assert limited.returncode == 1
    assert "the run cannot be written" in trouble
    assert "Traceback" not in trouble
    kept = (tmp_path / "out" / "predictions.jsonl").read_bytes()
    assert 0 < len(kept) <= 9000
    assert kept.endswith(b"\n")  # of the line that did not fit nothing stays
    after = start(tmp_path)
    assert after.communicate(timeout=60)[1] == ""
    assert files(tmp_path / "out") == files(tmp_path / "unbroken")


def test_a_place_that_cannot_be_written_is_named() -> None:
    with pytest.raises(DataError, match="cannot be written"):
        RunFolder("/proc/polyhop-run", {}, [])


@pytest.mark.slow
def test_a_second_process_is_refused(tmp_path: Path) -> None:
    held = RunFolder(tmp_path / "out", {}, [])
    second = start(tmp_path)
    _, trouble = second.communicate(timeout=60)
    held.close()
    assert second.returncode == 1
    assert "another process is running here" in trouble


def test_another_question_under_an_id_is_refused(tmp_path: Path) -> None:
    lm = ScriptedLM({"answer.cot": {"answer": "answer 3"}})
    evaluate(QUESTIONS[:3], method="cot", lm=lm, out=tmp_path)
    kept = (tmp_path / "predictions.jsonl").read_bytes()
    others = [QUESTIONS[0], replace(QUESTIONS[1], text="Who else?")]
    with pytest.raises(UsageError, match=r"under the id 'q1' \(there: 'Question 1\?'; now: 'Who else\?'\)") as caught:
        evaluate(others, method="cot", lm=lm, out=tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert len(lm.calls) == 3
    assert (tmp_path / "predictions.jsonl").read_bytes() == kept


def test_a_damaged_settings_file_is_named(tmp_path: Path) -> None:
    whole_run(tmp_path / "run", tmp_path / "log")
    (tmp_path / "run" / "run.json").write_text("{")
    with pytest.raises(DataError, match=r"run\.json"):
        whole_run(tmp_path / "run", tmp_path / "log")
    with pytest.raises(DataError, match=r"run\.json"):
        read_report(tmp_path / "run")
    with pytest.raises(DataError, match="not a run's folder"):
        read_report(tmp_path)


@pytest.mark.slow
def test_a_replayed_run_is_the_run(tmp_path: Path) -> None:
    whole_run(tmp_path / "run", tmp_path / "log")
    evaluate(QUESTIONS, method="cor", lm=f"replay:{tmp_path / 'run'}", retriever=find, out=tmp_path / "again")
    first, again = files(tmp_path / "run"), files(tmp_path / "again")
    assert [row["prediction"] for row in first["predictions.jsonl"]] == [
        row["prediction"] for row in again["predictions.jsonl"]
    ]
    usages = [held["metrics.json"][0]["usage"] for held in (first, again)]
    for usage in usages:  # by model: the replay has a name of its own
        assert list(usage.pop("prompt_tokens_by_model").values()) == [usage["prompt_tokens"]]
        assert list(usage.pop("completion_tokens_by_model").values()) == [usage["completion_tokens"]]
    assert usages[0] == usages[1]


@pytest.mark.slow
def test_a_replay_names_what_it_has_not_got(tmp_path: Path) -> None:
    whole_run(tmp_path / "run", tmp_path / "log")
    with pytest.raises(LMError, match="other settings, prompts or passages"):
        evaluate(QUESTIONS, method="cor", lm=f"replay:{tmp_path / 'run'}", retriever=find, k=1)
    with pytest.raises(DataError, match="no traces"):
        ReplayLM(tmp_path / "nowhere")
    next((tmp_path / "run" / "traces").glob("*.json")).write_text("{}")
    with pytest.raises(DataError, match="not a trace"):
        ReplayLM(tmp_path / "run")


@pytest.mark.slow
def test_runs_are_compared_question_by_question(tmp_path: Path) -> None:
    whole_run(tmp_path / "right", tmp_path / "log")
    wrong = ScriptedLM({"answer.cot": {"answer": "answer 3"}})
    evaluate(QUESTIONS, method="cot", lm=wrong, out=tmp_path / "wrong")
    found = compare(read_report(tmp_path / "wrong"), read_report(tmp_path / "right"))
    em = found.metrics["em"]
    assert (em.first, em.second, em.better, em.worse, em.n) == (1 / 24, 1.0, 23, 0, 24)
    assert 0 < em.low < 23 / 24 < em.high <= 1
    assert len(found.flipped) == 23
    other = evaluate([QUESTIONS[0]], method="cot", lm=wrong)
    with pytest.raises(UsageError, match="no question in common"):
        compare(other, evaluate([QUESTIONS[1]], method="cot", lm=wrong))


def test_two_questions_of_one_id_are_refused() -> None:
    with pytest.raises(UsageError, match="same id"):
        evaluate([QUESTIONS[0], QUESTIONS[0]], method="cot", lm=ScriptedLM({}))
