"""A sweep: one or more methods at many settings over the same questions, with each distinct call made once.

All points share the questions, the index, the retrieved passages and every reply: if some prompts of an ablation equal
those of an earlier point, only the others are sent. Each point has a run's folder, the same as a separate run writes;
the same sweep resumes where it was stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from polyhop.common.aio import LoopThread
from polyhop.common.files import cache_folder
from polyhop.engine.options import LM_KEYS
from polyhop.engine.parts import check_lm_options, is_served
from polyhop.errors import UsageError
from polyhop.evaluation.report import Report
from polyhop.evaluation.runner import Progress
from polyhop.evaluation.runs import MemoizingRetriever, RunSpec, open_index, run_all
from polyhop.evaluation.setups import PAPER_OPTIONS, setup_settings
from polyhop.evaluation.sweeps.plan import Plan, SweepPoint, read_plan
from polyhop.lm.base import LanguageModel
from polyhop.lm.cache import CachedLM, CompletionCache
from polyhop.lm.names import open_lm
from polyhop.methods.registry import method_named
from polyhop.metrics import choose_profiles
from polyhop.pipeline import Pipeline
from polyhop.prompts.book import PromptBook
from polyhop.readers import open_reader
from polyhop.retrieval import open_retriever
from polyhop.retrieval.base import Retriever
from polyhop.types import Question

K = TypeVar("K")
V = TypeVar("V")

REPLIES = "replies.sqlite"
"""The replies' file in a sweep's folder."""

MAX_MEMOIZED_SEARCHES = 100_000
"""Maximum number of searches per retriever whose hits are kept: at most a few hundred MB."""

Opener = Callable[..., LanguageModel]
"""``(model, **options)``: a function that opens a model, as ``open_lm`` does."""


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The reports of a sweep by point, in order.

    A call counts as ``asked`` if its reply was not cached yet, and as ``shared`` if it was, by another point or an
    earlier run over the same cache. Calls of questions under way when a sweep was stopped count as shared when it
    resumes. Scored texts always count as asked.
    """

    points: Sequence[SweepPoint]
    reports: Mapping[str, Report]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        rows = [
            {
                "name": point.name,
                "changes": {name: _plain(value) for name, value in point.changes.items()},
                **count_calls([self.reports[point.name]]),
                "report": self.reports[point.name].to_dict(),
            }
            for point in self.points
        ]
        return {"points": rows, **count_calls(self.reports.values())}


def count_calls(reports: Iterable[Report]) -> dict[str, int]:
    """Count the calls of runs, those that were asked, and those whose replies were shared."""
    usages = [report.usage for report in reports]
    calls, shared = sum(usage.calls for usage in usages), sum(usage.cache_hits for usage in usages)
    return {"calls": calls, "asked": calls - shared, "shared": shared}


def sweep(
    plan: Plan | str | Path | Mapping[str, Any],
    out: str | Path,
    *,
    questions: Sequence[Question] | None = None,
    progress: Progress | None = None,
) -> SweepResult:
    """Run every point of a plan, each in its own folder of ``out``; the same call resumes where it was stopped.

    ``plan``: the result or the argument of ``read_plan``. ``questions``: the plan's dataset, if it has been read.

    Raises:
        UsageError: a point cannot run, found before the first call; its location in the file is named.
        LMError: a model cannot be reached.
    """
    plan = plan if isinstance(plan, Plan) else read_plan(plan)
    asked = plan.questions(questions)
    plan = plan.with_contexts(asked)
    profiles = choose_profiles(asked, plan.metrics)
    asked = asked[: plan.limit]
    folder = Path(out)
    with opened(plan, asked, folder / REPLIES) as common:
        specs = [
            RunSpec(
                point.name,
                asked,
                {
                    "corpus": common.index,
                    "out": folder / point.name,
                    "concurrency": plan.concurrency,
                    "title": plan.title,
                    "metrics": profiles,
                    **common.arguments(point),
                },
            )
            for point in plan.points
        ]
        reports = dict(run_all(specs, progress))
    return SweepResult(plan.points, reports)


@contextmanager
def opened(plan: Plan, questions: Sequence[Question], replies: Path, opener: Opener = open_lm) -> Iterator[Shared]:
    """Open the resources that a plan's points share, check every point, and close the resources at the end."""
    common = Shared(plan, questions, replies, opener)
    try:
        common.check()
        yield common
    finally:
        common.close()


