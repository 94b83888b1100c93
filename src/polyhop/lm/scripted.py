"""A language model that answers from a script, for tests, examples and documentation."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self, TypeAlias

import orjson

from polyhop.common.text import estimate_tokens
from polyhop.errors import CapabilityError, DataError, UsageError, nearest
from polyhop.lm.base import Capabilities, Completion, Request, ScoreRequest, TokenScores, TokenUsage
from polyhop.lm.context import sent_tokens
from polyhop.lm.tool_turns import assistant_message
from polyhop.lm.tools import ToolCall, text_of
from polyhop.types import Passage

Fields: TypeAlias = Mapping[str, Any]
Reply: TypeAlias = "str | Mapping[str, Any] | ToolCall | Completion | Exception | type[Exception]"
"""A text, a value in the task's output shape, a call of a tool, a completion, or an error to raise."""

Script: TypeAlias = "Callable[[str, Fields], Reply | Awaitable[Reply]] | Mapping[str, Entry]"
"""``(task, fields) -> reply``, or an entry per task."""

Entry: TypeAlias = "Reply | Sequence[Reply] | Callable[[Fields], Reply | Awaitable[Reply]]"
"""One reply for every call, a list of replies in order, or a function of the fields."""

Score: TypeAlias = "Callable[[ScoreRequest], TokenScores | Sequence[float] | float]"
"""A target's scores: ``TokenScores``, the log-probabilities of its tokens, or one number for the whole target."""


class ScriptedLM:
    """A model that answers each call from ``script`` after ``latency`` seconds.

    A list of replies is used in order; a call after its end is an error. A mapping becomes the completion's ``value``,
    and its JSON the text. Usage is estimated at 4 characters per token. ``score`` returns a target's ``TokenScores``,
    or log-probabilities alone (one per word of the target), or one number (the target is then one token). ``calls`` has
    all requests in order, ``score_calls`` those to ``score``. The default of ``capabilities`` is what the script can
    serve: scores, at any temperature, if ``score`` is given.

    >>> lm = ScriptedLM({"answer.direct": {"answer": "Paris"}, "resp.plan": ["Where?", "When?"]})
    >>> asyncio.run(lm.complete(Request(task="answer.direct", fields={}, messages=[]))).text
    '{"answer":"Paris"}'
    """

    def __init__(
        self,
        script: Script,
        *,
        name: str = "scripted",
        capabilities: Capabilities | None = None,
        latency: float = 0.0,
        score: Score | None = None,
    ) -> None:
        self.name = self.identity = name
        can = score is not None
        self.capabilities = capabilities or Capabilities(
            json_schema=True, seed=True, score=can, score_any=can, score_temperature=can, tools=True, continues=True
        )
        self.latency = latency
        self.calls: list[Request] = []
        self.score_calls: list[ScoreRequest] = []
        self._script = script
        self._score = score
        self._given: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"ScriptedLM({self.name!r})"

    @classmethod
    def from_file(cls, path: str | Path, *, latency: float = 0.0) -> Self:
        """Read a script in JSON Lines: ``{"task": …, "when": {field: …}, "reply": …}``.

        The first line with the task and a matching ``when`` answers. ``when`` is optional. A string in it matches a
        field that contains it, ignoring case (a passage's title and text, all items of a list); any other value matches
        an equal field, and null also an absent one. ``reply`` is a text, an object in the task's output shape, or a
        list of them, used in rotation. A malformed line is a ``DataError``.
        """
        script = _FileScript(Path(path))
        model = cls(script, name=f"scripted:{path}", latency=latency)
        model.identity = f"{model.name} {script.digest}"
        return model

    async def complete(self, request: Request) -> Completion:
        """Return the script's next reply to this task."""
        self.calls.append(request)
        reply: Any = self._next(request)
        if self.latency:
            await asyncio.sleep(self.latency)
        if inspect.isawaitable(reply):
            reply = await reply
        completion = _completion(reply, request.task)
        if completion.usage is not None:
            return completion
        usage = TokenUsage(
            prompt_tokens=sent_tokens(request),
            completion_tokens=estimate_tokens(text_of(assistant_message(completion))),
            estimated=True,
        )
        return replace(completion, usage=usage)

    async def score(self, requests: Sequence[ScoreRequest]) -> list[TokenScores]:
        """Return the script's scores of the targets."""
        if self._score is None:
            raise CapabilityError(f"{self.name} has no scores: give it score=, a function of the request")
        self.score_calls.extend(requests)
        if self.latency:
            await asyncio.sleep(self.latency)
        return [_token_scores(request.target, self._score(request)) for request in requests]

    def _next(self, request: Request) -> Any:
        script, task = self._script, request.task
        if not isinstance(script, Mapping):
            return script(task, request.fields)
        if task not in script:
            near = nearest(task, script)
            raise UsageError(
                f"{self.name}: no reply for task {task!r}; the script has {', '.join(map(repr, script)) or 'none'}"
                + (f". Did you mean {near!r}?" if near else "")
            )
        entry: Any = script[task]
        if isinstance(entry, (list, tuple)):
            self._given[task] += 1
            if self._given[task] > len(entry):
                raise UsageError(f"{self.name}: all replies for task {task!r} are used up: {len(entry)}")
            return entry[self._given[task] - 1]
        is_function = callable(entry) and not isinstance(entry, type)
        return entry(request.fields) if is_function else entry


