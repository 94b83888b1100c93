"""The pages of ``docs/methods``: what they show of the code is what the code gives now."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from html import unescape
from pathlib import Path
from typing import NamedTuple

import pytest

from polyhop.data.questions import read_questions
from polyhop.evaluation.reproduction.recipe import keys
from polyhop.methods.registry import methods
from tests.docs.test_examples import parted
from tests.kit import method_pages, readme_pictures
from tests.kit.terminal import run_cli

FOLDER = Path(__file__).parents[2] / "docs" / "methods"
PAGES = sorted(FOLDER.glob("*.md"))
SECTIONS = ("The idea", "A real trace", "The algorithm and our code", "Settings", "Costs", "When to use it")
REDRAW = "python -m tests.kit.method_pages draws it again"
REDRAW_README = "python -m tests.kit.readme_pictures draws it again"
BY_SCORE = ("promptrank", "hops")
"""Methods whose trace lists paths by score: two that are nearly equal may change places."""
OF_A_PAPER = ("Where it differs from the paper", "Its ablations")


class Part(NamedTuple):
    """A part of a page, and what stands there."""

    page: str
    name: str
    arguments: str
    shown: str


def parts() -> list[Part]:
    return [
        Part(page.name, name, arguments, shown.rstrip("\n"))
        for page in PAGES
        for _, name, arguments, shown, _ in method_pages.PART.findall(page.read_text("utf-8"))
    ]


def named(part: Part) -> str:
    return f"{part.page}-{part.name}-{part.arguments}".replace(" ", "_")


@pytest.mark.parametrize("part", [part for part in parts() if part.name != "trace"], ids=named)
def test_a_part_is_what_the_code_gives(part: Part) -> None:
    assert part.shown == method_pages.part(part.name, part.arguments), "run python -m tests.kit.method_pages"


@pytest.mark.slow
@pytest.mark.parametrize("part", [part for part in parts() if part.name == "trace"], ids=named)
def test_a_trace_is_what_the_method_does(part: Part) -> None:
    """The measurements of ``pocket`` may differ a little on a processor that rounds differently (its card says so)."""
    words, figures = parted(part.shown)
    now, now_figures = parted(method_pages.part(part.name, part.arguments))
    if part.arguments.partition(" ")[0] in BY_SCORE:
        assert SequenceMatcher(None, now, words, autojunk=False).ratio() > 0.9, REDRAW
    else:
        assert now == words, REDRAW
        assert now_figures == pytest.approx(figures, rel=0.25, abs=2)


@pytest.mark.parametrize("method", ["tor", "resp", "promptrank", "hops"])
@pytest.mark.slow
def test_costs_are_what_a_question_costs(method: str) -> None:
    """Of a question whose trace stands on the page, so that it is answered once."""
    part = next(part for part in parts() if part.name == "trace" and part.arguments.startswith(f"{method} "))
    question = part.arguments.split()[1]
    measured = method_pages.measured()[method][question]
    assert method_pages.counts(method_pages.answered(method, question)) == pytest.approx(measured, rel=0.25, abs=2)


def test_the_prose_below_the_trace_of_tor_gives_its_counts() -> None:
    page = (FOLDER / "tor.md").read_text("utf-8")
    shown = next(part.shown for part in parts() if part.page == "tor.md" and part.name == "trace")
    accepted = shown.count("  accept")
    assert "tor.fuse  = Vienna" in shown
    prose = " ".join(page.partition("Each line under the question")[2].partition("##")[0].split())
    count = ("no pieces", "one piece", "two pieces", "three pieces")[accepted]
    assert f"the last call has {count} of evidence" in prose


def test_a_picture_is_of_the_trace_below_it() -> None:
    drawn = {part.arguments for part in parts() if part.name == "picture"}
    assert drawn <= {part.arguments for part in parts() if part.name == "trace"}
    pictures = method_pages.pictures()
    assert sorted(pictures) == sorted(FOLDER.glob("*.svg"))
    for file, svg in pictures.items():
        assert file.read_text("utf-8") == svg, REDRAW


def test_the_tree_of_the_readme_is_the_one_that_the_page_of_tor_draws() -> None:
    for theme in ("light", "dark"):
        drawn = readme_pictures.PICTURES[f"tree-{theme}"]()
        assert (readme_pictures.IMAGES / f"tree-{theme}.svg").read_text("utf-8") == drawn, REDRAW_README


@pytest.mark.slow
def test_the_terminal_of_the_readme_shows_what_the_commands_print() -> None:
    """In words: a processor that rounds otherwise may give another confidence."""
    drawn = re.sub(
        r"<[^>]+>", " ", (readme_pictures.IMAGES / "terminal.svg").read_text("utf-8").partition("</style>")[2]
    )
    words, _ = parted(unescape(drawn))
    now = " ".join(
        text for command, lines in readme_pictures.session() for text in (command, *(x.plain for x in lines))
    )
    assert [word for word in words if word != "$"] == parted(now)[0], REDRAW_README


def test_nothing_in_the_pictures_of_the_readme_is_loaded_or_runs() -> None:
    for name in readme_pictures.PICTURES:
        text = (readme_pictures.IMAGES / f"{name}.svg").read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|<script|<image|url\(|href|@import", text)


def test_the_questions_measured_are_the_first() -> None:
    expected = {question.id for question in read_questions("demo", limit=method_pages.QUESTIONS)}
    assert set(method_pages.measured()) == set(method_pages.SYSTEMS)
    for rows in method_pages.measured().values():
        assert set(rows) == expected


def test_a_command_above_a_trace_draws_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    shown = next(part.shown for part in parts() if part.name == "trace" and part.arguments.startswith("cor "))
    _, command, *lines = shown.splitlines()
    question = re.findall(r'"([^"]+)"', command)[0]
    rest = command.partition(f'"{question}"')[2].split()
    code, out = run_cli(capsys, monkeypatch, "ask", question, *rest, columns=str(method_pages.WIDTH))
    drawn = [method_pages.without_cost(line) for line in out.splitlines()]
    assert code == 0
    assert drawn[: len(lines) - 1] == lines[:-1]


def test_every_method_has_its_place() -> None:
    text = "".join(page.read_text("utf-8") for page in PAGES)
    for name in methods():
        heads = [
            head
            for head in re.findall(r"^##? (.+)$", text, re.MULTILINE)
            if re.search(rf"(?<![\w-]){name}(?![\w-])", head)
        ]
        assert heads, name
        assert re.search(rf"<!-- (?:settings|defaults) {name} -->", text), name


@pytest.mark.parametrize("page", ["tor", "resp", "ge", "searchain", "promptrank", "hops"])
def test_a_system_has_every_section(page: str) -> None:
    heads = re.findall(r"^## (.+)$", (FOLDER / f"{page}.md").read_text("utf-8"), re.MULTILINE)
    wanted = (*SECTIONS, *(OF_A_PAPER if page != "hops" else ()))
    assert [head for head in wanted if not any(there.startswith(head) for there in heads)] == []


def test_every_recipe_named_is_there() -> None:
    text = "".join(page.read_text("utf-8") for page in PAGES)
    found = set(re.findall(r"\b(?:tor|resp|ge|promptrank|searchain)/(?:table|figure)\w+", text))
    assert found
    assert found <= set(keys())


def test_the_menu_has_every_page() -> None:
    told_of = set(re.findall(r"\]\(([\w-]+\.md)\)", (FOLDER / "README.md").read_text("utf-8")))
    assert told_of == {page.name for page in PAGES if page.name != "README.md"}
