"""Reports made of hand-written prediction lines: no method is run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polyhop.evaluation.report import Report
from polyhop.trace import Usage


def row(name: str, metrics: Mapping[str, float], prediction: str = "", **more: Any) -> dict[str, Any]:
    """A line of ``predictions.jsonl``; ``more`` replaces its other fields."""
    usage = more.pop("usage", Usage(searches=1))
    return {
        "id": name,
        "question": f"{name}?",
        "kind": "qa",
        "answers": [],
        "type": None,
        "prediction": prediction,
        "answering": True,
        "metrics": dict(metrics),
        "statistics": {},
        "passages": [],
        "titles": [],
        "gold": {},
        "usage": usage.to_dict(),
        **more,
    }


def report(rows: Sequence[Mapping[str, Any]], method: str = "cot", lm: str = "scripted") -> Report:
    return Report.of(rows, {}, method=method, lm=lm, dataset="by hand")


def scored(metric: str = "em", method: str = "cot", **scores: float) -> Report:
    """The report of a run with these scores of questions, by name."""
    return report([row(name, {metric: value}, f"{value:g}") for name, value in scores.items()], method)
