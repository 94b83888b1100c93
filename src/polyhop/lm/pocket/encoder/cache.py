"""Predictions of the encoder: cached, and computed in batches for all calls that wait.

A task is ordinary code that calls ``predict`` for what it needs. Inside ``cached_only()`` a prediction that is not
cached raises ``CacheMiss`` instead of being computed: ``Pocket`` collects the misses of all concurrent calls, has them
computed in one batch off the event loop, and restarts the task.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from polyhop.common.sentences import sentence_spans
from polyhop.lm.pocket.encoder.inputs import EncoderOutput, EncoderQuery, SpanPrediction, TitledText
from polyhop.types import Passage

MAX_PASSAGES = 4
"""Maximum number of passages of a path that the encoder reads."""
MAX_CACHED = 20_000
"""Predictions in the cache; the least recently used are dropped."""

_cached_only: ContextVar[bool] = ContextVar("cached_only", default=False)
_cache: OrderedDict[EncoderQuery, EncoderOutput] = OrderedDict()
_lock = threading.Lock()


class CacheMiss(Exception):
    """Queries whose predictions a task needs before it can go on."""

    def __init__(self, queries: Sequence[EncoderQuery]) -> None:
        super().__init__(len(queries))
        self.queries = tuple(queries)


def predict(question: str, paths: Sequence[Sequence[TitledText]]) -> list[EncoderOutput]:
    """Predict for the question over each path. The order of a path does not matter: its passages are read in the order
    of their titles. Raises ``CacheMiss`` inside ``cached_only()``."""
    orders = [sorted(range(len(path)), key=lambda i: (path[i].title, path[i].text)) for path in paths]
    queries = [
        EncoderQuery(question, tuple((path[i].title, path[i].text) for i in order))
        for path, order in zip(paths, orders, strict=True)
    ]
    if _cached_only.get():
        with _lock:
            missing = [query for query in queries if query not in _cache]
        if missing:
            raise CacheMiss(missing)
    return [_renumbered(output, order) for output, order in zip(run_queries(queries), orders, strict=True)]


def _renumbered(output: EncoderOutput, order: Sequence[int]) -> EncoderOutput:
    """The output with the passages of its spans numbered as on the given path."""
    return output._replace(spans=tuple(span._replace(passage=order[span.passage]) for span in output.spans))


def run_queries(queries: Sequence[EncoderQuery]) -> list[EncoderOutput]:
    """The predictions for queries, from the cache or computed now."""
    with _lock:
        outputs = {query: _cache[query] for query in queries if query in _cache}
    new = [query for query in dict.fromkeys(queries) if query not in outputs]
    if new:
        from polyhop.lm.pocket.encoder.network import encoder  # late: most commands never need it

        network = encoder()
        inputs = [network.build_input(query.question, _passages(query)) for query in new]
        outputs |= {query: _cut(query, output) for query, output in zip(new, network.predict(inputs), strict=True)}
    with _lock:
        for query in queries:
            _cache[query] = outputs[query]
            _cache.move_to_end(query)
        while len(_cache) > MAX_CACHED:
            _cache.popitem(last=False)
    return [outputs[query] for query in queries]


def _cut(query: EncoderQuery, output: EncoderOutput) -> EncoderOutput:
    """Cut the spans that go on into another sentence or line: no name and no value does."""
    spans: dict[tuple[int, bool, int, int], SpanPrediction] = {}
    for span in output.spans:
        text = query.path[span.passage][not span.in_title][span.start : span.end]
        line = text.split("\n", 1)[0]
        first = line[: next(sentence_spans(line))[1]]
        end = span.start + len(first.rstrip(" .\r") if len(first) < len(text) else text)
        cut = span._replace(end=end)
        spans.setdefault(cut[:4], cut)
    return output._replace(spans=tuple(spans.values()))


@contextmanager
def cached_only() -> Iterator[None]:
    """Raise ``CacheMiss`` for predictions that are not cached."""
    token = _cached_only.set(True)
    try:
        yield
    finally:
        _cached_only.reset(token)


def _passages(query: EncoderQuery) -> list[Passage]:
    return [Passage("", title, text) for title, text in query.path]
