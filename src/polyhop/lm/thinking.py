"""The memory that a model thinks, found out from its replies and shared by all who have the model open."""

from __future__ import annotations

from dataclasses import dataclass

from polyhop.lm.base import Completion, LanguageModel

HEADROOM = 4096
"""Tokens added to the cap of a call of a model that thinks, for its thoughts."""

_ATTRIBUTE = "thinking_memory"


@dataclass(slots=True)
class Thinking:
    """A memory of what replies have shown of a model's thinking.

    ``found``: a reply showed reasoning, or spent its token cap before any text came. ``refused``: the server takes no
    call with head-room. ``learns``: False for a model whose calls must be the same every time, as those of a replay.
    """

    found: bool = False
    refused: bool = False
    learns: bool = True

    def learn(self, reply: Completion) -> None:
        """Remember that the model thinks, if this reply shows it."""
        if not self.found and self.learns and (reply.thought or reply.ran_out):
            self.found = True


def thinking_of(model: LanguageModel) -> Thinking:
    """Return the memory of an opened model: the same object for all who hold the model, or a cache in front of it.

    A model object that takes no attributes gets a new memory at each call.
    """
    known = getattr(model, _ATTRIBUTE, None)
    if isinstance(known, Thinking):
        return known
    memory = Thinking()
    try:
        setattr(model, _ATTRIBUTE, memory)
    except (AttributeError, TypeError, ValueError):
        return memory
    return memory
