"""Request parameters that a server refused: dropped or renamed from then on."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from polyhop.net.failures import Failure

logger = logging.getLogger("polyhop.lm")

_AIDS = ("response_format", "logprobs", "seed")
"""Optional parameters: any complaint that names one drops it."""
_UNSUPPORTED = re.compile(
    r"unsupported|not support|n't support|unrecogni[sz]ed|unknown|unexpected|extra.?(?:inputs|forbidden)|not permitted"
    r"|not allowed|not available|deprecated",
    re.IGNORECASE,
)
_LOSS = {
    "response_format": "replies are not held to the output's JSON schema",
    "logprobs": "replies come without token log-probabilities",
    "seed": "sampling is not repeatable",
    "max_tokens": "sent as max_completion_tokens",
    "stop": "replies are cut at the stop sequences here",
    "temperature": "replies are sampled at the server's own temperature",
}
POSSIBLE: Mapping[str, Any] = dict.fromkeys(_LOSS)
"""A payload with every parameter that can be dropped, for the refusal of a payload that is no longer at hand."""


class Parameters:
    """The parameters that one server refused: ``refused`` counts the refused requests per parameter."""

    def __init__(self, name: str) -> None:
        self.refused: Counter[str] = Counter()
        self._name = name

    def fit(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Remove from the payload what the server does not take."""
        for parameter in self.refused:
            if parameter in payload:
                value = payload.pop(parameter)
                if parameter == "max_tokens":
                    payload["max_completion_tokens"] = value
                elif parameter == "logprobs":
                    payload.pop("top_logprobs", None)
        return payload

    def learn(self, payload: Mapping[str, Any], failure: Failure) -> bool:
        """Return True, and remember the parameter, if the payload was refused for one that it can be sent without.

        Each call leaves fewer parameters that the payload can be refused for, so retries come to an end.
        """
        if failure.kind != "fatal":
            return False
        parameter = next((name for name in _LOSS if name in payload and _blames(failure, name)), None)
        if parameter is None:
            return False
        if parameter not in self.refused:
            logger.warning("%s does not take %r: %s", self._name, parameter, _LOSS[parameter])
        self.refused[parameter] += 1
        return True


def _blames(failure: Failure, name: str) -> bool:
    """Return True if the server complains about this parameter, and not only about a value that could be mended."""
    if failure.parameter is not None:
        root = failure.parameter.partition(".")[0]  # response_format.json_schema.schema
        if name != ("logprobs" if root == "top_logprobs" else root):
            return False
    elif not re.search(rf"(?<![a-z_]){name}(?![a-z_])", failure.message):
        return False
    return name in _AIDS or bool(_UNSUPPORTED.search(failure.message))
