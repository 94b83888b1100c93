"""What methods share that write or answer from retrieved passages: which are shown, the next sentence, the answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.methods.lengths import cut_to_fit
from polyhop.prompts.tasks import Sentence
from polyhop.types import Evidence, Passage

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run

Style: TypeAlias = Literal["cot", "direct"]
"""How an answer is asked for: by chain of thought, or alone."""


def first_retrieved(found: Iterable[Iterable[Passage]], most: int) -> tuple[Passage, ...]:
    """At most ``most`` distinct passages in the order first retrieved, a query's hits in rank order."""
    return tuple(dict.fromkeys(passage for hits in found for passage in hits))[:most]


def fitting(
    task: str, passages: Sequence[Passage], run: Run, *, options: Options, context_tokens: int, **fields: Any
) -> dict[str, Any]:
    """The fields of a call with as many of ``passages`` as a prompt of ``context_tokens`` tokens holds."""

    def fits(few: list[Passage]) -> bool:
        return run.prompt_tokens(task, options=options, passages=few, **fields) <= context_tokens

    return {**fields, "passages": cut_to_fit(passages, fits, run)}


def reading(
    question: str, passages: Sequence[Passage], run: Run, *, style: Style, options: Options, context_tokens: int
) -> tuple[str, dict[str, Any]]:
    """The task that answers ``question`` from ``passages``, and its fields; closed-book where none is left to read."""
    task = "answer.read" if style == "direct" else "answer.read_cot"
    fields = fitting(task, passages, run, options=options, context_tokens=context_tokens, question=question)
    return (task, fields) if fields["passages"] else ("answer.cot", {"question": question})


def resting_on(passages: tuple[Passage, ...], answer: str, **more: Any) -> Answer:
    """An answer with all that was found as its ranking and, where there are both, its one piece of evidence. ``more``:
    what else ``Answer`` tells."""
    evidence = (Evidence(passages, answer),) if passages and answer else ()
    return Answer(answer, passages=passages, evidence=evidence, supported=bool(evidence), **more)


async def next_sentence(
    question: str,
    reasoning: Sequence[str],
    passages: Sequence[Passage],
    run: Run,
    *,
    options: Options,
    context_tokens: int,
) -> Sentence | None:
    """One more sentence of a chain of thought, from ``passages`` or from none; None where nothing new comes."""
    fields: dict[str, Any] = {"question": question, "reasoning": list(reasoning)}
    fields = fitting("cot.sentence", passages, run, options=options, context_tokens=context_tokens, **fields)
    step: Sentence = await run.ask("cot.sentence", options=options, **fields)
    return step if normalise(step.sentence) not in {"", *map(normalise, reasoning)} else None
