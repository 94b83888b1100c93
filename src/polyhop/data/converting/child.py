"""The converting process: ``python -m polyhop.data.converting.child`` reads a path per line and writes JSON lines."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from polyhop.data.converting import MAX_BYTES, MAX_CHARACTERS, MAX_HEADINGS, MAX_MARKUP, TITLE, Block, tidy
from polyhop.data.converting.converter import SOURCE_CODE, suffix_of
from polyhop.data.converting.encodings import decode_page, decode_text
from polyhop.data.converting.html import html_blocks
from polyhop.data.converting.mail import eml_blocks, mbox_blocks
from polyhop.data.converting.office import pptx_blocks, xlsx_blocks
from polyhop.data.converting.outlines import adoc_blocks, org_blocks, readme_blocks, rst_blocks
from polyhop.data.converting.packed import docx_blocks, epub_blocks
from polyhop.data.converting.pdf import pdf_blocks
from polyhop.data.converting.plain import code_blocks, markdown_blocks, notebook_blocks, text_blocks
from polyhop.data.converting.tables import csv_blocks
from polyhop.errors import DataError

MAX_MEMORY = 768 * 2**20
"""Maximum bytes of memory of the process, where the system has such a limit."""

_MAX_MESSAGE = 300  # characters

_FIELDS = [field.name for field in fields(Block)]


TEXT_CONVERTERS: dict[str, Callable[[str], Iterator[Block]]] = {
    ".txt": text_blocks,
    ".text": text_blocks,
    ".log": code_blocks,
    ".md": markdown_blocks,
    ".markdown": markdown_blocks,
    ".rst": rst_blocks,
    ".adoc": adoc_blocks,
    ".org": org_blocks,
    ".readme": readme_blocks,
    ".html": html_blocks,
    ".htm": html_blocks,
    ".xhtml": html_blocks,
    ".csv": csv_blocks,
    ".tsv": partial(csv_blocks, delimiter="\t"),
    ".ipynb": notebook_blocks,
    **dict.fromkeys(SOURCE_CODE, code_blocks),
}
"""Converters of a file's text, by its suffix."""

CONVERTERS: dict[str, Callable[[Path], Iterator[Block]]] = {
    ".pdf": pdf_blocks,
    ".docx": docx_blocks,
    ".epub": epub_blocks,
    ".xlsx": xlsx_blocks,
    ".pptx": pptx_blocks,
    ".eml": eml_blocks,
    ".mbox": mbox_blocks,
}
"""Converters of other files, by suffix."""

_PAGES = (".html", ".htm", ".xhtml")
_MARKUP = (*TEXT_CONVERTERS, ".eml", ".mbox")  # parsed as a whole


def convert(path: Path, note_guess: Callable[[str], None] = lambda _: None) -> Iterator[Block]:
    """Yield the non-blank blocks of a document, within the limits; none for an empty source file. Call ``note_guess``
    with the name of the encoding if that was guessed.

    Raises:
        DataError: the document cannot be read; the message names no file.
    """
    suffix, status = suffix_of(path.name), path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise DataError("not a regular file")
    limit = MAX_MARKUP if suffix in _MARKUP else MAX_BYTES
    if status.st_size > limit:
        raise DataError(f"has {status.st_size:,} bytes; the maximum is {limit:,}")
    characters, headings, is_empty = 0, 0, suffix not in SOURCE_CODE
    for block in _blocks(path, suffix, note_guess):
        if text := tidy(block.text).rstrip():
            characters += len(text) + len(block.caption)
            headings += bool(block.level)
            if characters > MAX_CHARACTERS:
                raise DataError(f"holds more than {MAX_CHARACTERS:,} characters of text")
            if headings > MAX_HEADINGS:
                raise DataError(f"has more than {MAX_HEADINGS:,} headings")
            is_empty = is_empty and block.level == TITLE
            text = text if block.kind == "code" else text.lstrip()
            yield replace(block, text=text, caption=tidy(block.caption), targets=tuple(map(tidy, block.targets)))
    if is_empty:
        raise DataError("no text in it")


def _blocks(path: Path, suffix: str, note_guess: Callable[[str], None]) -> Iterator[Block]:
    if suffix in CONVERTERS:
        return CONVERTERS[suffix](path)
    text, guess = (decode_page if suffix in _PAGES else decode_text)(path.read_bytes())
    if guess:
        note_guess(guess)
    return TEXT_CONVERTERS[suffix](text)


def main() -> None:
    """Convert documents until the input ends. Output of libraries goes to stderr, apart from the replies."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="ascii")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    for line in sys.stdin:
        for reply in _replies(Path(json.loads(line))):
            replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _replies(path: Path) -> Iterator[dict[str, Any]]:
    """Yield each block of a document, then its end, with the name of its encoding if that was guessed, or its fault."""
    guesses: list[str] = []
    try:
        for block in convert(path, guesses.append):
            yield {name: getattr(block, name) for name in _FIELDS}
        yield {"end": "".join(guesses)}
    except DataError as error:
        yield {"fault": _cut(str(error))}
    except OSError as error:
        yield {"fault": f"cannot be read: {error.strerror or error}"}
    except MemoryError:
        yield {"fault": f"needs more than {MAX_MEMORY:,} bytes of memory"}
    except Exception as error:  # noqa: BLE001 - a library may raise anything for a damaged file
        yield {"fault": _cut(f"damaged: {type(error).__name__}: {error}")}


def _cut(message: str) -> str:
    """Cut a message: libraries quote what they cannot read."""
    return message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}…"


if __name__ == "__main__":
    main()
