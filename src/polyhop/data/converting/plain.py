"""Plain text and Markdown as blocks. Text inside a line (links, emphasis) stays as it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator

from polyhop.data.converting.blocks import TITLE, Block

_HEADING = re.compile(r"(#{1,6})[ \t]++(.+)$")
_UNDERLINE = re.compile(r"(=+|-{3,})[ \t]*$")
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")
_FRONT = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$", re.MULTILINE | re.DOTALL)
_FRONT_TITLE = re.compile(r"^title:(.+)$", re.MULTILINE)
_LONGEST_HEADING = 12  # words; a longer first line is taken for prose


def text_blocks(text: str) -> Iterator[Block]:
    """A text, its first line as the title where that reads as one: short, no full stop, a blank line after it.

    >>> list(text_blocks("Ada Lovelace\\n\\nShe wrote."))
    [Block(text='Ada Lovelace', level=0, page=None), Block(text='She wrote.', level=None, page=None)]
    >>> list(text_blocks("She wrote.\\n\\nMuch."))
    [Block(text='She wrote.\\n\\nMuch.', level=None, page=None)]
    """
    first, gap, rest = text.lstrip().partition("\n\n")
    short = "\n" not in first and 0 < len(first.split()) <= _LONGEST_HEADING
    if gap and rest.strip() and short and not first.rstrip().endswith((".", ",", "。", "，")):
        yield Block(first.strip(), TITLE)
        text = rest
    yield Block(text)


def markdown_blocks(text: str) -> Iterator[Block]:
    """A Markdown text cut at its headings; one without any is plain text. A head of metadata is left out but for its
    title.

    >>> [(block.level, block.text) for block in markdown_blocks("# Ada\\nShe wrote.\\n## Life\\nBorn in 1815.")]
    [(1, 'Ada'), (None, 'She wrote.'), (2, 'Life'), (None, 'Born in 1815.')]
    """
    if front := _FRONT.match(text):
        text = text[front.end() :]
        if (title := _FRONT_TITLE.search(front[1])) and (name := _unquoted(title[1].strip())):
            yield Block(name, TITLE)
    blocks = [block for block in _cut(text.splitlines()) if block.text.strip()]
    yield from blocks if any(block.level for block in blocks) else text_blocks(text)


def _cut(lines: list[str]) -> Iterator[Block]:
    held: list[str] = []
    fence = ""
    for line in lines:
        if mark := _FENCE.match(line):
            fence = mark[1] if not fence else "" if mark[1].startswith(fence) else fence
        elif not fence and (heading := _HEADING.match(line)) and (name := _unclosed(heading[2])):
            yield Block("\n".join(held))
            yield Block(name, len(heading[1]))
            held = []
            continue
        elif not fence and _underlined(held, line):
            name = held.pop().strip()
            yield Block("\n".join(held))
            yield Block(name, 1 if line[0] == "=" else 2)
            held = []
            continue
        held.append(line)
    yield Block("\n".join(held))


def _unclosed(heading: str) -> str:
    """A heading without the marks that may close it: by hand, as a pattern would be slow on many blanks."""
    return heading.rstrip(" \t").rstrip("#").rstrip(" \t")


def _unquoted(title: str) -> str:
    return title[1:-1] if len(title) > 2 and title[0] == title[-1] and title[0] in "'\"" else title


def _underlined(held: list[str], line: str) -> bool:
    """Whether this line makes the one before it, a paragraph of its own, a heading."""
    if not held or not held[-1].strip() or not _UNDERLINE.match(line):
        return False
    return (len(held) == 1 or not held[-2].strip()) and not held[-1].lstrip().startswith((">", "-", "*", "+", "|"))
