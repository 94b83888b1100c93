"""Loads the prompt files, checks them against their tasks both ways, and renders them.

A file has a TOML head between ``+++`` lines (``role``, ``temperature``, ``max_tokens``, ``stop``, ``shots``), then the
instruction, then ``# Output`` (the text form) and ``# Input`` (how the fields are shown). The ``json`` rendering keeps
the instruction and the input and derives the output form from the task's output shape.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import ValidationError

from polyhop.errors import PromptError, nearest
from polyhop.prompts.parsing import Malformed, first_object
from polyhop.prompts.show import show
from polyhop.prompts.tasks import TASKS, Output, Task, task_named
from polyhop.prompts.template import Template
from polyhop.types import Passage

Rendering: TypeAlias = Literal["text", "json"]
Turn: TypeAlias = dict[str, str]

LONGEST_REPLY = 20_000
"""Characters of a reply that are read; the rest cannot change the output."""

_HEAD = re.compile(r"\A\+\+\+\n(.*?)^\+\+\+\n", re.DOTALL | re.MULTILINE)
_SECTIONS = re.compile(r"^# (Output|Input)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Head:
    """What a prompt file's head sets; ``Run.ask(options=…)`` overrides any of it."""

    role: str = "reasoner"
    temperature: float = 0.0
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    shots: int = 3


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A worked example: the fields of a call and the output it should have."""

    fields: Mapping[str, Any]
    output: Output


@dataclass(slots=True)
class Prompt:
    """One task's prompt file, checked and parsed, with its demonstrations."""

    task: Task
    source: str
    text: str
    head: Head
    instruction: Template
    form: Template
    input: Template
    demonstrations: tuple[Demonstration, ...]
    _openings: dict[tuple[Any, ...], list[Turn]] = field(default_factory=dict)

    def render(self, fields: Mapping[str, Any], *, rendering: Rendering = "text", shots: int = 3) -> list[Turn]:
        """The chat messages of a call: instruction, ``shots`` demonstrations (the stable head that servers can keep),
        then the call's own input."""
        tested = self.instruction.tested | self.form.tested | self.input.tested
        flags = {name: fields[name] for name in sorted(tested)}
        key = (rendering, shots, *((name, str(value)) for name, value in flags.items()))
        if (opening := self._openings.get(key)) is None:
            opening = self._openings[key] = self._opening(flags, rendering, shots)
        return [*opening, {"role": "user", "content": self._input(fields)}]

    def read(self, text: str, fields: Mapping[str, Any], rendering: Rendering = "text") -> Output:
        """The typed output of a reply; ``Malformed`` says what is wrong with it."""
        text = text[:LONGEST_REPLY]
        if rendering == "text":
            return self.check(self.task.parse(text, fields))
        try:
            return self.check(first_object(text))
        except Malformed as complaint:
            try:  # some models keep to the markers they were trained on
                return self.check(self.task.parse(text, fields))
            except Malformed:
                raise complaint from None

    def check(self, value: Mapping[str, Any]) -> Output:
        """``value`` as the task's output, or ``Malformed``."""
        try:
            return self.task.output.model_validate(dict(value))
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])
            raise Malformed(f"the reply is not in the form asked for ({wrong})") from None

    def default(self) -> Output:
        """The task's safe default."""
        return self.task.output.model_validate(dict(self.task.default))

    def schema(self) -> dict[str, Any]:
        """The output shape as a strict JSON schema: every field required, null where it may be left out."""
        schema = self.task.output.model_json_schema()
        for shape in (schema, *schema.get("$defs", {}).values()):
            shape["additionalProperties"] = False
            shape["required"] = list(shape["properties"])
            for item in shape["properties"].values():
                item.pop("default", None)
        return schema

    def _opening(self, flags: Mapping[str, Any], rendering: Rendering, shots: int) -> list[Turn]:
        form = self.form.render(flags, {}) if rendering == "text" else self._json_form()
        turns = [{"role": "system", "content": f"{self.instruction.render(flags, {}).strip()}\n\n{form.strip()}"}]
        for demo in self.demonstrations[:shots]:
            fields = {**flags, **demo.fields}
            if rendering == "text":
                reply = self.task.write(demo.output, fields)
            else:
                reply = json.dumps(demo.output.model_dump(), ensure_ascii=False)
            turns += [{"role": "user", "content": self._input(fields)}, {"role": "assistant", "content": reply}]
        return turns

    def _input(self, fields: Mapping[str, Any]) -> str:
        shown = {}
        for name in self.input.shown:
            special = self.task.show.get(name)
            shown[name] = special(fields[name], fields) if special else show(fields[name])
        return self.input.render(fields, shown).strip()

    def _json_form(self) -> str:
        lines = [f'  "{name}": {_kind(item)}' for name, item in self.schema()["properties"].items()]
        body = ",\n".join(lines)
        return f"Reply with one JSON object of this form and nothing else:\n{{\n{body}\n}}"


def _kind(item: Mapping[str, Any]) -> str:
    names = {"boolean": "true or false", "string": "text", "null": "null", "number": "a number", "array": "a list"}
    options = item.get("anyOf", [item])
    return " or ".join(names.get(option.get("type", ""), "an object") for option in options)


