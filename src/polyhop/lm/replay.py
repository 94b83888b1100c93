"""``replay:RUN_DIR``: the replies of a finished run, from its traces. Nothing is asked of any model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from polyhop.errors import DataError, LMError
from polyhop.lm.base import Capabilities, Completion, Request, TokenUsage


class ReplayLM:
    """Answers each call as it was answered in a run: the same prompt and the same draw give the same reply.

    Raises ``DataError`` when the folder holds no traces, and ``LMError`` for a call the run did not make.
    """

    capabilities = Capabilities(json_schema=True, token_logprobs=True, seed=True)

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.name = f"replay:{self.folder}"
        self._calls: dict[tuple[str, str, int], Mapping[str, Any]] = {}
        for path in sorted((self.folder / "traces").glob("*.json")):
            self._load(path)
        if not self._calls:
            raise DataError("no traces of a run to replay", self.folder)

    async def complete(self, request: Request) -> Completion:
        """The recorded reply of this call."""
        call = self._calls.get((request.task, request.digest(), request.sample))
        if call is None:
            raise LMError(
                f"{self.name} has no reply to this {request.task} call: the run was made with other settings, prompts "
                "or passages. Replay it with the same ones, or name a model"
            )
        return Completion(
            text=call["text"],
            value=call["output"],
            tokens=_tuple(call["tokens"]),
            logprobs=_tuple(call["logprobs"]),
            usage=TokenUsage(
                prompt_tokens=call["prompt_tokens"],
                completion_tokens=call["completion_tokens"],
                estimated=call["estimated"],
            ),
            finish_reason=call["finish_reason"],
            reasoning=call["reasoning"],
        )

    def _load(self, path: Path) -> None:
        try:
            for step in orjson.loads(path.read_bytes())["trace"]["steps"]:
                if step["kind"] == "ask":
                    self._calls[step["task"], step["prompt"], step["sample"]] = step
        except (ValueError, TypeError, KeyError):
            raise DataError("not a trace of a run", path) from None


def _tuple(values: list[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)
