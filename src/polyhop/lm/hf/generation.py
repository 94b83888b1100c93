"""Writing text token by token: several prompts at once, each with its own temperature, seed, length and stops."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

from polyhop.lm.hf.jobs import Ids, batches, padded
from polyhop.lm.hf.tokens import Tokens
from polyhop.lm.reasoning import answer_spans


class Writing(NamedTuple):
    """What to continue, and how. ``seed``: None for a draw that is not to be repeated."""

    prompt: Ids
    most: int
    temperature: float = 0.0
    stop: tuple[str, ...] = ()
    seed: int | None = None


class Written(NamedTuple):
    """The tokens written, an end mark left out, and the natural log-probability of each at temperature 1."""

    ids: list[int]
    logprobs: list[float]
    finished: bool


class Writer:
    """Greedy at temperature 0, else sampled. What is drawn for a seed depends on nothing else that is being written,
    up to the last digits of the logits; ``most_tokens`` bounds a batch."""

    def __init__(self, model: Any, tokens: Tokens, *, pairs: bool, most_tokens: int) -> None:
        self.model, self.tokens, self.most_tokens = model, tokens, most_tokens
        self._pairs = pairs
        ends = model.generation_config.eos_token_id
        self._ends = set(ends if isinstance(ends, list) else [ends])
        self._takes = inspect.signature(model.forward).parameters

    def __call__(self, asked: Sequence[Writing]) -> list[Written]:
        """Each in order."""
        import torch

        found: dict[int, Written] = {}
        with torch.inference_mode():
            for numbers in batches(range(len(asked)), lambda n: len(asked[n].prompt) + asked[n].most, self.most_tokens):
                found.update(zip(numbers, self._write([asked[number] for number in numbers]), strict=True))
        return [found[number] for number in range(len(asked))]

    def _write(self, asked: Sequence[Writing]) -> list[Written]:
        import torch

        rows = [_Row(one) for one in asked]
        inputs = self._begin(asked)
        while True:
            out = self.model(**{name: value for name, value in inputs.items() if name in self._takes}, use_cache=True)
            logits = out.logits[:, -1].float()
            values = logits.log_softmax(-1)
            drawn = [0 if row.done else row.draw(logits[place]) for place, row in enumerate(rows)]
            for place, (row, token) in enumerate(zip(rows, drawn, strict=True)):
                if not row.done:
                    row.take(token, float(values[place, token]), self._ends, self.tokens)
            if all(row.done for row in rows):
                return [Written(row.ids, row.logprobs, row.finished) for row in rows]
            inputs = self._next(inputs, out.past_key_values, torch.tensor(drawn, device=logits.device)[:, None])

    def _begin(self, asked: Sequence[Writing]) -> dict[str, Any]:
        """The inputs of the first step: prompts filled up on the left, or encoded."""
        import torch

        device = self.model.device
        made = padded([one.prompt for one in asked], 0, left=not self._pairs)
        ids, mask = (torch.from_numpy(part).to(device) for part in made)
        if self._pairs:
            start = torch.full((len(asked), 1), self.model.config.decoder_start_token_id, device=device)
            encoded = self.model.get_encoder()(input_ids=ids, attention_mask=mask)
            return {"encoder_outputs": encoded, "attention_mask": mask, "decoder_input_ids": start}
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        return {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "logits_to_keep": 1}

    def _next(self, inputs: dict[str, Any], past: Any, drawn: Any) -> dict[str, Any]:
        """The inputs of the step after: the drawn tokens alone, (rows, 1)."""
        import torch

        if self._pairs:
            return {**inputs, "past_key_values": past, "decoder_input_ids": drawn}
        mask = torch.cat([inputs["attention_mask"], torch.ones_like(drawn)], 1)
        positions = inputs["position_ids"][:, -1:] + 1
        return {
            **inputs,
            "past_key_values": past,
            "input_ids": drawn,
            "attention_mask": mask,
            "position_ids": positions,
        }


class _Row:
    """One text under way."""

    def __init__(self, asked: Writing) -> None:
        import torch

        self.asked, self.done, self.finished = asked, False, False
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self._random = torch.Generator()
        if asked.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(asked.seed)

    def draw(self, logits: Any) -> int:
        import torch

        if self.asked.temperature == 0:
            return int(logits.argmax())
        chances = (logits / self.asked.temperature).softmax(-1).cpu()
        return int(torch.multinomial(chances, 1, generator=self._random))

    def take(self, token: int, logprob: float, ends: set[int], tokens: Tokens) -> None:
        if token in ends:
            self.done = self.finished = True
            return
        self.ids.append(token)
        self.logprobs.append(logprob)
        if self.asked.stop and stopped(tokens.text(self.ids), self.asked.stop) is not None:
            self.done = self.finished = True
        elif len(self.ids) >= self.asked.most:
            self.done = True


def stopped(text: str, stop: Sequence[str]) -> int | None:
    """Where the first stop stands in a reply, its reasoning aside; None where none does.

    >>> stopped("<think>One.\\nTwo.</think>Paris\\nRome", ["\\n"])
    29
    """
    spans, _ = answer_spans(text)
    places = (text.find(word, start, end) for start, end in spans for word in stop)
    return min((place for place in places if place >= 0), default=None)
