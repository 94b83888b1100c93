"""Language models: the protocol, the models polyhop brings, the cache, and opening one by name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from polyhop.lm.base import (
    Capabilities,
    Completion,
    LanguageModel,
    Message,
    Request,
    Scorer,
    ScoreRequest,
    TokenScores,
    TokenUsage,
)

if TYPE_CHECKING:
    from polyhop.lm.cache import CachedLM, CompletionCache
    from polyhop.lm.hf import TransformersLM
    from polyhop.lm.names import lm_names, open_lm, register_lm
    from polyhop.lm.openai import OpenAICompatible
    from polyhop.lm.pocket import Pocket
    from polyhop.lm.scripted import ScriptedLM

_HOMES = {
    "CachedLM": "polyhop.lm.cache",
    "CompletionCache": "polyhop.lm.cache",
    "OpenAICompatible": "polyhop.lm.openai",
    "Pocket": "polyhop.lm.pocket",
    "ScriptedLM": "polyhop.lm.scripted",
    "TransformersLM": "polyhop.lm.hf",
    "lm_names": "polyhop.lm.names",
    "open_lm": "polyhop.lm.names",
    "register_lm": "polyhop.lm.names",
}
"""The module of each lazy name, imported at its first use because the clients need heavy packages."""

__all__ = [
    "CachedLM",
    "Capabilities",
    "Completion",
    "CompletionCache",
    "LanguageModel",
    "Message",
    "OpenAICompatible",
    "Pocket",
    "Request",
    "ScoreRequest",
    "Scorer",
    "ScriptedLM",
    "TokenScores",
    "TokenUsage",
    "TransformersLM",
    "lm_names",
    "open_lm",
    "register_lm",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
