"""The page of troubleshooting quotes messages that the package prints."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import polyhop
from tests.kit.doc_pages import DOCS

SHORTEST = 8
"""Characters of a piece of a message that is looked for."""
TABLE = re.compile(r"^\| message \|.*\n\|[-|]+\n((?:\|.*\n)+)", re.MULTILINE)
PLACEHOLDER = re.compile(r"…|\b[A-Z]{4,}\b|\d+(?: \.\w+)?")


def quoted() -> list[str]:
    """The messages in the first columns of the tables."""
    tables = [
        table for page in ("troubleshooting", "ollama") for table in TABLE.findall((DOCS / f"{page}.md").read_text())
    ]
    rows = [row.split("|")[1] for table in tables for row in table.splitlines()]
    return [message for row in rows for message in re.findall(r"`([^`]+)`", row)]


def written() -> list[str]:
    """Every text in the source; what an f-string fills in is "…"."""
    texts: list[str] = []
    for path in Path(polyhop.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                texts.append(
                    "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return texts


@pytest.fixture(scope="module")
def source() -> list[str]:
    return written()


@pytest.mark.parametrize("message", quoted())
def test_a_message_of_the_page_is_one_of_the_source(message: str, source: list[str]) -> None:
    pieces = [piece.strip(" .:;") for piece in PLACEHOLDER.split(message)]
    for piece in (piece for piece in pieces if len(piece) >= SHORTEST):
        assert any(piece in text for text in source), piece


def test_messages_are_quoted() -> None:
    assert len(quoted()) > 25
