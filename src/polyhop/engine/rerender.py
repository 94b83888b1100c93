"""The messages of a recorded call, rendered again: a trace keeps their hash alone."""

from __future__ import annotations

from collections.abc import Iterable

from polyhop.engine.call import correction
from polyhop.lm.base import Request
from polyhop.prompts.book import PromptBook
from polyhop.prompts.prompt import Rendering, Turn
from polyhop.trace import Ask, Step


def messages_of(call: Ask, steps: Iterable[Step], prompts: PromptBook) -> list[Turn] | None:
    """Render the messages of ``call``, one of a question's ``steps``; None if they have another hash than those sent,
    as when the prompt file has changed.

    A trace recorded before steps kept ``rendering``, ``shots`` and ``retry_of`` is rendered in text, with the shots of
    the prompt file, and its corrective retries are None.
    """
    prompt = prompts[call.task]
    shots = prompt.settings.shots if call.shots is None else call.shots
    rendering: Rendering = "json" if call.rendering == "json" else "text"
    messages = prompt.render(call.fields, rendering=rendering, shots=shots)
    asks = {step.id: step for step in steps if isinstance(step, Ask)}
    retry: Ask | None = call
    while retry is not None and retry.retry_of is not None and (before := asks.get(retry.retry_of)) is not None:
        if before.max_tokens == retry.max_tokens and not before.ran_out:  # else only its cap was raised
            messages = [*messages, *correction(before.text, before.problem or "")]
        retry = before
    request = Request(task=call.task, fields={}, messages=messages)  # type: ignore[arg-type]
    return messages if request.digest() == call.prompt_hash else None
