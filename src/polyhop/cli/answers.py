"""An answer in the terminal: its text with numbered citations, the passages they stand for, and what it cost."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from polyhop.answer import Answer, content_is_answer, declined, references, with_citation_marks
from polyhop.cli.passages import entries
from polyhop.cli.show import Entry, clean, print_prose
from polyhop.cli.traces import critical_line, trace_tree
from polyhop.common.text import citation_marks, counted
from polyhop.trace import Usage

_MAX_CHARS = 4000
"""Characters of a paragraph that are shown."""


def print_answer(answer: Answer, *, show_trace: bool, to: Console) -> None:
    """The answer, its citations, and, if asked for, how it was found."""
    plain = to.color_system is None
    if show_trace:
        numbers = {reference.passage.id: reference.marks for reference in references(answer)}
        print_prose(trace_tree(answer.trace, numbers, plain=plain), to)
        to.print(critical_line(answer.trace, answer.usage.seconds))
        to.print()
    _print_text(answer, to)
    if not answer.supported and not answer.abstained:
        to.print(Text("No retrieved evidence supports this answer.", style="yellow"))
    for entry in entries(answer, plain=plain):
        print_prose(entry, to)
    to.print(_cost(answer))


def cut_replies(usage: Usage) -> str:
    """Say how many calls were made twice because their token cap was spent; empty where none was."""
    if not (count := sum(usage.cut_by_task.values())):
        return ""
    return (
        f"{count:,} {'call' if count == 1 else 'calls'} spent the token cap before any text came and went out again "
        "with a larger one: --max-tokens-per-call saves that"
    )


def _print_text(answer: Answer, to: Console) -> None:
    sure = (f"  (confidence {_share(answer.confidence)})", "dim")
    if answer.abstained:
        too_low = f"its confidence, {_share(answer.confidence)}, is too low"
        to.print(Text(f"No answer: {'none was found' if declined(answer) else too_low}.", style="bold yellow"))
        return
    head = Text("Answer:", style="bold")
    if not (answer.content and content_is_answer(answer)):
        text = answer.text if answer.content else with_citation_marks(answer)
        head = Text.assemble(head, " ", _with_marks(text or "(none)", "bold green"))
    print_prose(Entry(head.append_text(Text.assemble(sure))), to)
    for paragraph in filter(None, map(str.strip, answer.content.split("\n"))):
        print_prose(_with_marks(paragraph), to)


def _with_marks(text: str, style: str = "") -> Text:
    """A text whose marks, [1], stand out."""
    shown = Text(clean(text, _MAX_CHARS), style=style)
    for start, end, _ in citation_marks(shown.plain):
        shown.stylize("bold cyan", start, end)
    return shown


def _cost(answer: Answer) -> Text:
    usage = answer.usage
    return Text(
        f"{counted(usage.calls, 'model calls')} ({usage.layers} in a row), {counted(usage.searches, 'searches')}, "
        f"{counted(usage.prompt_tokens + usage.completion_tokens, 'tokens')}, {usage.seconds:.2f} s",
        style="dim",
    )


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"
