"""Counters of a service in Prometheus' text format, version 0.0.4."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from time import monotonic

from polyhop.answer import Answer
from polyhop.serve.errors import OutOfTime

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds of the buckets of a question's seconds."""


class Metrics:
    """Counters by method: questions, their seconds, calls and tokens; and gauges of running and waiting questions."""

    def __init__(self) -> None:
        self.gauges = Counter(running=0, waiting=0)
        self._questions: Counter[tuple[str, str]] = Counter()
        self._calls: Counter[str] = Counter()
        self._tokens: Counter[tuple[str, str]] = Counter()
        self._requests: Counter[int] = Counter()
        self._buckets: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(BOUNDS) + 1))
        self._seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def question(self, method: str) -> Iterator[Callable[[Answer], None]]:
        """Time a question and count its outcome: ``answered``, ``unsupported``, ``abstained``, ``failed``, ``out of
        time`` or ``cancelled``. Yields a function to call with the answer."""
        began, outcome = monotonic(), "failed"

        def ended(answer: Answer) -> None:
            nonlocal outcome
            outcome = "abstained" if answer.abstained else "answered" if answer.supported else "unsupported"
            self._calls[method] += answer.usage.calls
            self._tokens[method, "prompt"] += answer.usage.prompt_tokens
            self._tokens[method, "completion"] += answer.usage.completion_tokens

        try:
            yield ended
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except OutOfTime:
            outcome = "out of time"
            raise
        finally:
            seconds = monotonic() - began
            self._questions[method, outcome] += 1
            self._buckets[method][bisect_left(BOUNDS, seconds)] += 1
            self._seconds[method] += seconds

    @contextmanager
    def now(self, gauge: str) -> Iterator[None]:
        """Raise a gauge by one while the block runs: ``running`` or ``waiting``."""
        self.gauges[gauge] += 1
        try:
            yield
        finally:
            self.gauges[gauge] -= 1

    def responded(self, status: int) -> None:
        """Count an HTTP response."""
        self._requests[status] += 1

    def text(self) -> str:
        """Return all counters as Prometheus' text.

        >>> metrics = Metrics()
        >>> metrics.responded(200)
        >>> print(metrics.text().splitlines()[-1])
        polyhop_http_requests_total{status="200"} 1
        """
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield from _head("polyhop_questions_total", "counter", "Questions by method and how they ended.")
        for (method, outcome), count in sorted(self._questions.items()):
            yield f'polyhop_questions_total{{method="{method}",outcome="{outcome}"}} {count}'
        yield from _head("polyhop_question_seconds", "histogram", "Seconds from a question to its end.")
        for method, counts in sorted(self._buckets.items()):
            for bound, total in zip((*map(str, BOUNDS), "+Inf"), accumulate(counts), strict=True):
                yield f'polyhop_question_seconds_bucket{{method="{method}",le="{bound}"}} {total}'
            yield f'polyhop_question_seconds_sum{{method="{method}"}} {self._seconds[method]:.6f}'
            yield f'polyhop_question_seconds_count{{method="{method}"}} {sum(counts)}'
        yield from _head("polyhop_lm_calls_total", "counter", "Language model calls of answered questions, by method.")
        for method, count in sorted(self._calls.items()):
            yield f'polyhop_lm_calls_total{{method="{method}"}} {count}'
        yield from _head("polyhop_tokens_total", "counter", "Tokens of answered questions by method and kind.")
        for (method, kind), count in sorted(self._tokens.items()):
            yield f'polyhop_tokens_total{{method="{method}",kind="{kind}"}} {count}'
        for gauge, count in self.gauges.items():
            yield from _head(f"polyhop_questions_{gauge}", "gauge", f"Questions and searches {gauge} now.")
            yield f"polyhop_questions_{gauge} {count}"
        yield from _head("polyhop_http_requests_total", "counter", "HTTP requests by status.")
        for status, count in sorted(self._requests.items()):
            yield f'polyhop_http_requests_total{{status="{status}"}} {count}'


def _head(name: str, kind: str, help: str) -> tuple[str, str]:
    return f"# HELP {name} {help}", f"# TYPE {name} {kind}"
