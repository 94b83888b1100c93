"""A folder of documents as passages of about 100 words, cut at headings and sentence ends.

A passage's ``metadata`` holds ``source``, its file relative to the folder; ``heading``, its section's; and for a PDF,
``page``, on which it begins, and ``last_page`` if it ends on another.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polyhop.common.files import path_text
from polyhop.common.text import join_wrapped_lines, passage_spans, printable
from polyhop.data.converting import TITLE, Block
from polyhop.data.converting.converter import MAX_SECONDS_LOST, SUFFIXES, Converter, needs_extra
from polyhop.errors import DataError
from polyhop.types import Passage

_MAX_SUFFIX = 20


def document_files(folder: Path) -> Iterator[Path]:
    """Yield the documents under a folder, sorted by path."""
    return files_under(folder, lambda name: name.lower().endswith(SUFFIXES))


def survey(folder: Path) -> tuple[list[Path], Counter[tuple[str, str]]]:
    """Return the documents under a folder that can be read, sorted by path, and the number of files that are left out,
    by kind and reason: ``(".pptx", "cannot be read")``."""
    root, readable, left_out = folder.resolve(), [], Counter[tuple[str, str]]()
    for path in _files(folder):
        if reason := _refusal(path, root) or _unreadable(path.name):
            suffix = printable(path.suffix.lower())[:_MAX_SUFFIX]
            left_out[suffix or "file without a suffix", reason] += 1
        else:
            readable.append(path)
    return readable, left_out


def _unreadable(name: str) -> str:
    """Return the reason that a file of this name cannot be read; "" if it can."""
    if not name.lower().endswith(SUFFIXES):
        return "cannot be read"
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
    if path.is_symlink() and not path.resolve().is_relative_to(root):
        return "link out of the folder"
    return "" if path.is_file() else "not a regular file"


def read_documents(paths: Iterable[Path], root: Path) -> Iterator[tuple[Passage | DataError, Path]]:
    """Yield the passages of documents, each with its file, holding one document at a time. Ids are
    ``relative/path.md#1`` and so on; an empty text has no passages.

    A document that cannot be read (encrypted, damaged, only pictures, not UTF-8) is one fault, to be raised or counted.

    Raises:
        MissingExtra: a document needs the extra ``docs``, which is not installed.
    """
    with Converter() as converter:
        for path in paths:
            source = path_text(path.relative_to(root)).replace(os.sep, "/")
            try:
                blocks = converter.blocks(path)
            except DataError as error:
                yield error, path
                if converter.seconds_lost > MAX_SECONDS_LOST:
                    message = f"the documents that cannot be read took more than {MAX_SECONDS_LOST:g} s together"
                    raise DataError(f"{message}; take them out of the folder, beginning with this one", path) from error
                continue
            for passage in passages_of(blocks, source):
                yield passage, path


def passages_of(blocks: Iterable[Block], source: str) -> Iterator[Passage]:
    """Yield the passages of a document. Its title is its own, its first heading, or the name of its file.

    >>> blocks = [Block("Ada", 1), Block("She wrote.", page=1), Block("Life", 2, 2), Block("Born in 1815.", page=2)]
    >>> for passage in passages_of(blocks, "ada.pdf"):
    ...     print(passage.title, "|", passage.text, "|", passage.metadata)
    Ada | She wrote. | {'source': 'ada.pdf', 'page': 1}
    Ada | Life. Born in 1815. | {'source': 'ada.pdf', 'page': 2, 'heading': 'Life'}
    """
    blocks = list(blocks)
    own = [block.text for block in blocks if block.level == TITLE] or [block.text for block in blocks if block.level]
    title = " ".join(own[0].split()) if own else Path(source).stem
    number = 0
    for section in _sections(blocks, title):
        content = section.text
        for start, end in passage_spans(content):
            number += 1
            text = " ".join(content[start:end].split())
            metadata = {"source": source, **section.pages(start, end), **section.named}
            yield Passage(id=f"{source}#{number}", title=title, text=text, metadata=metadata)


@dataclass
class _Section:
    """The text under one heading, which is its first sentence."""

    heading: str
    parts: list[str] = field(default_factory=list)
    length: int = 0
    starts: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    def add(self, block: Block) -> None:
        """Append a block. The text of a page continues that of the page before it."""
        gap, text = "\n" if block.page else "\n\n", join_wrapped_lines(block.text)
        if block.page and block.page not in self.numbers[-1:]:
            self.starts.append(self.length + len(gap))
            self.numbers.append(block.page)
        self.parts += (gap, text)
        self.length += len(gap) + len(text)

    @property
    def text(self) -> str:
        """The text, joined once: appending to a string copies all of it."""
        return "".join(self.parts)

    @property
    def has_content(self) -> bool:
        """True if it holds more than its heading."""
        return bool(self.parts) and self.text.strip() != _as_sentence(self.heading)

    @property
    def named(self) -> dict[str, Any]:
        """The heading as metadata, if there is one."""
        return {"heading": self.heading} if self.heading else {}

    def pages(self, start: int, end: int) -> dict[str, Any]:
        """Return the page on which a span of the text begins, and the page on which it ends if that is another."""
        if not self.numbers:
            return {}
        first, last = (self.numbers[max(0, bisect_right(self.starts, i) - 1)] for i in (start, end - 1))
        return {"page": first} if first == last else {"page": first, "last_page": last}


def _sections(blocks: Iterable[Block], title: str) -> Iterator[_Section]:
    """Split a document at its headings. The heading that is its title does not count, and one without text is merged
    into the next section."""
    section, title_seen = _Section(""), False
    for block in blocks:
        name = " ".join(block.text.split())
        if block.level is None:
            if name:
                section.add(block)
        elif block.level > TITLE and (title_seen or name != title):
            if section.has_content:
                yield section
                section = _Section(name)
            section.heading = name
            section.add(Block(_as_sentence(name), page=block.page))
        title_seen = title_seen or (block.level is not None and block.level > TITLE and name == title)
    if section.parts:
        yield section


def _as_sentence(heading: str) -> str:
    return heading if heading.endswith((".", "!", "?", ":", "。", "！", "？")) else f"{heading}."
