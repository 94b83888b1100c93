"""Nothing that a terminal would obey is printed, whatever files, passages, runs and replies are called."""

from __future__ import annotations

import ast
import errno
import json
import logging
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

import polyhop
from polyhop import Passage, Question, ScriptedLM
from polyhop.cli import main
from polyhop.cli.show import as_json, console
from polyhop.common.text import printable_lines
from polyhop.serve.logs import JsonLines

EVIL = "bad\x1b]0;pwn\x07\x9b2J\u202e\n\rname"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``polyhop`` with these arguments: exit code, stdout, stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["polyhop", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        code = ended.value.code
        return (code if isinstance(code, int) else 0), captured.out, captured.err

    return run


def is_safe(text: str) -> bool:
    return all(line.isprintable() for line in text.replace("\t", "").split("\n"))


FAULTS = {
    "search": ["search", "{file}", "query"],
    "ask": ["ask", "Who?", "--corpus", "{file}"],
    "ask --set-from": ["ask", "Who?", "--corpus", "demo", "--set-from", "{file}"],
    "index build": ["index", "build", "{file}", "--out", "{file}.index"],
    "index info": ["index", "info", "{folder}"],
    "index add": ["index", "add", "{folder}", "{file}"],
    "index remove": ["index", "remove", "{folder}", "--ids", "{file}"],
    "run": ["run", "{file}", "--corpus", "demo"],
    "report": ["report", "{folder}"],
    "report --format": ["report", "{folder}", "--format", "{file}"],
    "report --price": ["report", "{folder}", "--price", "{file}"],
    "compare": ["compare", "{folder}", "{file}"],
    "data validate": ["data", "validate", "{file}"],
    "data convert": ["data", "convert", "{file}", "--to", "jsonl"],
    "data stats": ["data", "stats", "{file}"],
    "data predictions": ["data", "predictions", "{folder}", "--to", "kilt"],
    "sweep": ["sweep", "{file}", "--out", "{folder}"],
    "prompts": ["prompts", "show", "tor.review", "--prompts", "{file}"],
    "unknown option": ["search", "--{file}"],
    "unknown verb": ["{file}"],
    "too many arguments": ["search", "demo", "query", "{file}"],
    "unknown method": ["ask", "Who?", "--corpus", "demo", "--method", "{file}"],
    "unknown model": ["ask", "Who?", "--corpus", "demo", "--lm", "{file}"],
}


@pytest.mark.parametrize("arguments", FAULTS.values(), ids=FAULTS)
def test_no_error_prints_what_a_terminal_obeys(arguments: list[str], command: Run, tmp_path: Path) -> None:
    file, folder = tmp_path / EVIL, tmp_path / f"folder {EVIL}"
    file.write_bytes(b"\x1b]0;pwn\x07{\x00")
    folder.mkdir()
    (folder / EVIL).write_text(EVIL)
    (folder / f"{EVIL}.html").write_text("")
    code, out, err = command(*(argument.format(file=file, folder=folder) for argument in arguments))
    assert code
    assert is_safe(out), out
    assert is_safe(err), err
    assert "Traceback" not in err


@pytest.mark.slow
def test_no_result_prints_what_a_terminal_obeys(command: Run, tmp_path: Path) -> None:
    documents = tmp_path / f"documents {EVIL}"
    documents.mkdir()
    (documents / f"{EVIL}.txt").write_text(f"Ada {EVIL} wrote the first program in London.")
    rows = [Passage(f"{EVIL}{n}", f"Ada {EVIL}", f"Ada {EVIL} wrote {n} programs.").to_dict() for n in range(3)]
    corpus = tmp_path / f"{EVIL}.jsonl"
    corpus.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    for source in (documents, corpus):
        for arguments in (["search", source, f"Ada {EVIL}", "--links"], ["search", source, "Ada", "--json"]):
            code, out, err = command(*arguments)
            assert (code, is_safe(out), is_safe(err)) == (0, True, True)
            assert "Ada" in out
        asked = ["ask", f"Who {EVIL} wrote?", "--corpus", source, "--method", "one-r"]
        for more in ([], ["--show", "trace"], ["--json"]):
            code, out, err = command(*asked, *more)
            assert (code, is_safe(out), is_safe(err)) == (0, True, True)
    code, out, err = command("index", "build", corpus, "--out", tmp_path / f"index {EVIL}")
    assert (code, is_safe(out), is_safe(err)) == (0, True, True)


@pytest.mark.parametrize("form", ["table", "markdown", "latex", "csv", "json"])
def test_no_report_prints_what_a_terminal_obeys(form: str, command: Run, tmp_path: Path) -> None:
    for name, reply in (("one", EVIL), ("other", "no")):
        polyhop.evaluate(
            [Question(f"{EVIL}{n}", f"Who {EVIL}?", answers=(EVIL,), metadata={"type": EVIL}) for n in range(2)],
            method="direct",
            lm=ScriptedLM({"answer.direct": {"answer": reply}}),
            out=tmp_path / f"{name} {EVIL}",
            title=EVIL,
        )
    runs = sorted(path for path in tmp_path.iterdir() if path.name != "cache")
    for arguments in (runs[:1], runs, [*runs, "--by", "type"], [*runs, "--frontier", "calls"]):
        code, out, err = command("report", *arguments, "--format", form)
        assert (code, is_safe(out), is_safe(err)) == (0, True, True)
    code, out, err = command("compare", *runs)
    assert (code, is_safe(out), is_safe(err)) == (0, True, True)


def test_a_warning_of_the_package_is_one_printable_line(capsys: pytest.CaptureFixture[str]) -> None:
    from polyhop.cli.printing import warnings_shown

    with warnings_shown():
        logging.getLogger("polyhop.lm").warning("the cache %s cannot be used", EVIL)
    logging.getLogger("polyhop.lm").propagate = True
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert is_safe(errors)


@given(st.text())
def test_json_is_the_same_value_in_printable_characters(text: str) -> None:
    value = {"text": text.encode("utf-8", "replace").decode()}
    assert json.loads(as_json(value)) == value
    assert is_safe(as_json(value))
    record = logging.LogRecord("polyhop.serve", logging.INFO, "", 0, "asked", (), None)
    record.facts = value
    assert JsonLines().format(record).isprintable()
    assert json.loads(JsonLines().format(record))["text"] == value["text"]


@given(st.text())
def test_lines_are_printable_and_keep_what_is(text: str) -> None:
    printed = printable_lines(text)
    assert is_safe(printed)
    assert printable_lines(printed) == printed
    if is_safe(text):
        assert printed == text


def test_the_console_draws_and_colours_all_the_same() -> None:
    to = console()
    with to.capture() as captured:
        to.print(Text(EVIL, style="bold"))
    assert "\x1b]0" not in captured.get()
    assert is_safe(re.sub(r"\x1b\[[0-9;]*m", "", captured.get()))


def test_nothing_else_of_the_command_line_prints() -> None:
    """All that is printed goes through ``printing`` and the console of ``show``."""
    folder = Path(polyhop.__file__).parent / "cli"
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called in ("print", "Console", "_Console", "typer.echo", "typer.secho", "warnings.warn") or (
                    called.startswith("sys.std") and called.endswith("write")
                ):
                    found.add((path.relative_to(folder).as_posix(), called))
    assert found == {
        ("__init__.py", "sys.stdout.write"),  # the package's own help
        ("printing.py", "sys.stdout.write"),
        ("printing.py", "sys.stderr.write"),
        ("show.py", "_Console"),
    }


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_an_error_of_the_system_is_one_line(number: int, command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), f"/full/{EVIL}")

    monkeypatch.setattr("polyhop.cli.listings.methods", refuse)
    code, out, err = command("methods")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert os.strerror(number) in err
    assert is_safe(err)


def test_a_reader_that_has_read_enough_is_no_error(command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    monkeypatch.setattr("polyhop.cli._command", refuse)
    code, _, err = command("methods")
    assert (code, err) == (1, "")


def test_messages_to_a_terminal_are_broken_between_words(command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    _, _, whole = command("methods", "nonsense")
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda _: True)
    _, _, shown = command("methods", "nonsense")
    assert whole.count("\n") == 1
    assert shown.split() == whole.split()
    assert max(map(len, shown.splitlines())) <= 60
