"""The recipe of the container, as far as it can be checked without an engine that builds it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.request import urlopen

import pytest

import polyhop
from polyhop.common.extras import is_installed
from tests.kit.doc_pages import Reader

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
STEPS = [
    tuple(line.split(" ", 1))
    for line in (ROOT / "Containerfile").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


def step(name: str) -> str:
    (arguments,) = [arguments for instruction, arguments in STEPS if instruction == name]
    return arguments


def test_what_is_copied_exists_and_is_let_in() -> None:
    copied = [source for name, arguments in STEPS if name == "COPY" for source in arguments.split()[:-1]]
    let_in = (ROOT / ".containerignore").read_text("utf-8").splitlines()
    for source in copied:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in let_in, source
    assert let_in[0] == "*"
    assert {"pyproject.toml", PROJECT["readme"], *PROJECT["license-files"], "src"} <= set(copied)


def test_extras_and_the_command_exist_and_nobody_is_root() -> None:
    (extras,) = re.findall(r"'/source\[([\w,]+)\]'", next(text for name, text in STEPS if name == "RUN"))
    assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()
    assert json.loads(step("ENTRYPOINT")) == ["polyhop"]
    assert "polyhop" in PROJECT["scripts"]
    names = [name for name, _ in STEPS]
    assert step("USER") != "root"
    assert names.index("USER") > max(i for i, name in enumerate(names) if name == "RUN")
    version = re.fullmatch(r"docker\.io/library/python:(\d+)\.(\d+)-slim", step("FROM"))
    assert version is not None
    assert f"Programming Language :: Python :: {version[1]}.{version[2]}" in PROJECT["classifiers"]


def test_the_citation_and_the_changelog_name_this_version() -> None:
    citation, changelog = ((ROOT / name).read_text("utf-8") for name in ("CITATION.cff", "CHANGELOG.md"))
    assert f"\nversion: {polyhop.__version__}\n" in citation
    (released,) = re.findall(r"^date-released: (.+)$", citation, re.MULTILINE)
    latest = re.findall(r"^## \[(\d[^]]*)\] - (.+)$", changelog, re.MULTILINE)[0]
    assert latest[1] == released
    assert polyhop.__version__ == latest[0] or ".dev" in polyhop.__version__


def environment() -> dict[str, str]:
    """The variables that the recipe sets, except the folder of the cache."""
    given = dict(pair.split("=", 1) for pair in step("ENV").split())
    return {name: value for name, value in given.items() if name != "POLYHOP_CACHE"}


@pytest.mark.slow
@pytest.mark.skipif(not is_installed("serve"), reason="extra not installed: serve")
def test_the_command_serves_documents_with_a_key_and_refuses_without(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    documents = reader.folder / "documents"
    documents.mkdir()
    (documents / "miffy.md").write_text("# Miffy\n\nMiffy was created by Dick Bruna in 1955.\n")
    command = [each.replace("=/documents", f"={documents}") for each in json.loads(step("CMD"))]
    refused = subprocess.run(
        [sys.executable, "-m", "polyhop", *command],
        env={**os.environ, **reader.environment, **environment()},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert refused.returncode == 2
    assert "POLYHOP_API_KEYS" in refused.stderr
    reader.environment |= {**environment(), "POLYHOP_SERVE_HOST": "127.0.0.1", "POLYHOP_API_KEYS": "ada:" + "k" * 16}
    try:
        reader.serve(" ".join(["polyhop", *command]))
        with urlopen(f"{reader.url}/ready", timeout=30) as reply:
            assert reply.status == 200
    finally:
        reader.close()
