"""Questions in other words, and questions whose decomposition marks what they describe."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest
from training.data import Example, read, write
from training.facts import facts, faults
from training.sets import HELD_OUT, DocumentSet

from training import articles, phrasings

AUTHOR = {
    "source": "break_high_hotpot",
    "question": "Where does the author of Leviathan live?",
    "steps": ["the author of Leviathan", "where does #1 live"],
    "operators": "['select', 'project']",
}


@pytest.mark.parametrize(
    ("question", "steps", "words"),
    [
        ("Who owns the shop of the baker of Ost?", ["baker of Ost", "shop of #1", "who owns #2"], "the baker of Ost"),
        ("Ost's baker was born where?", ["the baker of Ost", "where was #1 born"], "Ost's baker"),
        (
            "Who owns the mill where Ann works?",
            ["Ann", "mill where #1 works", "who owns #2"],
            "the mill where Ann works",
        ),
        ("Where was Ann Lee born?", ["Ann Lee", "where was #1 born"], None),
        ("Is the mill a film?", ["the mill", "films", "is #1 one of #2"], "the mill"),
        ("Who is the baker of Ost?", ["the baker of Ost"], None),
        ("Which mill burns?", ["mill that burns", "name of #1"], None),
        ("Where do bakers of Ost live?", ["bakers of Ost", "where do #1 live"], None),
        ("Who is it?", ["the #3", "who is #1"], None),
    ],
)
def test_a_first_step_is_found_in_the_question(question: str, steps: list[str], words: str | None) -> None:
    assert phrasings.described_in(question, steps) == words


def test_only_steps_that_ask_about_one_another_describe(tmp_path: Path) -> None:
    others = [
        {**AUTHOR, "operators": "['select', 'filter']"},
        {**AUTHOR, "operators": None, "source": "strategyqa"},
        {key: value for key, value in AUTHOR.items() if key != "operators"} | {"source": "fanoutqa"},
    ]
    (tmp_path / "reader").mkdir()
    rows = "\n".join(json.dumps(row) for row in [AUTHOR, *others])
    (tmp_path / "reader/decompositions.jsonl.gz").write_bytes(gzip.compress(rows.encode()))
    (made,) = phrasings.of_decompositions(tmp_path)
    ((_, text),), ((_, start, end),) = made.passages, made.spans
    assert (made.source, text[start:end]) == ("described", "the author of Leviathan")
    assert not list(phrasings.of_decompositions(tmp_path / "absent"))


def test_questions_of_all_sources_are_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, others = tmp_path / "own", tmp_path / "articles"
    own.mkdir()
    others.mkdir()
    (own / "office.txt").write_text("== first\n#1 a.md :: Ann found\nfinder of the key = Ann\n", encoding="utf-8")
    (others / "demo.txt").write_text("== demo-1 demo-2\n& Where was [the baker of Ost] born? = Ann Lee = Elstow\n")
    held = DocumentSet("first", "office", {"a.md": "Ann found the key in a drawer."}, [])
    monkeypatch.setattr(phrasings, "FOLDER", own)
    monkeypatch.setattr("training.sets.sets", lambda _: [held])
    monkeypatch.setattr(articles, "FOLDER", others)
    earlier, out = tmp_path / "earlier.jsonl", tmp_path / "out.jsonl"
    write([Example("old", f"What is {number}?") for number in range(9)], earlier)
    arguments = [str(tmp_path), str(out), "--replay", str(earlier), "--earlier", "3", "--described", "1"]
    monkeypatch.setattr(sys, "argv", ["phrasings", *arguments])
    phrasings.main()
    assert sorted(each.source for each in read(out)) == ["described", *["old"] * 3, "single"]


def test_the_written_questions_have_no_faults() -> None:
    found = facts(sorted(phrasings.FOLDER.glob("*.txt")))
    assert sum(map(len, found.values())) > 20000
    assert not {held.domain for held in found} & set(HELD_OUT)
    assert list(faults(found)) == []
