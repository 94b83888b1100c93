"""Token sequences that begin alike, folded into one row so that what they share is worked out once.

A row is a tree of tokens laid flat: each token sees those on its own way from the root, by the mask, and stands at its
own position in its sequence, by its position. A causal model then gives each sequence the states that it has alone.

>>> jobs = [Job((1, 2, 3, 4), (8, 9)), Job((1, 2, 3, 5), (8, 9))]
>>> (row,) = rows(jobs, known=lambda blocks: [], min_shared=2)
>>> row.tokens, row.positions
([1, 2, 3, 4, 8, 5, 8], [0, 1, 2, 3, 4, 3, 4])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from polyhop.lm.hf.scoring import Ids, Job

BLOCK = 16
"""Tokens of a prompt whose states are remembered together."""
MIN_SHARED = 16
"""Tokens: sequences that share fewer stand in rows of their own."""
MAX_SLOTS = 1024
"""A row grows no longer by folding: its tokens look at each other, seen or not."""


class Block(NamedTuple):
    """A stretch of a prompt, named by a hash of the prompt up to its end."""

    key: bytes
    start: int
    stop: int


class Piece(NamedTuple):
    """Of a remembered block's states, those from its token ``start`` on."""

    states: Any
    start: int


Known = Callable[[Sequence[Block]], Sequence[Any]]
"""The states of as many of a prompt's leading blocks as are remembered."""


def blocks_of(prompt: Ids) -> list[Block]:
    """The blocks of a prompt without its last token, whose logits are always wanted."""
    found, digest = [], b""
    for start in range(0, len(prompt) - 1, BLOCK):
        stop = min(start + BLOCK, len(prompt) - 1)
        digest = blake2b(digest + np.asarray(prompt[start:stop], np.int64).tobytes(), digest_size=16).digest()
        found.append(Block(digest, start, stop))
    return found


class Row:
    """One row, grown sequence by sequence and then laid flat.

    Its slots are numbered in this order: ``past_slots`` remembered ones, whose states ``past`` holds, then the
    ``tokens`` to be worked out, of which the last ``scored`` are those whose logits are wanted.
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
        """Fold in the job of this number."""
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
        """Number the slots for good; after the last ``add``."""
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
        """Which slots each token sees: (tokens, slots)."""
        sees = np.zeros((self.size, self.size), bool)
        for way, before in self._ways:
            sees[np.ix_(way[before:], way)] = np.tri(len(way), dtype=bool)[before:]
        found: NDArray[np.bool_] = sees[np.ix_(self._order[self.past_slots :], self._order)]
        return found


def rows(
    jobs: Sequence[Job], known: Known, *, min_shared: int = MIN_SHARED, max_slots: int = MAX_SLOTS
) -> Iterator[Row]:
    """The jobs folded into rows; sorted, so that those which begin alike stand side by side."""
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
