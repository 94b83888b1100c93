"""HTML as blocks, by the standard library's parser: what a reader of the page sees as text, and its headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

from polyhop.data.converting.blocks import TITLE, Block

_DROPPED = frozenset("script style template noscript svg math iframe object canvas select nav".split())
_BLOCKS = frozenset(
    """address article aside blockquote body caption center dd details div dl dt fieldset figcaption figure footer form
    header hr html legend li main ol p pre section summary table tbody tfoot thead tr ul""".split()
)
_CELLS = frozenset({"td", "th", "br", "img", "wbr", "option", "input"})
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_CHARSET = re.compile(rb"(?:charset|encoding)\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def html_blocks(markup: str) -> Iterator[Block]:
    """The blocks of a page; its title is its first main heading, else what its head says.

    >>> page = "<title>A site</title><h1>Ada</h1><p>She <b>wrote</b>.<script>x()</script><h2>Life<p>Born in 1815."
    >>> [(block.level, block.text) for block in html_blocks(page)]
    [(0, 'Ada'), (1, 'Ada'), (None, 'She wrote.'), (2, 'Life'), (None, 'Born in 1815.')]
    """
    reader = _Reader()
    reader.feed(markup)
    reader.close()
    reader.end_block()
    main = next((block.text for block in reader.blocks if block.level == 1), " ".join("".join(reader.title).split()))
    if main:
        yield Block(main, TITLE)
    yield from reader.blocks


def decoded(data: bytes) -> str:
    """A page's bytes as text: by its mark or what it says of itself, else UTF-8, else Windows' Latin letters.

    >>> decoded(b"<meta charset='iso-8859-1'>caf\\xe9")[-4:], decoded(b"caf\\xc3\\xa9"), decoded(b"caf\\xe9")
    ('café', 'café', 'café')
    """
    marked = next((name for mark, name in _MARKS.items() if data.startswith(mark)), None)
    said = _CHARSET.search(data, 0, 2048)
    for name in (marked, said and said[1].decode("ascii"), "utf-8"):
        try:
            if name:
                return data.decode(name)
        except (LookupError, UnicodeError, ValueError):
            continue
    return data.decode("cp1252", "replace")


class _Reader(HTMLParser):
    """Gathers blocks while it is fed; no tree is built, so neither depth nor wrong nesting matters."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[Block] = []
        self.title: list[str] = []
        self._held: list[str] = []
        self._level: int | None = None
        self._in_title = False
        self._dropping, self._depth = "", 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._dropping:
            self._depth += tag == self._dropping
        elif tag in _DROPPED:
            self._dropping, self._depth = tag, 1
        elif tag == "title":
            self._in_title = True
        elif tag in _HEADINGS:
            self.end_block()
            self._level = _HEADINGS[tag]
        elif tag in _BLOCKS:
            self.end_block()
        elif tag in _CELLS:
            self._held.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if self._dropping:
            self._depth -= tag == self._dropping
            self._dropping = self._dropping if self._depth else ""
        elif tag == "title":
            self._in_title = False
        elif tag in _BLOCKS or tag in _HEADINGS:
            self.end_block()
        elif tag in _CELLS:
            self._held.append(" ")

    def handle_data(self, data: str) -> None:
        if self._in_title and not self._dropping:
            self.title.append(data)
        elif not self._dropping:
            self._held.append(data)

    def end_block(self) -> None:
        """What was gathered is a block."""
        text = " ".join("".join(self._held).split())
        if text:
            self.blocks.append(Block(text, self._level))
        self._held, self._level = [], None
