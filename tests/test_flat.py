"""A long run holds on to nothing: memory and file handles are as flat after a thousand questions as after 200."""

from __future__ import annotations

import os
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
        path = request.fields.get("passages", ())
        value = {"relevant": True, "supported": len(path) == 2, "query": "on", "information": "on", "answer": "x"}
        return Completion(text="", value=value)


def find(query: str, k: int) -> list[Passage]:
    start = sum(map(ord, query)) % 20
    return PASSAGES[start : start + k]


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_memory_and_file_handles_stay_flat(tmp_path: Path) -> None:
    seen: dict[int, tuple[int, int]] = {}

    def progress(done: int, total: int) -> None:
        if done in (200, 1000):
            seen[done] = resident(), len(os.listdir("/proc/self/fd"))

    report = evaluate(QUESTIONS, None, "tor", Brief(), retriever=find, out=tmp_path / "run", progress=progress)
    assert len(report.rows) == 1000
    (memory, files), (memory_after, files_after) = seen[200], seen[1000]
    assert files_after == files
    assert memory_after - memory < 800 * 15_000  # the report's own row of a question, and nothing of its trace
