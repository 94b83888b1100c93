"""Steps shared by methods that read retrieved passages: fit them into a prompt, write the next sentence, answer."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.prompts.tasks import Task
from polyhop.prompts.tasks.answers import ANSWER_COT, ANSWER_READ, ANSWER_READ_COT, Response
from polyhop.prompts.tasks.iterative import COT_SENTENCE, Sentence
from polyhop.types import Evidence, Passage

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run

Style: TypeAlias = Literal["cot", "direct"]
"""The form of an answer: with a chain of thought, or the answer alone."""


def first_retrieved(found: Iterable[Iterable[Passage]], max_passages: int) -> tuple[Passage, ...]:
    """Merge the hits of several queries: at most ``max_passages`` distinct passages, in order of retrieval."""
    return tuple(dict.fromkeys(passage for hits in found for passage in hits))[:max_passages]


def cut_to_fit(passages: Sequence[Passage], fits: Callable[[list[Passage]], bool], run: Run) -> list[Passage]:
    """Drop passages from the end, and shorten the last one left, until they fit."""
    kept = list(passages)
    if fits(kept):
        return kept
    while kept:
        last = kept.pop()

        def with_last(tokens: int, kept: list[Passage] = kept, last: Passage = last) -> list[Passage]:
            return [*kept, replace(last, text=run.truncate(last.text, tokens))]

        if fits(with_last(0)):
            length = run.count_tokens(last.text)
            return with_last(bisect_right(range(1, length + 1), False, key=lambda tokens: not fits(with_last(tokens))))
    return kept


def cut_oldest(
    steps: Sequence[Mapping[str, Any]], fits: Callable[[list[Mapping[str, Any]]], bool], run: Run
) -> list[Mapping[str, Any]]:
    """Cut the ``passages`` of the steps until they fit, the oldest step's first."""

    def with_passages(newest_first: Sequence[Passage]) -> list[Mapping[str, Any]]:
        remaining = iter(newest_first)
        filled: list[Mapping[str, Any]] = [
            {**step, "passages": list(islice(remaining, len(step["passages"])))} for step in reversed(steps)
        ]
        return filled[::-1]

    passages = [passage for step in reversed(steps) for passage in step["passages"]]
    return with_passages(cut_to_fit(passages, lambda cut: fits(with_passages(cut)), run))


def fit_to_context(
    task: Task[Any], passages: Sequence[Passage], run: Run, *, options: Options, context_tokens: int, **fields: Any
) -> dict[str, Any]:
    """Return the fields of a call with as many of ``passages`` as a prompt of ``context_tokens`` tokens can hold."""

    def fits(passages: list[Passage]) -> bool:
        return run.prompt_tokens(task, options=options, passages=passages, **fields) <= context_tokens

    return {**fields, "passages": cut_to_fit(passages, fits, run)}


def reading(
    question: str, passages: Sequence[Passage], run: Run, *, style: Style, options: Options, context_tokens: int
) -> tuple[Task[Response], dict[str, Any]]:
    """Return the task that answers ``question`` from ``passages``, and its fields; closed-book if none is left."""
    task = ANSWER_READ if style == "direct" else ANSWER_READ_COT
    fields = fit_to_context(task, passages, run, options=options, context_tokens=context_tokens, question=question)
    return (task, fields) if fields["passages"] else (ANSWER_COT, {"question": question})


def answer_from_passages(passages: tuple[Passage, ...], answer: str, **fields: Any) -> Answer:
    """Build an answer with ``passages`` as its ranking and, if both exist, as its one piece of evidence. ``fields``:
    other fields of ``Answer``."""
    evidence = (Evidence(passages, answer),) if passages and answer else ()
    return Answer(answer, passages=passages, evidence=evidence, supported=bool(evidence), **fields)


async def next_sentence(
    question: str,
    reasoning: Sequence[str],
    passages: Sequence[Passage],
    run: Run,
    *,
    options: Options,
    context_tokens: int,
) -> Sentence | None:
    """Write one more sentence of a chain of thought from ``passages``, which may be empty; None if it is not new."""
    fields: dict[str, Any] = {"question": question, "reasoning": list(reasoning)}
    fields = fit_to_context(COT_SENTENCE, passages, run, options=options, context_tokens=context_tokens, **fields)
    step = await run.ask(COT_SENTENCE, options=options, **fields)
    return step if normalise(step.sentence) not in {"", *map(normalise, reasoning)} else None
