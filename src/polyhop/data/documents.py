"""A folder of text or Markdown documents as passages of about 100 words, cut at sentence ends."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from polyhop.errors import DataError
from polyhop.text import split_passages
from polyhop.types import Passage

SUFFIXES = (".txt", ".md")

_MARKDOWN_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$", re.MULTILINE)
_LONGEST_HEADING = 12  # words; a longer first line is taken for prose


def document_files(folder: Path) -> Iterator[Path]:
    """The documents under a folder, sorted by path."""
    return files_under(folder, lambda name: name.lower().endswith(SUFFIXES))


def files_under(folder: Path, is_wanted: Callable[[str], bool]) -> Iterator[Path]:
    """The files of wanted names under a folder, sorted by path, at any depth.

    Hidden files and folders are left out. Linked folders are not entered (they may lead round in a circle), and a
    linked file is taken only when it lies inside the folder.
    """
    root = folder.resolve()
    for directory, subfolders, names in os.walk(folder):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for name in sorted(names):
            path = Path(directory, name)
            if name.startswith(".") or not is_wanted(name):
                continue
            if path.is_file() and path.resolve().is_relative_to(root):
                yield path


def read_document(path: Path, root: Path) -> Iterator[Passage | DataError]:
    """The passages of one document, numbered from 1: id ``relative/path.md#1``; none for an empty document.

    A document that is not UTF-8 text yields one fault, to raise or to count.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        yield DataError(f"not UTF-8 text (byte {error.start}): save it as UTF-8", path)
        return
    except OSError as error:
        yield DataError(f"cannot be read: {error.strerror or error}", path)
        return
    title, body = split_title(text, markdown=path.suffix.lower() == ".md")
    # A file name need not be valid Unicode; an id must be.
    name = os.fsencode(path.relative_to(root).as_posix()).decode("utf-8", "replace")
    title = title or Path(name).stem
    for number, piece in enumerate(split_passages(body), start=1):
        yield Passage(id=f"{name}#{number}", title=title, text=piece)


def split_title(text: str, *, markdown: bool) -> tuple[str, str]:
    """A document's own title and the rest of it: the first Markdown heading, else a first line that reads as one.

    Such a line is short, has no full stop, and is followed by a blank line. Other Markdown headings stay in the text
    as sentences of their own.

    >>> split_title("# Ada Lovelace\\nShe wrote.\\n## Life\\nBorn in 1815.", markdown=True)
    ('Ada Lovelace', '\\nShe wrote.\\nLife.\\nBorn in 1815.')
    >>> split_title("Ada Lovelace\\n\\nShe wrote.", markdown=False)
    ('Ada Lovelace', 'She wrote.')
    >>> split_title("She wrote.\\n\\nMuch.", markdown=False)
    ('', 'She wrote.\\n\\nMuch.')
    """
    if markdown and (heading := _MARKDOWN_HEADING.search(text)):
        body = text[: heading.start()] + text[heading.end() :]
        return heading[1].strip(), _MARKDOWN_HEADING.sub(_as_sentence, body)
    first, gap, rest = text.lstrip().partition("\n\n")
    short = "\n" not in first and 0 < len(first.split()) <= _LONGEST_HEADING
    if gap and rest.strip() and short and not first.rstrip().endswith((".", ",")):
        return first.strip(), rest
    return "", text


def _as_sentence(heading: re.Match[str]) -> str:
    return heading[1] if heading[1].endswith((".", "!", "?", ":")) else f"{heading[1]}."
