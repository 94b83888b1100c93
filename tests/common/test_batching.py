"""Batches of like length: everything once, within the bound, and none cut short without need."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from polyhop.common.batching import batches

lengths_drawn = st.lists(st.integers(0, 60), max_size=30)


@given(lengths_drawn, st.integers(1, 300))
def test_batches_hold_everything_once_within_the_bound(lengths: list[int], max_size: int) -> None:
    made = list(batches(range(len(lengths)), lengths.__getitem__, max_size))
    batch_lengths = [[lengths[number] for number in batch] for batch in made]
    assert sorted(number for batch in made for number in batch) == list(range(len(lengths)))
    assert [length for batch in batch_lengths for length in batch] == sorted(lengths, reverse=True)
    for batch in batch_lengths:
        assert len(batch) == 1 or len(batch) * max(batch) <= max_size
    for batch in batch_lengths[:-1]:  # one more would not have gone in
        assert (len(batch) + 1) * max(batch) > max_size


@given(lengths_drawn)
def test_inputs_of_one_length_keep_their_order(lengths: list[int]) -> None:
    made = [number for batch in batches(range(len(lengths)), lambda n: lengths[n], 200) for number in batch]
    assert made == sorted(range(len(lengths)), key=lambda number: (-lengths[number], number))
