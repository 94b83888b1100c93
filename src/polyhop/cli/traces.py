"""A question's reasoning as a tree: branches with their verdicts, and each call's outcome and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from rich.text import Text
from rich.tree import Tree

from polyhop.cli.show import Entry, clean
from polyhop.cli.summaries import (
    Known,
    StepText,
    best_spans,
    describe_ask,
    describe_note,
    describe_reading,
    describe_search,
)
from polyhop.common.text import counted, printable_lines
from polyhop.trace import CALLS, Ask, Branch, Note, Readout, Score, Searched, Step, Trace, passages_in

GOOD, ON, BAD, END = ("✓", "bold green"), ("↓", "cyan"), ("✗", "red"), ("■", "yellow")
VERDICTS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("accept", "pass", "sufficient", "bound", "kept", "sure", "stands"), GOOD),
    **dict.fromkeys(
        ("search", "plan", "complete", "verify", "go on", "searched", "observed", "inserted", "edited"), ON
    ),
    **dict.fromkeys(("reject", "dropped", "nothing found", "no thought", "no plan"), BAD),
    **dict.fromkeys(("stop", "limit", "end"), END),
}
"""The sign of each verdict, and the style of sign and word."""

FOLDED = frozenset({Score.kind, Readout.kind})
"""Kinds of steps that are shown on one line if several follow each other."""
_UNNAMED = "passage"
"""The name of branches that are shown by their label only."""


@dataclass(frozen=True, slots=True)
class TraceStyle:
    """Settings for showing steps. ``marks``: citation numbers by passage id, such as "[1]"; ``known``: passages by id;
    ``plain``: no colours; ``unended``: the verdict shown for a branch that has none; ``thoughts``: show the
    reasoning of the models; ``brief``: only branches, if the trace has any."""

    marks: Mapping[str, str] = field(default_factory=dict)
    known: Known = field(default_factory=dict)
    plain: bool = True
    unended: str = ""
    thoughts: bool = False
    brief: bool = False


def trace_tree(
    trace: Trace,
    marks: Mapping[str, str] | None = None,
    *,
    plain: bool = True,
    thoughts: bool = False,
    brief: bool = False,
) -> Tree:
    """Return a trace as a tree; ``marks``, ``plain``, ``thoughts`` and ``brief`` as in ``TraceStyle``."""
    known = {passage.id: passage for passage in passages_in(trace.steps)}
    brief = brief and any(isinstance(step, Branch) for step in trace.steps)
    display = TraceStyle(marks or {}, known, plain, "cut short" if trace.budget else "", thoughts, brief)
    root = Tree(Text(clean(trace.question), style="bold"), guide_style="dim")
    _grow(root, trace, None, display, _marked_path(trace))
    if trace.budget:
        root.add(Text(f"■ budget spent: {trace.budget}", style="yellow"))
    return root


def _grow(tree: Tree, trace: Trace, parent: int | None, display: TraceStyle, critical: frozenset[int]) -> None:
    for kind, steps in groupby(trace.children(parent), key=lambda step: step.kind):
        alike = [step for step in steps if isinstance(step, Branch) or not display.brief]
        if kind in FOLDED and len(alike) > 1 and not any(trace.children(step.id) for step in alike):
            tree.add(Entry(describe_group(alike), (), _cost(alike, critical)))
            continue
        for step in alike:
            line, below = describe(step, display)
            _grow(tree.add(Entry(line, below, _cost([step], critical))), trace, step.id, display, critical)


def critical_line(trace: Trace, whole: float) -> Text:
    """Return the duration of the critical path, of ``whole`` seconds; with cached replies it may be longer."""
    marked = " (•)" if _marked_path(trace) else ""
    own = trace.critical_seconds
    rest = f"of {seconds(whole)}" if own <= whole else f"without the cache, {seconds(whole)} with it"
    return Text(f"critical path{marked}: {seconds(own)} {rest}", style="dim")


def _marked_path(trace: Trace) -> frozenset[int]:
    """Return the steps on the critical path; none if every call is on it."""
    critical = frozenset(step.id for step in trace.critical_path)
    calls = {step.id for step in trace.steps if isinstance(step, CALLS) and step.seconds}
    return critical if calls - critical else frozenset()


def describe(step: Step, display: TraceStyle) -> StepText:
    """Describe a step: its line, name or sign first, and the lines below it."""
    match step:
        case Branch():
            return StepText(_branch(step, display))
        case Searched():
            return _named("search", "blue", describe_search(step, display.marks))
        case Readout():
            return _named("read", "blue", describe_reading(step, display.known, display.plain))
        case Ask():
            text = _named(step.task, "magenta", describe_ask(step))
            return text._replace(below=(*text.below, *_thoughts(step))) if display.thoughts else text
        case Note():
            return _named(step.name, "yellow", describe_note(step, display.known))
        case Score():
            return _named("score", "magenta", StepText(Text(f"{step.task}, {counted(len(step.targets), 'texts')}")))
        case _:
            return StepText(Text(step.kind))


def _thoughts(call: Ask) -> list[Text]:
    """Return a model's reasoning, a line per line of it, all of it."""
    lines = printable_lines(call.reasoning or "").splitlines()
    return [Text(f"… {line.strip()}", style="dim italic") for line in lines if line.strip()]


