"""Prompt files: their head, their template language, and their demonstrations.

A file has a TOML head between ``+++`` lines (``role``, ``temperature``, ``max_tokens``, ``stop``, ``shots``), then the
instruction, then ``# Output`` (the text form) and ``# Input`` (the fields of a call).

A template shows a field by ``{name}`` and keeps a part by ``{?name}…{/}`` if the field is true, ``{?!name}…{/}`` if it
is not, ``{?name=value}…{/}`` if it equals the value. ``{>name}`` is a phrase in the words of the question's kind
(``kinds.toml``), as parts that the field ``kind`` selects. Nothing is evaluated. Every fault is a ``PromptError`` that
names the file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields
from importlib.resources.abc import Traversable
from typing import Annotated, Any

from annotated_types import Ge
from pydantic import TypeAdapter, ValidationError

from polyhop.common.toml import parse_toml
from polyhop.errors import PromptError, nearest
from polyhop.prompts.kinds import as_parts
from polyhop.prompts.tasks import Output, Task
from polyhop.prompts.tasks.base import MAY_DECLINE
from polyhop.types import NonNegative, Passage, Positive

_HEAD = re.compile(r"\A\+\+\+\n(.*?)^\+\+\+\n", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PromptSettings:
    """The settings in a prompt file's head; ``Run.ask(options=…)`` overrides any of them."""

    role: str = "reasoner"
    temperature: Annotated[float, Ge(0)] = 0.0
    max_tokens: Positive = 512
    stop: tuple[str, ...] = ()
    shots: NonNegative = 3


SETTING_NAMES = frozenset(item.name for item in fields(PromptSettings))


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A worked example: the fields of a call and its output. ``when`` maps a field that steers the prompt to its
    values in the calls that show the example."""

    fields: Mapping[str, Any]
    output: Output
    when: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def applies_to(self, switches: Mapping[str, Any]) -> bool:
        """Return True if it is shown to a call with these switches."""
        return all(str(switches[name]) in values for name, values in self.when.items())


_SETTINGS_SHAPE = TypeAdapter(PromptSettings)


def read_file(path: Traversable) -> str:
    """Read a file's text, with or without a byte order mark."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise PromptError(f"{path}: not UTF-8 text") from None
    except OSError as error:
        raise PromptError(f"{path}: cannot be read: {error.strerror}") from None


# --- templates ---------------------------------------------------------------------------------------------------

_MAX_NESTING = 20  # parts within parts

_TAG = re.compile(  # spaces and capitals are let in, so that a tag with them is a wrong name and not a text unnoticed
    r"\{ *(?P<close>/)\w* *\}"
    r"|\{ *\? *(?P<no>!?) *(?P<test>\w+) *(?:= *(?P<value>\w+) *)?\}"
    r"|\{ *(?P<name>[A-Za-z_]\w*) *\}"
)


@dataclass(frozen=True, slots=True)
class Test:
    """The condition of a part: that a field is true, or equals ``value``; or, ``negated``, that it does not."""

    field: str
    value: str | None
    negated: bool

    def holds(self, fields: Mapping[str, Any]) -> bool:
        found = fields.get(self.field)
        return (bool(found) if self.value is None else str(found) == self.value) is not self.negated


