"""Predictions are computed once, cached, and numbered by the given path, over a network that only records."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.lm.pocket.encoder import cache
from polyhop.lm.pocket.encoder.cache import CacheMiss, cached_only, embed, predict, run_queries
from polyhop.lm.pocket.encoder.inputs import EncoderOutput, EncoderQuery
from polyhop.types import Passage
from tests.kit.pocket_network import Network, using_network

PASSAGES = [Passage(name, f"Title {name}", f"{name}-text of {name}") for name in "abcd"]
A, B, C, D = PASSAGES


@pytest.fixture
def network() -> Iterator[Network]:
    with using_network(Network()) as network:
        yield network


def spans(output: EncoderOutput, path: Sequence[Passage]) -> list[str]:
    return [span.text(path) for span in output.spans]


def test_a_prediction_is_computed_once(network: Network) -> None:
    first = predict("Q", [[A], [A, B], [A]])
    assert predict("Q", [[A], [A, B], [A]]) == first
    assert first[0] == first[2]
    assert len(network.shown) == 2
    predict("Q", [[A], [C]])
    predict("other", [[A]])
    assert len(network.shown) == 4
    assert predict("Q", []) == []


def test_a_cache_miss_names_the_missing_queries_and_computes_nothing(network: Network) -> None:
    predict("Q", [[A]])
    with pytest.raises(CacheMiss) as raised, cached_only():
        predict("Q", [[A], [A, B], [C]])
    assert len(network.shown) == 1
    assert [[title for title, _ in query.path] for query in raised.value.queries if not isinstance(query, str)] == [
        ["Title a", "Title b"],
        ["Title c"],
    ]
    run_queries(raised.value.queries)
    with cached_only():
        assert len(predict("Q", [[A], [A, B], [C]])) == 3
        assert predict("Q", []) == []
    assert len(network.shown) == 3


def test_cached_only_ends_with_its_block_and_holds_for_its_task_alone(network: Network) -> None:
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
def test_the_order_of_a_path_does_not_matter_and_spans_keep_its_numbers(
    order: list[Passage], size: int, shuffle: list[int]
) -> None:
    path = order[:size]
    other = [path[i] for i in shuffle if i < size]
    with using_network(Network()) as network:
        (first,), (second,) = predict("Q", [path]), predict("Q", [other])
    assert len(network.shown) == 1
    assert (first.relevance, first.kinds) == (second.relevance, second.kinds)
    assert spans(first, path) == spans(second, other) == sorted(f"{passage.id}-text" for passage in path)


def test_passages_differ_by_title_and_text_not_by_id(network: Network) -> None:
    (one,) = predict("Q", [[A]])
    assert predict("Q", [[Passage("z", A.title, A.text)]]) == [one]
    assert len(network.shown) == 1
    predict("Q", [[Passage("a", A.title, B.text)], [Passage("a", B.title, A.text)]])
    assert len(network.shown) == 3


def test_equal_passages_keep_their_numbers(network: Network) -> None:
    (output,) = predict("Q", [[B, A, Passage("again", A.title, A.text)]])
    assert sorted(span.passage for span in output.spans) == [0, 1, 2]
    assert spans(output, [B, A, A]) == ["a-text", "a-text", "b-text"]


def test_the_cache_drops_the_least_recently_used(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_CACHED", 3)
    for passage in (A, B, C):
        predict("Q", [[passage]])
    predict("Q", [[A]])  # used again: B is now the oldest
    predict("Q", [[D]])
    assert [query.path[0][0] for query in cache._cache if not isinstance(query, str)] == [
        "Title c",
        "Title a",
        "Title d",
    ]
    many = [[Passage(str(n), str(n), "text")] for n in range(10)]
    assert len(predict("Q", many)) == 10
    assert len(cache._cache) == 3


def test_many_threads_predict_at_once(network: Network) -> None:
    queries = [EncoderQuery("Q", ((str(n % 5), "text"),)) for n in range(40)]
    alone = {query: run_queries([query])[0] for query in queries}
    found: list[list[EncoderOutput]] = [[] for _ in range(6)]

    def work(number: int) -> None:
        found[number] = run_queries(queries[number:])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(outputs == [alone[query] for query in queries[number:]] for number, outputs in enumerate(found))


def test_a_failed_prediction_is_not_cached(network: Network) -> None:
    network.error = RuntimeError("broken")
    with pytest.raises(RuntimeError, match="broken"):
        predict("Q", [[A]])
    network.error = None
    assert len(predict("Q", [[A]])) == 1


def test_vectors_are_cached_beside_predictions(network: Network) -> None:
    with pytest.raises(CacheMiss) as raised, cached_only():
        embed(["one", "two"])
    assert raised.value.queries == ("one", "two")
    run_queries([*raised.value.queries, EncoderQuery("Q", (("a", "text"),))])
    with cached_only():
        (one,) = embed(["one"])
        assert len(predict("Q", [[Passage("", "a", "text")]])) == 1
    assert one.tolist() == network.embed(["one"])[0].tolist()
