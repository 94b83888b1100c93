"""Describe the outcome of a trace step in words: a model's reply, a note, the passages found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.text import Text

from polyhop.answer import title_and_location
from polyhop.cli.show import clean
from polyhop.common.text import counted
from polyhop.trace import Ask, Note, Readout, Searched
from polyhop.types import Passage, Span

Known = Mapping[str, Passage]
"""The passages of a trace by their ids."""


_MAX_TITLES = 15
_EXCERPT = 200
"""Characters of a passage that are shown under an answer."""


class StepText(NamedTuple):
    """A step's own line, and the lines below it."""

    head: Text
    below: Sequence[Text] = ()


FLAGS: Mapping[str, tuple[str, str]] = {
    "relevant": ("relevant", "not relevant"),
    "supported": ("enough", "not enough"),
    "sufficient": ("enough", "not enough yet"),
    "answered": ("answered", "not answered"),
    "valid": ("valid", "not valid"),
    "correct": ("correct", "not correct"),
}
"""A model's judgements in words: true, false."""
_ANSWERS = ("answer", "response", "intermediate", "final")
_NEXT = ("query", "sub_question", "information", "follow_up", "action")
_PROSE = ("thought", "analysis", "rationale", "summary", "sentence", "text", "content")
_MAX_LINES = 6
_SHORT, _LINE, _PROSE_LINE = 50, 160, 300
"""Characters: of prose that has room on a step's own line, of a line, of prose."""


def describe_ask(step: Ask) -> StepText:
    """Describe a language model call: its judgements, answer and next question; its reasoning below."""
    if step.output is None:
        return StepText(Text(f"could not be read: {clean(step.problem or '')}", style="red"))
    output = {name: value for name, value in step.output.items() if value is not None}
    if output.get("answered") is True and output.get("response"):
        del output["answered"]
    if output.get("relevant") is False and output.get("supported") is False:
        del output["supported"]
    heads = [_value(name, value, output) for name, value in output.items() if name not in (*_PROSE, "argument")]
    prose = [Text(clean(str(output[name]), _PROSE_LINE), style="dim") for name in _PROSE if output.get(name)]
    below = [line for name, value in output.items() if _is_list(value) for line in _listed(value)]
    if not heads and len(prose) == 1 and len(prose[0]) <= _SHORT:
        return StepText(prose[0])
    return StepText(_joined(heads) if heads or prose else Text("nothing", style="dim"), (*below, *prose))


def _value(name: str, value: Any, output: Mapping[str, Any]) -> Text:
    """Return one value of a reply, for the step's line."""
    if name in FLAGS and isinstance(value, bool):
        return Text(FLAGS[name][not value], style="" if value else "dim")
    if name in _ANSWERS:
        return Text.assemble(("= ", "dim"), (clean(str(value), _LINE) or "(nothing)", "green"))
    if name == "action":
        return Text(f"→ {clean(str(value))}[{clean(str(output.get('argument', '')), _LINE)}]", style="cyan")
    if name in _NEXT:
        return Text.assemble(("→ ", "dim"), (clean(str(value), _LINE) or "(nothing)", "cyan"))
    if _is_list(value):
        return Text(counted(len(value), _words(name)))
    return Text(f"{_words(name)} {clean(in_plain_words(value), _LINE)}", style="dim")


def _is_list(value: Any) -> bool:
    """Return True if a value takes several lines: a list of texts, triplets, nodes or steps."""
    return isinstance(value, (list, tuple)) and not all(isinstance(item, (int, float)) for item in value)


def _listed(values: Sequence[Any]) -> list[Text]:
    return _first(clean(_item(value), _LINE) for value in values)


def _first(lines: Iterable[str]) -> list[Text]:
    """Return the first lines, and the number of the others."""
    shown = [Text(line, style="dim") for line in lines]
    more = len(shown) - _MAX_LINES
    return [*shown[:_MAX_LINES], Text(f"and {more} more", style="dim")] if more > 0 else shown


def _item(value: Any) -> str:
    """Write an item of a list: a triplet, a query with its answer, a text."""
    match value:
        case {"head": head, "relation": relation, "tail": tail}:
            return f"{head} —{relation}→ {tail}"
        case {"query": query, "answer": answer}:
            return f"{query} = {answer}" if answer else f"{query} = ?"
        case {"sub_question": query, **rest}:
            return " = ".join([str(query), *(str(value) for value in rest.values() if value)])
        case _:
            return in_plain_words(value)


def describe_note(note: Note, known: Known) -> StepText:
    """Describe a method's note: notes of shipped methods by their meaning, others value by value."""
    match note.name, note.data:
        case "graph", {"triplets": [*triplets]}:
            return StepText(Text(counted(len(triplets), "triplets")))
        case "binding", {"variable": variable, "answer": answer, "graph": [*triplets]}:
            return StepText(Text(f"{clean(str(variable))} = {clean(str(answer))}"), _listed(triplets))
        case "memory", {"global_evidence": [*notes], "local_pathway": [*pathway]}:
            return StepText(Text(f"{counted(len(notes), 'notes')}, {counted(len(pathway), 'steps')}"))
        case "paths", {"ranked": [{"passages": _, "score": float()}, *_] as ranked}:
            return StepText(Text(counted(len(ranked), "paths")), _paths(ranked, known))
        case "final content", {
            "nodes": [{"query": _, "answer": _, "source": _}, *_] as nodes,
            "references": [*references],
        }:
            return StepText(Text(counted(len(nodes), "nodes")), _nodes(nodes, references))
        case _:
            return StepText(Text(clean(in_plain_words(note.data))))


