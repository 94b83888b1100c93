"""The ``Run`` that a method is given: everything it may use while it answers one question.

The engine renders prompts, parses replies, keeps to the budget and records the trace. What remains is the algorithm.
"""

from __future__ import annotations

import asyncio
import copy
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import replace
from functools import cached_property, partial
from random import Random
from typing import Any, overload

from polyhop.answer import UNREAD
from polyhop.common.aio import gather
from polyhop.common.turns import timed
from polyhop.engine.budget import Meter, until_spent
from polyhop.engine.call import Answered, Attempt, Call, Fields, Options, freeze
from polyhop.engine.equipment import Equipment
from polyhop.engine.lookups import Lookups
from polyhop.engine.path_scoring import RecordedPathScorer
from polyhop.engine.refusals import Refusals
from polyhop.engine.speculation import SpeculativeRun, Speculator, Start
from polyhop.engine.tool_call import Calls, Conversations
from polyhop.engine.unread import unread_output
from polyhop.errors import BudgetSpent, LMError, Refused, UsageError
from polyhop.lm.base import Message, TokenScores
from polyhop.lm.tools import Tool
from polyhop.prompts.tasks import Output, task_name
from polyhop.retrieval.base import RunRetriever
from polyhop.trace import Note, Readout, Score, Searched, Step
from polyhop.trace.recorder import OpenStep, Recorder
from polyhop.types import NOTHING, Given, Kind, Passage, PathScorer, Span, SpanChoice, T, TypedTask


