"""A run's folder: its settings (``run.json``), predictions as they are made, traces, and the metrics at the end."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from os.path import lexists
from pathlib import Path
from typing import Any
from zlib import crc32

import orjson

from polyhop._version import __version__
from polyhop.answer import Answer
from polyhop.common.files import locked, read_inside
from polyhop.data.questions import read_questions
from polyhop.engine.models import MISSES, THINKING
from polyhop.errors import DataError, UsageError
from polyhop.evaluation.errors import error_of
from polyhop.evaluation.predictions import TRACES, Lines, Row, scored, trace_name, with_gold
from polyhop.evaluation.report import Report
from polyhop.metrics import profiles_named
from polyhop.metrics.profiles import DEFAULT
from polyhop.trace import Usage, add_usage
from polyhop.types import Passage, Question

PREDICTIONS = "predictions.jsonl"

DEPTH = 3
"""Maximum depth of a run's folder in a folder of runs: ``run --method all`` and ``sweep`` write nested folders."""


VOLATILE = "volatile"
"""The part of ``run.json`` that may change when a run resumes: the ``concurrency``, whose maximum is kept, what was
learnt of the models (``Models.learnt``), and ``demonstrations``, the numbers shown by task."""


class RunFolder:
    """A run's folder, new or resumed. ``finished``: the ids of the questions that have a row.

    Raises ``UsageError`` if the folder holds a run with other settings or of other questions, and ``DataError`` if it
    cannot be written or read.
    """

    def __init__(self, folder: str | Path, settings: Mapping[str, Any], questions: Sequence[Question]) -> None:
        self.folder = Path(folder)
        self._questions = {question.id: question.text for question in questions}
        self._settings: dict[str, Any] = {}
        self._open = ExitStack()
        try:
            self._start(settings)
        except BaseException:
            self._open.close()
            raise

    def keep_answer(self, position: int, answer: Answer) -> str:
        """Write an answer with its trace, before its row, so that a row always has its trace; return the file's name in
        the folder."""
        name = trace_name(position)
        with self._kept():
            _write(self.folder / name, orjson.dumps(answer.to_dict(), default=repr))
        return name

    def append(self, row: Mapping[str, Any]) -> None:
        """Write the row of a finished question; if the disk takes only a part of it, none of it stays."""
        line = _line(row)
        with self._kept():
            end = self._predictions.seek(0, os.SEEK_END)
            try:
                while line:  # an unbuffered file may take a part: nothing waits in memory for a kill to lose
                    line = line[self._predictions.write(line) :]
            except OSError:
                self._predictions.truncate(end)
                raise
        self.finished.add(row["id"])

    def rows(self) -> Lines:
        """Return the finished questions' rows, in dataset order."""
        with self._kept():
            there = Lines(iter_predictions(self.folder / PREDICTIONS))
        positions = {row["id"]: i for i, row in enumerate(there)}
        return Lines(there[positions[name]] for name in self._questions if name in positions)

    def finish(self, rows: Sequence[Mapping[str, Any]], metrics: Mapping[str, Any]) -> None:
        """Rewrite the predictions in dataset order (rows of questions beyond this run's limit stay, after them) and
        write the metrics."""
        with self._kept():
            _write(self.folder / PREDICTIONS, _lines(chain(rows, self._others)))
            _write(self.folder / "metrics.json", orjson.dumps(metrics, option=orjson.OPT_INDENT_2))

    @property
    def learnt(self) -> Mapping[str, Any]:
        """The facts that the run has learnt of its models (``Models.learnt``); none if the file has other values."""
        volatile = _volatile(self._settings)
        thinking, misses = volatile.get(THINKING), volatile.get(MISSES)
        counts = misses.items() if isinstance(misses, Mapping) else ()
        return {
            THINKING: thinking if isinstance(thinking, list) else [],
            MISSES: {name: count for name, count in counts if isinstance(count, int)},
        }

    def keep_learnt(self, learnt: Mapping[str, Any]) -> None:
        """Write what the run has learnt of its models, if it is new."""
        kept = {name: value for name, value in _volatile(self._settings).items() if name not in (THINKING, MISSES)}
        self._keep({**kept, **learnt})

    def keep_demonstrations(self, shown: Mapping[str, Sequence[int]]) -> None:
        """Write the numbers of demonstrations that the prompts showed, by task."""
        self._keep({**_volatile(self._settings), "demonstrations": shown})

    def _keep(self, volatile: Mapping[str, Any]) -> None:
        if volatile != _volatile(self._settings):
            self._settings = {**self._settings, VOLATILE: volatile}
            with self._kept():
                _write(self.folder / "run.json", orjson.dumps(self._settings, option=orjson.OPT_INDENT_2))

    @property
    def throughput(self) -> float | None:
        """The questions per second when the run last finished; None if it has not."""
        return _throughput(self.folder)

    def close(self) -> None:
        """Unlock the folder for other processes."""
        self._open.close()

    def _start(self, settings: Mapping[str, Any]) -> None:
        with self._kept():
            (self.folder / TRACES).mkdir(parents=True, exist_ok=True)
            if not self._open.enter_context(locked(self.folder / "run.lock", wait=False)):
                raise UsageError(f"{self.folder}: another process is running here; wait for it or choose another --out")
            self._settings = self._agree(settings)
            self.finished = self._read_finished()
            self._predictions = self._open.enter_context((self.folder / PREDICTIONS).open("ab", buffering=0))

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DataError(
                f"the run cannot be written: {error.strerror}. Finished questions are kept; free some space or choose "
                "another --out, and run again",
                self.folder,
            ) from None

    def _agree(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Compare the settings with the run's, or write those of a new run; return what ``run.json`` holds."""
        path = self.folder / "run.json"
        wanted: dict[str, Any] = orjson.loads(orjson.dumps({"polyhop": __version__, **settings}))
        if not lexists(path):
            _write(path, orjson.dumps(wanted, option=orjson.OPT_INDENT_2))
            return wanted
        try:
            there: dict[str, Any] = orjson.loads(read_inside(self.folder, path.name))
        except ValueError:
            raise DataError("not a run's settings; choose another --out or remove the folder", path) from None
        names = (wanted.keys() | there.keys()) - {VOLATILE}
        if differ := sorted(name for name in names if wanted.get(name) != there.get(name)):
            name = differ[0]
            raise UsageError(
                f"{self.folder} holds a run with other settings: {', '.join(differ)} "
                f"({name} there: {there.get(name)!r}; now: {wanted.get(name)!r}). Choose another --out."
            )
        if _concurrency(wanted, 0) <= _concurrency(there, math.inf):
            return there
        wanted[VOLATILE] = {**_volatile(there), **_volatile(wanted)}
        _write(path, orjson.dumps(wanted, option=orjson.OPT_INDENT_2))
        return wanted

    def _read_finished(self) -> set[str]:
        """Return the questions already answered; a last line cut short by a kill is dropped, its question asked
        again."""
        path = self.folder / PREDICTIONS
        rows = Lines(iter_predictions(path) if lexists(path) else ())
        finished = {row["id"]: row.get("question") for row in rows if row["id"] in self._questions}
        for name, there in finished.items():
            if there != (now := self._questions[name]):
                raise UsageError(
                    f"{self.folder} answers another question under the id {name!r} (there: {there!r}; now: {now!r}). "
                    "Choose another --out."
                )
        _write(path, _lines(rows))
        self._others = Lines(row for row in rows if row["id"] not in self._questions)
        return set(finished)


class SavedLines:
    """A file of JSON lines that grows as results are made, so that stopped work resumes where it was.

    ``take`` is called with each line that the file holds; an incomplete last line, cut short by a kill, is dropped. One
    process at a time may write, by the file ``lock`` beside it.

    Raises:
        UsageError: another process writes; ``busy`` says so.
        DataError: the file cannot be read or written, or ``take`` finds that a line is not a ``noun``.
    """

    def __init__(self, path: Path, take: Callable[[Any], None], *, lock: str, busy: str, noun: str) -> None:
        self._path, self._noun = path, noun
        with ExitStack() as stack, self._kept():
            if not stack.enter_context(locked(path.with_name(lock), wait=False)):
                raise UsageError(f"{path.parent}: {busy}")
            held = read_inside(path.parent, path.name) if lexists(path) else b""
            whole = held[: held.rfind(b"\n") + 1]
            if len(whole) < len(held):
                os.truncate(path, len(whole))
            for number, line in enumerate(whole.splitlines(), 1):
                try:
                    take(orjson.loads(line))
                except (ValueError, TypeError, KeyError):
                    again = f"not a {noun}; remove the line to have it made again"
                    raise DataError(again, path, number) from None
            self._open = stack.pop_all()

    def append(self, row: Mapping[str, Any]) -> None:
        """Write a line."""
        with self._kept(), self._path.open("ab") as file:
            file.write(orjson.dumps(row) + b"\n")

    def close(self) -> None:
        """Unlock the file for other processes."""
        self._open.close()

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DataError(f"the {self._noun}s cannot be kept: {error.strerror}", self._path) from None


def read_predictions(path: Path) -> list[dict[str, Any]]:
    """Return the complete lines of a predictions file."""
    return list(iter_predictions(path))


def iter_predictions(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the complete lines; an incomplete last line was cut short by a kill and is skipped."""
    whole, _, _ = read_inside(path.parent, path.name).rpartition(b"\n")
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            yield _usable(_row(line))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise DataError(
                "this line was changed after it was written; remove the line to ask its question again", path, number
            ) from None


def trace_file(folder: Path, row: Row) -> Path:
    """Return the file of a line's trace, always in the run's folder: the line may come from a stranger."""
    return folder / TRACES / Path(row["trace"]).name


def read_trace(folder: Path, row: Row) -> Any:
    """Return the content of a line's trace file.

    Raises:
        OSError: it is gone, or not a regular file of the run's folder.
        ValueError: it is not JSON.
    """
    return orjson.loads(read_inside(folder, Path(TRACES, trace_file(folder, row).name)))


def _usable(row: Any) -> dict[str, Any]:
    """Return the row if a report can be made of it; a damaged row raises one of Python's errors."""
    if not isinstance(row["id"], str):
        raise TypeError(row["id"])
    sum(value or 0.0 for part in (row["metrics"], row["statistics"]) for value in part.values())
    add_usage([Usage.from_dict(row["usage"])])
    error_of(row)
    with suppress(UsageError):  # an older polyhop's, which may be reported as it is
        scored([row], ())
    return dict(row)


def read_report(
    folder: str | Path, *, metrics: str | Sequence[str] | None = None, dataset: str | Path | None = None
) -> Report:
    """Return the report of a run's folder, finished or under way, from its predictions. No model is needed.

    ``metrics``: score the predictions again by these profiles; by default the run's own metrics. ``dataset``: take the
    gold from there, such as a file with more aliases; metrics are then the run's profiles, unless named. Nothing in the
    folder is changed.

    Raises:
        DataError: it is not a run's folder.
        UsageError: the dataset lacks a question of the run, or an older polyhop wrote the predictions.
    """
    folder = Path(folder)
    try:
        settings = orjson.loads(read_inside(folder, "run.json"))
        rows = read_predictions(folder / PREDICTIONS)
    except FileNotFoundError as error:
        raise DataError("not a run's folder: it has no run.json or predictions.jsonl", folder) from error
    except ValueError:
        raise DataError("not a run's settings", folder / "run.json") from None
    except OSError as error:
        raise DataError(f"the run cannot be read: {error.strerror}", error.filename or folder) from None
    own: Mapping[str, Any] = settings.get("metrics") or {}
    unscored: Mapping[str, str] = {}
    if dataset is not None:
        rows = _with_gold(rows, read_questions(dataset), folder)
    if metrics is not None or dataset is not None:
        scored_rows, unscored = scored(rows, profiles_named(metrics or own.get("profiles", DEFAULT)))
        rows = list(scored_rows)
    named = {name: settings[name] for name in ("method", "lm", "dataset")}
    failed = _failed(folder, {row["id"] for row in rows})
    return Report.of(rows, failed, **named, unscored=unscored, throughput=_throughput(folder))


def run_folders(folder: Path) -> list[Path]:
    """Return a run's folder, or the runs in a folder of runs, at most ``DEPTH`` folders deep."""
    if lexists(folder / "run.json"):
        return [folder]
    inside = sorted(path.parent for depth in range(1, DEPTH + 1) for path in folder.glob("*/" * depth + "run.json"))
    return inside or [folder]


def _failed(folder: Path, finished: Container[str]) -> dict[str, str]:
    """Return the questions that failed when the run last finished, and why, without those answered since."""
    try:
        failed = orjson.loads((folder / "metrics.json").read_bytes())["failed"]
        return {str(name): str(why) for name, why in failed.items() if name not in finished}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # not finished yet, or not ours


def _volatile(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    volatile = settings.get(VOLATILE)
    return volatile if isinstance(volatile, Mapping) else {}


def _throughput(folder: Path) -> float | None:
    """Return the questions per second in ``metrics.json``; None if it has none."""
    try:
        return float(orjson.loads((folder / "metrics.json").read_bytes())[VOLATILE]["throughput"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _concurrency(settings: Mapping[str, Any], unknown: Any) -> Any:
    """Return the concurrency in ``run.json``; ``unknown`` if an older polyhop wrote it."""
    known = _volatile(settings).get("concurrency")
    return known if isinstance(known, int) else unknown


def _with_gold(rows: Sequence[Row], questions: Iterable[Question], folder: Path) -> list[dict[str, Any]]:
    by_id = {question.id: question for question in questions}
    if lost := next((row["id"] for row in rows if row["id"] not in by_id), None):
        raise UsageError(f"the dataset has no question {lost!r}, which {folder} answers: is it another one?")
    return [with_gold(row, by_id[row["id"]], ranked_passages(folder, row)) for row in rows]


def ranked_passages(folder: Path, row: Row) -> list[Passage] | None:
    """Return the passages a line ranks, with their texts, from its trace; None if the trace is gone."""
    try:
        passages = read_trace(folder, row)["passages"]
        return [Passage(passage["id"], passage["title"], passage["text"]) for passage in passages]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(map(_line, rows))


def _line(row: Mapping[str, Any]) -> bytes:
    """Return a row as it is written: its last field is a checksum of the rest, so that a changed byte is noticed."""
    whole = orjson.dumps(row)[:-1]
    return b'%s,"crc":"%08x"}\n' % (whole, crc32(whole))


def _row(line: bytes) -> Any:
    """Return the row of a line; ``ValueError`` if its checksum differs. A line without one, which an older polyhop or a
    person wrote, is accepted."""
    whole, mark, given = line.rpartition(b',"crc":"')
    if mark and given != b'%08x"}' % crc32(whole):
        raise ValueError(given)
    row = orjson.loads(line)
    row.pop("crc", None)
    return row


def _write(path: Path, content: bytes) -> None:
    """Replace a file atomically."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    os.replace(part, path)
