"""reStructuredText, AsciiDoc, Org and README files as blocks: their headings, code, and the rest as plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby, pairwise
from operator import itemgetter
from typing import TypeAlias

from polyhop.data.converting import TITLE, Block
from polyhop.data.converting.plain import code_blocks, line_blocks, markdown_blocks, text_blocks

_Line: TypeAlias = tuple[int | str, str]  # the level of a heading, "text" or "code"; and the line

_MAX_LEVEL = 6
_MARKDOWN_HEADING = re.compile(r"(?:\A|\n\n)#{1,6} .*\n(?!#)")  # no comment of several lines

_RULE = re.compile(r"([!-/:-@\[-`{-~])\1+")  # under or over a title
_NO_RULES = ("..", "::")
_BORDER = frozenset("=-+~*#_^|. ")  # of a table, and between paragraphs
_EXPLICIT = re.compile(r" *\.\.(?: +(.*))?")  # begins a directive, a footnote, a target or a comment
_DIRECTIVE = re.compile(r"([\w.:+-]+?) ?::(?: +(.*))?")
_NOTE = re.compile(r"\[[^\]]+\] .+")
_OPTION = re.compile(r" +:[\w-]+:(?: .*)?")
_CODE = frozenset("code code-block sourcecode parsed-literal math".split())
_UNTOLD = _CODE | frozenset("contents figure highlight image include literalinclude raw".split())  # their arguments
_INLINE = re.compile(
    r"``(.+?)``|(?::[\w:.+-]{1,40}:)?`([^`]+)`_{0,2}|(?<![\w*\\])(\*\*?)(?=[^\s*])([^*]+)(?<=\S)\3(?!\w)", re.DOTALL
)

_ADOC_HEADING = re.compile(r"(={1,6}) +(\S.*)")
_ADOC_FENCE = re.compile(r"-{4,}|\.{4,}|```\w*")
_ADOC_MARKUP = re.compile(r":!?[\w-]+!?:.*|\[[^\]]*\]\]?|//.*|([=*_+])\1{3,}|\|===|--")

_ORG_HEADING = re.compile(r"(\*{1,20}) {1,4}(?:(?:TODO|DONE) {1,4})?(\S.*?)(?: :[\w@#%:]{1,60}:)?")
_ORG_TITLE = re.compile(r"^#\+title:(.*\S)", re.IGNORECASE | re.MULTILINE)
_ORG_FENCE = re.compile(r" {0,40}#\+(?:begin|end)_(?:src|example)\b.*", re.IGNORECASE)
_ORG_MARKUP = re.compile(r" {0,40}#(?:\+\w+.*| .*)?| {0,40}:[\w-]+:(?: .*)?")


def readme_blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a text whose form its name does not tell: Markdown if it has such headings, else
    reStructuredText, which a plain text is too."""
    return (markdown_blocks if _MARKDOWN_HEADING.search(text) else rst_blocks)(text)


def rst_blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a reStructuredText without comments and the marks of roles, links, emphasis and code.

    >>> [(block.level, block.text) for block in rst_blocks("Ada\\n===\\nShe *wrote*, see :ref:`her life <life>`.")]
    [(1, 'Ada'), (None, 'She wrote, see her life.')]
    """
    for block in _blocks(_rst_lines([line.rstrip() for line in text.expandtabs().splitlines()])):
        yield block if block.kind == "code" else replace(block, text=_INLINE.sub(_shown, block.text))


def adoc_blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of an AsciiDoc text.

    >>> [(block.level, block.text) for block in adoc_blocks("= Ada\\n:toc:\\n\\nShe wrote.\\n\\n== Life\\nLong.")]
    [(1, 'Ada'), (None, 'She wrote.'), (2, 'Life'), (None, 'Long.')]
    """
    return _blocks(_marked_lines(text, _ADOC_HEADING, _ADOC_FENCE, _ADOC_MARKUP))


