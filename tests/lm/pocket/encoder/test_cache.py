"""Looks are kept, made once, asked for ahead, and told by the passages' places, over a network that only notes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.lm.pocket.encoder import cache as looking
from polyhop.lm.pocket.encoder.cache import CacheMiss, cached_only, predict, run_queries
from polyhop.lm.pocket.encoder.outputs import EncoderOutput, EncoderQuery
from polyhop.types import Passage
from tests.kit.pocket_network import Network, using_network

PASSAGES = [Passage(name, f"Title {name}", f"{name}-text of {name}") for name in "abcd"]
A, B, C, D = PASSAGES


@pytest.fixture
def network() -> Iterator[Network]:
    with using_network(Network()) as network:
        yield network


def told(found: EncoderOutput, path: Sequence[Passage]) -> list[str]:
    return [span.text(path) for span in found.spans]


def test_a_look_is_made_once(network: Network) -> None:
    first = predict("Q", [[A], [A, B], [A]])
    assert predict("Q", [[A], [A, B], [A]]) == first
    assert first[0] == first[2]
    assert len(network.shown) == 2
    predict("Q", [[A], [C]])
    predict("other", [[A]])
    assert len(network.shown) == 4
    assert predict("Q", []) == []


def test_what_is_not_known_is_wanted_and_nothing_made(network: Network) -> None:
    predict("Q", [[A]])
    with pytest.raises(CacheMiss) as raised, cached_only():
        predict("Q", [[A], [A, B], [C]])
    assert len(network.shown) == 1
    assert [[title for title, _ in sight.path] for sight in raised.value.queries] == [
        ["Title a", "Title b"],
        ["Title c"],
    ]
    run_queries(raised.value.queries)
    with cached_only():
        assert len(predict("Q", [[A], [A, B], [C]])) == 3
        assert predict("Q", []) == []
    assert len(network.shown) == 3


def test_ahead_ends_with_its_block_and_holds_for_its_task_alone(network: Network) -> None:
    with pytest.raises(CacheMiss), cached_only():
        predict("Q", [[A]])
    predict("Q", [[A]])

    async def other(reached: asyncio.Event, go_on: asyncio.Event) -> None:
        reached.set()
        await go_on.wait()
        predict("Q", [[B]])  # this task began outside

    async def main() -> None:
        reached, go_on = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(other(reached, go_on))
        await reached.wait()
        with cached_only():
            go_on.set()
            await task
            with pytest.raises(CacheMiss):
                predict("Q", [[C]])
            thread = threading.Thread(target=predict, args=("Q", [[D]]))
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
    with using_network(Network()) as network:
        (one,), (two,) = predict("Q", [path]), predict("Q", [other])
    assert len(network.shown) == 1
    assert (one.relevance, one.kinds) == (two.relevance, two.kinds)
    assert told(one, path) == told(two, other) == sorted(f"{passage.id}-text" for passage in path)


def test_passages_are_told_apart_by_title_and_text_not_by_id(network: Network) -> None:
    (one,) = predict("Q", [[A]])
    assert predict("Q", [[Passage("z", A.title, A.text)]]) == [one]
    assert len(network.shown) == 1
    predict("Q", [[Passage("a", A.title, B.text)], [Passage("a", B.title, A.text)]])
    assert len(network.shown) == 3


def test_passages_alike_keep_their_places(network: Network) -> None:
    (found,) = predict("Q", [[B, A, Passage("again", A.title, A.text)]])
    assert sorted(span.passage for span in found.spans) == [0, 1, 2]
    assert told(found, [B, A, A]) == ["a-text", "a-text", "b-text"]


def test_no_more_predict_are_kept_than_told_the_latest_used(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "MAX_CACHED", 3)
    for passage in (A, B, C):
        predict("Q", [[passage]])
    predict("Q", [[A]])  # used again: B is now the oldest
    predict("Q", [[D]])
    assert [sight.path[0][0] for sight in looking._cache] == ["Title c", "Title a", "Title d"]
    many = [[Passage(str(at), str(at), "text")] for at in range(10)]
    assert len(predict("Q", many)) == 10
    assert len(looking._cache) == 3


def test_many_threads_look_at_once(network: Network) -> None:
    sights = [EncoderQuery("Q", ((str(at % 5), "text"),)) for at in range(40)]
    alone = {sight: run_queries([sight])[0] for sight in sights}
    found: list[list[EncoderOutput]] = [[] for _ in range(6)]

    def work(number: int) -> None:
        found[number] = run_queries(sights[number:])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(some == [alone[sight] for sight in sights[number:]] for number, some in enumerate(found))


def test_a_look_that_fails_leaves_no_trace(network: Network) -> None:
    network.error = RuntimeError("broken")
    with pytest.raises(RuntimeError, match="broken"):
        predict("Q", [[A]])
    network.error = None
    assert len(predict("Q", [[A]])) == 1
