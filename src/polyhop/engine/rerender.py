"""What a recorded call said to its model: a trace keeps a call's fields and a hash of its messages, not themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from polyhop.engine.call import correction
from polyhop.lm.base import Request
from polyhop.prompts.book import PromptBook, Rendering, Turn
from polyhop.trace import Ask, Step


def messages_of(call: Ask, steps: Iterable[Step], prompts: PromptBook, rendering: Rendering) -> list[Turn] | None:
    """The messages that ``call``, one of a question's ``steps``, was sent, rendered again; None where no rendering has
    their hash, as when the prompt file was another.

    How many demonstrations were shown, and which reply a corrective retry followed, is found by that hash.
    """
    prompt = prompts[call.task]
    for shots in dict.fromkeys((prompt.head.shots, *range(len(prompt.demonstrations) + 1))):
        turns = prompt.render(call.fields, rendering=rendering, shots=shots)
        for added in _corrections(call, steps):
            messages = [*turns, *added]
            if Request(task=call.task, fields={}, messages=messages).digest() == call.prompt:  # type: ignore[arg-type]
                return messages
    return None


def _corrections(call: Ask, steps: Iterable[Step]) -> Iterator[list[Turn]]:
    """What may follow a call's own messages: nothing, or for a retry the turns about a reply that could not be read."""
    yield []
    if call.attempt == 1:
        return
    for step in steps:
        if isinstance(step, Ask) and step.task == call.task and step.problem:
            yield correction(step.text, step.problem)
