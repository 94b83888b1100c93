"""The ``Run`` that a method is given: everything it may use while it answers one question.

The engine renders prompts, parses replies, keeps to the budget and records the trace. What remains is the algorithm.
"""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from random import Random
from typing import Any, TypeVar, overload

from polyhop.answer import NON_ANSWER, Answer, completed, without_non_answer
from polyhop.common.aio import gather
from polyhop.engine.budget import Budget, Meter, until_spent
from polyhop.engine.call import Attempt, Call, Caller, Fields, Options, count_tokens, freeze, truncate
from polyhop.engine.speculation import SpeculativeRun, Speculator
from polyhop.errors import BudgetSpent, LMError, SchemaRefused, UsageError
from polyhop.lm.base import Capabilities, Completion, Request, TokenScores
from polyhop.prompts.tasks import Output, task_name
from polyhop.readers.base import DEFAULT_THRESHOLD, RunReader
from polyhop.redaction import redacted
from polyhop.retrieval.analysis import ENGLISH, Analysis
from polyhop.retrieval.base import RunRetriever
from polyhop.retrieval.tfidf import similarities
from polyhop.trace import Ask, Note, Readout, Score, Searched, Step, Usage
from polyhop.trace.recorder import OpenStep, Recorder
from polyhop.types import Kind, Passage, PathScorer, Span, SpanChoice, TypedTask

T = TypeVar("T")

