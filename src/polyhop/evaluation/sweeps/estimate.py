"""An estimate of a sweep's cost, before any model is called: ``pocket`` answers a sample of its questions instead.

The prompts are exactly those of the sweep, but the replies are not: a model that judges differently takes more or fewer
steps and writes longer or shorter replies. The result is an estimate of size, not a bill.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from polyhop.engine.budget import Prices
from polyhop.errors import PolyhopError
from polyhop.evaluation.runner import Progress
from polyhop.evaluation.runs import RunSpec, run_all
from polyhop.evaluation.sweeps.plan import Plan
from polyhop.evaluation.sweeps.sweep import REPLIES, opened
from polyhop.lm.base import Completion, Request, ScoreRequest, TokenScores
from polyhop.lm.pocket import Pocket
from polyhop.metrics import choose_profiles
from polyhop.trace import Usage
from polyhop.types import Question

SAMPLE = 5
"""Default number of questions answered for an estimate."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Calls, and tokens of prompts and replies (without scored text); ``money`` if prices are known."""

    calls: float
    prompt_tokens: float
    completion_tokens: float
    money: float | None = None

    def times(self, factor: float) -> Cost:
        """Multiply the cost by a factor."""
        return Cost(*(None if value is None else value * factor for value in asdict(self).values()))  # type: ignore[arg-type]

    def __add__(self, other: Cost) -> Cost:
        money = None if self.money is None or other.money is None else self.money + other.money
        tokens = (self.prompt_tokens + other.prompt_tokens, self.completion_tokens + other.completion_tokens)
        return Cost(self.calls + other.calls, *tokens, money)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated cost per point: ``alone``, and ``asked`` in the sweep, after the points before it.

    Both are for ``questions`` questions, extrapolated from ``sample`` of them. Replies that a cache already holds are
    not subtracted.
    """

    questions: int
    sample: int
    alone: Mapping[str, Cost]
    asked: Mapping[str, Cost]

    def totals(self) -> tuple[Cost, Cost]:
        """Return the cost of all points, as separate runs and as a sweep."""
        return _sum(self.alone.values()), _sum(self.asked.values())

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        alone, asked = self.totals()
        points = [
            {"name": name, "alone": asdict(cost), "asked": asdict(self.asked[name])}
            for name, cost in self.alone.items()
        ]
        total = {"alone": asdict(alone), "asked": asdict(asked)}
        return {"questions": self.questions, "sample": self.sample, "points": points, **total}


def estimate(
    plan: Plan,
    *,
    sample: int = SAMPLE,
    questions: Sequence[Question] | None = None,
    progress: Progress | None = None,
) -> Estimate:
    """Answer ``sample`` questions, spread evenly over the dataset, at every point of a plan, by ``pocket``.

    No model of the plan is opened.

    Raises:
        UsageError: a point cannot run, as in ``sweep``.
        PolyhopError: a question fails at a point; its location in the file is named.
    """
    every = plan.questions(questions)
    plan = plan.with_contexts(every)
    profiles = choose_profiles(every, plan.metrics)
    every = every[: plan.limit]
    some = _spread(every, sample)
    prices = None if plan.price is None else Prices.of(plan.price)
    stand_ins: list[_StandIn] = []

    def stand_in(lm: Any, **_: Any) -> _StandIn:
        stand_ins.append(_StandIn(lm if isinstance(lm, str) else lm.name))
        return stand_ins[-1]

    alone, asked = {}, {}
    with TemporaryDirectory() as folder:
        apart = replace(plan, cache=False)
        with opened(apart, every, Path(folder) / REPLIES, stand_in) as common:
            shared = {"corpus": common.index, "concurrency": plan.concurrency, "metrics": profiles}
            specs = [RunSpec(point.name, some, {**shared, **common.arguments(point)}) for point in plan.points]
            before = _sum([])
            for point, (_, report) in zip(plan.points, run_all(specs, progress), strict=True):
                if report.failed:
                    name, why = next(iter(report.failed.items()))
                    raise PolyhopError(f"{point.location} the question {name} fails: {why}")
                share = len(every) / len(some)
                alone[point.name] = _of(report.usage, prices).times(share)
                now = _sum([model.asked(prices) for model in stand_ins])
                asked[point.name] = (now + before.times(-1)).times(share)
                before = now
    return Estimate(len(every), len(some), alone, asked)


class _StandIn(Pocket):
    """``pocket`` under another model's name; it counts its calls and tokens."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self._calls = self._prompt_tokens = self._completion_tokens = 0

    async def complete(self, request: Request) -> Completion:
        """Complete a request as ``pocket`` does, and count it."""
        completion = await super().complete(request)
        assert completion.usage is not None
        self._calls += 1
        self._prompt_tokens += completion.usage.prompt_tokens
        self._completion_tokens += completion.usage.completion_tokens
        return completion

    async def score(self, requests: Sequence[ScoreRequest]) -> list[TokenScores]:
        """Score texts as ``pocket`` does, and count the call."""
        self._calls += 1
        return await super().score(requests)

    def asked(self, prices: Prices | None) -> Cost:
        """Return the cost of all calls so far."""
        tokens = (self._prompt_tokens, self._completion_tokens)
        return Cost(self._calls, *tokens, None if prices is None else prices.cost(self.name, *tokens))


def _of(usage: Usage, prices: Prices | None) -> Cost:
    money = None if prices is None else prices.total(usage)
    return Cost(usage.calls, usage.prompt_tokens, usage.completion_tokens, money)


def _sum(costs: Any) -> Cost:
    return sum(costs, Cost(0, 0, 0, 0.0))


def _spread(questions: Sequence[Question], n: int) -> list[Question]:
    """Select ``n`` of the questions at equal distances, including the first."""
    n = min(n, len(questions))
    return [questions[i * len(questions) // n] for i in range(n)]
