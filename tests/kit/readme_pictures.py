"""The pictures of the README and of the documentation's home: a tree of reasoning and a terminal, both as they are.

    python -m tests.kit.readme_pictures           # draws them again into docs/images

The tree is that of ``docs/methods/tor.md``, in the colours of the server's page, light and dark; the terminal shows
what the commands print in a folder of three documents, and moves by CSS alone.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rich.console import Console
from rich.style import Style
from rich.text import Text

import polyhop
from polyhop.answer import Answer
from polyhop.trace import Ask, Branch, Trace
from tests.kit.doc_pages import DOCS, blocks
from tests.kit.method_pages import COST, answered
from tests.kit.page_colours import Colours, colours

IMAGES = DOCS / "images"
QUESTION = ("tor", "q01")
SERIF = "'Source Serif 4', 'Iowan Old Style', Palatino, Georgia, serif"
SANS = "Inter, ui-sans-serif, system-ui, sans-serif"
MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"

COLUMNS, LINE, LETTER = 88, 21, 8.43
"""Of the terminal: letters in a line, and the pixels of a line and of a letter."""
_CONSOLE = Console(width=COLUMNS)


# --- the tree ----------------------------------------------------------------------------------------------------

_COLUMN, _ROW, _LEFT, _TOP = 208, 62, 24, 40
_MAX_CHARS, _TITLE_CHAR, _SMALL_CHAR = 22, 9.1, 7.1
"""Characters of a line of a branch; the width of one in the title and below it in a wide font, in pixels."""


class Node(NamedTuple):
    """A branch at its position: column 0 is the question's."""

    step: Branch
    column: int
    row: float
    parent: Node | None

    @property
    def x(self) -> float:
        return _LEFT + self.column * _COLUMN

    @property
    def y(self) -> float:
        return _TOP + self.row * _ROW


def tree(answer: Answer, theme: str) -> str:
    """An answer's branches from left to right: rejected ones fade, the way to the answer is drawn in ink."""
    found = colours(theme)
    nodes = list(placed(answer.trace))
    rows, columns = max(node.row for node in nodes) + 1, max(node.column for node in nodes) + 1
    width, height = _LEFT * 2 + columns * _COLUMN + 110, _TOP + rows * _ROW
    start = (_LEFT, _TOP + (rows - 1) / 2 * _ROW)
    end = (_LEFT + columns * _COLUMN, start[1])
    won = {id(each) for node in nodes if outcome(answer, node) == answer.text for each in way(node)}
    lines, texts = [], [*question_text(answer.trace.question, start)]
    for node in sorted(nodes, key=lambda node: id(node) in won):
        beside = beside_texts(answer, node.parent) if node.parent else (start[0] + 166, start[1], start[0] + 166)
        kind = "won" if id(node) in won else "no" if node.step.verdict == "reject" else "way"
        lines.append(curve(beside, (node.x - 7, node.y), kind))
        if node.step.verdict == "accept":
            lines.append(curve(beside_texts(answer, node), (end[0] - 9, end[1]), kind))
        texts += node_text(answer, node, kind)
    x, y = end
    texts += [
        f'<rect class="spot" x="{x - 8}" y="{y - 8:g}" width="16" height="16" rx="3"/>',
        f'<text class="final" x="{x + 18}" y="{y + 8:g}">{escape(answer.text)}</text>',
    ]
    style = f"""
text {{ font: 16px {SERIF}; fill: {found["ink"]} }}
.question {{ font-size: 17px }} .final {{ font-size: 27px }} .small {{ font: 12.5px {SANS}; fill: {found["dim"]} }}
.no {{ fill: {found["dim"]}; opacity: .75 }} .accept {{ fill: {found["good"]}; font-weight: 600 }}
path {{ fill: none; stroke-width: 1.5; stroke: {found["line"]} }}
path.no {{ fill: none; stroke-dasharray: 2 4; opacity: 1 }}
path.won {{ stroke: {found["ink"]}; stroke-width: 2 }}
circle, rect.root, rect.spot {{ fill: {found["paper"]}; stroke: {found["ink"]}; stroke-width: 1.25 }}
circle.no {{ fill: {found["paper"]}; stroke: {found["dim"]} }}
.spot {{ fill: {found["spot"]} !important }} rect.root {{ fill: {found["ink"]} }}
"""
    title = f"{answer.trace.question} A tree of passages: paths are rejected, extended or accepted; {answer.text} wins."
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{style}</style>",
            f'<rect width="{width}" height="{height:g}" rx="10" fill="{found["paper"]}"/>',
            *lines,
            *texts,
            "</svg>\n",
        ]
    )


def placed(trace: Trace, parent: Node | None = None, first: float = 0) -> Iterator[Node]:
    """Return every branch with its position; a branch is centred on those below it."""
    row = first
    for step in trace.children(parent.step.id if parent else None):
        if not isinstance(step, Branch):
            continue
        column = parent.column + 1 if parent else 1
        leaves = leaves_of(trace, step)
        node = Node(step, column, row + (leaves - 1) / 2, parent)
        yield node
        yield from placed(trace, node, row)
        row += leaves