def _named(name: str, style: str, text: StepText) -> StepText:
    return text._replace(head=Text.assemble((f"{clean(name)}  ", style), text.head))


def _branch(step: Branch, display: TraceStyle) -> Text:
    verdict = step.verdict or display.unended
    sign, style = VERDICTS.get(verdict, ("▸", "magenta"))
    name = "" if step.name == _UNNAMED else f"{clean(step.name)}  "
    marks = "".join(display.marks.get(passage.id, "") for passage in step.passages)
    line = Text.assemble((f"{sign} ", style), (name, "dim"), (f"{marks} " if marks else "", "bold"))
    return line.append(clean(step.label), "bold").append(f"  {clean(verdict)}" if verdict else "", style)


def describe_group(alike: Sequence[Step]) -> Text:
    """Describe many scores or readings on one line."""
    kind = alike[0].kind
    summary = best_spans([step for step in alike if isinstance(step, Readout)])
    if scores := [step for step in alike if isinstance(step, Score)]:
        summary = Text(", ".join(dict.fromkeys(step.task for step in scores)), style="dim")
    return Text.assemble((f"{kind} × {len(alike)}  ", "magenta" if scores else "blue"), summary)


def _cost(steps: Sequence[Step], critical: frozenset[int]) -> Text:
    """Return tokens and time, with a dot if a step is on the critical path."""
    if not any(isinstance(step, (*CALLS, Searched, Readout)) for step in steps):
        return Text()
    tokens = sum(tokens_of(step) for step in steps)
    size = f"{tokens:,} tok" if tokens else ""
    time = "cached" if all(isinstance(step, Ask) and step.cached for step in steps) else seconds(_time(steps))
    return Text(f"{size} {time:>7}{' •' if any(step.id in critical for step in steps) else ''}".strip(), style="dim")


def tokens_of(step: Step) -> int:
    """Return the tokens of a language model call, prompt and reply."""
    if isinstance(step, Ask):
        return step.prompt_tokens + step.completion_tokens
    return step.prompt_tokens if isinstance(step, Score) else 0


def _time(steps: Sequence[Step]) -> float:
    """Return the seconds from the first start to the last end."""
    return max(step.started + step.seconds for step in steps) - min(step.started for step in steps)


def seconds(time: float) -> str:
    """Format a duration.

    >>> seconds(0.0421), seconds(3.21)
    ('42 ms', '3.2 s')
    """
    return f"{1000 * time:.0f} ms" if time < 1 else f"{time:,.1f} s"
