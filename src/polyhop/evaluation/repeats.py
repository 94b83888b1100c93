"""Repeated runs with different seeds: the spread of a figure over runs, beside its interval over questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from polyhop.engine.options import LM, Source
from polyhop.errors import DataError, SettingError
from polyhop.evaluation.compare import on_common_questions
from polyhop.evaluation.report import Report
from polyhop.evaluation.runner import Progress
from polyhop.evaluation.runs import RunInputs, RunSpec, folder_in, open_index, run_all
from polyhop.evaluation.statistics import means
from polyhop.evaluation.store import read_report
from polyhop.metrics import Metrics
from polyhop.types import Question

_FOLDER = "seed-"
_COMPARED = ("prediction", "metrics", "statistics")


@dataclass(frozen=True, slots=True)
class Spread:
    """A metric over several runs: ``mean`` and standard deviation (of a sample: n - 1) of their values, and the 95 %
    interval over the ``n`` questions, each with its mean over the runs."""

    mean: float
    std: float
    low: float
    high: float
    n: int

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {name: round(getattr(self, name), 6) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Repeated:
    """The reports of repeated runs, by seed."""

    reports: Mapping[int, Report]

    @property
    def identical(self) -> bool:
        """True if all runs gave the same answers, scores and statistics: nothing is random, or a cache answered."""
        first, *others = (
            [[row[name] for name in _COMPARED] for row in report.rows] for report in self.reports.values()
        )
        return all(rows == first for rows in others)

    def metrics(self) -> dict[str, Spread]:
        """Return the spread of the metrics that all runs have."""
        return self._spread("metrics")

    def statistics(self) -> dict[str, Spread]:
        """Return the spread of the method's statistics that all runs have."""
        return self._spread("statistics")

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "runs": {str(seed): report.to_dict() for seed, report in self.reports.items()},
            "identical": self.identical,
            "metrics": {name: spread.to_dict() for name, spread in self.metrics().items()},
            "statistics": {name: spread.to_dict() for name, spread in self.statistics().items()},
        }

    def _spread(self, part: str) -> dict[str, Spread]:
        runs = on_common_questions({str(seed): report for seed, report in self.reports.items()}).values()
        by_id: dict[str, list[Mapping[str, float]]] = {row["id"]: [] for report in runs for row in report.rows}
        for report in runs:
            for row in report.rows:
                by_id[row["id"]].append(row[part])
        questions = [
            {name: [values[name] for values in each] for name in each[0] if all(name in values for values in each)}
            for each in by_id.values()
        ]
        found = {}
        for name, mean in means({name: fmean(scores) for name, scores in row.items()} for row in questions).items():
            values = [fmean(run) for run in zip(*(row[name] for row in questions if name in row), strict=True)]
            std = stdev(values) if len(values) > 1 else 0.0
            found[name] = Spread(mean.value, std, mean.low, mean.high, mean.n)
        return found


def evaluate_repeated(
    repeat: int,
    dataset: str | Path | Sequence[Question],
    corpus: Source | None = None,
    method: str = "tor",
    lm: LM = "pocket",
    *,
    out: str | Path | None = None,
    limit: int | None = None,
    skip_bad: bool = False,
    progress: Progress | None = None,
    title: str | None = None,
    metrics: Metrics = None,
    seed: int | None = None,
    **options: Any,
) -> Repeated:
    """Run ``evaluate`` with the seeds ``seed`` (by default 0), ``seed + 1``, … ``seed + repeat - 1``, over one index.

    ``out``: a folder with a run's folder per seed, ``seed-0`` and so on; the same command resumes there. Every repeat
    makes its own calls, even if the model takes no seed: a cached reply serves one seed.
    ``SettingError`` for fewer than 2 runs.
    """
    if repeat < 2:
        raise SettingError(f"repeat={repeat}: must be 2 or more")
    declining = options.get("allow_unanswerable", False)
    inputs = RunInputs.read(
        dataset, corpus, limit=limit, skip_bad=skip_bad, title=title, metrics=metrics, allow_unanswerable=declining
    )
    shared = {
        "corpus": open_index(inputs.corpus, skip_bad),
        "method": method,
        "lm": lm,
        "title": inputs.title,
        "metrics": inputs.profiles,
        **options,
    }
    first = seed or 0
    specs = [
        RunSpec(number, inputs.questions, {**shared, "seed": number, "out": folder_in(out, f"{_FOLDER}{number}")})
        for number in range(first, first + repeat)
    ]
    return Repeated(dict(run_all(specs, progress)))


def is_repeated(folder: str | Path) -> bool:
    """Return True if a folder holds the runs of ``evaluate_repeated``."""
    return not (Path(folder) / "run.json").exists() and bool(_folders(Path(folder)))


def read_repeated(folder: str | Path, **scoring: Any) -> Repeated:
    """Read the runs in a folder; ``scoring`` as in ``read_report``. ``DataError`` if there is none."""
    if not (folders := _folders(Path(folder))):
        raise DataError(f"no repeated run: it has no folder {_FOLDER}0 or similar", folder)
    return Repeated({seed: read_report(path, **scoring) for seed, path in sorted(folders.items())})


def _folders(folder: Path) -> dict[int, Path]:
    names = {path.name.removeprefix(_FOLDER): path for path in folder.glob(f"{_FOLDER}*") if path.is_dir()}
    return {int(name): path for name, path in names.items() if name.removeprefix("-").isdecimal()}
