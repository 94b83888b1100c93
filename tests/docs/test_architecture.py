"""The documentation is run, not trusted: snippets, commands, options and tables agree with the code."""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import typer.main
from typer.testing import CliRunner

from polyhop.cli.app import app
from polyhop.engine.budget import Prices
from polyhop.evaluation.sweeps.plan import read_plan
from polyhop.methods.registry import methods
from polyhop.prompts.tasks import SCORED, TASKS
from tests.kit import doc_pages, doc_reference, layer_drawing

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES.append(ROOT / "examples" / "README.md")
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
OTHERS = re.compile(
    r"pip |uvx |podman |docker |journalctl |iconv |ocrmypdf |openssl "
    r"|make|vllm |sglang|llama-server|text-generation-launcher|lms |curl |ray start|python -m benchmarks"
)
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


@EVERY_PAGE
def test_commands_and_options_exist(page: Path) -> None:
    text = page.read_text()
    for verb, after in re.findall(r"(?:^|`)polyhop ([a-z][a-z-]*)(?: ([a-z-]+))?", text, re.MULTILINE):
        assert verb in COMMANDS.commands, verb
        group = getattr(COMMANDS.commands[verb], "commands", None)
        assert group is None or not after or after in group, f"{verb} {after}"
    polyhop_lines = "\n".join(line for line in text.replace("\\\n", " ").splitlines() if not OTHERS.search(line))
    for flag in re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", polyhop_lines):
        assert flag in options(), flag


@functools.cache
def options() -> set[str]:
    parameters = [parameter for command in commands() for parameter in command.params]
    return {"--help", *(flag for each in parameters for flag in (*each.opts, *each.secondary_opts))}


def commands() -> list[Any]:
    top = COMMANDS.commands.values()
    return [c for command in top for c in (command, *getattr(command, "commands", {}).values())]


@EVERY_PAGE
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"\w+:", target):
            assert re.fullmatch(r"https://[\w-]+(?:\.[\w-]+)+(?:/\S*)?", target), target
            continue
        path, _, anchor = target.partition("#")
        leads_to = page.parent / path if path else page
        assert leads_to.exists(), target
        assert not anchor or anchor in anchors(leads_to), target


def anchors(page: Path) -> set[str]:
    """The names of the headings of a page in links."""
    named = [re.sub(r"[`*]", "", title) for title in re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)]
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in named}


@EVERY_PAGE
def test_commands_are_understood(page: Path) -> None:
    """Each command of a block, run or not, is one that the parser takes, with its options and values."""
    for block in doc_pages.blocks(page, "sh", "console", ""):
        lines = list(doc_pages.commands(block.text))
        if block.language == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        for line in lines:
            if re.match(r"polyhop [a-z]", line):
                understood(line)


def understood(line: str) -> None:
    words = shlex.split(re.split(r"\s(?:\||>|&&|<)", line)[0], comments=True)[1:]
    command: Any = COMMANDS
    while words and (below := getattr(command, "commands", None)):
        assert words[0] in below, line
        command = below[words.pop(0)]
    try:
        command.make_context("polyhop", words)
    except click.exceptions.Exit:
        pass
    except click.ClickException as error:
        raise AssertionError(f"{line}: {error.format_message()}") from None


@EVERY_PAGE
def test_settings_files_and_snippets_are_well_formed(page: Path) -> None:
    for block in doc_pages.blocks(page, "toml", "json", "python"):
        if block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "json":
            json.loads(block.text)
        else:
            ast.parse(block.text, page.name)


def test_the_sweep_and_the_prices_are_read_as_they_stand(tmp_path: Path) -> None:
    prices, plan = doc_pages.blocks(ROOT / "docs" / "running.md", "toml")
    (tmp_path / "prices.toml").write_text(prices.text)
    assert Prices.of(tmp_path / "prices.toml").cost("openai:MODEL@http://localhost:8000/v1", 1_000_000, 0) == 0.15
    assert len(read_plan(tomllib.loads(plan.text)).points) == 7


RUN_BY = {
    "README.md": "test_docs.py",
    "docs/adapters.md": "test_adapters_docs.py",
    "docs/extending/": "test_docs_extending.py",
    "docs/methods/": "test_docs_methods.py",
    "docs/retrievers.md": "test_retrieval_mdr.py",
    "docs/serve.md": "test_docs_served.py",
    "docs/chat.md": "test_docs_served.py",
    "docs/telemetry.md": "test_docs_served.py",
}
"""The test that runs the Python of a page, or holds it against the source that it is taken from."""


@EVERY_PAGE
def test_what_runs_the_snippets_of_a_page_is_known(page: Path) -> None:
    here = page.relative_to(ROOT).as_posix()
    if doc_pages.blocks(page, "python"):
        assert any(here.startswith(known) for known in RUN_BY), here


def test_every_method_and_task_is_documented() -> None:
    listed = (ROOT / "docs" / "methods" / "README.md").read_text()
    for name in methods():
        assert f"| `{name}` |" in listed
    for name in TASKS:
        assert (ROOT / "src" / "polyhop" / "prompts" / "files" / f"{name}.md").is_file()


