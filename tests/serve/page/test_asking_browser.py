"""The view in which one asks: its first state, a question under way, its settings, errors and links; by keys too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from polyhop.serve.http.app import Options
from polyhop.serve.limits import Keys
from polyhop.serve.service import Service
from tests.kit.browser import PATIENCE, GatedLM, loaded_fonts, press, serving, tab_to, unfold
from tests.kit.mill import ASKED, MILL, of_mill, tree_script
from tests.kit.served_page import MARKS, METROPOLIS, Open, active, answered, ask

pytestmark = MARKS


def test_the_first_view_names_the_corpus_and_offers_questions_to_try(
    opened: Open, demo: str, complaints: list[str]
) -> None:
    tab = opened(demo)
    assert tab.locator(".start h2").inner_text().split() == ["demo", "375", "passages"]
    examples = tab.locator(".examples button")
    assert examples.count() == 3
    assert examples.first.inner_text() == METROPOLIS
    examples.first.click()
    tab.wait_for_url("**#/trace/*")
    assert tab.locator(".reply").inner_text().startswith("Vienna")
    assert not tab.locator(".start").is_visible()
    assert complaints == []


def test_the_first_view_of_own_documents_shows_size_and_titles(
    opened: Open, complaints: list[str], tmp_path: Path
) -> None:
    (tmp_path / "notes").mkdir()
    for name in ("Alpha", "Beta"):
        (tmp_path / "notes" / f"{name}.md").write_text(
            f"# {name}\n\n{name} is a letter.\n\n## Sound\n\nIt is spoken.\n"
        )
    service = Service({"notes": tmp_path / "notes", "mill": MILL}, cache=False)
    with serving(service) as address:
        tab = opened(address)
        assert tab.locator(".start h2").inner_text().split()[0] == "notes"
        assert tab.locator(".start h2").inner_text().endswith("of 2 files")
        assert tab.locator(".titles li").all_inner_texts() == ["Alpha", "Beta"]
        assert tab.locator(".examples").count() == 0, "questions are never made up"
        tab.select_option("select[name=corpus]", "mill")
        tab.wait_for_selector(".start h2 >> text=3 passages")
        assert tab.locator(".titles li").count() == 3
    with serving(of_mill(tree_script)) as address:
        assert opened(address).locator(".start h2").inner_text().strip() == "mill"
    assert complaints == []


def test_the_type_is_the_page_s_own(opened: Open, demo: str, complaints: list[str]) -> None:
    tab = opened(demo)
    loaded_fonts(tab, "Inter", "Source Serif 4")
    assert complaints == []


def test_a_tree_grows_while_running_and_a_node_shows_its_details(opened: Open, complaints: list[str]) -> None:
    lm = GatedLM(tree_script, free=1)
    with serving(of_mill(lm)) as address:
        tab = opened(address)
        ask(tab, ASKED)
        tab.wait_for_selector(".node .title >> text=Mill")
        assert tab.locator(".reply").count() == 0
        tab.wait_for_function(
            """() => {
                const nodes = [...document.querySelectorAll(".node")];
                return nodes.filter((each) => each.innerText.includes("under way")).length === 1;
            }"""
        )
        lm.gate.set()
        tab.wait_for_selector(".reply")
        assert tab.locator(".reply").inner_text().startswith("Bern")
        assert tab.locator(".drawing").get_attribute("data-shape") == "tree"
        nodes = [
            (node.locator(".title").inner_text(), node.get_attribute("data-tone"))
            for node in tab.locator(".node").all()
        ]
        assert nodes == [
            *((ASKED, "root"), ("Mill 🎬 (film)", "on"), ("Ann Lee", "good"), ("Bern", "low"), ("Bern", "end"))
        ]
        tab.locator(".node[data-tone=good]").click()
        inspector = tab.locator(".inspector")
        assert inspector.locator("h3").inner_text() == "Ann Lee"
        assert inspector.locator(".passage mark").all_inner_texts() == ["Bern"]
        unfold(tab)
        shown = inspector.inner_text()
        assert "1 model call" in shown
        assert "supported" in shown
        assert ASKED in inspector.locator(".prompt").inner_text()
    assert complaints == []


def test_a_running_question_is_stopped_on_the_server_too(opened: Open, complaints: list[str]) -> None:
    lm = GatedLM(tree_script)
    with serving(of_mill(lm)) as address:
        tab = opened(address)
        ask(tab, ASKED)
        tab.wait_for_selector(".node")
        tab.click("button.stop")
        tab.wait_for_selector("text=Stopped before there was an answer.")
        assert lm.cancelled.wait(PATIENCE / 1000)
        assert tab.locator("button.stop").count() == 0
        assert tab.evaluate("location.hash") == ""
    assert complaints == []


def test_a_link_fills_in_the_question_and_settings_go_with_it(opened: Open, complaints: list[str]) -> None:
    with serving(of_mill(tree_script)) as address:
        tab = opened(address, f"#/?{urlencode({'question': f'{ASKED} & where?', 'method': 'one-r'})}")
        assert tab.input_value("textarea[name=question]") == f"{ASKED} & where?"
        assert tab.input_value("select[name=method]") == "one-r"
        tab.select_option("select[name=method]", "tor")
        tab.click("text=Limits and settings")
        tab.fill("[name='set:widths']", "1,1")
        tab.select_option("[name='set:thoughts']", "true")
        with tab.expect_request("**/v1/ask") as sent:
            tab.click("button.go")
        tab.wait_for_url("**#/trace/*")
        assert sent.value.post_data_json["settings"] == {"widths": "1,1", "thoughts": "true"}
        tab.click(".cost a >> text=question")
        tab.wait_for_selector(".start h2")
        assert tab.input_value("textarea[name=question]") == f"{ASKED} & where?"
    assert complaints == []


def test_an_answer_below_opened_settings_comes_into_view(opened: Open, demo: str) -> None:
    tab = opened(demo, viewport={"width": 390, "height": 800})
    unfold(tab)
    assert tab.locator("[name='set:widths']").is_visible()
    answered(tab, METROPOLIS)
    assert tab.locator(".reply").evaluate("(reply) => reply.getBoundingClientRect().top < innerHeight")


def test_errors_are_shown(opened: Open) -> None:
    def refuse(task: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        raise OSError("the model is gone")

    with serving(of_mill(refuse)) as address:
        tab = opened(address)
        ask(tab, ASKED)
        tab.wait_for_selector(".panel .problem[role=alert]")
        tab.click("text=Limits and settings")
        tab.fill("[name='set:widths']", "three")
        tab.click("button.go")
        tab.wait_for_selector(".panel .problem >> text=widths")


def test_two_methods_side_by_side_and_their_permalink(opened: Open, demo: str, complaints: list[str]) -> None:
    tab = answered(opened(demo), METROPOLIS, "tor", "ge")
    assert tab.locator(".panel h2").all_inner_texts() == ["tor", "ge"]
    replies = tab.locator(".reply").all_inner_texts()
    sides = "(all) => all.map((each) => each.getBoundingClientRect()).map(({ left, right }) => [left, right])"
    first, second = tab.locator(".panel").evaluate_all(sides)
    assert first[1] <= second[0]
    of_pocket = tab.locator(".reader", has_text="pocket")
    assert [notice.is_visible() for notice in of_pocket.all()] == [True, False], "what holds for both is said once"
    again = opened(demo, tab.evaluate("location.hash"))
    again.wait_for_selector(".reply")
    assert again.locator(".reply").all_inner_texts() == replies
    assert again.input_value("textarea[name=question]") == METROPOLIS
    tab.go_back()
    tab.wait_for_selector(".recent a")
    assert tab.locator(".recent a").first.inner_text() == METROPOLIS
    assert complaints == []


def test_a_citation_leads_to_its_passage(opened: Open) -> None:
    with serving(of_mill(tree_script)) as address:
        tab = answered(opened(address), ASKED)
        assert not tab.locator(".source .passage").first.is_visible()
        tab.locator(".reply .cite").click()
        source = tab.locator(".source[open]")
        assert source.locator("summary .location").inner_text() == "people.pdf, p. 2"
        assert source.locator(".passage mark").all_inner_texts() == ["Bern"]
        assert tab.evaluate("document.activeElement.closest('.source[open]') !== null")


def test_an_abstention_says_so(opened: Open, demo: str) -> None:
    tab = answered(opened(demo), METROPOLIS, "cot")
    assert tab.locator(".backed, .unverified, .unbacked").count() == 0
    assert "Nothing that was read answers the question" in tab.locator(".notice").first.inner_text()


def test_keys_alone_lead_through_the_tree(opened: Open, demo: str, complaints: list[str]) -> None:
    tab = opened(demo)
    press(tab, "Tab")
    assert tab.evaluate("document.activeElement.id") == "skip"
    press(tab, "Enter")
    assert tab.evaluate("document.activeElement.id") == "main"
    press(tab, "Tab")
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url) if request.method == "POST" else None)
    tab.keyboard.type(METROPOLIS)
    assert asked == [], "nothing is asked before it is written"
    press(tab, "Enter")
    tab.wait_for_url("**#/trace/*")
    assert len(asked) == 1
    tab_to(tab, "it.matches('.node')")
    assert active(tab) == "question"
    press(tab, "ArrowRight")
    first = active(tab)
    assert first != "question"
    press(tab, "ArrowDown")
    assert active(tab) not in ("question", first)
    press(tab, "ArrowLeft")
    assert active(tab) == "question"
    press(tab, "End", "Enter")
    assert tab.evaluate("document.activeElement.closest('.inspector') !== null")
    press(tab, "Escape")
    assert not tab.locator(".inspector").is_visible()
    assert tab.evaluate("document.activeElement.matches('.node')")
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    press(tab, "Tab")
    assert not tab.evaluate("document.activeElement.matches('.node')"), "one stop of the Tab key alone"
    assert complaints == []


def test_a_server_with_keys_is_asked_with_one(opened: Open) -> None:
    options = Options(keys=Keys({"ann": "a-long-enough-key"}))
    with serving(Service({"demo": "demo"}), options) as address:
        tab = opened(address)
        tab.fill("input[name=key]", "a-long-enough-key")
        press(tab, "Enter")
        tab.wait_for_selector("textarea[name=question]")
        answered(tab, METROPOLIS, "one-r")
        assert tab.locator(".reply").count() == 1
