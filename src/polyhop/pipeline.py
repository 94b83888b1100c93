"""``Pipeline``: a corpus, a method and a language model, opened once and asked many times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import polyhop.methods.as_retriever  # noqa: F401 - registers the retrievers and rerankers that rank paths
from polyhop.answer import Answer, withheld
from polyhop.common.aio import LoopThread
from polyhop.common.text import check_text
from polyhop.engine.needs import check_needs
from polyhop.engine.options import LM, PipelineOptions, PriceSource, Searcher, Source
from polyhop.engine.parts import close_parts, open_parts
from polyhop.errors import UsageError
from polyhop.methods.registry import Method, method_named, select
from polyhop.prompts.book import PromptBook
from polyhop.prompts.prompt import RenderingChoice
from polyhop.readers.base import AnyReader
from polyhop.retrieval.base import Reranker
from polyhop.trace import Step
from polyhop.types import Given, Kind, Passage, PathScorer, Question

T = TypeVar("T")
Listen = Callable[[Step], object]
Observer = Callable[[Method, Kind, Mapping[str, Any]], AbstractContextManager[Callable[[Step | Answer], object]]]
"""A function of method, kind and settings that opens a context around a question. The context's function is given every
step, then the answer."""


class Pipeline:
    """Everything that one method needs to answer questions over one corpus.

    Args:
        corpus: a file, folder, index folder, ``Corpus`` or passages. It may be left out if ``retriever`` is a callable
            or brings its own passages; a retriever without links takes those of the corpus, by passage id.
        method: the method's name.
        lm: a name, a model object, or a mapping from role or task to either (``default`` for the rest).
        retriever: a name, an object, or any ``(query, k) -> passages`` callable; by default the method's own.
        rerank: a name or a ``Reranker``, which chooses from the retriever's first hits, for any method.
        reader: a name, a ``Reader``, or any ``(question, passages) -> spans`` callable, for methods that read.
        path_scorer: a ``PathScorer`` for methods that score paths without a language model; by default pocket's.
        prompts: a folder of prompt files that replace the shipped ones, or a ``PromptBook``.
        rendering: the form of reply that prompts request: ``text``, ``json``, or ``auto``: json for a model behind a
            server that takes JSON schemas, text for every other one.
        cache: True or a path caches model replies, False does not; by default those of named models are cached.
        max_tokens_per_call: the maximum number of tokens of every reply, reasoning included. Without it a call has the
            limit of its prompt file.
        reasoning_tokens: the number of tokens added to the limit of every reply for a model's thoughts, 0 for none.
            None adds 4,096 for a model from the first reply on that shows that it thinks; a reply that its thoughts
            cut before is requested again. A reply without any text then is a ``CutReply``.
        role_options: ``temperature``, ``max_tokens_per_call`` and ``reasoning_tokens`` by role or task (``default`` for
            the rest). A temperature replaces that of the prompt file; a method's own, as of its samples, remains. Any
            other name is a field of the requests to a server, in place of that of ``extra_body``.
        max_calls, max_tokens, max_seconds, max_cost: limits per question.
        prices: ``Prices`` per million tokens, in the currency of ``max_cost``.
        abstain_below: withhold (``abstained``) answers of lower or unknown confidence, 0 to 1; 0 withholds none, None
            those that the calibration withholds.
        allow_unanswerable: tell the models that a question may have no answer (``abstained``).
        calibration: a file that ``polyhop tune confidence`` wrote, by which confidence is a probability that the answer
            is right; by default the shipped one for pocket.
        verify_support: check the support of an answer by one more model call over its cited passages. None: by pocket's
            reader if the model is pocket, else by the answer's words alone, as False does for any model.
        seed: the random seed of models that accept one.
        lm_options: options of models behind a server or from a checkpoint, as ``lm.openai.OpenAICompatible`` takes
            them; its ``extra_body`` is sent with every request.
        settings: the method's own settings, each by its name.

    Raises:
        UsageError: something does not fit; raised before any call.
    """

    def __init__(
        self,
        corpus: Source | None = None,
        method: str = "tor",
        lm: LM = "pocket",
        *,
        lm_options: Mapping[str, Any] | None = None,
        max_tokens_per_call: int | None = None,
        reasoning_tokens: int | None = None,
        role_options: Mapping[str, Mapping[str, Any]] | None = None,
        retriever: str | Searcher | None = None,
        rerank: str | Reranker | None = None,
        reader: str | AnyReader | None = "pocket",
        path_scorer: PathScorer | None = None,
        prompts: str | Path | PromptBook | None = None,
        rendering: RenderingChoice = "auto",
        cache: bool | str | Path | None = None,
        max_calls: int | None = None,
        max_tokens: int | None = None,
        max_seconds: float | None = None,
        max_cost: float | None = None,
        prices: PriceSource | None = None,
        abstain_below: float | None = None,
        allow_unanswerable: bool = False,
        calibration: str | Path | None = None,
        verify_support: bool | None = None,
        seed: int | None = None,
        **settings: Any,
    ) -> None:
        given = select(PipelineOptions, locals())
        self.method: Method = method_named(given.method)
        self.settings = self.method.resolve(given.settings)
        if self.method.is_retriever and isinstance(named := given.retriever, str) and named.split(":")[0] != method:
            raise UsageError(f"{method} is a retriever itself: leave out the retriever {given.retriever}")
        self._needs = needs = frozenset(self.method.needs(self.settings))
        parts = open_parts(corpus, given.retriever or self.method.retriever, given, needs)
        self.engine, self.index, self.reranker, self._cache = parts.engine, parts.index, parts.reranker, parts.cache
        check_needs(self.method.name, needs, self.settings, self.engine)
        self.answers = self.method.answers(self.settings)
        self.abstain_below = given.abstain_below
        if given.abstain_below is None and self.engine.calibration:
            self.abstain_below = self.engine.calibration.withhold_below
        self.observer: Observer | None = None
        self._loop = LoopThread()
        self._closed = False

    async def aask(self, question: str | Question, *, kind: Kind = "qa", listen: Listen | None = None) -> Answer:
        """Answer one question; ``listen`` is called with each step, as ``stream`` yields them.

        Raises:
            LMError: the model cannot be reached.
            UsageError: the question is not valid text, or the pipeline is closed.
        """
        self._check_open()
        text = question.text if isinstance(question, Question) else question
        if not isinstance(text, str):
            raise UsageError(f"a question is a text or a polyhop.Question, not a {type(text).__name__}")
        check_text("question", text)
        asked = question if isinstance(question, Question) else Question("", question, kind=kind)
        answer = await self._answer(asked, listen)
        return withheld(answer) if (answer.confidence or 0.0) < (self.abstain_below or 0.0) else answer

    async def _answer(self, question: Question, listen: Listen | None) -> Answer:
        engine = self.engine.within(question.contexts, self.index) if question.contexts else self.engine
        given = self._given(question)
        answered = partial(
            engine.answer, self.method.function, self.method.name, question.text, question.kind, self.settings,
            conversation=question.conversation,
        )  # fmt: skip
        if self.observer is None:
            return await answered(listen, given)
        with self.observer(self.method, question.kind, self.settings) as observe:

            def observe_and_listen(step: Step) -> None:
                observe(step)
                if listen is not None:
                    listen(step)

            answer = await answered(observe_and_listen, given)
            observe(answer)
            return answer

    def _given(self, question: Question) -> Given:
        """Return the data of a question that the method's needs name. No other method is given any.

        Raises:
            UsageError: the question does not have them.
        """
        if "gold" in self._needs and question.gold is None:
            raise UsageError(f"{self.method.name} reads gold passages: it answers the questions of a dataset (run)")
        corpus = question.contexts or (self.index.passages if self.index else None)
        if "corpus" in self._needs and corpus is None:
            raise UsageError(f"{self.method.name} reads the whole corpus: give it one (corpus=, --corpus)")
        return Given(
            gold=question.gold if "gold" in self._needs else None, corpus=corpus if "corpus" in self._needs else None
        )

    async def stream(self, question: str | Question, *, kind: Kind = "qa") -> AsyncGenerator[Step | Answer, None]:
        """Yield the steps as they happen, then the answer.

        A branch is yielded twice: when it begins, without a verdict, and when it ends. Steps are numbered in the order
        in which they begin, so a ``parent`` is always known; the calls of a search or reading precede it. Leaving the
        loop ends the work.
        """
        steps: asyncio.Queue[Step | None] = asyncio.Queue()
        work = asyncio.get_running_loop().create_task(self.aask(question, kind=kind, listen=steps.put_nowait))
        work.add_done_callback(lambda _: steps.put_nowait(None))
        try:
            while (step := await steps.get()) is not None:
                yield step
            yield work.result()
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    def ask(self, question: str | Question, *, kind: Kind = "qa") -> Answer:
        """Answer one question from synchronous code, even inside a running event loop (a notebook)."""
        self._check_open()  # before a loop is started for it
        return self.wait(self.aask(question, kind=kind))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine in synchronous code, on any thread; it runs on the pipeline's own event loop."""
        return self._loop.run(work)

    def search(self, query: str, k: int = 5) -> list[Passage]:
        """Return the ``k`` best passages for a query, best first, reranked if there is a reranker.

        Raises:
            UsageError: the pipeline is closed.
        """
        self._check_open()
        return self.wait(self.engine.search(query, k))

    async def aclose(self) -> None:
        """Close the connections of models and retriever, and the cache. A closed pipeline cannot be used again."""
        self._closed = True
        await close_parts(self.engine.models, [self.engine.retriever], self._cache)

    def close(self) -> None:
        """Close the pipeline from synchronous code."""
        if not self._closed:
            self._loop.run(self.aclose())
        self._loop.stop()

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the pipeline is closed: open another one")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
        self._loop.stop()


def ask(
    question: str, *, corpus: Source | None = None, method: str = "tor", lm: LM = "pocket", **options: Any
) -> Answer:
    """Answer one question with a ``Pipeline`` of the same arguments, opened for it alone."""
    with Pipeline(corpus, method, lm, **options) as pipeline:
        return pipeline.ask(question)
