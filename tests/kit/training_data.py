"""A small folder of training data in every form that ``training.examples`` reads."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from training.examples import held_out

Rows = Sequence[Mapping[str, Any]]

PAGES = {
    "Dark Mill": "Dark Mill is a 1931 film directed by Ann Lee. It was shot in Parma.",
    "Ann Lee": "Ann Lee was a film director. She was born in Elstow in 1899.",
    "Red Barn": "Red Barn is a 1925 film directed by Bo Marsh.",
    "Bo Marsh": "Bo Marsh was a film director, born in Tartu in 1871.",
    "Elstow": "Elstow is a village in Bedfordshire.",
    "Ferry transport": "A ferry carries passengers and goods across water.",
}
TITLES = list(PAGES)


def kept_id(stem: str, *, held: bool = False) -> str:
    """An id that is kept for training, or one that is held out of it."""
    return next(name for number in range(1000) if held_out(name := f"{stem}-{number}") is held)


def pids(*titles: str) -> list[str]:
    return [f"p{TITLES.index(title)}" for title in titles]


def question(id: str, asked: str, answer: str, *gold: str, **more: Any) -> dict[str, Any]:
    return {
        "id": id, "question": asked, "answers": [answer], "gold_titles": list(gold), "gold_pids": pids(*gold),
        "context_pids": pids(*TITLES), **more,
    }  # fmt: skip


BORN = "Where was the director of Dark Mill born?"
HELD = "Where was the director of Red Barn born?"
OLDER = "Which film came out first, Dark Mill or Red Barn?"
BOTH = "Are Dark Mill and Red Barn both films?"
DEV = "The canary's question?"

SETS: dict[str, Rows] = {
    "hotpotqa": [
        question(kept_id("h"), BORN, "Elstow", "Dark Mill", "Ann Lee"),
        question(kept_id("both"), BOTH, "yes", "Dark Mill", "Red Barn"),
        question(kept_id("h", held=True), HELD, "Tartu", "Red Barn", "Bo Marsh"),
    ],
    "2wikimultihopqa": [
        question(
            kept_id("w"), OLDER, "Red Barn", "Dark Mill", "Red Barn",
            evidences=[["Red Barn", "publication date", "1925"], ["Dark Mill", "publication date", "1931"]],
            gpt_sub_qa=[{"question": "When did Red Barn come out?", "answer": "It came out in 1925."}],
        ),
    ],
    "musique": [
        question(
            kept_id("m"), "In which county was the director of Dark Mill born?", "Bedfordshire",
            "Elstow", "Dark Mill", "Ann Lee",
            decomposition=[
                {"question": "Dark Mill >> director", "answer": "Ann Lee", "pid": pids("Dark Mill")[0]},
                {"question": "Where was #1 born?", "answer": "Elstow", "pid": pids("Ann Lee")[0]},
                {"question": "In which county is #2 ?", "answer": "Bedfordshire", "pid": pids("Elstow")[0]},
            ],
        ),
    ],
}  # fmt: skip


def read_from(id: str, asked: str, title: str, answer: str | None, kind: str = "span") -> dict[str, Any]:
    """A line of a reading file."""
    answers = [{"text": answer, "start": PAGES[title].index(answer)}] if answer else []
    return {
        "id": id, "question": asked, "context": PAGES[title], "title": title, "answers": answers, "type": kind,
    }  # fmt: skip


READER: dict[str, Rows] = {
    "squad_dev": [
        read_from("s1", "Who directed Dark Mill?", "Dark Mill", "Ann Lee"),
        read_from("s2", "In which year was Ann Lee born?", "Ann Lee", "1899"),
        read_from("s3", "Who painted Dark Mill?", "Dark Mill", None, "none"),
    ],
    "boolq_dev": [read_from("b1", "is a ferry for passengers", "Ferry transport", None, "yes")],
    "relevance_selqa": [
        {"question": "What does a ferry do?", "title": title, "passage": PAGES[title], "label": int(title[0] == "F")}
        for title in TITLES
    ],
    "hotpot_dev_extra": [
        {
            "id": "x1", "question": HELD.replace("Red Barn", "Barn Red"), "type": "span",
            "title": "Red Barn | Bo Marsh",
            "context": f"Red Barn: {PAGES['Red Barn']}\nBo Marsh: {PAGES['Bo Marsh']}",
            "answers": [{"text": "Tartu", "start": 0}],
        }
    ],
    "relevance_hotpot_dev_extra": [
        {"question": HELD.replace("Red Barn", "Barn Red"), "title": title, "passage": PAGES[title], "label": 0}
        for title in ("Elstow", "Ferry transport")
    ],
}  # fmt: skip


def written(folder: Path) -> Path:
    """Write the data as files; every ``dev.jsonl`` is a folder, so that opening it fails."""
    corpus = [{"pid": f"p{at}", "title": title, "text": text} for at, (title, text) in enumerate(PAGES.items())]
    for name, rows in SETS.items():
        (folder / name / "dev.jsonl").mkdir(parents=True)
        (folder / name / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in corpus))
        (folder / name / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "reader").mkdir()
    for name, rows in READER.items():
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "reader" / f"{name}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    return folder
