"""The executor of several runs: methods, repeats, grids, sweeps and the papers' tables are lists of specifications.

``run_all`` runs the specifications one after another, with one progress over all.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any, Generic, TypeVar

from polyhop.data.corpora import Corpus, open_corpus
from polyhop.data.questions import read_questions
from polyhop.engine.options import Source
from polyhop.errors import DataError, SettingError, UnknownName, UsageError
from polyhop.evaluation.report import Report
from polyhop.evaluation.runner import Progress, evaluate
from polyhop.metrics import Metrics, choose_profiles
from polyhop.metrics.choice import ProfileChoice
from polyhop.retrieval.index import Index, index_for
from polyhop.types import Question

K = TypeVar("K", bound=Hashable)

_UNSAFE = re.compile(r"[^a-z0-9._=,-]+")
_MAX_NAME = 100  # characters

WRONG_INPUT = (UnknownName, SettingError, DataError)
"""Errors that say that an input is wrong, whatever the method."""


@dataclass(frozen=True, slots=True)
class RunSpec(Generic[K]):
    """A run: its ``name`` among others, its questions, and the other arguments of ``evaluate``."""

    name: K
    questions: Sequence[Question]
    arguments: Mapping[str, Any]


def run_all(
    specs: Sequence[RunSpec[K]], progress: Progress | None = None, left_out: MutableMapping[K, str] | None = None
) -> Iterator[tuple[K, Report]]:
    """Run the specifications one after another; yield each run's name and report.

    ``left_out`` takes the runs whose method needs more than the model, corpus or reader offer, with the reason; without
    it, that is an error.
    """
    before, total = 0, sum(len(spec.questions) for spec in specs)
    for spec in specs:
        own = _progress_after(progress, before, total)
        before += len(spec.questions)
        try:
            report = evaluate(spec.questions, progress=own, **spec.arguments)
        except UsageError as lack:
            if left_out is None or isinstance(lack, WRONG_INPUT):
                raise
            left_out[spec.name] = str(lack)
        else:
            yield spec.name, report


def _progress_after(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Return the ``progress`` of one of several runs; earlier runs have done ``before`` of ``total`` questions."""
    return (lambda done, _: progress(before + done, total)) if progress else None


def folder_in(out: str | Path | None, name: str) -> Path | None:
    """Return the folder of one of several runs; None if they are not saved."""
    return None if out is None else Path(out) / name


@dataclass(frozen=True, slots=True)
class RunInputs:
    """The inputs that several runs share: questions up to the limit, metric profiles, and the dataset's name."""

    questions: Sequence[Question]
    profiles: ProfileChoice
    title: str | None

    @classmethod
    def read(
        cls,
        dataset: str | Path | Sequence[Question],
        *,
        limit: int | None = None,
        skip_bad: bool = False,
        title: str | None = None,
        metrics: Metrics = None,
    ) -> RunInputs:
        """Read the questions once; the profiles are chosen by all of them, whatever the limit."""
        questions = read_questions(dataset, skip_bad=skip_bad) if isinstance(dataset, (str, Path)) else list(dataset)
        name = title or (Path(dataset).name if isinstance(dataset, (str, Path)) else None)
        return cls(questions[:limit], choose_profiles(questions, metrics), name)


def open_index(corpus: Source | None, skip_bad: bool = False, language: str | None = None) -> Index | None:
    """Open the corpus once, for several runs to share."""
    if corpus is None or isinstance(corpus, Index):
        return corpus
    opened = corpus if isinstance(corpus, Corpus) else open_corpus(corpus, skip_bad=skip_bad, language=language)
    return index_for(opened)


def combinations(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return every choice of one value per name; the last name's values change first.

    >>> combinations({"k": [1, 2], "shots": [0]})
    [{'k': 1, 'shots': 0}, {'k': 2, 'shots': 0}]

    Raises:
        SettingError: a name has no list of values, or an empty one.
    """
    for name, values in grid.items():
        if not isinstance(values, (list, tuple)):
            raise SettingError(f"{name}={values!r}: must be a list of values to try")
        if not values:
            raise SettingError(f"{name}: no value to try")
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def folder_name(point: Mapping[str, Any]) -> str:
    """Name a point's folder by its values. Characters that a file system may refuse are replaced; a hash then follows.

    >>> folder_name({"retrieve_below": 0.8, "widths": (5, 3), "guidance": False})
    'retrieve_below=0.8,widths=5-3,guidance=false'
    >>> folder_name({"lm": "openai:M@http://host"})
    'lm=openai-m-http-host-45382bab'
    """
    text = ",".join(f"{name}={_text(value)}" for name, value in point.items())
    safe = _UNSAFE.sub("-", text.lower()) or "base"
    if not text or (safe == text and len(text) <= _MAX_NAME):
        return safe
    return f"{safe[:_MAX_NAME]}-{blake2b(text.encode(), digest_size=4).hexdigest()}"


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "-".join(map(_text, value))
    if isinstance(value, Mapping):
        return "-".join(f"{name}={_text(item)}" for name, item in value.items())
    return str(getattr(value, "name", value)) if not isinstance(value, (str, int, float)) else str(value)
