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
from typing import Any, NamedTuple, TypeVar, overload

from polyhop.answer import NON_ANSWER, Answer, cite, confidence, withheld
from polyhop.common.aio import gather
from polyhop.common.text import estimate_tokens
from polyhop.engine.budget import Budget, Meter, until_spent
from polyhop.engine.call import (
    MORE_TOKENS,
    Call,
    Fields,
    Models,
    Options,
    check_fields,
    count_tokens,
    freeze,
    settings_of,
)
from polyhop.engine.speculation import SpeculativeRun, Speculator
from polyhop.errors import BudgetSpent, CapabilityError, LMError, UsageError, Waiting
from polyhop.lm.base import Capabilities, Completion, LanguageModel, ScoreRequest, TokenScores
from polyhop.prompts.book import PromptBook, Rendering
from polyhop.prompts.non_answers import is_non_answer
from polyhop.prompts.tasks import SCORED, Output, task_name
from polyhop.readers.base import DEFAULT_THRESHOLD, RunReader
from polyhop.redaction import redacted
from polyhop.retrieval.analysis import ENGLISH, Analysis
from polyhop.retrieval.base import (
    RunRetriever,
)
from polyhop.retrieval.tfidf import similarities
from polyhop.trace import Ask, Note, Readout, Score, Searched, Step, Usage, passages_in
from polyhop.trace.recorder import OpenStep, Recorder
from polyhop.types import Kind, Passage, PathScorer, Span, SpanChoice, TypedTask

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The models, retriever, reader, path scorer and prompts, which stay open between questions.

    ``max_tokens_per_call`` replaces the token cap of every call, which its prompt file or its method sets otherwise.
    """

    models: Models
    prompts: PromptBook = field(default_factory=PromptBook)
    retriever: RunRetriever | None = None
    reader: RunReader | None = None
    path_scorer: PathScorer | None = None
    rendering: Rendering = "text"
    budget: Budget = field(default_factory=Budget)
    max_tokens_per_call: int | None = None
    seed: int | None = None
    analysis: Analysis = ENGLISH

    def model_of(self, task: str) -> LanguageModel:
        """Return the language model for a task, by the role of its prompt."""
        return self.models(task, self.prompts.role(task))

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
            answer = _settled(await function(question, run, **settings), run)
        trace = run.recorder.trace()
        usage = Usage.of(trace, run.recorder.clock(), wasted=run.wasted)
        probability = answer.confidence if answer.confidence is not None else confidence(answer, run.final)
        call = trace.answers_call
        read = tuple(dict.fromkeys(passages_in(call.fields))) if call else ()
        answer = replace(answer, passages=answer.passages or read)
        citations = () if answer.abstained else answer.citations or cite(answer, read)
        return replace(answer, confidence=probability, citations=citations, trace=trace, usage=usage)

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

        A reply that cannot be read is requested once more with the reason; after that, the task's safe default is
        returned. Both are counted. A reply that spent its token cap before any text came is requested once more with a
        larger cap, unless ``max_tokens_per_call`` sets the cap; then it is a ``CutReply``. ``final`` marks the method's
        last call, which the budget reserves. Raises ``BudgetSpent`` inside ``gathering``, and ``LMError`` if the model
        cannot be reached.
        """
        call = self._call(task_name(task), fields, options, final)
        attempt = await self._attempt(call)
        retry = self._retry(attempt) if attempt.output is None else None
        if retry and self._meter.has_calls_left(reserve=0 if final else 1):
            try:
                attempt = await self._attempt(retry, retry_of=attempt.step)
            except LMError as error:
                if not attempt.reply.ran_out:
                    raise
                raise call.cut_error(f"; asked again with {MORE_TOKENS:,} more: {error}") from error
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
        model, text = self._render(task, fields, options)
        scorer = getattr(model, "score", None)
        if not model.capabilities.score or scorer is None:
            raise CapabilityError(
                f"{model.name} cannot score a given text, which {task} needs; use pocket, an hf: model or a server "
                "that scores (vLLM, llama-cpp-python)"
            )
        step = await self._begin(call=True)
        key = ("score", model.name, text, tuple(targets), temperature)
        requests = [
            ScoreRequest(task=task, prompt=text, target=target, fields=fields, temperature=temperature)
            for target in targets
        ]
        async with self._meter.deadline():
            scores: list[TokenScores] = await self._execute(key, partial(scorer, requests))
        tokens = sum(estimate_tokens(text) + len(score.logprobs) for score in scores)
        self._meter.charge(model.name, tokens, 0)
        step.close(
            Score,
            task=task,
            model=redacted(model.name),
            targets=tuple(targets),
            logprobs=tuple(sum(score.logprobs) for score in scores),
            tokens=tuple(score.logprobs for score in scores),
            prompt_hash=requests[0].digest() if requests else "",
            temperature=temperature,
            prompt_tokens=tokens,
            prompt_words=sum(len(text.split()) + len(target.split()) for target in targets),
            retries=sum(score.retries for score in scores),
        )
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
        model = self._engine.models.default
        cut = getattr(model, "truncate", None)
        return str(cut(text, tokens)) if cut else text[: 4 * max(0, tokens)]

    def prompt_tokens(self, task: TypedTask[Any] | str, *, options: Options | None = None, **fields: Any) -> int:
        """Count the tokens of the prompt of ``ask`` or ``score``: instruction, demonstrations and input."""
        name = task_name(task)
        if name in SCORED:
            return count_tokens(*self._render(name, fields, options))
        return self._call(name, fields, options).prompt_tokens

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
            yield SpeculativeRun(run, speculator)
        except Waiting:
            await speculator.finish()  # so that the calls of the explorers are in the same batch
            raise
        finally:
            self.wasted = speculator.wasted
            await speculator.close()

    # --- inside --------------------------------------------------------------------------------------------------

    def _call(self, task: str, fields: Fields, options: Options | None, final: bool = False) -> Call:
        prompt = self._engine.prompts[task]
        check_fields(task, fields, prompt.task.fields)
        settings, rendering = settings_of(prompt, options), prompt.form_of(self._engine.rendering)
        settings["max_tokens"] = self._engine.max_tokens_per_call or settings["max_tokens"]
        turns = prompt.render(fields, rendering=rendering, shots=settings["shots"])
        model = self._engine.models(task, settings["role"])
        return Call(prompt, fields, settings, model, rendering, turns, final=final)

    def _render(self, task: str, fields: Fields, options: Options | None) -> tuple[LanguageModel, str]:
        """Return the model that scores a task, and the whole prompt as one text."""
        if task not in SCORED:
            call = self._call(task, fields, options)
            return call.model, "\n\n".join(turn["content"] for turn in call.turns)
        prompt = self._engine.prompts.scored(task)
        check_fields(task, fields, (prompt.task.target, *prompt.task.fields))
        role = (options or {}).get("role", prompt.settings.role)
        return self._engine.models(task, role), prompt.render(fields)

    async def _attempt(self, call: Call, retry_of: OpenStep | None = None) -> _Attempt:
        """Make the call and read the reply."""
        step = await self._begin(call=True, final=call.final)
        step.retry_of = retry_of
        key, sample = call.identity, call.sample
        if sample is None:
            sample = self._samples[key]
            self._samples[key] += 1
        request = call.request(sample=sample, seed=self._engine.seed)
        async with self._meter.deadline(final=call.final):
            reply: Completion = await self._execute((*key, sample), partial(call.model.complete, request))
        output, complaint = call.read(reply)
        record = call.record(request, reply, output, complaint)
        self._meter.charge(call.model.name, record["prompt_tokens"], record["completion_tokens"])
        step.close(Ask, **record, depth=self._speculator.depth() if self._speculator else None)
        return _Attempt(call, step, sample, reply, output, complaint)

    def _retry(self, attempt: _Attempt) -> Call | None:
        """Return the call that retries one whose reply could not be read; None if it spent a cap that must not grow."""
        if not attempt.reply.ran_out:
            return attempt.call.corrected(attempt.reply.text, attempt.complaint)
        return attempt.call.with_more_tokens(attempt.sample) if self._engine.max_tokens_per_call is None else None

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


def _settled(found: Answer, run: Run) -> Answer:
    """The method's answer; an abstention if it is a non-answer. Nothing supports an empty answer."""
    if not found.text:
        return replace(found, supported=False)
    if not is_non_answer(found.text, run.recorder.question):
        return found
    run.note(NON_ANSWER, said=found.text)
    evidence = tuple(piece for piece in found.evidence if not (piece.answer and is_non_answer(piece.answer)))
    return replace(withheld(found), supported=False, confidence=0.0, evidence=evidence)


class _Attempt(NamedTuple):
    """A call that was made: its reply, and the output read from it, or None and the ``complaint``."""

    call: Call
    step: OpenStep
    sample: int
    reply: Completion
    output: Output | None
    complaint: str
