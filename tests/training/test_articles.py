"""Questions over articles of the question sets: their form, their faults, and the examples made of them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from training.articles import Asked, articles, check, examples_of, faults, read_articles
from training.data import Example

from polyhop import Passage
from training import articles as module

ARTICLES = """== demo-1 demo-2
& Where was [the director of Dark Mill] born? = Ann Lee = Elstow
& Dark Mill was directed by a woman of which town? = Ann Lee = Elstow
* Are Dark Mill and Ann Lee both about films? = no
== demo-1 demo-2 demo-3
& In what county is the town where [the director of Dark Mill] was born? = Ann Lee = Elstow = Bedfordshire
& What county is the birthplace of Ann Lee in? = Elstow = Bedfordshire
"""
PASSAGES = {
    "demo-1": Passage("demo-1", "Dark Mill", "Dark Mill is a 1931 film directed by Ann Lee."),
    "demo-2": Passage("demo-2", "Ann Lee", "Ann Lee was born in Elstow."),
    "demo-3": Passage("demo-3", "Elstow", "Elstow is a village in Bedfordshire."),
    "demo-4": Passage("demo-4", "Dark Hill", "Dark Hill is a film directed in 1950."),
}


def read(folder: Path, text: str = ARTICLES) -> list[Asked]:
    file = folder / "demo.txt"
    file.write_text(text, encoding="utf-8")
    return list(read_articles(file))


def test_each_line_is_a_question_about_its_articles(tmp_path: Path) -> None:
    marked, unmarked, both, three, _ = read(tmp_path)
    assert marked == Asked(
        "Where was the director of Dark Mill born?", "the director of Dark Mill", ("Ann Lee",), "Elstow",
        ("demo-1", "demo-2"),
    )  # fmt: skip
    assert (unmarked.described, both.names, both.answer) == ("", (), "no")
    assert (three.names, len(three.pids)) == (("Ann Lee", "Elstow"), 3)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("= Ann Lee = Elstow\n", "= Elstow\n"),
        ("= Ann Lee = Elstow\n", "= Ann Lee = Elstow = Bedfordshire\n"),
        ("the director of Dark Mill] born", "the [director] of Dark Mill] born"),
        ("& Where", "Where"),
        ("== demo-1 demo-2\n", "# demo-1 demo-2\n"),
    ],
)
def test_a_line_without_meaning_is_named_with_its_number(tmp_path: Path, old: str, new: str) -> None:
    with pytest.raises(ValueError, match=r"demo.txt:[12]: neither"):
        read(tmp_path, ARTICLES.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("Where was", "Where but in Elstow was", "holds 'Elstow'"),
        ("of which town", "as Ann Lee of which town", "holds 'Ann Lee'"),
        ("about films? = no", "about films? = mills", "no 'mills'"),
    ],
)
def test_faults_are_named(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert not list(faults(read(tmp_path), PASSAGES))
    assert any(fault in found for found in faults(read(tmp_path, ARTICLES.replace(old, new)), PASSAGES))
    assert any("asked 2 times" in found for found in faults(read(tmp_path, ARTICLES + ARTICLES)))


def made_of(asked: Asked, found: list[tuple[str, str]] | None = None) -> list[Example]:
    others = [(PASSAGES["demo-4"].title, PASSAGES["demo-4"].text)] if found is None else found
    return [each for seed in range(40) for each in examples_of(asked, PASSAGES, others, random.Random(seed))]


def words_of(example: Example) -> set[str]:
    return {
        example.passages[at][1][start:end] if at >= 0 else example.passages[-1 - at][0][start:end]
        for at, start, end in example.spans
    }


def test_a_question_is_read_over_its_articles_parts_of_them_and_its_steps(tmp_path: Path) -> None:
    marked, *_ = read(tmp_path)
    made = made_of(marked)
    whole = [each for each in made if each.enough and each.source == "article"]
    assert len(whole) == 40
    assert all(words_of(each) == {"Elstow"} for each in whole)
    assert {len(each.passages) for each in whole} == {2, 3}
    begun = [each for each in made if each.source == "article" and each.relevant and not each.enough]
    assert {"Ann Lee"} in [words_of(each) for each in begun]
    told = {(each.question, *sorted(words_of(each))) for each in made if each.source == "article_step"}
    assert ("Who is the director of Dark Mill?", "Ann Lee") in told
    assert ("Where was Ann Lee born?", "Elstow") in told
    described = {(each.passages[0][1], *words_of(each)) for each in made if each.source == "described"}
    assert described == {
        ("Where was the director of Dark Mill born", "the director of Dark Mill"),
        ("Where was Ann Lee born",),
    }


def test_a_question_of_two_hops_is_read_over_two_of_three_articles(tmp_path: Path) -> None:
    *_, three, two = read(tmp_path)
    assert max(len(each.passages) for each in made_of(three, [])) == 3
    titles = {title for each in made_of(two, []) if each.enough for title, _ in each.passages}
    assert titles == {"Ann Lee", "Elstow"}


def test_examples_are_made_of_the_sets_in_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read(tmp_path)
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    assert not list(articles(tmp_path, random.Random(0)))
    (tmp_path / "demo").mkdir()
    rows = [json.dumps({"pid": p.id, "title": p.title, "text": p.text}) for p in PASSAGES.values()]
    (tmp_path / "demo" / "corpus.jsonl").write_text("\n".join(rows), encoding="utf-8")
    questions = {each.question for each in articles(tmp_path, random.Random(0))}
    assert {asked.text for asked in read_articles(tmp_path / "demo.txt")} <= questions


@pytest.mark.slow
def test_all_questions_are_well_formed(capsys: pytest.CaptureFixture[str]) -> None:
    assert check() == 0, capsys.readouterr().out
