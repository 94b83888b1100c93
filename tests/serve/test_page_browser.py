"""The server's page in a real browser: asked, watched, clicked, compared, by keys, on a phone, and attacked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from polyhop import Passage, ScriptedLM
from polyhop.common.extras import is_installed
from polyhop.serve.http.app import Options
from polyhop.serve.limits import Keys
from polyhop.serve.service import Service
from tests.kit.browser import AXE, CHROMIUM, PATIENCE, GatedLM, axe, launched, misdrawn, serving, undirected
from tests.kit.hostile_runs import ATTACKS, evil_run, plain_run

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
    pytest.mark.skipif(not is_installed("serve"), reason="extra not installed: serve"),
]

METROPOLIS = "In which city was the director of the science-fiction film Metropolis born?"
ASKED = "Where was the maker of Mill born?"
MILL = [
    Passage("mill", "Mill 🎬 (film)", "🎬 Mill is a film by Ann Lee."),
    Passage("lee", "Ann Lee", "🎬 Ann Lee was born in Bern.", metadata={"source": "people.pdf", "page": 2}),
    Passage("bern", "Bern", "Bern lies on the Aare."),
]
Open = Callable[..., Any]


def tree_script(task: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of a path that ends in Mill the maker is looked for; one with Ann Lee is accepted; Bern alone is rejected."""
    if task == "tor.fuse":
        return {"rationale": None, "answer": "Bern"}
    if task == "tor.complete":
        return {"thought": None, "information": "Ann Lee", "answer": None}
    path = [passage.id for passage in fields["passages"]]
    found = {"thought": None, "relevant": path[-1] != "bern", "supported": path[-1] == "lee"}
    return {**found, "answer": "Bern" if path[-1] == "lee" else None, "query": "Ann Lee"}


def graph_script(task: str, fields: Mapping[str, Any]) -> Any:
    """The maker of Mill is #1, and where she was born #2: known without a search."""
    first, second = "Who made Mill?", "Where was Ann Lee born?"
    match task:
        case "ge.graph":
            maker = {"head": "Mill", "relation": "director", "tail": "name: #1"}
            return {"triplets": [maker, {"head": "name: #1", "relation": "birth place", "tail": "place: #2"}]}
        case "ge.subquestion":
            return {"sub_question": first if fields["triplet"]["head"] == "Mill" else second}
        case "ge.subanswer":
            reply = "Ann Lee" if fields["sub_question"] == first else "Bern"
            return {"sentence": f"{reply}.", "answer": reply}
    return {"rationale": None, "answer": "Bern"}


def chain_script(task: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """A chain whose first node is unsolved, then one that comes to the answer."""
    first: dict[str, Any] = {"query": "Who made Mill?", "answer": None}
    if task == "searchain.trace":
        return {"content": "Ann Lee made Mill [1]. She was born in Bern [2].", "answer": "Bern"}
    if not fields["chains"]:
        return {"nodes": [first], "final": None}
    then = {"query": "Ann Lee", "answer": "Bern"}
    return {"nodes": [{**first, "answer": "Ann Lee"}, then], "final": "Bern"}


def mill(query: str, k: int) -> list[Passage]:
    """The film and the town for the question, the maker for the query."""
    return [MILL[1]] if query == "Ann Lee" else [MILL[0], MILL[2]][:k]


def of_mill(script: Any, **rest: Any) -> Service:
    """A service over the three passages whose model is scripted."""
    lm = ScriptedLM(script) if callable(script) else script
    return Service({"mill": None}, lm=lm, retriever=mill, cache=False, reader=lambda question, passages: [], **rest)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    plain_run(folder / "one", wrong={2, 5})
    plain_run(folder / "two", wrong={5, 6}, method="cot")
    return folder


@pytest.fixture(scope="module")
def demo(runs: Path) -> Iterator[str]:
    with serving(Service({"demo": "demo"}, runs=runs)) as address:
        yield address


@pytest.fixture
def complaints() -> list[str]:
    """Everything that a page logged, raised or requested from other hosts."""
    return []


@pytest.fixture
def opened(chromium: Any, complaints: list[str]) -> Iterator[Open]:
    contexts = []

    def open_(address: str, place: str = "", **context: Any) -> Any:
        contexts.append(chromium.new_context(**{"reduced_motion": "reduce", **context}))
        contexts[-1].set_default_timeout(PATIENCE)
        tab = contexts[-1].new_page()
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda asked: complaints.append(asked.url) if foreign(asked.url, address) else None)
        tab.goto(f"{address}{place}")
        tab.wait_for_selector("main:not([aria-busy])")
        return tab

    yield open_
    for each in contexts:
        each.close()


