"""The room that is added to a call's token cap for the thoughts of a model that thinks."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from polyhop.lm.base import Request
from polyhop.lm.memory import HEADROOM, Memory

_REFUSED = re.compile(r"context|max_(?:completion_|new_)?tokens|too (?:long|large|many)", re.IGNORECASE)


@dataclass(slots=True)
class Headroom:
    """Room for the thoughts of one call.

    ``tokens`` are part of its cap. ``more`` are added if thoughts spend the cap. ``found``: the room is there because
    the model was found to think, not because an option says so; ``memory`` is that of the model.
    ``option``: the option that sets the cap or the room, if one does.
    """

    memory: Memory
    tokens: int = 0
    more: int = 0
    found: bool = False
    option: str = ""

    def grown(self) -> Headroom:
        """Return the room of the retry."""
        return replace(self, tokens=self.tokens + self.more, more=0)

    def now(self, request: Callable[[], Request]) -> Headroom:
        """Return the room of a call that would send this request now: the model may have been found to think."""
        is_late = self.more and self.memory.gives_headroom(request)
        return Headroom(self.memory, self.more, found=True) if is_late else self

    def without(self) -> Headroom:
        """Return no room, for a server that refuses it."""
        return replace(self, tokens=0, found=False)

    def is_refused(self, error: Exception) -> bool:
        """Return True if a server's error may go away without the room that was added automatically."""
        return self.found and bool(_REFUSED.search(str(error)))

    def remedy(self, cap: int) -> str:
        """Return what to do about a call that spent ``cap`` tokens before any text came."""
        if self.option == "max_tokens_per_call":
            more = f"--max-tokens-per-call {2 * max(cap, HEADROOM)} (max_tokens_per_call)"
        else:
            more = f"--reasoning-tokens {2 * max(self.tokens, HEADROOM)} (reasoning_tokens)"
        return (
            f"A model that thinks spends them on its thoughts: give it more, as {more}, or have it think less, as "
            "--lm-option reasoning_effort=low (lm_options)"
        )


def headroom_of(memory: Memory, max_tokens_per_call: int | None, reasoning_tokens: int | None) -> Headroom:
    """Return the room of a new call of a model: by the options, else by what is known of the model."""
    if max_tokens_per_call is not None:
        return Headroom(memory, option="max_tokens_per_call")
    if reasoning_tokens is not None:
        return Headroom(memory, reasoning_tokens, option="reasoning_tokens")
    if memory.thinks and not memory.refuses_headroom:
        return Headroom(memory, HEADROOM, found=True)
    return Headroom(memory, more=HEADROOM)
