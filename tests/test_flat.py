"""A long run holds on to nothing: memory and file handles are as flat after a thousand questions as after 200."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[1]
A_ROW = 15_000
"""Bytes a finished question may leave behind: its row of the report, but not its trace, which is far larger."""


def test_memory_and_file_handles_stay_flat(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.kit.long_run", str(tmp_path / "run")]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    early, late = json.loads(told)
    assert late["files"] == early["files"]
    assert late["bytes"] - early["bytes"] < 800 * A_ROW
    traces = sum(path.stat().st_size for path in (tmp_path / "run" / "traces").iterdir())
    assert traces > 1000 * A_ROW  # held, they would be seen
