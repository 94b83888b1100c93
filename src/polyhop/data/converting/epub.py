"""EPUB as blocks: its chapters in the order of its spine, each a page of HTML."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from polyhop.data.converting.archive import parsed, read_part, unpacked
from polyhop.data.converting.blocks import TITLE, Block
from polyhop.data.converting.html import decoded, html_blocks
from polyhop.errors import DataError

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_TITLE = "{http://purl.org/dc/elements/1.1/}title"


def epub_blocks(path: Path) -> Iterator[Block]:
    """The book's title and the blocks of its chapters.

    Raises:
        DataError: it is damaged, or a chapter is encrypted.
    """
    with unpacked(path) as book:
        rootfile = parsed(read_part(book, _CONTAINER)).find(".//{*}rootfile")
        if rootfile is None:
            raise DataError("damaged: it names no contents")
        package_path = rootfile.get("full-path", "")
        package = parsed(read_part(book, package_path))
        yield Block((package.findtext(f".//{_TITLE}") or "").strip() or path.stem, TITLE)
        hrefs = {item.get("id"): item.get("href", "") for item in package.iterfind(".//{*}manifest/{*}item")}
        spine = [hrefs.get(entry.get("idref"), "") for entry in package.iterfind(".//{*}spine/{*}itemref")]
        folder, locked, held = posixpath.dirname(package_path), _encrypted(book), set(book.namelist())
        names = (posixpath.normpath(posixpath.join(folder, unquote(href.partition("#")[0]))) for href in spine)
        for name in dict.fromkeys(names):
            if name in locked:
                raise DataError("encrypted: its chapters can be read by its shop's software only")
            if name in held:
                yield from _chapter(list(html_blocks(decoded(read_part(book, name)))))


def _chapter(blocks: list[Block]) -> Iterator[Block]:
    """A chapter's blocks: its own title is its heading where it has no other."""
    headed = any(block.level and block.level > TITLE for block in blocks)
    for block in blocks:
        if block.level != TITLE:
            yield block
        elif not headed:
            yield Block(block.text, 1)


def _encrypted(book: zipfile.ZipFile) -> set[str]:
    if _ENCRYPTION not in book.namelist():
        return set()
    references = parsed(read_part(book, _ENCRYPTION)).iterfind(".//{*}CipherReference")
    return {unquote(each.get("URI", "")) for each in references}
