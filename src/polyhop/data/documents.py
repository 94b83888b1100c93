"""A folder of documents as passages of about 100 words, cut at headings and sentence ends.

A passage's ``metadata`` holds ``source``, its file relative to the folder; ``heading``, its section's; for a PDF or a
presentation, ``page``, on which it begins, and ``last_page`` if it ends on another; ``encoding`` if that was guessed;
``targets``, the files of the folder to which its hyperlinks lead.
"""

from __future__ import annotations

import os
import posixpath
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, islice, takewhile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from polyhop.common.files import path_text
from polyhop.common.sentences import join_wrapped_lines, pack, pieces
from polyhop.common.text import SECTION, printable
from polyhop.data.converting import TITLE, Block, BlockKind
from polyhop.data.converting.converter import MAX_SECONDS_LOST, SOURCE_CODE, Converter, needs_extra, suffix_of
from polyhop.errors import DataError
from polyhop.types import Passage

READING_VERSION = b"5"
"""Changes when the same documents give other passages, so that no index of former passages is taken for them."""

_MAX_SUFFIX = 20
_MAX_LINE_WORDS = 200  # a longer row or line of code may be cut
_MAX_HEADING = 300  # characters of a longer title or heading that every passage below it repeats
_ENDS = frozenset(".!?:;,…。！？：；，、—–-|/")
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")  # the beginning of an address on the web


def document_files(folder: Path) -> Iterator[Path]:
    """Yield the documents under a folder, sorted by path."""
    return files_under(folder, lambda name: bool(suffix_of(name)))


def survey(folder: Path) -> tuple[list[Path], Counter[tuple[str, str]]]:
    """Return the documents under a folder that can be read, sorted by path, and the number of files that are left out,
    by kind and reason: ``(".odt", "not a supported kind")``."""
    root, readable, left_out = folder.resolve(), [], Counter[tuple[str, str]]()
    for path in _files(folder):
        if reason := _refusal(path, root) or unreadable(path.name):
            left_out[kind_of(path.name), reason] += 1
        else:
            readable.append(path)
    return readable, left_out


def kind_of(name: str) -> str:
    """Return the kind of a file by its name.

    >>> kind_of("Notes.ODT"), kind_of("notes")
    ('.odt', 'file without a suffix')
    """
    return printable(Path(name).suffix.lower())[:_MAX_SUFFIX] or "file without a suffix"


def unreadable(name: str) -> str:
    """Return the reason that a file of this name cannot be read; "" if it can."""
    if not suffix_of(name):
        return "not a supported kind"
    return "pip install 'polyhop[docs]'" if needs_extra(name) else ""


def files_under(folder: Path, is_wanted: Callable[[str], bool]) -> Iterator[Path]:
    """Yield the files under a folder whose names are wanted, at any depth, sorted by path.

    Hidden files and folders are left out. Linked folders are not entered, since they may form a cycle; a linked file is
    included only if it is inside the folder.
    """
    root = folder.resolve()
    return (path for path in _files(folder) if is_wanted(path.name) and not _refusal(path, root))


def _files(folder: Path) -> Iterator[Path]:
    for directory, subfolders, names in os.walk(folder):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        yield from (Path(directory, name) for name in sorted(names) if not name.startswith("."))


def _refusal(path: Path, root: Path) -> str:
    """Return the reason that a file of a folder is not opened; "" if it is."""
    if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root):  # resolve() fails on a loop
        return "link out of the folder"
    return "" if path.is_file() else "not a regular file"


def source_of(path: Path, root: Path) -> str:
    """Return the path of a file relative to its folder, as the metadata of its passages gives it."""
    return path_text(path.relative_to(root)).replace(os.sep, "/")


def target_of(address: str, source: str) -> str:
    """Return the file, relative to the folder, to which an address in the file ``source`` leads, with ``#`` and its
    anchor if it has one; "" if it leads out of the folder.

    >>> target_of("../notes.md#who%20is", "services/ada.md"), target_of("#life", "ada.md"), target_of("/a.md", "b/c.md")
    ('notes.md#who is', 'ada.md#life', 'a.md')
    >>> target_of("https://example.com/a.md", "ada.md"), target_of("../a.md", "ada.md")
    ('', '')
    """
    path, _, anchor = address.strip().replace("\\", "/").partition("#")
    path, anchor = unquote(path.partition("?")[0]), unquote(anchor)
    folder = "" if path.startswith("/") else posixpath.dirname(source)
    path = posixpath.normpath(posixpath.join(folder, path.lstrip("/"))) if path else source
    target = f"{path}#{anchor}" if anchor else path
    is_outside = _ELSEWHERE.match(address.strip()) or path.split("/")[0] in (".", "..")
    return target if target.isprintable() and not is_outside else ""


