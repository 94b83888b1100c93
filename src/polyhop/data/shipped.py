"""The demo's passages and questions, which ship inside the package: ``demo`` as a corpus' or a dataset's name."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Literal

NAME = "demo"


def or_shipped(path: str | Path, what: Literal["passages", "questions"]) -> Path:
    """``path``, but the demo's own file where it is ``demo`` and nothing of that name is there.

    >>> or_shipped("corpus.jsonl", "passages").name, or_shipped("demo", "questions").name
    ('corpus.jsonl', 'questions.jsonl')
    """
    found = Path(path)
    return found if str(path) != NAME or found.exists() else shipped(what)


def shipped(what: Literal["passages", "questions"]) -> Path:
    """The demo's own file."""
    return Path(str(files("polyhop.data"))) / NAME / f"{what}.jsonl"
