"""The process that converts: ``python -m polyhop.data.converting.child``, a path a line in, JSON lines out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from polyhop.data.converting.blocks import MOST_BYTES, MOST_CHARACTERS, TITLE, Block, tidy
from polyhop.data.converting.docx import docx_blocks
from polyhop.data.converting.epub import epub_blocks
from polyhop.data.converting.html import decoded, html_blocks
from polyhop.data.converting.pdf import pdf_blocks
from polyhop.errors import DataError

MOST_MEMORY = 4 * 2**30
"""Bytes of memory the process may ask for, where the system has such a limit."""


def _page(path: Path) -> Iterator[Block]:
    return html_blocks(decoded(path.read_bytes()))


CONVERTERS: dict[str, Callable[[Path], Iterator[Block]]] = {
    ".pdf": pdf_blocks,
    ".docx": docx_blocks,
    ".epub": epub_blocks,
    ".html": _page,
    ".htm": _page,
    ".xhtml": _page,
}
"""By the suffix of the file."""


def converted(path: Path) -> Iterator[Block]:
    """The blocks of a document that say something, within the limits.

    Raises:
        DataError: the document cannot be read; the message names no file.
    """
    if (size := path.stat().st_size) > MOST_BYTES:
        raise DataError(f"has {size:,} bytes; {MOST_BYTES:,} at most are read")
    characters, told = 0, False
    for block in CONVERTERS[path.suffix.lower()](path):
        if text := tidy(block.text).strip():
            characters += len(text)
            if characters > MOST_CHARACTERS:
                raise DataError(f"holds more than {MOST_CHARACTERS:,} characters of text")
            told = told or block.level != TITLE
            yield Block(text, block.level, block.page)
    if not told:
        raise DataError("no text in it")


def main() -> None:
    """Convert until the input ends. What libraries print is kept apart from what is told."""
    told = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="ascii")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
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
        yield {"fault": f"needs more than {MOST_MEMORY:,} bytes of memory"}
    except Exception as error:  # noqa: BLE001 - whatever a library makes of a damaged file
        yield {"fault": f"damaged: {type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
