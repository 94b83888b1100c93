"""Every program of ``examples/`` prints what its docstring says: in an empty folder, without a key or a network."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import polyhop
from polyhop.common.extras import EXTRA_MODULES
from tests.kit import notebook

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))

NO_NETWORK = """\
import errno, ipaddress, sys

def alone(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        if not ipaddress.ip_address(arguments[1][0]).is_loopback:
            raise OSError(errno.ENETUNREACH, "there is no network here", arguments[1][0])

sys.addaudithook(alone)
"""
"""A ``sitecustomize`` module: Python loads it as it starts, in the programs that an example starts too."""

FIGURE = re.compile(r"(?<![\w\[.])\d+(?:\.\d+)?")
"""A number that is no citation's mark and no part of a word."""


def docstring(example: Path) -> str:
    return ast.get_docstring(ast.parse(example.read_text("utf-8"))) or ""


def needed(example: Path) -> list[str]:
    """The modules behind the install line of a docstring: ``pip install 'polyhop[serve]' openai``."""
    install = re.search(r"`pip\s+install\s+([^`]+)`", docstring(example))
    modules: list[str] = []
    for name in install[1].replace("'", "").split() if install else ():
        extras = re.fullmatch(r"polyhop\[([\w,]+)\]", name)
        modules += [module for extra in extras[1].split(",") for module in EXTRA_MODULES[extra]] if extras else [name]
    return modules


def promised(example: Path) -> str:
    """The output of the program by its docstring: the indented lines behind ``prints``."""
    usage = re.search(
        r"^    python examples/(\w+\.py)\n\nprints\n\n((?:(?:    .*)?\n)+)", docstring(example) + "\n", re.M
    )
    assert usage is not None, "the docstring must say '    python examples/NAME.py', 'prints', and the lines, indented"
    assert usage[1] == example.name
    return "\n".join(line.removeprefix("    ").rstrip() for line in usage[2].strip("\n").split("\n")).rstrip()


def parted(text: str) -> tuple[list[str], list[float]]:
    """A text's words and, apart from them, its figures, however wide their columns."""
    return FIGURE.sub("0", text).split(), [float(figure) for figure in FIGURE.findall(text)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "example", [pytest.param(e, id=e.stem, marks=[pytest.mark.extra] if needed(e) else []) for e in EXAMPLES]
)
def test_an_example_prints_what_its_docstring_says(example: Path, tmp_path: Path) -> None:
    for module in needed(example):
        if find_spec(module.partition(".")[0]) is None:
            pytest.skip(f"not installed: {module}")
    empty, site = tmp_path / "empty", tmp_path / "site"
    empty.mkdir()
    site.mkdir()
    (site / "sitecustomize.py").write_text(NO_NETWORK)
    path = [str(site), str(Path(polyhop.__file__).parents[1])]
    kept = {name: os.environ[name] for name in ("PATH", "POLYHOP_CACHE")}
    made = subprocess.run(
        [sys.executable, str(example)],
        cwd=empty,
        env={**kept, "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(path), "PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    words, figures = parted(promised(example))
    printed_words, printed_figures = parted(made.stdout)
    assert printed_words == words
    # what `pocket` measures may differ a little on a processor that rounds otherwise (its card says so)
    assert printed_figures == pytest.approx(figures, rel=0.25, abs=2)
    assert not list(empty.iterdir()), "an example leaves nothing behind"


@pytest.mark.slow
def test_the_notebook_shows_what_its_cells_print_and_return() -> None:
    ran = 0
    for cell, outputs in notebook.shown(json.loads(notebook.NOTEBOOK.read_text("utf-8"))["cells"]):
        words, figures = parted(notebook.text_of(cell["outputs"]))
        printed, printed_figures = parted(notebook.text_of(outputs))
        assert printed == words, "python -m tests.kit.notebook stores it again"
        assert printed_figures == pytest.approx(figures, rel=0.25, abs=2)
        ran += bool(words)
    assert ran >= 4


def test_the_table_of_examples_has_them_all() -> None:
    listed = re.findall(
        r"^\| \[([\w-]+\.(?:py|toml|ipynb))\]\(\1\) \|", (FOLDER / "README.md").read_text("utf-8"), re.M
    )
    assert sorted(listed) == sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".py", ".toml", ".ipynb"))


def test_an_example_is_short() -> None:
    for example in EXAMPLES:
        assert len(example.read_text("utf-8").splitlines()) <= 90, example.name


def test_a_connection_beyond_this_machine_would_fail(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_NETWORK)
    asking = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=0.1)"
    made = subprocess.run(
        [sys.executable, "-c", asking], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert "there is no network here" in made.stderr
