"""The protocol of a language model, and the values that cross it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, NotRequired, Protocol, TypeAlias, TypedDict, runtime_checkable

from polyhop.lm.reply import first_writing

if TYPE_CHECKING:
    from polyhop.lm.tools import Tool, ToolCall


class Message(TypedDict):
    """One turn of a prompt, as chat servers take it.

    ``tool`` is the role of a call's result (``lm.tool_turns.result_message``); an assistant's turn may have calls
    (``lm.tool_turns.assistant_message``).
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: NotRequired[Sequence[Mapping[str, Any]]]
    tool_call_id: NotRequired[str]
    name: NotRequired[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The capabilities of a model. A method that needs a missing one fails before its first call.

    ``prefers_json``: ``rendering=auto`` asks the model in JSON, as long as it has ``json_schema``. ``score_any``: it
    scores any given text, not only PromptRank's. ``tools``: it takes requests with tools; other models are asked for
    their calls in text (``lm.tool_text``). ``extra_body``: it sends the fields of ``Request.extra_body`` to a server.
    ``continues``: it goes on with a text that was begun (``Request.continues``).
    """

    chat: bool = True
    json_schema: bool = False
    prefers_json: bool = False
    token_logprobs: bool = False
    score: bool = False
    score_any: bool = False
    score_temperature: bool = False
    seed: bool = False
    tools: bool = False
    extra_body: bool = False
    continues: bool = False


Continues: TypeAlias = Literal["", "turn", "text", "whole"]
"""The form in which a reply continues a text, if it does (``Request``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of a prompt task: the rendered ``messages`` and, for models that answer from them, the typed fields.

    ``sample`` numbers the repeated identical calls of one question 0, 1, 2 …: each draw is a new request. ``seed`` is
    the seed of this sample (``seed_of``); a model without seeds ignores it. ``requires_schema``: a model whose server
    refuses the ``schema`` raises ``SchemaRefused`` and does not ask without it; the reply is the same otherwise.

    ``tools`` are those that the model may call. ``tool_choice``: "auto" leaves it to the model, "required" wants a
    call, the name of a tool a call of it, and "none" a text. ``parallel_tool_calls``: a reply may have several calls.
    A model whose server refuses tools raises ``ToolsRefused``.

    ``yes_or_no``, with ``logprobs``: a token of the reply that states yes or no, or true or false, has its probability
    among both, if the model knows the alternatives.

    ``extra_body``: fields that are added to the body of this request, in place of those that all requests have.

    ``continues``: the reply goes on with a text, and is kept whole, with the thoughts in it. ``turn``: an assistant's
    turn at the end of the messages is continued, with the thoughts that a server takes apart. ``text``: all messages
    are one text (``lm.wire.flatten``), which is continued without a chat template. ``whole``: the messages show the
    text. A model that does not continue a text raises ``ContinuationRefused``.
    """

    task: str
    fields: Mapping[str, Any]
    messages: Sequence[Message]
    schema: Mapping[str, Any] | None = None
    max_tokens: int = 512
    temperature: float = 0.0
    stop: tuple[str, ...] = ()
    seed: int | None = None
    logprobs: bool = False
    sample: int = 0
    requires_schema: bool = field(default=False, compare=False)
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    parallel_tool_calls: bool = True
    yes_or_no: bool = False
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    continues: Continues = ""

    @property
    def prefilled(self) -> bool:
        """True if the reply continues an assistant's turn, which the messages end with."""
        return bool(self.continues) and self.messages[-1]["role"] == "assistant"

    def digest(self) -> str:
        """A short hash of the messages, and of the tools and their choice if there are any; the same in every
        process."""
        offer = [[tool.definition for tool in self.tools], self.tool_choice, self.parallel_tool_calls]
        return digest_of(self.messages, offer if self.tools else None)


def digest_of(messages: Sequence[Message], offer: Any = None) -> str:
    """Return ``Request.digest`` of these messages; ``offer``: definitions of tools, their choice, if in parallel."""
    parts = [
        message["role"].encode() + text_digest(message["content"]) + (_rest(message) if len(message) > 2 else b"")
        for message in messages
    ]
    if offer is not None:
        parts.append(text_digest(json.dumps(offer, sort_keys=True)))
    return hashlib.blake2b(b"".join(parts), digest_size=12).hexdigest()


def seed_of(seed: int | None, task: str, sample: int) -> int | None:
    """Derive a sample's own seed from a run's: the first sample keeps it, every other mixes in the task and its number.

    The result is the same in every process. A mixed seed has 31 bits, which every server takes.

    >>> [seed_of(7, "answer.cot", sample) for sample in range(3)]
    [7, 1429382868, 1607732821]
    """
    if seed is None or sample == 0:
        return seed
    mixed = hashlib.blake2b(f"{seed}\0{task}\0{sample}".encode(), digest_size=4).digest()
    return int.from_bytes(mixed, "big") >> 1


def _rest(message: Message) -> bytes:
    """Hash what a turn has besides role and content: its calls, or the call that it is the result of."""
    return text_digest(json.dumps({name: message[name] for name in sorted(message.keys() - {"role", "content"})}))  # type: ignore[literal-required]


@lru_cache(maxsize=256)
def text_digest(content: str) -> bytes:
    """Hash one turn. Cached, because instructions and demonstrations are part of every call."""
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=12).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """Tokens of one call, as the server counted them, or estimated if ``estimated`` is set.

    ``reasoning_tokens`` are those of ``completion_tokens`` that are thoughts, 0 if the server does not count them.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A model's reply. With ``value``, a mapping in the task's output shape, the text is not parsed.

    ``tokens`` and ``logprobs`` (natural logarithm, one per token) belong to the text; with ``value``, to its
    ``answer``. ``reasoning`` is a reasoning block that was removed. ``retries`` and ``cached`` are never cached.

    ``tool_calls``: the calls of tools that were offered; ``carried``: fields of the server's message that must go back
    to it with them (``lm.tools.CARRIED``).
    """

    text: str
    value: Mapping[str, Any] | None = None
    tokens: tuple[str, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    usage: TokenUsage | None = None
    finish_reason: str = "stop"
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    carried: Mapping[str, Any] | None = None
    retries: int = 0
    cached: bool = False
    seconds: float | None = field(default=None, compare=False)
    """The seconds that a cached reply took when it was made, without waiting; None if it is not known."""

    @property
    def says_nothing(self) -> bool:
        """True if the reply has neither text, nor a value, nor a call of a tool."""
        return self.value is None and not self.tool_calls and not self.text.strip()

    @property
    def ran_out(self) -> bool:
        """True if the token limit was spent before any text came."""
        return self.finish_reason == "length" and self.says_nothing

    @property
    def thought(self) -> bool:
        """True if the model thought before it replied: the reply has its reasoning, or a count of its tokens."""
        return bool(self.reasoning) or (self.usage is not None and self.usage.reasoning_tokens > 0)

    @property
    def thoughts_cut_it(self) -> bool:
        """True if the token limit was spent, and thoughts took a part of it."""
        return self.finish_reason == "length" and self.value is None and (self.thought or self.says_nothing)

    def probability(self, answer: str, *, least: bool = False, question: str = "") -> float | None:
        """Return the geometric mean of the probabilities of the answer's tokens, or the ``least`` of them.

        The tokens are those of the first position in the reply to ``question`` that writes the answer
        (``first_writing``), because a model copies its own words, as after "Answer:", with a probability near 1. All
        tokens count if the answer is not found, or if the reply is a ``value``. None without log-probabilities.

        >>> reply = Completion(text="Rome. Answer: Rome", tokens=("Rome", ". Answer:", " Rome"), logprobs=(-1, 0, 0))
        >>> round(reply.probability("Rome"), 2)
        0.37
        """
        if not self.tokens or not self.logprobs:
            return None
        held = self._logprobs_of(answer, question) or self.logprobs
        return math.exp(min(0.0, min(held) if least else sum(held) / len(held)))

    def _logprobs_of(self, answer: str, question: str) -> tuple[float, ...]:
        text = "".join(self.tokens or ())
        found = first_writing(answer, text, question) if self.value is None else None
        if found is None:
            return ()
        start, stop = found
        ends = list(accumulate(map(len, self.tokens or ())))
        return tuple(
            logprob
            for logprob, token, end in zip(self.logprobs or (), self.tokens or (), ends, strict=True)
            if end > start and end - len(token) < stop
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRequest:
    """A request for the log-probability of ``target`` after ``prompt``; ``temperature`` divides the logits first.

    The two are joined by one space; other space between them is removed.
    """

    task: str
    prompt: str
    target: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    temperature: float = 1.0

    def digest(self) -> str:
        """A short hash of the prompt, the same in every process."""
        return text_digest(self.prompt).hex()


@dataclass(frozen=True, slots=True)
class TokenScores:
    """The tokens of a target and the natural log-probability of each.

    ``retries``: those of a request for several targets are reported with one of them.
    """

    tokens: tuple[str, ...]
    logprobs: tuple[float, ...]
    retries: int = field(default=0, compare=False)
    seconds: float | None = field(default=None, compare=False)
    """As of a ``Completion``."""


@runtime_checkable
class LanguageModel(Protocol):
    """Anything with a name, capabilities and ``complete``. ``score``, ``count_tokens``, ``truncate`` and ``aclose``,
    which is awaited at the end, are optional.

    ``count_tokens(text) -> int`` and ``truncate(text, tokens) -> str`` use the model's own tokenizer; without them
    polyhop counts 4 characters per token and marks the run.
    """

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    async def complete(self, request: Request) -> Completion: ...


class Scorer(Protocol):
    """A model that scores given text (``capabilities.score``)."""

    async def score(self, requests: Sequence[ScoreRequest]) -> list[TokenScores]: ...
