"""A run's folder: what was asked for (``run.json``), predictions as they come, traces, and the metrics at the end."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from polyhop._version import __version__
from polyhop.errors import DataError, UsageError
from polyhop.types import Answer, Question


class RunFolder:
    """Opens a run's folder, new or to go on with; ``finished`` holds the rows already there, by question id.

    Raises ``UsageError`` when the folder holds a run with other settings, and ``DataError`` when it cannot be written
    or read.
    """

    def __init__(self, folder: str | Path, settings: Mapping[str, Any], questions: Sequence[Question]) -> None:
        self.folder = Path(folder)
        self._questions = {question.id for question in questions}
        self._others: list[dict[str, Any]] = []
        try:
            (self.folder / "traces").mkdir(parents=True, exist_ok=True)
            self._agree(settings)
            self.finished = self._read_finished()
            self._predictions = (self.folder / "predictions.jsonl").open("ab")
        except OSError as error:
            raise DataError(f"cannot keep a run here: {error.strerror}", self.folder) from None

    def append(self, row: Mapping[str, Any], answer: Answer) -> None:
        """Write one finished question down, its trace first, so that a row always has its trace."""
        _write(self.folder / row["trace"], orjson.dumps(answer.to_dict()))
        self._predictions.write(orjson.dumps(row) + b"\n")
        self._predictions.flush()

    def finish(self, rows: Sequence[Mapping[str, Any]], metrics: Mapping[str, Any]) -> None:
        """Rewrite the predictions in dataset order (rows of questions beyond this run's limit stay, after them) and
        write the metrics."""
        _write(self.folder / "predictions.jsonl", b"".join(orjson.dumps(row) + b"\n" for row in (*rows, *self._others)))
        _write(self.folder / "metrics.json", orjson.dumps(metrics, option=orjson.OPT_INDENT_2))

    def close(self) -> None:
        """Close the predictions file."""
        self._predictions.close()

    def _agree(self, settings: Mapping[str, Any]) -> None:
        path = self.folder / "run.json"
        wanted = orjson.loads(orjson.dumps({"polyhop": __version__, **settings}))
        if not path.exists():
            _write(path, orjson.dumps(wanted, option=orjson.OPT_INDENT_2))
            return
        try:
            there = orjson.loads(path.read_bytes())
        except ValueError:
            raise DataError("not a run's settings; choose another --out or remove the folder", path) from None
        if differ := sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name)):
            name = differ[0]
            raise UsageError(
                f"{self.folder} holds a run with other settings: {', '.join(differ)} "
                f"({name} there: {there.get(name)!r}; now: {wanted.get(name)!r}). Choose another --out."
            )

    def _read_finished(self) -> dict[str, dict[str, Any]]:
        """The rows already written; a last line cut short by a kill is dropped, its question asked again."""
        path = self.folder / "predictions.jsonl"
        if not path.exists():
            return {}
        whole, _, _ = path.read_bytes().rpartition(b"\n")
        rows = []
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                rows.append(orjson.loads(line))
            except ValueError:
                raise DataError(
                    "not a prediction; remove the line to have its question asked again", path, number
                ) from None
        _write(path, b"".join(orjson.dumps(row) + b"\n" for row in rows))
        self._others = [row for row in rows if row["id"] not in self._questions]
        return {row["id"]: row for row in rows if row["id"] in self._questions}


def _write(path: Path, content: bytes) -> None:
    """Replace a file in one step: it is the old one or the new one, never half of either."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    os.replace(part, path)
