"""The runs under a folder, for people to look at: their figures, their questions with traces, what differs between two.

Nothing a client sends becomes a path: a run, a question and a trace are looked up by name among those that are there.
What a run's files hold is shown, never trusted: one that is not whole is an error that names the run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import orjson

from polyhop.common.files import read_inside
from polyhop.errors import DataError, UsageError
from polyhop.evaluation.compare import compare
from polyhop.evaluation.errors import MEANINGS
from polyhop.evaluation.figures import applies, is_shown
from polyhop.evaluation.pages import embedded
from polyhop.evaluation.pages.page import standalone_svg
from polyhop.evaluation.pages.summary import cost_plot
from polyhop.evaluation.report import Report
from polyhop.evaluation.store import PREDICTIONS, TRACES, read_report
from polyhop.serve.errors import UnknownRun

DEPTH = 3
"""Runs are sought in folders so deep: ``run --method all`` and ``sweep`` write theirs into folders of folders."""

KEPT = 16
"""Runs whose questions are held in memory, those asked for last."""

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Read:
    """A run as it was read: ``stamp`` is of its predictions then, ``traces`` their files by question."""

    stamp: tuple[int, int]
    report: Report
    questions: Sequence[Json]
    traces: Mapping[str, str]


class Runs:
    """The runs under ``folder``, finished or under way; none where there is no folder. Any thread may ask.

    A run's name is its folder's, those that it stands in before it: ``sweep:tor``.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._kept: OrderedDict[str, Read] = OrderedDict()
        self._lock = Lock()

    def folders(self) -> dict[str, Path]:
        """Every run's folder by its name."""
        return dict(_runs_in(self._folder, (), DEPTH)) if self._folder else {}

    def rows(self) -> list[Json]:
        """A line a run, the newest first: what it ran, how far it is, the metrics that tables show."""
        rows = [self._row(name, folder) for name, folder in self.folders().items()]
        return sorted(rows, key=lambda row: row["changed"], reverse=True)

    def run(self, name: str) -> Json:
        """A run's settings and all its figures. ``UnknownRun`` where there is none."""
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
        """A run's questions in dataset order, ``limit`` of them from ``offset`` on, and how many there are in all.

        ``wrong``: only those judged wrong, or judged right; ``type``: the dataset's own; ``search``: what the question,
        its answer or a gold one holds.
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
        """A question of a run with what came of it (``row``), its answer and its trace as an ``Answer`` tells them; the
        last two are None where their file is gone."""
        read = self._read(name)
        row = next((row for row in read.questions if row["id"] == question), None)
        if row is None:
            raise UnknownRun(f"question of the run {name}", question[:200], ())
        with _whole(name):
            try:
                answer = _object(self._find(name), Path(TRACES, Path(read.traces[question]).name))
            except OSError:  # gone, or no file of the run
                answer = None
        trace = answer.pop("trace", None) if answer else None
        return {"run": name, "method": read.report.method, "row": row, "answer": answer, "trace": trace}

    def compare(self, first: str, second: str) -> Json:
        """Two runs on the questions both answered: each metric's difference with its interval and p by paired
        bootstrap, and the questions that only one got right. ``UsageError`` where they share none."""
        one, other = self._read(first), self._read(second)
        with _whole(f"{first} or {second}"):
            compared = compare(_as_shown(one.report), _as_shown(other.report))
        known = {row["id"]: row for row in one.questions}
        flipped = [
            {**{key: known[name][key] for key in ("id", "question", "type", "answers")}, "first": a, "second": b}
            | {"right": "first" if known[name]["metrics"]["em"] else "second"}
            for name, a, b in compared.flipped
        ]
        return {"a": first, "b": second, **compared.to_dict(), "flipped": flipped}

    def frontier(self, names: Sequence[str], cost: str = "calls", metric: str | None = None) -> str:
        """Draw runs by what a question cost and what they score, as an SVG that stands alone.

        Args:
            names: the runs; by default all that can be read.
            metric: by default one that at least two of them have. Runs without it are left out and named below.

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
    return DataError(f"the run {name} cannot be read: its files are not whole, or another polyhop wrote them")


def _object(folder: Path, name: str | Path) -> Json:
    found = orjson.loads(read_inside(folder, name))
    if not isinstance(found, dict):
        raise TypeError(f"{folder / name} holds no object")
    return found


def _changed(folder: Path) -> float:
    """When its predictions last changed, in seconds since 1970; 0 where they are gone."""
    try:
        return (folder / PREDICTIONS).stat().st_mtime
    except OSError:
        return 0.0


def _texts(row: Json) -> Iterator[str]:
    yield from (str(row["question"]), str(row["answer"]), *map(str, row["answers"]))


def _counts(metric: str, searches: int) -> bool:
    return is_shown(metric) and applies(metric, searches)


def _as_shown(report: Report) -> Report:
    """With the metrics that tables show: passages are scored at many more ranks, and each comparison takes time."""
    rows = [
        {
            **row,
            "metrics": {name: value for name, value in row["metrics"].items() if _counts(name, report.usage.searches)},
        }
        for row in report.rows
    ]
    return replace(report, rows=rows)
