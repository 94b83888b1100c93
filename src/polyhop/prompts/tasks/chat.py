"""The task that rewrites the last message of a chat as a question that is understandable alone."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from polyhop.prompts.lines import Line
from polyhop.prompts.show import one_line
from polyhop.prompts.tasks.base import Fields, Output, Task

MAX_TURN_CHARS = 600
"""Maximum length of a shown turn, in characters."""

MAX_QUESTION_CHARS = 2000
"""Maximum length of a rewritten question, in characters: a longer one is a model that repeats itself."""


class StandaloneQuestion(Output):
    """A question that can be understood without the conversation."""

    question: str = Field(description="the last message as one question that can be understood alone")

    def missing(self) -> str | None:
        if len(self.question) > MAX_QUESTION_CHARS:
            return f"the question must not be longer than {MAX_QUESTION_CHARS:,} characters"
        return None if self.question else "the question must not be empty"


def show_conversation(turns: Sequence[tuple[str, str]] | None, fields: Fields) -> str:
    """Show the turns of a conversation, a line each.

    >>> show_conversation([("user", "Who led the Kon-Tiki expedition?"), ("assistant", "Thor Heyerdahl [1]")], {})
    'User: Who led the Kon-Tiki expedition?\\nAssistant: Thor Heyerdahl [1]'
    """
    return "\n".join(f"{role.capitalize()}: {one_line(text[:MAX_TURN_CHARS])}" for role, text in turns or ())


CHAT_QUESTION = Task(
    "chat.question",
    fields=("conversation", "question"),
    output=StandaloneQuestion,
    lines=(Line("Standalone question", "question", also=("rewritten question",), bare=True, ends="?？؟"),),
    default={"question": ""},
    show={"conversation": show_conversation},
)
