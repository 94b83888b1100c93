"""HTML as blocks: the visible text of a page, and its headings.

Tags are found as browsers find them, in one pass: an unclosed comment, tag or script swallows the rest of the page. An
open quote ends with its tag. The standard library's parser searches for each such end again, which takes hours for a
few hundred kilobytes of ``<!--``, and it holds every attribute.
"""

from __future__ import annotations

import re
from codecs import lookup
from collections.abc import Iterator
from html import unescape

from polyhop.data.converting import TITLE, Block

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
"""Python's names of the encodings that browsers know. Its others are no charsets (``punycode``, slow on long texts;
``unicode_escape``) or obscure the text (``utf-7``)."""

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
    reader = _Reader()
    reader.read(markup)
    reader.end_block()
    main = next((block.text for block in reader.blocks if block.level == 1), " ".join("".join(reader.title).split()))
    if main:
        yield Block(main, TITLE)
    yield from reader.blocks


def decode_html(data: bytes) -> str:
    """Decode a page by its byte order mark or the charset it declares, else as UTF-8, else as Windows-1252.

    >>> decode_html(b"<meta charset='iso-8859-1'>caf\\xe9")[-4:]
    'café'
    >>> decode_html(b"caf\\xc3\\xa9"), decode_html(b"caf\\xe9")
    ('café', 'café')
    """
    by_mark = next((name for mark, name in _MARKS.items() if data.startswith(mark)), None)
    declared = _CHARSET.search(data, 0, 2048)
    for name in (by_mark, declared and declared[1].decode("ascii"), "utf-8"):
        try:
            if name and (name == by_mark or lookup(name).name in _CODECS):
                return data.decode(name)
        except (LookupError, UnicodeError, ValueError):
            continue
    return data.decode("cp1252", "replace")


class _Reader:
    """A reader that collects blocks without building a tree, so neither depth nor wrong nesting matters."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.title: list[str] = []
        self._texts: list[str] = []
        self._level: int | None = None
        self._in_title = False
        self._dropping, self._depth = "", 0

    def read(self, markup: str) -> None:
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
            self._start(tag)
            if tag in _RAW and not self_closing:
                close = _RAW[tag].search(markup, end)
                return close.start() if close else -1
        if closing or self_closing:
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
            self._texts.append(" ")

    def _end(self, tag: str) -> None:
        if self._dropping:
            self._depth -= tag == self._dropping
            self._dropping = self._dropping if self._depth else ""
        elif tag == "title":
            self._in_title = False
        elif tag in _BLOCKS or tag in _HEADINGS:
            self.end_block()
        elif tag in _CELLS:
            self._texts.append(" ")

    def _add_text(self, text: str) -> None:
        if not self._dropping:
            (self.title if self._in_title else self._texts).append(unescape(text))

    def end_block(self) -> None:
        """Make a block of the collected text."""
        text = " ".join("".join(self._texts).split())
        if text:
            self.blocks.append(Block(text, self._level))
        self._texts, self._level = [], None


def _after(mark: re.Pattern[str], markup: str, start: int) -> int:
    """Return the index after a mark; -1 if it does not occur."""
    found = mark.search(markup, start)
    return found.end() if found else -1


def _end_of_tag(markup: str, start: int) -> int:
    """Return the index after the ``>`` that ends a tag, ignoring quoted values; -1 if it does not occur."""
    return next((part.end() for part in _IN_TAG.finditer(markup, start) if part[0] == ">"), -1)
