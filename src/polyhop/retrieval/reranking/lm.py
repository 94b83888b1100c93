"""A language model as reranker: it puts passages in order, window by window, or grades each alone.

Sources: listwise, Sun, Yan, Ma, Wang, Ren, Chen, Yin and Ren, "Is ChatGPT Good at Search? Investigating Large Language
Models as Re-Ranking Agents", 2023, §3: windows of 20 from the end of the list to its head, each 10 further on, so that
the best of one are in the next. Pointwise, Zhuang, Qin, Hui, Wu, Yan, Wang and Bendersky, "Beyond Yes and No: Improving
Zero-Shot LLM Rankers via Scoring Fine-Grained Relevance Labels", 2023: grades from 0 to 4. Differs: the last window
always begins at the head, whatever the length; a grade is the reported one, not an expectation over log-probabilities,
so that any model will do; prompts and demonstrations are ours (the prompt files ``rerank.order`` and ``rerank.grade``).

One example: of 25 passages the model orders the 6th to the 25th, then the first 15 as they now stand: two calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

from polyhop.common.registry import path_and_options, with_options
from polyhop.errors import SettingError, UnknownName
from polyhop.prompts.tasks.reranking import RERANK_GRADE, RERANK_ORDER
from polyhop.retrieval.reranking.base import checked_first
from polyhop.types import Passage, QuestionRun

How: TypeAlias = Literal["listwise", "pointwise"]

_OPTIONS = ("how", "first", "window", "step", "passage_tokens")


class LmReranker:
    """Any retriever's hits as the run's model orders them. Its calls are the question's own: traced, budgeted, cached.

    ``first``: hits that are looked at, §3's 100: nine calls a search; 20 are one. ``passage_tokens``: what is shown of
    each. A reply that cannot be read, and a spent budget, leave passages as they came.
    """

    def __init__(
        self,
        *,
        how: How = "listwise",
        first: int = 100,
        window: int = 20,
        step: int = 10,
        passage_tokens: int = 300,
        name: str = "lm",
    ) -> None:
        if how not in get_args(How):
            raise SettingError(f"how={how}: must be {' or '.join(get_args(How))}")
        for setting, value in (("window", window), ("step", step), ("passage_tokens", passage_tokens)):
            if not isinstance(value, int) or value < 1:
                raise SettingError(f"{setting}={value}: must be at least 1")
        if step > window or window < 2:
            raise SettingError(f"window={window}, step={step}: a window holds at least 2 passages and a step")
        self.name, self.how, self.first = name, how, checked_first(first)
        self.window, self.step, self.passage_tokens = window, step, passage_tokens

    async def rerank_by(self, run: QuestionRun, query: str, passages: Sequence[Passage], k: int) -> Sequence[Passage]:
        """The ``k`` best of ``passages``, best first."""
        if len(passages) < 2:
            return passages[:k]
        ranked = self._in_windows if self.how == "listwise" else self._by_grade
        return (await ranked(run, query, passages))[:k]

    async def _in_windows(self, run: QuestionRun, query: str, passages: Sequence[Passage]) -> list[Passage]:
        ranked = list(passages)
        with run.gathering():
            for part in windows(len(ranked), self.window, self.step):
                shown = [self._cut(run, passage) for passage in ranked[part]]
                reply = await run.ask(RERANK_ORDER, question=query, passages=shown)
                ranked[part] = ordered(ranked[part], reply.order)
        return ranked

    async def _by_grade(self, run: QuestionRun, query: str, passages: Sequence[Passage]) -> list[Passage]:
        grades: dict[Passage, int] = {}

        async def grade(passage: Passage) -> None:
            reply = await run.ask(RERANK_GRADE, question=query, passage=self._cut(run, passage))
            grades[passage] = reply.grade

        with run.gathering():
            await run.gather(*map(grade, passages), finish_all=True)
        return sorted(passages, key=lambda passage: -grades.get(passage, -1))

    def _cut(self, run: QuestionRun, passage: Passage) -> Passage:
        return replace(passage, text=run.truncate(passage.text, self.passage_tokens))


def windows(count: int, size: int, step: int) -> Iterable[slice]:
    """The windows over a list of ``count``, from its end to its head.

    >>> [(part.start, part.stop) for part in windows(25, 20, 10)]
    [(5, 25), (0, 15)]
    """
    end = count
    while True:
        yield slice(max(0, end - size), end)
        if end <= size:
            return
        end -= step


def ordered(passages: Sequence[Passage], order: Iterable[int]) -> list[Passage]:
    """Order passages by their listed numbers, from 1; those not listed follow as they came.

    >>> three = [Passage(id, "", "") for id in "abc"]
    >>> [passage.id for passage in ordered(three, [3, 7, 3])]
    ['c', 'a', 'b']
    """
    listed = [passages[number - 1] for number in order if 1 <= number <= len(passages)]
    return list(dict.fromkeys((*listed, *passages)))


def open_lm_reranker(options: str = "") -> LmReranker:
    """``?OPTIONS``: ``how`` (listwise or pointwise), ``first``, ``window``, ``step``, ``passage_tokens``.

    Raises:
        SettingError: one has a value that it cannot take.
    """
    path, given = path_and_options("lm", options, "first=20")
    if path:
        raise SettingError(f"lm:{options}: the run's own model reranks; options come behind a ?, as in lm?first=20")
    if strange := sorted(given.keys() - set(_OPTIONS)):
        raise UnknownName("option of the reranker lm", strange[0], _OPTIONS)
    return LmReranker(**given, name=with_options("lm", given))
