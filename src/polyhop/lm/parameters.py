"""Request parameters that a server turned out not to take: dropped or renamed from then on, not failed on."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from polyhop.net.failures import Failure

logger = logging.getLogger("polyhop.lm")

_AIDS = ("response_format", "logprobs", "seed")
"""Parameters a request can do without: any complaint that names one drops it."""
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
"""A payload with every parameter that can be left out, for a refusal of one that is not at hand any more."""


class Parameters:
    """What one server refused so far: ``refused`` counts the requests it turned down for each parameter."""

    def __init__(self, name: str) -> None:
        self.refused: Counter[str] = Counter()
        self._name = name

    def fit(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The payload without what the server does not take."""
        for parameter in self.refused:
            if parameter in payload:
                value = payload.pop(parameter)
                if parameter == "max_tokens":
                    payload["max_completion_tokens"] = value
                elif parameter == "logprobs":
                    payload.pop("top_logprobs", None)
        return payload

    def learn(self, payload: Mapping[str, Any], failure: Failure) -> bool:
        """Whether the server turned this payload down for one parameter it can be sent without; if so, remember it.

        Each call shrinks what the payload can still be refused for, so trying again comes to an end.
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
    """Whether the server complains of this parameter, and not only of its value where the value could be mended."""
    if failure.parameter is not None:
        root = failure.parameter.partition(".")[0]  # response_format.json_schema.schema
        if name != ("logprobs" if root == "top_logprobs" else root):
            return False
    elif not re.search(rf"(?<![a-z_]){name}(?![a-z_])", failure.message):
        return False
    return name in _AIDS or bool(_UNSUPPORTED.search(failure.message))
