"""A language model call that offers tools: its request, the calls in its reply, and its step in the trace.

A model that takes no tools is asked for its calls in text (``lm.tool_text``); nothing else differs for a method.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self, TypeVar, cast

from polyhop.engine.call import Call
from polyhop.engine.models import count_tokens
from polyhop.errors import ToolsRefused
from polyhop.lm.base import Completion, Message, Request
from polyhop.lm.tool_text import in_text, kept_calls, with_calls
from polyhop.lm.tool_turns import assistant_message, result_message
from polyhop.lm.tools import Tool, ToolCall, check_tools, definitions_text, text_of
from polyhop.prompts.show import harmless
from polyhop.prompts.tasks import Output
from polyhop.trace import AskWithTools
from polyhop.trace.recorder import OpenStep

__all__ = ["Calls", "Conversations", "Message", "Tool", "ToolCall", "ToolCalling"]

T = TypeVar("T")


class Gatherer(Protocol):
    """A ``Run``, which does work at once."""

    async def gather(self, *work: Coroutine[Any, Any, T]) -> list[T]: ...


class Calls(Output):
    """A reply that calls tools: ``tool_calls`` are checked, and ``calls`` shows each in one line."""

    calls: tuple[str, ...]

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls, each with the arguments that fit its tool, or with its ``problem``."""
        return self.completion.tool_calls

    @cached_property
    def message(self) -> Message:
        """The reply as a turn of the conversation."""
        return assistant_message(self.completion)

    async def results(self, run: Gatherer, make: Callable[[ToolCall], Awaitable[str]]) -> list[Message]:
        """Make the calls at once by ``make``; return the turns that continue the conversation: the reply, and the
        result of each call. A call with a problem is never made: its result says what is wrong with it."""

        async def result(call: ToolCall) -> str:
            return call.problem or await make(call)

        return self.turns(await run.gather(*map(result, self.tool_calls)))

    def turns(self, results: Iterable[str]) -> list[Message]:
        """Return the turns that continue the conversation: the reply, and the result of each call."""
        return [self.message, *map(result_message, self.tool_calls, results)]


@dataclass
class ToolCalling(Call):
    """A language model call that offers tools. Its ``turns`` are the prompt, the ``history`` and those of a retry.

    ``before`` is the step whose reply the history continues, and ``new_turns`` are those since its request.
    """

    step: ClassVar[type[AskWithTools]] = AskWithTools

    tools: tuple[Tool, ...] = ()
    choice: str = "auto"
    parallel: bool = True
    history: tuple[Message, ...] = ()
    before: OpenStep | None = None
    new_turns: tuple[Message, ...] = ()
    is_in_text: bool = False

    @property
    def texts(self) -> list[str]:
        """The text of every turn, and of the tools."""
        return [*map(text_of, cast("list[Message]", self.turns)), definitions_text(self.tools)]

    @property
    def sent_tokens(self) -> int:
        """The tokens of the messages and the tools as they are sent, estimated if the model has no tokenizer."""
        request = self._offering()
        request = request if self.model.capabilities.tools and not self.is_in_text else in_text(request)
        texts = [*map(text_of, request.messages), *([definitions_text(request.tools)] if request.tools else [])]
        return sum(count_tokens(self.model, text) for text in texts)

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """The key that identical calls share."""
        return (*super().identity, self.choice, self.parallel, self.is_in_text)

    @property
    def links(self) -> dict[str, OpenStep]:
        """The earlier steps that the call's step refers to."""
        return {} if self.before is None else {"continues": self.before}

    def in_text(self) -> Self:
        """Return the call for a model that takes no tools."""
        return replace(self, is_in_text=True)

    def request(self, *, sample: int, seed: int | None) -> Request:
        """Return the request to the model; ``ToolsRefused`` if it takes none."""
        request = self._offering(sample, seed)
        if self.is_in_text:
            return in_text(request)
        if not self.model.capabilities.tools:
            raise ToolsRefused(f"{self.model.name} does not take tools")
        return request

    def read(self, reply: Completion, *, may_grow: bool) -> tuple[Output | None, str]:
        """Return the reply's calls, or else the task's output, or None and what is wrong with it."""
        if isinstance(reply, Completion):
            reply = self.heard(reply)
            if reply.tool_calls and not (may_grow and reply.thoughts_cut_it):
                return Calls(calls=tuple(map(str, reply.tool_calls))).with_completion(reply, self.question), ""
        return super().read(reply, may_grow=may_grow)

    def heard(self, reply: Completion) -> Completion:
        """Return the reply with its calls, also those in its text, checked."""
        request = self._offering()
        reply = with_calls(reply, request)
        kept = () if self.choice == "none" else kept_calls(reply.tool_calls, request)
        return replace(reply, tool_calls=tuple(call.checked(self.tools) for call in kept))

    def record(self, request: Request, reply: Completion, output: Output | None, complaint: str) -> dict[str, Any]:
        """Return the data of the call's step in the trace: a reply to a request in text is kept as it was written."""
        heard = output.completion if isinstance(output, Calls) else self.heard(reply)
        kept = reply if self.is_in_text else heard
        row = super().record(request, kept, output, complaint)
        if reply.usage is None:
            row["completion_tokens"] = count_tokens(self.model, text_of(assistant_message(kept)))
        return {
            **row,
            "tools": tuple(tool.definition for tool in self.tools),
            "tool_choice": self.choice,
            "parallel_tool_calls": self.parallel,
            "in_text": self.is_in_text,
            "turns": tuple(map(dict, self.new_turns)),
            "tool_calls": tuple(map(_row, heard.tool_calls)),
            "carried": kept.carried,
        }

    def _offering(self, sample: int = 0, seed: int | None = None) -> Request:
        return self._request(sample, seed, tools=self.tools, tool_choice=self.choice, parallel_tool_calls=self.parallel)


def _row(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "text": call.text, "extra": call.extra, "problem": call.problem}


@dataclass(slots=True)
class Conversations:
    """The conversations with tools of one question: the replies in them, and the step and the history of each."""

    replies: dict[int, tuple[Calls, OpenStep, tuple[Message, ...]]] = field(default_factory=dict)

    def offer(
        self,
        call: Call,
        tools: Sequence[Tool],
        turns: Sequence[Message],
        *,
        choice: str = "auto",
        parallel: bool = True,
    ) -> ToolCalling:
        """Return the call with tools and the turns after its prompt. Results of tools are made harmless.

        Raises ``UsageError`` for tools or a choice that are not possible.
        """
        check_tools(tools, choice)
        history = tuple(map(_harmless, turns))
        before, old = self._before(history)
        given = {item.name: getattr(call, item.name) for item in fields(call)}
        given["turns"] = [*call.turns, *history]
        return ToolCalling(
            **given,
            tools=tuple(tools),
            choice=choice,
            parallel=parallel,
            history=history,
            before=before,
            new_turns=history[old:],
        )

    def add(self, calls: Calls, step: OpenStep, history: tuple[Message, ...]) -> None:
        """Remember a reply, the step that it came from, and the turns that were before it."""
        self.replies[id(calls.message)] = calls, step, history

    def _before(self, history: Sequence[Message]) -> tuple[OpenStep | None, int]:
        """Return the step of the last reply whose own history begins this one, and the length of that."""
        for i in reversed(range(len(history))):
            if (known := self.replies.get(id(history[i]))) and history[:i] == known[2]:
                return known[1], i
        return None, 0


def _harmless(turn: Message) -> Message:
    return cast("Message", {**turn, "content": harmless(turn["content"])}) if turn["role"] == "tool" else turn
