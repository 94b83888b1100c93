"""JSON objects in a reply: the whole of it, those in it, or the beginning of one.

Every function is linear in the length of the reply.
"""

from __future__ import annotations

import json
import re
from typing import Any

MAX_OBJECTS = 100
"""Maximum number of opening braces tried as the start of a JSON object; a reply with more has no object."""
_JSON = json.JSONDecoder(strict=False)  # models leave line breaks inside strings
_LINE_END = re.compile(r"[ \t`*\]]*+(?:\n|\Z)")
_BRACE = re.compile(r"[{}]")
_FENCE = re.compile(r"\A```\w*\s*")
_OBJECT = re.compile(r"(?<!\\boxed)(?<!\\text)\{")


def objects(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a reply that end their lines, those inside another left out; [] if its braces do not
    match.

    An object that words follow is quoted. A brace that is left open, or alone after the last object, may belong to an
    object that was cut off or is broken: then any object before or within it may be quoted.

    >>> objects('Not "{"answer": "Rome"}", but:\\n{"answer": "Paris"}'), objects('{"thought": "not {"answer": "Rome"}')
    ([{'answer': 'Paris'}], [])
    """
    found: list[dict[str, Any]] = []
    position = depth = attempts = 0
    closed = False
    while brace := _BRACE.search(text, position):
        position, closed = brace.end(), False
        if brace[0] == "}":
            depth = max(depth - 1, 0)
            continue
        attempts += 1
        if attempts > MAX_OBJECTS:
            return []
        try:
            value, position = _JSON.raw_decode(text, brace.start())
        except (ValueError, RecursionError):
            depth += 1
            continue
        closed = depth == 0
        if closed and _LINE_END.match(text, position):
            found.append(value)
    return found if closed else []


def whole_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that is a whole reply, or its one fenced block; None for any other reply.

    >>> whole_object('```json\\n{"answer": "Paris"}\\n```'), whole_object('It says {"answer": "Paris"}')
    ({'answer': 'Paris'}, None)
    """
    body = _unfenced(text).removesuffix("```").strip()
    if not body.startswith("{"):
        return None
    try:
        value: dict[str, Any] = _JSON.decode(body)
    except (ValueError, RecursionError):
        return None
    return value


def opens_object(text: str) -> bool:
    """Return True if a reply opens with a JSON object, in a fence or not, whole or cut off."""
    return _unfenced(text).startswith("{")


def _unfenced(text: str) -> str:
    """Remove the opening of a fence at the start of a reply, and the space around the reply."""
    text = text.strip()
    return _FENCE.sub("", text, count=1) if text.startswith("`") else text


def holds_object(text: str) -> bool:
    """Return True if a JSON object begins anywhere in a reply; LaTeX's braces begin none."""
    return _OBJECT.search(text) is not None