@dataclass(frozen=True, slots=True)
class _Part:
    """A run of literals and field names, kept if all its tests hold: its own and those of the parts around it."""

    pieces: tuple[str, ...]
    """Literals at even indices, field names at odd ones."""
    tests: tuple[Test, ...] = ()

    def holds(self, fields: Mapping[str, Any]) -> bool:
        return all(test.holds(fields) for test in self.tests)


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template. ``shown``: the fields whose value is in the text; ``tested``: those that switch a part."""

    parts: tuple[_Part, ...]
    shown: frozenset[str]
    tested: frozenset[str]

    def render(self, fields: Mapping[str, Any], shown: Mapping[str, str]) -> str:
        """Render the text: ``fields`` decide the tests, ``shown`` fills the fields and is not parsed again."""
        return filled(self.chosen(fields), shown)

    def chosen(self, fields: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the pieces of the parts whose tests hold: literals at even indices, field names at odd ones."""
        pieces = [""]
        for first, *others in (part.pieces for part in self.parts if part.holds(fields)):
            pieces[-1] += first
            pieces += others
        return tuple(pieces)

    @classmethod
    def parse(cls, text: str) -> Template:
        """Read a template; a ``ValueError`` names a part that is not closed, or closed twice, or an unknown phrase.

        >>> Template.parse("Q: {q}{?hint} ({hint}){/}").render({"q": 1, "hint": ""}, {"q": "why?", "hint": ""})
        'Q: why?'
        >>> Template.parse("The {>question} is short.").render({"kind": "fact"}, {})
        'The claim is short.'
        """
        parts: list[_Part] = []
        pieces: list[str] = [""]
        opened: list[re.Match[str]] = []
        end = 0

        def finish() -> None:
            nonlocal pieces
            tests = (Test(tag["test"], tag["value"], tag["no"] == "!") for tag in opened)
            parts.append(_Part(tuple(pieces), tuple(tests)))
            pieces = [""]

        text = as_parts(text)
        for tag in _TAG.finditer(text):
            pieces[-1] += text[end : tag.start()]
            end = tag.end()
            if tag["name"]:
                pieces += [tag["name"], ""]
                continue
            finish()
            if not tag["close"]:
                opened.append(tag)
                if len(opened) > _MAX_NESTING:
                    raise ValueError(f"more than {_MAX_NESTING} parts are open at {tag[0]}")
            elif opened:
                opened.pop()
            else:
                raise ValueError(f"{tag[0]} where a part is not open")
        if opened:
            raise ValueError(f"{opened[-1][0]} is never closed with {{/}}")
        pieces[-1] += text[end:]
        finish()
        shown = frozenset(name for part in parts for name in part.pieces[1::2])
        return cls(tuple(parts), shown, frozenset(test.field for part in parts for test in part.tests))


def filled(pieces: Iterable[str], shown: Mapping[str, str]) -> str:
    """Fill the fields among the chosen pieces of a template."""
    return "".join([shown[piece] if i % 2 else piece for i, piece in enumerate(pieces)])


# --- prompt files ------------------------------------------------------------------------------------------------


def hash_of(text: str, demonstrations: Iterable[Any]) -> str:
    """Return the hash of a prompt file with its demonstrations."""
    return hashlib.blake2b((text + repr(list(demonstrations))).encode(), digest_size=8).hexdigest()


def parse_file(
    text: str, source: str, *, sections: Sequence[str] = ("Output", "Input"), keys: Set[str] = SETTING_NAMES
) -> tuple[PromptSettings, list[Template]]:
    """Parse a prompt file: its head, which may set ``keys``, then its instruction and each of its ``sections``."""
    head = _HEAD.match(text)
    if head is None:
        raise PromptError(f"{source}: a prompt file opens with a head between two +++ lines")
    marker = re.compile(rf"^# ({'|'.join(sections)})[ \t]*\n", re.MULTILINE)
    instruction, *parts = marker.split(text[head.end() :])
    if parts[::2] != list(sections):
        wanted = " and ".join(f"# {name}" for name in sections)
        found = ", ".join(f"# {name}" for name in parts[::2]) or "neither"
        raise PromptError(f"{source}: after the instruction come {wanted}, in this order; found {found}")
    try:
        templates = [Template.parse(piece) for piece in (instruction, *parts[1::2])]
    except ValueError as error:
        raise PromptError(f"{source}: {error}") from None
    return _parse_head(head[1], source, keys), templates