class PromptBook:
    """All prompts: the package's files, each replaced by a file of the same name in ``folder`` where there is one."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = Path(folder) if folder is not None else None
        self._prompts: dict[str, Prompt] = {}
        if self.folder is not None:
            self._check_folder(self.folder)

    def __getitem__(self, name: str) -> Prompt:
        if name not in self._prompts:
            self._prompts[name] = self._load(task_named(name))
        return self._prompts[name]

    def hashes(self) -> dict[str, str]:
        """A short hash of every prompt file with its demonstrations: what a run used, to the letter."""
        return {name: _digest(self[name]) for name in sorted(TASKS)}

    def _load(self, task: Task) -> Prompt:
        place = self._find(f"{task.name}.md")
        text = place.read_text(encoding="utf-8")
        head, instruction, form, shown = _parse_file(text, str(place))
        source = str(place) if self.folder and isinstance(place, Path) and self.folder in place.parents else "built in"
        prompt = Prompt(task, source, text, head, instruction, form, shown, ())
        _check_variables(prompt, str(place))
        prompt.demonstrations = tuple(self._demonstrations(task))
        return prompt

    def _demonstrations(self, task: Task) -> list[Demonstration]:
        try:
            place = self._find(f"{task.name}.demos.jsonl")
        except PromptError:
            return self._demonstrations(task_named(task.demonstrations)) if task.demonstrations else []
        demos = []
        for number, line in enumerate(place.read_text(encoding="utf-8").splitlines(), 1):
            try:
                row = json.loads(line)
                demos.append(Demonstration(_with_passages(row["fields"]), task.output.model_validate(row["output"])))
            except (ValueError, KeyError, TypeError) as error:
                raise PromptError(f"{place}:{number}: not a demonstration of {task.name}: {error}") from None
        return demos

    def _find(self, name: str) -> Traversable:
        if self.folder is not None and (own := self.folder / name).is_file():
            return own
        place = resources.files("polyhop.prompts") / "files" / name
        if not place.is_file():
            raise PromptError(f"there is no prompt file {name}")
        return place

    def _check_folder(self, folder: Path) -> None:
        if not folder.is_dir():
            raise PromptError(f"--prompts {folder}: no such folder")
        names = {f"{task}.{end}" for task in TASKS for end in ("md", "demos.jsonl")}
        for path in sorted(folder.glob("*")):
            if path.suffix in (".md", ".jsonl") and path.name not in names:
                hint = nearest(path.name, names)
                raise PromptError(f"{path}: not a prompt task's file" + (f"; did you mean {hint}?" if hint else ""))


def _parse_file(text: str, place: str) -> tuple[Head, Template, Template, Template]:
    head = _HEAD.match(text)
    pieces = _SECTIONS.split(text[head.end() :] if head else text)
    if head is None or pieces[1::2] != ["Output", "Input"]:
        raise PromptError(f"{place}: a prompt file is a head between +++ lines, an instruction, # Output and # Input")
    try:
        values = tomllib.loads(head[1])
        if "stop" in values:
            values["stop"] = tuple(values["stop"])
        instruction, form, shown = (Template.parse(pieces[place]) for place in (0, 2, 4))
        return Head(**values), instruction, form, shown
    except (ValueError, TypeError) as error:
        raise PromptError(f"{place}: {error}") from None


def _check_variables(prompt: Prompt, place: str) -> None:
    """Every variable is a field of the task, and every field is used: neither can be misspelt unnoticed."""
    fields = set(prompt.task.fields)
    for part, allowed in ((prompt.instruction, False), (prompt.form, False), (prompt.input, True)):
        if not allowed and part.shown:
            raise PromptError(f"{place}: {{{min(part.shown)}}} may stand under # Input only")
        for name in sorted((part.shown | part.tested) - fields):
            hint = nearest(name, fields)
            raise PromptError(
                f"{place}: unknown variable {name!r}"
                + (f"; did you mean {hint!r}?" if hint else "")
                + f" Fields of {prompt.task.name}: {', '.join(sorted(fields))}."
            )
    used = prompt.input.shown | prompt.input.tested | prompt.instruction.tested | prompt.form.tested
    if missing := sorted(fields - used):
        raise PromptError(f"{place}: the field {missing[0]!r} of {prompt.task.name} is never used")


def _with_passages(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A demonstration's fields with its passages, at any depth under a ``passages`` key, made ``Passage`` objects."""

    def convert(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: _passages(item) if key == "passages" else convert(item) for key, item in value.items()}
        return [convert(item) for item in value] if isinstance(value, list) else value

    return {key: convert({key: value})[key] for key, value in fields.items()}


def _passages(rows: Sequence[Mapping[str, str]]) -> list[Passage]:
    return [Passage(f"demonstration-{row['title']}", row["title"], row["text"]) for row in rows]


def _digest(prompt: Prompt) -> str:
    demos = [(str(demo.fields), demo.output.model_dump_json()) for demo in prompt.demonstrations]
    return hashlib.blake2b((prompt.text + repr(demos)).encode(), digest_size=8).hexdigest()
