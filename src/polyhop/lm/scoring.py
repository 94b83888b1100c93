"""Scoring given text through a model server: which way it speaks, and many texts in one request where it takes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

from polyhop.errors import CapabilityError, LMError
from polyhop.lm.base import ScoreRequest, TokenScores
from polyhop.lm.prompt_logprobs import WAYS, Way, joined, read_scores, score_payload
from polyhop.lm.wire import to_json
from polyhop.net.client import Server
from polyhop.net.failures import CallError

BATCH = 16
"""Maximum number of texts per request."""
GATHER = 0.002
"""Seconds that a text waits for others to share its request."""
_PROBE = (
    ScoreRequest(task="probe", prompt="Oslo is the capital of", target="Norway."),
    ScoreRequest(task="probe", prompt="Rome lies in", target="Italy, on the Tiber."),
)
_REFUSALS = ("fatal", "not_found")  # the server does not take such a request; any other failure is on the way
_WOULD_WORK = (
    "vLLM, SGLang and llama-cpp-python's server (with --logits_all true) do; llama.cpp's own server, TGI and OpenAI do "
    "not. Or use pocket or an hf: model"
)


@dataclass(slots=True)
class _LoopState:
    """The state of one event loop: the probe, texts that wait to be sent, requests in flight."""

    probe: asyncio.Task[None] | None = None
    waiting: list[tuple[ScoreRequest, asyncio.Future[TokenScores]]] = field(default_factory=list)
    sending: set[asyncio.Task[None]] = field(default_factory=set)


class ServerScores:
    """Scores from the text completions of ``model`` at ``url``.

    ``way`` is how the server is asked (``prompt_logprobs.WAYS``). If it is None, one small request per way finds it out
    before the first score. One more finds out whether the server takes ``lists`` of texts. Both are remembered, as is
    that the server does not score: ``refusal`` then says so. ``explain`` words a failure.

    Requests of concurrent callers go out together, at most ``BATCH`` at once; a request that nobody waits for any more
    is given up.
    """

    def __init__(
        self,
        model: str,
        server: Server,
        url: str,
        way: Way | None,
        extra: Mapping[str, Any],
        explain: Callable[[CallError], Awaitable[LMError]],
    ) -> None:
        self.way, self.lists, self.refusal = way, False, ""
        self._model, self._server, self._url, self._extra, self._explain = model, server, url, extra, explain
        self._known = False
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopState] = WeakKeyDictionary()

    async def __call__(self, requests: Sequence[ScoreRequest]) -> list[TokenScores]:
        """Scores in the order of the requests. ``CapabilityError`` where the server gives none, ``LMError`` where it
        could not be asked."""
        line = self._lines.setdefault(asyncio.get_running_loop(), _LoopState())
        if not self._known:
            await self._probed(line)
        if self.refusal or self.way is None:
            raise CapabilityError(f"{self.refusal}. {_WOULD_WORK}")
        futures = [self._queued(line, request) for request in requests]
        try:
            return list(await asyncio.gather(*futures))
        finally:
            for future in futures:  # the others, when one has failed
                future.cancel()

    # --- finding out ---------------------------------------------------------------------------------------------

    async def _probed(self, line: _LoopState) -> None:
        """Wait for the one probe of this loop, which goes on for others when this caller is cancelled."""
        if line.probe is None or line.probe.done():
            line.probe = asyncio.ensure_future(self._probe())
        await asyncio.shield(line.probe)

    async def _probe(self) -> None:
        said = []
        for way in (self.way,) if self.way else WAYS:
            try:
                scores = await self._post(_PROBE[:1], way)
            except CallError as error:
                if error.failure.kind not in _REFUSALS:
                    raise await self._explain(error) from None
                said.append(f"{way}: {error.failure.description.rstrip('.')}")
                continue
            if scores and any(scores[0].logprobs):  # all zeros is a server that fills in what it did not compute
                self.way, self.lists, self._known = way, await self._takes_lists(way), True
                return
            said.append(f"{way}: it scored only what it generated")
        self.refusal, self._known = f"does not score a given text ({'; '.join(said)})", True

    async def _takes_lists(self, way: Way) -> bool:
        with suppress(CallError):
            return await self._post(_PROBE, way, retries=0) is not None
        return False

    # --- asking --------------------------------------------------------------------------------------------------

    def _queued(self, line: _LoopState, request: ScoreRequest) -> asyncio.Future[TokenScores]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[TokenScores] = loop.create_future()
        if not request.target.strip():
            future.set_result(TokenScores((), ()))
            return future
        line.waiting.append((request, future))
        if not self.lists or len(line.waiting) == BATCH:
            self._start(line)
        elif len(line.waiting) == 1:
            loop.call_later(GATHER, self._start, line)
        return future

    def _start(self, line: _LoopState) -> None:
        """Send what waits, if anyone still waits for it."""
        batch, line.waiting = [waiter for waiter in line.waiting if not waiter[1].done()], []
        if not batch:
            return
        task = asyncio.ensure_future(self._send(batch))
        line.sending.add(task)
        task.add_done_callback(line.sending.discard)

        def given_up(_: object) -> None:
            if all(future.done() for _, future in batch):
                task.cancel()

        for _, future in batch:
            future.add_done_callback(given_up)

    async def _send(self, batch: Sequence[tuple[ScoreRequest, asyncio.Future[TokenScores]]]) -> None:
        assert self.way is not None
        try:
            scores = await self._post([request for request, _ in batch], self.way)
            error = None if scores else LMError(f"{self._model}: a reply's tokens do not spell the text that was sent")
        except CallError as failed:
            scores, error = None, await self._explain(failed)
        except Exception as closed:  # noqa: BLE001 - a session closed under way; the waiting callers must learn it
            scores, error = None, LMError(f"{self._model}: the request was given up: {closed}")
        for i, (_, future) in enumerate(batch):
            if not future.done():
                future.set_result(scores[i]) if scores else future.set_exception(LMError(str(error)))

    async def _post(
        self, requests: Sequence[ScoreRequest], way: Way, *, retries: int | None = None
    ) -> list[TokenScores] | None:
        texts = [joined(request)[0] for request in requests]
        body = to_json(score_payload(self._model, texts, way, self._extra))
        tokens = sum(len(text) // 4 + 1 for text in texts)
        found, failures = await self._server.ask(
            self._url, body, lambda data: read_scores(data, requests, way), tokens, retries=retries
        )
        return [replace(found[0], retries=failures), *found[1:]] if found and failures else found
