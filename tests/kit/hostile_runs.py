"""Runs to report on: a plain one, and one whose texts would run as code on a careless page."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import polyhop
from polyhop import Passage, Question, ScriptedLM

ATTACKS = (
    "</script><script>window.hurt = 1</script>",
    '<img src=x onerror="window.hurt = 2">',
    "<!--<script>",
    "\"><b onmouseover='window.hurt = 3'>bold</b>",
    "${window.hurt = 4} $title {{x}} javascript:alert(1)",
    "\u2028</ScRiPt ><iframe srcdoc='<script>parent.hurt = 5</script>'>",
    "\u2069\u202ejavascript:window.hurt=6//\u2067\u202d",
    "constructor" * 150,
)


def evil_run(folder: Path, attacks: Sequence[str] = ATTACKS) -> None:
    """One question per attack, which is also its passage, title and reply."""
    asked = [
        Question(f"<i>{n}</i>", text, answers=("Rome",), gold_ids=(f"p{n}",), metadata={"type": text})
        for n, text in enumerate(attacks)
    ]
    found = {text: Passage(f"p{n}", text, text) for n, text in enumerate(attacks)}
    polyhop.evaluate(
        asked,
        method="one-r",
        lm=ScriptedLM(lambda task, fields: {"answer": fields["question"]}),
        retriever=lambda query, k: [found[query]],
        out=folder,
        title="<b>data</b>",
    )


def plain_run(folder: Path, *, wrong: Collection[int] = (), limit: int = 8, method: str = "one-r") -> None:
    """Eight questions of a passage each; the answers of the numbers in ``wrong`` are wrong."""
    towns = [Passage(f"p{n}", f"Town {n}", f"Town {n} lies on the river {n}.") for n in range(8)]
    asked = [
        Question(
            f"q{n}",
            f"On which river lies Town {n}?",
            answers=(f"river {n}",),
            gold_ids=(f"p{n}",),
            steps=({},) * (1 + n % 2),
        )
        for n in range(limit)
    ]
    lost = {asked[n].text for n in wrong if n < limit}

    def reply(task: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        number = fields["question"].rstrip("?").rpartition(" ")[2]
        return {"answer": "a guess" if fields["question"] in lost else f"river {number}"}

    corpus = {"corpus": towns} if method == "bm25" else {"retriever": lambda q, k: [t for t in towns if t.title in q]}
    polyhop.evaluate(asked, method=method, lm=ScriptedLM(reply), out=folder, title="towns", **corpus)
