"""Run the command line in this process: its exit code and its output."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from polyhop.cli import main

__all__ = ["Cli", "Result", "cli", "run", "run_cli"]


class Result(NamedTuple):
    """A command's exit code and output."""

    code: int
    out: str
    err: str


Cli = Callable[..., Result]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """A function that runs the command of its arguments."""
    return lambda *arguments: run(capsys, monkeypatch, arguments, "160")


def run_cli(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str, columns: str = "80"
) -> tuple[int, str]:
    """Run a command; return its exit code and the output of both streams."""
    result = run(capsys, monkeypatch, arguments, columns)
    return result.code, result.out + result.err


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str | Path, ...], columns: str
) -> Result:
    """Run the command of these words in a terminal of N columns."""
    monkeypatch.setattr(sys, "argv", ["polyhop", *map(str, words)])
    monkeypatch.setenv("COLUMNS", columns)
    code = 0
    try:
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    return Result(code, *capsys.readouterr())
