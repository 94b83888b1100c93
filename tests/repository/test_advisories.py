"""Installed packages held against a copy of known advisories."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tests.kit.advisories import here, main, weak


def advisory(number: int, name: str, **more: Any) -> dict[str, Any]:
    package = {"name": name, "ecosystem": more.pop("ecosystem", "PyPI")}
    whole = {name: more.pop(name) for name in ("withdrawn",) if name in more}
    return {"id": f"T-{number}", "summary": "bad", "affected": [{"package": package, **more}], **whole}


def between(*events: Mapping[str, str], kind: str = "ECOSYSTEM") -> list[Any]:
    return [{"type": kind, "events": list(events)}]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    every = [{"introduced": "0"}]
    advisories = [
        advisory(1, "One.Thing", versions=["1.0", "1.1"]),
        advisory(2, "two", ranges=between({"introduced": "1.2"}, {"fixed": "1.10"})),
        advisory(3, "two", ranges=between({"introduced": "0"}, {"last_affected": "1.9"})),
        advisory(4, "two", ranges=between({"introduced": "0"}, {"fixed": "1.2"}, {"introduced": "1.10"})),
        advisory(5, "three", ranges=between(*every), withdrawn="2026-01-01T00:00:00Z"),
        advisory(6, "three", ranges=between(*every), ecosystem="npm"),
        advisory(7, "three", ranges=between(*every, kind="GIT")),
        advisory(8, "not-here", ranges=between(*every)),
    ]
    path = tmp_path / "copy.zip"
    with ZipFile(path, "w") as file:
        for each in advisories:
            file.writestr(f"{each['id']}.json", json.dumps(each))
    return path


def test_a_version_is_affected_if_named_or_within_a_range(copy: Path) -> None:
    assert list(weak({"one-thing": "1.1", "two": "1.9", "three": "3"}, copy)) == [
        "one-thing 1.1: T-1 bad",
        "two 1.9: T-2 bad",
        "two 1.9: T-3 bad",
    ]
    assert list(weak({"one-thing": "1.2", "two": "1.9.1"}, copy)) == ["two 1.9.1: T-2 bad"]
    assert list(weak({"two": "1.10"}, copy)) == ["two 1.10: T-4 bad"]
    assert list(weak({"two": "not a version", "one-thing": "1.0"}, copy)) == ["one-thing 1.0: T-1 bad"]


def test_what_was_looked_at_is_said_and_what_was_not(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(tmp_path / "none.zip") == 0
    assert capsys.readouterr().out.startswith("NOT AUDITED")
    assert main(copy) == 0
    assert f"{len(here())} packages, 0 known weaknesses; advisories 0 days old" in capsys.readouterr().out
    os.utime(copy, (0, 0))
    assert main(copy) == 0
    assert "OLD" in capsys.readouterr().out
    with ZipFile(copy, "a") as file:
        file.writestr("T-9.json", json.dumps(advisory(9, "aiohttp", versions=[here()["aiohttp"]])))
    assert main(copy) == 1
    assert "T-9" in capsys.readouterr().out


@pytest.mark.parametrize("damaged", [b"no zip", b""])
def test_a_copy_that_cannot_be_read_is_no_clean_bill(tmp_path: Path, damaged: bytes) -> None:
    (path := tmp_path / "copy.zip").write_bytes(damaged)
    assert main(path) == 1
    for files in ({}, {"one.json": "[1]"}, {"one.json": "{"}, {"one.json": '{"affected": [{}]}'}):
        with ZipFile(path, "w") as file:
            for name, text in files.items():
                file.writestr(name, text)
        assert main(path) == 1
