"""A report's page shows a long answer with its numbered citations, which lead to the passages."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import polyhop
from polyhop import Question, ScriptedLM
from polyhop.evaluation.pages.page import page
from polyhop.evaluation.store import read_report
from tests.kit.browser import CHROMIUM, Tabs, launched
from tests.kit.method_families import QUESTION, Library, read, reply


@pytest.fixture
def html(tmp_path: Path) -> str:
    polyhop.evaluate(
        [Question("q", QUESTION, answers=("He was born in Bremen.",), kind="long")],
        method="searchain",
        lm=ScriptedLM(reply),
        retriever=Library(),
        reader=read,
        out=tmp_path / "run",
    )
    return page({str(tmp_path / "run"): read_report(tmp_path / "run")})


def test_a_page_holds_content_and_citations(html: str) -> None:
    found = re.search(r'id="t-0-0">(.*?)</script>', html, re.S)
    assert found
    answer = json.loads(found[1])["answer"]
    assert answer["content"] == "Dark Mill was directed by Rolf Anders [1], who was born in Bremen [2]."
    assert [(each["marker"], each["passage_id"]) for each in answer["citations"]] == [(1, "film"), (2, "man")]


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_mark_opens_what_it_cites(html: str, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(html, "utf-8")
    with launched() as browser:
        tab = Tabs(browser).new()
        tab.goto(f"{file.as_uri()}#q0")
        marks = tab.locator("#question .content .cite")
        tab.wait_for_selector("#question .content .cite")
        assert marks.all_text_contents() == ["[1]", "[2]"]
        marks.nth(1).click()
        opened = tab.locator("#question .source[open]", has_text="Rolf Anders")
        assert opened.locator(".passage mark").all_text_contents() == ["Bremen"]
