"""Documents of all kinds as blocks of text in reading order, and the limits of all converters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from polyhop.common.text import normalise_unicode

MAX_BYTES = 512 * 2**20
"""Maximum size of a PDF, DOCX or EPUB file."""
MAX_MARKUP = 64 * 2**20
"""Maximum bytes that are parsed as a whole: a file of text, Markdown or HTML, or a part of a packed document."""
MAX_RATIO, MAX_SMALL = 200, 2**20
"""Maximum ratio of a parsed part to its packed size, if it is larger than the second, in bytes. The markup of real
documents seldom reaches 50."""
MAX_UNPACKED = 256 * 2**20
"""Maximum bytes of all parts of a packed document."""
MAX_PARTS = 10_000
"""Maximum parts of a packed document, and pages of a PDF."""
MAX_CHARACTERS = 50_000_000
"""Maximum characters of a document's text."""
MAX_HEADINGS = 50_000
"""Maximum headings of a document. Each makes its own passage, however short its text."""

TITLE = 0
"""The level of a document's own title."""

_UNPRINTED = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\ufeff\ufffe\uffff\ud800-\udfff]")
_LIGATURES = {code: normalise_unicode("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)}


BlockKind: TypeAlias = Literal["text", "row", "code"]
"""Running text, the row of a table or a line of code. No passage cuts a row or a line of code in two."""


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph or the text of a page (no ``level``), a heading of ``level`` 1 to 6, or the document's ``TITLE``.

    ``page`` counts from 1, as do the slides of a presentation; ``caption`` is that of the table that a row is of;
    ``targets`` are the addresses of its hyperlinks.
    """

    text: str
    level: int | None = None
    page: int | None = None
    kind: BlockKind = "text"
    caption: str = ""
    targets: tuple[str, ...] = ()


def tidy(text: str) -> str:
    """Return a text without control characters, unpaired surrogates and ligatures, and with composed accents.

    >>> tidy("e\\u0301\\ufb03cient\\x00")
    'éfficient'
    """
    return normalise_unicode("NFC", _UNPRINTED.sub("", text).translate(_LIGATURES))
