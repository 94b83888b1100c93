"""Follow-up questions: the last message of a chat, rewritten with the conversation before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from polyhop.prompts.tasks.chat import CHAT_QUESTION

if TYPE_CHECKING:
    from polyhop.engine.equipment import Equipment
    from polyhop.engine.run import Run

MAX_TURNS = 6
"""The maximum number of earlier messages that are read."""


async def standalone(question: str, conversation: Sequence[tuple[str, str]], run: Run, engine: Equipment) -> str:
    """Return a question that is understandable without the conversation, by one call of the model; the question itself
    without a conversation, without a budget for the call, or if the model is pocket, which writes nothing."""
    if not conversation or engine.model_of(CHAT_QUESTION.name).name == "pocket":
        return question
    rewritten = ""
    with run.gathering():
        turns = list(conversation[-MAX_TURNS:])
        rewritten = (await run.ask(CHAT_QUESTION, conversation=turns, question=question)).question
    return rewritten or question
