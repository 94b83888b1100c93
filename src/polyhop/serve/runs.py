"""The runs under a folder, to look at: their metrics, their questions with traces, and comparisons of two runs.

Nothing that a client sends becomes a path: runs, questions and traces are looked up by name among the existing ones.
The content of a run's files is not trusted: a damaged file is an error that names the run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import orjson

from polyhop.common.files import read_inside
from polyhop.errors import DataError, UsageError
from polyhop.evaluation.compare import compare
from polyhop.evaluation.errors import MEANINGS
from polyhop.evaluation.figures import distinct, is_shown
from polyhop.evaluation.pages import embedded
from polyhop.evaluation.pages.page import standalone_svg
from polyhop.evaluation.pages.summary import cost_plot
from polyhop.evaluation.predictions import TRACES
from polyhop.evaluation.report import Report, applies
from polyhop.evaluation.store import DEPTH, PREDICTIONS, read_report
from polyhop.serve.errors import UnknownRun

KEPT = 16
"""Number of recently used runs whose questions stay in memory."""

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Read:
    """A run in memory: ``stamp`` identifies the version of its predictions; ``traces`` maps questions to files."""

    stamp: tuple[int, int]
    report: Report
    questions: Sequence[Json]
    traces: Mapping[str, str]


class Runs:
    """The runs under ``folder``, finished or unfinished; none if it is None. Thread-safe.

    The name of a run is the path of its folder, with colons: ``sweep:tor``.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._kept: OrderedDict[str, Read] = OrderedDict()
        self._lock = Lock()

    def folders(self) -> dict[str, Path]:
        """Return the folders of all runs by name."""
        return dict(_runs_in(self._folder, (), DEPTH)) if self._folder else {}

    def rows(self) -> list[Json]:
        """Return a row per run, newest first: its settings, its progress, and the metrics that tables show."""
        rows = [self._row(name, folder) for name, folder in self.folders().items()]
        return sorted(rows, key=lambda row: row["changed"], reverse=True)

    def run(self, name: str) -> Json:
        """Return a run's settings and all its metrics.

        Raises:
            UnknownRun: no run has this name.
        """
        folder = self._find(name)
        with _whole(name):
            settings = _object(folder, "run.json")
        figures, finished = self._figures(name, folder)
        return {"run": name, "finished": finished, "settings": settings, **figures}

    def questions(
        self,
        name: str,
        *,
        wrong: bool | None = None,
        type: str | None = None,
        search: str = "",
        offset: int = 0,
        limit: int = 100,
    ) -> Json:
        """Return ``limit`` questions of a run from ``offset`` on, in dataset order, and the total number.

        ``wrong``: only those judged wrong (or right, if False); ``type``: the dataset's question type; ``search``: text
        in the question, its answer or a gold answer.
        """
        every = self._read(name).questions
        found = [
            row
            for row in every
            if (wrong is None or row["right"] is (not wrong))
            and (type is None or row["type"] == type)
            and any(search.casefold() in text.casefold() for text in _texts(row))
        ]
        return {
            "run": name,
            "total": len(found),
            "offset": offset,
            "types": sorted({str(row["type"]) for row in every if row["type"] is not None}),
            "errors": dict(MEANINGS),
            "questions": found[offset : offset + limit],
        }

    def question(self, name: str, question: str) -> Json:
        """Return a question of a run: its result (``row``), its answer and its trace as in ``Answer.to_dict``. The last
        two are None if their file is missing."""
        read = self._read(name)
        row = next((row for row in read.questions if row["id"] == question), None)
        if row is None:
            raise UnknownRun(f"question of the run {name}", question[:200], ())
        with _whole(name):
            try:
                answer = _object(self._find(name), Path(TRACES, Path(read.traces[question]).name))
            except OSError:  # missing, or a link out of the run
                answer = None
        trace = answer.pop("trace", None) if answer else None
        return {"run": name, "method": read.report.method, "row": row, "answer": answer, "trace": trace}

    def compare(self, first: str, second: str) -> Json:
        """Compare two runs on the questions that both answered: each metric's difference with its interval and p-value
        by paired bootstrap, and the questions that only one got right.

        Raises:
            UsageError: they share no question.
        """
        one, other = self._read(first), self._read(second)
        with _whole(f"{first} or {second}"):
            names = distinct({"one": one.report, "other": other.report})
            compared = compare(one.report.with_metrics(names), other.report.with_metrics(names))
        known = {row["id"]: row for row in one.questions}
        flipped = [
            {**{key: known[name][key] for key in ("id", "question", "type", "answers")}, "first": a, "second": b}
            | {"right": "first" if known[name]["metrics"]["em"] else "second"}
            for name, a, b in compared.flipped
        ]
        return {"a": first, "b": second, **compared.to_dict(), "flipped": flipped}

    def frontier(self, names: Sequence[str], cost: str = "calls", metric: str | None = None) -> str:
        """Draw the cost per question and the score of runs, as a standalone SVG.

        Args:
            names: the runs; by default all readable ones.
            metric: by default one that at least two runs have. Runs without it are left out and named below the plot.

        Raises:
            UsageError: there is no run; they share no question or no metric; or none of them has the metric.
        """
        reports = dict(self._reports(names))
        if not reports:
            raise UsageError("there are no runs to draw")
        with _whole(", ".join(reports)):
            return standalone_svg(cost_plot(reports, cost, metric))

    def _reports(self, names: Sequence[str]) -> Iterator[tuple[str, Report]]:
        for name in dict.fromkeys(names or self.folders()):
            try:
                yield name, self._read(name).report
            except DataError:
                if names:
                    raise

    def _find(self, name: str) -> Path:
        folders = self.folders()
        if name not in folders:
            raise UnknownRun("run", name[:200], folders)
        return folders[name]

    def _read(self, name: str) -> Read:
        folder = self._find(name)
        with self._lock, _whole(name):
            file = (folder / PREDICTIONS).stat()
            stamp = file.st_mtime_ns, file.st_size
            read = self._kept.pop(name, None)
            if read is None or read.stamp != stamp:
                read = _read(folder, stamp)
            self._kept[name] = read
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return read

    def _row(self, name: str, folder: Path) -> Json:
        row: Json = {"run": name, "changed": _changed(folder)}
        try:
            figures, finished = self._figures(name, folder)
            with _whole(name):
                searches = figures["usage"]["searches"]
                shown = {name: mean for name, mean in figures["metrics"].items() if _counts(name, searches)}
                facts = {key: figures[key] for key in ("method", "lm", "dataset", "questions", "usage")}
        except UsageError as error:
            return {**row, "error": str(error)}
        return {**row, "finished": finished, **facts, "metrics": shown}

    def _figures(self, name: str, folder: Path) -> tuple[Json, bool]:
        """Return ``metrics.json`` if it belongs to these predictions, else the figures so far; True for the former."""
        path = folder / "metrics.json"
        with _whole(name):
            if path.is_file() and path.stat().st_mtime_ns >= (folder / PREDICTIONS).stat().st_mtime_ns:
                return _object(folder, path.name), True
        return self._read(name).report.to_dict(), False


