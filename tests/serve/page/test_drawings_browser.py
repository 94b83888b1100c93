"""The drawings of reasoning: trees, chains, graphs and ranked paths, whole in every window and step by step."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.kit.browser import press, resize, serving
from tests.kit.drawings import boxes, misdrawn
from tests.kit.mill import ASKED, chain_script, graph_script, of_mill
from tests.kit.served_page import MARKS, METROPOLIS, Open, answered

pytestmark = MARKS


def test_a_chain_is_drawn_downwards_and_a_long_answer_has_its_marks(opened: Open, complaints: list[str]) -> None:
    with serving(of_mill(chain_script)) as address:
        tab = answered(opened(address), ASKED, "searchain")
        assert tab.locator(".drawing").get_attribute("data-shape") == "chain"
        assert tab.locator(".node .title").all_inner_texts() == [ASKED, "Who made Mill?", "Ann Lee", "Bern"]
        assert all(one["y"] + one["height"] < other["y"] for one, other in pairwise(boxes(tab)))
        assert tab.locator(".content .cite").all_inner_texts() == ["[1]", "[2]"]
        tab.locator(".content .cite").last.click()
        assert "Ann Lee was born in Bern" in tab.locator(".source[open]").inner_text()
    assert complaints == []


def test_a_graph_shows_the_bindings_of_its_variables(opened: Open, complaints: list[str]) -> None:
    with serving(of_mill(graph_script)) as address:
        tab = answered(opened(address), ASKED, "ge")
        assert tab.locator(".drawing").get_attribute("data-shape") == "graph"
        nodes = tab.locator(".node").all()[1:-1]
        kinds = {node.locator(".title").inner_text(): node.get_attribute("data-kind") for node in nodes}
        assert kinds == {
            "Mill": "entity",
            "director": "relation",
            "Ann Lee": "variable",
            "birth place": "relation",
            "Bern": "variable",
        }
        tab.locator(".node[data-kind=relation]").first.click()
        assert tab.locator(".inspector h3").inner_text() == "(Mill; director; Ann Lee)"
        tab.locator("input[type=range]").fill("4")
        assert "?" in tab.locator(".node[data-kind=variable] .title").all_inner_texts()
    assert complaints == []


def test_ranked_paths_are_drawn_as_a_tree_of_the_best(opened: Open, demo: str, complaints: list[str]) -> None:
    tab = answered(opened(demo), METROPOLIS, "hops")
    assert tab.locator(".drawing").get_attribute("data-shape") == "tree"
    paths = [node.get_attribute("data-id").split("/") for node in tab.locator(".node[data-kind=path]").all()]
    assert ["question"] not in paths
    assert all(path[:-1] == ["question"] or path[:-1] in paths[:place] for place, path in enumerate(paths))
    labels = tab.locator(".node[data-kind=path] .label").all_inner_texts()
    assert sum(" of " in label for label in labels) == 8
    best = tab.locator(".node[data-tone=good]")
    assert best.locator(".label").inner_text().startswith("best of ")
    assert best.locator(".said").inner_text().startswith("score ")
    nodes = boxes(tab)
    place = nodes[tab.locator(".node").evaluate_all("(all) => all.findIndex((each) => each.dataset.tone === 'good')")]
    beside = [box for box in nodes if box["x"] > place["x"]]
    crossed = [box for box in beside if abs(box["y"] - place["y"]) < box["height"]]
    assert len(crossed) == 1, "the line to the answer crosses no other node"
    tab.locator(".node[data-kind=path]").nth(1).click()
    titles = tab.locator(".inspector h3").inner_text().split(" → ")
    assert len(titles) == len(paths[1]) - 1 == tab.locator(".inspector .passage").count()
    tab.locator(".node[data-tone=root]").click()
    assert "search" in tab.locator(".inspector").inner_text()
    assert complaints == []


@pytest.mark.parametrize("width", [1440, 800, 360])
def test_no_node_covers_another(opened: Open, demo: str, width: int) -> None:
    tab = opened(demo, viewport={"width": width, "height": 900})
    for method in ("tor", "ge", "resp", "hops"):
        answered(tab, METROPOLIS, method)
        found = boxes(tab)
        assert len(found) > 2
        for place, one in enumerate(found):
            assert one["x"] >= 0
            assert one["x"] + one["width"] <= width
            for other in found[:place]:
                apart = max(
                    one["x"] - other["x"] - other["width"],
                    other["x"] - one["x"] - one["width"],
                    one["y"] - other["y"] - other["height"],
                    other["y"] - one["y"] - one["height"],
                )
                assert apart > 0


@pytest.mark.parametrize(
    ("method", "width"),
    [*((method, width) for method in ("tor", "hops") for width in (1440, 1100, 390)), ("ge", 1440), ("resp", 1440)],
)
def test_a_drawing_stays_whole_when_a_step_is_opened_and_the_window_changes(
    opened: Open, demo: str, method: str, width: int
) -> None:
    """With the animations that most people have: a layout must not be measured while it still moves."""
    tab = opened(demo, viewport={"width": width, "height": 900}, reduced_motion="no-preference")
    answered(tab, METROPOLIS, method)
    assert misdrawn(tab) == []
    for place in (0, 2, tab.locator(".node").count() - 1):
        tab.locator(".node").nth(place).click()
        assert misdrawn(tab) == []
    press(tab, "Escape")
    assert not tab.locator(".inspector").is_visible()
    assert misdrawn(tab) == []
    tab.locator(".node").first.click()
    for other in (1920, 1200, 1024, 700, 360, width):
        resize(tab, other)
        assert misdrawn(tab) == []
    fill(tab.locator("input[type=range]"))
    assert misdrawn(tab) == []


def fill(slider: Any) -> None:
    """Go back to the middle of a replay, and to its end again."""
    most = int(slider.get_attribute("max"))
    slider.fill(str(most // 2))
    slider.fill(str(most))


def test_the_steps_can_be_gone_through_again(opened: Open, demo: str) -> None:
    tab = answered(opened(demo), METROPOLIS, "tor")
    whole = tab.locator(".node").count()
    slider = tab.locator("input[type=range]")
    slider.focus()
    press(tab, "Home")
    assert tab.locator(".node .label").all_inner_texts() == ["search"]
    press(tab, "ArrowRight")
    assert tab.locator(".node[data-tone=open]").count() == 1, "its parts are still to come"
    press(tab, "End")
    assert tab.locator(".node").count() == whole
    last = int(slider.get_attribute("max"))
    tab.evaluate(FASTER)
    tab.click("text=Replay")
    tab.wait_for_function("() => document.querySelector('.replay button').textContent === 'Replay'")
    assert tab.evaluate("shown") == [*(f"{step} of {last}" for step in range(1, last)), f"{last} steps"]
    assert tab.locator(".node").count() == whole


FASTER = """() => {
    const { setInterval } = window;
    window.setInterval = (call, pace) => setInterval(call, pace / 20);
    window.shown = [];
    const output = document.querySelector(".replay output");
    new MutationObserver(() => shown.push(output.textContent)).observe(output, { childList: true });
}"""
"""Replays run twenty times as fast, and each text beside the slider is kept."""
