"""Plain text, source code, Markdown and notebooks as blocks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import chain, groupby
from typing import TYPE_CHECKING

from polyhop.data.converting import TITLE, Block
from polyhop.data.converting.html import fragment_blocks
from polyhop.errors import DataError

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_FRONT = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$", re.MULTILINE | re.DOTALL)
_FRONT_TITLE = re.compile(r"^title:(.+)$", re.MULTILINE)
_MARKED = re.compile(r"\s*(?:[-*+>|<`]|\d+[.)])")  # the beginning of a list, a quotation, a table or code
_NO_TITLE = (".", ",", ":", ";", "。", "，")
_MAX_TITLE_WORDS = 12  # a longer first line counts as prose


def text_blocks(text: str) -> Iterator[Block]:
    """Yield the paragraphs of a text. The first is its title if it is a short line without a full stop.

    >>> [(block.level, block.text) for block in text_blocks("Ada Lovelace\\n\\nShe wrote.\\nMuch.")]
    [(0, 'Ada Lovelace'), (None, 'She wrote.\\nMuch.')]
    """
    return _titled(paragraphs(text))


def paragraphs(text: str) -> list[Block]:
    """Return the paragraphs of a text, which blank lines separate."""
    runs = groupby(text.splitlines(), key=lambda line: not line.strip())
    return [Block("\n".join(lines).strip()) for is_blank, lines in runs if not is_blank]


def code_blocks(text: str) -> Iterator[Block]:
    """Yield the lines of a program."""
    return (Block(line.expandtabs(4), kind="code") for line in text.splitlines() if line.strip())


def markdown_blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a Markdown text as it is shown: without the marks of emphasis, links, lists and code, its
    tables row by row. Of a metadata header, only the title is kept.

    >>> [(block.level, block.text) for block in markdown_blocks("# Ada\\nShe *wrote*.\\n## Life\\n- Born in [1815](x)")]
    [(1, 'Ada'), (None, 'She wrote.'), (2, 'Life'), (None, 'Born in 1815')]
    """
    name = ""
    if front := _FRONT.match(text):
        text = text[front.end() :]
        title = _FRONT_TITLE.search(front[1])
        name = _unquoted(title[1].strip()) if title else ""
    blocks = _shown(text)
    if name:
        return chain([Block(name, TITLE)], blocks)
    return iter(blocks) if _MARKED.match(text) or any(block.level for block in blocks) else _titled(blocks)


def notebook_blocks(text: str) -> Iterator[Block]:
    """Yield the text and the code of a Jupyter notebook, without the output.

    Raises:
        DataError: it is no notebook.
    """
    try:
        cells = json.loads(text)["cells"]
        sources = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    except (ValueError, KeyError, TypeError):
        raise DataError("damaged: it is no notebook of format 4") from None
    for kind, source in sources:
        yield from _shown(source) if kind == "markdown" else code_blocks(source)


def _shown(text: str) -> list[Block]:
    """Return the blocks of a Markdown text."""
    return fragment_blocks(_markdown().render(text))


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


def _titled(blocks: list[Block]) -> Iterator[Block]:
    """Yield the blocks of a text without headings. The first is its title if it is a short line before other text."""
    for i, block in enumerate(blocks):
        is_line = i == 0 and len(blocks) > 1 and "\n" not in block.text and not block.text.endswith(_NO_TITLE)
        yield Block(block.text, TITLE) if is_line and len(block.text.split()) <= _MAX_TITLE_WORDS else block


def _unquoted(title: str) -> str:
    return title[1:-1] if len(title) > 2 and title[0] == title[-1] and title[0] in "'\"" else title