def read_documents(
    files: Iterable[tuple[Path, str]], converter: Converter | None = None
) -> Iterator[tuple[Passage | DataError, Path]]:
    """Yield the passages of documents, each with its file, holding one document at a time. A document comes with its
    source, the relative path that people know it by. Ids are ``relative/path.md#1`` and so on; an empty source file
    has no passages.

    A document that cannot be read (encrypted, damaged, only pictures) is one fault, to be raised or counted.

    Raises:
        MissingExtra: a document needs the extra ``docs``, which is not installed.
    """
    with converter or Converter() as converter:
        for path, source in files:
            try:
                blocks = converter.blocks(path)
            except DataError as error:
                yield error, path
                if converter.seconds_lost > MAX_SECONDS_LOST:
                    message = f"the documents that cannot be read took more than {MAX_SECONDS_LOST:g} s together"
                    raise DataError(f"{message}; take them out of the folder, beginning with this one", path) from error
                continue
            title = source if suffix_of(path.name) in SOURCE_CODE else ""
            if path.stem != (name := Path(source).stem):  # stored under another name, which converters took as a title
                blocks = [replace(b, text=name) if (b.level, b.text) == (TITLE, path.stem) else b for b in blocks]
            for passage in passages_of(blocks, source, title, converter.guess):
                yield passage, path


def passages_of(blocks: Iterable[Block], source: str, title: str = "", encoding: str = "") -> Iterator[Passage]:
    """Yield the passages of a document. The title of each is that of the document and the headings above it; the
    document's is its own, its first heading, or ``title``, by default the name of the file. ``encoding``: its name, if
    that was guessed.

    >>> blocks = [Block("Ada", 1), Block("She wrote.", page=1), Block("Life", 2, 2), Block("Born in 1815.", page=2)]
    >>> for passage in passages_of(blocks, "ada.pdf"):
    ...     print(passage.title, "|", passage.text, "|", passage.metadata)
    Ada | She wrote. | {'source': 'ada.pdf', 'page': 1}
    Ada › Life | Born in 1815. | {'source': 'ada.pdf', 'page': 2, 'heading': 'Life'}
    """
    number = 0
    for section in _sections(list(blocks), title or Path(source).stem):
        for text, pages, addresses in section.passages():
            number += 1
            metadata: dict[str, Any] = {"source": source, **pages, **section.named}
            if encoding:
                metadata["encoding"] = encoding
            if targets := list(dict.fromkeys(filter(None, (target_of(address, source) for address in addresses)))):
                metadata["targets"] = targets
            yield Passage(id=f"{source}#{number}", title=SECTION.join(section.path), text=text, metadata=metadata)


def _sections(blocks: Sequence[Block], name: str) -> Iterator[_Section]:
    """Split a document at its headings. A section without text that has no sections of its own has its heading as text.

    The heading that is the document's title begins no section. If a first heading of level 1 without a title above it
    has peers, each is the title of its part. A long title or heading is cut, and its whole is text.
    """
    title = next((" ".join(block.text.split()) for block in blocks if block.level == TITLE), "")
    levels = [block.level for block in blocks if block.level]
    is_single = bool(levels) and min(levels[1:], default=7) > levels[0]
    has_parts = not title and not is_single and levels[:1] == [1]
    if not title:
        title = next(" ".join(block.text.split()) for block in blocks if block.level) if is_single else name
    root = () if has_parts else (_short(title),)
    section, above, title_seen = _Section((_short(title),)), list[tuple[int, str]](), False
    if len(title) > _MAX_HEADING:
        section.add(Block(title))
    for block in blocks:
        if block.level is None:
            section.add(block)
            continue
        heading = " ".join(block.text.split())
        if block.level == TITLE or not (heading and (has_parts or title_seen or heading != title)):
            title_seen = title_seen or block.level != TITLE
            continue
        is_leaf = not above or block.level <= above[-1][0]
        yield from section.finished(is_leaf=is_leaf)
        while above and above[-1][0] >= block.level:
            above.pop()
        above.append((block.level, _short(heading)))
        section = _Section((*root, *(heading for _, heading in above)), _short(heading), block.page)
        if len(heading) > _MAX_HEADING:
            section.add(Block(heading, page=block.page))
    if blocks and section.path == (_short(title),) and not any(block.level is None for block in blocks):
        section.add(Block(title))  # a document of nothing but its title
    yield from section.finished(is_leaf=True)


