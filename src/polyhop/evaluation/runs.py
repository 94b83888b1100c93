"""The executor of several runs: methods, repeats, grids, sweeps and the papers' tables are lists of specifications.

``run_all`` runs the specifications one after another, with one progress over all.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any, Generic, TypeVar

from polyhop.data.corpora import open_corpus
from polyhop.data.corpus import Corpus
from polyhop.data.questions import with_answerability
from polyhop.engine.options import LM, Source
from polyhop.errors import DataError, SettingError, UnknownName, UsageError
from polyhop.evaluation.report import Report
from polyhop.evaluation.runner import Progress, evaluate, read_inputs
from polyhop.evaluation.setups import PAPER_OPTIONS, setup_named, setup_settings
from polyhop.methods.registry import method_named, methods
from polyhop.metrics import Metrics, choose_profiles
from polyhop.metrics.profiles import ProfileChoice
from polyhop.pipeline import Pipeline
from polyhop.readers import Reader, as_reader
from polyhop.retrieval.base import Retriever
from polyhop.retrieval.index import Index, index_for
from polyhop.types import Passage, Question, Span

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
    """The inputs that several runs share: questions up to the limit, corpus, metric profiles, the dataset's name."""

    questions: Sequence[Question]
    corpus: Source | None
    profiles: ProfileChoice
    title: str | None

    @classmethod
    def read(
        cls,
        dataset: str | Path | Sequence[Question],
        corpus: Source | None,
        *,
        limit: int | None = None,
        skip_bad: bool = False,
        title: str | None = None,
        metrics: Metrics = None,
        allow_unanswerable: bool = False,
    ) -> RunInputs:
        """Read the questions once; the profiles are chosen by all of them, whatever the limit."""
        questions, corpus = read_inputs(dataset, corpus, skip_bad=skip_bad)
        questions = with_answerability(questions) if allow_unanswerable else questions
        name = title or (Path(dataset).name if isinstance(dataset, (str, Path)) else None)
        return cls(questions[:limit], corpus, choose_profiles(questions, metrics), name)


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


# --- a retriever and a reader that remember their results, for runs on the same questions: they suit some hundred
# questions or, with ``max_entries``, a sweep, but not a service


class MemoizingRetriever:
    """A retriever that looks up each query and passage once; it keeps the ``max_entries`` results used last."""

    def __init__(self, start: Retriever, max_entries: int | None = None) -> None:
        self.name, self.search_many = start.name, start.search_many
        self._search, self._links = lru_cache(max_entries)(start.search), lru_cache(max_entries)(start.links)

    def search(self, query: str, k: int) -> list[Passage]:
        """Return the passages for a query, as the retriever does."""
        return list(self._search(query, k))

    def links(self, passage: Passage) -> list[Passage]:
        """Return the passages a passage links to, as the retriever does."""
        return list(self._links(passage))


class MemoizingReader:
    """A reader that reads each question in the same passages once."""

    def __init__(self, start: Reader) -> None:
        self.name, self.threshold = start.name, start.threshold
        self._start = as_reader(start)
        self.has_tokenizer = self._start.has_tokenizer
        self._read: dict[tuple[bool, str, tuple[Passage, ...]], list[Span]] = {}

    async def read(self, question: str, passages: Sequence[Passage]) -> Sequence[Span]:
        """Return the spans that answer a question, as the reader does."""
        key = (False, question, tuple(passages))
        if key not in self._read:
            self._read[key] = await self._start.read(question, passages, None)
        return self._read[key]

    async def read_path(self, question: str, path: Sequence[Passage]) -> Sequence[Span]:
        """Return the answers of a path, as the reader does."""
        key = (True, question, tuple(path))
        if key not in self._read:
            self._read[key] = await self._start.read_path(question, path, None)
        return self._read[key]


# --- several methods over the same questions, corpus and model, one run per method

ALL, ONE_RETRIEVAL = "all", "one-r"


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
    settings; beside methods that search several times, ``one-r`` runs again and reads as many passages as they may. A
    method that needs more than the model, corpus, reader or questions offer is left out, with the reason.

    Raises:
        UnknownName: no method has a setting of that name.
        UsageError: none of the methods could run.
    """
    declining = options.get("allow_unanswerable", False)
    inputs = RunInputs.read(
        dataset, corpus, limit=limit, skip_bad=skip_bad, title=title, metrics=metrics, allow_unanswerable=declining
    )
    index = open_index(inputs.corpus, skip_bad)
    own, common = _divided(names, options)
    if setup is not None:
        common = {**PAPER_OPTIONS, **common}
        own = {name: {**setup_settings(setup, name, given, inputs.questions), **given} for name, given in own.items()}
    ready, left_out = _ready(names, index, lm, own, common)
    if not ready:
        raise UsageError(f"none of these methods can run; {next(iter(left_out))}: {next(iter(left_out.values()))}")
    shared = {"corpus": index, "lm": lm, "title": inputs.title, "metrics": inputs.profiles, **common}
    specs = [
        RunSpec(name, inputs.questions, {**shared, "method": name, "out": folder_in(out, name), **own[name]})
        for name in ready
    ]
    if setup is not None and (more := _reading_as_much(setup, ready, options)):
        label = f"{ONE_RETRIEVAL} k={more['k']}"
        given = {**shared, "method": ONE_RETRIEVAL, "out": folder_in(out, f"{ONE_RETRIEVAL}-k{more['k']}")}
        specs.append(RunSpec(label, inputs.questions, {**given, **own[ONE_RETRIEVAL], **more}))
    reports = dict(run_all(specs, progress, left_out))
    if not reports:
        raise UsageError(f"none of these methods can run; {next(iter(left_out))}: {next(iter(left_out.values()))}")
    return MethodReports(reports, left_out)


def _reading_as_much(setup: str, names: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the settings with which ``one-r`` reads as many passages as the iterative methods beside it; None if there
    are none, or if it reads as many anyway."""
    searching = any(method_named(name).family in ("system", "iterative") for name in names)
    k = setup_named(setup).passages_read
    if ONE_RETRIEVAL not in names or not searching or k is None or "k" in given:
        return None
    usual = setup_settings(setup, ONE_RETRIEVAL, given, ())
    return {"k": k, "rank_limit": max(k, usual.get("rank_limit", 0))} if k > usual["k"] else None


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
