"""The ``Engine`` of a pipeline: its open parts, with which methods answer questions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from polyhop.answer import NON_ANSWER, Answer, completed, with_citations, without_non_answer
from polyhop.common.aio import gather
from polyhop.common.turns import in_thread
from polyhop.engine.call import Fields
from polyhop.engine.equipment import Equipment
from polyhop.engine.follow_up import standalone
from polyhop.engine.run import Run
from polyhop.engine.support import check_support
from polyhop.prompts.kinds import in_form_of
from polyhop.retrieval.base import AwaitedRetriever, Retriever, ScoringRetriever, check_passages
from polyhop.retrieval.index import Index
from polyhop.retrieval.within import Within
from polyhop.trace import Step, Usage
from polyhop.types import NOTHING, Given, Kind, Passage

MAX_QUERIES = 512
"""Maximum number of queries of one call of a retriever. A thread cannot be stopped: work that nobody waits for any more
ends after its call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine(Equipment):
    """The open parts of a pipeline, with which methods answer questions."""

    async def answer(
        self,
        function: Callable[..., Awaitable[Answer]],
        name: str,
        question: str,
        kind: Kind,
        settings: Fields,
        listen: Callable[[Step], object] | None = None,
        given: Given = NOTHING,
        conversation: Sequence[tuple[str, str]] = (),
    ) -> Answer:
        """Run a method on one question; return its answer with citations, confidence, trace and usage. ``listen`` is
        called with every step when it ends, and with a branch also when it begins. ``given``: what the method's needs
        name. ``conversation``: the turns before a follow-up question."""
        run = Run(self, question, name, kind, listen=listen, given=given)
        with run.recorder.recording():
            question = await standalone(question, conversation, run, self)
            found = await function(question, run, **settings)
            if (text := in_form_of(kind, found.text)) != found.text:
                found = replace(found, text=text)
            answer = without_non_answer(found, question)
            if answer.text != found.text:
                run.note(NON_ANSWER, said=found.text)
            run.end()
            trace = run.recorder.trace()
            answer = with_citations(answer, trace)
            checked = await check_support(answer, question, run, self)
        if self.verify_support:
            trace = run.recorder.trace()
        usage = Usage.of(trace, run.recorder.clock(), wasted=run.wasted)
        answer = completed(answer, run.final, trace, usage, checked)
        sure = self.calibration.confidence(name, answer) if self.calibration else None
        return answer if sure is None else replace(answer, confidence=sure)

    def within(self, passages: Iterable[Passage], index: Index | None) -> Engine:
        """Return this engine with a retriever that finds, and links to, nothing but some ``passages`` of the index."""
        known = frozenset(passages)

        def document(passage: Passage) -> list[Passage]:
            return [other for other in self.documents(passage) if other in known] if self.documents else []

        return replace(self, retriever=self.retriever and Within(self.retriever, known, index), documents=document)

    async def search(self, query: str, k: int) -> list[Passage]:
        """Search outside any question, with the retriever and its reranker."""
        run = Run(self, query, "search", "qa")
        with run.recorder.recording():
            return await run.search(query, k)

    async def search_many(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float | None]]]:
        """Search for each query, as ``search`` does; each passage comes with the retriever's score, or None.

        A retriever that takes many queries is called once for every ``MAX_QUERIES``, on a thread. A blank query finds
        nothing.
        """
        asked = [query for query in queries if query.strip()]
        parts = [asked[start : start + MAX_QUERIES] for start in range(0, len(asked), MAX_QUERIES)]
        found = iter([hits for part in parts for hits in await self._found(part, k)])
        return [next(found) if query.strip() else [] for query in queries]

    async def _found(self, queries: Sequence[str], k: int) -> Iterable[list[tuple[Passage, float | None]]]:
        retriever = self.retriever and self.retriever.source  # a reranker over it is a source of its own
        if isinstance(retriever, ScoringRetriever) and not isinstance(retriever, AwaitedRetriever):
            return [[*hits] for hits in await in_thread(retriever.search_many_scored, queries, k)]
        if isinstance(retriever, Retriever):
            found = await in_thread(retriever.search_many, queries, k)
        else:
            found = await gather(*(self.search(query, k) for query in queries))
        return [[(passage, None) for passage in check_passages(passages)[:k]] for passages in found]
