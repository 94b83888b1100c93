"""One task's prompt: renders the messages of a call and reads the reply, in the text form and in json.

The ``json`` rendering keeps the instruction and the input of the prompt file and derives the form from the task's
output shape.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeAlias

from pydantic import ValidationError

from polyhop.errors import UsageError
from polyhop.prompts.answers import MAX_BARE_ANSWER_WORDS
from polyhop.prompts.cleaning import clean_replies, without_slot_strings
from polyhop.prompts.json_objects import holds_object, objects, opens_object, whole_object
from polyhop.prompts.kinds import as_parts, in_words_of
from polyhop.prompts.loading import Demonstration, PromptSettings, Template, filled, hash_of
from polyhop.prompts.parsing import Malformed, reply_parts
from polyhop.prompts.show import show
from polyhop.prompts.tasks import Output, Task
from polyhop.prompts.tasks.base import MAY_DECLINE

logger = logging.getLogger("polyhop.prompts")

Rendering: TypeAlias = Literal["text", "json"]
RenderingChoice: TypeAlias = Literal["auto", "text", "json"]
Turn: TypeAlias = dict[str, str]
_EXAMPLE_SWITCHES = {"thoughts": True, "asks_query": True, "mode": "evidence", "typed": True, "kind": "qa"}
"""Switches of a call that is only shown; the others are off."""
NO_EXAMPLE = "{} has no demonstrations to show a call from: see its prompt without --rendered"
LONG_TOKENS = 512
"""The minimum token cap for a question whose answer is a paragraph."""
_PROSE = {"rationale", "thought", "summary"}
"""Fields of prose, whose beginning is worth reading if the rest was cut."""
_ONE_OBJECT = "the reply must be one JSON object"


Tests: TypeAlias = tuple[tuple[str, bool], ...]


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
    """Fields that are tested but never shown: they steer the prompt and the choice of its demonstrations."""
    cases: tuple[str, ...] = field(init=False)
    """Optional fields that change the instruction by their presence: a call shows demonstrations of its own case."""
    _opening_tests: Tests = field(init=False, repr=False)
    _input_tests: Tests = field(init=False, repr=False)
    _openings: dict[tuple[Any, ...], list[Turn]] = field(default_factory=dict)
    _heads: dict[tuple[str | bool, ...], tuple[str, str]] = field(default_factory=dict)
    _inputs: dict[tuple[str | bool, ...], tuple[str, ...]] = field(default_factory=dict)
    _schemas: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)
    _digest: str = field(default="", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        tested = self.instruction.tested | self.form.tested | self.input.tested
        self.switches = tuple(sorted(tested - self.input.shown))
        self._opening_tests = tests_of(self.instruction, self.form)
        self._input_tests = tests_of(self.input)
        self.cases = tuple(sorted((self.instruction.tested | self.form.tested) & self.input.shown))

    def render(self, fields: Mapping[str, Any], *, rendering: Rendering = "text", shots: int = 3) -> list[Turn]:
        """Render the chat messages of a call: instruction and ``shots`` demonstrations (a stable head, which servers
        can cache), then the call's own input. The kind of the question is qa if ``fields`` has none."""
        fields = {"kind": "qa", MAY_DECLINE: False, **fields}
        if self.task.continues:
            begun = "" if fields["form"] == "shown" else fields["assistant"]
            turns = {"system": fields["system"], "user": self.shown_input(fields), "assistant": begun}
            return [{"role": role, "content": content} for role, content in turns.items() if content.strip()]
        rendering = self.form_of(rendering)
        switches = {name: fields[name] for name in self.switches}
        key = (rendering, shots, *map(str, switches.values()), *_case(fields, self._opening_tests))
        if (opening := self._openings.get(key)) is None:
            opening = self._openings[key] = self._opening(fields, switches, rendering, shots)
        return [*map(dict, opening), {"role": "user", "content": self.shown_input(fields)}]

    @property
    def digest(self) -> str:
        """The hash of the file and its demonstrations, made once."""
        if not self._digest:
            demos = [
                (str(demo.fields), demo.output.model_dump_json(), *([str(demo.when)] if demo.when else []))
                for demo in self.demonstrations
            ]
            self._digest = hash_of(as_parts(self.text), demos)
        return self._digest

    @property
    def may_decline(self) -> bool:
        """True if the prompt has a part that lets the reply say that there is no answer."""
        return MAY_DECLINE in self.switches

    def options(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a call: those of the file, with room for a paragraph if the answer is one."""
        own = self.settings
        tokens = max(own.max_tokens, LONG_TOKENS) if fields.get("kind") == "long" else own.max_tokens
        return {
            "role": own.role, "temperature": own.temperature, "max_tokens": tokens, "stop": own.stop, "shots": own.shots
        }  # fmt: skip

    def form_of(self, rendering: Rendering) -> Rendering:
        """Return the form that the task is asked in: json if it has no text form."""
        if self.task.continues:
            return "text"
        return rendering if self.task.has_text_form else "json"

    def read(
        self, text: str, fields: Mapping[str, Any], rendering: Rendering = "text", *, is_cut: bool = False
    ) -> Output:
        """Read a reply as the typed output; ``Malformed`` says what is wrong with it.

        The form that was asked for is read, and the other one only if it cannot be a quotation: a JSON object
        instead of text if it is the whole reply, text instead of JSON if no object begins in the reply. ``is_cut``: the
        token limit ended the reply, so that a short value at its very end is a fragment.
        """
        fields = {"kind": "qa", **fields}
        if self.task.continues:
            return self.check(self.task.read_text(text, {**fields, "is_cut": is_cut}))
        reader = self._read_text if self.form_of(rendering) == "text" else self._read_json
        first: Malformed | None = None
        for part in reply_parts(text, fields):
            try:
                output = reader(part, fields)
            except Malformed as complaint:
                first = first or complaint
                continue
            if is_cut and ends_in_fragment(text, output.model_dump(exclude=_PROSE)):
                raise Malformed("the reply was cut off by its token limit: reply more briefly")
            return output
        assert first is not None
        raise first

    def _read_text(self, text: str, fields: Mapping[str, Any]) -> Output:
        if not opens_object(text):
            return self._read_form(text, fields)
        if (value := whole_object(text)) is not None:
            with suppress(Malformed):
                return self._fit(value)
        self.task.read_text("", fields)  # refused with the form that was asked for
        raise Malformed("the reply must be in the form asked for, without a JSON object")

    def _read_form(self, text: str, fields: Mapping[str, Any]) -> Output:
        """Read the text form, without what stands around it if it can be read so."""
        instruction, form = self._head(fields)
        first: Malformed | None = None
        for own in clean_replies(text, instruction, form, fields):
            try:
                return self.check(self.task.read_text(own, fields))
            except Malformed as complaint:
                first = first or complaint
        assert first is not None
        raise first

    def _read_json(self, text: str, fields: Mapping[str, Any]) -> Output:
        """Read the last object of a reply, which may quote others before it; refuse a reply that opens with another."""
        if self.task.has_text_form and not holds_object(text):
            with suppress(Malformed):
                return self._read_form(text, fields)
        if '"<' in text:
            text = without_slot_strings(text, f"{self._json_form(fields)}{self._head(fields)[1]}")
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
        """Check an object as the task's output, or the object that is its only value."""
        try:
            return self.check(value)
        except Malformed:
            match list(value.values()):
                case [dict(inner)]:
                    return self.check(inner)
            raise

    def check(self, value: Mapping[str, Any]) -> Output:
        """Validate ``value`` as the task's output; ``Malformed`` if it has the wrong shape or is incomplete."""
        try:
            output: Output = self.task.output.model_validate(dict(value))
        except ValidationError as error:
            raise Malformed(f"the reply is not in the form asked for ({faults(error)})") from None
        if lack := output.missing():
            raise Malformed(lack, output if output.USABLE_INCOMPLETE else None)
        return output

    def default(self) -> Output:
        """Return the task's safe default, marked as unread."""
        output: Output = self.task.output.model_validate(dict(self.task.default))
        return output.marked_unread()

    def schema(self, fields: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the output shape as a strict JSON schema: every field is required, an optional one may be null.

        With a call's ``fields``, only the fields it asks for, described for its kind. The schema is shared between
        calls: do not change it.
        """
        names = tuple(self.task.output.model_fields if fields is None else self.task.asked(fields))
        kind = (fields or {}).get("kind", "qa")
        if (kind, *names) not in self._schemas:
            self._schemas[kind, *names] = _strict(self.task.output.model_json_schema(), names, kind)
        return self._schemas[kind, *names]

    def demonstrations_for(self, fields: Mapping[str, Any]) -> list[Demonstration]:
        """Return the demonstrations that fit a call's switches and cases, in the order of the file: those of its kind,
        or else those of no kind, whose answers are short."""
        case = [bool(fields.get(name)) for name in self.cases]
        ours = [demo for demo in self.demonstrations if [bool(demo.fields.get(name)) for name in self.cases] == case]
        fitting = [demo for demo in ours if demo.applies_to(fields)]
        if of_kind := [demo for demo in fitting if "kind" in demo.when]:
            return of_kind
        return [] if fields.get("kind") == "long" and self.task.output.ANSWER else fitting

    def example(self) -> dict[str, Any]:
        """Return the fields of a call from the last demonstration, of a short answer if there is one; ``UsageError`` if
        there is none."""
        if not self.demonstrations:
            raise UsageError(NO_EXAMPLE.format(self.task.name))
        usual = [demo for demo in self.demonstrations if "qa" in demo.when.get("kind", ("qa",))]
        last = (usual or self.demonstrations)[-1]
        steered = {name: _EXAMPLE_SWITCHES.get(name) for name in self.switches}
        suited = {name: values[0] for name, values in last.when.items() if str(steered[name]) not in values}
        return {**dict.fromkeys(self.task.fields), **steered, **suited, **last.fields}

    def _opening(
        self, fields: Mapping[str, Any], switches: Mapping[str, Any], rendering: Rendering, shots: int
    ) -> list[Turn]:
        instruction, form = self._head(fields)
        form = form if rendering == "text" else self._json_form(fields)
        turns = [{"role": "system", "content": f"{instruction.strip()}\n\n{form.strip()}"}]
        for demo in self.demonstrations_for(fields)[:shots]:
            own = {} if "kind" in demo.when or "kind" not in switches else {"kind": "qa"}
            shown = {**dict.fromkeys(self.task.fields), **demo.fields, **switches, **own}
            if rendering == "text":
                reply = self.task.write_text(demo.output, shown)
            else:
                reply = json.dumps(demo.output.model_dump(include=set(self.task.asked(shown))), ensure_ascii=False)
            turns += [{"role": "user", "content": self.shown_input(shown)}, {"role": "assistant", "content": reply}]
        return turns

    def _head(self, fields: Mapping[str, Any]) -> tuple[str, str]:
        """Render the instruction and the text form for a call, once for each of their cases."""
        key = _case(fields, self._opening_tests)
        if key not in self._heads:
            self._heads[key] = self.instruction.render(fields, {}), self.form.render(fields, {})
        return self._heads[key]

    def shown_input(self, fields: Mapping[str, Any]) -> str:
        """Render the last message of a call, which shows its fields."""
        key = _case(fields, self._input_tests)
        if key not in self._inputs:
            self._inputs[key] = self.input.chosen(fields)
        pieces, shown = self._inputs[key], {}
        for name in pieces[1::2]:
            special = self.task.show.get(name)
            shown[name] = special(fields[name], fields) if special else show(fields[name])
        return filled(pieces, shown).strip()

    def _json_form(self, fields: Mapping[str, Any]) -> str:
        items = self.schema(fields)["properties"].items()
        body = ",\n".join(f'  "{name}": {_kind(item)}' for name, item in items)
        return f"Reply with one JSON object of this form and nothing else:\n{{\n{body}\n}}"


def tests_of(*templates: Template) -> Tests:
    """Return the fields that the conditions of templates test, and whether for a value."""
    tests = [test for template in templates for part in template.parts for test in part.tests]
    valued = {test.field for test in tests if test.value is not None}
    return tuple((name, name in valued) for name in sorted({test.field for test in tests}))


def _case(fields: Mapping[str, Any], tests: Tests) -> tuple[str | bool, ...]:
    """Return the part of a call's fields that the conditions test, which decides what is shown."""
    return tuple([str(fields.get(name)) if valued else bool(fields.get(name)) for name, valued in tests])


def _strict(schema: dict[str, Any], names: Sequence[str], kind: str) -> dict[str, Any]:
    schema["properties"] = {name: schema["properties"][name] for name in names}
    for item in schema["properties"].values():
        if "description" in item:
            item["description"] = in_words_of(kind, item["description"])
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


@cache
def warn_of_fewer(task: str, shown: int, asked: int) -> None:
    """Warn, once per task and number, of a prompt that holds fewer demonstrations than asked for."""
    logger.warning("%s shows %d demonstrations of %d asked for: its prompt has no more of them", task, shown, asked)


def faults(error: ValidationError) -> str:
    """Name the fields of an output that are wrong, and why."""
    return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])


def ends_in_fragment(text: str, value: Any) -> bool:
    """Return True if a short text of an output is the end of the reply, which stops there without a full stop.

    >>> ends_in_fragment("Answer: Ridl", {"answer": "Ridl"})
    True
    >>> ends_in_fragment("Ann Lee\\n\\nThe nex", {"answer": "Ann Lee"})
    False
    """
    if isinstance(value, str):
        end = text.rstrip(" \t*_`\"'")
        return bool(value) and len(value.split()) <= MAX_BARE_ANSWER_WORDS and end.endswith(value)
    if isinstance(value, (Mapping, list, tuple)):
        items = value.values() if isinstance(value, Mapping) else value
        return any(ends_in_fragment(text, item) for item in items)
    return False
