"""The imports of a short command: help loads nothing that only answering needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from polyhop.cli.app import app
from polyhop.cli.help import help_text

HEAVY = {"numpy", "aiohttp", "onnxruntime", "pydantic", "tantivy", "rich", "torch"}
TELL_IMPORTS = """
import runpy, sys
sys.argv = [{program!r}, *{arguments!r}]
try:
    runpy.run_module("polyhop", run_name="__main__", alter_sys={alter!r})
except SystemExit as end:
    print(*sys.modules, file=sys.stderr)
    raise
"""


def run(program: str, *arguments: str, columns: int = 80) -> tuple[str, set[str]]:
    """Return what the command prints in a process of its own, and the packages that it has imported by then."""
    code = TELL_IMPORTS.format(program=program, arguments=arguments, alter=program != "polyhop")
    environment = {"COLUMNS": str(columns), "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    return ended.stdout, {name.partition(".")[0] for name in ended.stderr.split()}


def parsed_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int) -> str:
    """The help that typer makes of the loaded verbs."""
    monkeypatch.setenv("COLUMNS", str(columns))
    command: Any = get_command(app)
    monkeypatch.setattr(type(command), "get_help", TyperGroup.get_help)
    command.main(["--help"], prog_name="polyhop", standalone_mode=False)
    return capsys.readouterr().out


@pytest.mark.parametrize("columns", [80, 300])
def test_the_help_is_what_the_parser_makes_of_all_verbs(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert help_text("polyhop", columns) == parsed_help(monkeypatch, capsys, columns)


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_needs_no_parser(flag: str) -> None:
    printed, imported = run("polyhop", flag)
    assert printed == help_text("polyhop", 80)
    assert not imported & {*HEAVY, "typer"}


HELP_OF_EVERY_VERB = """
import contextlib, io, sys
import typer

def call(app, *arguments):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        app(arguments)

def imported():
    return {work for work in WORK for name in sys.modules if f"{name}.".startswith(f"{work}.")}

WORK = sys.argv[1:]
plain = typer.Typer(rich_markup_mode=None)

@plain.command()
def echo(number: int): ...

call(plain, "1")
of_typer = imported()

from polyhop.cli.app import app
from polyhop.cli.help import VERBS

for verb in VERBS:
    command = typer.main.get_command(app).commands[verb]
    call(app, verb, "--help")
    for name in getattr(command, "commands", {}):
        call(app, verb, name, "--help")
    if extra := imported() - of_typer:
        sys.exit(f"{verb}: {sorted(extra)}")
"""
WORK = (
    *("numpy", "pydantic", "aiohttp", "tantivy", "rich"),
    *("polyhop.evaluation", "polyhop.retrieval.index", "polyhop.pipeline", "polyhop.lm.pocket"),
)


def test_the_help_of_a_verb_imports_nothing_of_its_work() -> None:
    """Some releases of typer import pydantic to read arguments; that is not counted."""
    environment = {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    done = subprocess.run(
        [sys.executable, "-c", HELP_OF_EVERY_VERB, *WORK], capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_method_that_reads_nothing_imports_no_reader() -> None:
    code = """
import sys
from polyhop import Pipeline, ScriptedLM
with Pipeline(method="cot", lm=ScriptedLM({"answer.cot": {"answer": "Oslo"}})) as qa:
    assert qa.ask("Where?").text == "Oslo"
print(*sys.modules)
"""
    environment = {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert not {"polyhop.lm.pocket", "numpy", "onnxruntime", "aiohttp", "rich"} & {*ended.stdout.split()}


def test_help_in_a_narrow_terminal_or_by_another_name_is_made_for_it() -> None:
    narrow, imported = run("polyhop", "--help", columns=60)
    assert max(map(len, narrow.splitlines())) <= 60
    assert not imported & HEAVY
    named, imported = run("other", "--help")
    assert named.startswith("Usage: python -m polyhop [OPTIONS]")
    assert not imported & HEAVY
