"""A question over a path of passages, studied once: every skill looks at the same study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from polyhop.lm.pocket.encoder.cache import MOST_LOOKED_AT, looks
from polyhop.lm.pocket.encoder.outputs import Look
from polyhop.lm.pocket.reading.answer import Solution, solve
from polyhop.lm.pocket.reading.candidates import View, view
from polyhop.lm.pocket.reading.passage import Page, open_page
from polyhop.lm.pocket.reading.question import Asked, ask
from polyhop.types import Passage

STUDIES_KEPT = 256


@dataclass
class Study:
    """A question, the pages of a path (root first), what the question matches in them, and what they give for it."""

    question: str
    pages: tuple[Page, ...]

    @cached_property
    def asked(self) -> Asked:
        """The question understood."""
        return ask(self.question)

    @cached_property
    def seen(self) -> View:
        """The pages through the question."""
        return view(self.asked, self.pages)

    @cached_property
    def solution(self) -> Solution:
        """The pages' answer."""
        return solve(self.question, self.pages)

    @cached_property
    def look(self) -> Look | None:
        """What the encoder sees in the path; None for no passage or too many."""
        return looks(self.question, [self.pages])[0] if 0 < len(self.pages) <= MOST_LOOKED_AT else None

    @cached_property
    def unmet(self) -> dict[str, float]:
        """The question's terms that no page of the path has, with their weights."""
        have = {root for page in self.pages for root in (*page.positions, *page.title_roots)}
        return {root: value for root, value in self.asked.terms.items() if root not in have}

    @property
    def coverage(self) -> float:
        """The share of the question's terms, by weight, that the path has."""
        return 1.0 - sum(self.unmet.values()) / self.asked.total


def study(question: str, passages: Sequence[Passage]) -> Study:
    """The study of a question and passages; the same ones again cost nothing (at most ``STUDIES_KEPT`` are kept)."""
    return _study(question, tuple((p.id, p.title, p.text, tuple(p.links)) for p in passages))


@lru_cache(maxsize=STUDIES_KEPT)
def _study(question: str, rows: tuple[tuple[str, str, str, tuple[str, ...]], ...]) -> Study:
    return Study(question, tuple(open_page(Passage(*row)) for row in rows))


def forget() -> None:
    """Drop the kept studies (they hold answers of the weights they were made with)."""
    _study.cache_clear()
