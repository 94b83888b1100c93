"""Scores by a causal model: a target after its prompt, what prompts share worked out once, within a batch and later."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from polyhop.common.batching import batches
from polyhop.lm.hf.scoring import Job, StateCache, logprobs, padded
from polyhop.lm.hf.tree import Block, Row, rows


class CausalScorer:
    """Log-probabilities of each job's target, which gets no end mark; prompts may not be empty.

    Jobs whose prompts share a prefix are folded into one row (``tree``), the states of prompts are kept in
    ``state_cache`` by blocks of their tokens, and logits are computed only at the positions before the targets' tokens.
    ``max_tokens`` bounds a batch, cached tokens included.
    """

    def __init__(self, model: Any, *, max_tokens: int, state_cache: StateCache) -> None:
        self.model, self.max_tokens, self.state_cache = model, max_tokens, state_cache

    def __call__(self, jobs: Sequence[Job]) -> list[list[float]]:
        """Return, for each job in order, one natural logarithm per target token."""
        import torch

        found: list[list[float]] = [[] for _ in jobs]
        folded = list(rows(jobs, self._cached))
        for batch in batches(folded, lambda row: row.size, self.max_tokens):
            with torch.inference_mode():
                logits, states = self._run(batch)
                self._store(batch, states)
                wanted = [(i, number) for i, row in enumerate(batch) for number in row.wanted]
                picked = [logits[i, batch[i].wanted[number] - batch[i].scored] for i, number in wanted]
            chosen = [jobs[number] for _, number in wanted]
            values = iter(
                logprobs(
                    torch.cat(picked),
                    [token for job in chosen for token in job.target],
                    [job.temperature for job in chosen for _ in job.target],
                )
            )
            for (_, number), job in zip(wanted, chosen, strict=True):
                found[number] = list(islice(values, len(job.target)))
        return found

    def _cached(self, blocks: Sequence[Block]) -> list[Any]:
        found = []
        for block in blocks:
            if (states := self.state_cache.get(block.key)) is None:
                break
            found.append(states)
        return found

    def _run(self, batch: Sequence[Row]) -> tuple[Any, Any]:
        """Run a batch: logits of the last ``scored`` tokens of each row, right-aligned, and the states of all slots."""
        import torch
        from transformers import DynamicCache

        past, width = max(row.past_slots for row in batch), max(len(row.tokens) for row in batch)
        ids, _ = padded([row.tokens for row in batch], 0, left=True)
        positions, _ = padded([row.positions for row in batch], 0, left=True)
        sees = np.zeros((len(batch), 1, width, past + width), bool)
        own = range(width)
        sees[:, :, own, range(past, past + width)] = True  # padding too, for a mean over nothing is not a number
        for i, row in enumerate(batch):
            mask, pad = row.mask(), width - len(row.tokens)
            sees[i, 0, pad:, : row.past_slots] = mask[:, : row.past_slots]
            sees[i, 0, pad:, past + pad :] = mask[:, row.past_slots :]
        device, dtype = self.model.device, self.model.dtype
        visible = torch.zeros(sees.shape, device=device, dtype=dtype)
        visible.masked_fill_(~torch.from_numpy(sees).to(device), torch.finfo(dtype).min)
        cache = DynamicCache()
        if past:
            for layer, (keys, values) in enumerate(self._past(batch, past)):
                cache.update(keys, values, layer)
        out = self.model(
            input_ids=torch.from_numpy(ids).to(device),
            position_ids=torch.from_numpy(positions).to(device),
            attention_mask=visible,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=max(row.scored for row in batch),
        )
        return out.logits, cache

    def _past(self, batch: Sequence[Row], width: int) -> Any:
        """Lay cached states side by side: for each layer its keys and values, padded on the right."""
        like = next(piece.states for row in batch for piece in row.past)
        layers, heads, _, size = like.shape
        held = like.new_zeros((layers, len(batch), heads, width, size))
        for i, row in enumerate(batch):
            at = 0
            for states, start in row.past:
                stop = at + states.shape[2] - start
                held[:, i, :, at:stop] = states[:, :, start:]
                at = stop
        return held.unflatten(0, (-1, 2))

    def _store(self, batch: Sequence[Row], cache: Any) -> None:
        """Cache the states of the prompts' blocks: each (layers x 2, heads, tokens, size)."""
        import torch

        if not self.state_cache.max_bytes:
            return
        slots = cache.layers[0].keys.shape[2]
        for i, row in enumerate(batch):
            if all(block.key in self.state_cache for block in row.blocks):
                continue
            both = [part[i] for layer in cache.layers for part in (layer.keys, layer.values)]
            states = torch.stack(both)
            for block, numbers in row.blocks.items():
                if block.key not in self.state_cache:
                    shift = np.where(numbers < row.past_slots, 0, slots - row.size)
                    self.state_cache.put(block.key, states[:, :, torch.from_numpy(numbers + shift).to(states.device)])
