"""Runs on the page: filtered, compared, opened and plotted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.kit.browser import serving, settle, unfold
from tests.kit.hostile_runs import evil_run, plain_run
from tests.kit.mill import of_mill, tree_script
from tests.kit.served_page import MARKS, Open, fresh, go

pytestmark = MARKS


def test_runs_are_filtered_compared_and_opened(opened: Open, demo: str, complaints: list[str]) -> None:
    tab = opened(demo, "#/runs")
    assert tab.locator("tbody tr").count() == 2
    tab.wait_for_selector(".plot img")
    assert tab.evaluate(
        "(async (image) => (await image.decode(), image.naturalWidth))(document.querySelector('.plot img'))"
    )
    tab.select_option("select[name=method]", "one-r")
    assert tab.locator("tbody a").all_inner_texts() == ["one"]
    tab.select_option("select[name=method]", "")
    for box in tab.locator("tbody input").all():
        box.check()
    tab.click("text=Compare these")
    tab.wait_for_selector(".flipped li")
    assert sorted(tab.locator(".flipped .asked").all_inner_texts()) == [
        "On which river lies Town 2?",
        "On which river lies Town 6?",
    ]
    go(tab, "#/runs/one", ".questions tbody tr")
    assert tab.locator(".questions tbody tr").count() == 8
    tab.click("text=Settings of the run")
    tab.wait_for_selector(".facts .facts dt")
    assert "context tokens" in tab.locator(".facts .facts dt").all_inner_texts()
    assert tab.locator(".facts summary").inner_text().endswith(" values"), "the prompts' fingerprints are folded"
    tab.select_option("select[name=wrong]", "true")
    tab.wait_for_selector("text=2 of 8 questions")
    tab.fill("input[type=search]", "town 5")
    tab.wait_for_selector("text=1 of 8 questions")
    tab.locator(".questions a").click()
    tab.wait_for_selector(".reply")
    assert tab.locator("h1").inner_text() == "On which river lies Town 5?"
    assert tab.locator(".wrong").inner_text() == "wrong"
    tab.locator(".node").last.click()
    unfold(tab)
    assert "a guess" in tab.locator(".inspector").inner_text()
    tab.go_back()
    tab.wait_for_selector("text=1 of 8 questions")
    assert complaints == []


def test_the_plot_is_drawn_beside_runs_that_only_retrieve_and_runs_of_other_questions(
    opened: Open, complaints: list[str], tmp_path: Path
) -> None:
    for method in ("bm25", "one-r", "cot"):
        plain_run(tmp_path / method, method=method)
    evil_run(tmp_path / "evil")
    with serving(of_mill(tree_script, runs=tmp_path)) as address:
        tab = opened(address, "#/runs")
        tab.wait_for_selector(".plot img")
        assert tab.input_value("select[aria-label=Metric]") == "f1"
        assert "left out, without it: bm25" in tab.locator(".plot img").get_attribute("alt")
        assert tab.locator("select[aria-label=Dataset]").count() == 0, "a plot takes two runs of a dataset"
        tab.select_option("select[aria-label=Metric]", "recall_mean@5")
        tab.wait_for_selector(".plot img[alt*='without it: cot']")
        assert tab.locator(".plot .dim").count() == 0
    assert complaints == []


def test_the_plot_is_that_of_the_latest_choice_even_if_an_earlier_one_comes_late(opened: Open, demo: str) -> None:
    tab = opened(demo, "#/runs")
    tab.wait_for_selector(".plot img")
    late: list[Any] = []
    tab.route(lambda url: "cost=tokens" in url, lambda route: late.append(route))
    with tab.expect_request(lambda request: "cost=tokens" in request.url):
        tab.select_option("select[aria-label=Cost]", "tokens")
    tab.select_option("select[aria-label=Cost]", "seconds")
    tab.wait_for_selector(".plot img[alt*=' by seconds ']")
    with tab.expect_response(lambda response: "cost=tokens" in response.url) as come:
        late[0].continue_()
    come.value.finished()
    settle(tab)
    assert " by seconds " in tab.locator(".plot img").get_attribute("alt")


def test_an_unknown_name_is_an_error(opened: Open, demo: str) -> None:
    tab = opened(demo)
    for place in ("#/trace/none", "#/runs/none", "#/compare/one/none", "#/nowhere"):
        fresh(tab, f"{demo}{place}")
        assert tab.locator("main .problem[role=alert]").count() == 1
