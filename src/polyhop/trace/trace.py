"""What happened during one question, as typed steps: one schema for trees, chains and graphs.

A step records its ``parent`` (where it stands in the tree of reasoning) and what it came ``after`` (the steps it had to
wait for), so layers and the critical path can be read off any trace. Steps are numbered in the order the algorithm
makes them, not in the order replies happen to arrive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from polyhop.common.text import printable
from polyhop.trace.steps import CALLS, Ask, Branch, Score, Searched, Step, line_of, passages_in, plain


@dataclass(frozen=True, slots=True)
class Trace:
    """All steps of one question, in the algorithm's order; ``budget`` names the limit that ended the gathering."""

    question: str
    method: str
    steps: tuple[Step, ...]
    budget: str | None = None

    @property
    def calls(self) -> tuple[Ask, ...]:
        """Every language model call in the order the algorithm made them."""
        return tuple(step for step in self.steps if isinstance(step, Ask))

    @property
    def answers_call(self) -> Ask | None:
        """The call that gave the answer: the last that the method marked as its final one, else the last of all."""
        calls = self.calls
        return next((call for call in reversed(calls) if call.final), calls[-1] if calls else None)

    @property
    def searches(self) -> tuple[Searched, ...]:
        """Every search a retriever made itself: not those that only handed on to others, as a reranker's do."""
        searches = [step for step in self.steps if isinstance(step, Searched)]
        handed_on = {step.parent for step in searches}
        return tuple(step for step in searches if step.id not in handed_on)

    @property
    def defaults(self) -> Counter[str]:
        """By task, how often no reply could be read and the safe default was taken."""
        return +Counter(_tally((call.task, (call.attempt == 1) - (call.output is not None)) for call in self.calls))

    @property
    def layers(self) -> int:
        """The longest chain of language model calls each of which had to wait for the one before."""
        if any(call.depth is not None for call in self.calls):
            return max(call.depth or 0 for call in self.calls)
        return int(max(self._weights(lambda step: isinstance(step, CALLS)).values(), default=0))

    @property
    def critical_path(self) -> tuple[Step, ...]:
        """The slowest chain of dependent steps, in order: no schedule could have been faster."""
        seconds = self._own_seconds()
        by_id = {step.id: step for step in self.steps}
        weights = self._weights(lambda step: seconds[step.id])
        chain: list[Step] = []
        at = max(weights, key=weights.__getitem__, default=None)
        while at is not None:
            chain.append(by_id[at])
            at = max(by_id[at].after, key=weights.__getitem__, default=None)
        return tuple(step for step in reversed(chain) if seconds[step.id])

    @property
    def critical_seconds(self) -> float:
        """Seconds along the critical path."""
        seconds = self._own_seconds()
        return max(self._weights(lambda step: seconds[step.id]).values(), default=0.0)

    def children(self, parent: int | None = None) -> list[Step]:
        """The steps directly under ``parent`` (None: at the root)."""
        return [step for step in self.steps if step.parent == parent]

    def outline(self) -> str:
        """The trace as text: every step on a line, indented under the one it stands under, its number before it."""
        budget = [f"budget spent: {self.budget}"] if self.budget else []
        return "\n".join([printable(self.question), *self._lines(None, 0), *budget])

    def _lines(self, parent: int | None, depth: int) -> Iterator[str]:
        for step in self.children(parent):
            yield f"{'  ' * depth}- [{step.id}] {line_of(step)}"
            yield from self._lines(step.id, depth + 1)

    def _own_seconds(self) -> dict[int, float]:
        """The seconds of each step by its id; none of one that holds others, for they are theirs."""
        holding = {step.parent for step in self.steps}
        return {step.id: 0.0 if isinstance(step, Branch) or step.id in holding else step.seconds for step in self.steps}

    def _weights(self, weigh: Callable[[Step], float]) -> dict[int, float]:
        """By a step's id, the weight of the heaviest chain that ends with it, of steps that came each after the one
        before."""
        weights: dict[int, float] = {}
        for step in self.steps:
            weights[step.id] = weigh(step) + max(map(weights.__getitem__, step.after), default=0.0)
        return weights

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; every passage is written once, under ``passages``, and named by id elsewhere."""
        return {
            "question": self.question,
            "method": self.method,
            "budget": self.budget,
            "steps": [step.to_dict() for step in self.steps],
            "passages": {p.id: p.to_dict() for p in passages_in(self.steps)},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one question, or a run of them, cost."""

    volatile: ClassVar[frozenset[str]] = frozenset(
        {"layers", "wasted", "cache_hits", "retries", "seconds", "critical_seconds"}
    )

    calls: int = 0
    calls_by_task: Mapping[str, int] = field(default_factory=dict)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_by_model: Mapping[str, int] = field(default_factory=dict)
    completion_tokens_by_model: Mapping[str, int] = field(default_factory=dict)
    prompt_words: int = 0
    completion_words: int = 0
    tokens_estimated: bool = False
    searches: int = 0
    layers: int = 0
    malformed_by_task: Mapping[str, int] = field(default_factory=dict)
    defaulted_by_task: Mapping[str, int] = field(default_factory=dict)
    cut_by_task: Mapping[str, int] = field(default_factory=dict)
    """Calls that spent their token cap before any text came, and were made again with a larger one."""
    parsed_first_try: int = 0
    asked: int = 0
    wasted: int = 0
    cache_hits: int = 0
    retries: int = 0
    seconds: float = 0.0
    critical_seconds: float = 0.0

    @classmethod
    def of(cls, trace: Trace, seconds: float, *, wasted: int = 0) -> Usage:
        """The usage of one question from its trace, its wall-clock ``seconds`` and the calls ``wasted`` ahead."""
        calls = trace.calls
        scores = [step for step in trace.steps if isinstance(step, Score)]
        made: tuple[Ask | Score, ...] = (*calls, *scores)
        first = [call.problem is None for call in calls if call.attempt == 1]
        prompted = _tally((each.model, each.prompt_tokens) for each in made)
        completed = _tally((call.model, call.completion_tokens) for call in calls)
        return cls(
            calls=len(made),
            calls_by_task=_tally((each.task, 1) for each in made),
            prompt_tokens=sum(prompted.values()),
            completion_tokens=sum(completed.values()),
            prompt_tokens_by_model=prompted,
            completion_tokens_by_model=completed,
            prompt_words=sum(each.prompt_words for each in made),
            completion_words=sum(call.completion_words for call in calls),
            tokens_estimated=bool(scores) or any(call.estimated for call in calls),
            searches=len(trace.searches),
            layers=trace.layers,
            malformed_by_task=_tally((call.task, 1) for call in calls if call.problem),
            defaulted_by_task=dict(trace.defaults),
            cut_by_task=_tally((call.task, 1) for call in calls if call.ran_out),
            parsed_first_try=sum(first),
            asked=len(first),
            wasted=wasted,
            cache_hits=sum(call.cached for call in calls),
            retries=sum(call.retries for call in made),
            seconds=seconds,
            critical_seconds=trace.critical_seconds,
        )

    def __add__(self, other: Usage) -> Usage:
        """Two usages together: counts and seconds add up, as do layers."""
        total: dict[str, Any] = {}
        for item in fields(self):
            mine, theirs = getattr(self, item.name), getattr(other, item.name)
            if isinstance(mine, Mapping):
                total[item.name] = dict(Counter(mine) + Counter(theirs))
            else:
                total[item.name] = mine or theirs if isinstance(mine, bool) else mine + theirs
        return Usage(**total)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; what may differ between two equal runs stands under ``volatile``."""
        row = {item.name: plain(getattr(self, item.name)) for item in fields(self)}
        return {name: value for name, value in row.items() if name not in self.volatile} | {
            "volatile": {name: row[name] for name in sorted(self.volatile)}
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Usage:
        """The inverse of ``to_dict``."""
        return cls(**{name: value for name, value in row.items() if name != "volatile"}, **row["volatile"])


def _tally(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The counts of each name added up; over the few of a question a ``Counter`` takes longer."""
    total: dict[str, int] = {}
    for name, count in counts:
        total[name] = total.get(name, 0) + count
    return total


def add_usage(usages: Iterable[Usage]) -> Usage:
    """The usages of many questions together."""
    return sum(usages, start=Usage())
