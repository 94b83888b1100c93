"""Plain text, source code, Markdown and notebooks as blocks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
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
_ITEM = re.compile(  # of a list; a name and a value; columns
    r"\s*(?:[-*+•‣▪–]|\(?(?:\d{1,3}|[a-z])[.)]|[A-ZÀ-Þ]\w{1,20}:)\s"
    r"|\s*\S+(?: \S+){0,3}(?<![.!?])(?:\t| {2,})\S"
)
_SENTENCE_END = re.compile(r"[.!?:;…][\"'”’)\]]*\s*$")
_MIN_WIDTH, _MIN_FULL = 64, 0.5  # of a wrapped text: its width, and the share of its lines that are full
_MAX_WIDTH = 100  # of lines that were wrapped, in a text of which few are full
_MAX_NESTING = 50  # of lists and quotations in Markdown; a text of deeper ones is read as plain text
_MAX_TITLE_WORDS = 12  # a longer first line counts as prose


def text_blocks(text: str) -> Iterator[Block]:
    """Yield the lines of a text, those that were wrapped joined. The first is its title if it is a short line without a
    full stop above a blank line.

    >>> [(block.level, block.text) for block in text_blocks("Ada Lovelace\\n\\nShe wrote\\nmuch.\\nBorn: 1815")]
    [(0, 'Ada Lovelace'), (None, 'She wrote\\nmuch.'), (None, 'Born: 1815')]
    """
    blocks = line_blocks(text)
    above_blank = text.lstrip().partition("\n")[2].partition("\n")[0].strip() == ""
    return _titled(blocks) if above_blank else iter(blocks)


def line_blocks(text: str) -> list[Block]:
    """Return the lines of a text, those that were wrapped joined."""
    lines = text.splitlines()
    runs, run = list[list[str]](), list[str]()
    for line, is_end in zip(lines, _ends_of_lines(lines), strict=True):
        run.append(line.strip())
        if is_end:
            runs.append(run)
            run = []
    return [Block("\n".join(run)) for run in runs if any(run)]


def _ends_of_lines(lines: Sequence[str]) -> list[bool]:
    """Return, for each line, True if the next one is not its continuation.

    Where a line is wrapped, the first word of the next one would not have fitted. A text is wrapped if that is so for
    many of its lines. In any text a line that begins with a small letter continues one, and so does one after a full
    line of a usual width without an end of a sentence; an item does not.
    """
    words = [line.split(maxsplit=1)[0] if line.strip() else "" for line in [*lines[1:], ""]]
    inner = [i for i, word in enumerate(words) if word and lines[i].strip()]
    lengths = {i: len(lines[i].rstrip()) for i in inner}
    width = max([_MIN_WIDTH, *sorted(lengths.values())[len(inner) * 9 // 10 :][:1]])
    full = {i for i in inner if lengths[i] + 1 + len(words[i]) > width}
    is_wrapped = len(full) >= _MIN_FULL * len(inner)
    may_wrap = {i for i in full if is_wrapped or (width <= _MAX_WIDTH and not _SENTENCE_END.search(lines[i]))}
    goes_on = {i for i in inner if i in may_wrap or words[i][0].islower()}
    return [i not in goes_on or bool(_ITEM.match(lines[i + 1])) for i in range(len(lines))]


def code_blocks(text: str) -> Iterator[Block]:
    """Yield the lines of a program or a log, which are never joined."""
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
        DataError: it is not a notebook.
    """
    try:
        cells = json.loads(text)["cells"]
        sources = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    except (ValueError, KeyError, TypeError):
        raise DataError("damaged: it is no notebook of format 4") from None
    for kind, source in sources:
        yield from _shown(source) if kind == "markdown" else code_blocks(source)


def _shown(text: str) -> list[Block]:
    """Return the blocks of a Markdown text. A line that was not wrapped ends a line, although a page would go on."""
    lines = text.splitlines()
    ended = (f"{line}  " if is_end else line for line, is_end in zip(lines, _ends_of_lines(lines), strict=True))
    parser = _markdown()
    tokens = parser.parse("\n".join(ended))
    if any(token.level >= _MAX_NESTING - 2 for token in tokens):  # the parser leaves out what is deeper
        return line_blocks(text)
    return fragment_blocks(parser.renderer.render(tokens, parser.options, {}))


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING}).enable(["table", "strikethrough"])


def _titled(blocks: list[Block]) -> Iterator[Block]:
    """Yield the blocks of a text without headings. The first is its title if it is a short line before other text."""
    for i, block in enumerate(blocks):
        is_line = i == 0 and len(blocks) > 1 and "\n" not in block.text and not block.text.endswith(_NO_TITLE)
        yield Block(block.text, TITLE) if is_line and len(block.text.split()) <= _MAX_TITLE_WORDS else block


def _unquoted(title: str) -> str:
    return title[1:-1] if len(title) > 2 and title[0] == title[-1] and title[0] in "'\"" else title