def _runs_in(folder: Path, above: tuple[str, ...], depth: int) -> Iterator[tuple[str, Path]]:
    try:
        inside = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return
    for path in inside:
        name = (*above, path.name)
        if (path / "run.json").is_file() and (path / PREDICTIONS).is_file():
            yield ":".join(name), path
        elif depth > 1:
            yield from _runs_in(path, name, depth - 1)


def _read(folder: Path, stamp: tuple[int, int]) -> Read:
    report = read_report(folder)
    questions = []
    for row in embedded.questions({"": report}):
        (cell,) = row.pop("runs")
        questions.append({"id": row.pop("id"), "question": row.pop("text"), **row, **cell})
    traces = {row["id"]: str(row.pop("trace")) for row in questions}
    return Read(stamp, report, questions, traces)


@contextmanager
def _whole(name: str) -> Iterator[None]:
    """Translate errors in a run's files to one that names the run, not a path on this machine."""
    try:
        yield
    except UsageError as error:
        if not isinstance(error, DataError):
            raise
        raise _broken(name) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError) as error:
        raise _broken(name) from error


def _broken(name: str) -> DataError:
    return DataError(
        f"the run {name} cannot be read: its files are incomplete or damaged, or another version of polyhop wrote them"
    )


def _object(folder: Path, name: str | Path) -> Json:
    found = orjson.loads(read_inside(folder, name))
    if not isinstance(found, dict):
        raise TypeError(f"{folder / name} holds no object")
    return found


def _changed(folder: Path) -> float:
    """Return the time of change of a run's predictions, in seconds since 1970; 0 if they are missing."""
    try:
        return (folder / PREDICTIONS).stat().st_mtime
    except OSError:
        return 0.0


def _texts(row: Json) -> Iterator[str]:
    yield from (str(row["question"]), str(row["answer"]), *map(str, row["answers"]))


def _counts(metric: str, searches: int) -> bool:
    return is_shown(metric) and applies(metric, searches)