class _FileScript:
    """A script file as a function of task and fields."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            text = path.read_bytes()
        except OSError as error:
            raise DataError(f"the script cannot be read ({error.strerror})", path) from None
        self.digest = blake2b(text, digest_size=16).hexdigest()  # for the cache, an edited script is another model
        self._lines = [_parsed(path, number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        if not self._lines:
            raise DataError("the script is empty", path)
        self._given: Counter[int] = Counter()

    def __call__(self, task: str, fields: Fields) -> Reply:
        for i, (name, when, replies) in enumerate(self._lines):
            if name == task and all(_fits(wanted, fields.get(field)) for field, wanted in when.items()):
                self._given[i] += 1
                return replies[(self._given[i] - 1) % len(replies)]
        tasks = sorted({name for name, _, _ in self._lines})
        if task in tasks:
            shown = {field: _text(value)[:80] for field, value in fields.items()}
            raise DataError(f"no line for task {task!r} fits the fields {shown}", self._path)
        raise DataError(f"no line for task {task!r}; the script has {', '.join(map(repr, tasks))}", self._path)


def _parsed(path: Path, number: int, line: bytes) -> tuple[str, dict[str, Any], list[Reply]]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise DataError(f"not JSON: {error}", path, number) from None
    if not isinstance(row, dict) or not isinstance(row.get("task"), str) or "reply" not in row:
        raise DataError('must be an object with "task" (a name) and "reply"', path, number)
    if extra := row.keys() - {"task", "when", "reply"}:
        raise DataError(f'has {", ".join(sorted(extra))}: only "task", "when" and "reply" are known', path, number)
    when, reply = row.get("when", {}), row["reply"]
    if not isinstance(when, dict):
        raise DataError('"when" must be an object: field to text or value', path, number)
    replies = reply if isinstance(reply, list) else [reply]
    if not replies or not all(isinstance(one, (str, dict)) for one in replies):
        raise DataError('"reply" must be a text, an object, or a list of them', path, number)
    return row["task"], when, replies


def _fits(wanted: Any, value: Any) -> bool:
    if isinstance(wanted, str) and value is not None:
        return wanted.casefold() in _text(value).casefold()
    return bool(wanted == value)


def _text(value: Any) -> str:
    """Return all text in a field's value."""
    if isinstance(value, str):
        return value
    if isinstance(value, Passage):
        return f"{value.title}\n{value.text}"
    if isinstance(value, Mapping):
        return "\n".join(map(_text, value.values()))
    return "\n".join(map(_text, value)) if isinstance(value, (list, tuple)) else str(value)


def _token_scores(target: str, given: TokenScores | Sequence[float] | float) -> TokenScores:
    if isinstance(given, TokenScores):
        return given
    if isinstance(given, Sequence):
        words = target.split()
        return TokenScores(tuple(words[n] if n < len(words) else "" for n in range(len(given))), tuple(given))
    return TokenScores((target,), (float(given),))


def _completion(reply: Any, task: str) -> Completion:
    if isinstance(reply, Completion):
        return reply
    if isinstance(reply, str):
        return Completion(text=reply)
    if isinstance(reply, ToolCall):
        return Completion(text="", tool_calls=(reply,), finish_reason="tool_calls")
    if isinstance(reply, Mapping):
        return Completion(text=orjson.dumps(dict(reply), default=str).decode(), value=reply)
    if isinstance(reply, BaseException) or (isinstance(reply, type) and issubclass(reply, BaseException)):
        raise reply
    raise UsageError(
        f"the script's reply for task {task!r} is a {type(reply).__name__}: "
        "a text, a mapping, a ToolCall, a Completion or an exception would do"
    )
