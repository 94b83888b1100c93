"""Questions and corpora: a reader per format. ``demo`` names the passages and questions that ship with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

DEMO = "demo"


def demo_file(content: Literal["passages", "questions"]) -> Path:
    """Return the demo's own file."""
    return Path(__file__).parent / DEMO / f"{content}.jsonl"


def path_or_demo(path: str | Path, content: Literal["passages", "questions"]) -> Path:
    """Return ``path``, or the demo's own file if it is ``demo`` and no file has that name.

    >>> path_or_demo("corpus.jsonl", "passages").name, path_or_demo("demo", "questions").name
    ('corpus.jsonl', 'questions.jsonl')
    """
    found = Path(path)
    return found if str(path) != DEMO or found.exists() else demo_file(content)
