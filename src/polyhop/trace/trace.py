"""The trace of a question and its usage: layers, critical path, calls, tokens and seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar

from polyhop.common.text import printable
from polyhop.trace.steps import CALLS, Ask, Branch, Readout, Score, Searched, Step, line_of, passages_in, plain
from polyhop.types import Passage


@dataclass(frozen=True, slots=True)
class Trace:
    """The steps of a question, in the order of the algorithm. ``budget`` names the limit that ended the gathering."""

    question: str
    method: str
    steps: tuple[Step, ...]
    budget: str | None = None

    @property
    def calls(self) -> tuple[Ask, ...]:
        """The language model calls, in the order of the algorithm."""
        return tuple([step for step in self.steps if isinstance(step, Ask)])

    @property
    def answers_call(self) -> Ask | None:
        """The call that gave the answer: the last that the method marked as its final one, else the last of all but the
        check of its support."""
        calls = [call for call in self.calls if call.task != "support.check"]
        return next((call for call in reversed(calls) if call.final), calls[-1] if calls else None)

    @property
    def read(self) -> tuple[Passage, ...]:
        """The distinct passages that a model or a reader was shown, in order."""
        shown = (step for step in self.steps if isinstance(step, (Ask, Readout)))
        return tuple(dict.fromkeys(passage for step in shown for passage in passages_in(step)))

    @property
    def searches(self) -> tuple[Searched, ...]:
        """The searches that a retriever made itself, without those that only delegate to others, as a reranker's do."""
        searches = [step for step in self.steps if isinstance(step, Searched)]
        delegating = {step.parent for step in searches}
        return tuple(step for step in searches if step.id not in delegating)

    @property
    def defaults(self) -> dict[str, int]:
        """The number of calls by task whose replies could not be read, so that the safe default was used."""
        total: dict[str, int] = {}
        for call in self.calls:
            _add(total, call.task, (call.attempt == 1) - (call.output is not None))
        return {task: count for task, count in total.items() if count > 0}

    @property
    def layers(self) -> int:
        """The length of the longest chain of language model calls of which each had to wait for the previous one."""
        depths = [step.depth for step in self.steps if isinstance(step, Ask) and step.depth is not None]
        if depths:
            return max(depths)
        return int(max(self._weights({step.id: isinstance(step, CALLS) for step in self.steps}).values(), default=0))

    @property
    def critical_path(self) -> tuple[Step, ...]:
        """The slowest chain of dependent steps, in order. No schedule is faster than it."""
        seconds, weights = self._own_seconds(), self._chain_seconds()
        by_id = {step.id: step for step in self.steps}
        chain: list[Step] = []
        last = max(weights, key=weights.__getitem__, default=None)
        while last is not None:
            chain.append(by_id[last])
            last = max(by_id[last].after, key=weights.__getitem__, default=None)
        return tuple(step for step in reversed(chain) if seconds[step.id])

    @property
    def critical_seconds(self) -> float:
        """The seconds of the critical path, each step by itself: nobody waits for a turn."""
        return max(self._chain_seconds().values(), default=0.0)

    def children(self, parent: int | None = None) -> list[Step]:
        """Return the steps directly under ``parent``; None is the root."""
        return [step for step in self.steps if step.parent == parent]

    def outline(self) -> str:
        """Return the trace as text: a line per step with its number, indented under its parent."""
        budget = [f"budget spent: {self.budget}"] if self.budget else []
        return "\n".join([printable(self.question), *self._lines(None, 0), *budget])

    def _lines(self, parent: int | None, depth: int) -> Iterator[str]:
        for step in self.children(parent):
            yield f"{'  ' * depth}- [{step.id}] {line_of(step)}"
            yield from self._lines(step.id, depth + 1)

    def _own_seconds(self) -> dict[int, float]:
        """Return the seconds of each step by its id; 0 for a step that has children, whose seconds count instead."""
        none = {step.parent for step in self.steps}.union(step.id for step in self.steps if isinstance(step, Branch))
        return {
            step.id: 0.0 if step.id in none else step.seconds if step.own is None else step.own for step in self.steps
        }

    def _chain_seconds(self) -> dict[int, float]:
        """Return the seconds of the heaviest chain that ends with each step; prefetched calls know theirs."""
        chains = {step.id: step.chain for step in self.steps if step.chain is not None}
        return self._weights(self._own_seconds(), chains)

    def _weights(self, own: Mapping[int, float], known: Mapping[int, float] = MappingProxyType({})) -> dict[int, float]:
        """Return, by the id of a step, the weight of the heaviest chain of dependent steps that ends with it, of which
        each has its ``own`` weight; a ``known`` weight of a chain is never less than that of the steps before."""
        weights: dict[int, float] = {}
        for step in self.steps:
            before = max([weights[i] for i in step.after]) if step.after else 0.0
            found = known.get(step.id)
            weights[step.id] = own[step.id] + before if found is None or found < before else found
        return weights

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values; every passage is written once, under ``passages``, and by its id elsewhere."""
        return {
            "question": self.question,
            "method": self.method,
            "budget": self.budget,
            "steps": [step.to_dict() for step in self.steps],
            "passages": {p.id: p.to_dict() for p in passages_in(self.steps)},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The calls, tokens, searches and seconds of a question or a run.

    ``seconds`` is a question's own time, that of its critical path, as if nothing else were under way; ``elapsed`` is
    the time that it took, waiting included.
    """

    volatile: ClassVar[frozenset[str]] = frozenset({"layers", "wasted", "cache_hits", "retries", "seconds", "elapsed"})

    calls: int = 0
    calls_by_task: Mapping[str, int] = field(default_factory=dict)
    calls_by_shots: Mapping[str, int] = field(default_factory=dict)
    """By task and number of demonstrations shown, as ``answer.read 3``."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    """The part of ``completion_tokens`` that is thoughts, where servers count it."""
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
    """Calls that spent their token cap on thoughts before a text could be read, and were repeated with a larger cap."""
    parsed_first_try: int = 0
    asked: int = 0
    wasted: int = 0
    cache_hits: int = 0
    retries: int = 0
    seconds: float = 0.0
    elapsed: float = 0.0

    @classmethod
    def of(cls, trace: Trace, elapsed: float, *, wasted: int = 0) -> Usage:
        """Return the usage of a question: of its trace, the seconds that it took and its ``wasted`` calls."""
        tasks: dict[str, int] = {}
        shots: dict[str, int] = {}
        prompted: dict[str, int] = {}
        completed: dict[str, int] = {}
        malformed: dict[str, int] = {}
        cut: dict[str, int] = {}
        reasoning = prompt_words = words = parsed = asked = cached = retries = 0
        estimated = False
        for call in trace.calls:
            _add(tasks, call.task)
            _add(prompted, call.model, call.prompt_tokens)
            _add(completed, call.model, call.completion_tokens)
            if call.shots is not None:
                _add(shots, f"{call.task} {call.shots}")
            if call.problem:
                _add(malformed, call.task)
                if call.was_cut:
                    _add(cut, call.task)
            if call.attempt == 1:
                asked += 1
                parsed += call.problem is None
            reasoning += call.reasoning_tokens
            prompt_words += call.prompt_words
            words += call.completion_words
            estimated |= call.estimated
            cached += call.cached
            retries += call.retries
        for score in [step for step in trace.steps if isinstance(step, Score)]:
            _add(tasks, score.task)
            _add(prompted, score.model, score.prompt_tokens)
            prompt_words += score.prompt_words
            estimated = True
            retries += score.retries
        return cls(
            calls=sum(tasks.values()),
            calls_by_task=tasks,
            calls_by_shots=shots,
            prompt_tokens=sum(prompted.values()),
            completion_tokens=sum(completed.values()),
            reasoning_tokens=reasoning,
            prompt_tokens_by_model=prompted,
            completion_tokens_by_model=completed,
            prompt_words=prompt_words,
            completion_words=words,
            tokens_estimated=estimated,
            searches=len(trace.searches),
            layers=trace.layers,
            malformed_by_task=malformed,
            defaulted_by_task=trace.defaults,
            cut_by_task=cut,
            parsed_first_try=parsed,
            asked=asked,
            wasted=wasted,
            cache_hits=cached,
            retries=retries,
            seconds=trace.critical_seconds,
            elapsed=elapsed,
        )

    @property
    def shots_by_task(self) -> dict[str, list[int]]:
        """The numbers of demonstrations that the prompts of each task showed, in order."""
        shown: dict[str, list[int]] = {}
        for task, number in sorted((task, int(number)) for task, number in map(str.split, self.calls_by_shots)):
            shown.setdefault(task, []).append(number)
        return shown

    def __add__(self, other: Usage) -> Usage:
        """Add two usages: counts, seconds and layers."""
        total: dict[str, Any] = {}
        for item in fields(self):
            mine, theirs = getattr(self, item.name), getattr(other, item.name)
            if isinstance(mine, Mapping):
                total[item.name] = dict(Counter(mine) + Counter(theirs))
            else:
                total[item.name] = mine or theirs if isinstance(mine, bool) else mine + theirs
        return Usage(**total)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values; those that may differ between equal runs stand under ``volatile``."""
        row = {item.name: plain(getattr(self, item.name)) for item in fields(self)}
        return {name: value for name, value in row.items() if name not in self.volatile} | {
            "volatile": {name: row[name] for name in sorted(self.volatile)}
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Usage:
        """Invert ``to_dict``; older rows name the two times ``critical_seconds`` and ``seconds``."""
        times = dict(row["volatile"])
        if "critical_seconds" in times:
            times |= {"elapsed": times["seconds"], "seconds": times.pop("critical_seconds")}
        return cls(**{name: value for name, value in row.items() if name != "volatile"}, **times)


def _add(total: dict[str, int], name: str, count: int = 1) -> None:
    """Add to the count of a name; a ``Counter`` takes longer over the few of a question."""
    total[name] = total.get(name, 0) + count


def add_usage(usages: Iterable[Usage]) -> Usage:
    """Add the usages of many questions."""
    return sum(usages, start=Usage())