class Shared:
    """The index, models, retrievers, readers and prompts of a sweep: each is opened once, for all points that name it.

    Replies of served models, and of those loaded from a checkpoint, are kept in the same cache as those of ``polyhop
    run``; replies of other models, and all replies if the plan has ``cache = false``, in the file ``replies``.
    """

    def __init__(self, plan: Plan, questions: Sequence[Question], replies: Path, opener: Opener) -> None:
        self.plan, self.index = plan, open_index(plan.corpus, plan.skip_bad, plan.language)
        self._questions = questions
        self._replies, self._open_lm = replies, opener
        self._caches: dict[Path, CompletionCache] = {}
        self._models: dict[Any, _OpenLM] = {}
        self._retrievers: dict[str, Any] = {}
        self._readers: dict[str, Any] = {}
        self._books: dict[Any, PromptBook] = {}

    def arguments(self, point: SweepPoint) -> dict[str, Any]:
        """Return the arguments of ``evaluate`` for a point, except questions, index and folder."""
        own = {name: value for name, value in point.options.items() if name not in (*LM_KEYS, "set_from", "setup")}
        reader, prompts = own["reader"], own.get("prompts")
        return {
            **own,
            **(PAPER_OPTIONS if point.options.get("setup") and own["rendering"] == "auto" else {}),
            "lm": self._lm(point),
            "retriever": self._retriever(point),
            "reader": _once(self._readers, reader, open_reader) if isinstance(reader, str) else reader,
            "prompts": prompts if isinstance(prompts, PromptBook) else _once(self._books, prompts, PromptBook),
            **({"prices": self.plan.price} if self.plan.price is not None else {}),
            **self._under_setup(point),
            **point.settings,
        }

    def check(self) -> None:
        """Open every point, so that errors are found before the first call."""
        for point in self.plan.points:
            try:
                Pipeline(self.index, **self.arguments(point)).close()
            except UsageError as error:
                raise UsageError(f"{point.location} {error}") from error

    def close(self) -> None:
        """Close the models and the files of replies."""
        thread = LoopThread()
        try:
            for model in self._models.values():
                thread.run(CachedLM.aclose(model))
        finally:
            thread.stop()
            for cache in self._caches.values():
                cache.close()

    def _under_setup(self, point: SweepPoint) -> dict[str, Any]:
        """Return the settings that a paper's set-up gives the point's method."""
        setup = point.options.get("setup")
        return {} if setup is None else setup_settings(setup, point.method, point.settings, self._questions)

    def _lm(self, point: SweepPoint) -> Any:
        options = {option: point.options[name] for name, option in LM_KEYS.items() if name in point.options}
        lm = point.options["lm"]
        models = lm if isinstance(lm, Mapping) else {"default": lm}
        check_lm_options(options, models)
        return {role: self._model(model, options) for role, model in models.items()}

    def _model(self, lm: Any, options: Mapping[str, Any]) -> LanguageModel:
        options = options if is_served(lm) else {}
        key = (lm if isinstance(lm, str) else id(lm), repr(options))
        if key not in self._models:
            model = _OpenLM(self._open_lm(lm, **options), self._cache(lm))
            if not isinstance(lm, str) and any(model.is_as(other) for other in self._models.values()):
                raise UsageError(f"two models of this sweep are both named {model.name}: give each its own name")
            self._models[key] = model
        return self._models[key]

    def _cache(self, lm: Any) -> CompletionCache:
        wanted = self.plan.cache
        usual = cache_folder() / "lm.sqlite" if wanted is True or (wanted is None and is_served(lm)) else self._replies
        path = Path(wanted) if isinstance(wanted, str) else usual
        return _once(self._caches, path, CompletionCache)

    def _retriever(self, point: SweepPoint) -> Any:
        """Return the point's retriever, memoized; only its name if the method is itself a retriever."""
        method = method_named(point.method)
        named = point.options.get("retriever")
        if self.index is None or (named is not None and not isinstance(named, str)) or method.is_retriever:
            return named
        return _once(self._retrievers, named or method.retriever, self._memoizing)

    def _memoizing(self, name: str) -> Any:
        assert self.index is not None
        opened = open_retriever(name, self.index)
        return MemoizingRetriever(opened, MAX_MEMOIZED_SEARCHES) if isinstance(opened, Retriever) else opened


class _OpenLM(CachedLM):
    """A model that stays open when a run ends, because the next point's run needs it."""

    async def aclose(self) -> None:
        """Close the connections of the run's event loop, and write all replies to disk."""
        if close_loop := getattr(self.model, "close_loop", None):
            await close_loop()
        self.cache.flush()

    def is_as(self, other: _OpenLM) -> bool:
        """Return True if the cache could not distinguish the two models."""
        return self._identity == other._identity and self.cache is other.cache


def _once(held: dict[K, V], name: K, opener: Callable[[K], V]) -> V:
    """Return the value opened under a name, opening it at the first use."""
    if name not in held:
        held[name] = opener(name)
    return held[name]


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (str, bool, int, float, Mapping)) else str(value)
