"""Many calls of ``pocket`` at once: they share predictions, do not block the loop, and answer as they do alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from polyhop.errors import DataError
from polyhop.lm.base import Completion, Request
from polyhop.lm.pocket import Pocket
from polyhop.lm.pocket.encoder import cache
from polyhop.lm.pocket.encoder.network import encoder
from polyhop.types import Passage
from tests.kit.pocket_network import Network, using_network

PEOPLE = "Ann Lee,Bo Marsh,Cy Noll,Di Opal,Ed Pike,Flo Quinn,Gus Reed,Hal Sorel".split(",")
TEACHERS = [*PEOPLE[3:], *PEOPLE[:3]]


def asked(number: int) -> Request:
    """A question that no rule answers, so that the encoder reads it."""
    person, teacher = PEOPLE[number], TEACHERS[number]
    passages = [
        Passage("p", person, f"{person} was a film director. {person} was taught to sing by {teacher} in Tartu."),
        Passage("o", "Ferry transport", "A ferry carries passengers and goods across water."),
    ]
    fields: dict[str, Any] = {"question": f"Who taught {person} to sing?", "passages": passages}
    return Request(task="answer.read", fields=fields, messages=[{"role": "user", "content": "x"}], logprobs=True)


REQUESTS = [asked(number) for number in range(8)]


@pytest.fixture
def network() -> Iterator[Network]:
    with using_network(Network()) as network:
        yield network


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("pocket")]


async def all_at_once(requests: list[Request]) -> list[Completion]:
    pocket = Pocket()
    found = await asyncio.gather(*map(pocket.complete, requests))
    await pocket.aclose()
    return found


async def test_waiting_calls_share_a_batch() -> None:
    with using_network(Network()) as network:
        for request in REQUESTS:
            await all_at_once([request])
        alone, shown = len(network.batches), set(network.shown)
    with using_network(Network()) as network:
        await all_at_once(REQUESTS)
        together = len(network.batches)
        assert set(network.shown) == shown
    assert alone >= len(REQUESTS)
    assert together <= alone // 2
    assert threading.get_ident() not in network.threads


async def test_cached_predictions_are_not_computed_again(network: Network) -> None:
    first = await all_at_once(REQUESTS)
    batches = len(network.batches)
    assert await all_at_once(REQUESTS) == first
    assert len(network.batches) == batches


async def test_the_network_itself_answers_the_same_alone_and_together() -> None:
    opened = encoder()
    counted = Counted(opened)
    with using_network(counted):
        together = await all_at_once(REQUESTS)
    alone: list[Completion] = []
    for request in REQUESTS:
        with using_network(Counted(opened)):
            alone += await all_at_once([request])
    assert together == alone
    assert all(found.value and found.value["answer"] for found in together)
    assert max(counted.rows) >= len(REQUESTS)


class Counted(Network):
    """The real network, with the rows of each call counted."""

    def __init__(self, real: Any) -> None:
        super().__init__()
        self.real, self.rows = real, list[int]()

    def build_input(self, question: str, path: Any) -> Any:
        return self.real.build_input(question, path)

    def predict(self, rows: Any) -> Any:
        self.rows.append(len(rows))
        return self.real.predict(rows)


async def test_the_loop_is_not_blocked_by_predictions(network: Network) -> None:
    network.may_go.clear()
    pocket = Pocket()
    call = asyncio.create_task(pocket.complete(REQUESTS[0]))
    assert await asyncio.to_thread(network.began.wait, 10)
    assert not call.done()
    network.may_go.set()  # only a loop that is not blocked gets here while the network waits
    assert (await call).value
    assert network.waited
    await pocket.aclose()


async def test_a_cancelled_call_does_not_affect_others(network: Network) -> None:
    network.may_go.clear()
    pocket = Pocket()
    calls = [asyncio.create_task(pocket.complete(request)) for request in REQUESTS[:4]]
    assert await asyncio.to_thread(network.began.wait, 10)
    late = asyncio.create_task(pocket.complete(REQUESTS[4]))
    await asyncio.sleep(0.01)
    for call in (calls[1], calls[2], late):
        call.cancel()
    network.may_go.set()
    found = await asyncio.gather(*calls, late, return_exceptions=True)
    assert [isinstance(each, asyncio.CancelledError) for each in found] == [False, True, True, False, True]
    assert [found[0], found[3]] == await all_at_once([REQUESTS[0], REQUESTS[3]])
    assert (await pocket.complete(REQUESTS[4])).value
    await pocket.aclose()


async def test_closing_ends_the_thread_and_a_later_call_starts_another(network: Network) -> None:
    others = threads()  # of a pocket that another test left open
    pocket = Pocket()
    await pocket.aclose()
    first = await pocket.complete(REQUESTS[0])
    assert len(threads()) == len(others) + 1
    await pocket.aclose()
    await pocket.aclose()
    assert threads() == others
    assert await pocket.complete(REQUESTS[0]) == first
    await pocket.complete(REQUESTS[1])
    await pocket.aclose()
    assert threads() == others


def test_one_pocket_serves_loops_on_several_threads(network: Network) -> None:
    pocket = Pocket()
    found: dict[int, Completion] = {}

    def work(number: int) -> None:
        found[number] = asyncio.run(pocket.complete(REQUESTS[number]))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    asyncio.run(pocket.aclose())
    assert [found[number] for number in range(4)] == asyncio.run(all_at_once(REQUESTS[:4]))


async def test_every_caller_gets_the_error_of_a_broken_network(network: Network) -> None:
    network.error = DataError("the network of pocket cannot be opened")
    pocket = Pocket()
    found = await asyncio.gather(*map(pocket.complete, REQUESTS[:3]), return_exceptions=True)
    await pocket.aclose()
    assert [str(each) for each in found] == ["the network of pocket cannot be opened"] * 3


async def test_a_task_ends_even_if_nothing_is_cached(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_CACHED", 0)
    pocket = Pocket()
    assert (await pocket.complete(REQUESTS[0])).value
    await pocket.aclose()