def org_blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of an Org text.

    >>> [(block.level, block.text) for block in org_blocks("#+TITLE: Ada\\n* Life :long:\\n** Youth\\nShe wrote.")]
    [(0, 'Ada'), (1, 'Life'), (2, 'Youth'), (None, 'She wrote.')]
    """
    title = [Block(found[1].strip(), TITLE)] if (found := _ORG_TITLE.search(text)) else []
    return chain(title, _blocks(_marked_lines(text, _ORG_HEADING, _ORG_FENCE, _ORG_MARKUP)))


def _blocks(lines: Iterable[_Line]) -> Iterator[Block]:
    """Yield the blocks of a document's lines. One of nothing but text is titled as a plain text is."""
    lines = list(lines)
    if all(kind == "text" for kind, _ in lines):
        yield from text_blocks("\n".join(line for _, line in lines))
        return
    for kind, group in groupby(lines, key=itemgetter(0)):
        texts = [line for _, line in group]
        if isinstance(kind, int):
            yield from (Block(text, kind) for text in texts)
        else:
            yield from (code_blocks if kind == "code" else line_blocks)("\n".join(texts))


def _marked_lines(
    text: str, heading: re.Pattern[str], fence: re.Pattern[str], markup: re.Pattern[str]
) -> Iterator[_Line]:
    """Yield the lines of a text whose headings begin with a mark per level, code between two lines of ``fence``, and
    no other ``markup``."""
    is_code = False
    for line in map(str.rstrip, text.splitlines()):
        if fence.fullmatch(line):
            is_code = not is_code
        elif is_code:
            yield "code", line
        elif found := heading.fullmatch(line):
            yield min(len(found[1]), _MAX_LEVEL), found[2]
        else:
            yield "text", "" if markup.fullmatch(line) else line


def _rst_lines(lines: Sequence[str]) -> Iterator[_Line]:
    """Yield the lines of a reStructuredText. Deeper lines than one that begins code or a comment belong to it."""
    levels = _levels(lines)
    inside, margin, has_options = "text", -1, False
    for i, line in enumerate(lines):
        indentation = len(line) - len(line.lstrip())
        if line and indentation <= margin:
            inside, margin = "text", -1
        has_options = has_options and bool(_OPTION.fullmatch(line))
        if has_options:
            continue
        if i in levels:
            if levels[i]:
                yield levels[i], line.strip()
        elif inside != "text":
            if inside == "code":
                yield "code", line
        elif explicit := _EXPLICIT.fullmatch(line):
            rest = explicit[1] or ""
            if directive := _DIRECTIVE.fullmatch(rest):
                name, argument = directive[1].rpartition(":")[2], directive[2]
                has_options = True
                if name in _CODE:
                    inside, margin = "code", indentation
                yield "text", f"{name.capitalize()}: {argument}" if argument and name not in _UNTOLD else ""
            elif _NOTE.fullmatch(rest):
                yield "text", rest
            elif rest or "".join(lines[i + 1 : i + 2]):
                inside, margin = "comment", indentation
        elif line.endswith("::"):
            inside, margin = "code", indentation
            yield "text", line[:-2].rstrip() and line[:-1]
        else:
            yield "text", "" if len(line) > 3 and _BORDER.issuperset(line) else line


def _levels(lines: Sequence[str]) -> dict[int, int]:
    """Return the level of each title by the number of its line; that of the rules under and over it is 0. Levels are
    styles of rules in the order of their first title."""
    levels, styles = dict[int, int](), list[tuple[str, bool]]()
    for i, (line, under) in enumerate(pairwise(lines)):
        title, above = line.strip(), lines[i - 1] if i and i - 1 not in levels else ""
        if i in levels or not title or len(under) < len(title) or not _RULE.fullmatch(under) or under in _NO_RULES:
            continue
        is_overlined = above == under
        if _RULE.fullmatch(title) or (above and not is_overlined) or (line[0] == " " and not is_overlined):
            continue
        style = (under[0], is_overlined)
        if style not in styles:
            styles.append(style)
        levels |= {i - is_overlined: 0, i: min(styles.index(style) + 1, _MAX_LEVEL), i + 1: 0}
    return levels


def _shown(mark: re.Match[str]) -> str:
    """Return the text of code, a role, a link or emphasis as it is shown."""
    if text := mark[1] or mark[4]:
        return text
    text = mark[2].removeprefix("~")
    label = text.rpartition("<")[0].strip() if text.endswith(">") else ""
    return label or text
