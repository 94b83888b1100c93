"""The data of a page's script: the questions of all runs, and the traces of some, as JSON inside the page.

Each trace is an element of its own, so that the browser reads it only when its question is opened. JSON inside HTML
must not end its element: every ``<``, ``>`` and ``&`` of a string is written as an escape that JSON reads back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from polyhop.evaluation.errors import error_of, is_judged
from polyhop.evaluation.report import Report
from polyhop.evaluation.store import read_trace

Row = Mapping[str, Any]

_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
_LEFT_OUT = frozenset(
    {"volatile", "after", "tokens", "logprobs", "prompt", "prompt_hash", "rendering", "shots", "sample", "retry_of"}
    | {"tools", "turns", "tool_calls", "carried", "continues"}
)
"""Fields of steps that the page does not show; ``prompt`` is the prompt hash of older traces."""
_OF_ANSWER = ("content", "confidence", "support", "supported", "quotation", "abstained", "notice")
_LOCATION = ("source", "page", "last_page", "heading")


def element(name: str, value: Any) -> str:
    """Return ``value`` as a ``<script type="application/json">`` with that id.

    >>> element("a", ["</script><b>"])
    '<script type="application/json" id="a">["\\\\u003c/script\\\\u003e\\\\u003cb\\\\u003e"]</script>'
    """
    content = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
    return f'<script type="application/json" id="{name}">{content.translate(_ESCAPES)}</script>'


def questions(reports: Mapping[str, Report]) -> list[dict[str, Any]]:
    """Return every question that a run answered, in the first run's order, with its gold and its result per run."""
    answered = [{row["id"]: row for row in report.rows} for report in reports.values()]
    known: dict[str, Row] = {}
    for rows in answered:
        for name, row in rows.items():
            known.setdefault(name, row)
    return [
        {
            "id": name,
            "text": row["question"],
            "type": row.get("type"),
            "hops": row.get("hops"),
            "answers": row["answers"],
            "gold": row.get("gold") or {},
            "runs": [_cell(rows[name]) if name in rows else None for rows in answered],
        }
        for name, row in known.items()
    ]


def _cell(row: Row) -> dict[str, Any]:
    """Return the result of one run on a question."""
    usage, error = row["usage"], error_of(row)
    scored = {name: round(value, 4) for name, value in row["metrics"].items() if "@" not in name}
    return {
        "answer": row["prediction"],
        "right": error is None if is_judged(row) else None,
        "error": error,
        "metrics": scored,
        "confidence": row.get("confidence"),
        "support": row.get("support"),
        "supported": row.get("supported"),
        "budget": row.get("budget"),
        "calls": usage["calls"],
        "searches": usage["searches"],
        "tokens": usage["prompt_tokens"] + usage["completion_tokens"],
        "trace": row.get("trace"),
    }


def select_traces(rows: Sequence[Mapping[str, Any]], max_traces: int) -> list[int]:
    """Return the positions of the questions whose traces a page holds; questions that a run got wrong come first."""
    wrong = [number for number, row in enumerate(rows) if any(cell and cell["error"] for cell in row["runs"])]
    return sorted(list(dict.fromkeys([*wrong, *range(len(rows))]))[: max(0, max_traces)])


def traces(rows: Sequence[Mapping[str, Any]], positions: Iterable[int], folders: Sequence[Path]) -> Iterator[str]:
    """Yield the traces of the questions at ``positions`` as elements ``t-QUESTION-RUN``; those gone are left out."""
    for position in positions:
        for run, (folder, cell) in enumerate(zip(folders, rows[position]["runs"], strict=True)):
            if cell and cell["trace"] and (trace := _trace(folder, cell)) is not None:
                yield element(f"t-{position}-{run}", trace)


def _trace(folder: Path, cell: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        answer = read_trace(folder, cell)
        trace = answer["trace"]
        passages = {passage["id"]: passage for passage in answer["passages"]} | trace["passages"]
        return {
            "answer": {name: answer.get(name) for name in _OF_ANSWER}
            | {name: answer[name] for name in ("answer", "evidence", "citations", "usage")},
            "ranked": [passage["id"] for passage in answer["passages"]],
            "trace": {
                "budget": trace.get("budget"),
                "passages": {name: _passage(passage) for name, passage in passages.items()},
                "steps": [
                    {name: value for name, value in step.items() if name not in _LEFT_OUT} for step in trace["steps"]
                ],
            },
        }
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _passage(passage: Mapping[str, Any]) -> dict[str, Any]:
    metadata = passage.get("metadata", {})
    return {
        "id": passage["id"],
        "title": passage["title"],
        "text": passage["text"],
        "metadata": {name: metadata[name] for name in _LOCATION if name in metadata},
    }
