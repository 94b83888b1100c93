"""A call that scores given texts by their token log-probabilities."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from polyhop.common.text import estimate_tokens
from polyhop.errors import CapabilityError
from polyhop.lm.base import LanguageModel, ScoreRequest, TokenScores
from polyhop.redaction import redacted


class ScoreCall(NamedTuple):
    """A call that scores ``targets`` as continuations of a prompt: one call of the budget, with the tokens of each."""

    task: str
    fields: Mapping[str, Any]
    model: LanguageModel
    prompt: str
    targets: Sequence[str]
    temperature: float

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """The key that identical calls share."""
        return ("score", self.model.name, self.prompt, tuple(self.targets), self.temperature)

    @property
    def scorer(self) -> Callable[[list[ScoreRequest]], Awaitable[list[TokenScores]]]:
        """The model's function that scores. Raises ``CapabilityError`` if it has none."""
        scorer = getattr(self.model, "score", None)
        if not self.model.capabilities.score or scorer is None:
            raise CapabilityError(
                f"{self.model.name} cannot score a given text, which {self.task} needs; use pocket, an hf: model or a "
                "server that scores (vLLM, llama-cpp-python)"
            )
        return cast("Callable[[list[ScoreRequest]], Awaitable[list[TokenScores]]]", scorer)

    def requests(self) -> list[ScoreRequest]:
        """Return a request per target."""
        return [
            ScoreRequest(
                task=self.task, prompt=self.prompt, target=target, fields=self.fields, temperature=self.temperature
            )
            for target in self.targets
        ]

    def record(self, scores: Sequence[TokenScores]) -> dict[str, Any]:
        """Return the data of the call's step in the trace."""
        requests = self.requests()
        return {
            "task": self.task,
            "model": redacted(self.model.name),
            "targets": tuple(self.targets),
            "logprobs": tuple(sum(score.logprobs) for score in scores),
            "tokens": tuple(score.logprobs for score in scores),
            "prompt_hash": requests[0].digest() if requests else "",
            "temperature": self.temperature,
            "prompt_tokens": sum(estimate_tokens(self.prompt) + len(score.logprobs) for score in scores),
            "prompt_words": sum(len(self.prompt.split()) + len(target.split()) for target in self.targets),
            "retries": sum(score.retries for score in scores),
        }
