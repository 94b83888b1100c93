"""A run's folder against a plain model: started, killed, resumed, extended, tampered with and written by several.

``POLYHOP_TRIES=10`` makes ten times as many stories, ``POLYHOP_HYPOTHESIS=exploring`` others in every run.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from polyhop import evaluate
from polyhop.errors import LMError
from polyhop.evaluation.store import read_report
from polyhop.lm.scripted import ScriptedLM
from tests.evaluation.test_store import files
from tests.kit.killed_run import METHODS, QUESTIONS, find, number_of, reply
from tests.kit.stories import Story, tell
from tests.kit.tally import count
from tests.kit.tries import tries
from tests.kit.victims import ERRORS, Fault, Outcome, victims

MOST = 8
"""Questions of a whole run."""

kills = st.builds(Fault, at=st.integers(0, 30))
refusals = st.builds(Fault, at=st.integers(0, 30), number=st.sampled_from(ERRORS))
limits = st.builds(Fault, limit=st.integers(0, 30_000), number=st.none() | st.just(27))
faults = kills | kills | kills | refusals | limits | st.none()
sizes = st.integers(1, MOST)


def log_of(folder: Path) -> Path:
    """The file of the calls that reached the model; beside the folder, for no fault is meant for it."""
    return folder.with_name(f"{folder.name}.log")


def go(folder: Path, method: str, limit: int, refused: list[int], options: Mapping[str, Any]) -> None:
    """Start or resume the run; the model refuses the calls about some questions. The work of the victims."""

    def script(task: str, fields: Mapping[str, Any]) -> Any:
        number = number_of(fields)
        with log_of(folder).open("a") as log:
            log.write(f"q{number}\n")
        return LMError(f"no answer to {number}") if int(number) in refused else reply(task, fields, number)

    lm, given = ScriptedLM(script), {**METHODS[method], **options}
    given = {"concurrency": 3, "cache": folder / "cache.sqlite", "out": folder / "out", **given}
    evaluate(QUESTIONS[:limit], method=method, lm=lm, retriever=find, **given)


def warm_up() -> None:
    """Do all that a first run imports."""
    with tempfile.TemporaryDirectory() as folder:
        for method in METHODS:
            go(Path(folder), method, 1, [], {"out": None})


class RunStory(Story):
    """The life of one run's folder."""

    def __init__(self) -> None:
        super().__init__()
        self.method = "cor"
        self.folder = Path(tempfile.mkdtemp(prefix="run-story-"))
        self.rows: dict[str, dict[str, Any]] = {}
        """The finished questions as they were first seen."""

    @initialize(method=st.sampled_from(sorted(METHODS)))
    def begin(self, method: str) -> None:
        self.method = method

    @rule(limit=sizes, fault=faults, refused=st.just([]) | st.lists(st.integers(0, MOST - 1), max_size=3, unique=True))
    def start(self, limit: int, fault: Fault | None, refused: list[int]) -> None:
        """A start that may be killed, meet a full disk, or get no answer to some questions."""
        asked_before = self._asked()
        outcome = self.processes.run(self.folder, self.method, limit, refused, {}, fault=fault)
        asked = self._asked() - asked_before
        assert not asked.keys() & self.rows.keys(), "a finished question was asked again"
        self._look()
        if outcome.status == 0:
            self._check_summary(limit, {f"q{number}" for number in refused})
        elif outcome.status == 2:
            assert outcome.error.count("\n") == 1 + ("going on without it" in outcome.error)
            assert "cannot be" in outcome.error or "no answer to" in outcome.error, outcome.error

    @rule(limits_of=st.lists(sizes, min_size=2, max_size=4), fault=faults)
    def several_writers(self, limits_of: list[int], fault: Fault | None) -> None:
        """Writers at once: those that find another at work say so, and do nothing."""
        jobs: list[tuple[Any, Fault | None]]
        jobs = [((self.method, limit, [], {}), fault if n == 0 else None) for n, limit in enumerate(limits_of)]
        for outcome in self.processes.run_all(self.folder, jobs):
            count("writers at once")
            if outcome.status == 2 and fault is None:
                assert "another process is running here" in outcome.error, outcome.error
        self._look()

    @rule(change=st.sampled_from(["polyhop", "unknown", "k", "settings", "lm", "prompts", "cut", "empty"]))
    def recorded_otherwise(self, change: str) -> None:
        """A folder of another version, or of other settings, is refused in one line, and stays as it is."""
        path = self.folder / "out" / "run.json"
        if not path.exists():
            return
        whole = path.read_bytes()
        row = json.loads(whole)
        match change:
            case "polyhop":
                row["polyhop"] = "0.0.1"
            case "unknown":
                row["of a later version"] = {"x": 1}
            case "cut" | "empty":
                row = None
            case "k":
                row["settings"]["k"] = 99
            case _:
                del row[change]
        path.write_bytes(json.dumps(row).encode() if row else whole[: len(whole) // 2] if change == "cut" else b"")
        before = self._bytes()
        outcome = self.processes.run(self.folder, self.method, MOST, [], {})
        assert (outcome.status, outcome.error.count("\n")) == (2, 1), outcome
        wanted = "not a run's settings" if row is None else "holds a run with other settings"
        assert wanted in outcome.error
        assert str(self.folder / "out") in outcome.error
        assert self._bytes() == before
        path.write_bytes(whole)
        count("runs of another version refused")

    @rule(options=st.sampled_from([{"seed": 5}, {"max_tokens_per_call": 77}, {"abstain_below": 0.3}]))
    def other_settings(self, options: dict[str, Any]) -> None:
        """Another recipe on the same folder is refused."""
        if not (self.folder / "out" / "run.json").exists():
            return
        before = self._bytes()
        outcome = self.processes.run(self.folder, self.method, MOST, [], options)
        assert outcome.status == 2
        assert "holds a run with other settings" in outcome.error
        assert self._bytes() == before

    @rule(piece=st.binary(max_size=40).filter(lambda piece: b"\n" not in piece))
    def a_line_is_cut(self, piece: bytes) -> None:
        """The next start drops the part of a line that a kill left."""
        path = self.folder / "out" / "predictions.jsonl"
        if path.exists():
            with path.open("ab") as file:
                file.write(piece)

    @invariant()
    def each_question_once(self) -> None:
        self._look()

    def teardown(self) -> None:
        """Ended without faults, the run is one that nothing ever stopped."""
        try:
            outcome: Outcome = self.processes.run(self.folder, self.method, MOST, [], {})
            assert outcome.status == 0, outcome
            self._look()
            assert files(self.folder / "out") == self._unbroken()
        finally:
            shutil.rmtree(self.folder)
            log_of(self.folder).unlink(missing_ok=True)

    def _unbroken(self) -> dict[str, Any]:
        whole = self.processes.folder_of(self.method)
        if not whole.exists():
            whole.mkdir()
            go(whole, self.method, MOST, [], {})
        return files(whole / "out")

    def _look(self) -> None:
        """Compare the rows with those seen before."""
        path = self.folder / "out" / "predictions.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        rows = [json.loads(line) for line in lines]
        found = {row["id"]: row for row in rows}
        assert len(found) == len(rows), "a question is there twice"
        assert all(found.get(id) == row for id, row in self.rows.items()), "a finished question was lost or changed"
        for id, row in found.items():
            assert row["prediction"] == f"answer {id[1:]}"
            assert (self.folder / "out" / row["trace"]).exists()
        count("questions finished", len(found) - len(self.rows))
        self.rows = found

    def _check_summary(self, limit: int, refused: set[str]) -> None:
        """Check what a start that reached its end reports of its questions."""
        asked = {question.id for question in QUESTIONS[:limit]}
        report = read_report(self.folder / "out")
        metrics = json.loads((self.folder / "out" / "metrics.json").read_bytes())
        assert metrics["failed"].keys() == report.failed.keys() == (asked & refused) - self.rows.keys()
        assert metrics["questions"] == len(asked & self.rows.keys())
        assert asked == (asked & self.rows.keys()) | metrics["failed"].keys()

    def _asked(self) -> Counter[str]:
        with suppress(FileNotFoundError):
            return Counter(log_of(self.folder).read_text().split())
        return Counter()

    def _bytes(self) -> dict[str, bytes]:
        out = self.folder / "out"
        return {str(path): path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != "run.lock"}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and signals")
def test_a_run_ends_as_if_nothing_ever_stopped_it(tmp_path: Path) -> None:
    with victims(f"{__name__}:go", tmp_path) as processes:
        tell(RunStory, processes, examples=tries(12), steps=10)
