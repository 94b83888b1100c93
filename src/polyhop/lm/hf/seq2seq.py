"""Scores by an encoder-decoder: each prompt is encoded once, whatever the number of its targets, and cached."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from polyhop.common.batching import batches
from polyhop.lm.hf.scoring import Ids, Job, StateCache, logprobs, padded


class _Pair(NamedTuple):
    """A job by number, and its prompt's encoder output: (tokens, size)."""

    number: int
    job: Job
    states: Any

    @property
    def length(self) -> int:
        return max(len(self.job.prompt), len(self.job.target))


class Seq2SeqScorer:
    """Log-probabilities of each job's target in the decoder, its end mark included if the target has one.

    ``max_tokens`` bounds a batch; ``state_cache`` keeps encoder outputs for later prompts.
    """

    def __init__(self, model: Any, *, max_tokens: int, state_cache: StateCache) -> None:
        self.model, self.max_tokens, self.state_cache = model, max_tokens, state_cache
        self._start = int(model.config.decoder_start_token_id)

    def __call__(self, jobs: Sequence[Job]) -> list[list[float]]:
        """Return, for each job in order, one natural logarithm per target token."""
        import torch

        by_prompt: dict[Ids, list[int]] = {}
        for number, job in enumerate(jobs):
            by_prompt.setdefault(job.prompt, []).append(number)
        found: list[list[float]] = [[] for _ in jobs]

        def decode(held: dict[Ids, Any]) -> None:
            pairs = [_Pair(number, jobs[number], held[prompt]) for prompt in held for number in by_prompt[prompt]]
            for batch in batches(pairs, lambda pair: pair.length, self.max_tokens):
                for pair, values in zip(batch, self._decode(batch), strict=True):
                    found[pair.number] = values

        with torch.inference_mode():
            remembered = {prompt: self.state_cache.get(_key(prompt)) for prompt in by_prompt}
            decode({prompt: states for prompt, states in remembered.items() if states is not None})
            unknown = [prompt for prompt, states in remembered.items() if states is None]
            for prompts in batches(unknown, len, self.max_tokens):
                decode(dict(zip(prompts, self._encode(prompts), strict=True)))
        return found

    def _encode(self, prompts: Sequence[Ids]) -> list[Any]:
        """Encode each prompt; the output has no padding."""
        import torch

        ids, mask = (torch.from_numpy(part).to(self.model.device) for part in padded(prompts, 0))
        states = self.model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        found = [states[i, : len(prompt)].clone() for i, prompt in enumerate(prompts)]
        for prompt, own in zip(prompts, found, strict=True):
            self.state_cache.put(_key(prompt), own)
        return found

    def _decode(self, batch: Sequence[_Pair]) -> list[list[float]]:
        import torch
        from transformers.modeling_outputs import BaseModelOutput

        device = self.model.device
        states = torch.nn.utils.rnn.pad_sequence([pair.states for pair in batch], batch_first=True)
        _, mask = padded([pair.job.prompt for pair in batch], 0)
        inputs, _ = padded([(self._start, *pair.job.target[:-1]) for pair in batch], 0)
        logits = self.model(
            encoder_outputs=BaseModelOutput(last_hidden_state=states),
            attention_mask=torch.from_numpy(mask).to(device),
            decoder_input_ids=torch.from_numpy(inputs).to(device),
            use_cache=False,
        ).logits
        values = iter(
            logprobs(
                torch.cat([logits[i, : len(pair.job.target)] for i, pair in enumerate(batch)]),
                [token for pair in batch for token in pair.job.target],
                [pair.job.temperature for pair in batch for _ in pair.job.target],
            )
        )
        return [list(islice(values, len(pair.job.target))) for pair in batch]


def _key(prompt: Ids) -> bytes:
    return blake2b(np.asarray(prompt, np.int64).tobytes(), digest_size=16).digest()
