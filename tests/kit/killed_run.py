"""A run to be killed: ``python -m tests.kit.killed_run OUT CACHE LOG METHOD`` answers 24 questions.

Each question takes several calls. Every call that reaches the model is written to LOG first. POLYHOP_FILE_LIMIT is the
maximum size of a file in bytes, as on a full disk.
"""

from __future__ import annotations

import hashlib
import os
import re
import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polyhop
from polyhop import Passage, Question, ScriptedLM, Span
from polyhop.evaluation.runner import evaluate

QUESTIONS = [Question(f"q{n}", f"Question {n}?", answers=(f"answer {n}",)) for n in range(24)]

METHODS: dict[str, dict[str, Any]] = {
    "cor": {},
    "resp": {},
    "ge": {"confidence": "verbal"},
    "searchain": {"reader": lambda question, passages: read(question, passages)},
}
"""The methods to run, with what each needs besides a model and a retriever."""


def find(query: str, k: int) -> list[Passage]:
    """Passages about the query."""
    return [Passage(f"{query}/{n}", f"Title {query} {n}", f"Text {n} for {query}.") for n in range(min(k, 2))]


def read(question: str, passages: Sequence[Passage]) -> list[Span]:
    """A reader that finds the answer in the first passage."""
    return [Span(passages[0].id, f"answer {number_of(question)}", 0, 8, 1.0)]


def script_into(log: Path) -> Any:
    """A model that asks for one thing more and then answers; it writes each call to ``log``, question first."""

    def script(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        number = number_of(fields)
        with log.open("a") as file:
            file.write(f"Question {number}?\t{task}\t{hashlib.sha1(repr(fields).encode()).hexdigest()}\n")
        return reply(task, fields, number)

    return script


def number_of(fields: object) -> str:
    """The number of the question that a call is about: every query and passage of the question holds it."""
    found = re.search(r"(?:Question|more|answer) (\d+)", str(fields))
    assert found, fields
    return found[1]


def reply(task: str, fields: Mapping[str, Any], number: str) -> dict[str, Any]:
    """The reply to a call about question ``number``."""
    answer = {"rationale": "It says so.", "answer": f"answer {number}", "sentence": "So it is.", "confidence": 0.6}
    more = f"more {number}"
    match task.partition(".")[2]:
        case "review":
            enough = len(fields["passages"]) == 4
            return {**answer, "relevant": True, "supported": enough, "query": more}
        case "judge":
            return {"sufficient": bool(fields["memory"]["local_pathway"])}
        case "graph":
            ends = [(f"Question {number}", "name: #1"), ("name: #1", "name: #2")]
            return {"triplets": [{"head": head, "relation": "made", "tail": tail} for head, tail in ends]}
        case "subquestion":
            return {"sub_question": f"{fields['triplet']['head']} and more {number}?"}
        case "triplets":
            return {"triplets": [{"head": fields["passage"].title, "relation": "told", "tail": f"answer {number}"}]}
        case "filter":
            return {"triplets": fields["triplets"][:1]}
        case "chain":
            given = {node["query"]: node["answer"] for node in fields["feedback"]}
            queries = (f"Question {number} first", f"{more} then")
            return {"nodes": [{"query": query, "answer": given.get(query)} for query in queries]}
    rest = {"summary": f"a note on {more}", "answered": True, "response": f"answer {number}", "sub_question": more}
    return {**answer, **rest, "content": "So [1], and so [2]."}


def main(out: str, cache: str, log: str, method: str) -> None:
    """Run, or resume the run."""
    if limit := os.environ.get("POLYHOP_FILE_LIMIT"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    run(method, ScriptedLM(script_into(Path(log)), latency=0.01), Path(out), cache=cache)


def run(method: str, lm: ScriptedLM, out: Path, **options: Any) -> None:
    """Answer the questions."""
    given = {**options, **METHODS[method]}
    evaluate(QUESTIONS, method=method, lm=lm, retriever=find, out=out, concurrency=3, **given)


if __name__ == "__main__":
    print("ready", flush=True)  # noqa: T201 - what the test waits for
    try:
        main(*sys.argv[1:])
    except polyhop.PolyhopError as error:
        sys.exit(f"polyhop: {error}")
