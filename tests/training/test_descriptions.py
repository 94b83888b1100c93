"""Questions that describe something, beside questions that describe nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from training.data import Example, read, write
from training.facts import SetOf
from training.sets import HELD_OUT, DocumentSet, Question, Step

from training import articles, descriptions

BRIDGE = Question(
    "Where does [the nurse who found the key] live?", "bridge", ("Elstow",),
    (Step("a.md", "Ann found it.", "Which nurse found the key?", "Ann"), Step("a.md", "Ann: Elstow", "", "Elstow")),
)  # fmt: skip
FACT = Question("Where is the key?", "one", ("in a drawer",), (Step("a.md", "in a drawer", "", "in a drawer"),))
ARTICLES = """== demo-1 demo-2
& Where was [the director of Dark Mill] born? = Ann Lee = Elstow
& Dark Mill was directed by a woman of which town? = Ann Lee = Elstow
* Are Dark Mill and Ann Lee both about films? = no
"""


def held(domain: str, *questions: Question) -> DocumentSet:
    return DocumentSet("first", domain, {"a.md": "Ann found the key in a drawer."}, list(questions))


def texts(examples: list[Example]) -> list[tuple[str, str | None]]:
    """Return each question with the words that describe something in it, None without any."""
    return [
        (text, text[each.spans[0][1] : each.spans[0][2]] if each.spans else None)
        for each in examples
        for _, text in each.passages
    ]


def test_questions_of_documents_describe_something_or_nothing() -> None:
    facts = {SetOf("office", "first"): [BRIDGE, FACT]}
    made = texts(list(descriptions.of_documents([held("office", FACT)], facts)))
    assert made == [
        ("Where is the key", None),
        ("Where does the nurse who found the key live", "the nurse who found the key"),
        ("Where does Ann live", None),
    ]


def test_domains_that_are_held_out_are_not_read() -> None:
    assert not list(descriptions.of_documents([held(HELD_OUT[0], FACT, BRIDGE)], {}))


def test_questions_over_articles_describe_something_until_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "demo.txt").write_text(ARTICLES, encoding="utf-8")
    made = list(descriptions.of_articles(tmp_path))
    assert texts(made) == [
        ("Where was the director of Dark Mill born", "the director of Dark Mill"),
        ("Where was Ann Lee born", None),
    ]
    assert {each.source for each in made} == {"described"}


def test_so_many_of_each_source_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "demo.txt").write_text(ARTICLES, encoding="utf-8")
    monkeypatch.setattr(articles, "FOLDER", tmp_path)
    monkeypatch.setattr(descriptions, "sets", lambda _: [held("office", FACT, BRIDGE)])
    monkeypatch.setattr(descriptions, "facts", dict)
    earlier = tmp_path / "earlier.jsonl"
    write([Example("old", f"What is {number}?") for number in range(9)], earlier)
    out = tmp_path / "out.jsonl"
    monkeypatch.setattr(sys, "argv", ["descriptions", str(out), "--replay", str(earlier), "--earlier", "2"])
    descriptions.main()
    assert sorted(each.source for each in read(out)) == ["described"] * 4 + ["old"] * 2
