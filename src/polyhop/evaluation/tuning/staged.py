"""The results of a staged search of settings, and its checkpoint, from which a stopped search resumes.

The stages search one setting after the other, each with the best of those before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import blake2b
from os.path import lexists
from pathlib import Path
from statistics import fmean, median, pstdev
from types import TracebackType
from typing import Any, Self

import orjson

from polyhop.common.files import locked, read_inside
from polyhop.errors import DataError, UsageError
from polyhop.evaluation.compare import Difference

Scores = Mapping[str, Mapping[str, float]]
"""By question id, then metric, 0 to 1."""

_SPREAD: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": fmean,
    "std": pstdev,
    "best": max,
    "median": median,
    "worst": min,
}


@dataclass(frozen=True, slots=True)
class Trial:
    """The settings that were tried and what each question scored under them."""

    settings: Mapping[str, Any]
    questions: Scores

    def mean(self, metric: str) -> float | None:
        """Return the mean over the questions that have the metric; None if none has."""
        held = [scores[metric] for scores in self.questions.values() if metric in scores]
        return fmean(held) if held else None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values: the settings and the mean of each metric."""
        names = dict.fromkeys(name for scores in self.questions.values() for name in scores)
        return {"settings": dict(self.settings), "scores": {name: self.mean(name) for name in names}}


@dataclass(frozen=True, slots=True)
class Stage:
    """The search for one setting, ``name``: its trials in order, compared by ``objective``; the first ``marks`` of them
    stand beside the candidates (Figure 4: no instruction, one written by hand)."""

    name: str
    objective: str
    trials: Sequence[Trial]
    marks: int = 0

    @property
    def best(self) -> Trial:
        """The first of the best."""
        return max(self.trials, key=self.worth)

    def worth(self, trial: Trial) -> float:
        """Return a trial's score, 0 to 1."""
        return trial.mean(self.objective) or 0.0

    def spread(self) -> dict[str, float]:
        """Summarise the candidates' scores, without the marks; empty if there are no candidates."""
        values = [self.worth(trial) for trial in self.trials[self.marks :]]
        return {name: function(values) for name, function in _SPREAD.items()} if values else {}

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "objective": self.objective,
            "best": dict(self.best.settings),
            "spread": self.spread(),
            "marks": self.marks,
            "trials": [trial.to_dict() for trial in self.trials],
        }


@dataclass(frozen=True, slots=True)
class StagedSearchResult:
    """A method's stages in order. ``retriever``: the one it started from, if it has a name. ``fixed``: the settings
    that were given; ``usual``: the method's defaults, on the same questions; ``gain``: over them, measured on the
    questions it was chosen on, so it is optimistic: confirm it on other questions."""

    method: str
    dataset: str
    lm: str
    retriever: str | None
    reader: str | None
    fixed: Mapping[str, Any]
    usual: Trial
    stages: Sequence[Stage]
    gain: Difference

    @property
    def settings(self) -> dict[str, Any]:
        """The fixed settings and those that were found."""
        return {**self.fixed, **self.stages[-1].best.settings}

    @property
    def file(self) -> dict[str, Any]:
        """The content of a settings file: method, settings, the dataset they were fitted on, and their scores."""
        fitted_on = {"dataset": self.dataset, "questions": len(self.usual.questions), "lm": self.lm}
        return {
            "method": self.method,
            "settings": self.settings,
            **({"retriever": self.retriever} if self.retriever else {}),
            "fitted_on": {**fitted_on, "reader": self.reader} if self.reader else fitted_on,
            "scores": self.stages[-1].best.to_dict()["scores"],
        }

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values: those of ``file`` and the whole search."""
        stages = {stage.name: stage.to_dict() for stage in self.stages}
        return {**self.file, "gain": self.gain.to_dict(), "default": self.usual.to_dict(), "stages": stages}


NAME = "measured.jsonl"


class Checkpoint:
    """Results by a description of their inputs, one per line of ``measured.jsonl`` in ``folder``.

    Without a folder they stay in memory. A line is written completely as soon as its result is known. One process at a
    time may write to a folder.

    Raises ``UsageError`` while another process does, and ``DataError`` if the file cannot be read or written.
    """

    def __init__(self, folder: str | Path | None) -> None:
        self._known: dict[str, Any] = {}
        self._open = ExitStack()
        self._file: Any = None
        if folder is not None:
            try:
                self._begin(Path(folder))
            except OSError as error:
                self.close()
                raise DataError(f"the measurements cannot be kept: {error.strerror}", folder) from None
            except BaseException:
                self.close()
                raise

    def once(self, inputs: Mapping[str, Any], find: Callable[[], Any]) -> Any:
        """Return the result, a JSON-ready value, for these inputs; call ``find`` if there is none yet."""
        description = orjson.dumps(inputs, option=orjson.OPT_SORT_KEYS)
        key = blake2b(description, digest_size=16).hexdigest()
        if key not in self._known:
            found = find()
            if self._file is not None:
                line = orjson.dumps({"key": key, "found": found}) + b"\n"
                try:
                    while line:  # an unbuffered file may take a part
                        line = line[self._file.write(line) :]
                except OSError as error:
                    raise DataError(f"the measurements cannot be kept: {error.strerror}", self._file.name) from None
            self._known[key] = found
        return self._known[key]

    def close(self) -> None:
        """Unlock the folder."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if not self._open.enter_context(locked(folder / "tune.lock", wait=False)):
            raise UsageError(f"{folder}: another process is tuning here; wait for it or choose another --work")
        path = folder / NAME
        if lexists(path):
            self._read(path)
        self._file = self._open.enter_context(path.open("ab", buffering=0))

    def _read(self, path: Path) -> None:
        """Read all complete lines; an incomplete last line, cut short by a kill, is dropped and measured again."""
        held = read_inside(path.parent, path.name)
        whole = held[: held.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                row = orjson.loads(line)
                self._known[row["key"]] = row["found"]
            except (ValueError, TypeError, KeyError):
                raise DataError("not a measurement; remove the line to have it made again", path, number) from None
        if len(whole) < len(held):
            os.truncate(path, len(whole))
