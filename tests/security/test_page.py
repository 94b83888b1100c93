"""The model of threats in docs/security.md names a test for each promise, and each test is there and runs; the table of
what was tried, docs/injection.md, is that of the tests: ``POLYHOP_GOLDEN=write`` writes it."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from polyhop.common.text import printable
from tests.kit.injections import ORDERS_BY_KIND, STEERS_BY_KIND
from tests.security.test_steering import RANKED_BY_WORDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
MODEL = PAGE.partition("## Model of threats")[2].partition("\n## ")[0]
ROWS = [[cell.strip() for cell in row.split("|")[1:-1]] for row in re.findall(r"^\|.+\|$", MODEL, re.M)][2:]
TRIED = ROOT / "docs" / "injection.md"
_NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")

SENDERS = """documents; corpora, datasets; passages; replies of models; servers of models, retrievers, rerankers;
clients over HTTP, chat, MCP; index and run folders; caches; files of settings, protocols, batches; readers of an
answer; logs, traces, telemetry; dependencies"""


@cache
def collected(file: str) -> frozenset[str]:
    """The names of the tests that pytest collects from a file: functions of the module and of its test classes."""

    def functions(body: list[ast.stmt]) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield node.name
            elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                yield from functions(node.body)

    assert Path(file).name.startswith("test_")
    return frozenset(functions(ast.parse((ROOT / file).read_text()).body))


def test_every_sender_is_in_the_model() -> None:
    assert [row[0] for row in ROWS if row[0]] == [" ".join(name.split()) for name in SENDERS.split(";")]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1])
def test_each_promise_has_a_test_that_runs(row: list[str]) -> None:
    _, threat, promise, test, more = row
    assert threat
    assert promise
    ((file, name),) = _NAMED.findall(test)
    assert name in collected(file)
    for other, _ in _NAMED.findall(more):
        assert collected(other)


def test_no_test_of_security_is_without_a_promise() -> None:
    named = {file for file, _ in _NAMED.findall(MODEL)}
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "security").glob("test_*.py")}
    assert files - named == {"tests/security/test_page.py"}
    promises = [row[2] for row in ROWS]
    assert len(ROWS) >= 50
    assert all(promises)


def test_what_was_tried_is_what_the_page_says() -> None:
    if os.environ.get("POLYHOP_GOLDEN") == "write":
        TRIED.write_text(tried())
    assert TRIED.read_text() == tried()


def tried() -> str:
    """The page of the texts that were tried, and of what they changed."""
    kinds = {**ORDERS_BY_KIND, **STEERS_BY_KIND}
    return _TRIED.format(
        count=sum(map(len, kinds.values())),
        texts="\n".join(f"| {kind} | {len(texts)} | {_sample(texts[0])} | the same |" for kind, texts in kinds.items()),
        methods="\n".join(
            f"| `{name}` | {', '.join(compared)} | {_CHANGES[name]} |"
            for name, compared in sorted(RANKED_BY_WORDS.items())
        ),
    )


_TRIED = """# Injection: what was tried

{count} texts stood in the title, the text, the links and the metadata of every passage, before every method (`agent`
with its tools, `search-agent` with its tags). The model is scripted and not persuaded: it answers as if the text were
not there. What a method does is compared with what it does without the text (`tests/security/test_steering.py`). A test
writes this page from the texts that are tried. [security.md](security.md) says what a model that is persuaded can still
spoil. The first table holds for every method but those of the second.

| texts | number | for example | calls, their order, searches, links, tools, citations, answer |
|---|--:|---|---|
{texts}

Some methods weigh passages by their words, as their papers do, and so by the words of such a text. Of these only the
following is compared, and is the same:

| method | compared | may change |
|---|---|---|
{methods}

What is shown has the same parts with and without each text (`tests/security/test_shown.py`):

| shown in | compared |
|---|---|
| terminal | lines of the answer; only printable characters, and only the colours of polyhop |
| notebook | elements and attributes of the HTML |
| Markdown references, chat content | parts of the Markdown: no further link, picture, HTML, table or emphasis |
| MCP | fields, answer, citations; titles on one printable line |
| report, page | no further element or handler; in a browser no script or request (`tests/serve/page`) |

Not tried: whether a real model is persuaded. That depends on the model, and no set of texts measures it.
"""
_CHANGES = {
    "hops": "the order of paths, and so what is read and answered",
    "promptrank": "the order of passages, and so what is read and answered",
    "replug": "the weights of passages, and so the answer and its citations",
}


def _sample(text: str) -> str:
    """A text as code in a cell of a table."""
    shown = printable(text).replace("|", "¦").replace("`", "'")
    return f"`{shown[:60]}{'…' * (len(shown) > 60)}`"
