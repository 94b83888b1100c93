"""Making passages fit a prompt's length."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.engine.run import Run


def cut_to_fit(passages: Sequence[Passage], fits: Callable[[list[Passage]], bool], run: Run) -> list[Passage]:
    """The passages, cut from the end of the last until they fit: those that do not are left out, one is shortened."""
    kept = list(passages)
    if fits(kept):
        return kept
    while kept:
        last = kept.pop()

        def ending(tokens: int, kept: list[Passage] = kept, last: Passage = last) -> list[Passage]:
            return [*kept, replace(last, text=run.truncate(last.text, tokens))]

        if fits(ending(0)):
            most = run.count_tokens(last.text)
            return ending(bisect_right(range(1, most + 1), False, key=lambda tokens: not fits(ending(tokens))))
    return kept


def cut_oldest(
    steps: Sequence[Mapping[str, Any]], fits: Callable[[list[Mapping[str, Any]]], bool], run: Run
) -> list[Mapping[str, Any]]:
    """The steps with their ``passages`` cut until they fit, those of the oldest steps first."""

    def holding(newest_first: Sequence[Passage]) -> list[Mapping[str, Any]]:
        left = iter(newest_first)
        held: list[Mapping[str, Any]] = [
            {**step, "passages": list(islice(left, len(step["passages"])))} for step in reversed(steps)
        ]
        return held[::-1]

    passages = [passage for step in reversed(steps) for passage in step["passages"]]
    return holding(cut_to_fit(passages, lambda few: fits(holding(few)), run))
