"""Scores of given texts from a model server.

Servers use one of two parameters. ``echo`` with ``logprobs`` repeats the prompt with its log-probabilities: vLLM,
SGLang, and llama-cpp-python (with ``logits_all``; without a start token it gives each token the log-probability of
following itself, which no reply reveals). ``prompt_logprobs`` is vLLM's own, for gateways that do not pass on ``echo``.
llama.cpp's server and TGI accept either silently and score only what they generate; the tokens of such a reply do not
spell the text, which reveals it.

One token is generated and left out: 0 would do, but some servers refuse it, and llama-cpp-python takes it for no limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from weakref import WeakKeyDictionary

from polyhop.errors import CapabilityError, LMError
from polyhop.lm.base import ScoreRequest, TokenScores
from polyhop.lm.wire import to_json
from polyhop.net.client import Server
from polyhop.net.failures import BadReply, CallError

Way = Literal["echo", "prompt_logprobs"]
WAYS: Mapping[Way, Mapping[str, Any]] = {
    "echo": {"echo": True, "logprobs": 1},
    "prompt_logprobs": {"prompt_logprobs": 1},
}
"""The parameters that make a server score a prompt, the most common first."""

Token = tuple[str, "float | None"]
"""A token in a server's reply with its log-probability; None for the first token of all."""
BATCH = 16
"""Maximum number of texts per request."""
GATHER = 0.002
"""Seconds that a text waits for others to share its request."""
_PROBE = (
    ScoreRequest(task="probe", prompt="Oslo is the capital of", target="Norway."),
    ScoreRequest(task="probe", prompt="Rome lies in", target="Italy, on the Tiber."),
)
_REFUSALS = ("fatal", "not_found")  # the server does not support such a request; any other failure may pass
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
    """Scores through the text completions of ``model`` at ``url``.

    ``way`` is a key of ``WAYS``. If it is None, the first score sends one small request per way to find it, and another
    to see if the server takes ``lists`` of texts. Both results are kept. If the server does not score, ``refusal`` is
    the reason. ``explain`` makes an error of a failure.

    Requests of concurrent callers are sent together, at most ``BATCH`` at once; a request is cancelled when no caller
    waits for it.
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
        """Return scores in the order of the requests. ``CapabilityError`` if the server does not score, ``LMError`` if
        the request failed."""
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
        """Wait for the probe of this loop, which continues for others if this caller is cancelled."""
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
            if scores and any(scores[0].logprobs):  # a server that did not compute them may return zeros
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
        """Send the texts whose callers still wait."""
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


# --- requests and replies ---------------------------------------------------------------------------------------------


def score_payload(model: str, texts: Sequence[str], way: Way, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request body for the scores of one or more texts, at temperature 1."""
    prompt = texts[0] if len(texts) == 1 else list(texts)
    return {**extra, "model": model, "prompt": prompt, "max_tokens": 1, "temperature": 1.0, **WAYS[way]}


def joined(request: ScoreRequest) -> tuple[str, int]:
    """Join prompt and target by one space; return the text and the position of that space.

    >>> joined(ScoreRequest(task="t", prompt="Question: ", target="Who?"))
    ('Question: Who?', 9)
    """
    prompt, target = request.prompt.rstrip(), request.target.strip()
    whole = f"{prompt} {target}" if prompt else target
    return whole.encode(errors="replace").decode(), len(prompt)


def read_scores(data: Any, requests: Sequence[ScoreRequest], way: Way) -> list[TokenScores] | None:
    """Read the target's tokens from a reply with one choice per request; None if the server did not score the texts.

    They are found by their spelling, from the end of the text backwards, because the ``text_offset`` of servers is not
    reliable (SGLang sends -1; vLLM counts the start token, and tokens that lost their space). A token that begins in
    the prompt and ends in the target belongs to the target. The first token of the whole text has no log-probability
    and is left out, unless a start token precedes it. ``BadReply`` for any other JSON.
    """
    choices = data.get("choices") if isinstance(data, dict) else None
    if not isinstance(choices, list) or len(choices) != len(requests) or not all(isinstance(c, dict) for c in choices):
        raise BadReply("the reply has not one choice a text")
    if not all(isinstance(choice.get("text"), str) for choice in choices):  # servers that do not score still have it
        raise BadReply("the reply is no text completion's")
    choices = sorted(choices, key=lambda choice: choice.get("index", 0))
    read = _echoed if way == "echo" else _of_prompt
    scores = [read(choice, request) for choice, request in zip(choices, requests, strict=True)]
    found = [one for one in scores if one is not None]
    return found if len(found) == len(scores) else None


