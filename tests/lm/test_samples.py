"""Samples differ: with a seed every draw of one call, and every repeat of a run, is a request of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from polyhop import Passage, Pipeline, Question, ScriptedLM, evaluate
from polyhop.evaluation.batches import batched
from polyhop.evaluation.repeats import evaluate_repeated
from polyhop.lm.base import Capabilities, Request, seed_of
from polyhop.lm.openai import OpenAICompatible
from tests.kit import batches as kit
from tests.kit.custom_method import fork, one_ask, using
from tests.kit.openai_server import FakeServer, in_thread

RIGHT = "Answer: Rome"
ONE = [Question("q", "Who?", answers=("word 1",))]


def find(query: str, k: int) -> list[Passage]:
    return [Passage("p", "Rome", "Rome is a city.")]


async def drawn(model: Any, count: int = 5, *, task: str = "answer.cot", seed: int | None = 7) -> None:
    async def five(run: Any) -> None:
        await fork(*(run.ask(task, question="Q") for _ in range(count)))

    await using(five, model, seed=seed)


@pytest.mark.parametrize("chat", [True, False])
async def test_samples_differ_by_seed_and_runs_repeat_them(chat: bool) -> None:
    async def bodies() -> list[str]:
        async with FakeServer(RIGHT) as server, OpenAICompatible("tiny", server.url, chat=chat) as lm:
            await drawn(lm)
            return sorted(json.dumps(received.body) for received in server.requests)

    first = await bodies()
    assert len(set(first)) == 5
    assert await bodies() == first
    assert [body for body in first if '"seed": 7,' in body or '"seed": 7}' in body] != []  # the first keeps the seed


async def test_without_a_seed_none_is_sent() -> None:
    async with FakeServer(RIGHT) as server, OpenAICompatible("tiny", server.url) as lm:
        await drawn(lm, seed=None)
        assert not any("seed" in received.body for received in server.requests)


async def test_every_request_carries_its_own_seed_whatever_the_model_says_it_takes() -> None:
    for able in (Capabilities(seed=True), Capabilities()):
        model = ScriptedLM({"answer.cot": RIGHT}, capabilities=able)
        await drawn(model)
        assert [call.seed for call in model.calls] == [seed_of(7, "answer.cot", sample) for sample in range(5)]


def test_a_samples_seed_is_the_same_in_every_process_and_fits_every_server() -> None:
    code = "from polyhop.lm.base import seed_of; print([seed_of(3, 't', n) for n in range(200)])"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    here = [seed_of(3, "t", n) for n in range(200)]
    assert json.loads(there) == here
    assert len(set(here)) == 200
    assert all(0 <= seed < 2**31 for seed in here if seed is not None)
    assert here[1:] != [seed_of(3, "u", n) for n in range(1, 200)] != [seed_of(4, "t", n) for n in range(1, 200)]


# --- the methods that live on it -------------------------------------------------------------------------------------


def play(server: FakeServer, method: str, **settings: Any) -> Any:
    lm = f"openai:tiny@{server.url}"
    retriever = None if method == "cot-sc" else find
    options = {"rendering": "json", "cache": False, "seed": 7, **settings}
    with Pipeline(method=method, lm=lm, retriever=retriever, **options) as pipeline:
        return pipeline.ask("Who?")


def replies(answer: Any, task: str) -> set[str]:
    return {call.text for call in answer.trace.calls if call.task == task}


def test_voting_chains_have_different_seeds() -> None:
    with in_thread(FakeServer(kit.say)) as server:
        answer = play(server, "cot-sc")
        assert len(replies(answer, "answer.cot")) == 5
        assert answer.statistics["agreement"] < 1
        assert play(server, "cot-sc").text == answer.text


def test_ge_compares_samples_that_differ_and_draws_again_differently() -> None:
    def say(body: Mapping[str, Any]) -> str:
        graph = body["response_format"]["json_schema"]["name"] == "ge_graph"
        return '{"triplets": [{"head": "Rome", "relation": "river", "tail": "name: #1"}]}' if graph else kit.say(body)

    with in_thread(FakeServer(say)) as server:
        answer = play(server, "ge", confidence="agreement", keep_above=0.9)
    assert answer.statistics["draws"] > 1  # dropped, and drawn again
    assert answer.statistics["retrievals"] == answer.statistics["draws"]  # equal samples would be sure of anything
    calls = [call for call in answer.trace.calls if call.task == "ge.subanswer"]
    assert len({(call.prompt_hash, call.text) for call in calls}) == len(calls) == 10 * answer.statistics["draws"]


def test_verify_and_edit_edits_where_the_samples_disagree() -> None:
    with in_thread(FakeServer(kit.say)) as server:
        answer = play(server, "verify-edit")
        assert answer.statistics["agreement"] < 0.5
        assert answer.statistics["edited"] == 1
        assert answer.usage.searches


# --- repeats, batches, cache -----------------------------------------------------------------------------------------


def seeds(server: FakeServer) -> list[int]:
    found = [received.body["seed"] for received in server.requests]
    server.requests.clear()
    return found


def test_each_repeat_makes_its_own_requests() -> None:
    with in_thread(FakeServer(kit.say)) as server:
        given: dict[str, Any] = {"lm": f"openai:tiny@{server.url}", "rendering": "json"}
        runs = evaluate_repeated(3, ONE, None, "cot-sc", **given)
        first = seeds(server)
        assert len(set(first)) == len(first) == 15
        assert not runs.identical
        assert evaluate_repeated(3, ONE, None, "cot-sc", **given).to_dict()["metrics"] == runs.to_dict()["metrics"]
        assert seeds(server) == []  # all of it was kept


def test_without_seeds_repeats_do_not_share_cached_replies(tmp_path: Path) -> None:
    model = ScriptedLM({"answer.cot": RIGHT}, capabilities=Capabilities())
    for _ in range(2):
        evaluate_repeated(3, ONE, None, "cot", model, cache=tmp_path / "lm.sqlite")
    assert len(model.calls) == 3


def test_a_batch_asks_what_is_sent_and_ends_the_same(tmp_path: Path) -> None:
    def run(lm: Any, out: str, **more: Any) -> Any:
        return evaluate(ONE, None, "cot-sc", lm, out=tmp_path / out, rendering="json", seed=7, **more)

    with in_thread(FakeServer(kit.say)) as server:
        lm = f"openai:tiny@{server.url}"
        run(lm, "sent", cache=tmp_path / "sent.sqlite")
        sent = [dict(received.body) for received in server.requests]
    rows: list[kit.Row] = []
    for _ in range(2):
        with batched(tmp_path / "batch", lm, cache=tmp_path / "lm.sqlite") as batch:
            report = run(batch.models, "run")
        rows = rows or kit.requests(tmp_path / "batch")
        kit.write(tmp_path / "batch" / "results-0001.jsonl", [kit.result(row) for row in rows])
    assert report.waiting == 0
    assert _sorted(row["body"] for row in rows) == _sorted(sent)
    assert (tmp_path / "run" / "run.json").read_bytes() == (tmp_path / "sent" / "run.json").read_bytes()
    (one,), (other,) = ((tmp_path / name / "predictions.jsonl").read_text().splitlines() for name in ("run", "sent"))
    assert _steady(one) == _steady(other)


def _sorted(bodies: Any) -> list[str]:
    return sorted(json.dumps(body, sort_keys=True) for body in bodies)


def _steady(line: str) -> Mapping[str, Any]:
    row = json.loads(line)
    row["usage"].pop("volatile")
    row.pop("crc")
    return dict(row)


async def test_one_ask_is_the_first_sample() -> None:
    model = ScriptedLM({"answer.cot": RIGHT})
    await using(one_ask(), model, seed=11)
    assert (model.calls[0].seed, model.calls[0].sample) == (11, 0)
    assert isinstance(model.calls[0], Request)
