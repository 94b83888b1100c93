"""``replay:RUN_DIR``: the replies and scores of a finished run, from its traces. No model is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

import orjson

from polyhop.common.files import read_inside
from polyhop.errors import ContinuationRefused, DataError, LMError, SchemaRefused, ToolsRefused
from polyhop.lm.base import Capabilities, Completion, Request, ScoreRequest, TokenScores, TokenUsage
from polyhop.lm.memory import HEADROOM, Memory
from polyhop.lm.tool_text import in_text
from polyhop.lm.tools import ToolCall


@dataclass(slots=True)
class _ReplayMemory(Memory):
    """A memory that gives each call the head-room that the recorded run gave it."""

    gave_headroom: Callable[[Request], bool] = field(default=lambda request: False)

    def gives_headroom(self, request: Callable[[], Request]) -> bool:
        return self.gave_headroom(request())


class ReplayLM:
    """A model that answers each call as a run recorded it.

    The same prompt and sample give the same reply (with the same token cap, if two were tried). The same prompt and
    target give the same log-probabilities, but without the text of the tokens. Temperature and ``extra_body`` have no
    effect. ``rendering=auto`` asks each call in the form that the run asked it in.

    Raises ``DataError`` if the folder has no traces, and ``LMError`` for a call that the run did not make.
    """

    capabilities: Capabilities = Capabilities(
        json_schema=True,
        token_logprobs=True,
        score=True,
        score_temperature=True,
        seed=True,
        tools=True,
        continues=True,
        extra_body=True,
    )

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.name = f"replay:{self.folder}"
        self.polyhop_memory = _ReplayMemory(learns=False, gave_headroom=self._gave_headroom)
        self._calls: dict[tuple[str, str, int, int | None], Mapping[str, Any]] = {}
        self._scores: dict[tuple[str, str, str, float], tuple[float, ...]] = {}
        for path in sorted((self.folder / "traces").glob("*.json")):
            self._load(path)
        if not self._calls and not self._scores:
            raise DataError("no traces of a run to replay", self.folder)
        asked_and_scored = {task for task, *_ in self._calls} & {task for task, *_ in self._scores}
        self.capabilities = replace(self.capabilities, score_any=bool(asked_and_scored))

    async def complete(self, request: Request) -> Completion:
        """Return the recorded reply."""
        named = request.task, request.digest(), request.sample
        call = self._calls.get((*named, request.max_tokens)) or self._calls.get((*named, None))
        if call is None:
            if request.requires_schema:
                raise SchemaRefused(f"{self.name} did not make this call in JSON")
            if request.tools and (request.task, in_text(request).digest(), 0, None) in self._calls:
                raise ToolsRefused(f"{self.name} made this call in text")
            if request.prefilled:
                raise ContinuationRefused(f"{self.name} made this call in a user's turn")
            raise self._unknown("reply to", request.task)
        calls = call.get("tool_calls") or ()
        return Completion(
            text=call["text"],
            value=None if calls else call["output"],
            tool_calls=() if call.get("in_text") else tuple(map(_tool_call, calls)),
            carried=call.get("carried"),
            tokens=None if call["tokens"] is None else tuple(call["tokens"]),
            logprobs=None if call["logprobs"] is None else _logprobs(call["logprobs"]),
            usage=TokenUsage(
                prompt_tokens=call["prompt_tokens"],
                completion_tokens=call["completion_tokens"],
                reasoning_tokens=call.get("reasoning_tokens", 0),
                estimated=call["estimated"],
            ),
            finish_reason=call["finish_reason"],
            reasoning=call["reasoning"],
        )

    async def score(self, requests: Sequence[ScoreRequest]) -> list[TokenScores]:
        """Return the recorded scores."""
        scores = []
        for request in requests:
            logprobs = self._scores.get((request.task, request.digest(), request.target, request.temperature))
            if logprobs is None:
                raise self._unknown("score for", request.task)
            scores.append(TokenScores(("",) * len(logprobs), logprobs))
        return scores

    def _gave_headroom(self, request: Request) -> bool:
        """Return True if the run made this call with head-room for thoughts, and not without it."""
        named, cap = (request.task, request.digest(), request.sample), request.max_tokens
        return (*named, cap) not in self._calls and (*named, cap + HEADROOM) in self._calls

    def _unknown(self, what: str, task: str) -> LMError:
        return LMError(
            f"{self.name} has no {what} this {task} call: the run was made with other settings, prompts or passages. "
            "Replay it with the same ones, or name a model"
        )

    def _load(self, path: Path) -> None:
        try:
            for step in orjson.loads(read_inside(self.folder, path.relative_to(self.folder)))["trace"]["steps"]:
                if step["kind"] == "ask":
                    call = step["task"], _prompt_hash(step), step["sample"]
                    self._calls[*call, step.get("max_tokens")] = self._calls[*call, None] = step
                    if step.get("rendering") == "json":
                        self.capabilities = replace(self.capabilities, prefers_json=True)
                elif step["kind"] == "score":
                    prompt, temperature = _prompt_hash(step), step["temperature"]
                    for target, logprobs in zip(step["targets"], step["tokens"], strict=True):
                        self._scores[step["task"], prompt, target, temperature] = _logprobs(logprobs)
        except (ValueError, TypeError, KeyError):
            raise DataError("not a trace of a run", path) from None
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", path) from None


def _prompt_hash(step: Mapping[str, Any]) -> str:
    """Return the hash of a call's prompt, which older traces call ``prompt``."""
    return str(step["prompt_hash"] if "prompt_hash" in step else step["prompt"])


def _tool_call(row: Mapping[str, Any]) -> ToolCall:
    return ToolCall(id=row["id"], name=row["name"], text=row["text"], extra=row["extra"])


def _logprobs(values: Sequence[float | None]) -> tuple[float, ...]:
    """As they were: JSON has no word for that of the impossible but null."""
    return tuple(-inf if logprob is None else logprob for logprob in values)
