"""Tools that a model may call: their definitions, and the calls in a reply.

A call is data. Nothing here runs a tool: a method reads the checked calls of a reply and decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ValidationError

from polyhop.errors import UsageError, nearest

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_JSON = json.JSONDecoder(strict=False)  # models leave line breaks inside strings
CHOICES = ("auto", "required", "none")
CARRIED = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks", "extra_content")
"""Fields of a server's message with tool calls that must go back with it: thoughts, and signatures of thoughts."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a model may call.

    ``arguments`` is the shape of its arguments, a pydantic model. Its JSON schema is what the model sees, with the
    description of every field; a call's arguments are read by it, in pydantic's lax mode ("5" is a number).

    Raises ``UsageError`` for a name with other characters than letters, digits, ``_`` and ``-``.

    >>> class Find(BaseModel):
    ...     query: str
    ...     k: int = 5
    >>> Tool("search", "Find passages.", Find).read('{"query": "Alien", "k": "3"}')
    ({'query': 'Alien', 'k': 3}, '')
    """

    name: str
    description: str
    arguments: type[BaseModel]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"a tool named {self.name!r}: a name has up to 64 letters, digits, '_' and '-'")

    @property
    def definition(self) -> dict[str, Any]:
        """The tool as OpenAI's API takes it."""
        function = {"name": self.name, "description": self.description, "parameters": _schema(self.arguments)}
        return {"type": "function", "function": function}

    def read(self, text: str) -> tuple[dict[str, Any] | None, str]:
        """Return the arguments that a model wrote as JSON, checked and with their defaults; else None and what is
        wrong with them.

        Nothing at all counts as no arguments, JSON within a JSON string as that JSON, and null as an argument that was
        left out, if it may be.
        """
        try:
            given = _JSON.decode(text.strip() or "{}")
            if isinstance(given, str):
                given = _JSON.decode(given.strip() or "{}")
        except (ValueError, RecursionError) as error:
            return None, f"the arguments are not JSON ({str(error)[:80]})"
        if given is None:
            given = {}
        if not isinstance(given, Mapping):
            return None, "the arguments must be one JSON object"
        fields = self.arguments.model_fields
        optional = {field.alias or name for name, field in fields.items() if not field.is_required()}
        given = {name: value for name, value in given.items() if value is not None or name not in optional}
        try:
            return self.arguments.model_validate(given).model_dump(), ""
        except (ValidationError, RecursionError) as error:
            return None, _complaint(error, list(fields))


@lru_cache(maxsize=64)
def _schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a shape, without pydantic's titles."""
    schema: dict[str, Any] = _untitled(arguments.model_json_schema())
    schema.pop("description", None)  # the shape's docstring; the tool has a description of its own
    return {"type": "object", "properties": {}, **schema}


def _untitled(schema: Any, *, named: bool = False) -> Any:
    """Remove the titles of a schema; ``named``: its keys are names of properties or definitions, not keywords."""
    if isinstance(schema, list):
        return [_untitled(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _untitled(value, named=not named and key in ("properties", "$defs"))
        for key, value in schema.items()
        if named or key != "title"
    }


def _complaint(error: Exception, names: Sequence[str]) -> str:
    if not isinstance(error, ValidationError):
        return "the arguments are nested too deeply"
    faults = [f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}" for fault in error.errors()[:3]]
    return f"the arguments do not fit ({'; '.join(faults)}); the tool takes {', '.join(names) or 'none'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call of a tool in a reply.

    ``id`` names it to the server; ``text`` is its arguments, as the model wrote them. ``extra``: other fields of the
    server's, which must go back to it, such as Gemini's signature of its thoughts. ``arguments`` are those that fit the
    tool's shape; None if the call was not checked yet (``checked``), or must not be made: ``problem`` says why.
    """

    id: str
    name: str
    text: str
    extra: Mapping[str, Any] | None = None
    arguments: Mapping[str, Any] | None = None
    problem: str = ""

    def checked(self, tools: Sequence[Tool]) -> ToolCall:
        """Return the call with its arguments, or with what is wrong with it, in words for the model."""
        known = {tool.name: tool for tool in tools}
        if self.name not in known:
            near = nearest(self.name, known)
            names = ", ".join(known)
            hint = f"; did you mean {near}?" if near else ""
            return replace(
                self, arguments=None, problem=f"no tool is named {self.name[:64]!r} (there are: {names}){hint}"
            )
        arguments, problem = known[self.name].read(self.text)
        return replace(self, arguments=arguments, problem=problem)

    def to_message(self) -> dict[str, Any]:
        """Return the call as it goes back to a server in the assistant's message."""
        function = {"name": self.name, "arguments": self.text}
        return {"id": self.id, "type": "function", "function": function, **(self.extra or {})}

    def __str__(self) -> str:
        """Return the call in one line: ``search(query='Alien')``."""
        if self.arguments is None:
            return f"{self.name}({self.text})"
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"


def check_tools(tools: Sequence[Tool], choice: str) -> None:
    """Raise ``UsageError`` if two tools have one name, there is none, or the choice is neither a tool nor a word of
    ``CHOICES``."""
    names = [tool.name for tool in tools]
    if not names or len(set(names)) < len(names):
        raise UsageError(f"tools: {', '.join(names) or 'none'}: give one or more, each with a name of its own")
    if choice not in CHOICES and choice not in names:
        raise UsageError(f"choice={choice!r}: must be {', '.join(map(repr, (*CHOICES, *names)))}")


def text_of(message: Mapping[str, Any]) -> str:
    """Return all text of a message that costs tokens: its content, and the names and arguments of its calls."""
    calls = message.get("tool_calls") or ()
    if not calls:
        return str(message["content"])
    parts = (part for call in calls for part in (call["function"]["name"], call["function"]["arguments"]))
    return " ".join((message["content"], *parts))


@lru_cache(maxsize=64)
def definitions_text(tools: tuple[Tool, ...]) -> str:
    """Return the definitions of tools as JSON, for a count of their tokens and for their hash."""
    return json.dumps([tool.definition for tool in tools], sort_keys=True)
