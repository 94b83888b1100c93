"""Looks are kept, made once, asked for ahead, and told by the passages' places, over a network that only notes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.lm.pocket.encoder import cache as looking
from polyhop.lm.pocket.encoder.cache import Wanted, ahead, look, looks
from polyhop.lm.pocket.encoder.outputs import Look, Sight
from polyhop.types import Passage
from tests.kit.looks import Network, looking_by

PASSAGES = [Passage(name, f"Title {name}", f"{name}-text of {name}") for name in "abcd"]
A, B, C, D = PASSAGES


@pytest.fixture
def network() -> Iterator[Network]:
    with looking_by(Network()) as network:
        yield network


def told(found: Look, path: Sequence[Passage]) -> list[str]:
    return [span.text(path) for span in found.spans]


def test_a_look_is_made_once(network: Network) -> None:
    first = looks("Q", [[A], [A, B], [A]])
    assert looks("Q", [[A], [A, B], [A]]) == first
    assert first[0] == first[2]
    assert len(network.shown) == 2
    looks("Q", [[A], [C]])
    looks("other", [[A]])
    assert len(network.shown) == 4
    assert looks("Q", []) == []


def test_what_is_not_known_is_wanted_and_nothing_made(network: Network) -> None:
    looks("Q", [[A]])
    with pytest.raises(Wanted) as raised, ahead():
        looks("Q", [[A], [A, B], [C]])
    assert len(network.shown) == 1
    assert [[title for title, _ in sight.path] for sight in raised.value.sights] == [
        ["Title a", "Title b"],
        ["Title c"],
    ]
    look(raised.value.sights)
    with ahead():
        assert len(looks("Q", [[A], [A, B], [C]])) == 3
        assert looks("Q", []) == []
    assert len(network.shown) == 3


def test_ahead_ends_with_its_block_and_holds_for_its_task_alone(network: Network) -> None:
    with pytest.raises(Wanted), ahead():
        looks("Q", [[A]])
    looks("Q", [[A]])

    async def other(reached: asyncio.Event, go_on: asyncio.Event) -> None:
        reached.set()
        await go_on.wait()
        looks("Q", [[B]])  # this task began outside

    async def main() -> None:
        reached, go_on = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(other(reached, go_on))
        await reached.wait()
        with ahead():
            go_on.set()
            await task
            with pytest.raises(Wanted):
                looks("Q", [[C]])
            thread = threading.Thread(target=looks, args=("Q", [[D]]))
            thread.start()
            thread.join()

    asyncio.run(main())
    assert [row[1][0].title for row in network.shown] == ["Title a", "Title b", "Title d"]


@settings(max_examples=60, deadline=None)
@given(st.permutations(PASSAGES), st.integers(0, 4), st.permutations(range(4)))
def test_the_order_of_passages_does_not_matter_and_places_are_those_given(
    order: list[Passage], size: int, shuffle: list[int]
) -> None:
    path = order[:size]
    other = [path[at] for at in shuffle if at < size]
    with looking_by(Network()) as network:
        (one,), (two,) = looks("Q", [path]), looks("Q", [other])
    assert len(network.shown) == 1
    assert (one.relevance, one.kinds) == (two.relevance, two.kinds)
    assert told(one, path) == told(two, other) == sorted(f"{passage.id}-text" for passage in path)


def test_passages_are_told_apart_by_title_and_text_not_by_id(network: Network) -> None:
    (one,) = looks("Q", [[A]])
    assert looks("Q", [[Passage("z", A.title, A.text)]]) == [one]
    assert len(network.shown) == 1
    looks("Q", [[Passage("a", A.title, B.text)], [Passage("a", B.title, A.text)]])
    assert len(network.shown) == 3


def test_passages_alike_keep_their_places(network: Network) -> None:
    (found,) = looks("Q", [[B, A, Passage("again", A.title, A.text)]])
    assert sorted(span.passage for span in found.spans) == [0, 1, 2]
    assert told(found, [B, A, A]) == ["a-text", "a-text", "b-text"]


def test_no_more_looks_are_kept_than_told_the_latest_used(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "KEPT", 3)
    for passage in (A, B, C):
        looks("Q", [[passage]])
    looks("Q", [[A]])  # used again: B is now the oldest
    looks("Q", [[D]])
    assert [sight.path[0][0] for sight in looking._known] == ["Title c", "Title a", "Title d"]
    many = [[Passage(str(at), str(at), "text")] for at in range(10)]
    assert len(looks("Q", many)) == 10
    assert len(looking._known) == 3


def test_many_threads_look_at_once(network: Network) -> None:
    sights = [Sight("Q", ((str(at % 5), "text"),)) for at in range(40)]
    alone = {sight: look([sight])[0] for sight in sights}
    found: list[list[Look]] = [[] for _ in range(6)]

    def work(number: int) -> None:
        found[number] = look(sights[number:])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(some == [alone[sight] for sight in sights[number:]] for number, some in enumerate(found))


def test_a_look_that_fails_leaves_no_trace(network: Network) -> None:
    network.error = RuntimeError("broken")
    with pytest.raises(RuntimeError, match="broken"):
        looks("Q", [[A]])
    network.error = None
    assert len(looks("Q", [[A]])) == 1
