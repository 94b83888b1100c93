"""The process that converts: ``python -m polyhop.data.converting.child``, one path per line in, JSON lines out."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from polyhop.data.converting.blocks import (
    MAX_BYTES,
    MAX_CHARACTERS,
    MAX_HEADINGS,
    MAX_MARKUP,
    TITLE,
    Block,
    tidy,
)
from polyhop.data.converting.docx import docx_blocks
from polyhop.data.converting.epub import epub_blocks
from polyhop.data.converting.html import decoded, html_blocks
from polyhop.data.converting.pdf import pdf_blocks
from polyhop.data.converting.plain import markdown_blocks, text_blocks
from polyhop.errors import DataError

MAX_MEMORY = 768 * 2**20
"""Bytes of memory the process may ask for, where the system has such a limit."""


def _page(path: Path) -> Iterator[Block]:
    return html_blocks(decoded(path.read_bytes()))


def _plain(path: Path) -> Iterator[Block]:
    return text_blocks(_text(path))


def _markdown(path: Path) -> Iterator[Block]:
    return markdown_blocks(_text(path))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 text (byte {error.start}): save it as UTF-8") from None


CONVERTERS: dict[str, Callable[[Path], Iterator[Block]]] = {
    ".txt": _plain,
    ".md": _markdown,
    ".markdown": _markdown,
    ".pdf": pdf_blocks,
    ".docx": docx_blocks,
    ".epub": epub_blocks,
    ".html": _page,
    ".htm": _page,
    ".xhtml": _page,
}
"""By the suffix of the file."""


def converted(path: Path) -> Iterator[Block]:
    """The blocks of a document that say something, within the limits; none for an empty text.

    Raises:
        DataError: the document cannot be read; the message names no file.
    """
    convert, status = CONVERTERS[path.suffix.lower()], path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise DataError("not a regular file")
    limit = MAX_MARKUP if convert in (_plain, _markdown, _page) else MAX_BYTES
    if status.st_size > limit:
        raise DataError(f"has {status.st_size:,} bytes; {limit:,} at most are read")
    characters, headings, empty = 0, 0, convert not in (_plain, _markdown)
    for block in convert(path):
        if text := tidy(block.text).strip():
            characters += len(text)
            headings += bool(block.level)
            if characters > MAX_CHARACTERS:
                raise DataError(f"holds more than {MAX_CHARACTERS:,} characters of text")
            if headings > MAX_HEADINGS:
                raise DataError(f"has more than {MAX_HEADINGS:,} headings")
            empty = empty and block.level == TITLE
            yield Block(text, block.level, block.page)
    if empty:
        raise DataError("no text in it")


def main() -> None:
    """Convert until the input ends. What libraries print is kept apart from what is told."""
    told = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="ascii")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    for line in sys.stdin:
        for answer in _answers(Path(json.loads(line))):
            told.write(json.dumps(answer) + "\n")
        told.flush()


def _answers(path: Path) -> Iterator[dict[str, Any]]:
    """Each block of a document, then its end or its fault."""
    try:
        for block in converted(path):
            yield {"text": block.text, "level": block.level, "page": block.page}
        yield {"end": True}
    except DataError as error:
        yield {"fault": str(error)}
    except OSError as error:
        yield {"fault": f"cannot be read: {error.strerror or error}"}
    except MemoryError:
        yield {"fault": f"needs more than {MAX_MEMORY:,} bytes of memory"}
    except Exception as error:  # noqa: BLE001 - whatever a library makes of a damaged file
        yield {"fault": f"damaged: {type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
