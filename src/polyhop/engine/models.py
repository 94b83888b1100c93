"""The language models of a run, by task or role."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from polyhop.errors import UsageError
from polyhop.lm.base import LanguageModel
from polyhop.lm.thinking import Thinking, thinking_of


@dataclass(frozen=True, slots=True)
class Models:
    """The language models of a run, by task or role; the most specific of task, role and ``default`` is used."""

    by_name: Mapping[str, LanguageModel]
    thinking: Mapping[int, Thinking] = field(init=False, repr=False, compare=False)
    """The memory of each model's thinking, by the ``id`` of the model."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "thinking", {id(model): thinking_of(model) for model in self.by_name.values()})

    def __call__(self, task: str, role: str) -> LanguageModel:
        for name in (task, role, "default"):
            if name in self.by_name:
                return self.by_name[name]
        raise UsageError(f"no language model for the task {task} (role {role}): give lm={{'default': …}}")

    def thinkers(self) -> list[str]:
        """Return the roles and tasks whose models were found to think."""
        return [name for name, model in self.by_name.items() if self.thinking[id(model)].found]

    def remember_thinkers(self, names: Iterable[str]) -> None:
        """Have the models of these roles and tasks known to think, as an earlier run found them to."""
        for name in self.by_name.keys() & set(names):
            memory = self.thinking[id(self.by_name[name])]
            memory.found = memory.found or memory.learns

    @property
    def default(self) -> LanguageModel:
        """The default model, which counts tokens; the first model if every role has its own."""
        return self.by_name.get("default") or next(iter(self.by_name.values()))
