"""The prompt files' tiny template language: ``{name}`` shows a field, ``{?name}…{/}`` keeps a part when it is true,
``{?!name}…{/}`` when it is not, ``{?name=value}…{/}`` when it equals value. Parts do not nest. Nothing is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_TAG = re.compile(  # spaces and capitals are let in, so that a tag with them is a wrong name and not a text unnoticed
    r"\{ *(?P<close>/)\w* *\}"
    r"|\{ *\? *(?P<no>!?) *(?P<test>\w+) *(?:= *(?P<value>\w+) *)?\}"
    r"|\{ *(?P<name>[A-Za-z_]\w*) *\}"
)


@dataclass(frozen=True, slots=True)
class _Part:
    """A run of literals and field names, kept when its test holds."""

    pieces: tuple[str, ...]
    """Literals at even indices, field names at odd ones."""
    test: str | None = None
    value: str | None = None
    negated: bool = False

    def holds(self, fields: Mapping[str, Any]) -> bool:
        if self.test is None:
            return True
        found = fields.get(self.test)
        return (bool(found) if self.value is None else str(found) == self.value) is not self.negated


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template. ``shown``: the fields whose value stands in the text; ``tested``: those that switch a part on
    or off."""

    parts: tuple[_Part, ...]
    shown: frozenset[str]
    tested: frozenset[str]

    def render(self, fields: Mapping[str, Any], shown: Mapping[str, str]) -> str:
        """The text: tests look at ``fields``, fields are filled from ``shown`` and never looked at again."""
        return "".join(
            shown[piece] if i % 2 else piece
            for part in self.parts
            if part.holds(fields)
            for i, piece in enumerate(part.pieces)
        )

    @classmethod
    def parse(cls, text: str) -> Template:
        """Read a template; a ``ValueError`` names a part that is not closed, or closed twice.

        >>> Template.parse("Q: {q}{?hint} ({hint}){/}").render({"q": 1, "hint": ""}, {"q": "why?", "hint": ""})
        'Q: why?'
        """
        parts: list[_Part] = []
        pieces: list[str] = [""]
        opened: re.Match[str] | None = None
        end = 0

        def finish() -> None:
            nonlocal pieces
            test = (opened["test"], opened["value"], opened["no"] == "!") if opened else (None, None, False)
            parts.append(_Part(tuple(pieces), *test))
            pieces = [""]

        for tag in _TAG.finditer(text):
            pieces[-1] += text[end : tag.start()]
            end = tag.end()
            if tag["name"]:
                pieces += [tag["name"], ""]
            elif (tag["close"] is None) == (opened is not None):
                raise ValueError(f"{tag[0]} where a part is {'already' if opened else 'not'} open")
            else:
                finish()
                opened = None if tag["close"] else tag
        if opened:
            raise ValueError(f"{opened[0]} is never closed with {{/}}")
        pieces[-1] += text[end:]
        finish()
        shown = frozenset(name for part in parts for name in part.pieces[1::2])
        return cls(tuple(parts), shown, frozenset(part.test for part in parts if part.test))
