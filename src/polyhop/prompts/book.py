"""The prompt files of all tasks: found, checked against their tasks both ways, and hashed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from polyhop.errors import PromptError, UnknownName, UsageError, nearest
from polyhop.prompts.loading import (
    Demonstration,
    Template,
    check_variables,
    hash_of,
    parse_demonstration,
    parse_file,
    read_file,
)
from polyhop.prompts.prompt import NO_EXAMPLE, Prompt, faults
from polyhop.prompts.scored import ScoredPrompt, parse_scored, parse_scored_demonstration
from polyhop.prompts.tasks import CONTINUED, SCORED, TASKS, ScoredTask, Task, task_named
from polyhop.prompts.turns import drawn

T = TypeVar("T")
_SCORED_DEMONSTRATIONS = 2
"""Demonstrations in a scored prompt that is only shown, as many as the paper's have."""


_shipped: dict[str, Prompt] = {}
"""The prompts of the package, parsed once for all books."""


class PromptBook:
    """All prompts: each task's own file, or the file of the same name in ``folder`` if there is one."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = Path(folder) if folder is not None else None
        self._prompts: dict[str, Prompt] = {}
        self._scored: dict[str, ScoredPrompt] = {}
        if self.folder is not None:
            self._check_folder(self.folder)

    def __getitem__(self, name: str) -> Prompt:
        if name not in self._prompts:
            self._prompts[name] = self._open(task_named(name))
        return self._prompts[name]

    def scored(self, name: str) -> ScoredPrompt:
        """Return the prompt of a scored task."""
        if name not in SCORED:
            raise UnknownName("scored prompt task", name, SCORED)
        if name not in self._scored:
            self._scored[name] = self._load_scored(SCORED[name])
        return self._scored[name]

    def example(self, name: str) -> dict[str, Any]:
        """Return the fields of a call of a task, generated or scored, from its last demonstration.

        Raises:
            UsageError: the task has no demonstration.
        """
        if name not in SCORED:
            return self[name].example()
        found = next((rows for task in (name, *SCORED) if (rows := self.scored(task).demonstrations)), ())
        if not found:
            raise UsageError(NO_EXAMPLE.format(name))
        before = {"demonstrations": found[:-1][:_SCORED_DEMONSTRATIONS], "position": "after"}
        task = SCORED[name]
        given = {**before, **found[-1]}
        return {field: given.get(field) for field in (task.target, *task.fields)}

    def role(self, name: str) -> str:
        """Return the role of the model for a task, generated or scored."""
        return (self.scored(name) if name in SCORED else self[name]).settings.role

    def callers(self) -> set[str]:
        """Return the names that a model can be given for: every task and every role."""
        tasks = {*TASKS, *CONTINUED, *SCORED}
        return tasks | {self.role(task) for task in tasks}

    def hashes(self) -> dict[str, str]:
        """Hash every prompt file with its demonstrations, so that a run records the prompts it used."""
        scored = {name: hash_of(self.scored(name).text, self.scored(name).demonstrations) for name in SCORED}
        return dict(sorted(({name: self[name].digest for name in (*TASKS, *CONTINUED)} | scored).items()))

    def _open(self, task: Task[Any]) -> Prompt:
        if self.folder is not None or task.folder is not None:
            return self._load(task)
        if (prompt := _shipped.get(task.name)) is None or prompt.task is not task:
            prompt = _shipped[task.name] = self._load(task)
        return prompt

    def _load(self, task: Task[Any]) -> Prompt:
        path, text, source = self._read(task.name, task.folder)
        has_form = (task.has_text_form and not task.continues) or "\n# Output" in text
        sections = ("Output", "Input") if has_form else ("Input",)
        head, (instruction, *forms, shown) = parse_file(text, str(path), sections=sections)
        form = forms[0] if forms else Template.parse("")
        check_variables(task, (instruction, form, shown), str(path))
        prompt = Prompt(task, source, text, head, instruction, form, shown)
        prompt.demonstrations = tuple(self._demonstrations(prompt))
        return prompt

    def _load_scored(self, task: ScoredTask) -> ScoredPrompt:
        path, text, source = self._read(task.name)
        prompt = parse_scored(task, source, text, str(path))
        demonstrations = self._find(f"{task.name}.demos.jsonl")
        if "demonstrations" not in task.fields or demonstrations is None:
            return prompt
        return replace(
            prompt, demonstrations=tuple(demonstrations_in(demonstrations, task.name, parse_scored_demonstration))
        )

    def _read(self, name: str, home: Traversable | None = None) -> tuple[Traversable, str, str]:
        """Read a task's prompt file; return its path, its text, and its source as the user sees it."""
        path = self._find(f"{name}.md", home)
        if path is None:
            raise PromptError(f"there is no prompt file {name}.md" + (f" in {home}" if home else ""))
        return path, read_file(path), str(path) if self._is_own(path) or home else "built in"

    def _demonstrations(self, prompt: Prompt) -> Iterator[Demonstration]:
        owner = prompt.task
        while (path := self._find(f"{owner.name}.demos.jsonl", owner.folder)) is None:
            if not owner.demonstrations:
                return
            owner = task_named(owner.demonstrations)

        def parse(line: str) -> Demonstration:
            optional = prompt.input.tested.union(prompt.task.unshown)
            return parse_demonstration(line, prompt.task, prompt.switches, optional)

        yield from demonstrations_in(path, owner.name, parse)
        if "kind" in prompt.switches and owner.folder is None and not self._is_own(path):
            yield from drawn(prompt.task.name)

    def _find(self, name: str, home: Traversable | None = None) -> Traversable | None:
        """Find a file in the user's folder, else in the task's, which is the package's if the task names none."""
        if self.folder is not None and (own := self.folder / name).is_file():
            return own
        path = (home or resources.files("polyhop.prompts") / "files") / name
        return path if path.is_file() else None

    def _is_own(self, path: Traversable) -> bool:
        """Return True if a file is of the user's folder."""
        return self.folder is not None and isinstance(path, Path) and self.folder in path.parents

    def _check_folder(self, folder: Path) -> None:
        """Check that every file is a known task's, and read them all, so that no fault is found during a run."""
        if not folder.is_dir():
            raise PromptError(f"--prompts {folder}: no such folder")
        names = {f"{task}.{end}" for task in (*TASKS, *CONTINUED, *SCORED) for end in ("md", "demos.jsonl")}
        for path in sorted(folder.iterdir()):
            if path.name.startswith(".") or path.name.endswith("~"):
                continue  # an editor's or the system's own
            if path.name not in names or not path.is_file():
                hint = nearest(path.name, names)
                raise PromptError(f"{path}: not a prompt task's file" + (f"; did you mean {hint}?" if hint else ""))
        self.hashes()


def demonstrations_in(path: Traversable, task: str, parse: Callable[[str], T]) -> Iterator[T]:
    """Yield the demonstrations of a task in a file, one per line; ``PromptError`` names a malformed line."""
    for number, line in enumerate(read_file(path).split("\n"), 1):  # splitlines would cut inside a string
        try:
            if line.strip():
                yield parse(line)
        except ValueError as error:
            wrong = faults(error) if isinstance(error, ValidationError) else error
            raise PromptError(f"{path}:{number}: not a demonstration of {task}: {wrong}") from None
