"""A language model as reranker: it orders passages, window by window, or grades each alone.

Sources: listwise, Sun, Yan, Ma, Wang, Ren, Chen, Yin and Ren, "Is ChatGPT Good at Search? Investigating Large Language
Models as Re-Ranking Agents", 2023, §3: windows of 20 from the end of the list to its head, in steps of 10, so that the
best of each window are in the next. Pointwise, Zhuang, Qin, Hui, Wu, Yan, Wang and Bendersky, "Beyond Yes and No:
Improving Zero-Shot LLM Rankers via Scoring Fine-Grained Relevance Labels", 2023: grades from 0 to 4. Differs: the last
window always begins at the head; a grade is the one in the reply, not an expectation over log-probabilities, so that
any model can be used; prompts and demonstrations are our own (the prompt files ``rerank.order`` and ``rerank.grade``).

One example: of 25 passages the model orders the 6th to the 25th, then the first 15 of the new order: two calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

from polyhop.common.registry import check_at_least, check_options, path_and_options, with_options
from polyhop.errors import SettingError
from polyhop.prompts.tasks.parts import RERANK_GRADE, RERANK_ORDER
from polyhop.types import Passage, QuestionRun

How: TypeAlias = Literal["listwise", "pointwise"]

_OPTIONS = ("how", "first", "window", "step", "passage_tokens")


class LmReranker:
    """A reranker by the model of the run. Its calls belong to the question: they are traced, budgeted and cached.

    ``first`` is the number of hits to rerank: §3's 100 take nine calls per search, 20 take one. Each passage is cut to
    ``passage_tokens``. After a reply that cannot be read, and with a spent budget, passages keep their order.
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
        check_at_least(1, window=window, step=step, passage_tokens=passage_tokens, first=first)
        if step > window or window < 2:
            raise SettingError(f"window={window}, step={step}: a window holds at least 2 passages and a step")
        self.name, self.how, self.first = name, how, first
        self.window, self.step, self.passage_tokens = window, step, passage_tokens

    async def rerank_by(self, run: QuestionRun, query: str, passages: Sequence[Passage], k: int) -> Sequence[Passage]:
        """Return the ``k`` best of ``passages``, best first."""
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
    """Yield the windows over a list of ``count``, from its end to its head.

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
    """Order passages by their listed numbers, from 1; the others follow in their old order.

    >>> three = [Passage(id, "", "") for id in "abc"]
    >>> [passage.id for passage in ordered(three, [3, 7, 3])]
    ['c', 'a', 'b']
    """
    listed = [passages[number - 1] for number in order if 1 <= number <= len(passages)]
    return list(dict.fromkeys((*listed, *passages)))


def open_lm_reranker(options: str = "") -> LmReranker:
    """Open ``?OPTIONS``: ``how`` (listwise or pointwise), ``first``, ``window``, ``step``, ``passage_tokens``.

    Raises:
        SettingError: an option has an invalid value.
    """
    path, given = path_and_options("lm", options, "first=20")
    if path:
        raise SettingError(f"lm:{options}: the run's own model reranks; options come behind a ?, as in lm?first=20")
    check_options("the reranker lm", given, _OPTIONS)
    return LmReranker(**given, name=with_options("lm", given))