def test_help_speaks_of_every_verb(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from polyhop.cli import main

    monkeypatch.setattr(sys, "argv", ["polyhop", "--help"])
    with pytest.raises(SystemExit):
        main()
    printed = capsys.readouterr().out
    for verb in ("demo", "ask", "index", "search", "run", "data", "methods", "prompts", "tune", "doctor"):
        assert verb in printed


def test_no_page_speaks_of_the_machine_it_was_written_on() -> None:
    for page in [
        *PAGES,
        *ROOT.glob("src/**/*.py"),
        *ROOT.glob("tests/**/*.py"),
        *ROOT.glob("benchmarks/*.py"),
        *ROOT.glob("examples/*.py"),
    ]:
        assert not re.search(r"(?<![\w.])/(?:root|work|home/\w+)/", page.read_text().replace("/home/ada/", "")), page


def test_the_drawing_of_the_architecture_is_the_import_contract() -> None:
    if os.environ.get("POLYHOP_GOLDEN") == "write":
        layer_drawing.DRAWING.write_text(layer_drawing.drawing())
    assert layer_drawing.DRAWING.read_text() == layer_drawing.drawing()
    rows = re.findall(r"^\| (`.+?) \|", layer_drawing.PAGE.read_text(), re.MULTILINE)
    assert [re.findall(r"`(\w+)`", row) for row in rows] == layer_drawing.layers()


def test_the_guide_to_methods_agrees_with_the_methods_and_the_model_card() -> None:
    page = (ROOT / "docs" / "measured.md").read_text().partition("## Smoke test: the five systems")[2]
    guide = (ROOT / "docs" / "which-method.md").read_text()
    card = (ROOT / "src" / "polyhop" / "lm" / "pocket" / "model" / "CARD.md").read_text().replace("–", " … ")
    names = {"hops": "`hops`", "tor": "Tree of Reviews", "resp": "ReSP", "ge": "GE-Reasoning", "searchain": "SearChain"}
    for name, called in names.items():
        known = methods()[name]
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        assert row.startswith(f"| `{name}` | {known.calls} | {known.layers(known.resolve({}))} |")
        measured = next(line for line in card.splitlines() if line.startswith(f"| {called} |") and " / " in line)
        assert re.findall(r"[\d.]+ \([\d.]+ … [\d.]+\)", row) == re.findall(
            r"(?<=/ )[\d.]+ \([\d.]+ … [\d.]+\)", measured
        )
    for name in re.findall(r"^\|[^|]+\| ((?:`[\w-]+`(?:, )?)+)", guide.partition("## By what")[2], re.MULTILINE):
        for each in re.findall(r"`([\w-]+)`", name):
            assert each in methods(), each


def test_the_reference_is_complete() -> None:
    made = {name: make() for name, make in doc_reference.PAGES.items()}
    for command in commands():
        for parameter in command.params:
            if parameter.param_type_name == "option" and not parameter.hidden:
                assert parameter.opts[0] in made["cli"]
    for name, method in methods().items():
        assert f"## {name}\n" in made["settings"]
        assert all(f"| `{setting}` |" in made["settings"] for setting in method.settings)
    for name in [*TASKS, *SCORED]:
        assert f"## {name}\n" in made["prompts"]
        assert f"## {name}\n" in made["tasks"]
    assert "| `UsageError` | `PolyhopError` | 2 |" in made["errors"]
    assert "safe default" in made["tasks"]


def test_the_reference_shows_help_as_it_is_printed() -> None:
    verbs = dict(doc_reference.verbs())
    for path in (("polyhop", "run"), ("polyhop", "index", "add")):
        printed = (
            CliRunner()
            .invoke(app, [*path[1:], "--help"], prog_name="polyhop", terminal_width=doc_reference.WIDTH)
            .output
        )
        assert doc_reference.usage(path, verbs[path]).split() == printed.split()


def test_every_page_has_its_place() -> None:
    """A page that stands in no menu would not be built; ``make docs`` says so too."""
    menu = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    for page in (ROOT / "docs").rglob("*.md"):
        here = page.relative_to(ROOT / "docs")
        assert here.as_posix() in menu or f": {here.parent.as_posix()}/\n" in menu, here
    made = re.findall(r"reference/(\w+)\.md", menu)
    assert {*doc_reference.PAGES, "index"} == set(made)


def test_other_commands_of_the_pages_are_there() -> None:
    """Modules that Python is to run, verbs of make, extras that pip is to bring."""
    text = "\n".join(page.read_text() for page in PAGES)
    for module in re.findall(r"python -m ((?:benchmarks|training|tests)[\w.]*)", text):
        path = ROOT.joinpath(*module.rstrip(".").split("."))
        assert path.is_dir() or path.with_suffix(".py").is_file(), module
    verbs = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE)) <= verbs
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for named in re.findall(r"(?:polyhop|'\.|\s\.)\[([\w,]+)\]", text):
        assert set(named.split(",")) <= extras.keys(), named


@pytest.mark.slow
def test_a_fault_in_a_page_ends_the_build(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="needs polyhop[site]")
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for path in ROOT.iterdir():
        if path.name not in {"docs", "dist"} and not path.name.startswith("."):
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / "docs" / "lost.md").write_text("# Lost\n\n[a](nowhere.md) [b](faq.md#nothing) [c](../nothing.py)\n")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    for broken in ("lost.md", "nowhere.md", "#nothing", "../nothing.py"):
        assert broken in done.stderr
    warnings = [line for line in done.stderr.splitlines() if line.startswith("WARNING")]
    assert all("lost.md" in line or line.startswith("WARNING -  The following") for line in warnings), done.stderr
