"""A long run holds on to nothing: memory and file handles are as flat after a thousand questions as after 200."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from polyhop.evaluation.predictions import Lines

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LEFT = 8_000
"""Bytes a finished question may leave behind: neither its row of the report nor its trace, which are larger."""


def test_memory_and_file_handles_stay_flat(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.kit.leak_run", str(tmp_path / "run")]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    early, late = json.loads(output)
    assert late["files"] == early["files"]
    assert late["bytes"] - early["bytes"] < 800 * LEFT
    traces = sum(path.stat().st_size for path in (tmp_path / "run" / "traces").iterdir())
    assert traces > 1000 * LEFT  # held, they would be seen


def test_kept_lines_are_the_rows_and_take_little() -> None:
    rows = [{"id": f"q{n}", "titles": [f"Title {n}.{k}" for k in range(50)], "metrics": {"em": 0.5}} for n in range(20)]
    tracemalloc.start()
    kept = Lines(rows)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept == rows
    assert (kept[-1], kept[3:5], len(kept)) == (rows[-1], rows[3:5], 20)
    assert taken < 20 * (len(json.dumps(rows[0])) + 200)  # no room beside the bytes
