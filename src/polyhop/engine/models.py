"""The language models of a run, by task or role, and the lengths of texts by their tokenizers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from polyhop.common.text import estimate_tokens
from polyhop.errors import UsageError
from polyhop.lm.base import LanguageModel
from polyhop.lm.memory import Memory, memory_of

THINKING, MISSES = "thinking", "replies_without_json"


@dataclass(frozen=True, slots=True)
class Models:
    """The language models of a run, by task or role; the most specific of task, role and ``default`` is used."""

    by_name: Mapping[str, LanguageModel]
    _memories: Mapping[int, Memory] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_memories", {id(model): memory_of(model) for model in self.by_name.values()})

    def __call__(self, task: str, role: str) -> LanguageModel:
        for name in (task, role, "default"):
            if name in self.by_name:
                return self.by_name[name]
        raise UsageError(f"no language model for the task {task} (role {role}): give lm={{'default': …}}")

    def memory(self, model: LanguageModel) -> Memory:
        """Return what is known of one of these models from its replies."""
        return self._memories[id(model)]

    def ignoring_schemas(self) -> frozenset[int]:
        """Return the ``id`` of each model whose server was found to ignore JSON schemas."""
        return frozenset(key for key, memory in self._memories.items() if memory.ignores_schemas)

    def learnt(self) -> dict[str, Any]:
        """Return what is known of the models, by role or task, as ``run.json`` keeps it: those that think, and the
        number of replies for which each seems to ignore JSON schemas."""
        known = {name: self.memory(model) for name, model in self.by_name.items()}
        thinking = [name for name, memory in known.items() if memory.thinks]
        misses = {name: memory.misses for name, memory in known.items() if memory.misses}
        return ({THINKING: thinking} if thinking else {}) | ({MISSES: misses} if misses else {})

    def remember(self, learnt: Mapping[str, Any]) -> None:
        """Learn what an earlier run, or another process, has learnt of the models."""
        for name, model in self.by_name.items():
            memory = self.memory(model)
            if memory.learns:
                memory.thinks = memory.thinks or name in learnt.get(THINKING, ())
                memory.misses = max(memory.misses, learnt.get(MISSES, {}).get(name, 0))

    @property
    def default(self) -> LanguageModel:
        """The default model, which counts tokens; the first model if every role has its own."""
        return self.by_name.get("default") or next(iter(self.by_name.values()))


def count_tokens(model: LanguageModel, text: str) -> int:
    """Count the tokens of a text with the model's own tokenizer; without one, 4 characters are a token."""
    count = getattr(model, "count_tokens", None)
    return int(count(text)) if count else estimate_tokens(text)


def truncate(model: LanguageModel, text: str, tokens: int) -> str:
    """Cut a text at the end to at most ``tokens`` tokens of the model's own tokenizer; without one, of 4 characters."""
    cut = getattr(model, "truncate", None)
    return str(cut(text, tokens)) if cut else text[: 4 * max(0, tokens)]