SCHEMA_REFUSED = "schema refused"
"""The note of a call that was asked in text because the model's server refused its JSON schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine(Caller):
    """The models, prompts, retriever, reader and path scorer, which stay open between questions."""

    retriever: RunRetriever | None = None
    reader: RunReader | None = None
    path_scorer: PathScorer | None = None
    budget: Budget = field(default_factory=Budget)
    seed: int | None = None
    analysis: Analysis = ENGLISH

    async def answer(
        self,
        function: Callable[..., Awaitable[Answer]],
        name: str,
        question: str,
        kind: Kind,
        settings: Fields,
        listen: Callable[[Step], object] | None = None,
    ) -> Answer:
        """Run a method on one question; return its answer with citations, confidence, trace and usage. ``listen`` is
        called with every step when it ends, and with a branch also when it begins."""
        run = Run(self, question, name, kind, listen=listen)
        with run.recorder.recording():
            found = await function(question, run, **settings)
            answer = without_non_answer(found, question)
            if answer.text != found.text:
                run.note(NON_ANSWER, said=found.text)
        trace = run.recorder.trace()
        usage = Usage.of(trace, run.recorder.clock(), wasted=run.wasted)
        return completed(answer, run.final, trace, usage)

    async def search(self, query: str, k: int) -> list[Passage]:
        """Search outside any question, with the retriever and its reranker."""
        run = Run(self, query, "search", "qa")
        with run.recorder.recording():
            return await run.search(query, k)


class Run:
    """A question in progress. A method calls these functions and nothing else."""

    def __init__(
        self,
        engine: Engine,
        question: str,
        method: str,
        kind: Kind,
        *,
        explores_for: Speculator | None = None,
        listen: Callable[[Step], object] | None = None,
    ) -> None:
        self.kind = kind
        self.recorder = Recorder(question, method, silent=explores_for is not None, listen=listen)
        self.wasted = 0
        self.final: Output | None = None
        self._engine = engine
        self._retriever = engine.retriever
        self._speculator = explores_for
        self._explores = explores_for is not None
        self._samples: Counter[Hashable] = Counter()
        self._meter = Meter(engine.budget, self.recorder.clock)

    @cached_property
    def random(self) -> Random:
        """A random generator for methods that sample: the same for the same seed and question."""
        return Random(f"{self._engine.seed} {self.recorder.question}")

    # --- language models -----------------------------------------------------------------------------------------

    @overload
    async def ask(
        self, task: TypedTask[T], *, options: Options | None = None, final: bool = False, **fields: Any
    ) -> T: ...

    @overload
    async def ask(self, task: str, *, options: Options | None = None, final: bool = False, **fields: Any) -> Any: ...

    async def ask(
        self, task: TypedTask[Any] | str, *, options: Options | None = None, final: bool = False, **fields: Any
    ) -> Any:
        """Make a language model call; return the task's typed output, whose ``.completion`` is the model's reply.

        ``task`` is a task or its name; with a task, a type checker knows the type of the output.
        A reply that cannot be read is requested once more with the reason; after that, the task's safe default is
        returned. Both are counted. A reply whose token cap was spent on thoughts is requested once more with room for
        them (``engine.headroom``), unless an option sets the room; without any text it is a ``CutReply`` then.
        ``final`` marks the method's last call, which the budget reserves. Raises ``BudgetSpent`` inside ``gathering``,
        and ``LMError`` if the model cannot be reached.
        """
        call = self._engine.call(task_name(task), fields, options, final=final)
        attempt = await self._attempt(call)
        while (retry := attempt.retry()) and self._has_calls_left(final):
            try:
                attempt = await self._attempt(retry, retry_of=attempt.step)
            except LMError as error:
                if not attempt.reply.ran_out:
                    raise
                more = retry.headroom.tokens
                raise attempt.call.cut_error(f"; asked again with {more:,} more: {error}") from error
        if attempt.reply.ran_out:
            raise attempt.call.cut_error()
        output = attempt.output or call.prompt.default().with_completion(attempt.reply, call.question)
        if final:
            self.final = output
        return output

    async def score(
        self,
        task: str,
        targets: Sequence[str],
        *,
        temperature: float = 1.0,
        options: Options | None = None,
        **fields: Any,
    ) -> list[TokenScores]:
        """Return the token log-probabilities of each target after the task's rendered prompt, in order."""
        call = self._engine.score_call(task, targets, temperature, fields, options)
        scorer = call.scorer
        step = await self._begin(call=True)
        async with self._meter.deadline():
            scores: list[TokenScores] = await self._execute(call.identity, partial(scorer, call.requests()))
        record = call.record(scores)
        self._meter.charge(call.model.name, record["prompt_tokens"], 0)
        step.close(Score, **record)
        return scores

    def capabilities(self, task: str) -> Capabilities:
        """Return the capabilities of the model for a task."""
        return self._engine.model_of(task).capabilities

    # --- passages ------------------------------------------------------------------------------------------------

    async def search(self, query: str, k: int) -> list[Passage]:
        """Return the retriever's ``k`` best passages for ``query``, distinct, best first; fewer if fewer match.

        Steps of the retriever or reranker stand under this search in the trace.
        """
        step = await self._begin(call=False)
        with self.recorder.beneath(step):
            passages = list(dict.fromkeys(await self._retrieve(query, k)))[:k]
        step.close(Searched, query=query, k=k, passages=tuple(passages))
        return passages

    async def read(self, question: str, passages: Sequence[Passage], *, span: SpanChoice | None = None) -> list[Span]:
        """Return the reader's answer spans for ``question`` in ``passages``, best first.

        Model calls of the reader stand under this step in the trace. ``span``: how a reader that can choose selects
        spans.
        """
        step = await self._begin(call=False)
        with self.recorder.beneath(step):
            spans = await self._read_spans(question, passages, span)
        step.close(Readout, question=question, passages=tuple(passages), spans=tuple(spans))
        return spans

    @property
    def reader_threshold(self) -> float:
        """The confidence above which the reader's answers can be trusted, on the reader's own scale."""
        return self._engine.reader.threshold if self._engine.reader else DEFAULT_THRESHOLD

    def links(self, passage: Passage) -> list[Passage]:
        """Return the passages that ``passage`` links to, known to the retriever or to a corpus beside it."""
        return self._retriever.links(passage) if self._retriever else []

    def similarity(self, text: str, texts: Sequence[str]) -> list[float]:
        """Return the similarity of ``text`` to each of ``texts``, from 0 to 1: the cosine of their vectors by the
        retriever's encoder or, if it has none, by TF-IDF fitted on them."""
        if encoder := self._engine.retriever and self._engine.retriever.encoder:
            from polyhop.retrieval.encoders.base import similarities as cosines  # imports numpy, which few methods need

            return cosines(encoder, text, texts)
        return similarities(text, texts, self._engine.analysis)

    @property
    def path_scorer(self) -> PathScorer:
        """The part that scores paths without a language model. Raises ``UsageError`` if the engine has none."""
        if self._engine.path_scorer is None:
            raise UsageError("this method scores paths: give the engine a path_scorer")
        return self._engine.path_scorer

    # --- lengths -------------------------------------------------------------------------------------------------

    def count_tokens(self, text: str) -> int:
        """Count the tokens of ``text`` with the default model's tokenizer; without one, 4 characters are a token."""
        return count_tokens(self._engine.models.default, text)

    def truncate(self, text: str, tokens: int) -> str:
        """Cut ``text`` at the end to at most ``tokens`` tokens."""
        return truncate(self._engine.models.default, text, tokens)

    def prompt_tokens(self, task: TypedTask[Any] | str, *, options: Options | None = None, **fields: Any) -> int:
        """Count the tokens of the prompt of ``ask`` or ``score``: instruction, demonstrations and input."""
        return self._engine.prompt_tokens(task_name(task), fields, options)

    def demonstrations(self, task: str) -> Sequence[Mapping[str, Any]]:
        """Return the demonstrations in the prompt file of a scored task: their fields, and a ``kind``."""
        return self._engine.prompts.scored(task).demonstrations

    # --- structure -----------------------------------------------------------------------------------------------

    def branch(self, name: str, label: str, passages: Sequence[Passage] = ()) -> AbstractContextManager[OpenStep]:
        """Put the steps inside under a branch of the reasoning, such as a node or a round; set its ``verdict``."""
        return self.recorder.branch(name, label, passages)

    def note(self, name: str, **data: Any) -> None:
        """Add a note to the trace."""
        self.recorder.open().close(Note, name=name, data=data)

    async def gather(self, *work: Coroutine[Any, Any, T], finish_all: bool = False) -> list[T]:
        """Run coroutines at once; return their results in order. Their steps are recorded in the order of ``work``.

        The first error, such as a spent budget, cancels the others. With ``finish_all`` the others run to their end
        first, so that a spent budget loses nothing that was done.
        """
        return await gather(*work, finish_all=finish_all, start=self.recorder.fork())

    def gathering(self) -> AbstractContextManager[None]:
        """Leave the block when the budget is spent, from any depth or task group, and mark it in the trace."""
        return until_spent(self._mark)

    @asynccontextmanager
    async def speculating(self, max_calls: int) -> AsyncIterator[SpeculativeRun]:
        """Let explorers make up to ``max_calls`` calls at once before the method needs them; it claims their replies.

        Nothing is explored if ``max_calls`` is 0, or under a budget of calls, tokens or cost, which must hold exactly.
        """
        budget = self._engine.budget
        if not max_calls or any(limit is not None for limit in (budget.max_calls, budget.max_tokens, budget.max_cost)):
            yield SpeculativeRun(self)
            return
        speculator = self._speculator = Speculator(max_calls)
        recorder = self.recorder
        run = Run(self._engine, recorder.question, recorder.method, self.kind, explores_for=speculator)
        try:
            async with speculator:
                yield SpeculativeRun(run, speculator)
        finally:
            self.wasted = speculator.wasted

    # --- inside --------------------------------------------------------------------------------------------------

    async def _attempt(self, call: Call, retry_of: OpenStep | None = None) -> Attempt:
        """Make the call and read the reply."""
        step = await self._begin(call=True, final=call.final)
        step.retry_of = retry_of
        async with self._meter.deadline(final=call.final):
            try:
                call, request, reply = await self._complete(call)
            except SchemaRefused:
                self.note(SCHEMA_REFUSED, model=redacted(call.model.name))
                call, request, reply = await self._complete(self._engine.in_text(call))
        output, complaint = call.read(reply, may_grow=bool(call.headroom.more) and self._has_calls_left(call.final))
        call.headroom.thinking.learn(reply)
        record = call.record(request, reply, output, complaint)
        self._meter.charge(call.model.name, record["prompt_tokens"], record["completion_tokens"])
        step.close(Ask, **record, depth=self._speculator.depth() if self._speculator else None)
        return Attempt(call, step, request.sample, reply, output, complaint)

    async def _complete(self, call: Call, *, shrunk: bool = False) -> tuple[Call, Request, Completion]:
        """Send the call's request, or claim the reply of an equal one that was prefetched; return them with the call as
        it was sent. If the server refuses the head-room for thoughts, the call is sent without it (``shrunk``)."""
        key, sample = call.identity, call.sample
        if sample is None:
            sample = self._samples[key]
            self._samples[key] += 1
        room = call.headroom if call.is_correction or shrunk else call.headroom.now()

        async def send() -> tuple[Call, Request, Completion]:
            sent = call if room is call.headroom else replace(call, headroom=room)
            request = sent.request(sample=sample, seed=self._engine.seed)
            return sent, request, await sent.model.complete(request)

        try:
            result: tuple[Call, Request, Completion] = await self._execute((*key, sample, call.attempt, shrunk), send)
        except LMError as error:
            if isinstance(error, SchemaRefused) or not room.is_refused(error):
                raise
            result = await self._complete(replace(call, headroom=room.without(), sample=sample), shrunk=True)
            room.thinking.refused = True
        return result

    def _has_calls_left(self, final: bool) -> bool:
        return self._meter.has_calls_left(reserve=0 if final else 1)

    async def _begin(self, *, call: bool, final: bool = False) -> OpenStep:
        """Open a step, if the budget allows it. Tasks that start together all open theirs before any step ends."""
        if not final:
            self._meter.check(call=call)
        self._meter.calls += call
        step = self.recorder.open()
        await asyncio.sleep(0)
        return step

    async def _retrieve(self, query: str, k: int) -> Sequence[Passage]:
        """Search. What a retriever with a base does is executed call by call, any other search as one call."""
        if (retriever := self._retriever) is None:
            raise UsageError("this method searches: give corpus= or retriever=")
        if retriever.base_retriever is not None:
            return await retriever.search(query, k, self._with_retriever(retriever.base_retriever))
        search = partial(retriever.search, query, k, self)
        async with self._meter.deadline():
            found: Sequence[Passage] = await self._execute(("search", id(retriever), query, k), search, costs=False)
        return found

    async def _read_spans(self, question: str, passages: Sequence[Passage], span: SpanChoice | None) -> list[Span]:
        """Read. What a reader that asks a model does is executed call by call, any other reading as one call."""
        if (reader := self._engine.reader) is None:
            raise UsageError(
                "this method reads passages: give reader= a name or a (question, passages) -> spans callable"
            )
        read = partial(reader.read, question, passages, self, span=span)
        if reader.uses_lm:
            return await read()
        async with self._meter.deadline():
            spans: list[Span] = await self._execute(("read", question, freeze(passages), span), read, costs=False)
        return spans

    def _with_retriever(self, retriever: RunRetriever) -> Run:
        """Return this run for a retriever's own work: everything is shared, but it searches with another retriever."""
        run = copy.copy(self)
        run._retriever = retriever
        return run

    async def _execute(self, key: Hashable, start: Callable[[], Awaitable[Any]], *, costs: bool = True) -> Any:
        """Make a call, or claim one that was prefetched."""
        if self._speculator is None:
            return await start()
        execute = self._speculator.prefetch if self._explores else self._speculator.claim
        return await execute(key, start, costs=costs)

    def _mark(self, spent: BudgetSpent) -> None:
        self.recorder.budget = spent.limit
        self.note("budget spent", limit=spent.limit)
