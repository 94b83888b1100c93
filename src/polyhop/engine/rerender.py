"""The messages of a recorded call, rendered again: a trace keeps their hash alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from polyhop.engine.call import correction
from polyhop.lm.base import Request
from polyhop.lm.tool_text import in_text
from polyhop.prompts.book import PromptBook
from polyhop.prompts.prompt import Rendering, Turn
from polyhop.trace import Ask, AskWithTools, Step


def messages_of(call: Ask, steps: Iterable[Step], prompts: PromptBook) -> list[Turn] | None:
    """Render the messages of ``call``, one of a question's ``steps``; None if they have another hash than those sent,
    as when the prompt file has changed.

    A trace recorded before steps kept ``rendering``, ``shots`` and ``retry_of`` is rendered in text, with the shots of
    the prompt file, and its corrective retries are None.
    """
    prompt = prompts[call.task]
    shots = prompt.settings.shots if call.shots is None else call.shots
    rendering: Rendering = "json" if call.rendering == "json" else "text"
    asks = {step.id: step for step in steps if isinstance(step, Ask)}
    messages = [*prompt.render(call.fields, rendering=rendering, shots=shots), *_history(call, asks)]
    retry: Ask | None = call
    while retry is not None and retry.retry_of is not None and (before := asks.get(retry.retry_of)) is not None:
        if before.max_tokens == retry.max_tokens and not before.ran_out:  # else only its cap was raised
            messages = [*messages, *correction(before.text, before.problem or "")]
        retry = before
    request = _offering(Request(task=call.task, fields={}, messages=messages), call)
    return list(request.messages) if request.digest() == call.prompt_hash else None  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, eq=False)
class _Offered:
    """A tool of a trace, which has its definition alone; hashed by identity, as a mapping has no hash."""

    definition: Mapping[str, Any]


def _history(call: Ask, asks: Mapping[int, Ask]) -> list[Any]:
    """Return the turns after the prompt of a call with tools, of which each step has the new ones."""
    turns: list[Any] = []
    step: Ask | None = call
    while isinstance(step, AskWithTools):
        turns = [*step.turns, *turns]
        step = None if step.continues is None else asks.get(step.continues)
    return turns


def _offering(request: Request, call: Ask) -> Request:
    """Return the request with the tools of a recorded call, as it was sent."""
    if not isinstance(call, AskWithTools):
        return request
    tools: Any = tuple(map(_Offered, call.tools))
    offer = replace(request, tools=tools, tool_choice=call.tool_choice, parallel_tool_calls=call.parallel_tool_calls)
    return in_text(offer) if call.in_text else offer
