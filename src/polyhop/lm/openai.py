"""Any model behind an OpenAI-compatible server: OpenAI, vLLM, SGLang, llama.cpp, Ollama, TGI and most gateways.

A thin client on aiohttp and orjson; benchmarks/lm_client.py measures what that saves.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self, TypeVar

import orjson

from polyhop.errors import CapabilityError, ContinuationRefused, LMError, SchemaRefused, SettingError, ToolsRefused
from polyhop.lm.base import Capabilities, Completion, Request, ScoreRequest, TokenScores
from polyhop.lm.context import cut_context, sent_tokens
from polyhop.lm.parameters import Parameters
from polyhop.lm.scoring import WAYS, ServerScores, Way
from polyhop.lm.stream import assemble, without_stream
from polyhop.lm.tools import text_of
from polyhop.lm.verdicts import TOP
from polyhop.lm.wire import (
    FILTERED,
    MISFIT,
    flatten,
    read_chat,
    read_completion,
    response_format,
    to_json,
    tool_parameters,
    turns,
)
from polyhop.net.client import Address, Server
from polyhop.net.failures import CallError, Failure, explain
from polyhop.net.limits import MAX_CONCURRENCY, Rates
from polyhop.redaction import register_secret

logger = logging.getLogger("polyhop.lm")
DEFAULT_URL = "https://api.openai.com/v1"
_TEXT_TOP = 5  # alternatives to a token: the maximum of OpenAI for texts
_CONTINUES = {"continue_final_message": True, "add_generation_prompt": False}
"""The parameters by which vLLM, SGLang, TGI and llama.cpp continue an assistant's turn."""
_MAX_STOPS = 4  # of OpenAI; polyhop cuts replies at the others
Scoring = Way | Literal["auto"] | None
T = TypeVar("T")