def _parse_head(text: str, source: str, keys: Set[str]) -> PromptSettings:
    try:
        values = parse_toml(f"\n{text}")  # line numbers as in the file, which opens with +++
        check_names(values, keys, "key in the head")
        return _SETTINGS_SHAPE.validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise PromptError(f"{source}: {'.'.join(map(str, first['loc']))} in the head: {first['msg']}") from None
    except ValueError as error:
        raise PromptError(f"{source}: {error}") from None


def check_variables(task: Task[Any], templates: Sequence[Template], source: str) -> None:
    """Check that every variable is a field of the task and that every field is used."""
    used: set[str] = set()
    try:
        for template in templates:
            used |= template.shown | template.tested
        check_names(used - {MAY_DECLINE}, task.fields, "variable")
    except ValueError as error:
        raise PromptError(f"{source}: {error}") from None
    for template in templates[:-1]:
        if template.shown:
            raise PromptError(f"{source}: {{{min(template.shown)}}} may stand under # Input only")
    if unused := sorted(set(task.fields) - used - {"kind", *task.unshown}):  # a user's file need not tell kinds apart
        raise PromptError(f"{source}: the field {unused[0]!r} of {task.name} is never used")


def check_names(names: Iterable[str], valid: Iterable[str], what: str) -> None:
    """Check names; ``ValueError`` for the first invalid one, with the nearest valid name and all of them.

    >>> check_names({"tempratur": 1}, ["role", "temperature"], "key")
    Traceback (most recent call last):
    ValueError: unknown key 'tempratur'; did you mean 'temperature'? Valid: role, temperature.
    """
    known = sorted(valid)
    for name in sorted(set(names).difference(known)):
        hint = nearest(name, known)
        guess = f"; did you mean {hint!r}?" if hint else "."
        raise ValueError(f"unknown {what} {name!r}{guess} Valid: {', '.join(known)}.")


# --- demonstrations ----------------------------------------------------------------------------------------------


def parse_demonstration(line: str, task: Task[Any], switches: Iterable[str], optional: Set[str]) -> Demonstration:
    """Parse one line of a demonstrations file; ``ValueError`` says what is wrong with it.

    It gives the task's fields, except those that only switch parts on or off; the ``optional`` ones may be missing.
    ``"when": {"kind": ["fact"]}`` shows it only to calls whose switch has one of those values.
    """
    row = json.loads(line)
    given, output = (row.get(key) if isinstance(row, dict) else None for key in ("fields", "output"))
    if not isinstance(given, dict) or not isinstance(output, dict):
        raise ValueError('a line is {"fields": {…}, "output": {…}}')
    steering = set(switches)
    own = set(task.fields).difference(steering, {"kind"})
    check_names(given, own, "field")
    when = row.get("when", {})
    if not isinstance(when, dict) or not all(isinstance(values, list) for values in when.values()):
        raise ValueError('"when" is {"a field": ["a value", …]}')
    check_names(when, steering, "switch")
    if lacking := sorted(own.difference(given, optional)):
        raise ValueError(f"the field {lacking[0]!r} is missing")
    check_names(output, task.output.model_fields, "output field")
    shape = task.output.model_validate(output)
    if lack := shape.missing():
        raise ValueError(lack)
    return Demonstration(_with_passages(given), shape, {name: tuple(map(str, values)) for name, values in when.items()})


def _with_passages(value: Any) -> Any:
    """Convert a demonstration's passages, at any depth under ``passages`` or ``passage``, to ``Passage``s."""
    if isinstance(value, Mapping):
        return {name: _under(name, item) if item else item for name, item in value.items()}
    return [_with_passages(item) for item in value] if isinstance(value, list) else value


def _under(name: str, item: Any) -> Any:
    match name:
        case "passages":
            return list(map(read_passage, item))
        case "passage":
            return read_passage(item)
    return _with_passages(item)


def read_passage(row: Any) -> Passage:
    """Read a demonstration's passage."""
    match row:
        case {"title": str(title), "text": str(text)}:
            return Passage(f"demonstration-{title}", title, text)
    raise ValueError('a passage is {"title": …, "text": …}')