def leaves_of(trace: Trace, step: Branch) -> int:
    below = [each for each in trace.children(step.id) if isinstance(each, Branch)]
    return sum(leaves_of(trace, each) for each in below) or 1


def way(node: Node) -> Iterator[Node]:
    """A node and those on the way to it."""
    yield node
    if node.parent:
        yield from way(node.parent)


def outcome(answer: Answer, node: Node) -> str:
    """Return the result of a branch: the answer of an accepted path, the next query of one that is extended."""
    found = [each.output for each in answer.trace.children(node.step.id) if isinstance(each, Ask) and each.output]
    names = ("answer",) if node.step.verdict == "accept" else ("information", "query")
    return next((str(row[name]) for row in reversed(found) for name in names if row.get(name)), "")


def lines_of(answer: Answer, node: Node) -> tuple[str, str]:
    """Return the passage of a branch, and the verdict on it."""
    came_to = outcome(answer, node)
    verdicts = {"accept": f"accepted: {came_to}", "search": f"next: {came_to}", "reject": "rejected"}
    return short(node.step.label), short(verdicts[node.step.verdict or ""])


def node_text(answer: Answer, node: Node, kind: str) -> list[str]:
    """A branch's circle and its two lines."""
    verdict, (title, below) = node.step.verdict or "", lines_of(answer, node)
    circle = "no" if verdict == "reject" else "spot" if verdict == "accept" else kind
    small = "accept" if verdict == "accept" else kind
    x, y = node.x + 14, node.y
    return [
        f'<circle class="{circle}" cx="{node.x}" cy="{y:g}" r="6.5"/>',
        f'<text class="{kind}" x="{x}" y="{y + 5:g}">{escape(title)}</text>',
        f'<text class="small {small}" x="{x}" y="{y + 22:g}">{escape(below)}</text>',
    ]


def question_text(question: str, at: tuple[float, float]) -> Iterator[str]:
    """The question in lines of a few words, around the middle of its side."""
    x, y = at
    lines = list(Text(question).wrap(_CONSOLE, 19))
    yield f'<rect class="root" x="{x - 7}" y="{y - len(lines) * 11 - 14:g}" width="14" height="14" rx="3"/>'
    for number, line in enumerate(lines):
        text = escape(line.plain.rstrip())
        yield f'<text class="question" x="{x - 7}" y="{y + (number - len(lines) / 2 + 1) * 22:g}">{text}</text>'


def beside_texts(answer: Answer, node: Node) -> tuple[float, float, float]:
    """Return the position to the right of a branch's title, and the end of its longest line."""
    title, below = lines_of(answer, node)
    title_end, below_end = node.x + 20 + _TITLE_CHAR * len(title), node.x + 20 + _SMALL_CHAR * len(below)
    return title_end, node.y, max(title_end, below_end)


def curve(start: tuple[float, float, float], end: tuple[float, float], kind: str) -> str:
    """Draw a line that is level where it begins and ends, and until the third number of ``start``."""
    (left, y, x), (to_x, to_y) = start, end
    bend = max(20.0, (to_x - x) / 2) if to_x - x < 160 else 80
    flat = to_x - 2 * bend if to_x - x > 2 * bend else x
    bent = f"C{flat + bend:g} {y:g} {to_x - bend:g} {to_y:g} {to_x:g} {to_y:g}"
    return f'<path class="{kind}" d="M{left:g} {y:g} H{flat:g} {bent}"/>'


