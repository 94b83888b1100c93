"""Refusals by the servers of a question's models: of JSON schemas or tools, whose calls are then made in text, and of
texts to be continued, which are then shown in the user's turn.

Each is noted once, at the end of the question, so that the trace does not depend on which of several calls in flight
was refused first. A server that is found to ignore schemas is asked in text from the next question on.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from polyhop.engine.call import Call
from polyhop.engine.caller import Caller
from polyhop.engine.tool_call import ToolCalling
from polyhop.errors import ContinuationRefused, Refused, SchemaRefused
from polyhop.lm.base import Completion
from polyhop.prompts.json_objects import holds_object
from polyhop.redaction import redacted

logger = logging.getLogger("polyhop.lm")
CallT = TypeVar("CallT", bound=Call)

SCHEMA_REFUSED = "schema refused"
"""The note of a model that was asked in text because its server refuses JSON schemas."""
SCHEMA_IGNORED = "schema ignored"
"""The note of a model that was asked in text because its server was found to ignore JSON schemas."""
TOOLS_REFUSED = "tools refused"
"""The note of a model that was asked for its calls of tools in text."""
CONTINUATION_REFUSED = "continuation refused"
"""The note of a model that was shown in the user's turn what it was to continue."""
_NOTES = {SchemaRefused: SCHEMA_REFUSED, ContinuationRefused: CONTINUATION_REFUSED}


@dataclass(slots=True)
class Refusals:
    """The refusals of one question. ``ignoring``: the models whose servers were found to ignore schemas before it."""

    caller: Caller
    ignoring: frozenset[int]
    _notes: set[tuple[str, str]] = field(default_factory=set, init=False)
    _in_json: defaultdict[int, int] = field(default_factory=partial(defaultdict, int), init=False)
    _missed: defaultdict[int, int] = field(default_factory=partial(defaultdict, int), init=False)

    def fit(self, call: CallT) -> CallT:
        """Return a call in the form in which its model is asked."""
        name = redacted(call.model.name)
        if isinstance(call, ToolCalling):
            return call.in_text() if (TOOLS_REFUSED, name) in self._notes else call
        if call.continues_turn and (
            not call.model.capabilities.continues or (CONTINUATION_REFUSED, name) in self._notes
        ):
            self._notes.add((CONTINUATION_REFUSED, name))
            return call.in_text()
        if call.ignored:
            self._notes.add((SCHEMA_IGNORED, name))
        elif not call.chosen and self.caller.rendering == "auto" and call.model.capabilities.prefers_json:
            self._notes.add((SCHEMA_REFUSED, name))
        return call

    def refused(self, call: Call, error: Refused) -> Call:
        """Return a call that the server refused, in text."""
        self._notes.add((_NOTES.get(type(error), TOOLS_REFUSED), redacted(call.model.name)))
        return call.in_text()

    def read(self, call: Call, reply: Completion) -> None:
        """Count a reply to a request with a schema, by its form."""
        if call.chosen and reply.finish_reason == "stop" and not reply.says_nothing:
            is_json = reply.value is not None or holds_object(reply.text)
            (self._in_json if is_json else self._missed)[id(call.model)] += 1

    def end(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """End the question: yield its notes, and remember which servers ignored the schemas."""
        for model in {id(model): model for model in self.caller.models.by_name.values()}.values():
            memory = self.caller.models.memory(model)
            known = memory.ignores_schemas
            memory.learn_forms(self._in_json[id(model)], self._missed[id(model)])
            if memory.ignores_schemas and not known:
                logger.warning("%s ignores JSON schemas: it is asked in text from now on", redacted(model.name))
        for note, name in sorted(self._notes):
            yield note, {"model": name}