def foreign(url: str, address: str) -> bool:
    return not url.startswith((address, "data:image/svg+xml", "about:"))


def ask(tab: Any, question: str, method: str = "tor", beside: str = "") -> None:
    tab.fill("textarea[name=question]", question)
    tab.select_option("select[name=method]", method)
    tab.select_option("select[name=beside]", beside)
    tab.click("button.go")


def answered(tab: Any, *how: str) -> Any:
    ask(tab, *how)
    tab.wait_for_url("**#/trace/*")
    return tab


def unfold(tab: Any) -> None:
    """Open every folded part, and those that come to light in them."""
    for _ in range(6):
        tab.evaluate("document.querySelectorAll('details:not([open])').forEach((each) => { each.open = true; })")
        tab.wait_for_selector("[aria-busy=true]", state="detached")
        tab.wait_for_timeout(30)


# --- the first view


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
    loaded = tab.evaluate(
        "document.fonts.ready.then((all) => [...all].filter((f) => f.status === 'loaded').map((f) => f.family))"
    )
    assert {name.strip('"') for name in loaded} >= {"Inter", "Source Serif 4"}
    assert complaints == []


# --- asking and watching


def test_a_tree_grows_while_running_and_a_node_shows_its_details(opened: Open, complaints: list[str]) -> None:
    lm = GatedLM(tree_script, free=1)
    with serving(of_mill(lm)) as address:
        tab = opened(address)
        ask(tab, ASKED)
        tab.wait_for_selector(".node .title >> text=Mill")
        assert tab.locator(".reply").count() == 0
        assert tab.locator(".node", has_text="under way").count() == 1
        lm.gate.set()
        tab.wait_for_selector(".reply")
        assert tab.locator(".reply").inner_text().startswith("Bern")
        assert tab.locator(".drawing").get_attribute("data-shape") == "tree"
        nodes = [(node.locator(".title").inner_text(), node.get_attribute("data-tone")) for node in all_nodes(tab)]
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


def all_nodes(tab: Any) -> list[Any]:
    found: list[Any] = tab.locator(".node").all()
    return found


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
        assert "#" not in tab.url
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
    tab.click("text=Limits and settings")
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


def test_a_chain_is_drawn_downwards_and_a_long_answer_has_its_marks(opened: Open, complaints: list[str]) -> None:
    with serving(of_mill(chain_script)) as address:
        tab = answered(opened(address), ASKED, "searchain")
        assert tab.locator(".drawing").get_attribute("data-shape") == "chain"
        assert tab.locator(".node .title").all_inner_texts() == [ASKED, "Who made Mill?", "Ann Lee", "Bern"]
        places = [node.bounding_box() for node in all_nodes(tab)]
        assert all(one["y"] + one["height"] < other["y"] for one, other in pairwise(places))
        assert tab.locator(".content .cite").all_inner_texts() == ["[1]", "[2]"]
        tab.locator(".content .cite").last.click()
        assert "Ann Lee was born in Bern" in tab.locator(".source[open]").inner_text()
    assert complaints == []


def test_a_graph_shows_the_bindings_of_its_variables(opened: Open, complaints: list[str]) -> None:
    with serving(of_mill(graph_script)) as address:
        tab = answered(opened(address), ASKED, "ge")
        assert tab.locator(".drawing").get_attribute("data-shape") == "graph"
        kinds = {node.locator(".title").inner_text(): node.get_attribute("data-kind") for node in all_nodes(tab)[1:-1]}
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
    place = best.bounding_box()
    beside = [box for box in (node.bounding_box() for node in all_nodes(tab)) if box["x"] > place["x"]]
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
    for method in ("tor", "ge", "resp", "hops"):
        tab = answered(opened(demo, viewport={"width": width, "height": 900}), METROPOLIS, method)
        boxes = [node.bounding_box() for node in all_nodes(tab)]
        assert len(boxes) > 2
        for place, one in enumerate(boxes):
            assert one["x"] >= 0
            assert one["x"] + one["width"] <= width
            for other in boxes[:place]:
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
        tab.set_viewport_size({"width": other, "height": 900})
        assert misdrawn(tab) == []
    fill(tab.locator("input[type=range]"))
    assert misdrawn(tab) == []


