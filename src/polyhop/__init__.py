"""polyhop: multi-hop question answering over your own documents or a benchmark's.

>>> import polyhop
>>> corpus = [
...     polyhop.Passage("1", "Alien (film)", "Alien is a 1979 film directed by Ridley Scott."),
...     polyhop.Passage("2", "Ridley Scott", "Ridley Scott is an English director born in South Shields."),
... ]
>>> answer = polyhop.ask("Where was the director of Alien born?", corpus=corpus)
>>> answer.text
'South Shields'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from polyhop._version import __version__

if TYPE_CHECKING:
    from polyhop.answer import Answer
    from polyhop.data.corpora import open_corpus
    from polyhop.errors import PolyhopError
    from polyhop.evaluation.compare import compare
    from polyhop.evaluation.figures import frontier
    from polyhop.evaluation.runner import evaluate
    from polyhop.evaluation.sweeps.sweep import sweep
    from polyhop.lm.scripted import ScriptedLM
    from polyhop.methods.registry import method, methods
    from polyhop.pipeline import Pipeline, ask
    from polyhop.types import Citation, Evidence, Passage, Question, Span

_HOMES = {
    "Answer": "polyhop.answer",
    "Citation": "polyhop.types",
    "Evidence": "polyhop.types",
    "Passage": "polyhop.types",
    "Pipeline": "polyhop.pipeline",
    "PolyhopError": "polyhop.errors",
    "Question": "polyhop.types",
    "ScriptedLM": "polyhop.lm.scripted",
    "Span": "polyhop.types",
    "ask": "polyhop.pipeline",
    "compare": "polyhop.evaluation.compare",
    "evaluate": "polyhop.evaluation.runner",
    "frontier": "polyhop.evaluation.figures",
    "method": "polyhop.methods.registry",
    "open_corpus": "polyhop.data.corpora",
    "sweep": "polyhop.evaluation.sweeps.sweep",
}
"""The module of each public name. A name is imported at its first use, so that ``import polyhop`` costs nothing."""

__all__ = [
    "Answer",
    "Citation",
    "Evidence",
    "Passage",
    "Pipeline",
    "PolyhopError",
    "Question",
    "ScriptedLM",
    "Span",
    "__version__",
    "ask",
    "compare",
    "evaluate",
    "frontier",
    "method",
    "methods",
    "open_corpus",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name == "methods":  # the room is callable, so that the function and the package can share the name
        return importlib.import_module("polyhop.methods")
    if name not in _HOMES:
        raise AttributeError(f"module 'polyhop' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
