"""Loads the prompt files, checks them against their tasks both ways, and renders them.

A file has a TOML head between ``+++`` lines (``role``, ``temperature``, ``max_tokens``, ``stop``, ``shots``), then the
instruction, then ``# Output`` (the text form) and ``# Input`` (how the fields are shown). The ``json`` rendering keeps
the instruction and the input and derives the output form from the task's output shape.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from pydantic import ValidationError

from polyhop.errors import PromptError, UnknownName, UsageError, nearest
from polyhop.prompts.loading import (
    Demonstration,
    PromptSettings,
    check_variables,
    parse_demonstration,
    parse_file,
    read_file,
)
from polyhop.prompts.parsing import Malformed, holds_object, objects, opens_object, reply_parts, whole_object
from polyhop.prompts.scored import ScoredPrompt, parse_scored, parse_scored_demonstration
from polyhop.prompts.show import show
from polyhop.prompts.tasks import SCORED, TASKS, Output, ScoredTask, Task, task_named
from polyhop.prompts.template import Template

Rendering: TypeAlias = Literal["text", "json"]
Turn: TypeAlias = dict[str, str]
T = TypeVar("T")
_EXAMPLE_SWITCHES = {"thoughts": True, "mode": "evidence", "typed": True, "kind": "qa"}
"""Switches of a call that is only shown; the others are off."""
_SCORED_DEMONSTRATIONS = 2
"""Demonstrations in a scored prompt that is only shown, as many as the paper's have."""
_NO_EXAMPLE = "{} has no demonstrations to show a call from: see its prompt without --rendered"
_ONE_OBJECT = "the reply must be one JSON object"


