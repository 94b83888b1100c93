"""Long tests: those of ``make soak`` and the longest of ``make test-all`` exist, and a failed job is a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import soak
from tests.conftest import LONGEST


def test_every_job_names_what_exists() -> None:
    for job in soak.JOBS:
        names = [word for word in job.arguments.split() if not word.startswith("-")]
        files = [name.replace(".", "/") + ".py" if name.startswith("benchmarks.") else name for name in names]
        assert all((soak.ROOT / file).exists() for file in files), job.name


def test_the_longest_files_exist() -> None:
    assert all((soak.ROOT / file).is_file() for file in LONGEST)


def test_a_job_that_fails_is_named_and_one_that_passes_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    statuses = {"good": 0, "bad": 1}
    began: list[str] = []

    def run(job: soak.Job, seconds: float, log: Path) -> tuple[str, int | None]:
        began.append(job.name)
        if began.count(job.name) == 1:
            return "counted: 3 kills\n2 passed", statuses[job.name]
        return "counted: 3 kills\n2 passed, 1 failed", None

    monkeypatch.setattr(soak, "ROOT", tmp_path)
    monkeypatch.setattr(soak, "LOGS", tmp_path / "soak")
    monkeypatch.setattr(soak, "JOBS", (soak.Job("good", 1, "a.py"), soak.Job("bad", 1, "b.py")))
    monkeypatch.setattr(soak, "run", run)
    assert soak.main([]) == 1
    assert began == ["good", "good", "bad"]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["good", "bad", "all"]
    assert lines[2].endswith("failed")
    assert lines[1].split()[1:6] == ["2", "4", "0", "6", "0"]
    assert soak.main(["--only", "good"]) == 0
    assert began == ["good", "good", "bad"]
