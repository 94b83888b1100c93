"""Evidence fusion (ToR §3.3): the reader's last call over a pool of evidence, within the prompt's length."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from polyhop.methods.context import cut_to_fit
from polyhop.prompts.tasks import Task
from polyhop.prompts.tasks.answers import Response
from polyhop.prompts.tasks.tor import TOR_FUSE
from polyhop.types import Evidence, Passage

if TYPE_CHECKING:
    from polyhop.engine.run import Run

Fusion: TypeAlias = Literal["evidence", "analysis", "paragraph"]
"""The evidence in the prompt: passages and analyses, analyses alone, or passages alone (ToR Tables 10 to 12)."""


async def fuse(
    question: str, pool: Sequence[Evidence], run: Run, *, mode: Fusion, context_tokens: int, shots: int
) -> Response:
    """Answer from the pool, in its order, as much of it as ``context_tokens`` of whole prompt can hold (§4.4)."""

    fields = {"question": question, "mode": mode}
    evidence = shown_within(TOR_FUSE, fields, pool, run, context_tokens=context_tokens, shots=shots)
    return await run.ask(
        TOR_FUSE, options={"shots": shots}, final=True, question=question, evidence=evidence, mode=mode
    )


def shown_within(
    task: Task[Any], fields: Mapping[str, Any], pool: Sequence[Evidence], run: Run, *, context_tokens: int, shots: int
) -> list[Mapping[str, Any]]:
    """Return the ``evidence`` field of a task: pieces of the pool, in order, up to the first that the whole prompt
    cannot hold. If none fits, the passages of the first are cut from the end."""

    def fits(pieces: Sequence[Evidence]) -> bool:
        tokens = run.prompt_tokens(task, options={"shots": shots}, **fields, evidence=_shown(pieces))
        return tokens <= context_tokens

    fitted: list[Evidence] = []
    for piece in pool:
        if not fits([*fitted, piece]):
            break
        fitted.append(piece)
    return _shown(fitted or [_cut(pool[0], lambda piece: fits([piece]), run)])


def _shown(pieces: Sequence[Evidence]) -> list[Mapping[str, Any]]:
    return [{"passages": list(piece.passages), "analysis": piece.answer} for piece in pieces]


def _cut(piece: Evidence, fits: Callable[[Evidence], bool], run: Run) -> Evidence:
    """Cut the passages of a piece from the end until it fits; if none fits, drop them all."""

    def with_passages(passages: Sequence[Passage]) -> Evidence:
        return replace(piece, passages=tuple(passages))

    return with_passages(cut_to_fit(piece.passages, lambda cut: fits(with_passages(cut)), run))
