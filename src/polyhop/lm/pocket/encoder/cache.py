"""Predictions of the encoder and vectors of the embedder: cached, and computed in batches for all calls that wait.

A task is ordinary code that calls ``predict`` and ``embed`` for what it needs. Inside ``cached_only()`` what is not
cached raises ``CacheMiss`` instead of being computed: ``Pocket`` collects the misses of all concurrent calls, has them
computed in one batch off the event loop, and restarts the task.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from polyhop.common.sentences import sentence_spans
from polyhop.lm.pocket.encoder.inputs import EncoderOutput, EncoderQuery, SpanPrediction, TitledText
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.lm.pocket.encoder.network import Array

MAX_PASSAGES = 4
"""Maximum number of passages of a path that the encoder reads."""
MAX_CACHED = 20_000
"""Predictions and vectors in the cache; the least recently used are dropped."""
# What goes on without a space: a number ("Forty-one", "6-7", "9.50") or a name ("Hill-Barnes").
_NUMBER_WORD = (
    r"(?i:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|half|one|two|three|four|five|six|seven|eight|nine)"
)
_GOES_ON = re.compile(r"(?<=\d)(?:[-–.:/]\d+|,\d{3}(?!\d))|-(?=[A-Z0-9])\w+|-" + _NUMBER_WORD + r"\b")
_WENT_ON = re.compile(r"\b(?:\d+[-–.:/]|(?:[A-Z]\w*|" + _NUMBER_WORD + r")-)$")
_LONGEST_BEFORE = 20  # characters of a word that goes on

_cached_only: ContextVar[bool] = ContextVar("cached_only", default=False)
_Query: TypeAlias = EncoderQuery | str  # a question over a path, or a text to be embedded
_cache: OrderedDict[_Query, Any] = OrderedDict()
_lock = threading.Lock()


class CacheMiss(Exception):
    """Queries, and texts to be embedded, that a task needs before it can go on."""

    def __init__(self, queries: Sequence[_Query]) -> None:
        super().__init__(len(queries))
        self.queries = tuple(queries)


def predict(question: str, paths: Sequence[Sequence[TitledText]]) -> list[EncoderOutput]:
    """Predict for the question over each path. The order of a path does not matter: its passages are read in the order
    of their titles. Raises ``CacheMiss`` inside ``cached_only()``."""
    return predict_each([(question, path) for path in paths])


def predict_each(asked: Sequence[tuple[str, Sequence[TitledText]]]) -> list[EncoderOutput]:
    """Predict for pairs of a question and a path, in one batch; see ``predict``."""
    orders = [sorted(range(len(path)), key=lambda i: (path[i].title, path[i].text)) for _, path in asked]
    queries = [
        EncoderQuery(question, tuple((path[i].title, path[i].text) for i in order))
        for (question, path), order in zip(asked, orders, strict=True)
    ]
    return [_renumbered(output, order) for output, order in zip(_found(queries), orders, strict=True)]


def embed(texts: Sequence[str]) -> list[Array]:
    """The vectors of texts (see ``network.Embedder``). Raises ``CacheMiss`` inside ``cached_only()``."""
    return _found(texts)


def _found(queries: Sequence[_Query]) -> list[Any]:
    if _cached_only.get():
        with _lock:
            missing = [query for query in queries if query not in _cache]
        if missing:
            raise CacheMiss(missing)
    return run_queries(queries)


def _renumbered(output: EncoderOutput, order: Sequence[int]) -> EncoderOutput:
    """The output with the passages of its spans numbered as on the given path."""
    return output._replace(spans=tuple(span._replace(passage=order[span.passage]) for span in output.spans))


def run_queries(queries: Sequence[_Query]) -> list[Any]:
    """The predictions for queries, and the vectors of texts, from the cache or computed now."""
    with _lock:
        outputs = {query: _cache[query] for query in queries if query in _cache}
    new = [query for query in dict.fromkeys(queries) if query not in outputs]
    outputs |= _predicted([query for query in new if not isinstance(query, str)])
    outputs |= _embedded([query for query in new if isinstance(query, str)])
    with _lock:
        for query in queries:
            _cache[query] = outputs[query]
            _cache.move_to_end(query)
        while len(_cache) > MAX_CACHED:
            _cache.popitem(last=False)
    return [outputs[query] for query in queries]


def _predicted(queries: Sequence[EncoderQuery]) -> dict[_Query, Any]:
    if not queries:
        return {}
    from polyhop.lm.pocket.encoder.network import encoder  # late: most commands never need it

    network = encoder()
    inputs = [network.build_input(query.question, _passages(query)) for query in queries]
    return {query: _cut(query, output) for query, output in zip(queries, network.predict(inputs), strict=True)}


def _embedded(texts: Sequence[str]) -> dict[_Query, Any]:
    if not texts:
        return {}
    from polyhop.lm.pocket.encoder.network import embedder  # late: most commands never need it

    return dict(zip(texts, embedder().embed(texts), strict=True))


def _cut(query: EncoderQuery, output: EncoderOutput) -> EncoderOutput:
    """Make spans end with a word, and not in another sentence or line: no name and no value does."""
    spans: dict[tuple[int, bool, int, int], SpanPrediction] = {}
    for span in output.spans:
        text = query.path[span.passage][not span.in_title]
        start, end = _whole_words(text, span.start, span.end)
        line = text[start:end].split("\n", 1)[0]
        first = line[: next(sentence_spans(line))[1]]
        if len(first) < end - start:
            end = start + len(first.rstrip(" .\r"))
        cut = span._replace(start=start, end=end)
        spans.setdefault(cut[:4], cut)
    return output._replace(spans=tuple(spans.values()))


def _whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """A span with what goes on without a space before and after it.

    >>> text = "Forty-one came at 9.30"
    >>> [text[slice(*_whole_words(text, *span))] for span in ((0, 5), (6, 9), (18, 19), (20, 22))]
    ['Forty-one', 'Forty-one', '9.30', '9.30']
    >>> _whole_words("4,000", 0, 1), _whole_words("2019,2020", 0, 4)
    ((0, 5), (0, 4))
    """
    while further := _GOES_ON.match(text, end):
        end = further.end()
    while before := _WENT_ON.search(text, max(0, start - _LONGEST_BEFORE), start):
        if before[0][0].isdigit() and not text[start].isdigit():
            break
        start = before.start()
    return start, end


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