def fill(slider: Any) -> None:
    """Go back to the middle of a replay, and to its end again."""
    most = int(slider.get_attribute("max"))
    slider.fill(str(most // 2))
    slider.fill(str(most))


def test_two_methods_side_by_side_and_their_permalink(opened: Open, demo: str, complaints: list[str]) -> None:
    tab = answered(opened(demo), METROPOLIS, "tor", "ge")
    assert tab.locator(".panel h2").all_inner_texts() == ["tor", "ge"]
    replies = tab.locator(".reply").all_inner_texts()
    first, second = (panel.bounding_box() for panel in tab.locator(".panel").all())
    assert first["x"] + first["width"] <= second["x"]
    of_pocket = tab.locator(".reader", has_text="pocket")
    assert [notice.is_visible() for notice in of_pocket.all()] == [True, False], "what holds for both is said once"
    again = opened(demo, "#" + tab.url.split("#")[1])
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
    tab.click("text=Replay")
    tab.wait_for_selector(f"output >> text=of {tab.locator('input[type=range]').get_attribute('max')}")
    tab.wait_for_selector("text=Replay")
    assert tab.locator(".node").count() == whole


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
    while not tab.evaluate("document.activeElement.matches('.node')"):
        press(tab, "Tab")
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


def active(tab: Any) -> str:
    found: str = tab.evaluate("document.activeElement.dataset.id")
    return found


def press(tab: Any, *keys: str) -> None:
    for key in keys:
        tab.keyboard.press(key)


# --- runs


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
    tab.goto(f"{demo}#/runs/one")
    tab.wait_for_selector(".questions tbody tr")
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


def test_an_unknown_name_is_an_error(opened: Open, demo: str) -> None:
    for place in ("#/trace/none", "#/runs/none", "#/compare/one/none", "#/nowhere"):
        tab = opened(demo, place)
        assert tab.locator("main .problem[role=alert]").count() == 1


# --- attacks


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
        for place, attacked in enumerate(ATTACKS):
            tab = answered(opened(address), attacked, "tor", "one-r" if place else "cor")
            tab.locator(".node").last.click()
            unfold(tab)
            untouched(tab)
            assert undirected(ATTACKS[place].strip()) in undirected(tab.locator(".reply").first.text_content())
            tab.goto(f"{address}#/runs/evil")
            tab.wait_for_selector(".questions tbody tr")
            untouched(tab)
            tab.locator(".questions a").nth(place).click()
            tab.wait_for_selector(".reply")
            tab.locator(".node").last.click()
            unfold(tab)
            untouched(tab)
            assert undirected(tab.locator("h1").text_content()) == undirected(ATTACKS[place])
            tab.goto(f"{address}#/trace/{'%3Cimg%20src=x%20onerror=window.hurt=6%3E'}")
            tab.wait_for_selector("main .problem")
            untouched(tab)
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
            tab.wait_for_function("(name) => document.querySelector('.start').dataset.corpus === name", arg=name)
            tab.wait_for_selector(".titles li")
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


def test_a_step_of_any_name_is_shown(opened: Open, demo: str) -> None:
    """Run files are not trusted: a name that every object inherits is no verdict and no kind of step."""
    tab = opened(demo)
    made = """async (name) => {
        const { verdictOf } = await import("./static/view/words.js");
        const { step } = await import("./static/view/steps.js");
        return [verdictOf(name), step({}, { kind: name }).querySelector(".task").textContent];
    }"""
    for name in ("constructor", "toString", "__proto__", "valueOf"):
        assert tab.evaluate(made, name) == [[name, "still"], name]


def test_a_text_cannot_reverse_its_neighbours(opened: Open, demo: str) -> None:
    tab = opened(demo)
    made = """async (text) => {
        const { el } = await import("./static/view/dom.js");
        return [...el("p", {}, text, "and on").childNodes].map((node) => node.data);
    }"""
    rlo, fsi, pdf, pdi = "\u202e", "\u2068", "\u202c", "\u2069"
    for text, shown in {
        f"a {rlo}b": f"a {rlo}b{pdf}",
        f"a {fsi}{rlo}b": f"a {fsi}{rlo}b{pdf}{pdi}",
        f"{pdi}a{pdf}": "a",
        f"{rlo}a{pdi}b{pdf}": f"{rlo}ab{pdf}",
        f"{fsi}שלום{pdi} {rlo}x{pdf}": f"{fsi}שלום{pdi} {rlo}x{pdf}",
        f"{fsi}{rlo}a{pdi}b": f"{fsi}{rlo}a{pdf}{pdi}b",
    }.items():
        assert tab.evaluate(made, text) == [shown, "and on"]


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


def test_a_server_with_keys_is_asked_with_one(opened: Open) -> None:
    options = Options(keys=Keys({"ann": "a-long-enough-key"}))
    with serving(Service({"demo": "demo"}), options) as address:
        tab = opened(address)
        tab.fill("input[name=key]", "a-long-enough-key")
        press(tab, "Enter")
        tab.wait_for_selector("textarea[name=question]")
        answered(tab, METROPOLIS, "one-r")
        assert tab.locator(".reply").count() == 1


# --- looks


def views(tab: Any, address: str) -> Iterator[str]:
    """The page in each of its views, one after another."""
    for how in (("tor",), ("ge",), ("resp", "cot")):
        fresh(tab, address)
        answered(tab, METROPOLIS, *how)
        tab.locator(".node").nth(1).click()
        unfold(tab)
        yield " ".join(how)
    for place in ("#/runs", "#/runs/one", "#/runs/one/q2", "#/compare/one/two", "#/"):
        fresh(tab, f"{address}{place}")
        tab.wait_for_timeout(100)
        yield place


def fresh(tab: Any, address: str) -> None:
    tab.goto("about:blank")
    tab.goto(address)
    tab.wait_for_selector("main:not([aria-busy])")


@pytest.mark.skipif(not AXE.is_dir(), reason=f"axe-core is not installed at {AXE.parents[1]}: make axe")
@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_axe_finds_nothing_serious(opened: Open, demo: str, scheme: str, width: int) -> None:
    tab = opened(demo, color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    assert {view: found for view in views(tab, demo) if (found := axe(tab))} == {}


def test_a_phone_shows_it_without_sideways_scrolling(opened: Open, demo: str, complaints: list[str]) -> None:
    tab = opened(demo, viewport={"width": 360, "height": 740})
    wide = [view for view in views(tab, demo) if tab.evaluate("document.documentElement.scrollWidth") > 360]
    assert wide == []
    assert complaints == []


def test_dark_and_light_by_the_system_and_by_the_switch(opened: Open, demo: str) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light, dark = (opened(demo, color_scheme=scheme) for scheme in ("light", "dark"))
    assert light.evaluate(colour) != dark.evaluate(colour)
    light.click("#theme")
    assert light.evaluate(colour) == dark.evaluate(colour)
    light.reload()
    light.wait_for_selector("main:not([aria-busy])")
    assert light.evaluate(colour) == dark.evaluate(colour)
    assert light.inner_text("#theme") == "Light"


# --- modules


def test_events_are_read_however_they_are_cut(opened: Open, demo: str) -> None:
    tab = opened(demo)
    read = """async ([text, size]) => {
        const { events } = await import("./static/js/sse.js");
        const bytes = new TextEncoder().encode(text);
        const body = new ReadableStream({ start(to) {
            for (let at = 0; at < bytes.length; at += size) to.enqueue(bytes.slice(at, at + size));
            to.close();
        } });
        return Array.fromAsync(events(body));
    }"""
    step = ': hello\r\n\r\nevent: step\r\ndata: {"a":\r\ndata: "é🎬"}\r\n\r\n'
    text = f"{step}data: 1\n\nevent: end\ndata:[]\n\nevent: lost\ndata: 2"
    expected = [{"event": "step", "data": {"a": "é🎬"}}, {"event": "message", "data": 1}, {"event": "end", "data": []}]
    for size in (1, 2, 3, 7, 1000):
        assert tab.evaluate(read, [text, size]) == expected


def test_spans_count_characters_as_python_does(opened: Open, demo: str) -> None:
    tab = opened(demo)
    mark = """async ([text, spans, words]) => {
        const { marked, found } = await import("./static/view/passages.js");
        const all = [...spans, ...found(words, text)];
        return marked(text, all).map((part) => (part instanceof Node ? `<${part.textContent}>` : part)).join("");
    }"""
    text = "🎬 Ann Lee was born in Bern."
    start = text.index("Bern")
    assert tab.evaluate(mark, [text, [[start, start + 4]], "ANN LEE"]) == "🎬 <Ann Lee> was born in <Bern>."
    assert (
        tab.evaluate(mark, [text, [[2, 5], [4, 9], [-1, 3], [3, 99], [6, 6]], None]) == "🎬 <Ann Lee> was born in Bern."
    )
    assert tab.evaluate(mark, ["", [[0, 1]], ""]) == ""
