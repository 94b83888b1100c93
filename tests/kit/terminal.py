"""The command line as a user meets it: how it ends, and what it prints."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from polyhop.cli import main

__all__ = ["Cli", "Result", "cli", "run", "run_cli"]


class Result(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


Cli = Callable[..., Result]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs the command of these words."""
    return lambda *arguments: run(capsys, monkeypatch, arguments, "160")


def run_cli(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str, columns: str = "80"
) -> tuple[int, str]:
    """A command's exit code, and what it printed to either stream."""
    result = run(capsys, monkeypatch, arguments, columns)
    return result.code, result.out + result.err


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str | Path, ...], columns: str
) -> Result:
    """How the command of these words ends, in a terminal of so many columns."""
    monkeypatch.setattr(sys, "argv", ["polyhop", *map(str, words)])
    monkeypatch.setenv("COLUMNS", columns)
    code = 0
    try:
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    return Result(code, *capsys.readouterr())
