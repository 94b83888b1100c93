"""The parameters that one server refused: they are dropped from its requests, with a note."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from polyhop.lm.tools import CARRIED
from polyhop.net.failures import Failure

logger = logging.getLogger("polyhop.lm")

_PREFILL = ("continue_final_message", "add_generation_prompt")
_AIDS = ("response_format", "logprobs", "seed", "tool_choice", "parallel_tool_calls", "stream_options", *_PREFILL)
"""Optional parameters: any complaint that names one drops it."""
_UNSUPPORTED = re.compile(
    r"unsupported|not support|n't support|unrecogni[sz]ed|unknown|unexpected|extra.?(?:inputs|forbidden)|not permitted"
    r"|not allowed|not available|not enabled|deprecated|must contain non-whitespace|may only be set|requires --"
    r"|no endpoints found|please remove",
    re.IGNORECASE,
)
_LOSS = {
    "response_format": "replies are not held to the output's JSON schema",
    "logprobs": "replies come without token log-probabilities",
    "seed": "sampling is not repeatable",
    "max_tokens": "sent as max_completion_tokens",
    "stop": "replies are cut at the stop sequences here",
    "temperature": "replies are sampled at the server's own temperature",
    "tool_choice": "the model itself decides if it calls a tool",
    "parallel_tool_calls": "the first call of a reply counts",
    "tools": "calls are asked for in text",
    "stream_options": "the tokens of streamed replies are estimated",
    "stream": "replies come in one piece",
    **dict.fromkeys(_PREFILL, "a text is continued in a user's turn"),
    **dict.fromkeys(CARRIED, "left out of the messages that go back"),
}
_WORDS = {
    "response_format": "response_format|response_schema|json[ _]schema|additionalProperties|grammar",
    "tools": "tools?|tool[ _-](?:use|call(?:s|ing)?|choice)|function[ _-]call(?:s|ing)?",
    "stream": "stream(?:ing)?",
    "continue_final_message": r"continue_final_message|prefill(?:ing|ed|s)?|assistant|(?:last|final) (?:message|role)",
    "reasoning": r"""messages\S{0,40}\.reasoning|['"`]reasoning['"`]""",
}
"""Patterns of the words by which servers name a parameter, if they have more than its name."""
POSSIBLE: Mapping[str, Any] = dict.fromkeys(_LOSS)
"""A payload with every parameter that can be dropped, for a refusal whose payload is not known any more."""


class Parameters:
    """The parameters that one server refused: ``refused`` counts the refused requests per parameter."""

    def __init__(self, name: str) -> None:
        self.refused: Counter[str] = Counter()
        self._name = name

    def fit(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Remove the refused parameters from the payload."""
        for parameter in self.refused:
            if parameter in CARRIED:
                messages = payload.get("messages", ())
                payload["messages"] = [{k: v for k, v in turn.items() if k != parameter} for turn in messages]
            elif parameter in payload:
                value = payload.pop(parameter)
                if parameter == "max_tokens":
                    payload["max_completion_tokens"] = value
                elif parameter == "logprobs":
                    payload.pop("top_logprobs", None)
                elif parameter == "stream":
                    payload.pop("stream_options", None)
        return payload

    def learn(self, payload: Mapping[str, Any], failure: Failure) -> bool:
        """Return True, and remember the parameter, if the payload was refused for one that it can be sent without.

        Each call leaves fewer parameters that the payload can be refused for, so retries come to an end.
        """
        if failure.kind != "fatal" and failure.status != 403:  # OpenAI answers 403 to logprobs of a thinking model
            return False
        parameter = next((name for name in _LOSS if _has(payload, name) and _blames(failure, name)), None)
        if parameter is None:
            return False
        if parameter not in self.refused:
            logger.warning("%s does not take %r: %s", self._name, parameter, _LOSS[parameter])
        self.refused[parameter] += 1
        return True


def _has(payload: Mapping[str, Any], name: str) -> bool:
    if name in CARRIED and name not in payload:
        return any(name in turn for turn in payload.get("messages") or ())
    return name in payload


def _blames(failure: Failure, name: str) -> bool:
    """Return True if the server refuses this parameter, not only its value."""
    in_message = name in CARRIED and (failure.parameter or "").startswith("messages")
    if failure.parameter is not None and not in_message:
        root = failure.parameter.partition(".")[0]  # response_format.json_schema.schema
        if name != ("logprobs" if root == "top_logprobs" else root):
            return False
    elif not re.search(rf"(?<![a-z_])(?:{_WORDS.get(name, name)})(?![a-z_])", failure.message, re.IGNORECASE):
        return False
    return name in _AIDS or bool(_UNSUPPORTED.search(failure.message))
