"""HTML as blocks: the visible text of a page, its headings, and its tables row by row.

Tags are found as browsers find them, in one pass: an unclosed comment, tag or script swallows the rest of the page. An
open quote ends with its tag. The standard library's parser searches for each such end again, which takes hours for a
few hundred kilobytes of ``<!--``, and it holds every attribute.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape

from polyhop.data.converting import TITLE, Block
from polyhop.data.converting.tables import Cell, table_blocks

_DROPPED = frozenset("script style template noscript svg math iframe object canvas select nav".split())
_BLOCKS = frozenset(
    """address article aside blockquote body caption center dd details div dl dt fieldset figcaption figure footer form
    header hr html legend li main ol p pre section summary table tbody td tfoot th thead tr ul""".split()
)
_SPACES = frozenset({"br", "img", "wbr", "option", "input"})
_BREAK = "\0"  # stands for a line break; no page holds it
_LINK = "\1"  # stands before the text of a hyperlink
_HREF = re.compile(r"""\bhref\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>"']++))""", re.IGNORECASE)
_BOLD = frozenset({"b", "strong"})
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_SPAN = re.compile(r"\b(colspan|rowspan)\s*=\s*[\"']?(\d{1,5})", re.IGNORECASE)
_MAX_TAG = 1000  # characters of a cell's tag that are searched
_COMMENT_END, _CDATA_END, _END = re.compile("--!?>"), re.compile("]]>"), re.compile(">")
_NAME = re.compile(r"[^\s/>]*+")
_IN_TAG = re.compile(r""">|=\s*+(?:"[^"]*+"|'[^']*+')""")
_RAW = {tag: re.compile(rf"</{tag}(?=[\s/>])", re.IGNORECASE) for tag in ("script", "style")}


def html_blocks(markup: str) -> Iterator[Block]:
    """Yield the blocks of a page. Its title is its first main heading, else the title in its head.

    >>> page = "<title>A site</title><h1>Ada</h1><p>She <b>wrote</b>.<script>x()</script><h2>Life<p>Born in 1815."
    >>> [(block.level, block.text) for block in html_blocks(page)]
    [(0, 'Ada'), (1, 'Ada'), (None, 'She wrote.'), (2, 'Life'), (None, 'Born in 1815.')]
    """
    reader = _Reader(markup)
    main = next((block.text for block in reader.blocks if block.level == 1), reader.title)
    if main:
        yield Block(main, TITLE)
    yield from reader.blocks


def fragment_blocks(markup: str) -> list[Block]:
    """Return the blocks of HTML that another format was converted to; its ``title`` element is its title.

    >>> [block.text for block in fragment_blocks("<table><tr><th>Name<th>Bar<tr><td>P1<td>3<tr><td>P2<td>5</table>")]
    ['Name: P1; Bar: 3', 'Name: P2; Bar: 5']
    """
    reader = _Reader(markup)
    return [Block(reader.title, TITLE), *reader.blocks] if reader.title else reader.blocks


@dataclass
class _OpenCell:
    """A cell of an open table. It is a header if its tag says so, or if all its text is bold."""

    is_header: bool
    columns: int = 1
    rows: int = 1
    blocks: list[Block] = field(default_factory=list)
    has_bold: bool = False
    has_plain: bool = False

    def closed(self) -> Cell:
        """Return the finished cell: its paragraphs as one line."""
        texts = [block.text for block in self.blocks]
        texts[:-1] = [text if text.endswith((".", ":", ";", ",", "!", "?")) else f"{text}," for text in texts[:-1]]
        is_header = self.is_header or (self.has_bold and not self.has_plain)
        targets = tuple(target for block in self.blocks for target in block.targets)
        return Cell(" ".join(texts), is_header, self.columns, self.rows, targets=targets)


@dataclass
class _OpenTable:
    """A table that is being read."""

    rows: list[list[_OpenCell]] = field(default_factory=list)
    caption: list[Block] = field(default_factory=list)
    in_head: bool = False


