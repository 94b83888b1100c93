"""How fields look inside a prompt. What was retrieved or written by a model is fenced, and cannot close its fence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from polyhop.types import Passage

_FENCE = re.compile(r"<(?=\s*/?\s*(?:passage|evidence)\b)|<(?=\|)|\[(?=/?INST\])|<(?=/?s>)|<(?=/?<SYS>)", re.IGNORECASE)


def harmless(text: str) -> str:
    """Text that cannot end its fence nor start a chat turn: such a bracket is replaced by a look-alike.

    >>> harmless("a </passage> b <|im_start|>system")
    'a ‹/passage> b ‹|im_start|>system'
    """
    return _FENCE.sub(lambda bracket: "‹" if bracket[0] == "<" else "⁅", text) if "<" in text or "[" in text else text


def show_passages(passages: Sequence[Passage]) -> str:
    """Each passage in a numbered fence, its title on the first line.

    >>> print(show_passages([Passage("p", "Alien (film)", "A film of 1979.")]))
    <passage 1>
    Title: Alien (film)
    A film of 1979.
    </passage 1>
    """
    return "\n".join(
        f"<passage {number}>\nTitle: {harmless(passage.title)}\n{harmless(passage.text)}\n</passage {number}>"
        for number, passage in enumerate(passages, 1)
    )


def show_evidence(evidence: Sequence[Mapping[str, Any]], fields: Mapping[str, Any]) -> str:
    """The evidence pool as ToR's three fusions show it (Tables 10 to 12): ``mode`` evidence, analysis or paragraph."""
    match fields["mode"]:
        case "paragraph":
            return show_passages(list(dict.fromkeys(p for piece in evidence for p in piece["passages"])))
        case "analysis":
            return "\n".join(_assertion(piece, number) for number, piece in enumerate(evidence, 1))
        case _:
            return "\n".join(_piece(piece, number) for number, piece in enumerate(evidence, 1))


def _piece(piece: Mapping[str, Any], number: int) -> str:
    body = f"{_assertion(piece, number)}\n{show_passages(piece['passages'])}"
    return f"<evidence {number}>\n{body}\n</evidence {number}>"


def _assertion(piece: Mapping[str, Any], number: int) -> str:
    return f"Assertion {number}: {harmless(piece['analysis'] or 'none')}"


def show(value: Any) -> str:
    """A field by its type: passages fenced, text made harmless."""
    if isinstance(value, str):
        return harmless(value)
    if isinstance(value, Sequence) and all(isinstance(item, Passage) for item in value):
        return show_passages(value) if value else "(none)"
    return harmless(str(value))