class Run(Lookups):
    """A question in progress: a method calls these functions and nothing else.

    ``seed`` is the run's, or None. If ``allow_unanswerable`` is set, a method may say that the question has no answer.
    """

    def __init__(
        self,
        engine: Equipment,
        question: str,
        method: str,
        kind: Kind,
        *,
        given: Given = NOTHING,
        explores_for: Speculator | None = None,
        listen: Callable[[Step], object] | None = None,
    ) -> None:
        super().__init__(engine if engine.kind == kind else replace(engine, kind=kind))
        self.kind, self.given = kind, given
        self.seed, self.allow_unanswerable = engine.seed, engine.allow_unanswerable
        self.recorder = Recorder(question, method, silent=explores_for is not None, listen=listen)
        self.wasted = 0
        self.final: Output | None = None
        self._speculator, self._explores = explores_for, explores_for is not None
        self._conversations = Conversations()
        self._refusals = Refusals(engine, engine.models.ignoring_schemas())
        self._samples: defaultdict[Hashable, int] = defaultdict(int)
        self._greedy: dict[Hashable, tuple[asyncio.Lock, list[Any]]] = {}
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
        """Make a call of a ``task`` or its name; return its typed output, whose ``.completion`` is the model's reply.

        Its field ``kind``, if it has one, is that of the question unless given. A reply that cannot be read is
        requested once more with the reason; after that, the task's safe default is returned, or of a ``final`` call the
        answer that the reply ends in; it is not ``parsed``. A reply whose token cap was spent on thoughts is requested
        once more with room for them, unless an option sets the room; without any text it is a ``CutReply`` then.
        ``final``: the last call, which the budget reserves. Raises ``BudgetSpent`` in ``gathering``, and ``LMError``.
        """
        output, _ = await self._settle(self._call(task, fields, options, final=final))
        self.final = output if final else self.final
        return output

    async def ask_with_tools(
        self,
        task: TypedTask[T],
        tools: Sequence[Tool],
        turns: Sequence[Message] = (),
        *,
        choice: str = "auto",
        parallel: bool = True,
        options: Options | None = None,
        final: bool = False,
        **fields: Any,
    ) -> T | Calls:
        """Ask as ``ask`` does, with ``tools`` that the model may call; return its ``Calls``, or the task's output.

        ``turns`` follow the prompt: those of all calls so far (``Calls.results``). ``choice`` and ``parallel`` are as
        in a ``Request``; models may reply otherwise. If the model takes no tools, it is asked for its calls in text.
        """
        call = self._engine.call(task_name(task), fields, options, final=final, has_tools=True)
        offer = self._conversations.offer(call, tools, turns, choice=choice, parallel=parallel)
        output, step = await self._settle(offer)
        if isinstance(output, Calls):
            self._conversations.add(output, step, offer.history)
        elif final:
            self.final = output
        return output  # type: ignore[no-any-return]

    async def ask_once(
        self, task: TypedTask[T], *, options: Options | None = None, final: bool = False, **fields: Any
    ) -> T:
        """Make a call as ``ask`` does. If this question has made an equal one at temperature 0, return its output."""
        call = self._call(task, fields, options, final=final)
        key = object() if call.settings["temperature"] else call.identity  # sampled calls are never equal
        lock, outputs = self._greedy.setdefault(key, (asyncio.Lock(), []))
        async with lock:
            if not outputs or (final and not outputs[0].parsed):  # what a final call says is kept, read or not
                outputs[:] = (await self._settle(call))[:1]
        self.final = outputs[0] if final else self.final
        return outputs[0]  # type: ignore[no-any-return]

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
        step = await self._begin(call=True)
        async with self._meter.deadline():
            scores: list[TokenScores] = await self._execute(step, call.identity, partial(call.scorer, call.requests()))
        record = call.record(scores)
        self._meter.charge(call.model.name, record["prompt_tokens"], 0)
        self.recorder.close(step, Score, **record)
        return scores

    # --- passages ------------------------------------------------------------------------------------------------

    async def search(self, query: str, k: int) -> list[Passage]:
        """Return the retriever's ``k`` best passages for ``query``, distinct, best first, fewer if fewer match. Steps
        of the retriever or reranker stand under this search in the trace."""
        step = await self._begin(call=False)
        with self.recorder.beneath(step):
            passages = list(dict.fromkeys(await self._retrieve(step, query, k)))[:k]
        self.recorder.close(step, Searched, query=query, k=k, passages=tuple(passages))
        return passages

    async def read(self, question: str, passages: Sequence[Passage], *, span: SpanChoice | None = None) -> list[Span]:
        """Return the reader's answer spans for ``question`` in ``passages``, best first; its model calls stand under
        this step in the trace. ``span``: how a reader that can choose selects spans."""
        read = partial(self._engine.needed_reader.read, question, passages, self, span=span)
        return await self._read_spans(read, ("read", span), question, passages)

    async def read_path(self, question: str, path: Sequence[Passage]) -> list[Span]:
        """Return the reader's answers from a path as a whole, best first; "yes", "no" and titles start and end at 0."""
        read = partial(self._engine.needed_reader.read_path, question, path, self)
        return await self._read_spans(read, ("read path",), question, path)

    @property
    def path_scorer(self) -> PathScorer:
        """The part that scores paths without a language model. Raises ``UsageError`` if the engine has none."""
        return RecordedPathScorer(self._engine.needed_path_scorer, self.recorder)

    def turns_tokens(self, task: TypedTask[Any], tools: Sequence[Tool], turns: Sequence[Message], **fields: Any) -> int:
        """Count the tokens of a call of ``ask_with_tools``: the prompt, the tools and the turns."""
        call = self._engine.call(task.name, fields, None, has_tools=True)
        return self._refusals.fit(self._conversations.offer(call, tools, turns)).sent_tokens

    # --- structure -----------------------------------------------------------------------------------------------

    def branch(self, name: str, label: str, passages: Sequence[Passage] = ()) -> AbstractContextManager[OpenStep]:
        """Put the steps inside under a branch of the reasoning, such as a node or a round; set its ``verdict``."""
        return self.recorder.branch(name, label, passages)

    def note(self, name: str, **data: Any) -> None:
        """Add a note to the trace."""
        self.recorder.close(self.recorder.open(), Note, name=name, data=data)

    async def gather(self, *work: Coroutine[Any, Any, T], finish_all: bool = False) -> list[T]:
        """Run coroutines at once; return their results in order. Their steps are recorded in the order of ``work``. The
        first error, such as a spent budget, cancels the others; with ``finish_all`` they run to their end first."""
        return await gather(*work, finish_all=finish_all, start=self.recorder.fork())

    def gathering(self) -> AbstractContextManager[None]:
        """Leave the block when the budget is spent, from any depth or task group, and mark it in the trace."""
        return until_spent(self._mark)

    @asynccontextmanager
    async def speculating(self, max_calls: int) -> AsyncIterator[SpeculativeRun]:
        """Let explorers make up to ``max_calls`` calls at once before the method needs them; it claims their replies.
        Nothing is explored if that is 0, or under a budget of calls, tokens or cost, which must hold exactly."""
        budget = self._engine.budget
        if not max_calls or any(limit is not None for limit in (budget.max_calls, budget.max_tokens, budget.max_cost)):
            yield SpeculativeRun(self)
            return
        speculator = self._speculator = Speculator(max_calls)
        run = Run(self._engine, self.recorder.question, self.recorder.method, self.kind, explores_for=speculator)
        run._refusals = Refusals(self._engine, self._refusals.ignoring)
        try:
            async with speculator:
                yield SpeculativeRun(run, speculator)
        finally:
            self.wasted = speculator.wasted

    def end(self) -> None:
        """Note what the models did not take; the engine calls it once the method has answered."""
        for name, data in self._refusals.end():
            self.note(name, **data)

    # --- inside --------------------------------------------------------------------------------------------------

    def _call(self, task: TypedTask[Any] | str, fields: Fields, options: Options | None, *, final: bool) -> Call:
        """Render a call in the form in which its model is asked."""
        ignoring = self._refusals.ignoring
        return self._engine.call(task_name(task), fields, options, final=final, ignoring=ignoring)

    async def _settle(self, call: Call) -> tuple[Any, OpenStep]:
        """Make a call and its retries; return its output, and the step that it came from."""
        attempts = [attempt := await self._attempt(self._refusals.fit(call))]
        while (retry := attempt.retry()) and self._meter.has_calls_left(reserve=not call.final):
            try:
                attempt = await self._attempt(retry, retry_of=attempt.step)
            except LMError as error:
                if not attempt.reply.ran_out:
                    raise
                more = retry.headroom.tokens
                raise attempt.call.cut_error(f"; asked again with {more:,} more: {error}") from error
            attempts.append(attempt)
        if attempt.reply.ran_out:
            raise attempt.call.cut_error()
        output = attempt.output or unread_output(attempts)
        if call.final and not output.parsed and output.own_answer:
            self.note(UNREAD, kept=output.own_answer)
        return output, attempt.step

    async def _attempt(self, call: Call, retry_of: OpenStep | None = None) -> Attempt:
        """Make the call and read the reply."""
        step = await self._begin(call=True, final=call.final)
        step.links = {**call.links, "retry_of": retry_of} if retry_of else call.links
        async with self._meter.deadline(final=call.final):
            try:
                answered = await self._complete(step, call)
            except Refused as error:
                answered = await self._complete(step, self._refusals.refused(call, error))
        call, request, reply, output, complaint = answered
        call.headroom.memory.learn(reply)
        if not self._explores:
            self._refusals.read(call, reply)
            record = call.record(request, reply, output, complaint)
            self._meter.charge(call.model.name, record["prompt_tokens"], record["completion_tokens"])
            self.recorder.close(step, call.step, **record, depth=self._speculator and self._speculator.depth())
        return Attempt(call, step, request.sample, reply, output, complaint)

    async def _complete(self, step: OpenStep, call: Call, *, shrunk: bool = False) -> Answered:
        """Send the call's request and read the reply, or claim those of an equal one that was prefetched; return them
        with the call as it was sent. If the server refuses the head-room for thoughts, the call is sent without it
        (``shrunk``)."""
        key, sample = call.identity, call.sample
        if sample is None:
            sample = self._samples[key]
            self._samples[key] += 1
        request_now = partial(call.request, sample=sample, seed=self._engine.seed)
        room = call.headroom if call.is_correction or shrunk else call.headroom.now(request_now)

        async def send() -> Answered:
            sent = call if room is call.headroom else replace(call, headroom=room)
            request = sent.request(sample=sample, seed=self._engine.seed)
            reply = await sent.model.complete(request)
            may_grow = bool(room.more) and self._meter.has_calls_left(reserve=not call.final)
            return Answered(sent, request, reply, *sent.read(reply, may_grow=may_grow))

        try:
            result: Answered = await self._execute(step, (*key, sample, call.attempt, shrunk), send)
        except LMError as error:
            if isinstance(error, Refused) or not room.is_refused(error):
                raise
            result = await self._complete(step, replace(call, headroom=room.without(), sample=sample), shrunk=True)
            room.memory.refuses_headroom = True
        return result

    async def _begin(self, *, call: bool, final: bool = False) -> OpenStep:
        """Open a step, if the budget allows it. Tasks that start together all open theirs before any step ends."""
        if not final:
            self._meter.check(call=call)
        self._meter.calls += call
        step = self.recorder.open()
        await asyncio.sleep(0)
        return step

    async def _retrieve(self, step: OpenStep, query: str, k: int) -> Sequence[Passage]:
        """Search. What a retriever with a base does is executed call by call, any other search as one call."""
        if (retriever := self._retriever) is None:
            raise UsageError("this method searches: give corpus= or retriever=")
        if retriever.base_retriever is not None:
            return await retriever.search(query, k, self._with_retriever(retriever.base_retriever))
        search = partial(retriever.search, query, k, self)
        async with self._meter.deadline():
            key = ("search", id(retriever), query, k)
            return await self._execute(step, key, search, costs=False)  # type: ignore[no-any-return]

    async def _read_spans(
        self, read: Callable[[], Awaitable[list[Span]]], key: Hashable, question: str, passages: Sequence[Passage]
    ) -> list[Span]:
        """Read. What a reader that asks a model does is executed call by call, any other reading as one call."""
        step = await self._begin(call=False)
        with self.recorder.beneath(step):
            if self._engine.needed_reader.uses_lm:
                spans = await read()
            else:
                async with self._meter.deadline():
                    spans = await self._execute(step, (key, question, freeze(passages)), read, costs=False)
        self.recorder.close(step, Readout, question=question, passages=tuple(passages), spans=tuple(spans))
        return spans

    def _with_retriever(self, retriever: RunRetriever) -> Run:
        """Return this run for a retriever's own work: everything is shared, but it searches with another retriever."""
        run = copy.copy(self)
        run._retriever = retriever
        return run

    async def _execute(self, step: OpenStep, key: Hashable, start: Start, *, costs: bool = True) -> Any:
        """Make a call, or claim one that was prefetched; the step learns how long it took by itself."""
        if self._speculator is None:
            result, step.own = await timed(start())
            return result
        execute = self._speculator.prefetch if self._explores else self._speculator.claim
        result, (step.own, step.chain) = await execute(key, start, costs=costs), self._speculator.times()
        return result

    def _mark(self, spent: BudgetSpent) -> None:
        self.recorder.budget = spent.limit
        self.note("budget spent", limit=spent.limit)
