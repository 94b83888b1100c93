"""A model's stated confidence, from 0 to 1, on its own line if the text form asks for one."""

from __future__ import annotations

import math
import re
from typing import Any

from polyhop.prompts.answers import find_answer
from polyhop.prompts.parsing import Malformed

_SURE = re.compile(r"^[^\w\n]*+confidence\b[^\w\n]*+(.*)$", re.I | re.M)
_ANSWER = re.compile(r"^[^\w\n]*+answer\b", re.I | re.M)
_NUMBER = re.compile(r"(\d{1,3}(?:\.\d{1,9})?|\.\d{1,9})[ \t]*(%|/[ \t]*(?:100|10)\b)?")


def read_confidence(value: Any) -> float | None:
    """Read a confidence from 0 to 1 as models write it; None if it is not one.

    >>> read_confidence("85%"), read_confidence(0.5), read_confidence("8/10"), read_confidence("high")
    (0.85, 0.5, 0.8, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str):
        found = _NUMBER.search(value[:100])
        if found is None:
            return None
        value = float(found[1]) / {"%": 100, "/100": 100, "/10": 10}.get("".join((found[2] or "").split()), 1)
    if not math.isfinite(value) or not 0 <= value <= 100:
        return None
    return float(value if value <= 1 else value / 100)


def split_confidence(text: str) -> tuple[str, float | None]:
    """Split off the last line "Confidence: …" and read it; a line that an answer follows is quoted.

    >>> split_confidence("Answer: Rome\\nConfidence: 0.9"), split_confidence("Confidence: 0.9\\nAnswer: Rome")
    (('Answer: Rome\\n', 0.9), ('Confidence: 0.9\\nAnswer: Rome', None))
    """
    lines = list(_SURE.finditer(text))
    after = text[lines[-1].end() :] if lines else ""
    if not lines or _ANSWER.search(after) or find_answer(after):
        return text, None
    return text[: lines[-1].start()], read_confidence(lines[-1][1])


def require_confidence(confidence: float | None, *, verbal: bool) -> float | None:
    """Return the confidence if it was asked for; ``Malformed`` if it was and none is stated."""
    if verbal and confidence is None:
        raise Malformed('the last line must say how sure you are, "Confidence:" and a number from 0 to 1')
    return confidence if verbal else None
