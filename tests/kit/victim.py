"""A run to be killed: ``python -m tests.kit.victim OUT CACHE LOG`` answers 24 questions by several calls each.

Every call that reaches the model is written to LOG first. With POLYHOP_FILE_LIMIT set, no file grows beyond so many
bytes, as on a full disk.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polyhop
from polyhop import Passage, Question, ScriptedLM

QUESTIONS = [Question(f"q{n}", f"Question {n}?", answers=(f"answer {n}",)) for n in range(24)]


def find(query: str, k: int) -> list[Passage]:
    """Passages that tell of the query."""
    return [Passage(f"{query}/{n}", f"Title {query} {n}", f"Text {n} for {query}.") for n in range(min(k, 2))]


def script_into(log: Path) -> Any:
    """A model that wants one more search, then is content; it writes each question it is asked into ``log``."""

    def script(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        with log.open("a") as file:
            file.write(f"{fields['question']}\t{task}\t{len(fields.get('passages', ()))}\n")
        number = fields["question"].split()[1].rstrip("?")
        if task == "cor.review" and len(fields["passages"]) < 4:
            return {"relevant": True, "supported": False, "query": f"more {number}"}
        if task == "cor.review":
            return {"relevant": True, "supported": True, "answer": f"answer {number}"}
        return {"rationale": "It says so.", "answer": f"answer {number}"}

    return script


def main(out: str, cache: str, log: str) -> None:
    """Run, or go on running."""
    if limit := os.environ.get("POLYHOP_FILE_LIMIT"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    lm = ScriptedLM(script_into(Path(log)), latency=0.01)
    polyhop.evaluate(QUESTIONS, method="cor", lm=lm, retriever=find, out=out, cache=cache, concurrency=3)


if __name__ == "__main__":
    print("ready", flush=True)  # noqa: T201 - what the test waits for
    try:
        main(*sys.argv[1:])
    except polyhop.PolyhopError as error:
        sys.exit(f"polyhop: {error}")
