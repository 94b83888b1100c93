"""Self-consistency: several samples of one call, and the most frequent answer among them.

Wang, Wei, Schuurmans, Le, Chi, Narang, Chowdhery, Zhou: "Self-Consistency Improves Chain of Thought Reasoning in
Language Models", 2022. No public code.

Followed: sampled reasoning paths, an unweighted majority over their answers (§2). Settled here: answers are compared
after normalisation; of answers with as many votes the likelier one wins, by the mean probability of its words in the
replies that give it, where every one of them tells it, else the one seen first; a reply without an answer has no vote,
nor has a non-answer ("unknown") where any reply has an answer, unless its prompt allowed it, nor one that could not be
read where any could be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from polyhop.common.text import normalise
from polyhop.types import T, TypedTask

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run


class Answering(Protocol):
    """A task's output with an answer in it."""

    @property
    def answer(self) -> str: ...

    @property
    def parsed(self) -> bool: ...

    @property
    def may_decline(self) -> bool: ...

    def probability(self, answer: str) -> float | None: ...

    def declines(self, answer: str) -> bool: ...


A = TypeVar("A", bound=Answering)


@dataclass(frozen=True, slots=True)
class Vote(Generic[A]):
    """The outcome: ``winners`` are the replies that give the majority's answer, in the order drawn, of all ``cast``."""

    winners: tuple[A, ...]
    cast: int

    @property
    def answer(self) -> str:
        """The majority's answer in the words of its first reply; "" if no reply has one."""
        return self.winners[0].answer if self.winners else ""

    @property
    def share(self) -> float:
        """The majority's share of all replies, from 0 to 1."""
        return len(self.winners) / self.cast if self.cast else 0.0


def majority(replies: Sequence[A]) -> Vote[A]:
    """Take the vote over ``replies``."""
    by_answer: dict[str, list[A]] = {}
    for reply in answering(replies):
        said = "" if reply.declines(reply.answer) else normalise(reply.answer)
        by_answer.setdefault(said, []).append(reply)
    most = max(map(len, by_answer.values()), default=0)
    tied = [group for group in by_answer.values() if len(group) == most]
    likely = [_likelihood(group) for group in tied]
    known = [sure for sure in likely if sure is not None]
    best = known.index(max(known)) if known and len(known) == len(likely) else 0
    return Vote(tuple(tied[best]) if tied else (), len(replies))


def answering(replies: Sequence[A]) -> list[A]:
    """Return the replies that give an answer; those that could be read before all others, and then answers before
    non-answers, unless the prompts allowed these."""
    read = [reply for reply in replies if reply.answer and reply.parsed]
    firm = [reply for reply in read if reply.may_decline or not reply.declines(reply.answer)]
    return firm or read or [reply for reply in replies if reply.answer]


def _likelihood(replies: Sequence[Answering]) -> float | None:
    """Return the mean probability of an answer's words in the replies that give it; None if one is unknown."""
    sure = [reply.probability(reply.answer) for reply in replies]
    known = [value for value in sure if value is not None]
    return sum(known) / len(known) if len(known) == len(sure) else None


async def sampled(
    run: Run, task: TypedTask[T], calls: Sequence[dict[str, Any]], *, options: Options, final: bool = True
) -> list[T]:
    """Make one call of a task per item of ``calls``, its fields, all at once; return the replies in order.

    Equal calls that do not sample are one, whose reply counts for each. A call that the budget does not allow is left
    out. With ``final`` the last call is the one that the budget reserves, so there is always a reply.
    """
    drawn: dict[int, T] = {}

    async def draw(number: int) -> None:
        last = final and number == len(calls) - 1
        with run.gathering():
            drawn[number] = await run.ask_once(task, options=asked, final=last, **calls[number])

    asked: Options = {**options, "logprobs": True}
    with run.gathering():  # an error comes out as itself, not as a group
        await run.gather(*map(draw, range(len(calls))))
    return [drawn[number] for number in sorted(drawn)]
