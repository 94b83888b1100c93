"""HTML as blocks: what a reader of the page sees as text, and its headings.

Tags are found as browsers find them, in one pass: what is never closed (a comment, a tag, a script) takes the rest of
the page with it. An open quote ends with its tag. The standard library's parser looks for the end again at every such
place, which takes hours for a few hundred kilobytes of ``<!--``, and it holds every attribute.
"""

from __future__ import annotations

import re
from codecs import lookup
from collections.abc import Iterator
from html import unescape

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
_CODECS = (
    frozenset(
        """utf-8 utf-16 utf-16-le utf-16-be ascii cp866 koi8-r koi8-u mac-roman mac-cyrillic gbk gb2312 gb18030 big5
    big5hkscs euc_jp iso2022_jp shift_jis cp932 euc_kr cp949 tis-620 cp874""".split()
    )
    | {f"iso8859-{part}" for part in range(1, 17)}
    | {f"cp125{page}" for page in range(9)}
)
"""Python's names of the encodings that browsers know. It knows others, which are no charsets (``punycode``, slow on
long texts; ``unicode_escape``) or hide what is written (``utf-7``)."""

_COMMENT_END, _CDATA_END, _END = re.compile("--!?>"), re.compile("]]>"), re.compile(">")
_NAME = re.compile(r"[^\s/>]*+")
_IN_TAG = re.compile(r""">|=\s*+(?:"[^"]*+"|'[^']*+')""")
_RAW = {tag: re.compile(rf"</{tag}(?=[\s/>])", re.IGNORECASE) for tag in ("script", "style")}


def html_blocks(markup: str) -> Iterator[Block]:
    """The blocks of a page; its title is its first main heading, else what its head says.

    >>> page = "<title>A site</title><h1>Ada</h1><p>She <b>wrote</b>.<script>x()</script><h2>Life<p>Born in 1815."
    >>> [(block.level, block.text) for block in html_blocks(page)]
    [(0, 'Ada'), (1, 'Ada'), (None, 'She wrote.'), (2, 'Life'), (None, 'Born in 1815.')]
    """
    reader = _Reader()
    reader.read(markup)
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
            if name and (name == marked or lookup(name).name in _CODECS):
                return data.decode(name)
        except (LookupError, UnicodeError, ValueError):
            continue
    return data.decode("cp1252", "replace")


class _Reader:
    """Gathers blocks while it reads; no tree is built, so neither depth nor wrong nesting matters."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.title: list[str] = []
        self._held: list[str] = []
        self._level: int | None = None
        self._in_title = False
        self._dropping, self._depth = "", 0

    def read(self, markup: str) -> None:
        """Read a page, in time linear in its length."""
        at = 0
        while (opening := markup.find("<", at)) >= 0:
            self._add_text(markup[at:opening])
            at = self._markup(markup, opening)
            if at < 0:
                return
        self._add_text(markup[at:])

    def _markup(self, markup: str, at: int) -> int:
        """Read what begins with a ``<``; return the index after it, -1 if the page ends inside."""
        following = markup[at + 1 : at + 3]
        if markup.startswith("<!--", at):
            return _after(_COMMENT_END, markup, at + 2)
        if markup.startswith("<![CDATA[", at):
            return _after(_CDATA_END, markup, at)
        closing = following[:1] == "/"
        first = following[closing:][:1]
        if not (first.isascii() and first.isalpha()):
            if following[:1] in ("!", "?") or (closing and first):
                return _after(_END, markup, at)
            self._add_text("<")
            return at + 1
        name = _NAME.match(markup, at + 1 + closing)
        end = _end_of_tag(markup, name.end()) if name else -1
        if not name or end < 0:
            return -1
        tag, alone = name[0].lower(), markup[end - 2] == "/"
        if not closing:
            self._start(tag)
            if tag in _RAW and not alone:
                close = _RAW[tag].search(markup, end)
                return close.start() if close else -1
        if closing or alone:
            self._end(tag)
        return end

    def _start(self, tag: str) -> None:
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

    def _end(self, tag: str) -> None:
        if self._dropping:
            self._depth -= tag == self._dropping
            self._dropping = self._dropping if self._depth else ""
        elif tag == "title":
            self._in_title = False
        elif tag in _BLOCKS or tag in _HEADINGS:
            self.end_block()
        elif tag in _CELLS:
            self._held.append(" ")

    def _add_text(self, text: str) -> None:
        if not self._dropping:
            (self.title if self._in_title else self._held).append(unescape(text))

    def end_block(self) -> None:
        """What was gathered is a block."""
        text = " ".join("".join(self._held).split())
        if text:
            self.blocks.append(Block(text, self._level))
        self._held, self._level = [], None


def _after(mark: re.Pattern[str], markup: str, start: int) -> int:
    """The index after a mark; -1 if it does not come."""
    found = mark.search(markup, start)
    return found.end() if found else -1


def _end_of_tag(markup: str, start: int) -> int:
    """The index after the ``>`` that ends a tag, quoted values stepped over; -1 if it does not come."""
    return next((part.end() for part in _IN_TAG.finditer(markup, start) if part[0] == ">"), -1)
