"""Requests to retriever servers and their replies: a small protocol of our own, and two that people run.

- ``polyhop``, ours: ``{"queries": [text, …], "k": 5}`` is answered by ``{"results": [[passage, …], …]}``, a list for
  each query in order, best first. A passage is a line of a corpus (``data.passages.read_passage``): ``id``, ``title``,
  ``text`` and, where it has them, ``links`` and ``metadata``; and a ``score``, higher is better, if the server has one.
- ``flashrag``: the FastAPI server over FlashRAG's retrievers that came with ReSearch and is copied widely. ``/search``
  and ``/batch_search`` take ``query`` (one or a list), ``top_n`` and ``return_score``. The answer is the documents
  (``id``, ``contents``), or with scores the pair of documents and scores.
- ``search-r1``: Search-R1's server. ``queries``, ``topk`` and ``return_scores`` are answered by ``{"result": …}``: a
  list of documents for each query, or of ``{"document": …, "score": …}``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeAlias

from polyhop.data.lines import json_type
from polyhop.data.passages import read_passage
from polyhop.net.failures import WrongShape
from polyhop.retrieval.services.base import field, listed, mapped
from polyhop.types import Passage

Hit: TypeAlias = tuple[Passage, float | None]


@dataclass(frozen=True, slots=True)
class Protocol:
    """``ask(queries, k, scored)`` gives the path beneath the server's URL and the body to post;
    ``read(reply, queries, scored)`` the hits for each query, ``WrongShape`` where they are not to be found.

    ``endings`` are paths that a given URL may have already.
    """

    ask: Callable[[Sequence[str], int, bool], tuple[str, Mapping[str, Any]]]
    read: Callable[[Any, int, bool], list[list[Hit]]]
    endings: tuple[str, ...] = ()


def _ask_ours(queries: Sequence[str], k: int, scored: bool) -> tuple[str, Mapping[str, Any]]:
    return "", {"queries": list(queries), "k": k}


def _read_ours(reply: Any, queries: int, scored: bool) -> list[list[Hit]]:
    results = listed(field(reply, "results", "the reply"), "results", queries)
    return [
        [
            _hit(row, mapped(row, path).get("score"), path)
            for path, row in _placed(listed(rows, f"results[{number}]"), f"results[{number}]")
        ]
        for number, rows in enumerate(results)
    ]


def _ask_flashrag(queries: Sequence[str], k: int, scored: bool) -> tuple[str, Mapping[str, Any]]:
    several = len(queries) > 1
    body = {"query": list(queries) if several else queries[0], "top_n": k, "return_score": scored}
    return "/batch_search" if several else "/search", body


def _read_flashrag(reply: Any, queries: int, scored: bool) -> list[list[Hit]]:
    documents, scores = listed(reply, "the reply", 2) if scored else (reply, None)
    if queries == 1:  # /search: neither is in a list of its own
        documents, scores = [documents], scores if scores is None else [scores]
    found = []
    for number, rows in enumerate(listed(documents, "documents", queries)):
        path = f"documents[{number}]"
        values = [None] * len(listed(rows, path))
        if scores is not None:
            values = listed(listed(scores, "scores", queries)[number], f"scores[{number}]", len(rows))
        found.append([_hit(row, score, at) for (at, row), score in zip(_placed(rows, path), values, strict=True)])
    return found


def _ask_search_r1(queries: Sequence[str], k: int, scored: bool) -> tuple[str, Mapping[str, Any]]:
    return "/retrieve", {"queries": list(queries), "topk": k, "return_scores": scored}


def _read_search_r1(reply: Any, queries: int, scored: bool) -> list[list[Hit]]:
    found = []
    for number, rows in enumerate(listed(field(reply, "result", "the reply"), "result", queries)):
        placed = _placed(listed(rows, f"result[{number}]"), f"result[{number}]")
        if scored:
            hits = [
                _hit(field(row, "document", path), field(row, "score", path), f"{path}.document")
                for path, row in placed
            ]
        else:
            hits = [_hit(row, None, path) for path, row in placed]
        found.append(hits)
    return found


def _placed(rows: Sequence[Any], path: str) -> list[tuple[str, Any]]:
    return [(f"{path}[{number}]", row) for number, row in enumerate(rows)]


def _hit(row: Any, score: Any, path: str) -> Hit:
    """A passage of a reply and its score; ``path`` names it in errors."""
    number = isinstance(score, int | float) and not isinstance(score, bool) and isfinite(score)
    if not (score is None or number):
        raise WrongShape(f"the reply has another shape: the score of {path} is {json_type(score)}, expected a number")
    try:
        return read_passage(mapped(row, path)), score
    except ValueError as error:
        raise WrongShape(f"the reply has another shape: {path}: {error}") from None


PROTOCOLS: Mapping[str, Protocol] = {
    "polyhop": Protocol(_ask_ours, _read_ours),
    "flashrag": Protocol(_ask_flashrag, _read_flashrag, ("/batch_search", "/search")),
    "search-r1": Protocol(_ask_search_r1, _read_search_r1, ("/retrieve",)),
}
"""The protocols by name."""
