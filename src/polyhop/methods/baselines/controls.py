"""Controls: the passages that retrieval is compared with, read as ``one-r`` reads its hits.

- ``gold``: an upper bound: the question's gold passages, which no other method is given.
- ``full-context``: no retrieval: every passage that a search could find, in one prompt. These are the question's own
  contexts (``--corpus contexts``, the distractor setting of HotpotQA, 2WikiMultiHopQA and MuSiQue) or a small corpus.

Settled here: a question whose gold the corpus lacks, or that has none, is not answered: it counts as an abstention, and
the trace names the missing passages. Contexts that do not fit into ``context_tokens`` are cut, which the trace notes; a
corpus that does not fit is an error.

Example: "In which town was the leader of the Kon-Tiki expedition born?" ``gold`` reads two passages, "Kon-Tiki
expedition" and "Thor Heyerdahl"; ``full-context`` reads these two and the eight distractors of the same record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from polyhop.answer import Answer
from polyhop.common.text import counted
from polyhop.errors import CorpusTooLarge
from polyhop.methods.context import Style, answer_from_passages, reading
from polyhop.methods.registry import method
from polyhop.types import NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run

CONTEXT_TOKENS = 32_768
"""Tokens of a prompt of ``full-context``: several times the ten to twenty paragraphs of a distractor setting."""


@method("gold", family="control", calls=1, paper="ours: an upper bound", layers=lambda _: 1, needs=("gold",))
async def gold(
    question: str, run: Run, *, style: Style = "direct", shots: NonNegative = 3, context_tokens: Positive = 4096
) -> Answer:
    """Read the question's gold passages and answer."""
    assert run.given.gold is not None  # the need says so
    if missing := run.given.gold.missing:
        run.note("gold missing", names=list(missing))
    statistics = {"gold missing": float(len(missing))}
    if not run.given.gold.passages:
        return Answer("", abstained=True, statistics=statistics)
    return await _read(question, run, run.given.gold.passages, style, shots, context_tokens, statistics)


@method(
    "full-context",
    family="control",
    calls=1,
    paper="ours: no retrieval",
    layers=lambda _: 1,
    needs=("corpus",),
)
async def full_context(
    question: str,
    run: Run,
    *,
    style: Style = "direct",
    shots: NonNegative = 3,
    context_tokens: Positive = CONTEXT_TOKENS,
) -> Answer:
    """Read every passage that a search could find and answer."""
    assert run.given.corpus is not None  # the need says so
    passages: list[Passage] = []
    tokens = 0
    for passage in run.given.corpus:
        passages.append(passage)
        tokens += run.count_tokens(f"{passage.title}\n{passage.text}")
        if tokens > context_tokens and not isinstance(run.given.corpus, tuple):
            raise CorpusTooLarge(
                f"full-context reads the whole corpus, and {counted(len(passages), 'passages')} of it fill a prompt of "
                f"{context_tokens:,} tokens: set -o context_tokens to what the model takes, take a smaller corpus, or "
                "--corpus contexts if the dataset's records have contexts"
            )
    return await _read(question, run, passages, style, shots, context_tokens, {"passages read": float(len(passages))})


async def _read(
    question: str,
    run: Run,
    passages: Sequence[Passage],
    style: Style,
    shots: int,
    context_tokens: int,
    statistics: dict[str, float],
) -> Answer:
    """Answer from as many of the passages as fit, in their order."""
    options: Options = {"shots": shots}
    task, fields = reading(question, passages, run, style=style, options=options, context_tokens=context_tokens)
    read = tuple(fields.get("passages", ()))
    response = await run.ask(task, options=options, final=True, **fields)
    return answer_from_passages(read, response.answer, statistics=statistics)
