"""The page under attack: texts that would run as code, addresses that lead nowhere, names that break a layout."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from polyhop import Passage, ScriptedLM
from polyhop.serve.service import Service
from tests.kit.browser import serving, undirected, unfold
from tests.kit.drawings import misdrawn
from tests.kit.hostile_runs import ATTACKS, evil_run
from tests.kit.mill import MILL, tree_script
from tests.kit.served_page import MARKS, Open, answered, fresh, go

pytestmark = MARKS


def test_no_attack_runs(opened: Open, complaints: list[str], tmp_path: Path) -> None:
    evil_run(tmp_path / "evil")
    attacked = ""

    def attack(task: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        if task in ("tor.fuse", "answer.read"):
            return {"rationale": attacked, "answer": attacked}
        if task == "tor.complete":
            return {"thought": attacked, "information": attacked, "answer": attacked}
        supported = len(fields["passages"]) > 1
        return {"thought": attacked, "relevant": True, "supported": supported, "answer": attacked, "query": attacked}

    def found(query: str, k: int) -> list[Passage]:
        return [Passage(f"{attacked} {n}", attacked, attacked, metadata={"source": attacked}) for n in range(2)]

    service = Service({"evil": None}, lm=ScriptedLM(attack), retriever=found, cache=False, runs=tmp_path)
    with serving(service) as address:
        tab = opened(address)
        for place, attacked in enumerate(ATTACKS):
            answered(tab, attacked, "tor", "one-r" if place else "cor")
            tab.locator(".node").last.click()
            unfold(tab)
            untouched(tab)
            assert undirected(ATTACKS[place].strip()) in undirected(tab.locator(".reply").first.text_content())
            go(tab, "#/runs/evil", ".questions tbody tr")
            untouched(tab)
            tab.locator(".questions a").nth(place).click()
            tab.wait_for_selector(".reply")
            tab.locator(".node").last.click()
            unfold(tab)
            untouched(tab)
            assert undirected(tab.locator("h1").text_content()) == undirected(ATTACKS[place])
            go(tab, "#/trace/%3Cimg%20src=x%20onerror=window.hurt=6%3E", "main .problem")
            untouched(tab)
            go(tab, "#/", ".start h2")
    assert [complaint for complaint in complaints if "404" not in complaint and "400" not in complaint] == []


NOWHERE = (
    *(f"#/trace/{part}" for part in ("%", "..", "%2e%2e", "..%2F..%2Fopenapi.json", "__proto__", ",", "a,b,c")),
    *(f"#/{part}" for part in ("runs/%E0%A4%A", "runs/..", "runs/../q1", "compare/../..", "compare/one/%00")),
    "#javascript:window.hurt=7",
    "#/<img src=x onerror=window.hurt=8>",
    "#/runs/" + "x" * 20_000,
)


def test_an_unknown_address_shows_an_error(opened: Open, demo: str) -> None:
    tab = opened(demo)
    for place in NOWHERE:
        fresh(tab, f"{demo}{place}")
        assert tab.locator("main .problem[role=alert]").count() == 1, place
        untouched(tab)
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), place


@pytest.mark.parametrize("width", [1440, 390])
def test_hostile_names_and_titles_keep_the_layout(
    opened: Open, complaints: list[str], tmp_path: Path, width: int
) -> None:
    """Of corpora, passages, runs and questions: nothing of them is code, a link, or wider than the page."""
    corpora = {name: [Passage(text, text, text) for text in ATTACKS] for name in ATTACKS}
    evil_run(tmp_path / "constructor<b>" / ("W" * 200))
    long = ATTACKS[-1]

    def reply(task: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        return tree_script(task, {**fields, "passages": [MILL[1]]}) if task == "tor.review" else {"answer": long}

    with serving(Service(corpora, lm=ScriptedLM(reply), cache=False, reader=None, runs=tmp_path)) as address:
        tab = opened(address, viewport={"width": width, "height": 900})
        for name in ATTACKS:
            tab.select_option("select[name=corpus]", name)
            tab.wait_for_function(GREETED, arg=undirected(name))
            assert tab.locator(".titles li").count() > 0
            whole(tab, width)
        for method in ("tor", "one-r"):
            answered(tab, long, method)
            whole(tab, width)
            tab.locator(".node").nth(1).click()
            unfold(tab)
            assert misdrawn(tab) == []
            whole(tab, width)
        for place in ("#/", "#/runs", f"#/runs/{quote('constructor<b>:' + 'W' * 200)}"):
            fresh(tab, f"{address}{place}")
            whole(tab, width)
    assert complaints == []


GREETED = """(name) => {
    const head = document.querySelector(".start h2").firstChild.data;
    return head.replace(/[\u202a-\u202e\u2066-\u2069]/g, "") === name;
}"""


def whole(tab: Any, width: int) -> None:
    """Nothing ran, no link leads out of the page, and nothing sticks out of it."""
    untouched(tab)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert (
        tab.evaluate(
            "[...document.querySelectorAll('a')].filter((a) => !a.getAttribute('href').startsWith('#')).length"
        )
        == 0
    )


def untouched(tab: Any) -> None:
    assert tab.evaluate("window.hurt") is None
    assert (
        tab.evaluate("document.querySelectorAll('main :is(script, iframe, b, i, [onerror], [onmouseover])').length")
        == 0
    )
    assert tab.evaluate("[...document.querySelectorAll('img')].every((each) => each.src.startsWith('data:image/svg'))")


def test_the_content_security_policy_blocks_foreign_scripts(opened: Open, demo: str, complaints: list[str]) -> None:
    tab = opened(demo)
    with tab.expect_console_message(lambda message: "Content Security Policy" in message.text):
        tab.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hurt = 1\">')")
    assert tab.evaluate("window.hurt") is None
    assert any("Content Security Policy" in complaint for complaint in complaints)
