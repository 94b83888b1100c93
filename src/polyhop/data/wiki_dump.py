"""HotpotQA's processed Wikipedia (Yang et al., 2018): its pages as passages with hyperlinks.

Source: the dump of 1 October 2017 at https://hotpotqa.github.io/wiki-readme.html, in two forms. Of the abstracts
(``enwiki-20171001-pages-meta-current-withlinks-abstracts``) a line is ``id``, ``url``, ``title``, ``text`` (a list of
sentences), ``text_with_links`` (the same with anchors) and token offsets of both. Of the whole pages (``…-processed``)
``text`` is a list of paragraphs, each a list of sentences with anchors, the first of them the title. Sentences carry
the space between them. The lines stand in files ``AA/wiki_00.bz2``, ``AA/wiki_01.bz2`` … of a folder or of the
``.tar.bz2`` itself, which is read as it is: nothing of it is written to disk.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

from polyhop.data.documents import files_under
from polyhop.data.hyperlinks import linked_titles, unlinked
from polyhop.data.lines import DAMAGED, id_of, json_type, objects_in, open_bytes, require, text_of, unpacked
from polyhop.errors import DataError
from polyhop.types import Passage

_FILE = re.compile(r"(?:^|/)((?:[A-Z]{2}/)?wiki_[0-9]+(?:\.bz2|\.gz)?)$")

_LONGEST_NAME = 2**16  # bytes of a tar member's extended header; tarfile reads one whole, whatever size it claims
_EXTENSIONS = frozenset(
    {
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
        tarfile.GNUTYPE_SPARSE,
    }
)


def read_page(row: Mapping[str, Any]) -> list[Passage]:
    """A line of the dump as passages: an abstract as one, a whole page as one a paragraph (``12#1`` is the first after
    the title); none for a page without text, of which the dump has some.

    >>> linked = ["She", ' <a href="writing">wrote</a>.']
    >>> read_page({"id": "12", "title": "Ada", "text": ["She", " wrote."], "text_with_links": linked})
    [Passage(id='12', title='Ada', text='She wrote.', links=('Writing',), metadata={})]

    Raises:
        ValueError: a field is missing or of another type.
    """
    id, title = id_of(row, require(row, ("id",))), text_of(row, require(row, ("title",)))
    if any(isinstance(part, list) for part in row["text"]):
        paragraphs = [_joined({"text": part}, "text") for part in row["text"]]
        return [
            Passage(f"{id}#{place}", title, text.strip(), links)
            for place, (text, links) in enumerate(map(unlinked, paragraphs))
            if text.strip() and (place or text.strip() != title)
        ]
    text = _joined(row, "text").strip()
    links = linked_titles(_joined(row, "text_with_links"))
    return [Passage(id, title, text, links)] if text else []


def _joined(row: Mapping[str, Any], name: str) -> str:
    """The sentences of a field as one text; "" where it is absent or null."""
    value = row.get(name)
    if value is None:
        return ""
    if not isinstance(value, list):
        raise ValueError(f"{name!r} is {json_type(value)}, expected an array of sentences")
    for part in value:
        if not isinstance(part, str):
            raise ValueError(f"{name!r} holds {json_type(part)}, expected sentences")
    return "".join(value)


def dump_files(folder: Path) -> Iterator[Path]:
    """The dump's files under a folder, sorted by path."""
    return files_under(folder, lambda name: _FILE.search(name) is not None)


def is_archive(start: bytes) -> bool:
    """Whether an unpacked file that begins so is a tar archive."""
    return start[257:262] == b"ustar"


def read_archive(path: Path) -> Iterator[tuple[Path, int, dict[str, Any] | DataError]]:
    """Each line of the dump's files in an archive: its place (the archive's path, then the file's), its number, and
    its object or fault. Other members are passed over; held is one line.

    Raises:
        DataError: the archive is damaged or has headers that would fill the memory.
    """
    try:
        with open_bytes(path) as stream, tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header) as archive:
            while member := archive.next():
                archive.members.clear()  # type: ignore[attr-defined]  # it would keep every header it has seen
                name = _FILE.search(member.name)
                if name and member.isreg():
                    place = path / name[1]
                    lines = unpacked(cast(BinaryIO, archive.extractfile(member)), member.size, place)
                    for number, row in objects_in(lines, place):
                        yield place, number, row
    except (tarfile.TarError, *DAMAGED) as error:
        raise DataError(f"damaged archive: {error}", path) from error


class _Header(tarfile.TarInfo):
    """A member's header: one that is damaged, which tarfile takes for the end, or claims too much is an error."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if any(buf):
                raise tarfile.ReadError(f"a member's header is damaged ({error})") from None
            raise  # a block of zeros, or nothing: the end
        if header.type in _EXTENSIONS and header.size > _LONGEST_NAME:
            raise tarfile.ReadError(f"an extended header of {header.size} bytes")
        return header
