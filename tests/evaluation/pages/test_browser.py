"""A report's page in a real browser: nothing that it shows runs, and it can be used by mouse, keys and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from polyhop.evaluation.pages.page import page
from polyhop.evaluation.store import read_report
from tests.kit.browser import MARKS, Tabs, axe, launched, needs_axe, press, tab_to, undirected, unfold
from tests.kit.hostile_runs import ATTACKS, evil_run, plain_run

pytestmark = MARKS


@pytest.fixture(scope="module")
def tabs() -> Iterator[Tabs]:
    with launched() as browser:
        yield Tabs(browser)


@pytest.fixture
def complaints() -> list[str]:
    """Everything that a page logged, raised or requested from the network."""
    return []


def opened(tabs: Tabs, complaints: list[str], file: Path, fragment: str = "", **options: Any) -> Any:
    tab = tabs.new(**options)
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("request", lambda asked: complaints.append(asked.url) if not asked.url.startswith("file:") else None)
    tab.goto(f"{file.as_uri()}{fragment}")
    return tab


def written(folder: Path, *runs: Path) -> Path:
    file = folder / "report.html"
    file.write_text(page({str(run): read_report(run) for run in runs}), "utf-8")
    return file


def open_all(tab: Any) -> None:
    """Open the last step's details, and every folded part with those inside it."""
    if "#q" in tab.url:
        tab.wait_for_selector("#question .node")
        tab.locator("#question .node").last.click()
    unfold(tab)


def test_no_attack_runs(tabs: Tabs, complaints: list[str], tmp_path: Path) -> None:
    evil_run(tmp_path / "run")
    file = written(tmp_path, tmp_path / "run")
    for i, attack in enumerate(ATTACKS):
        tab = opened(tabs, complaints, file, f"#q{i}")
        open_all(tab)
        assert tab.evaluate("window.hurt") is None
        assert tab.evaluate("document.querySelectorAll('img, iframe, b').length") == 0
        assert undirected(tab.locator("#question h2").first.text_content()) == undirected(attack)
        assert undirected(attack) in undirected(tab.locator("#question .list .passage p").first.text_content())
        tab.close()
    assert complaints == []


def test_questions_are_filtered_and_opened(tabs: Tabs, complaints: list[str], tmp_path: Path) -> None:
    plain_run(tmp_path / "run", wrong={2, 5})
    tab = opened(tabs, complaints, written(tmp_path, tmp_path / "run"))
    assert tab.locator("#list tbody tr").count() == 8
    tab.select_option("select[name=result]", "wrong")
    assert tab.locator("#count").text_content() == "2 of 8 questions"
    tab.select_option("select[name=hops]", "2")
    assert tab.locator("#list tbody tr").count() == 1
    tab.fill("input[type=search]", "town 2")
    assert tab.locator("#list tbody tr").count() == 0
    tab.fill("input[type=search]", "")
    tab.locator("#list a").click()
    assert tab.locator("#question h2").first.text_content() == "On which river lies Town 5?"
    assert tab.locator("#question .error", has_text="misread").count() == 1
    assert not tab.locator("#summary").is_visible()
    open_all(tab)
    shown = tab.locator("#question").text_content()
    assert "Town 5 lies on the river 5." in shown
    assert "a guess" in shown
    assert tab.locator("#question .gold").count() > 0
    tab.go_back()
    assert tab.locator("#count").text_content() == "1 of 8 questions"
    assert complaints == []


def test_keys_alone_lead_to_a_passage(tabs: Tabs, complaints: list[str], tmp_path: Path) -> None:
    plain_run(tmp_path / "run")
    tab = opened(tabs, complaints, written(tmp_path, tmp_path / "run"))
    press(tab, "Tab", "Enter")  # the link past the tables
    tab.wait_for_function("() => location.hash === '#questions'")
    tab.locator("#list a").first.focus()
    press(tab, "Enter")
    tab.wait_for_selector("#question .node")
    tab_to(tab, "it.tagName === 'SUMMARY'")
    press(tab, "Enter")
    tab.wait_for_selector("#question details[open] p")
    assert "Town 0 lies on the river 0." in tab.locator("#question details[open]").first.text_content()


def test_a_phone_shows_it_without_sideways_scrolling(tabs: Tabs, complaints: list[str], tmp_path: Path) -> None:
    plain_run(tmp_path / "one", wrong={1})
    plain_run(tmp_path / "two", method="cot")
    evil_run(tmp_path / "evil")
    file = written(tmp_path, tmp_path / "one", tmp_path / "two", tmp_path / "evil")
    for fragment in ("", "#q0", "#q9"):
        tab = opened(tabs, complaints, file, fragment, viewport={"width": 360, "height": 740})
        open_all(tab)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 360
        tab.close()


def test_dark_and_light_differ(tabs: Tabs, complaints: list[str], tmp_path: Path) -> None:
    plain_run(tmp_path / "run")
    file = written(tmp_path, tmp_path / "run")
    colours = []
    for scheme in ("light", "dark"):
        tab = opened(tabs, complaints, file, color_scheme=scheme)
        colours.append(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(set(colours)) == 2


@needs_axe
@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_axe_finds_no_violation(tabs: Tabs, complaints: list[str], tmp_path: Path, scheme: str, width: int) -> None:
    plain_run(tmp_path / "one", wrong={1})
    plain_run(tmp_path / "two", method="cot")
    file = written(tmp_path, tmp_path / "one", tmp_path / "two")
    found = {}
    for fragment in ("", "#q1"):
        seen = {"color_scheme": scheme, "viewport": {"width": width, "height": 900}, "bypass_csp": True}
        tab = opened(tabs, complaints, file, fragment, **seen)
        open_all(tab)
        found[fragment] = axe(tab)
        tab.close()
    assert found == {"": [], "#q1": []}