def _short(heading: str) -> str:
    return heading if len(heading) <= _MAX_HEADING else f"{heading[: _MAX_HEADING - 1].rstrip()}…"


class _Section:
    """The text under a heading: a line for each paragraph, row and line of code. The title and the headings above it
    are its ``path``."""

    def __init__(self, path: tuple[str, ...], heading: str = "", page: int | None = None) -> None:
        self.path, self.named = path, {"heading": heading} if heading else {}
        self._heading = Block(heading, page=page)
        self._parts: list[str] = []
        self._length = 0
        self._spans: list[tuple[int, int, BlockKind]] = []
        self._captions: dict[int, str] = {}
        self._linking: list[tuple[int, int, tuple[str, ...]]] = []  # blocks with hyperlinks, and their addresses
        self._starts: list[int] = []  # of pages
        self._numbers: list[int] = []
        self._latest: Block | None = None

    def add(self, block: Block) -> None:
        """Append a block. The text of a page continues that of the page before it; any other block is a new line, and
        a sentence ends before it."""
        text = block.text if block.kind == "code" else " ".join(join_wrapped_lines(block.text).split())
        if not text:
            return
        continued = self._continues(block)
        gap = self._gap(block, continued)
        start, self._length = self._length + len(gap), self._length + len(gap) + len(text)
        self._parts += (gap, text)
        if block.page and block.page not in self._numbers[-1:]:
            self._starts.append(start)
            self._numbers.append(block.page)
        if block.caption:
            self._captions[start] = block.caption
        if block.targets:
            self._linking.append((start, self._length, block.targets))
        if continued:
            start = self._spans.pop()[0]
        self._spans.append((start, self._length, block.kind))
        self._latest = Block(text[-1], None, block.page, block.kind)

    def _continues(self, block: Block) -> bool:
        """Return True if a block is the text of a page and the block before it that of another page."""
        latest = self._latest
        if latest is None or not latest.kind == block.kind == "text":
            return False
        return None not in (latest.page, block.page) and latest.page != block.page

    def _gap(self, block: Block, continued: bool) -> str:
        if self._latest is None:
            return ""
        if continued:
            return " "
        ends = self._latest.kind == "code" or self._latest.text in _ENDS
        return "\n" if ends else ".\n"

    def finished(self, *, is_leaf: bool) -> Iterator[_Section]:
        """Yield the section if it has text; its heading is the text of an empty one without sections of its own."""
        if not self._parts and is_leaf:
            self.add(self._heading)
        if self._parts:
            yield self

    def passages(self) -> Iterator[tuple[str, dict[str, int], list[str]]]:
        """Yield the text, the pages and the addresses of the hyperlinks of each passage. A passage ends where a
        sentence begins on a new page; the rows of a table that begin a passage follow the caption of the table."""
        content = "".join(self._parts)
        for _, on_page in groupby(self._pieces(content), key=lambda piece: self._page(piece[0])):
            for start, end in pack(on_page):
                caption = self._captions.get(start)
                text = content[start:end]
                yield f"{caption}\n{text}" if caption else text, self._pages(start, end), self._addresses(start, end)

    def _pieces(self, content: str) -> Iterator[tuple[int, int, int]]:
        """Yield the start, end and number of words of each row, line of code and sentence, which no passage cuts."""
        for start, end, kind in self._spans:
            found = [(start + i, start + j, words) for i, j, words in pieces(content[start:end])]
            words = sum(words for _, _, words in found)
            yield from [(start, end, words)] if kind != "text" and words <= _MAX_LINE_WORDS else found

    def _addresses(self, start: int, end: int) -> list[str]:
        """Return the addresses of the hyperlinks in the blocks between two characters of the content."""
        first = bisect_right(self._linking, start, key=lambda block: block[1])
        between = takewhile(lambda block: block[0] < end, islice(self._linking, first, None))
        return [address for _, _, addresses in between for address in addresses]

    def _page(self, i: int) -> int | None:
        """Return the page of a character of the content."""
        return self._numbers[max(0, bisect_right(self._starts, i) - 1)] if self._numbers else None

    def _pages(self, start: int, end: int) -> dict[str, int]:
        """Return the page on which a passage begins, and the page on which it ends if that is another."""
        first, last = self._page(start), self._page(end - 1)
        if first is None or last is None:
            return {}
        return {"page": first} if first == last else {"page": first, "last_page": last}
