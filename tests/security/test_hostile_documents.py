"""Documents of every kind that wish harm: each is read or told of by its name, within its time and room; the next one
is read, nothing outside the folder is, and a text before what is hostile is kept.

``POLYHOP_TRIES=20`` draws 3,000 documents and makes the bombs twenty times as large.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from polyhop.data.converting import MAX_CHARACTERS
from polyhop.data.converting.converter import Converter
from polyhop.data.corpora import open_corpus
from polyhop.data.documents import passages_of
from polyhop.errors import DataError
from polyhop.types import Passage
from tests.kit.hostile_documents import BOMBS, KEPT, drawn, write
from tests.kit.tally import count
from tests.kit.terminal import Cli, cli
from tests.kit.tries import tries

__all__ = ["cli"]

COUNT, SCALE = tries(150), min(100, 2 * int(os.environ.get("POLYHOP_TRIES", "1")))
"""Documents that are drawn, and the size of bombs."""
MAX_TIMES = 500
"""Maximum characters of passages for each byte of a small document."""


def fault_of(read: Converter, path: Path) -> tuple[list[Passage], str]:
    """The passages of a document, or the message that it cannot be read."""
    try:
        blocks = read.blocks(path)
    except DataError as error:
        return [], str(error)
    assert sum(len(block.text) + len(block.caption) for block in blocks) <= MAX_CHARACTERS
    return list(passages_of(blocks, path.name)), ""


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_read_or_reported_and_the_next_document_is_read(bomb: str, tmp_path: Path) -> None:
    path = BOMBS[bomb](tmp_path, SCALE)
    with Converter(seconds=30) as converter:
        passages, fault = fault_of(converter, path)
        count("hostile inputs")
        assert passages or path.name in fault
        written = sum(len(passage.text) + len(passage.title) for passage in passages)
        assert written <= max(MAX_TIMES * path.stat().st_size, 10_000_000)
        assert fault_of(converter, write(tmp_path / "after.txt", "Tides rise."))[0][0].text == "Tides rise."


@pytest.mark.slow
def test_any_document_is_read_or_reported_and_nothing_before_the_harm_is_lost(tmp_path: Path) -> None:
    draw, read = random.Random(1), 0
    secret = write(tmp_path / "secret.txt", "The combination is sesame.")
    (folder := tmp_path / "documents").mkdir()
    with Converter(seconds=30) as converter:
        for number in range(COUNT):
            path = drawn(folder, number, draw, secret)
            passages, fault = fault_of(converter, path)
            if fault:
                assert path.name in fault, fault
                assert len(fault) < 1000, fault
                continue
            read += 1
            whole = "\n".join(f"{passage.title}\n{passage.text}" for passage in passages)
            assert KEPT in whole, path
            assert "sesame" not in whole, path
            assert not any(c in whole for c in "\x00\x1b\ud800\x07"), path
            assert {passage.metadata["source"] for passage in passages} == {path.name}
    count("hostile inputs", COUNT)
    assert read >= COUNT / 3


def test_names_of_files_are_shown_as_text_and_lead_nowhere(tmp_path: Path, cli: Cli) -> None:
    outside = write(tmp_path / "outside.txt", "The combination is sesame.")
    (folder := tmp_path / "uploads").mkdir()
    names = [
        "\x1b]0;title\x07.txt",
        "a\nb.md",
        "\u202etxt.exe.txt",
        "-rf.txt",
        "=cmd().csv",
        "x\\..\\y.txt",
        "%2e%2e%2fx.txt",
    ]
    for number, name in enumerate([*names, "<img src=x>.html", "~.txt", "$(id).txt", "a" * 240 + ".txt"]):
        write(folder / name, f"Tide {number} rises.")
    with os.fdopen(os.open(os.fsencode(folder) + b"/\xff\xfe.txt", os.O_CREAT | os.O_WRONLY), "w") as stream:
        stream.write("Tide 99 rises.")
    for name, target in (("link.txt", outside), ("up", tmp_path), ("loop.txt", folder / "loop.txt"), ("me", folder)):
        (folder / name).symlink_to(target)
    (folder / "folder.xlsx").mkdir()
    write(folder / "bad\x1b[31m.ipynb", "{")
    passages = list(open_corpus(folder))
    assert len(passages) == 12, "|".join(passage.id for passage in passages)
    assert all("sesame" not in passage.text for passage in passages)
    for arguments in (("search", folder, "tide combination"), ("index", "build", folder, "--out", tmp_path / "index")):
        result = cli(*arguments)
        assert result.code == 0, result.err
        shown = result.out + result.err
        assert "sesame" not in shown
        assert all(line.isprintable() for line in shown.split("\n")), shown
    assert outside.read_text() == "The combination is sesame."
    assert {path.name for path in tmp_path.iterdir()} - {"cache"} == {"index", "outside.txt", "uploads"}
