"""The service: answers questions over open corpora by any method, and keeps recent answers with their traces.

It knows nothing of HTTP; the servers over it are thin.

    service = Service({"wiki": "wiki.jsonl"}, lm="openai:gpt-4o-mini")
    response = await service.ask(AskRequest("Who …?", method="tor"))
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from polyhop.common.text import counted
from polyhop.data.corpus import Corpus
from polyhop.engine.options import LM, REQUEST_LIMITS, Searcher, Source
from polyhop.engine.rerender import messages_of
from polyhop.errors import SettingError, UsageError, brief
from polyhop.methods.registry import method_named
from polyhop.pipeline import Pipeline
from polyhop.serve.answer_cache import AnswerCache
from polyhop.serve.bounds import MAX_PASSAGES as MAX_PASSAGES
from polyhop.serve.drafts import UploadLimits
from polyhop.serve.errors import Busy, OutOfTime, Stopping, UnknownCorpus, UnknownTrace
from polyhop.serve.limits import CLIENT
from polyhop.serve.metrics import Metrics
from polyhop.serve.requests import MAX_BATCH_PASSAGES, RequestPolicy, naming, pipeline_key
from polyhop.serve.requests import AskRequest as AskRequest
from polyhop.serve.requests import AskResponse as AskResponse
from polyhop.serve.requests import AskStarted as AskStarted
from polyhop.serve.resources import CorpusFacts, Resources
from polyhop.serve.uploads import Upload, Uploads
from polyhop.trace import Ask, Step
from polyhop.types import Passage, Question

_log = logging.getLogger("polyhop.serve")


Event: TypeAlias = AskStarted | Step | AskResponse
Listen: TypeAlias = Callable[[Step], object]


class Service:
    """Answers questions over named corpora, on one event loop. Call ``open`` first, so that no client waits for an
    index.

    ``method``, ``lm``, ``retriever``, ``reader`` and the other ``options`` are those of ``Pipeline`` and apply to every
    question; a request may set stricter limits.

    Args:
        corpora: sources by name, as ``Pipeline`` takes them; the first is the default. None if the retriever brings its
            own passages.
        concurrency: maximum number of questions answered at once.
        waiting: maximum number of questions that wait for their turn; more are refused (``Busy``).
        timeout: seconds after which a question is abandoned (``OutOfTime``).
        max_question_chars: maximum length of a question.
        traces_kept: number of recent answers whose traces can be read, as far as they fit in about ``bytes_kept``.
        bytes_kept: memory for recent answers.
        pipelines_kept: number of pairs of corpus and settings that stay open.
        runs: a folder of run folders to show.
        on_answer: functions called with every answer.
        grace: seconds in which ``aclose`` lets questions finish.
        settings: settings of the default method.
        uploads: limits of the documents that clients may upload; None refuses all, as does a retriever that brings its
            own passages.
        telemetry: report every question to OpenTelemetry (``polyhop.telemetry``).

    Raises:
        UsageError: the arguments do not fit together.
    """

    def __init__(
        self,
        corpora: Mapping[str, Source | None],
        *,
        method: str = "tor",
        lm: LM = "pocket",
        retriever: str | Searcher | None = None,
        reader: Any = "pocket",
        concurrency: int = 64,
        waiting: int = 1024,
        timeout: float = 300.0,
        max_question_chars: int = 4000,
        traces_kept: int = 200,
        bytes_kept: int = 256 << 20,
        pipelines_kept: int = 64,
        runs: Path | None = None,
        on_answer: Sequence[Callable[[AskResponse], None]] = (),
        grace: float = 2.0,
        settings: Mapping[str, Any] | None = None,
        uploads: UploadLimits | None = None,
        telemetry: bool = False,
        **options: Any,
    ) -> None:
        if not corpora:
            raise UsageError("a service needs a corpus")
        for name, value in {
            "concurrency": concurrency,
            "timeout": timeout,
            "max_question_chars": max_question_chars,
        }.items():
            if value <= 0:
                raise SettingError(f"{name}={value}: must be above 0")
        self.corpora = tuple(corpora)
        self.default_corpus = self.corpora[0]
        self.default_method = method_named(method).name
        self.runs = runs
        self.metrics = Metrics()
        self.on_answer = list(on_answer)
        self._policy = RequestPolicy(
            corpora=self.names,
            method=self.default_method,
            settings=method_named(method).resolve(settings or {}),
            limits={name: options.pop(name) for name in REQUEST_LIMITS if name in options},
            max_question_chars=max_question_chars,
        )
        self._resources = Resources(corpora, lm, retriever, {**options, "reader": reader}, telemetry)
        self.uploads = Uploads(uploads, self._resources, self.corpora, self.default_method, self._forget)
        self._pipelines: OrderedDict[tuple[str, bytes], asyncio.Task[Pipeline]] = OrderedDict()
        self._pipelines_kept = pipelines_kept
        self._answers = AnswerCache(traces_kept, bytes_kept)
        self._slots = asyncio.Semaphore(concurrency)
        self._waiting, self._timeout, self.grace = waiting, timeout, grace
        self._running: set[asyncio.Task[AskResponse]] = set()
        self._opened: set[str] = set()
        self._closing: asyncio.Future[None] | None = None
        self._abandoning = False

    # --- questions --------------------------------------------------------------------------------------------------

    async def ask(self, request: AskRequest) -> AskResponse:
        """Answer a question. Cancelling this coroutine cancels the work.

        Raises:
            UsageError: the request is invalid.
            Busy, OutOfTime, Stopping: the request is refused or abandoned.
            PolyhopError: an error of the method, such as ``LMError``.
        """
        with self.uploads.reading(request.corpus) as upload:
            started, pipeline = await self._begin(request, upload)
            async with self._running_work(started, pipeline) as work:
                await asyncio.wait([work])
                return self._result(work)

    async def stream(self, request: AskRequest) -> AsyncGenerator[Event, None]:
        """Yield the start of a question, each step as it happens (see ``Pipeline.stream``), and the answer. Leaving the
        loop cancels the work; a slow reader does not delay it."""
        with self.uploads.reading(request.corpus) as upload:
            started, pipeline = await self._begin(request, upload)
            yield started
            steps: asyncio.Queue[Step | None] = asyncio.Queue()
            async with self._running_work(started, pipeline, steps.put_nowait) as work:
                work.add_done_callback(lambda _: steps.put_nowait(None))
                while (step := await steps.get()) is not None:
                    yield step
                yield self._result(work)

    async def search(self, query: str, k: int = 5, corpus: str | None = None) -> list[Passage]:
        """Return the ``k`` best passages of a corpus, best first, with the retriever of the default method."""
        self._check_open()
        self._policy.check_text("query", query)
        with naming("k"):
            if not 1 <= k <= MAX_PASSAGES:
                raise SettingError(f"k={brief(k)}: must be 1 to {MAX_PASSAGES}")
        with self.uploads.reading(corpus) as upload:
            pipeline = await self._pipeline(self.resolved(AskRequest(query, corpus=corpus)), upload)
            async with self._turn():
                return await pipeline.engine.search(query, k)

    async def search_many(
        self, queries: Sequence[str], k: int, corpus: str | None = None
    ) -> list[list[tuple[Passage, float | None]]]:
        """Return the ``k`` best passages for each query as ``Engine.search_many`` does, in one turn of the service.

        These are a model's own words: a query that is longer than a question may be is cut.
        """
        self._check_admitted()
        if len(queries) * k > MAX_BATCH_PASSAGES:
            raise UsageError(
                f"{counted(len(queries), 'queries')} with {counted(k, 'passages')} each: a request may ask for "
                f"{MAX_BATCH_PASSAGES} passages at most; split it"
            )
        with self.uploads.reading(corpus) as upload:
            pipeline = await self._pipeline(self.resolved(AskRequest("?", corpus=corpus)), upload)
            async with self._turn():
                return await pipeline.engine.search_many([self._policy.readable(query) for query in queries], k)

    def names(self) -> tuple[str, ...]:
        """Return the names of the corpora that the current client may ask: the service's own, then its uploads."""
        return (*self.corpora, *self.uploads.names())

    async def facts(self, corpus: str) -> CorpusFacts:
        """Return the size of a corpus and examples of its content.

        Raises:
            UnknownCorpus: no corpus has this name.
        """
        if corpus not in self.names():
            raise UnknownCorpus("corpus", corpus[:200], self.names())
        with self.uploads.reading(corpus) as upload:
            facts = await asyncio.to_thread(self._resources.facts, upload.key if upload else corpus)
        if upload is None:
            return facts
        return replace(facts, files=upload.files, left_out=upload.left_out, guesses=upload.guesses)

    def resolved(self, request: AskRequest) -> AskRequest:
        """Fill in the defaults of a request (see ``RequestPolicy``)."""
        return self._policy.resolved(request)

    # --- looking back --------------------------------------------------------------------------------------------

    def trace(self, trace_id: str) -> AskResponse:
        """Return an earlier answer with its trace.

        Raises:
            UnknownTrace: it is not kept, or was given to another client.
        """
        found = self._answers.get(trace_id, CLIENT.get())
        if found is None:
            raise UnknownTrace(
                f"no trace {brief(trace_id)}: only the latest answers are kept, at most {self._answers.max_answers}"
            )
        return found

    def traces(self) -> list[AskResponse]:
        """Return the kept answers of the current client, newest first."""
        return self._answers.newest_first(CLIENT.get())

    def prompt(self, trace_id: str, step: int) -> list[dict[str, str]]:
        """Render again the messages of a language model call in a trace.

        Raises:
            UsageError: the trace is not kept, the step is not such a call, or its prompt file has changed.
        """
        response = self.trace(trace_id)
        steps = response.answer.trace.steps
        call = steps[step] if 0 <= step < len(steps) else None
        if not isinstance(call, Ask):
            raise UnknownTrace(f"step {brief(step)} of {trace_id!r} is not a language model call")
        messages = messages_of(call, steps, self._resources.prompts)
        if messages is None:
            raise UsageError(f"the prompt of step {step} ({call.task}) cannot be rendered again: its file has changed")
        return messages

    # --- opening and closing -------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """True while questions are accepted."""
        return self._closing is None

    async def open(self) -> None:
        """Open every corpus with the default method; a missing index is built."""
        for corpus in self.corpora:
            if corpus in self._opened:
                continue
            await self._pipeline(self.resolved(AskRequest("?", corpus=corpus)))
            self._opened.add(corpus)
            opened = self._resources.corpora[corpus]
            if isinstance(opened, Corpus) and opened.passages and (left_out := opened.left_out):
                facts = {"corpus": corpus, "skipped": opened.skipped, "left_out": left_out}
                _log.warning("a part of a corpus was left out", extra={"facts": facts})
            if isinstance(opened, Corpus) and opened.guesses:
                facts = {"corpus": corpus, "guessed": opened.guessed, "encodings": opened.guesses}
                _log.warning("encodings of documents were guessed", extra={"facts": facts})

    async def aclose(self) -> None:
        """Accept no more questions, let running ones finish within ``grace`` seconds, abandon the rest (``Stopping``)
        and close everything. Every caller waits until all is closed."""
        self._closing = self._closing or asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self.uploads.stop()
        if self._running:
            await asyncio.wait(self._running, timeout=self.grace)
        self._abandoning = True
        left = list(self._running)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self.uploads.aclose()
        await self._resources.aclose()

    # --- inside --------------------------------------------------------------------------------------------------

    async def _begin(self, request: AskRequest, upload: Upload | None) -> tuple[AskStarted, Pipeline]:
        self._check_admitted()
        started = AskStarted(secrets.token_hex(8), replace(self.resolved(request), client=CLIENT.get()))
        return started, await self._pipeline(started.request, upload)

    @asynccontextmanager
    async def _running_work(
        self, started: AskStarted, pipeline: Pipeline, listen: Listen | None = None
    ) -> AsyncIterator[asyncio.Task[AskResponse]]:
        """Run the work on a question; cancel it when the block ends."""
        self._check_open()
        work = asyncio.get_running_loop().create_task(self._work(started, pipeline, listen))
        self._running.add(work)
        work.add_done_callback(self._running.discard)
        try:
            yield work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    def _result(self, work: asyncio.Task[AskResponse]) -> AskResponse:
        if work.cancelled() and self._abandoning:
            raise Stopping("the service was stopped before this question was answered; ask again")
        return work.result()

    async def _work(self, started: AskStarted, pipeline: Pipeline, listen: Listen | None) -> AskResponse:
        request = started.request
        with self.metrics.question(str(request.method)) as ended:
            async with self._turn():
                asked = Question("", request.question, kind=request.kind, conversation=request.conversation)
                answer = await pipeline.aask(asked, listen=listen)
            ended(answer)
        response = AskResponse(started.trace_id, request, answer)
        self._answers.add(response)
        self._notify(response)
        return response

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Hold a free slot. Waiting for it and working are limited to ``timeout`` seconds."""
        try:
            async with asyncio.timeout(self._timeout) as limit:
                with self.metrics.now("waiting"):
                    await self._slots.acquire()
                try:
                    with self.metrics.now("running"):
                        yield
                finally:
                    self._slots.release()
        except TimeoutError:
            if not limit.expired():
                raise
            raise OutOfTime(
                f"no answer within {counted(self._timeout, 'seconds')}, which this service allows"
            ) from None

    def _notify(self, response: AskResponse) -> None:
        for listener in self.on_answer:
            try:
                listener(response)
            except Exception:  # noqa: BLE001 - a listener must not fail an answer
                _log.exception("a listener to answers failed")

    async def _pipeline(self, request: AskRequest, upload: Upload | None = None) -> Pipeline:
        """Return the pipeline of a resolved request, over an upload if one is given. If it is not among the recently
        used, it is opened on a thread, once for all concurrent requests. After a failure, the next request tries again.
        """
        corpus, method = upload.key if upload else str(request.corpus), str(request.method)
        key = corpus, pipeline_key(request)
        opening = self._pipelines.get(key)
        if opening is None or (opening.done() and opening.exception()):
            limits = {name: getattr(request, name) for name in REQUEST_LIMITS}
            work = asyncio.to_thread(self._resources.pipeline, corpus, method, request.settings, limits)
            opening = self._pipelines[key] = asyncio.get_running_loop().create_task(work)
        self._pipelines.move_to_end(key)
        while len(self._pipelines) > self._pipelines_kept:
            self._pipelines.popitem(last=False)
        return await asyncio.shield(opening)  # one caller's cancellation must not cancel the shared task

    def _forget(self, corpus: str) -> None:
        for key in [key for key in self._pipelines if key[0] == corpus]:
            del self._pipelines[key]

    def _check_admitted(self) -> None:
        self._check_open()
        if self._slots.locked() and self.metrics.gauges["waiting"] >= self._waiting:
            raise Busy("the service has reached its maximum number of running and waiting questions; try again later")

    def _check_open(self) -> None:
        if self._closing is not None:
            raise Stopping("the service is stopping; ask again later")
