"""DOCX as blocks, by mammoth: paragraphs and the headings its styles tell. Its pages are not known before it is laid
out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from polyhop.data.converting.archive import read_part, unpacked
from polyhop.data.converting.blocks import Block
from polyhop.data.converting.html import html_blocks
from polyhop.errors import DataError

_OLE = b"\xd0\xcf\x11\xe0"  # what Word wraps an encrypted document in, and its old format
_DOCUMENT_TYPE = re.compile(rb"<!(DOCTYPE|ENTITY)", re.IGNORECASE)
_BEFORE_XML = b"\xef\xbb\xbf\xff\xfe \t\r\n"
_STYLES = "p[style-name='Title'] => h1:fresh"


def docx_blocks(path: Path) -> Iterator[Block]:
    """The blocks of a document; pictures are left out.

    Raises:
        DataError: it is encrypted, damaged, in Word's old format, or carries a document type, as none of Word's does.
    """
    import mammoth

    with path.open("rb") as stream:
        if stream.read(len(_OLE)) == _OLE:
            raise DataError("encrypted, or in Word's old format: save it as .docx without a password")
    with unpacked(path) as archive:
        for part in archive.infolist():
            with archive.open(part) as stream:
                start = stream.read(4096).replace(b"\0", b"").lstrip(_BEFORE_XML)
            if start and not start.startswith(b"<"):
                continue  # a picture; what else a part is, its name does not tell
            if _DOCUMENT_TYPE.search(read_part(archive, part).replace(b"\0", b"")):
                raise DataError("not read: its XML has a document type")
        if "word/document.xml" not in archive.namelist():
            raise DataError("damaged: it holds no text document")
    with path.open("rb") as stream:
        made = mammoth.convert_to_html(stream, style_map=_STYLES, convert_image=lambda _: [])
    yield from html_blocks(made.value)
