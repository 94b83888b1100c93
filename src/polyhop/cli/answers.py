"""Print an answer: its text with numbered citations, the cited passages, and its cost."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from polyhop.answer import (
    NO_ANSWER,
    UNREAD_NOTICE,
    Answer,
    content_is_answer,
    declined,
    references,
    support_notice,
    title_and_location,
    with_citation_marks,
)
from polyhop.cli.show import Entry, clean, print_prose
from polyhop.cli.summaries import excerpt
from polyhop.cli.traces import critical_line, trace_tree
from polyhop.common.text import citation_marks, counted, find_folded
from polyhop.trace import Usage

_MAX_NOT_CITED = 5
_MAX_CHARS = 4000
"""Maximum length of a shown paragraph, in characters."""


def print_answer(answer: Answer, *, show_trace: bool, show_thoughts: bool = False, to: Console) -> None:
    """Print the answer, its citations and, with ``show_trace``, its steps, with the models' reasoning if wanted."""
    plain = to.color_system is None
    if show_trace:
        numbers = {reference.passage.id: reference.marks for reference in references(answer)}
        print_prose(trace_tree(answer.trace, numbers, plain=plain, thoughts=show_thoughts), to)
        to.print(critical_line(answer.trace, answer.usage.elapsed))
        to.print()
    _print_text(answer, to)
    is_contradicted = answer.support == "contradicted"
    if notice := support_notice(answer):
        to.print(Text(notice, style="red" if is_contradicted else "yellow"))
    if (quotation := answer.quotation) and (answer.supported or is_contradicted) and not answer.abstained:
        marks = next((cited.marks for cited in references(answer) if cited.passage.id == quotation.passage_id), "")
        verb = "Contradicted" if is_contradicted else "Supported"
        print_prose(Text(f"{verb} by “{clean(quotation.text, _MAX_CHARS)}” {marks}", style="dim"), to)
    if answer.text and not answer.parsed:
        to.print(Text(UNREAD_NOTICE, style="yellow"))
    for entry in entries(answer, plain=plain):
        print_prose(entry, to)
    if answer.not_cited:
        _print_not_cited(answer, to)
    to.print(_cost(answer))


def cut_replies(usage: Usage) -> str:
    """Say how many calls were repeated because they reached their token limit; empty if none was."""
    if not (count := sum(usage.cut_by_task.values())):
        return ""
    return (
        f"{count:,} {'call' if count == 1 else 'calls'} reached the token limit before any text and "
        "had to be repeated with a higher limit: --reasoning-tokens 4096 avoids that"
    )


def entries(answer: Answer, *, plain: bool) -> Iterator[Entry]:
    """Yield an answer's references: numbers and title, and below an excerpt with the supporting words marked."""
    for reference in references(answer):
        head = Text.assemble((f"{reference.marks} ", "bold"), (title_and_location(reference.passage), "bold"))
        if span := find_folded(answer.text, head.plain):
            head.stylize("green", *span)
        yield Entry(head, [excerpt(reference.passage.text, reference.spans, plain=plain)], indent=4)


def _print_not_cited(answer: Answer, to: Console) -> None:
    """Print what was found or read and is not cited: the titles, or of an answer without citations also excerpts of the
    nearest passages."""
    if answer.citations:
        read = {passage.id for passage in answer.trace.read}
        for label, is_read in (("Read, not cited", True), ("Found, not read", False)):
            titles = [title_and_location(passage) for passage in answer.not_cited if (passage.id in read) is is_read]
            more = [f"and {len(titles) - _MAX_NOT_CITED:,} more"] if len(titles) > _MAX_NOT_CITED else []
            if titles:
                print_prose(Text(f"{label}: {'; '.join([*titles[:_MAX_NOT_CITED], *more])}", style="dim"), to)
        return
    to.print(Text("Nearest passages:", style="dim"))
    for passage in answer.nearest:
        head = Text(title_and_location(passage), style="bold")
        print_prose(Entry(head, [excerpt(passage.text, (), plain=to.color_system is None)], indent=4), to)
    if more_found := len(answer.not_cited) - len(answer.nearest):
        to.print(Text(f"and {more_found:,} more", style="dim"))


def _print_text(answer: Answer, to: Console) -> None:
    sure = (f"  (confidence {_share(answer.confidence)})", "dim")
    if answer.abstained:
        why = "" if declined(answer) else f"  (the best answer is too unsure: confidence {_share(answer.confidence)})"
        to.print(Text.assemble((NO_ANSWER, "bold yellow"), (why, "dim")))
        return
    head = Text("Answer:", style="bold")
    if not (answer.content and content_is_answer(answer)):
        text = answer.text if answer.content else with_citation_marks(answer)
        head = Text.assemble(head, " ", _with_marks(text or "(no answer)", "bold green"))
    print_prose(Entry(head.append_text(Text.assemble(sure))), to)
    for paragraph in filter(None, map(str.strip, answer.content.split("\n"))):
        print_prose(_with_marks(paragraph), to)


def _with_marks(text: str, style: str = "") -> Text:
    """Return a text with its citation marks, [1], highlighted."""
    shown = Text(clean(text, _MAX_CHARS), style=style)
    for start, end, _ in citation_marks(shown.plain):
        shown.stylize("bold cyan", start, end)
    return shown


def _cost(answer: Answer) -> Text:
    usage = answer.usage
    return Text(
        f"{counted(usage.calls, 'model calls')} ({usage.layers} in a row), {counted(usage.searches, 'searches')}, "
        f"{counted(usage.prompt_tokens + usage.completion_tokens, 'tokens')}, {usage.elapsed:.2f} s",
        style="dim",
    )


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"
