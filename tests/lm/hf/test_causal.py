"""Rows of folded sequences, without a model: every token sees what it would see alone, and nothing twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from polyhop.lm.hf.causal import BLOCK, Block, Row, blocks_of, rows
from polyhop.lm.hf.scoring import Job, StateCache

ids = st.lists(st.integers(1, 2), min_size=1, max_size=40).map(tuple)
jobs_drawn = st.lists(st.builds(Job, ids, st.lists(st.integers(1, 3), min_size=1, max_size=4).map(tuple)), max_size=12)


def views_of(row: Row) -> list[list[int]]:
    """For each token of a row without a past, the tokens it sees, in the order of their positions."""
    laid_out = list(zip(row.positions, row.tokens, strict=True))
    return [[token for _, token in sorted(laid_out[slot] for slot in np.flatnonzero(sees))] for sees in row.mask()]


@settings(max_examples=150, deadline=None)
@given(jobs_drawn, st.integers(1, 20), st.integers(20, 120))
def test_each_token_sees_its_own_sequence(jobs: list[Job], least: int, most: int) -> None:
    seen: set[int] = set()
    for row in rows(jobs, lambda blocks: [], min_shared=least, max_slots=most):
        assert row.past_slots == 0
        assert row.size == len(row.tokens)
        views, first = views_of(row), row.size - row.scored
        for number, positions in row.wanted.items():
            job = jobs[number]
            whole = (*job.prompt, *job.target[:-1])
            views_of_it = [views[first + position] for position in positions]
            assert views_of_it == [list(whole[: len(job.prompt) + step]) for step in range(len(job.target))]
            seen.add(number)
    assert seen == set(range(len(jobs)))


class Book:
    """A memory whose states are the tokens they are of."""

    def __init__(self, prompts: Sequence[tuple[int, ...]]) -> None:
        self.held = {
            block.key: np.asarray(prompt[block.start : block.stop]) for prompt in prompts for block in blocks_of(prompt)
        }

    def __call__(self, blocks: Sequence[Block]) -> list[NDArray[np.int64]]:
        found = []
        for block in blocks:
            if block.key not in self.held:
                break
            found.append(self.held[block.key])
        return found


@settings(max_examples=150, deadline=None)
@given(jobs_drawn, jobs_drawn)
def test_cached_states_are_not_computed_again(jobs: list[Job], before: list[Job]) -> None:
    book = Book([job.prompt for job in before])
    for row in rows(jobs, book, min_shared=2):
        past = [int(token) for piece in row.past for token in piece.states[piece.start :]]
        assert len(past) == row.past_slots
        tokens = [*past, *row.tokens]
        for number, positions in row.wanted.items():
            job, mask = jobs[number], row.mask()
            for step, position in enumerate(positions):
                sees = np.flatnonzero(mask[len(row.tokens) - row.scored + position])
                whole = (*job.prompt, *job.target[:-1])[: len(job.prompt) + step]
                assert sorted(tokens[slot] for slot in sees) == sorted(whole)
        known = {block for job in before for block in blocks_of(job.prompt)}
        assert not known & row.blocks.keys()
        for block, slots in row.blocks.items():
            assert len(slots) == block.stop - block.start


def test_a_cached_prompt_costs_its_last_token_and_the_target() -> None:
    prompt = tuple(range(100))
    (row,) = rows([Job(prompt, (7, 8, 9))], Book([prompt]))
    assert (row.past_slots, row.tokens, row.positions) == (99, [99, 7, 8], [99, 100, 101])


def test_one_passage_is_computed_once_under_five_instructions() -> None:
    passage = tuple(range(1000, 1200))
    jobs = [Job((*passage, *range(start, start + 10)), (1, 2, 3)) for start in range(0, 50, 10)]
    (row,) = rows(jobs, lambda blocks: [])
    assert row.size == 200 + 5 * (10 + 2)
    assert row.scored == 5 * 3


def test_a_blocks_key_covers_all_tokens_before_it() -> None:
    one, other = blocks_of((1,) * 40), blocks_of((2, *(1,) * 39))
    assert [(block.start, block.stop) for block in one] == [(0, BLOCK), (BLOCK, 2 * BLOCK), (2 * BLOCK, 39)]
    assert not {block.key for block in one} & {block.key for block in other}


def test_the_state_cache_drops_the_least_recently_used() -> None:
    memory = StateCache(24)
    for key in (b"a", b"b", b"c"):
        memory.put(key, np.zeros(1))
    memory.get(b"a")
    memory.put(b"d", np.zeros(1))
    assert [key in memory for key in (b"a", b"b", b"c", b"d")] == [True, False, True, True]
    memory.put(b"e", np.zeros(4))  # more than all of it
    assert (b"e" in memory, memory.bytes, len(memory)) == (False, 24, 3)
    memory.clear()
    assert (memory.bytes, memory.get(b"a")) == (0, None)
