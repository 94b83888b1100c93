"""Evaluation of several methods over the same questions, corpus and model, one run per method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyhop.engine.options import LM, Source
from polyhop.errors import UnknownName, UsageError
from polyhop.evaluation.report import Report
from polyhop.evaluation.runner import Progress
from polyhop.evaluation.runs import WRONG_INPUT, RunInputs, RunSpec, folder_in, open_index, run_all
from polyhop.evaluation.setups import setup_settings
from polyhop.methods.registry import method_named, methods
from polyhop.metrics import Metrics
from polyhop.pipeline import Pipeline
from polyhop.retrieval.index import Index
from polyhop.types import Question

ALL = "all"


@dataclass(frozen=True, slots=True)
class MethodReports:
    """A report per method that ran; ``left_out``: the methods that could not run, and why."""

    reports: Mapping[str, Report]
    left_out: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "reports": {name: report.to_dict() for name, report in self.reports.items()},
            "left_out": dict(self.left_out),
        }


def parse_methods(spec: str) -> list[str]:
    """Return the methods of ``"all"`` or of comma-separated names.

    >>> parse_methods("tor,one-r")
    ['tor', 'one-r']
    """
    names = [name.strip() for name in spec.split(",")]
    return list(methods()) if names == [ALL] else [method_named(name).name for name in dict.fromkeys(names)]


def evaluate_methods(
    names: Sequence[str],
    dataset: str | Path | Sequence[Question],
    corpus: Source | None = None,
    lm: LM = "pocket",
    *,
    out: str | Path | None = None,
    limit: int | None = None,
    skip_bad: bool = False,
    progress: Progress | None = None,
    title: str | None = None,
    metrics: Metrics = None,
    setup: str | None = None,
    **options: Any,
) -> MethodReports:
    """Run ``evaluate`` for each method; the index and the questions are read once.

    ``out``: a folder with a run's folder per method; the same command resumes there. A method's setting among
    ``options`` goes to every method that has it. ``setup``: the budgets of a paper's comparison, in each method's own
    settings. A method that needs more than the model, corpus or reader offer is left out, with the reason.

    Raises:
        UnknownName: no method has a setting of that name.
        UsageError: none of the methods could run.
    """
    inputs = RunInputs.read(dataset, limit=limit, skip_bad=skip_bad, title=title, metrics=metrics)
    index = open_index(corpus, skip_bad)
    own, common = _divided(names, options)
    if setup is not None:
        own = {name: {**setup_settings(setup, name, given, inputs.questions), **given} for name, given in own.items()}
    ready, left_out = _ready(names, index, lm, own, common)
    if not ready:
        raise UsageError(f"none of these methods can run; {next(iter(left_out))}: {next(iter(left_out.values()))}")
    shared = {"corpus": index, "lm": lm, "title": inputs.title, "metrics": inputs.profiles, **common}
    specs = [
        RunSpec(name, inputs.questions, {**shared, "method": name, "out": folder_in(out, name), **own[name]})
        for name in ready
    ]
    return MethodReports(dict(run_all(specs, progress)), left_out)


def _divided(names: Sequence[str], options: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Divide the options into each method's own settings and those that belong to no method."""
    settings = {name: method_named(name).settings for name in names}
    everyones = {setting for method in methods().values() for setting in method.settings}
    known = {setting for own in settings.values() for setting in own}
    if strange := next((name for name in options if name in everyones - known), None):
        raise UnknownName(f"setting of {', '.join(names)}", strange, known)
    own = {name: {key: options[key] for key in options if key in settings[name]} for name in names}
    return own, {key: value for key, value in options.items() if key not in known}


def _ready(
    names: Sequence[str], index: Index | None, lm: LM, own: Mapping[str, Mapping[str, Any]], common: Mapping[str, Any]
) -> tuple[list[str], dict[str, str]]:
    """Return the methods that can run, and why the others cannot, by opening each before any call."""
    ready, left_out = [], {}
    opened = {key: value for key, value in common.items() if key not in ("concurrency", "telemetry", "engine")}
    for name in names:
        try:
            Pipeline(index, name, lm, **opened, **own[name]).close()
        except WRONG_INPUT:
            raise
        except UsageError as lack:
            left_out[name] = str(lack)
        else:
            ready.append(name)
    return ready, left_out
