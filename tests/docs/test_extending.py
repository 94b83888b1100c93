"""The pages of ``docs/extending``: in an empty folder, with the files a page gives, its commands print what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import polyhop
from tests.docs.test_examples import NO_NETWORK, parted

FOLDER = Path(__file__).parents[2] / "docs" / "extending"
PAGES = sorted(FOLDER.glob("*.md"))
NAMED = re.compile(r"`([\w-]+(?:\.[\w-]+)+)`:\n\n```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
"""A whole file: its name at the end of the line before the block."""
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TIMED = re.compile(r" in [\d.]+s\b")


class Command(NamedTuple):
    """A command of a page and what the page says it prints; "" where it says nothing."""

    line: str
    promised: str


def files_of(page: Path) -> dict[str, str]:
    return dict(NAMED.findall(page.read_text("utf-8")))


def commands_of(page: Path) -> list[Command]:
    found = []
    for block in CONSOLE.findall(page.read_text("utf-8")):
        _, *pieces = re.split(r"^\$ ", block, flags=re.MULTILINE)
        found += [Command(line, promised.strip()) for line, _, promised in (piece.partition("\n") for piece in pieces)]
    return found


def printed_by(line: str, folder: Path, site: Path) -> str:
    """Return what a command prints in ``folder``; it must succeed, and has no network."""
    programs = str(Path(sys.executable).parent)
    path = [str(site), str(Path(polyhop.__file__).parents[1])]
    env = {
        "PATH": os.pathsep.join([programs, os.environ["PATH"]]),
        "POLYHOP_CACHE": os.environ["POLYHOP_CACHE"],
        "HOME": str(site),
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONUTF8": "1",
        "COLUMNS": "120",
    }
    made = subprocess.run(
        ["sh", "-c", line], cwd=folder, env=env, capture_output=True, encoding="utf-8", timeout=300, check=False
    )
    assert made.returncode == 0, f"{line}\n{made.stdout}{made.stderr}"
    return TIMED.sub("", made.stdout).strip()


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if commands_of(page)], ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    folder, site = tmp_path / "empty", tmp_path / "site"
    folder.mkdir()
    site.mkdir()
    (site / "sitecustomize.py").write_text(NO_NETWORK)
    for name, text in files_of(page).items():
        (folder / name).write_text(text, encoding="utf-8")
    for line, promised in commands_of(page):
        printed = printed_by(line, folder, site)
        if promised:
            words, figures = parted(TIMED.sub("", promised))
            printed_words, printed_figures = parted(printed)
            assert printed_words == words, f"{line}\n{printed}"
            assert printed_figures == pytest.approx(figures, rel=0.25, abs=2), f"{line}\n{printed}"


def test_every_program_is_run() -> None:
    for page in PAGES:
        text = page.read_text("utf-8")
        assert text.count("```python") == sum(name.endswith(".py") for name in files_of(page)), page.name
        run = " ".join(command.line for command in commands_of(page))
        for name in files_of(page):
            imported = name.endswith(".py") and f"import {name[:-3]}" in text
            assert name in run or imported or not name.endswith(".py"), name


def test_the_new_method_has_forty_lines() -> None:
    code = files_of(FOLDER / "method.md")["until_agreed.py"]
    assert len(code.splitlines()) <= 40


def test_the_table_has_every_page() -> None:
    listed = re.findall(r"^\| \[[^\]]+\]\((\w+\.md)\)", (FOLDER / "README.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(page.name for page in PAGES if page.name != "README.md")


def test_an_entry_point_names_a_group_that_is_there() -> None:
    from polyhop.lm.names import GROUP

    listed = re.findall(r'entry-points\."([\w.]+)"', (FOLDER / "README.md").read_text("utf-8"))
    assert listed == ["polyhop.methods", "polyhop.retrievers", GROUP]
