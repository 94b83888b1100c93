"""The documentation is run, not trusted: snippets, commands, options and tables agree with the code."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from polyhop.cli.app import app
from polyhop.methods.registry import methods
from polyhop.prompts.tasks import TASKS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES.append(ROOT / "examples" / "README.md")
OTHERS = re.compile(r"pip |make|vllm |sglang|curl |python -m benchmarks")
"""In lines with the options of other programs."""
COMMANDS: Any = typer.main.get_command(app)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def test_the_readme_snippet_prints_what_the_readme_says() -> None:
    (code,) = blocks(ROOT / "README.md", "python")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})  # noqa: S102 - our own documentation
    shown = re.search(r"^```python\n.*?^```\n\n^```\n(.*?)^```$", (ROOT / "README.md").read_text(), re.S | re.M)
    assert shown is not None
    assert printed.getvalue() == shown[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_exist(page: Path) -> None:
    text = page.read_text()
    every_option = {flag for command in commands() for parameter in command.params for flag in parameter.opts}
    every_option |= {flag for command in commands() for p in command.params for flag in p.secondary_opts} | {"--help"}
    for verb, after in re.findall(r"(?:^|`)polyhop ([a-z][a-z-]*)(?: ([a-z-]+))?", text, re.MULTILINE):
        assert verb in COMMANDS.commands, verb
        group = getattr(COMMANDS.commands[verb], "commands", None)
        assert group is None or not after or after in group, f"{verb} {after}"
    polyhop_lines = "\n".join(line for line in text.splitlines() if not OTHERS.search(line))
    for flag in re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", polyhop_lines):
        assert flag in every_option, flag


def commands() -> list[Any]:
    top = COMMANDS.commands.values()
    return [c for command in top for c in (command, *getattr(command, "commands", {}).values())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_method_and_task_is_told_of() -> None:
    readme = (ROOT / "README.md").read_text()
    for name in methods():
        assert f"`{name}`" in readme
    for name in TASKS:
        assert (ROOT / "src" / "polyhop" / "prompts" / "files" / f"{name}.md").is_file()


def test_help_speaks_of_every_verb(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from polyhop.cli import main

    monkeypatch.setattr(sys, "argv", ["polyhop", "--help"])
    with pytest.raises(SystemExit):
        main()
    told = capsys.readouterr().out
    for verb in ("demo", "ask", "index", "search", "run", "data", "methods", "prompts", "tune", "doctor"):
        assert verb in told


def test_no_page_speaks_of_the_machine_it_was_written_on() -> None:
    for page in [
        *PAGES,
        *ROOT.glob("src/**/*.py"),
        *ROOT.glob("tests/**/*.py"),
        *ROOT.glob("benchmarks/*.py"),
        *ROOT.glob("examples/*.py"),
    ]:
        assert not re.search(r"(?<![\w.])/(?:root|work|home/\w+)/", page.read_text().replace("/home/ada/", "")), page
