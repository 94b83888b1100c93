"""The task of search agents: to go on with a text that searches, as Search-R1 writes it.

``assistant`` is the text so far, with all results; ``draft`` is the end of it, since the last results. ``tags`` are the
tags of a query, of the answer, and others, by name; ``steps`` is ``[{"query": str, "passages": [Passage]}]``, for
models that answer from typed fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import dropwhile
from typing import NamedTuple

from pydantic import ConfigDict, Field

from polyhop.prompts.answers import clean_value
from polyhop.prompts.show import harmless
from polyhop.prompts.tasks.base import ContinuedTask, Fields, Output

MAX_OPEN_QUERY = 300
"""Characters of a query that a stop string left open; more is prose that names the tag."""
_BRACES = re.compile(r"[{}]")
_OUTER = re.compile(r"\\(?:text|mathrm|mathbf|textbf)\{")


class Piece(Output):
    """The text up to the first search or the answer, with the tag that closes it."""

    ANSWER = "answer"
    model_config = ConfigDict(str_strip_whitespace=False)

    text: str = Field(default="", description="how the text goes on, up to the search or the answer")
    query: str | None = Field(default=None, description="what is searched, null if the answer is given")
    answer: str | None = Field(default=None, description="{>brief}, null if something is searched")


class Action(NamedTuple):
    """A search or an answer in a text: the content of its tags, and its end; ``closing`` is the tag it still needs."""

    name: str
    content: str
    end: int
    closing: str = ""


def first_action(text: str, tags: Mapping[str, Sequence[str]], *, is_cut: bool = False) -> Action | None:
    """Find the first search or answer whose tags are closed; at the end of a text that is not cut also one whose tag a
    stop string closed. None if the text has none yet.

    >>> marks = {"search": ("<search>", "</search>"), "answer": ("<answer>", "</answer>")}
    >>> first_action("I use <search>. <search>Dark Mill</search> <answer>Rome</answer>", marks)
    Action(name='search', content='Dark Mill', end=42, closing='')
    >>> first_action("So it is <answer> Rome", marks)
    Action(name='answer', content=' Rome', end=22, closing='</answer>')
    >>> first_action("Hence \\\\boxed{\\\\text{Rome}}.", {**marks, "answer": ("\\\\boxed{", "}")}).content
    '\\\\text{Rome}'
    """
    opened: dict[str, int] = {}
    for tag in _tags(*(mark for name in ("search", "answer") for mark in tags[name])).finditer(text):
        name, _, end = str(tag.lastgroup).partition("_")
        if not end:
            opened[name] = tag.end()
        elif name in opened:
            return Action(name, text[opened[name] : tag.start()], tag.end())
    if tags["answer"][1] == "}" and (found := _boxed(text, opened.pop("answer", None), is_cut=is_cut)) is not None:
        return Action("answer", found, len(text))
    if not opened or is_cut:
        return None
    name = max(opened, key=lambda name: opened[name])
    content = text[opened[name] :]
    if name == "search" and len(content.strip()) > MAX_OPEN_QUERY:
        return None
    return Action(name, content, len(text), tags[name][1])


@lru_cache(maxsize=32)
def _tags(search: str, search_end: str, answer: str, answer_end: str) -> re.Pattern[str]:
    marks = {"search": search, "search_end": search_end, "answer": answer, "answer_end": answer_end}
    kept = [f"(?P<{name}>{re.escape(mark)})" for name, mark in marks.items() if mark != "}"]
    return re.compile("|".join(kept), re.IGNORECASE)


def _boxed(text: str, start: int | None, *, is_cut: bool = False) -> str | None:
    """Return what stands from ``start`` up to the brace that closes it; None if there is no start, or no such brace in
    a text that is cut."""
    if start is None:
        return None
    depth = 1
    for brace in _BRACES.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[start : brace.start()]
    return None if is_cut else text[start:]


def answer_in(content: str) -> str | None:
    """Return the answer in the content of its tags, which may be boxed, as ReSearch writes it; None for nothing.

    >>> answer_in("The final answer is \\\\[ \\\\boxed{\\\\text{Rome}} \\\\]"), answer_in(" Rome "), answer_in("")
    ('Rome', 'Rome', None)
    """
    if (start := content.rfind("\\boxed{")) >= 0:
        content = _boxed(content, start + len("\\boxed{")) or ""
    if inner := _OUTER.match(content.strip()):
        content = _boxed(content.strip(), inner.end()) or ""
    return clean_value(content)


def read_piece(text: str, fields: Fields) -> dict[str, str | None]:
    """Read how a text goes on, up to its first action; a copy of the text so far, or of the prompt, does not count."""
    text = text.removeprefix(fields["assistant"])
    if fields["form"] == "shown":
        if begun := shown_text(fields["assistant"], fields).strip():
            text = text.rpartition(begun)[2] or text
        prompted = {"", *map(str.strip, fields["user"].splitlines())}
        text = "".join(dropwhile(lambda line: line.strip() in prompted, text.splitlines(keepends=True))) or text
    draft = fields["draft"]
    if (action := first_action(draft + text, fields["tags"], is_cut=bool(fields.get("is_cut")))) is None:
        return {"text": text, "query": None, "answer": None}
    text = text[: max(0, action.end - len(draft))] + action.closing
    content = clean_value(action.content) if action.name == "search" else answer_in(action.content)
    return {"text": text, "query": None, "answer": None, "query" if action.name == "search" else "answer": content}


def shown_text(text: str, fields: Fields) -> str:
    """Return the text so far as a user's turn shows it: only the tags of the protocol are tags."""
    pieces = _tags_of(tuple(map(tuple, fields["tags"].values()))).split(text)
    return "".join([piece if i % 2 else harmless(piece) for i, piece in enumerate(pieces)])


@cache
def _tags_of(marks: tuple[tuple[str, ...], ...]) -> re.Pattern[str]:
    """Compile the tags of a protocol, as a group."""
    tags = {tag for pair in marks for tag in pair} - {"}"}
    return re.compile(f"({'|'.join(map(re.escape, sorted(tags)))})")


def write_piece(output: Piece, fields: Fields) -> str:
    """Write the text that ``read_piece`` reads."""
    return output.text


SEARCH_AGENT_WRITE = ContinuedTask(
    "search_agent.write",
    fields=("question", "system", "user", "assistant", "form", "draft", "tags", "steps", "kind"),
    output=Piece,
    parse=read_piece,
    write=write_piece,
    default={"text": ""},
    unshown=("question", "system", "draft", "tags", "steps"),
    show={"user": lambda text, fields: text, "assistant": shown_text},
)