class _Reader:
    """A reader that collects blocks without building a tree, so neither depth nor wrong nesting matters.

    A table with a heading, code or another table inside serves the layout: its cells are ordinary blocks.

    Attributes:
        title: the text of the ``title`` element.
    """

    def __init__(self, markup: str) -> None:
        self.blocks: list[Block] = []
        self._title: list[str] = []
        self._texts: list[str] = []
        self._targets = deque[str]()  # of the hyperlinks in the texts
        self._level: int | None = None
        self._in_title, self._in_code, self._bold = False, False, 0
        self._dropping, self._depth = "", 0
        self._tables: list[_OpenTable | None] = []  # None: a table that serves the layout
        self._target = self.blocks  # of the next block: a cell, a caption, or the page
        self._read(markup)
        self._end_block()
        while self._tables:
            self._end_table()
        self.title = " ".join("".join(self._title).split())

    def _read(self, markup: str) -> None:
        """Read a page, in time linear in its length."""
        i = 0
        while (opening := markup.find("<", i)) >= 0:
            self._add_text(markup[i:opening])
            i = self._read_tag(markup, opening)
            if i < 0:
                return
        self._add_text(markup[i:])

    def _read_tag(self, markup: str, start: int) -> int:
        """Read the markup that begins with a ``<``; return the index after it, -1 if the page ends inside it."""
        following = markup[start + 1 : start + 3]
        if markup.startswith("<!--", start):
            return _after(_COMMENT_END, markup, start + 2)
        if markup.startswith("<![CDATA[", start):
            return _after(_CDATA_END, markup, start)
        closing = following[:1] == "/"
        first = following[closing:][:1]
        if not (first.isascii() and first.isalpha()):
            if following[:1] in ("!", "?") or (closing and first):
                return _after(_END, markup, start)
            self._add_text("<")
            return start + 1
        name = _NAME.match(markup, start + 1 + closing)
        end = _end_of_tag(markup, name.end()) if name else -1
        if not name or end < 0:
            return -1
        tag, self_closing = name[0].lower(), markup[end - 2] == "/"
        if not closing:
            self._start(tag, markup[start : min(end, start + _MAX_TAG)])
            if tag in _RAW and not self_closing:
                close = _RAW[tag].search(markup, end)
                return close.start() if close else -1
        if closing or self_closing:
            self._end(tag)
        return end

    def _start(self, tag: str, markup: str) -> None:
        if self._dropping:
            self._depth += tag == self._dropping
        elif tag in _DROPPED:
            self._dropping, self._depth = tag, 1
        elif tag == "title":
            self._in_title = True
        elif tag in _SPACES:
            self._texts.append("\n" if self._in_code else _BREAK if tag == "br" else " ")
        elif tag == "a":
            if found := _HREF.search(markup):
                self._texts.append(_LINK)
                self._targets.append(unescape(found[1] or found[2] or found[3] or ""))
        elif tag in _BOLD:
            self._bold += 1
        elif tag in _BLOCKS or tag in _HEADINGS:
            self._end_block()
            if tag in _HEADINGS or tag in ("table", "pre"):
                self._flatten()
            self._level, self._in_code = _HEADINGS.get(tag), tag == "pre"
            if tag == "table":
                self._tables.append(_OpenTable())
            elif self._tables and self._tables[-1]:
                self._start_part(self._tables[-1], tag, markup)

    def _start_part(self, table: _OpenTable, tag: str, markup: str) -> None:
        """Start a row, a cell or the caption of a table."""
        if tag in ("thead", "tbody", "tfoot"):
            table.in_head = tag == "thead"
        elif tag == "tr":
            table.rows.append([])
            self._target = self.blocks
        elif tag == "caption":
            self._target = table.caption
        elif tag in ("td", "th"):
            spans = {name.lower(): int(number) for name, number in _SPAN.findall(markup)}
            is_header = tag == "th" or table.in_head
            cell = _OpenCell(is_header, spans.get("colspan", 1), spans.get("rowspan", 1))
            if not table.rows:
                table.rows.append([])
            table.rows[-1].append(cell)
            self._target, self._bold = cell.blocks, 0

    def _end(self, tag: str) -> None:
        if self._dropping:
            self._depth -= tag == self._dropping
            self._dropping = self._dropping if self._depth else ""
        elif tag == "title":
            self._in_title = False
        elif tag in _SPACES:
            self._texts.append(" ")
        elif tag in _BOLD:
            self._bold = max(0, self._bold - 1)
        elif tag in _BLOCKS or tag in _HEADINGS:
            self._end_block()
            if tag == "table" and self._tables:
                self._end_table()
            elif tag in ("td", "th", "tr", "caption"):
                self._target = self.blocks

    def _add_text(self, text: str) -> None:
        if self._dropping:
            return
        (self._title if self._in_title else self._texts).append(unescape(text).replace(_LINK, ""))
        table = self._tables[-1] if self._tables else None
        if table and table.rows and table.rows[-1] and text.strip():
            cell = table.rows[-1][-1]
            cell.has_bold, cell.has_plain = cell.has_bold or self._bold > 0, cell.has_plain or not self._bold

    def _end_block(self) -> None:
        """Make a block of the collected text; of code, a block for each line."""
        text = "".join(self._texts)
        if self._in_code:
            code = text.replace(_LINK, "").expandtabs(4)
            self._target += (Block(line.rstrip(), kind="code") for line in code.split("\n") if line.strip())
        elif self._level:
            words = " ".join(text.replace(_LINK, "").replace(_BREAK, " ").split())
            self._target += [Block(words, self._level)] if words else []
        else:
            self._target += (
                Block(line, targets=tuple(self._targets.popleft() for _ in range(links)))
                for line, links in _lines(text)
            )
        self._targets.clear()
        self._texts, self._level, self._in_code = [], None, False

    def _end_table(self) -> None:
        """Add the rows of the innermost table."""
        self._target = self.blocks
        if table := self._tables.pop():
            rows = [[cell.closed() for cell in row] for row in table.rows]
            self.blocks += table_blocks(rows, " ".join(block.text for block in table.caption))

    def _flatten(self) -> None:
        """Add the cells of the innermost table, which serves the layout, as ordinary blocks."""
        if self._tables and (table := self._tables[-1]):
            self._tables[-1] = None
            for blocks in (table.caption, *(cell.blocks for row in table.rows for cell in row)):
                self.blocks += blocks
            self._target = self.blocks


def _lines(text: str) -> list[tuple[str, int]]:
    """Return the lines of a paragraph, each with the number of its hyperlinks; after a break, what begins with a small
    letter continues its line."""
    lines: list[tuple[list[str], int]] = []
    before = 0
    for part in text.split(_BREAK):
        before += part.count(_LINK)
        words = " ".join(part.replace(_LINK, "").split())
        if not words:
            continue
        if lines and words[0].islower():
            parts, links = lines.pop()
            lines.append(([*parts, words], links + before))
        else:
            lines.append(([words], before))
        before = 0
    return [(" ".join(parts), links) for parts, links in lines]


def _after(mark: re.Pattern[str], markup: str, start: int) -> int:
    """Return the index after a mark; -1 if it does not occur."""
    found = mark.search(markup, start)
    return found.end() if found else -1


def _end_of_tag(markup: str, start: int) -> int:
    """Return the index after the ``>`` that ends a tag, ignoring quoted values; -1 if it does not occur."""
    return next((part.end() for part in _IN_TAG.finditer(markup, start) if part[0] == ">"), -1)
