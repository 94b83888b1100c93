"""What every converter makes of a document: blocks of text in reading order, and the limits it keeps to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from polyhop.common.text import normalise_unicode

MAX_BYTES = 512 * 2**20
"""Of the file of a PDF, DOCX or EPUB."""
MAX_MARKUP = 64 * 2**20
"""Bytes of a text that is parsed as a whole: a file of text, Markdown or HTML, and a part of a packed document."""
MAX_RATIO, MAX_SMALL = 200, 2**20
"""How many times its packed size a parsed part may unpack to, if it comes to more bytes than the second: markup of real
documents seldom reaches 50."""
MAX_UNPACKED = 256 * 2**20
"""Bytes that the parts of a packed document may come to."""
MAX_PARTS = 10_000
"""Parts of a packed document, and pages of a PDF."""
MAX_CHARACTERS = 50_000_000
"""Of a document's text."""
MAX_HEADINGS = 50_000
"""Of a document. Each makes a passage of its own, however short its text."""

TITLE = 0
"""The level of a document's own title."""

_UNPRINTED = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\ufeff\ufffe\uffff\ud800-\udfff]")
_LIGATURES = {code: normalise_unicode("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)}


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, or all text of a page; a heading of ``level`` 1 to 6, or the document's ``TITLE``. ``page``: from
    1."""

    text: str
    level: int | None = None
    page: int | None = None


def tidy(text: str) -> str:
    """A text without what no one sees: control characters, halves of characters, ligatures, letters in two parts.

    >>> tidy("e\\u0301\\ufb03cient\\x00")
    'éfficient'
    """
    return normalise_unicode("NFC", _UNPRINTED.sub("", text).translate(_LIGATURES))
