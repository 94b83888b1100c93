"""Scores by a causal model: a target after its prompt, what prompts share worked out once, within a batch and later."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from polyhop.common.batching import batches
from polyhop.lm.hf.jobs import Job, padded
from polyhop.lm.hf.likelihood import logprobs
from polyhop.lm.hf.memory import Memory
from polyhop.lm.hf.tree import Block, Row, rows


class CausalScorer:
    """Log-probabilities of each job's target, which gets no end mark; prompts may not be empty.

    Jobs whose prompts begin alike are folded into one row (``tree``), the states of prompts are kept in ``memory`` by
    blocks of their tokens, and logits are taken at the places before the targets' tokens only. ``most_tokens`` bounds
    a batch, remembered tokens counted.
    """

    def __init__(self, model: Any, *, most_tokens: int, memory: Memory) -> None:
        self.model, self.most_tokens, self.memory = model, most_tokens, memory

    def __call__(self, jobs: Sequence[Job]) -> list[list[float]]:
        """Of each job, in order, one natural logarithm a target token."""
        import torch

        found: list[list[float]] = [[] for _ in jobs]
        folded = list(rows(jobs, self._remembered))
        for batch in batches(folded, lambda row: row.size, self.most_tokens):
            with torch.inference_mode():
                logits, states = self._run(batch)
                self._remember(batch, states)
                wanted = [(place, number) for place, row in enumerate(batch) for number in row.wanted]
                picked = [logits[place, batch[place].wanted[number] - batch[place].scored] for place, number in wanted]
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

    def _remembered(self, blocks: Sequence[Block]) -> list[Any]:
        found = []
        for block in blocks:
            if (states := self.memory.get(block.key)) is None:
                break
            found.append(states)
        return found

    def _run(self, batch: Sequence[Row]) -> tuple[Any, Any]:
        """The logits of the last ``scored`` tokens of each row, right-aligned, and the model's states of all slots."""
        import torch
        from transformers import DynamicCache

        past, width = max(row.past_slots for row in batch), max(len(row.tokens) for row in batch)
        ids, _ = padded([row.tokens for row in batch], 0, left=True)
        positions, _ = padded([row.positions for row in batch], 0, left=True)
        sees = np.zeros((len(batch), 1, width, past + width), bool)
        own = range(width)
        sees[:, :, own, range(past, past + width)] = True  # padding too, for a mean over nothing is not a number
        for place, row in enumerate(batch):
            mask, pad = row.mask(), width - len(row.tokens)
            sees[place, 0, pad:, : row.past_slots] = mask[:, : row.past_slots]
            sees[place, 0, pad:, past + pad :] = mask[:, row.past_slots :]
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
        """The remembered states side by side: for each layer its keys and values, filled up on the right."""
        like = next(piece.states for row in batch for piece in row.past)
        layers, heads, _, size = like.shape
        held = like.new_zeros((layers, len(batch), heads, width, size))
        for place, row in enumerate(batch):
            at = 0
            for states, start in row.past:
                stop = at + states.shape[2] - start
                held[:, place, :, at:stop] = states[:, :, start:]
                at = stop
        return held.unflatten(0, (-1, 2))

    def _remember(self, batch: Sequence[Row], cache: Any) -> None:
        """Keep the states of the prompts' blocks: each (layers x 2, heads, tokens, size)."""
        import torch

        if not self.memory.most_bytes:
            return
        slots = cache.layers[0].keys.shape[2]
        for place, row in enumerate(batch):
            if all(block.key in self.memory for block in row.blocks):
                continue
            both = [part[place] for layer in cache.layers for part in (layer.keys, layer.values)]
            states = torch.stack(both)
            for block, numbers in row.blocks.items():
                if block.key not in self.memory:
                    shift = np.where(numbers < row.past_slots, 0, slots - row.size)
                    self.memory.put(block.key, states[:, :, torch.from_numpy(numbers + shift).to(states.device)])
