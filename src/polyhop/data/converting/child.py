"""The converting process: ``python -m polyhop.data.converting.child`` reads a path per line and writes JSON lines."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from polyhop.data.converting import MAX_BYTES, MAX_CHARACTERS, MAX_HEADINGS, MAX_MARKUP, TITLE, Block, tidy
from polyhop.data.converting.html import decode_html, html_blocks
from polyhop.data.converting.packed import docx_blocks, epub_blocks
from polyhop.data.converting.pdf import pdf_blocks
from polyhop.data.converting.plain import markdown_blocks, text_blocks
from polyhop.errors import DataError

MAX_MEMORY = 768 * 2**20
"""Maximum bytes of memory of the process, where the system has such a limit."""

_FIELDS = [field.name for field in fields(Block)]


def _text_file(path: Path) -> Iterator[Block]:
    return text_blocks(_read_text(path))


def _markdown_file(path: Path) -> Iterator[Block]:
    return markdown_blocks(_read_text(path))


def _html_file(path: Path) -> Iterator[Block]:
    return html_blocks(decode_html(path.read_bytes()))


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 text (byte {error.start}): save it as UTF-8") from None


CONVERTERS: dict[str, Callable[[Path], Iterator[Block]]] = {
    ".txt": _text_file,
    ".md": _markdown_file,
    ".markdown": _markdown_file,
    ".pdf": pdf_blocks,
    ".docx": docx_blocks,
    ".epub": epub_blocks,
    ".html": _html_file,
    ".htm": _html_file,
    ".xhtml": _html_file,
}
"""Converters by the suffix of the file."""


def convert(path: Path) -> Iterator[Block]:
    """Yield the non-blank blocks of a document, within the limits; none for an empty text.

    Raises:
        DataError: the document cannot be read; the message names no file.
    """
    converter, status = CONVERTERS[path.suffix.lower()], path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise DataError("not a regular file")
    limit = MAX_MARKUP if converter in (_text_file, _markdown_file, _html_file) else MAX_BYTES
    if status.st_size > limit:
        raise DataError(f"has {status.st_size:,} bytes; the maximum is {limit:,}")
    characters, headings, is_empty = 0, 0, converter not in (_text_file, _markdown_file)
    for block in converter(path):
        if text := tidy(block.text).rstrip():
            characters += len(text)
            headings += bool(block.level)
            if characters > MAX_CHARACTERS:
                raise DataError(f"holds more than {MAX_CHARACTERS:,} characters of text")
            if headings > MAX_HEADINGS:
                raise DataError(f"has more than {MAX_HEADINGS:,} headings")
            is_empty = is_empty and block.level == TITLE
            yield replace(block, text=text if block.kind == "code" else text.lstrip(), caption=tidy(block.caption))
    if is_empty:
        raise DataError("no text in it")


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
    """Yield each block of a document, then its end or its fault."""
    try:
        for block in convert(path):
            yield {name: getattr(block, name) for name in _FIELDS}
        yield {"end": True}
    except DataError as error:
        yield {"fault": str(error)}
    except OSError as error:
        yield {"fault": f"cannot be read: {error.strerror or error}"}
    except MemoryError:
        yield {"fault": f"needs more than {MAX_MEMORY:,} bytes of memory"}
    except Exception as error:  # noqa: BLE001 - a library may raise anything for a damaged file
        yield {"fault": f"damaged: {type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