@dataclass(slots=True)
class Prompt:
    """One task's prompt file, checked and parsed, with its demonstrations."""

    task: Task[Any]
    source: str
    text: str
    settings: PromptSettings
    instruction: Template
    form: Template
    input: Template
    demonstrations: tuple[Demonstration, ...] = ()
    switches: tuple[str, ...] = field(init=False)
    """Fields that are only asked about, never shown: they steer the prompt, its demonstrations too."""
    cases: tuple[str, ...] = field(init=False)
    """Fields shown at will whose presence the instruction hangs on: a call sees the demonstrations of its own case."""
    _openings: dict[tuple[Any, ...], list[Turn]] = field(default_factory=dict)
    _schemas: dict[tuple[str, ...], dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tested = self.instruction.tested | self.form.tested | self.input.tested
        self.switches = tuple(sorted(tested - self.input.shown))
        self.cases = tuple(sorted((self.instruction.tested | self.form.tested) & self.input.shown))

    def render(self, fields: Mapping[str, Any], *, rendering: Rendering = "text", shots: int = 3) -> list[Turn]:
        """The chat messages of a call: instruction, ``shots`` demonstrations (the stable head that servers can keep),
        then the call's own input."""
        rendering = self.form_of(rendering)
        switches = {name: fields[name] for name in self.switches}
        kept = (part.holds(fields) for part in (*self.instruction.parts, *self.form.parts))
        key = (rendering, shots, *map(str, switches.values()), *kept)
        if (opening := self._openings.get(key)) is None:
            opening = self._openings[key] = self._opening(fields, switches, rendering, shots)
        return [*map(dict, opening), {"role": "user", "content": self._input(fields)}]

    def form_of(self, rendering: Rendering) -> Rendering:
        """Return the form that the task is asked in: json if it has no text form."""
        return rendering if self.task.has_text_form else "json"

    def read(self, text: str, fields: Mapping[str, Any], rendering: Rendering = "text") -> Output:
        """The typed output of a reply; ``Malformed`` says what is wrong with it.

        The form that was asked for is read, and the other one only where it cannot be a quotation: a JSON object
        instead of text if it is the whole reply, text instead of JSON if no object begins in the reply.
        """
        reader = self._read_text if self.form_of(rendering) == "text" else self._read_json
        first: Malformed | None = None
        for part in reply_parts(text, fields):
            try:
                return reader(part, fields)
            except Malformed as complaint:
                first = first or complaint
        assert first is not None
        raise first

    def _read_text(self, text: str, fields: Mapping[str, Any]) -> Output:
        if not opens_object(text):
            return self.check(self.task.read_text(text, fields))
        if (value := whole_object(text)) is not None:
            with suppress(Malformed):
                return self._fit(value)
        self.task.read_text("", fields)  # refused with the form that was asked for
        raise Malformed("the reply must be in the form asked for, without a JSON object")

    def _read_json(self, text: str, fields: Mapping[str, Any]) -> Output:
        """The last object of a reply, which may quote others before it; a reply that opens with another is refused."""
        if self.task.has_text_form and not holds_object(text):
            with suppress(Malformed):
                return self.check(self.task.read_text(text, fields))
        found = objects(text)
        if not found:
            raise Malformed(_ONE_OBJECT)
        output = self._fit(found[-1])
        if len(found) > 1 and opens_object(text):
            with suppress(Malformed):
                if self._fit(found[0]) == output:
                    return output
            raise Malformed(f"{_ONE_OBJECT} and nothing else")
        return output

    def _fit(self, value: Mapping[str, Any]) -> Output:
        """An object as the task's output, or the one object that is all it holds."""
        try:
            return self.check(value)
        except Malformed:
            match list(value.values()):
                case [dict(inner)]:
                    return self.check(inner)
            raise

    def check(self, value: Mapping[str, Any]) -> Output:
        """``value`` as the task's output, or ``Malformed``: of the wrong shape, or of the right one and incomplete."""
        try:
            output: Output = self.task.output.model_validate(dict(value))
        except ValidationError as error:
            raise Malformed(f"the reply is not in the form asked for ({_wrong(error)})") from None
        if lack := output.missing():
            raise Malformed(lack)
        return output

    def default(self) -> Output:
        """Return the task's safe default."""
        output: Output = self.task.output.model_validate(dict(self.task.default))
        return output

    def schema(self, fields: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The output shape as a strict JSON schema: every field required, null where it may be left out.

        With a call's ``fields``, only what it asks for. Shared between calls: not to be changed.
        """
        names = tuple(self.task.output.model_fields if fields is None else self.task.asked(fields))
        if names not in self._schemas:
            self._schemas[names] = _strict(self.task.output.model_json_schema(), names)
        return self._schemas[names]

    def demonstrations_for(self, fields: Mapping[str, Any]) -> list[Demonstration]:
        """The demonstrations for a call with these fields, in the order of the file: of its switches and its cases."""
        case = [bool(fields.get(name)) for name in self.cases]
        ours = [demo for demo in self.demonstrations if [bool(demo.fields.get(name)) for name in self.cases] == case]
        return [demo for demo in ours if demo.applies_to(fields)]

    def example(self) -> dict[str, Any]:
        """The fields of a call from the last demonstration; ``UsageError`` if there is none."""
        if not self.demonstrations:
            raise UsageError(_NO_EXAMPLE.format(self.task.name))
        last = self.demonstrations[-1]
        steered = {name: _EXAMPLE_SWITCHES.get(name) for name in self.switches}
        suited = {name: values[0] for name, values in last.when.items() if str(steered[name]) not in values}
        return {**dict.fromkeys(self.task.fields), **steered, **suited, **last.fields}

    def _opening(
        self, fields: Mapping[str, Any], switches: Mapping[str, Any], rendering: Rendering, shots: int
    ) -> list[Turn]:
        form = self.form.render(fields, {}) if rendering == "text" else self._json_form(fields)
        turns = [{"role": "system", "content": f"{self.instruction.render(fields, {}).strip()}\n\n{form.strip()}"}]
        for demo in self.demonstrations_for(fields)[:shots]:
            shown = {**dict.fromkeys(self.task.fields), **demo.fields, **switches}
            if rendering == "text":
                reply = self.task.write_text(demo.output, shown)
            else:
                reply = json.dumps(demo.output.model_dump(include=set(self.task.asked(shown))), ensure_ascii=False)
            turns += [{"role": "user", "content": self._input(shown)}, {"role": "assistant", "content": reply}]
        return turns

    def _input(self, fields: Mapping[str, Any]) -> str:
        shown = {}
        for name in self.input.shown:
            special = self.task.show.get(name)
            shown[name] = special(fields[name], fields) if special else show(fields[name])
        return self.input.render(fields, shown).strip()

    def _json_form(self, fields: Mapping[str, Any]) -> str:
        items = self.schema(fields)["properties"].items()
        body = ",\n".join(f'  "{name}": {_kind(item)}' for name, item in items)
        return f"Reply with one JSON object of this form and nothing else:\n{{\n{body}\n}}"


def _strict(schema: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    schema["properties"] = {name: schema["properties"][name] for name in names}
    for shape in (schema, *schema.get("$defs", {}).values()):
        shape["additionalProperties"] = False
        shape["required"] = list(shape["properties"])
        for item in shape["properties"].values():
            item.pop("default", None)
    return schema


def _kind(item: Mapping[str, Any]) -> str:
    names = {"boolean": "true or false", "string": "text", "null": "null", "array": "a list"}
    names |= {"number": "a number", "integer": "a whole number"}
    options = item.get("anyOf", [item])
    kind = " or ".join(names.get(option.get("type", ""), "an object") for option in options)
    return f"{kind} ({item['description']})" if "description" in item else kind


_shipped: dict[str, Prompt] = {}
"""The prompts of the package, parsed once for all books."""


class PromptBook:
    """All prompts: each task's own file, replaced by a file of the same name in ``folder`` where there is one."""

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
        """The prompt of a scored task."""
        if name not in SCORED:
            raise UnknownName("scored prompt task", name, SCORED)
        if name not in self._scored:
            self._scored[name] = self._load_scored(SCORED[name])
        return self._scored[name]

    def example(self, name: str) -> dict[str, Any]:
        """The fields of a call of a task, of either sort, from its last demonstration.

        Raises:
            UsageError: the task has no demonstration.
        """
        if name not in SCORED:
            return self[name].example()
        found = next((each for task in (name, *SCORED) if (each := self.scored(task).demonstrations)), ())
        if not found:
            raise UsageError(_NO_EXAMPLE.format(name))
        before = {"demonstrations": found[:-1][:_SCORED_DEMONSTRATIONS], "position": "after"}
        task = SCORED[name]
        given = {**before, **found[-1]}
        return {field: given.get(field) for field in (task.target, *task.fields)}

    def role(self, name: str) -> str:
        """The role of the model that does a task, of either sort."""
        return (self.scored(name) if name in SCORED else self[name]).settings.role

    def callers(self) -> set[str]:
        """Return the names that a model can be given for: every task and every role."""
        tasks = {*TASKS, *SCORED}
        return tasks | {self.role(task) for task in tasks}

    def hashes(self) -> dict[str, str]:
        """A short hash of every prompt file with its demonstrations: what a run used, to the letter."""
        scored = {name: _hash(self.scored(name).text, self.scored(name).demonstrations) for name in SCORED}
        return dict(sorted(({name: _digest(self[name]) for name in TASKS} | scored).items()))

    def _open(self, task: Task[Any]) -> Prompt:
        if self.folder is not None or task.folder is not None:
            return self._load(task)
        if (prompt := _shipped.get(task.name)) is None or prompt.task is not task:
            prompt = _shipped[task.name] = self._load(task)
        return prompt

    def _load(self, task: Task[Any]) -> Prompt:
        path, text, source = self._read(task.name, task.folder)
        sections = ("Output", "Input") if task.has_text_form else ("Input",)
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
        return replace(prompt, demonstrations=tuple(_lines(demonstrations, task.name, parse_scored_demonstration)))

    def _read(self, name: str, home: Traversable | None = None) -> tuple[Traversable, str, str]:
        """A task's prompt file, its text, and where it comes from."""
        path = self._find(f"{name}.md", home)
        if path is None:
            raise PromptError(f"there is no prompt file {name}.md" + (f" in {home}" if home else ""))
        own = self.folder and isinstance(path, Path) and self.folder in path.parents
        return path, read_file(path), str(path) if own or home else "built in"

    def _demonstrations(self, prompt: Prompt) -> Iterator[Demonstration]:
        owner = prompt.task
        while (path := self._find(f"{owner.name}.demos.jsonl", owner.folder)) is None:
            if not owner.demonstrations:
                return
            owner = task_named(owner.demonstrations)

        def parse(line: str) -> Demonstration:
            return parse_demonstration(line, prompt.task, prompt.switches, prompt.input.tested)

        yield from _lines(path, prompt.task.name, parse)

    def _find(self, name: str, home: Traversable | None = None) -> Traversable | None:
        """A file of the user's own, else that of the task's folder, which is the package's where it names none."""
        if self.folder is not None and (own := self.folder / name).is_file():
            return own
        path = (home or resources.files("polyhop.prompts") / "files") / name
        return path if path.is_file() else None

    def _check_folder(self, folder: Path) -> None:
        """Every file must be a known task's; all are read now, so that none is found wrong during a run."""
        if not folder.is_dir():
            raise PromptError(f"--prompts {folder}: no such folder")
        names = {f"{task}.{end}" for task in (*TASKS, *SCORED) for end in ("md", "demos.jsonl")}
        for path in sorted(folder.iterdir()):
            if path.name.startswith(".") or path.name.endswith("~"):
                continue  # an editor's or the system's own
            if path.name not in names or not path.is_file():
                hint = nearest(path.name, names)
                raise PromptError(f"{path}: not a prompt task's file" + (f"; did you mean {hint}?" if hint else ""))
        self.hashes()


def _lines(path: Traversable, task: str, parse: Callable[[str], T]) -> Iterator[T]:
    """The demonstrations of a file, one a line; ``PromptError`` names the line that is not one."""
    for number, line in enumerate(read_file(path).split("\n"), 1):  # splitlines would cut inside a string
        try:
            if line.strip():
                yield parse(line)
        except ValueError as error:
            wrong = _wrong(error) if isinstance(error, ValidationError) else error
            raise PromptError(f"{path}:{number}: not a demonstration of {task}: {wrong}") from None


def _wrong(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])


def _digest(prompt: Prompt) -> str:
    demos = [
        (str(demo.fields), demo.output.model_dump_json(), *([str(demo.when)] if demo.when else []))
        for demo in prompt.demonstrations
    ]
    return _hash(prompt.text, demos)


def _hash(text: str, demonstrations: Sequence[Any]) -> str:
    return hashlib.blake2b((text + repr(list(demonstrations))).encode(), digest_size=8).hexdigest()
