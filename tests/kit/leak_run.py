"""A run of a thousand questions that reports its memory.

``python -m tests.kit.leak_run OUT`` prints, as JSON, its resident bytes and open files after 200 and after all
questions. It runs as a separate process, so that nothing else is measured.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from polyhop import Passage, Question, evaluate
from polyhop.lm.base import Capabilities, Completion, Request

PASSAGES = [Passage(f"p{n}", f"Title {n}", f"Text {n}. " * 40) for n in range(30)]
QUESTIONS = [Question(f"q{n}", f"Question {n}?", answers=("x",), gold_ids=("p1",)) for n in range(1000)]


class Brief:
    """A model that remembers nothing, for ``ScriptedLM`` keeps every call."""

    name = "brief"
    capabilities = Capabilities()

    async def complete(self, request: Request) -> Completion:
        """Content with a path of two."""
        path = request.fields.get("passages", ())
        value = {"relevant": True, "supported": len(path) == 2, "query": "on", "information": "on", "answer": "x"}
        return Completion(text="", value=value)


def find(query: str, k: int) -> list[Passage]:
    """Passages that depend on the query."""
    start = sum(map(ord, query)) % 20
    return PASSAGES[start : start + k]


def held() -> dict[str, int]:
    """Resident bytes and open files of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {"bytes": pages * os.sysconf("SC_PAGE_SIZE"), "files": len(os.listdir("/proc/self/fd"))}


def main(out: str) -> None:
    """Run and print."""
    seen: dict[int, dict[str, int]] = {}

    def progress(done: int, total: int) -> None:
        if done in (200, total):
            seen[done] = held()

    evaluate(QUESTIONS, None, "tor", Brief(), retriever=find, out=out, progress=progress)
    sys.stdout.write(json.dumps([seen[200], seen[1000]]))


if __name__ == "__main__":
    main(sys.argv[1])
