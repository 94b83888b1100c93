"""Steps shared by methods that read retrieved passages: fit them into a prompt, write the next sentence, answer."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.prompts.tasks import Task
from polyhop.prompts.tasks.answers import ANSWER_COT, ANSWER_READ, ANSWER_READ_COT, Response
from polyhop.prompts.tasks.base import OutputT
from polyhop.prompts.tasks.iterative import COT_SENTENCE, Sentence
from polyhop.prompts.triplets import write_triplet
from polyhop.types import Evidence, Passage, T

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run

Style: TypeAlias = Literal["cot", "direct"]
"""The form of an answer: with a chain of thought, or the answer alone."""


def first_retrieved(found: Iterable[Iterable[Passage]], max_passages: int) -> tuple[Passage, ...]:
    """Merge the hits of several queries: at most ``max_passages`` distinct passages, in order of retrieval."""
    return tuple(dict.fromkeys(passage for hits in found for passage in hits))[:max_passages]


def fused_by_rank(rankings: Iterable[Sequence[Passage]]) -> list[Passage]:
    """Fuse rankings by the sum of 1 / (60 + rank) (Cormack et al., 2009); at a tie the earlier ranking leads."""
    scores: defaultdict[Passage, float] = defaultdict(float)
    for hits in rankings:
        for rank, hit in enumerate(hits, 1):
            scores[hit] += 1 / (60 + rank)
    return sorted(scores, key=lambda hit: -scores[hit])


def cut_to_fit(passages: Sequence[Passage], fits: Callable[[list[Passage]], bool], run: Run) -> list[Passage]:
    """Drop passages from the end, and shorten the last one left, until they fit."""
    kept = list(passages)
    if fits(kept):
        return kept

    def cut(count: int, tokens: int) -> list[Passage]:
        """The first passages, the last of them shortened."""
        last = kept[count - 1]
        return [*kept[: count - 1], replace(last, text=run.truncate(last.text, tokens))]

    count = _largest(len(kept), lambda count: fits(cut(count, 0)))
    if not count:
        return []
    return cut(count, _largest(run.count_tokens(kept[count - 1].text), lambda tokens: fits(cut(count, tokens))))


def _largest(limit: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to ``limit`` that fits, with few trials, and with one if all do; 0 if none does."""
    if limit > 0 and fits(limit):
        return limit
    return bisect_right(range(1, limit), False, key=lambda number: not fits(number))


def cut_oldest(
    steps: Sequence[Mapping[str, Any]], fits: Callable[[list[Mapping[str, Any]]], bool], run: Run
) -> list[Mapping[str, Any]]:
    """Cut the ``passages`` of the steps until they fit, the oldest step's first. What was lost is noted."""

    def with_passages(newest_first: Sequence[Passage]) -> list[Mapping[str, Any]]:
        remaining = iter(newest_first)
        filled: list[Mapping[str, Any]] = [
            {**step, "passages": list(islice(remaining, len(step["passages"])))} for step in reversed(steps)
        ]
        return filled[::-1]

    passages = [passage for step in reversed(steps) for passage in step["passages"]]
    kept = cut_to_fit(passages, lambda cut: fits(with_passages(cut)), run)
    _note_cut(passages, kept, run)
    return with_passages(kept)


def fit_passages(passages: Sequence[Passage], fits: Callable[[list[Passage]], bool], run: Run) -> list[Passage]:
    """Shorten passages, the newest or best first, until they fit: from the end they become titles, then they go.

    The first one, if it is still too long when it is alone, is cut at its end. Whatever was lost is noted in the trace.
    """

    def shown(whole: int, count: int) -> list[Passage]:
        """The first ``count`` passages, those after the ``whole`` ones as titles."""
        return [*passages[:whole], *(replace(passage, text="") for passage in passages[whole:count])]

    if whole := _largest(len(passages), lambda whole: fits(shown(whole, len(passages)))):
        kept = shown(whole, len(passages))
    elif count := _largest(len(passages) - 1, lambda count: fits(shown(1, count))):
        kept = shown(1, count)
    else:
        kept = cut_to_fit(passages[:1], fits, run)
    _note_cut(passages, kept, run)
    return kept


def _note_cut(passages: Sequence[Passage], kept: Sequence[Passage], run: Run) -> None:
    note_left_out(
        run,
        shortened=[now.title for was, now in zip(passages, kept, strict=False) if now.text != was.text],
        passages=[passage.title for passage in passages[len(kept) :]],
    )


def fit_items(items: Sequence[T], fits: Callable[[list[T]], bool]) -> list[T]:
    """Keep the first ``items``, as many as fit."""
    return list(items[: _largest(len(items), lambda count: fits(list(items[:count])))])


def note_left_out(run: Run, **names: Sequence[str]) -> None:
    """Note what a prompt had no room for, if anything: names by kind."""
    if found := {kind: list(left_out) for kind, left_out in names.items() if left_out}:
        run.note("left out", **found)


def fit_to_context(
    task: Task[Any], passages: Sequence[Passage], run: Run, *, options: Options, context_tokens: int, **fields: Any
) -> dict[str, Any]:
    """Return the fields of a call with as many of ``passages`` as a prompt of ``context_tokens`` tokens can hold. What
    was lost is noted in the trace."""

    def fits(passages: list[Passage]) -> bool:
        return run.prompt_tokens(task, options=options, passages=passages, **fields) <= context_tokens

    kept = cut_to_fit(passages, fits, run)
    _note_cut(passages, kept, run)
    return {**fields, "passages": kept}


async def ask_about(
    task: Task[OutputT], passages: Sequence[Passage], run: Run, *, options: Options, context_tokens: int, **fields: Any
) -> OutputT:
    """Make a call about ``passages``, which stand in the order in which they were found. If a prompt of
    ``context_tokens`` tokens cannot hold them, the oldest are shortened first; what was lost is noted in the trace."""

    def fits(newest_first: Sequence[Passage]) -> bool:
        few = list(reversed(newest_first))
        return run.prompt_tokens(task, options=options, passages=few, **fields) <= context_tokens

    shown = fit_passages(list(reversed(passages)), fits, run)
    return await run.ask(task, options=options, passages=shown[::-1], **fields)


def fit_fields(task: Task[Any], run: Run, *, options: Options, context_tokens: int, **fields: Any) -> dict[str, Any]:
    """Return the fields of a call, shortened to a prompt of ``context_tokens`` tokens: first its passages, then its
    triplets from the last on, then the steps of its history from the oldest on. What was lost is noted in the trace."""

    def fits(**shorter: Any) -> bool:
        return run.prompt_tokens(task, options=options, **{**fields, **shorter}) <= context_tokens

    if fits():
        return fields
    if fields.get("passage"):
        fields["passage"] = next(iter(fit_passages([fields["passage"]], lambda few: fits(passage=few[0]), run)), None)
    if fields.get("passages"):
        fields["passages"] = fit_passages(fields["passages"], lambda few: fits(passages=few), run)
    triplets, newest = list(fields.get("triplets") or ()), list(fields.get("history") or ())[::-1]
    if triplets:
        fields["triplets"] = fit_items(triplets, lambda few: fits(triplets=few))
    if newest:
        fields["history"] = fit_items(newest, lambda few: fits(history=few[::-1]))[::-1]
    note_left_out(
        run,
        triplets=[write_triplet(triplet) for triplet in triplets[len(fields.get("triplets") or ()) :]],
        steps=[pair["sub_question"] for pair in newest[len(fields.get("history") or ()) :][::-1]],
    )
    return fields


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
    return Answer(answer, passages=passages, evidence=evidence, **fields)


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