class OpenAICompatible:
    """A model behind ``/chat/completions``, or with ``chat=False`` behind ``/completions``.

    ``url`` is the base URL, ``/v1`` included, else ``$OPENAI_BASE_URL``, else OpenAI's; ``api_key`` else
    ``$OPENAI_API_KEY``. ``timeout`` is seconds per attempt. An attempt that failed for a passing reason is repeated up
    to ``retries`` times, with growing pauses or those that the server asks for. ``json_schema`` and ``logprobs`` say
    what the server supports; ``extra_body`` is merged into every request. A parameter that the server refuses is
    dropped from then on and counted in ``parameters.refused``.

    With ``chat=False`` the messages' contents are joined by blank lines (``lm.wire.flatten``).

    Given text is scored through ``/completions``, chat or not, always at temperature 1. ``scoring`` is the parameter
    for it: ``"echo"`` or ``"prompt_logprobs"`` (``lm.scoring`` lists the servers of each), ``"auto"`` to find it before
    the first score, or None for no scores, which is what ``"auto"`` means for OpenAI's own API.

    One object serves any number of event loops, in turn or at once; ``max_concurrency`` applies to each, the limits per
    minute to all together. Call ``aclose`` at the end. (llama.cpp's server stalls for seconds if it gets more
    connections than it has HTTP threads: set ``max_concurrency`` to its ``--threads-http``.)

    Raises ``SettingError`` for invalid settings; ``complete`` and ``score`` raise ``LMError`` if there is no reply. A
    withheld answer is not an error: its text is empty and its ``finish_reason`` is ``content_filter``.
    """

    def __init__(
        self,
        model: str,
        url: str | None = None,
        api_key: str | None = None,
        *,
        chat: bool = True,
        max_concurrency: int = MAX_CONCURRENCY,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        timeout: float = 120,
        retries: int = 6,
        json_schema: bool = True,
        logprobs: bool = True,
        scoring: Scoring = "auto",
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        if not model:
            raise SettingError("openai: needs the name of a model, as in openai:gpt-4o-mini")
        if timeout <= 0:
            raise SettingError(f"timeout={timeout}: must be above 0")
        if retries < 0:
            raise SettingError(f"retries={retries}: must be at least 0")
        address = Address(url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_URL)
        key = checked_key(api_key or os.environ.get("OPENAI_API_KEY"))
        official = address.redacted_url == DEFAULT_URL
        if official and key is None:
            raise SettingError(
                f"openai:{model} needs a key: set OPENAI_API_KEY, or name another server: openai:{model}@URL"
            )
        self.model, self.url, self.chat = model, address.redacted_url, chat
        self.name = f"openai:{model}" if official else f"openai:{model}@{address.redacted_url}"
        way = _checked_way(scoring, official)
        self.capabilities = Capabilities(
            chat=chat,
            json_schema=json_schema,
            prefers_json=chat and json_schema,
            token_logprobs=logprobs,
            score=way is not None,
            score_any=way is not None,
            seed=True,
            tools=chat,
            extra_body=True,
            continues=not chat or not official,
        )
        self.parameters = Parameters(self.name)
        self.extra_body = _checked_extra(extra_body)
        limited = requests_per_minute is not None or tokens_per_minute is not None
        self._rates = Rates(requests_per_minute, tokens_per_minute) if limited else None
        self._server = Server(
            address,
            key,
            max_concurrency=max_concurrency,
            rates=self._rates,
            timeout=timeout,
            retries=retries,
            assemble=assemble,
        )
        self.path = "/v1/chat/completions" if chat else "/v1/completions"
        """The API's path in a batch file."""
        self._chat_at, self._text_at = address.path("/chat/completions"), address.path("/completions")
        self._models_at = address.path("/models")
        self._scores = way and ServerScores(
            model,
            self._server,
            self._text_at,
            None if way == "auto" else way,
            without_stream(self.extra_body),
            self._error,
        )
        self._warned_of_cut = False
        self._formats: dict[str, tuple[Mapping[str, Any], orjson.Fragment]] = {}
        settings = {"chat": chat, "json_schema": json_schema, "logprobs": logprobs, "extra_body": self.extra_body}
        self.identity = self.name + orjson.dumps(settings, option=orjson.OPT_SORT_KEYS).decode()
        """Identifies this model's answers in a cache: its name and the settings that change them."""

    def __repr__(self) -> str:
        return f"OpenAICompatible({self.name!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections of every loop; the model can be used again afterwards."""
        await self._server.aclose()

    async def close_loop(self) -> None:
        """Close the connections of the running event loop, which is about to end."""
        await self._server.close_loop()

    async def complete(self, request: Request) -> Completion:
        """Return the model's reply.

        ``LMError`` if the call fails, ``SchemaRefused`` if the request requires its schema and the server does not take
        it, ``ToolsRefused`` if the request has tools and the server takes none, ``ContinuationRefused`` if the server
        does not continue the text that the request begins.
        """
        payload = self._payload(request)
        tokens = 0 if self._rates is None else _estimate(payload)
        try:
            reply, failures = await self._ask(payload, request, tokens)
        except CallError as error:
            if known := {"filter": FILTERED, "misfit": MISFIT}.get(error.failure.kind):
                return replace(known, retries=error.attempts - 1)
            if request.continues == "text" and self.chat and error.failure.kind in ("not_found", "fatal"):
                raise ContinuationRefused(f"{self.name} continues no text ({error.failure.description})") from None
            raise await self._error(error) from None
        return replace(reply, retries=failures) if failures else reply

    async def score(self, requests: Sequence[ScoreRequest]) -> list[TokenScores]:
        """Return the log-probability of each target's tokens after its prompt (see ``scoring.read_scores``).

        ``CapabilityError`` for a temperature other than 1, before any request, and if scoring is off or the server does
        not support it; ``LMError`` if the call fails.
        """
        if any(request.temperature != 1.0 for request in requests):
            raise CapabilityError(
                f"{self.name} gives scores as they are, none at another temperature: -o temperature=1"
            )
        if self._scores is None:
            raise CapabilityError(f"{self.name} is not asked for scores (scoring=None); 'echo' would try")
        try:
            return await self._scores(requests)
        except CapabilityError as error:
            self.capabilities = replace(self.capabilities, score=False, score_any=False)
            raise CapabilityError(f"{self.name} {error}") from None

    def written(self, request: Request) -> bytes:
        """Return the JSON body of a request's call; ``ToolsRefused`` if it needs tools and the server takes none."""
        payload = self._payload(request)
        self._check(payload, request)
        if self.chat and "prompt" in payload:
            raise ContinuationRefused(f"{self.name}: a batch of chats has no texts")
        return to_json(without_stream(payload))

    def reply(self, data: Any, request: Request) -> Completion:
        """Read the server's JSON in answer to a request; ``BadReply`` if it is not a usable reply."""
        reply = (read_completion if self._is_text(request) else read_chat)(data, request, request.stop)
        if not self._warned_of_cut and (context := cut_context(reply, request)):
            self._warned_of_cut = True
            logger.warning(
                "%s: context cut: the server read %d tokens of a prompt of about %d, without an error; start it with a"
                " longer context (Ollama: OLLAMA_CONTEXT_LENGTH=16384 ollama serve)",
                self.name, context, sent_tokens(request),
            )  # fmt: skip
        return reply

    def learn(self, payload: Mapping[str, Any], failure: Failure) -> bool:
        """Return True if the payload was refused for a parameter that it can be sent without, which is then dropped."""
        learnt = self.parameters.learn(payload, failure)
        self.leave_out(())
        return learnt

    def leave_out(self, parameters: Iterable[str]) -> None:
        """Stop sending these parameters: another process has found that the server does not take them."""
        refused = self.parameters.refused
        refused.update(parameters)
        self.capabilities = replace(
            self.capabilities,
            json_schema=self.capabilities.json_schema and "response_format" not in refused,
            token_logprobs=self.capabilities.token_logprobs and "logprobs" not in refused,
            seed="seed" not in refused,
            tools=self.capabilities.tools and "tools" not in refused,
            continues=self.capabilities.continues and not refused.keys() & _CONTINUES.keys(),
        )

    def _check(self, payload: Mapping[str, Any], request: Request) -> None:
        """Raise an error if the payload lacks what the request cannot be made without."""
        if request.requires_schema and "response_format" not in payload:
            raise SchemaRefused(f"{self.name} does not take a JSON schema (response_format)")
        if request.tools and "tools" not in payload:
            raise ToolsRefused(f"{self.name} does not take tools")
        if request.prefilled and not self._is_text(request) and not payload.keys() >= _CONTINUES.keys():
            raise ContinuationRefused(f"{self.name} does not continue an assistant's turn")

    def _is_text(self, request: Request) -> bool:
        """Return True if a request goes to ``/completions``."""
        return not self.chat or request.continues == "text"

    async def _ask(self, payload: dict[str, Any], request: Request, tokens: int) -> tuple[Completion, int]:
        """Post the payload, without what this server does not take. Return the reply and the failed attempts."""
        retries = 0
        while True:
            self._check(payload, request)
            try:
                reply, failures = await self._server.ask(
                    self._text_at if self._is_text(request) else self._chat_at,
                    to_json(payload),
                    lambda data: self.reply(data, request),
                    tokens,
                )
                return reply, retries + failures
            except CallError as error:
                if not self.learn(payload, error.failure):
                    raise
                retries += error.attempts - 1
                payload = self.parameters.fit(payload)

    def _payload(self, request: Request) -> dict[str, Any]:
        payload: dict[str, Any] = {
            "model": self.model,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
        }
        if not (is_text := self._is_text(request)):
            payload["messages"] = turns(request.messages)
            payload |= tool_parameters(request) | (_CONTINUES if request.prefilled else {})
        else:
            payload["prompt"] = flatten(request.messages)
        if request.stop:
            payload["stop"] = request.stop[:_MAX_STOPS]
        if request.seed is not None:
            payload["seed"] = request.seed
        if request.logprobs and self.capabilities.token_logprobs:
            payload["logprobs"] = (_TEXT_TOP if request.yes_or_no else 1) if is_text else True
            if not is_text:
                payload["top_logprobs"] = TOP if request.yes_or_no else 1  # else llama.cpp sends 20 per token
        if request.schema is not None and self.capabilities.json_schema:
            payload["response_format"] = self._format(request.task, request.schema)
        payload.update(self.extra_body)
        payload.update(request.extra_body)
        if payload.get("stream"):
            payload.setdefault("stream_options", {"include_usage": True})
        return self.parameters.fit(payload) if self.parameters.refused else payload

    def _format(self, task: str, schema: Mapping[str, Any]) -> orjson.Fragment:
        """Return the task's response format as bytes, built once while the task keeps its schema."""
        known = self._formats.get(task)
        if known is None or known[0] is not schema:
            known = self._formats[task] = (schema, orjson.Fragment(orjson.dumps(response_format(task, schema))))
        return known[1]

    async def _error(self, error: CallError) -> LMError:
        models = None
        if error.failure.kind == "not_found" and isinstance(listing := await self._server.get(self._models_at), dict):
            rows = listing.get("data")
            if isinstance(rows, list):
                models = [str(row["id"]) for row in rows if isinstance(row, dict) and "id" in row]
        return LMError(explain(self.model, self.url, error, models))


def _estimate(payload: Mapping[str, Any]) -> int:
    """Estimate the tokens of a call as rate limits count them: the prompt and all that it may generate."""
    prompt = payload.get("prompt") or "".join(text_of(message) for message in payload["messages"])
    return len(prompt) // 4 + int(payload.get("max_tokens") or payload.get("max_completion_tokens") or 0)


def checked_key(key: str | None) -> str | None:
    """Strip an API key and register it as a secret; None for an empty one.

    Raises ``SettingError`` if it contains characters that an HTTP header cannot.
    """
    key = (key or "").strip()
    register_secret(key)
    if not (key.isascii() and key.isprintable()):
        raise SettingError("the API key has characters that no HTTP header can hold; is it pasted whole and alone?")
    return key or None


def _checked_way(scoring: Scoring, official: bool) -> Scoring:
    if scoring not in ("auto", None, *WAYS):
        raise SettingError(f"scoring={scoring!r}: must be 'auto', {', '.join(map(repr, WAYS))} or None")
    return None if scoring == "auto" and official else scoring


def _checked_extra(extra: Mapping[str, Any] | None) -> dict[str, Any]:
    try:
        orjson.dumps(dict(extra or {}))
    except (TypeError, ValueError) as error:
        raise SettingError(f"extra_body is not a JSON object: {error}") from None
    return dict(extra or {})
