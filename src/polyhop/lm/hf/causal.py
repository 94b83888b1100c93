"""Scores by a causal model: work that prompts share is done once, within a batch and later.

Token sequences that begin alike are folded into one row: a tree of tokens laid flat. By the mask, each token sees only
the tokens on its own path from the root. By its position, it has the index that it has in its own sequence. So a causal
model gives each sequence the states that it would have alone.

>>> jobs = [Job((1, 2, 3, 4), (8, 9)), Job((1, 2, 3, 5), (8, 9))]
>>> (row,) = rows(jobs, known=lambda blocks: [], min_shared=2)
>>> row.tokens, row.positions
([1, 2, 3, 4, 8, 5, 8], [0, 1, 2, 3, 4, 3, 4])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from polyhop.common.batching import batches
from polyhop.lm.hf.layers import cache_argument
from polyhop.lm.hf.scoring import Ids, Job, StateCache, logprobs, padded

BLOCK = 16
"""Tokens of a prompt whose states are cached together."""
MIN_SHARED = 16
"""Minimum number of shared tokens for two sequences to share a row."""
MAX_SLOTS = 1024
"""Maximum length of a folded row: attention is computed between all its tokens, masked or not."""


class Block(NamedTuple):
    """A part of a prompt. ``key``: a hash of the prompt up to the end of the part."""

    key: bytes
    start: int
    stop: int


class Piece(NamedTuple):
    """The states of a cached block from its token ``start`` on."""

    states: Any
    start: int


Known = Callable[[Sequence[Block]], Sequence[Any]]
"""The cached states of a prompt's leading blocks, as many as there are."""


def blocks_of(prompt: Ids) -> list[Block]:
    """Return the blocks of a prompt without its last token, whose logits are always needed."""
    found, digest = [], b""
    for start in range(0, len(prompt) - 1, BLOCK):
        stop = min(start + BLOCK, len(prompt) - 1)
        digest = blake2b(digest + np.asarray(prompt[start:stop], np.int64).tobytes(), digest_size=16).digest()
        found.append(Block(digest, start, stop))
    return found


class Row:
    """A row of tokens: sequences are added one by one, then it is laid flat.

    Its slots are numbered in this order: ``past_slots`` cached ones, whose states are in ``past``, then the ``tokens``
    to compute, of which the last ``scored`` are those whose logits are needed.
    """

    def __init__(self) -> None:
        self.past: list[Piece] = []
        self.size = 0
        self._tokens: list[int] = []
        self._positions: list[int] = []
        self._is_past: list[bool] = []
        self._sequence = self._way = np.zeros(0, np.int64)  # the last one added, and the slots of its tokens
        self._ways: list[tuple[NDArray[np.int64], int]] = []  # with how many of the slots were there before
        self._wanted: dict[int, NDArray[np.int64]] = {}
        self._blocks: dict[Block, NDArray[np.int64]] = {}

    def shares(self, sequence: NDArray[np.int64], job: Job) -> int:
        """Count the leading tokens of ``sequence`` that have a usable slot: logits need one that is computed."""
        both = min(len(sequence), len(self._sequence))
        differ = np.flatnonzero(sequence[:both] != self._sequence[:both])
        shared = int(differ[0]) if len(differ) else both
        first = len(job.prompt) - 1
        return next((i for i in range(first, shared) if self._is_past[self._way[i]]), shared)

    def add(self, number: int, job: Job, sequence: NDArray[np.int64], known: Known) -> None:
        """Add the job of this number."""
        shared, blocks = self.shares(sequence, job), blocks_of(job.prompt)
        remembered = known(blocks)
        new, at = [], shared
        for block, states in zip(blocks, remembered, strict=False):
            if block.stop > at:
                self.past.append(Piece(states, at - block.start))
                new += [True] * (block.stop - at)
                at = block.stop
        new += [False] * (len(sequence) - at)
        self._way = np.concatenate([self._way[:shared], np.arange(self.size, self.size + len(new))])
        self._sequence = sequence
        self._ways.append((self._way, shared))
        self._tokens += sequence[shared:].tolist()
        self._positions += range(shared, len(sequence))
        self._is_past += new
        self.size += len(new)
        self._wanted[number] = self._way[len(job.prompt) - 1 :]
        self._blocks.update((block, self._way[block.start : block.stop]) for block in blocks[len(remembered) :])

    def lay(self) -> Self:
        """Number the slots, after the last ``add``."""
        past, scored = np.asarray(self._is_past, bool), np.zeros(self.size, bool)
        for way in self._wanted.values():
            scored[way] = True
        self._order = np.concatenate([np.flatnonzero(kind) for kind in (past, ~past & ~scored, scored)])
        self.past_slots, self.scored = int(past.sum()), int(scored.sum())
        number = np.empty(self.size, np.int64)
        number[self._order] = np.arange(self.size)
        worked_out = self._order[self.past_slots :]
        self.tokens = np.asarray(self._tokens)[worked_out].tolist()
        self.positions = np.asarray(self._positions)[worked_out].tolist()
        self.blocks = {block: number[slots] for block, slots in self._blocks.items()}
        self.wanted = {job: number[way] - (self.size - self.scored) for job, way in self._wanted.items()}
        return self

    def mask(self) -> NDArray[np.bool_]:
        """Return the attention mask: (tokens, slots), True if the token sees the slot."""
        sees = np.zeros((self.size, self.size), bool)
        for way, before in self._ways:
            sees[np.ix_(way[before:], way)] = np.tri(len(way), dtype=bool)[before:]
        found: NDArray[np.bool_] = sees[np.ix_(self._order[self.past_slots :], self._order)]
        return found


def rows(
    jobs: Sequence[Job], known: Known, *, min_shared: int = MIN_SHARED, max_slots: int = MAX_SLOTS
) -> Iterator[Row]:
    """Fold jobs into rows; jobs are sorted first, so that those with a common prefix are neighbours."""
    row = Row()
    for number in sorted(range(len(jobs)), key=lambda number: jobs[number].prompt + jobs[number].target):
        job = jobs[number]
        sequence = np.asarray(job.prompt + job.target[:-1], np.int64)
        shared = row.shares(sequence, job)
        if row.size and (shared < min_shared or row.size + len(sequence) - shared > max_slots):
            yield row.lay()
            row = Row()
        row.add(number, job, sequence, known)
    if row.size:
        yield row.lay()


# --- the scorer -------------------------------------------------------------------------------------------------------


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
            use_cache=True,
            logits_to_keep=max(row.scored for row in batch),
            **{str(cache_argument(self.model.forward)): cache},
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