def _paths(ranked: Sequence[Mapping[str, Any]], known: Known) -> list[Text]:
    """List the best paths by their passages' titles."""
    return _first(
        f"{path['score']:8.3f}  {' → '.join(_title(name, known) for name in path['passages'])}" for path in ranked
    )


def _nodes(nodes: Sequence[Mapping[str, Any]], references: Sequence[Mapping[str, Any]]) -> list[Text]:
    """List the nodes of a reasoning path: the source of each answer, and if its passage supports it."""
    judged = {reference["marker"]: reference["supported"] for reference in references}
    return [
        Text.assemble(
            (f"[{number}]", "bold"),
            _SUPPORT[judged.get(number)],
            " " + clean(f"{node['query']} = {node['answer']}", _LINE),
            (f"  {_SOURCES.get(node['source'], node['source'])}", "dim"),
        )
        for number, node in enumerate(nodes, 1)
    ]


_SUPPORT: Mapping[bool | None, tuple[str, str]] = {True: (" ✓", "green"), False: (" ✗", "red"), None: ("", "")}
_SOURCES = {"lm": "the model's", "corrected": "corrected by search", "completed": "completed by search"}


def describe_search(step: Searched, marks: Mapping[str, str]) -> StepText:
    """Describe a search: the query, and the passages found below it."""
    return StepText(Text(clean(step.query, _LINE)), [Text.assemble(("→ ", "dim"), titles(step.passages, marks))])


def describe_reading(step: Readout, known: Known, plain: bool) -> StepText:
    """Describe a reading: the best span, and the passage around it below."""
    asked = Text(clean(step.question, _LINE))
    best = next((span for span in step.spans if span.answerable and span.text.strip()), None)
    if best is None:
        return StepText(asked, [Text("→ nothing read", style="yellow")])
    found = Text.assemble(("= ", "dim"), (clean(best.text, _LINE), "green"), (f"  {best.confidence:.3g}", "dim"))
    if passage := known.get(best.passage_id):
        found.append(f"  in {title_and_location(passage)}", "dim")
        return StepText(asked, [found, excerpt(passage.text, [(best.start, best.end)], plain=plain, max_length=_LINE)])
    return StepText(asked, [found])


def best_spans(steps: Sequence[Readout]) -> Text:
    """Return the most confident answers of many readings, without duplicates."""
    spans = sorted((span for step in steps for span in step.spans if span.answerable), key=_by_confidence)
    texts = list(dict.fromkeys(clean(span.text, 60) for span in spans if span.text.strip()))[:3]
    return Text("= " + " · ".join(texts), style="green") if texts else Text("nothing read", style="yellow")


def _by_confidence(span: Span) -> float:
    return -span.confidence


def titles(passages: Sequence[Passage], marks: Mapping[str, str]) -> Text:
    """List passages by title, best first, cited ones with their numbers. ``marks``: by passage id, such as "[1]"."""
    shown = [passage for rank, passage in enumerate(passages) if rank < _MAX_TITLES or passage.id in marks]
    parts = [
        Text(f"{marks[p.id]} {clean(p.title)}", style="bold") if p.id in marks else Text(clean(p.title), style="dim")
        for p in shown
    ]
    line = Text(", ", style="dim").join(parts) if parts else Text("nothing found", style="yellow")
    if more := len(passages) - len(shown):
        line.append(f" and {more} more", "dim")
    return line


def excerpt(text: str, spans: Sequence[tuple[int, int]], *, plain: bool, max_length: int = _EXCERPT) -> Text:
    """Return the part of a passage around the first of its spans, with the spans marked: by ``**`` if ``plain``.

    >>> excerpt("It is by Ann Lee.", [(9, 16)], plain=True).plain
    'It is by **Ann Lee**.'
    """
    spans = sorted(spans)
    first, last = spans[0] if spans else (0, 0)
    begin = 0 if last <= max_length else text.rfind(" ", 0, max(0, first - max_length // 2)) + 1
    end = max(begin + max_length, last)
    if end < len(text):  # the last whole word, unless the text has no blanks
        end = max(text.rfind(" ", 0, end + 1), last) if " " in text[begin:end] else end
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
    """Clean a text, but keep a blank at its start and end."""
    inner = clean(text, len(text) + 1)
    if not inner:
        return " " if text.isspace() else ""
    return f"{' ' if text[0].isspace() else ''}{inner}{' ' if text[-1].isspace() else ''}"


def in_plain_words(value: Any) -> str:
    """Write a value in words, without brackets or quotes.

    >>> in_plain_words({"stated": ["a", "b"], "sure": 0.25, "left": True})
    'stated: a · b; sure: 0.25; left: yes'
    """
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.3g}"
        case Mapping():
            return "; ".join(f"{_words(str(name))}: {in_plain_words(inner)}" for name, inner in value.items())
        case str() | None:
            return value or "–"
        case Sequence():
            return " · ".join(map(_item, value)) or "none"
        case _:
            return str(value)


def _title(name: str, known: Known) -> str:
    return clean(known[name].title if name in known else name)


def _joined(parts: Sequence[Text]) -> Text:
    """Join judgements by commas, and the rest by spaces."""
    line = Text()
    for part in {part.plain: part for part in parts}.values():
        apart = part.plain.startswith(("=", "→"))
        line.append("" if not line else "  " if apart else ", ")
        line.append_text(part)
    return line


def _words(name: str) -> str:
    return name.replace("sub_", "sub-").replace("_", " ")