def _echoed(choice: Mapping[str, Any], request: ScoreRequest) -> TokenScores | None:
    logprobs, repeated = choice.get("logprobs"), choice["text"]
    text, _ = joined(request)
    if not isinstance(logprobs, dict) or not logprobs.get("tokens") or not repeated.startswith(text):
        return None
    tokens, values = logprobs["tokens"], logprobs.get("token_logprobs")
    if not isinstance(values, list) or len(values) != len(tokens):
        raise BadReply("the reply has not one log-probability a token")
    # vLLM includes the generated token, llama-cpp-python not always: the tokens that spell our text count.
    unseen = _is_piece(tokens[-1]) and text[-1:].isascii()  # a last token without text was generated
    for shown in (tokens[:-1],) if unseen else (tokens, tokens[:-1]):
        first = _first_of_target(shown, text, 0)
        if first is not None and first <= 1:  # a start token may stand before all others
            return _target(list(zip(shown, values, strict=False)), request)
    return None


def _of_prompt(choice: Mapping[str, Any], request: ScoreRequest) -> TokenScores | None:
    rows = choice.get("prompt_logprobs")
    if not isinstance(rows, list):
        return None
    chosen = [next(iter(row.values())) if row else None for row in rows]  # the text's own token comes first
    return _target([(one["decoded_token"] or "", one["logprob"]) if one else ("", None) for one in chosen], request)


def _target(tokens: Sequence[Token], request: ScoreRequest) -> TokenScores | None:
    """Return the scores of the tokens that spell the target; None if they do not, or one has no score."""
    first = _first_of_target([token for token, _ in tokens], *joined(request))
    if first is None:
        return None
    found = tokens[first:]
    if first == 0 and found and found[0][1] is None:
        found = found[1:]
    values = [value for _, value in found if value is not None]
    return TokenScores(tuple(token for token, _ in found), tuple(values)) if len(values) == len(found) else None


def _first_of_target(tokens: Sequence[str], text: str, begin: int) -> int | None:
    """Find the first of ``tokens``, which spell ``text``, that reaches beyond ``begin``; None if they do not spell it.

    A token may have lost the space before it. A piece of a character is written as a mark, a byte's name or nothing; it
    stands for the text between its neighbours.

    >>> _first_of_target(["<s>", "in", " Par", "is", "?"], "in Paris?", 2), _first_of_target(["It"], "in Paris?", 2)
    (2, None)
    """
    end, pieces = len(text), 0
    for i in range(len(tokens) - 1, -1, -1):
        if end <= begin and not pieces:
            return i + 1
        token = tokens[i]
        start = -1 if _is_piece(token) else _before(text, token, end, pieces)
        if start >= 0:
            if start + len(token) <= begin:
                return i + 1
            end, pieces = start, 0
        elif _is_piece(token):
            pieces += max(1, len(token))
        elif i == 0 and _unseen(text, end, pieces):  # a start token
            return 1
        else:
            return None
    return 0 if end <= begin or _unseen(text, end, pieces) else None


def _unseen(text: str, end: int, pieces: int) -> bool:
    """Return True if no token need spell the text before ``end``: a space, or one word if there are pieces (the first
    token of ``prompt_logprobs`` has no text)."""
    return len(text[:end].split()) <= bool(pieces)


def _before(text: str, token: str, end: int, pieces: int) -> int:
    """Find the start of ``token``, which ends at ``end`` of ``text``, or before a lost space or the characters of
    ``pieces`` (that many at most); -1 if it does not."""
    if text.endswith(token, 0, end):
        return end - len(token)
    start = text.rfind(token, max(0, end - len(token) - max(1, pieces)), end)
    between = text[start + len(token) : end]
    return start if start >= 0 and (between.isspace() or (pieces and not between.isascii())) else -1


def _is_piece(token: str) -> bool:
    return not token or "\ufffd" in token or token.startswith(("bytes:", "<0x"))
