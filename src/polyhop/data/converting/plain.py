"""Plain text and Markdown as blocks. Inline markup (links, emphasis) stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator

from polyhop.data.converting import TITLE, Block

_HEADING = re.compile(r"(#{1,6})[ \t]++(.+)$")
_UNDERLINE = re.compile(r"(=+|-{3,})[ \t]*$")
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")
_FRONT = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$", re.MULTILINE | re.DOTALL)
_FRONT_TITLE = re.compile(r"^title:(.+)$", re.MULTILINE)
_MAX_TITLE_WORDS = 12  # a longer first line counts as prose


def text_blocks(text: str) -> Iterator[Block]:
    """Yield a text. Its first line is its title if it is short, has no full stop and precedes a blank line.

    >>> list(text_blocks("Ada Lovelace\\n\\nShe wrote."))
    [Block(text='Ada Lovelace', level=0, page=None), Block(text='She wrote.', level=None, page=None)]
    >>> list(text_blocks("She wrote.\\n\\nMuch."))
    [Block(text='She wrote.\\n\\nMuch.', level=None, page=None)]
    """
    first, gap, rest = text.lstrip().partition("\n\n")
    short = "\n" not in first and 0 < len(first.split()) <= _MAX_TITLE_WORDS
    if gap and rest.strip() and short and not first.rstrip().endswith((".", ",", "。", "，")):
        yield Block(first.strip(), TITLE)
        text = rest
    yield Block(text)


def markdown_blocks(text: str) -> Iterator[Block]:
    """Yield a Markdown text, split at its headings; without any, it is plain text. Of a metadata header, only the
    title is kept.

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
    pending: list[str] = []
    fence = ""
    for line in lines:
        if mark := _FENCE.match(line):
            fence = mark[1] if not fence else "" if mark[1].startswith(fence) else fence
        elif not fence and (heading := _HEADING.match(line)) and (name := _unclosed(heading[2])):
            yield Block("\n".join(pending))
            yield Block(name, len(heading[1]))
            pending = []
            continue
        elif not fence and _underlined(pending, line):
            name = pending.pop().strip()
            yield Block("\n".join(pending))
            yield Block(name, 1 if line[0] == "=" else 2)
            pending = []
            continue
        pending.append(line)
    yield Block("\n".join(pending))


def _unclosed(heading: str) -> str:
    """Return a heading without its closing marks, in linear time; a pattern would be slow on many blanks."""
    return heading.rstrip(" \t").rstrip("#").rstrip(" \t")


def _unquoted(title: str) -> str:
    return title[1:-1] if len(title) > 2 and title[0] == title[-1] and title[0] in "'\"" else title


def _underlined(pending: list[str], line: str) -> bool:
    """Return True if a line makes the line before it, a paragraph by itself, a heading."""
    if not pending or not pending[-1].strip() or not _UNDERLINE.match(line):
        return False
    return (len(pending) == 1 or not pending[-2].strip()) and not pending[-1].lstrip().startswith(
        (">", "-", "*", "+", "|")
    )
