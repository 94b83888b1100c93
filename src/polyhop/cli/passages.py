"""Passages in the terminal: by title, as an excerpt with what was used of it marked, as an answer's references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from polyhop.answer import Answer, references, title_and_location
from polyhop.cli.show import Entry, clean
from polyhop.common.text import find_folded
from polyhop.types import Passage

_MAX_TITLES = 15
_EXCERPT = 200
"""Characters of a passage that are shown under an answer."""


def titles(passages: Sequence[Passage], marks: Mapping[str, str]) -> Text:
    """Passages by title, best first; those the answer cites with their numbers. ``marks``: by passage id, "[1]"."""
    shown = [passage for rank, passage in enumerate(passages) if rank < _MAX_TITLES or passage.id in marks]
    parts = [
        Text(f"{marks[p.id]} {clean(p.title)}", style="bold") if p.id in marks else Text(clean(p.title), style="dim")
        for p in shown
    ]
    line = Text(", ", style="dim").join(parts) if parts else Text("nothing found", style="yellow")
    if more := len(passages) - len(shown):
        line.append(f" and {more} more", "dim")
    return line


def entries(answer: Answer, *, plain: bool) -> Iterator[Entry]:
    """The references of an answer: numbers and title, and an excerpt below with the words that carry the answer."""
    for reference in references(answer):
        head = Text.assemble((f"{reference.marks} ", "bold"), (title_and_location(reference.passage), "bold"))
        if span := find_folded(answer.text, head.plain):
            head.stylize("green", *span)
        yield Entry(head, [excerpt(reference.passage.text, reference.spans, plain=plain)], indent=4)


def excerpt(text: str, spans: Sequence[tuple[int, int]], *, plain: bool, max_length: int = _EXCERPT) -> Text:
    """A passage around the first of the places that are used, which are marked: by ``**`` where ``plain``.

    >>> excerpt("It is by Ann Lee.", [(9, 16)], plain=True).plain
    'It is by **Ann Lee**.'
    """
    spans = sorted(spans)
    first, last = spans[0] if spans else (0, 0)
    begin = 0 if last <= max_length else text.rfind(" ", 0, max(0, first - max_length // 2)) + 1
    end = max(begin + max_length, last)
    star, at = "**" if plain else "", begin
    shown = Text("…" if begin else "")
    for start, stop in spans:
        if at <= start < stop <= end:
            shown.append(_piece(text[at:start]) + star)
            shown.append(_piece(text[start:stop]), "bold green")
            shown.append(star)
            at = stop
    shown.append(_piece(text[at:end]))
    return shown.append("…" if end < len(text) else "")


def _piece(text: str) -> str:
    """``clean``, with the blanks that part it from its neighbours."""
    inner = clean(text, len(text) + 1)
    if not inner:
        return " " if text.isspace() else ""
    return f"{' ' if text[0].isspace() else ''}{inner}{' ' if text[-1].isspace() else ''}"
