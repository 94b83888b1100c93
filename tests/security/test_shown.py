"""Texts written to steer whatever shows an answer: a terminal, a notebook, a Markdown or chat client, an agent. What is
shown has the parts that it has without these texts, and obeys none of them.

The page and the report are also tried in a browser, with texts of their own (tests/serve/page/test_attacks_browser.py).
"""

from __future__ import annotations

import io
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from polyhop.answer import Answer, as_html, with_references
from polyhop.cli.answers import print_answer
from polyhop.cli.show import _Console
from polyhop.common.extras import is_installed
from polyhop.evaluation.pages.page import page
from polyhop.evaluation.store import read_report
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.serve.service import Service
from polyhop.types import Passage
from tests.kit.hostile_runs import evil_run
from tests.kit.injections import INJECTIONS, STEERS, infected

TEXTS = ("", *INJECTIONS, *STEERS)
PASSAGES = [
    Passage(f"p{n}", f"Mill {n}", f"Mill {n} is by Ann Lee.", metadata={"source": "mills.md"}) for n in range(3)
]
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


async def answered(text: str, said: str = "Ann Lee") -> Answer:
    """An answer that cites passages with this text in every field; the model is not persuaded by it."""
    model = ScriptedLM(lambda task, fields: {"answer": said})
    shown = [infected(passage, text) if text else passage for passage in PASSAGES]
    async with Pipeline(method="one-r", lm=model, retriever=lambda query, k: shown) as pipeline:
        return await pipeline.aask("Who is Mill 1 by?")


def in_terminal(answer: Answer, *, colour: bool) -> str:
    """Return what the command line prints of an answer with its steps."""
    stream = io.StringIO()
    to: Console = _Console(file=stream, width=100, force_terminal=colour, highlight=False)
    print_answer(answer, show_trace=True, show_thoughts=True, to=to)
    return stream.getvalue()


class Elements(HTMLParser):
    """The elements of a page, with the names of their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: Counter[Any] = Counter()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found[tag, tuple(name for name, _ in attrs)] += 1


def parts(markdown: str) -> list[str]:
    """The kinds of the parts of a Markdown text, in order, without neighbouring texts."""
    found: list[str] = []
    for token in MARKDOWN.parse(markdown):
        found += [inner.type for inner in token.children or [token] if inner.type not in ("text", "text_special")]
    return found


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=[pytest.mark.slow] if n % 12 else []) for n in range(1, len(TEXTS))]
)
async def test_no_text_of_a_passage_changes_the_parts_of_what_is_shown(number: int) -> None:
    answer, honest = await answered(TEXTS[number]), await answered("")
    assert [cited.passage_id for cited in answer.citations] == [cited.passage_id for cited in honest.citations]
    assert str(answer).splitlines()[0] == str(honest).splitlines()[0]
    assert len(str(answer).splitlines()) == len(str(honest).splitlines())
    assert all(line.isprintable() for line in str(answer).splitlines())
    assert Elements(as_html(answer)).found == Elements(as_html(honest)).found
    assert parts(with_references(answer)) == parts(with_references(honest))
    plain = in_terminal(answer, colour=False)
    assert all(line.isprintable() for line in plain.split("\n"))
    codes = set(in_terminal(honest, colour=True).split("\x1b")[1:])
    coloured = in_terminal(answer, colour=True)
    assert "\x07" not in coloured
    assert {code.partition("m")[0] for code in coloured.split("\x1b")[1:]} <= {code.partition("m")[0] for code in codes}


@pytest.mark.parametrize(
    "said",
    [
        "![x](http://tracker.example/?q=1)",
        "![x][1]\n\n[1]: http://tracker.example/pixel.png",
        "<img src=http://tracker.example/>",
        "<svg onload=hurt()>",
        "</p><script>hurt()</script>",
        "<!-- <img src=x> -->",
        "a [![x](http://tracker.example/p)](http://tracker.example)",
    ],
)
async def test_an_answer_in_markdown_loads_nothing(said: str) -> None:
    shown = with_references(await answered("", said))
    assert not {"image", "html_inline", "html_block"} & set(parts(shown))


@pytest.mark.slow
def test_no_text_is_an_element_of_a_report(tmp_path: Path) -> None:
    """Questions, ids, titles, passages and replies are the texts."""
    evil_run(tmp_path / "evil", TEXTS[1:])
    evil_run(tmp_path / "plain", [f"Text {n}." for n in range(1, len(TEXTS))])
    evil, plain = (Elements(page({"run": read_report(tmp_path / name)})).found for name in ("evil", "plain"))
    assert {tag for tag, _ in evil} == {tag for tag, _ in plain}
    assert not any(name.startswith("on") for _, names in evil for name in names)


@pytest.mark.extra
@pytest.mark.skipif(not is_installed("mcp"), reason="extra not installed: mcp")
@pytest.mark.skipif(not is_installed("serve"), reason="extra not installed: serve")
@pytest.mark.slow
async def test_agents_and_chat_clients_are_given_the_same_parts() -> None:
    from polyhop.serve.http.chat import ChatBody, Turn, content, models
    from polyhop.serve.mcp import FoundAnswer
    from polyhop.serve.service import AskRequest

    honest: dict[str, Any] = {}
    for text in TEXTS:
        shown = [infected(passage, text) if text else passage for passage in PASSAGES]
        service = Service({"mills": shown}, lm=ScriptedLM(lambda task, fields: {"answer": "Ann Lee"}), method="one-r")
        await service.open()
        try:
            response = await service.ask(AskRequest("Who is Mill 1 by?"))
            body = ChatBody.model_validate({"messages": [{"role": "user", "content": "Who is Mill 1 by?"}]})
            said = content(Turn.of(body, models(service)), response)
        finally:
            await service.aclose()
        found = FoundAnswer.of(response).model_dump(mode="json")
        cited = found["citations"]
        seen = {
            "keys": sorted(found),
            "answer": (found["answer"], found["content"], found["support"]),
            "cited": sorted(row["id"] for row in cited),
            "marks": sorted(mark for row in cited for mark in row["markers"]),
            "parts": parts(said),
            "first": said.splitlines()[0],
        }
        honest = honest or seen
        assert seen == honest, text
        assert all(row["title"].isprintable() for row in cited), text
