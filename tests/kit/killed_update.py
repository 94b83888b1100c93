"""Changes of an index to be killed: ``python -m tests.kit.killed_update FOLDER`` forks a child for each line it reads.

A line is a kind of change, and perhaps the step before which the child kills itself: ``switch``, ``clear`` or ``end``.
It prints the child's process id, then how the child ended.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from polyhop.data.corpora import open_corpus
from polyhop.retrieval import build_index
from polyhop.retrieval import sealed_folder as states
from polyhop.retrieval.updating import add_passages, remove_passages
from polyhop.types import Passage

STANDING = [
    Passage(
        f"p{number}", f"Title {number}", f"It names Title {number * 7 % 61} and Title {number // 2}, kiln {number}."
    )
    for number in range(60)
]
MORE = [
    Passage("p3", "Title 3", "Another text of Title 60."),
    *(
        Passage(f"p{number}", f"Title {number}", f"It names Title {number % 50}, oboe {number}.")
        for number in range(60, 90)
    ),
]
GONE = ["p1", "p7", "p30", "p31"]
"""Few enough to be marked as removed: with more, the index is written again."""

CHANGED: dict[str, list[Passage]] = {
    "build": MORE,
    "add": [*(passage for passage in STANDING if passage.id != "p3"), *MORE],
    "remove": [passage for passage in STANDING if passage.id not in GONE],
    "remove many": STANDING[:40],
}
"""The passages after each kind of change to ``STANDING``."""


def change(kind: str, folder: Path) -> None:
    """Make a change; a second time it changes nothing."""
    match kind:
        case "build":
            build_index(open_corpus(MORE), folder, overwrite=True)
        case "add":
            add_passages(folder, open_corpus(MORE), replace=True)
        case "remove":
            remove_passages(folder, GONE, missing_ok=True)
        case "remove many":
            remove_passages(folder, [passage.id for passage in STANDING[40:]], missing_ok=True)


def kill_before(step: str) -> None:
    """Let this process die before a step: the manifest is replaced, old states are removed, or all is done."""

    def die(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def dying(owner: Any, name: str, times: int = 0) -> None:
        real: Callable[..., Any] = getattr(owner, name)
        calls = iter([real] * times)
        setattr(owner, name, lambda *given, **named: next(calls, die)(*given, **named))

    if step == "switch":
        dying(Path, "replace")
    elif step == "clear":
        dying(states, "_clear", 1)
    elif step == "end":
        dying(states, "remove")


def main(folder: Path) -> None:
    """Change the index as each line says; what a dead process has written is there without a wait for the disk."""
    states._on_disk = lambda path: None
    for line in sys.stdin:
        kind, _, step = line.strip().partition("@")
        child = os.fork()
        if not child:
            kill_before(step)
            change(kind, folder)
            os._exit(0)
        print(child, flush=True)  # noqa: T201 - what the test reads
        print(os.waitpid(child, 0)[1], flush=True)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
