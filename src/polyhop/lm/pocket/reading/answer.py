"""Solving: a question over some pages, by comparison, by following a chain of relations, or by reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyhop.common.text import bare_title
from polyhop.lm.pocket.encoder.cache import MOST_LOOKED_AT, looks
from polyhop.lm.pocket.reading.candidates import Ranked, rank
from polyhop.lm.pocket.reading.chains import Hop, follow
from polyhop.lm.pocket.reading.compare import Verdict, compare
from polyhop.lm.pocket.reading.descriptions import chain
from polyhop.lm.pocket.reading.lexicon import UNITS
from polyhop.lm.pocket.reading.pairs import Comparison
from polyhop.lm.pocket.reading.passage import Page
from polyhop.lm.pocket.reading.question import Asked, ask
from polyhop.lm.pocket.reading.values import parse_date

NOTHING_KNOWN = "unknown"
"""The answer where nothing can be said: honest, never empty, and right for no question."""


@dataclass(frozen=True, slots=True)
class Solution:
    """What the pages give for a question. ``complete``: every step was found, none was guessed."""

    asked: Asked
    answer: str | None
    complete: bool
    verdict: Verdict | None = None
    hops: tuple[Hop, ...] = ()
    ranked: tuple[Ranked, ...] = ()
    narrowed: Asked | None = None  # the last step's own question, where only that step was left to read

    @property
    def margin(self) -> float:
        """How far the best candidate leads the next, in log-odds; 0 where nothing was read."""
        scores = [ranked.score for ranked in self.ranked[:2]]
        return scores[0] - scores[1] if len(scores) == 2 else (3.0 if scores else 0.0)


def solve(question: str, pages: Sequence[Page]) -> Solution:
    """Answer a question from pages.

    >>> from polyhop.lm.pocket.reading.passage import open_page
    >>> from polyhop.types import Passage
    >>> film = Passage("1", "Dark Mill", "Dark Mill is a 1931 film directed by Rolf Anders.")
    >>> director = Passage("2", "Rolf Anders", "Rolf Anders (4 May 1899 – 1950) was a German film director.")
    >>> solution = solve("When was the director of Dark Mill born?", [open_page(film), open_page(director)])
    >>> solution.answer, solution.complete
    ('4 May 1899', True)
    """
    asked = ask(question)
    if asked.comparison:
        verdict = compare(asked, asked.comparison, pages)
        answer = verdict.answer or undecided(asked.comparison)
        if answer is not None:
            return Solution(asked, answer, verdict.complete, verdict)
        return _read(asked, None, pages, (), verdict)
    steps = chain(asked.text)
    hops = tuple(follow(steps, pages)) if steps else ()
    if hops and len(hops) == len(steps) and hops[-1].value and asked.type != "boolean":
        return Solution(asked, hops[-1].value.text, True, hops=hops)
    return _read(asked, _narrowed(hops, len(steps)), pages, hops, None)


def undecided(comparison: Comparison) -> str | None:
    """The answer to a comparison that nothing decides: "no", or the first of the two; None for a thing in common."""
    if comparison.how in ("same", "both"):
        return "no"
    return None if comparison.how == "common" else bare_title(comparison.options[0])


def _narrowed(hops: Sequence[Hop], count: int) -> Asked | None:
    """The last step's own question with its subject filled in, where only that step is left."""
    if len(hops) == count and hops and hops[-1].subject:
        return ask(hops[-1].step.question.replace(hops[-1].step.subject, hops[-1].subject))
    return None


def _read(
    asked: Asked, narrowed: Asked | None, pages: Sequence[Page], hops: tuple[Hop, ...], verdict: Verdict | None
) -> Solution:
    ranked = tuple(rank(narrowed or asked, pages))
    if asked.type == "boolean":
        return Solution(asked, "yes" if _holds(asked, pages) else "no", False, verdict, hops, ranked, narrowed)
    answer = spoken(asked, ranked[0]) if ranked else None
    return Solution(asked, answer, False, verdict, hops, ranked, narrowed)


def _holds(asked: Asked, pages: Sequence[Page]) -> bool:
    """Whether what is asked holds: the encoder's word on few pages, else whether its words stand there."""
    if 0 < len(pages) <= MOST_LOOKED_AT:
        kinds = looks(asked.text, [pages])[0].kinds
        return kinds["yes"] > kinds["no"]
    return _covers(asked, pages)


def _covers(asked: Asked, pages: Sequence[Page]) -> bool:
    have = {root for page in pages for root in (*page.positions, *page.title_roots)}
    return sum(value for root, value in asked.terms.items() if root in have) / asked.total >= 0.7


def spoken(asked: Asked, ranked: Ranked) -> str:
    """A candidate as an answer: the year alone where a year is asked for, a measure with its unit."""
    if asked.type == "year" and ranked.mention.kind == "date" and (date := parse_date(ranked.text)) and date.year:
        return str(date.year)
    after = "".join(ranked.page.tokens[ranked.mention.last : ranked.mention.last + 1])
    if asked.type == "number" and asked.head is None and ranked.mention.kind == "number" and after in UNITS:
        return f"{ranked.text} {after}"
    return ranked.text