def short(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else text[: _MAX_CHARS - 1] + "…"


# --- the terminal ------------------------------------------------------------------------------------------------

COMMANDS = (
    "ls my-documents",
    'polyhop ask "Where was the creator of Miffy born?" --corpus my-documents',
    'polyhop ask "Who built the Dom Tower?" --corpus my-documents --abstain-below 0.5',
)
CYCLE, TYPED = 20.0, 0.03
"""Seconds of one showing, and of a typed letter."""


def session() -> list[tuple[str, list[Text]]]:
    """The commands, each with the lines that it prints in the folder of ``docs/own-documents.md``."""
    (made, *_) = (block.text for block in blocks(DOCS / "own-documents.md", "sh"))
    with TemporaryDirectory() as folder:
        run(made, folder)
        return [
            (command, [without_time(line) for line in Text.from_ansi(run(command, folder)).split("\n")])
            for command in COMMANDS
        ]


def run(command: str, folder: str) -> str:
    """Return the output of a command in a folder, on a terminal with colours."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(polyhop.__file__).parents[1]),
        "FORCE_COLOR": "1",
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
        "PYTHONUTF8": "1",
        "POLYHOP_CACHE": str(Path(folder) / ".cache"),
    }
    command = re.sub(r"^polyhop ", f"{sys.executable} -m polyhop ", command)
    done = subprocess.run(["bash", "-ec", command], cwd=folder, env=environment, capture_output=True, check=True)
    return done.stdout.decode().rstrip()


def without_time(line: Text) -> Text:
    """A line without the seconds that it took, which differ from machine to machine."""
    end = COST.search(line.plain) or re.search(r", [\d.]+ s$", line.plain)
    return line[: end.start()] if end else line


def terminal(shown: list[tuple[str, list[Text]]]) -> str:
    """The commands and what they print, one after another, on a dark ground; at rest where motion is unwanted."""
    found = colours("dark")
    body: list[str] = []
    styles: list[str] = []
    y, at = 62, 0.6
    for command, lines in shown:
        spent = max(0.6, TYPED * len(command))
        styles.append(frames(f"c{len(body)}", at, at + spent, len(command)))
        styles.append(frames(f"p{len(body)}", at - 0.4, at - 0.3, 0))
        body.append(
            f'<text class="p{len(body)} line" x="20" y="{y}" style="fill: {found["good"]}">$</text>'
            f'<text class="c{len(body)} line" x="{20 + 2 * LETTER:g}" y="{y}">{escape(command)}</text>'
        )
        y, at = y + LINE, at + spent + 0.5
        for line in lines:
            styles.append(frames(f"c{len(body)}", at, at + 0.12, 0))
            body.append(f'<text class="c{len(body)} line" x="20" y="{y}">{spans(line, found)}</text>')
            y, at = y + LINE, at + 0.12
        y, at = y + LINE // 2, at + 0.8
    width, height = round(40 + COLUMNS * LETTER), y
    dots = "".join(f'<circle cx="{24 + 20 * n}" cy="22" r="6" fill="{found["line"]}"/>' for n in range(3))
    style = (
        f"text {{ font: 14px {MONO}; fill: {found['ink']}; white-space: pre }}\n"
        f".line {{ animation-duration: {CYCLE:g}s; animation-iteration-count: infinite }}\n"
        "@media (prefers-reduced-motion: reduce) { .line { animation: none !important } }\n" + "\n".join(styles)
    )
    title = "A terminal: three documents, a question, its answer with citations, and a question without an answer"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            f"<title>{title}</title>",
            f"<style>{style}</style>",
            f'<rect width="{width}" height="{height}" rx="10" fill="{found["paper"]}"/>',
            dots,
            *body,
            "</svg>\n",
        ]
    )


def frames(name: str, start: float, end: float, letters: int) -> str:
    """The animation of a line: typed letter by letter, or there at once; gone when the showing begins again."""
    first, last = 100 * start / CYCLE, 100 * end / CYCLE
    hidden = "clip-path: inset(0 100% 0 0)" if letters else "opacity: 0"
    there = "clip-path: inset(0 0 0 0)" if letters else "opacity: 1"
    timing = f"animation-timing-function: steps({letters})" if letters else "animation-timing-function: linear"
    return (
        f".{name} {{ animation-name: {name} }} @keyframes {name} {{ 0%, {first:.2f}% {{ {hidden}; {timing} }} "
        f"{last:.2f}%, 100% {{ {there} }} }}"
    )


def spans(line: Text, found: Colours) -> str:
    """A line with its styles, in the page's colours."""
    return "".join(
        f"<tspan{attributes(line.get_style_at_offset(_CONSOLE, start), found)}>{escape(text)}</tspan>"
        for start, text in runs(line)
    )


def runs(line: Text) -> Iterator[tuple[int, str]]:
    """The pieces of a line that have one style each, with where they begin."""
    start = 0
    for end in sorted({len(line), *(offset for span in line.spans for offset in (span.start, span.end))}):
        if text := line.plain[start:end]:
            yield start, text
        start = end


ANSI = {1: "bad", 2: "good", 3: "spot", 4: "accent", 5: "dim", 6: "accent"}
"""The page's colour for each of a terminal's."""


def attributes(style: Style, found: Colours) -> str:
    """A style as attributes of a text."""
    number = style.color.number if style.color else None
    colour = found[ANSI[number]] if number in ANSI else found["dim"] if style.dim else ""
    return (f' fill="{colour}"' if colour else "") + (' font-weight="700"' if style.bold else "")


# --- all of them -------------------------------------------------------------------------------------------------

PICTURES: Mapping[str, Callable[[], str]] = {
    "tree-light": lambda: tree(answered(*QUESTION), "light"),
    "tree-dark": lambda: tree(answered(*QUESTION), "dark"),
    "terminal": lambda: terminal(session()),
}


def main() -> None:
    """Draw every picture again."""
    for name, drawn in PICTURES.items():
        (IMAGES / f"{name}.svg").write_text(drawn(), "utf-8")


if __name__ == "__main__":
    main()
