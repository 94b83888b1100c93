"""The benchmarks of speed in small: they measure what they say they measure, and say what falls short."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from benchmarks.figures import Figure
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import cores, figures, lm_client, local, methods, prefixes, shapes, suite
from polyhop.engine.engine import Engine
from polyhop.engine.models import Models
from polyhop.lm import Capabilities, Completion, OpenAICompatible, Request
from polyhop.net.limits import Limiter
from tests.kit.openai_server import FakeServer, tokenise
from tests.kit.virtual_clock import run_virtually


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with FakeServer() as one:
        yield one


# --- figures ---------------------------------------------------------------------------------------------------------


def test_a_figure_names_the_bar_it_misses() -> None:
    assert Figure("wall / ideal", 1.2, most=1.1).missed() == "wall / ideal: 1.20, the bar is at most 1.1"
    assert Figure("memory", 2048, " MB", most=1024).missed() == "memory: 2048.00 MB, the bar is at most 1024 MB"
    assert Figure("gain", 4, least=5).missed() == "gain: 4.00, the bar is at least 5"
    assert not any(one.missed() for one in (Figure("a", 1.1, most=1.1), Figure("b", 5, least=5), Figure("c", 9)))
    assert Figure("not a number", float("nan"), most=1).missed()


def test_only_ratios_with_a_bar_are_held_against_what_they_were() -> None:
    found = [
        Figure("wall", 1.3, most=1.1),
        Figure("gain", 4.0, least=5),
        Figure("CPU", 900.0, " us", most=500),
        Figure("peer", 9.0),
        Figure("new", 9.0, most=1),
        Figure("steady", 1.2, most=1.1),
    ]
    before = {"methods": {"wall": 1.0, "gain": 5.1, "CPU": 100.0, "peer": 1.0, "steady": 1.0}, "gone": {"x": 1.0}}
    assert figures.regressions({"methods": found, "unknown": found}, before) == [
        "methods: wall is 1.30, it was 1.00",
        "methods: gain is 4.00, it was 5.10",
    ]


def test_figures_are_written_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = [Figure("a", 2.0, most=1.0), Figure("b", 1.0, " s")]
    path = tmp_path / "figures.json"
    figures.conclude(found, figures.parser("").parse_args(["--figures", str(path)]))
    assert figures.read(path) == found
    with pytest.raises(SystemExit) as end:
        figures.conclude(found, figures.parser("").parse_args(["--check"]))
    assert end.value.code == 1
    assert capsys.readouterr().err == 2 * "missed: a: 2.00, the bar is at most 1\n"
    figures.conclude(found[1:], figures.parser("").parse_args(["--check"]))


# --- cores -----------------------------------------------------------------------------------------------------------


on_linux = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="nothing says where a process runs")


@on_linux
def test_server_and_client_run_on_separate_cores_while_measured() -> None:
    before = os.sched_getaffinity(0)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as server:
        with cores.apart(server.pid):
            ours, its = os.sched_getaffinity(0), os.sched_getaffinity(server.pid)
        server.kill()
    assert ours | its == before
    assert ours & its == (set() if len(before) > 1 else before)
    assert os.sched_getaffinity(0) == before


@on_linux
def test_a_core_is_kept_awake_by_what_gives_way_to_all_else() -> None:
    core = min(os.sched_getaffinity(0))
    with cores.awake(core) as idler:
        assert os.sched_getscheduler(idler) == os.SCHED_IDLE
        assert os.sched_getaffinity(idler) == {core}
    with pytest.raises(ProcessLookupError):
        os.kill(idler, 0)


# --- methods ---------------------------------------------------------------------------------------------------------


async def test_one_question_makes_the_calls_it_is_measured_by(server: FakeServer) -> None:
    async with methods.opened("resp", server.url) as qa:
        alone = await methods.ask_one(qa, qa.method.layers(qa.settings))
    assert (alone.calls, alone.layers) == (10, 8)
    assert len(server.requests) == 10
    assert methods.Alone(10, 8, 1.2).over == pytest.approx(1.5)
    assert methods.Alone(10, 8, 1.2).max_over == pytest.approx(1.1 + 0.05 / 0.8)


async def test_questions_together_are_all_counted(server: FakeServer) -> None:
    server.latency = 0.01
    async with methods.opened("cot-sc", server.url, 4) as qa:
        many = await methods.ask_many(qa, 6, 4)
    assert many.calls == len(server.requests) == 30
    assert 1 < server.most_under_way <= 4
    assert methods.Many(640, 1.1, 0.32).over == pytest.approx(1.1)
    assert methods.Many(640, 1.1, 0.32).cpu_a_call == pytest.approx(500)


async def test_scores_go_to_the_server_too(server: FakeServer) -> None:
    async with methods.opened("replug", server.url) as qa:
        alone = await methods.ask_one(qa, qa.method.layers(qa.settings))
    assert len(server.requests) == alone.calls


def test_a_method_that_declares_another_path_is_reported() -> None:
    async def wrong() -> None:
        async with FakeServer() as server, methods.opened("cot", server.url) as qa:
            await methods.ask_one(qa, 2)

    with pytest.raises(AssertionError, match="cot took 1 layers, declared 2"):
        asyncio.run(wrong())


def test_every_method_that_asks_has_bars() -> None:
    names = methods.asking_methods()
    assert {"tor", "resp", "replug", "promptrank"} <= set(names)
    assert not {"bm25", "hops"} & set(names)
    rounds = methods.Rounds(methods.Alone(2, 2, 1.0), [methods.Many(640, 2.0, 1.5), methods.Many(640, 3.0, 1.0)])
    assert [bool(one.missed()) for one in methods.figures_of("resp", rounds)] == [True] * 3


def test_the_best_of_a_methods_rounds_counts() -> None:
    rounds = methods.Rounds(methods.Alone(2, 2, 1.0), [methods.Many(640, 2.0, 1.5), methods.Many(640, 3.0, 1.0)])
    assert rounds.best == methods.Many(640, 2.0, 1.0)
    assert rounds.seconds == 5.0


def test_methods_are_measured_in_turn_until_each_had_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def alone(method: str, url: str) -> methods.Alone:
        return methods.Alone({"long": 86, "short": 1}[method], 1, 0.1)

    async def many(method: str, url: str, calls: int) -> methods.Many:
        asked.append(f"{method} {calls}")
        return methods.Many(calls, {"long": 9.0, "short": 2.0}[method], 1.0)

    async def client(row: object, url: str) -> lm_client.Measured:
        asked.append("aiohttp")
        return lm_client.Measured(1.0, 1e-6, 1)

    monkeypatch.setattr(methods, "alone", alone)
    monkeypatch.setattr(methods, "many", many)
    monkeypatch.setattr(methods, "measure_client", client)
    found, bare = methods.measure(["long", "short"], "", 4)
    assert asked == ["aiohttp", "long 86", "short 1", "short 1"]
    assert [len(each.runs) for each in found.values()] == [1, 2]
    assert bare == pytest.approx(1.0)


# --- shapes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "most"), [(name, 1 if name.startswith("one question") else 3) for name in shapes.SHAPES]
)
async def test_the_three_loops_ask_the_same(name: str, most: int, server: FakeServer) -> None:
    server.latency = 0.01
    async with OpenAICompatible("tiny", server.url) as lm:
        await shapes.SHAPES[name](Engine(models=Models({"default": lm})), (1, 3, 2))
    assert len(server.requests) == 6
    assert server.most_under_way == most
    asked = sorted(request.body["messages"][-1]["content"] for request in server.requests)
    assert [text.count("Question 1?") for text in asked].count(1) == 3
    assert len(set(asked)) == 6


async def test_a_batch_waits_for_its_last_reply(server: FakeServer) -> None:
    async with OpenAICompatible("tiny", server.url) as lm:
        await shapes.one_step_for_the_batch(Engine(models=Models({"default": lm})), (1, 3, 2))
    steps = [request.body["messages"][-1]["content"].count("of step 0.") > 0 for request in server.requests]
    assert steps == [True] * 3 + [False] * 3


class Waiting:
    """A model that takes time, in N slots, and nothing else."""

    name, capabilities = "waiting", Capabilities()

    def __init__(self) -> None:
        self.limiter = Limiter(shapes.AT_ONCE)

    async def complete(self, request: Request) -> Completion:
        async with self.limiter.slot():
            await asyncio.sleep(shapes.LATENCY)
        return Completion(text="The answer is Rome.")


@pytest.mark.parametrize(
    ("name", "questions", "over"),
    [
        ("every question for itself", len(shapes.STEPS), 1.05),
        ("one step for the batch", len(shapes.STEPS), 1.17),
        ("every question for itself", 2 * shapes.AT_ONCE, 1.22),
        ("one step for the batch", 2 * shapes.AT_ONCE, 1.33),
        ("one question at a time", shapes.FEW, 16.0),
    ],
)
def test_what_a_loop_takes_where_nothing_but_calls_takes_time(name: str, questions: int, over: float) -> None:
    lengths = shapes.STEPS[:questions]

    async def seconds() -> float:
        await shapes.SHAPES[name](Engine(models=Models({"default": Waiting()})), lengths)
        return asyncio.get_running_loop().time()

    ideal = shapes.LATENCY * sum(lengths) / shapes.AT_ONCE
    assert run_virtually(seconds()) / ideal == pytest.approx(over, abs=0.005)


# --- prefixes --------------------------------------------------------------------------------------------------------

TEXTS = st.lists(st.text(st.sampled_from("ab"), max_size=6), max_size=8)


@given(TEXTS)
def test_the_known_prefix_is_the_longest_of_earlier_texts(texts: Sequence[str]) -> None:
    known = prefixes.Known()
    for i, text in enumerate(texts):
        starts = [n for before in texts[:i] for n in range(len(text) + 1) if before.startswith(text[:n])]
        assert known.take(text) == max(starts, default=0)


def test_shares_are_of_the_question_of_the_run_and_elsewhere() -> None:
    head, long = "one two three\n", "a line of six whole words\n"
    first = [("read", head + long), ("read", head + "new\n" + long), ("ask", long)]
    found = prefixes.shares([first, [("read", head + long)]])
    read = found["read"]
    assert read.prompts == 3
    assert read.question == 3  # the head; a line end belongs to the word after it
    assert read.run - read.question == len(tokenise(head + long))
    assert read.elsewhere == len(tokenise(long))
    assert found["ask"].elsewhere == 0
    assert prefixes.total(found).tokens == sum(one.tokens for one in found.values())


async def test_every_prompt_is_noted_scored_ones_too() -> None:
    prompts = await prefixes.prompts_of("promptrank", ["Who directed it?"])
    assert {task for task, _ in prompts[0]} >= {"promptrank.path"}
    assert all("Who directed it?" in text for _, text in prompts[0])


# --- local models ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_local_questions_are_all_different_and_all_asked() -> None:
    asked = local.questions(40)
    assert len(set(asked)) == 40
    alone, together = await local.of_pocket("direct", 2)
    assert alone > 0
    assert together > 0


@pytest.mark.extra
async def test_a_tiny_model_is_asked_for_few_tokens(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tests.kit import tiny_models

    alone, together = await local.of_hf(tiny_models.make(tmp_path, "llama", positions=4096), "direct", 2)
    assert min(alone, together) > 0


# --- the suite -------------------------------------------------------------------------------------------------------


def done(*found: Figure, failed: bool = False) -> suite.Done:
    return suite.Done("startup", "a table\n", found, 1.0, failed)


def test_the_page_shows_ratios_before_tables() -> None:
    page = suite.page([done(Figure("help", 3.0, most=4.0), Figure("ask", 1.0, " s", most=1.5))], ["startup: late"])
    assert "| startup | help | 3.00 | ≤ 4 |" in page
    assert "ask" not in page.partition("## startup")[0]
    assert "- Not as it should be: startup: late" in page
    assert "The time of short commands" in page
    assert page.index("| startup") < page.index("```text\na table\n```")
    assert f"{os.cpu_count()} cores" in page


def test_a_suite_names_all_that_is_wrong() -> None:
    late = done(Figure("help", 6.0, most=4.0), failed=True)
    assert suite.wrong([late], {"startup": {"help": 3.0}}) == [
        "startup: failed",
        "startup: help: 6.00, the bar is at most 4",
        "startup: help is 6.00, it was 3.00",
    ]
    assert suite.wrong([done(Figure("help", 3.0, most=4.0))], {}) == []
    assert suite.values([late]) == {"startup": {"help": 6.0}}


def test_what_is_compared_with_is_what_was_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "HERE", tmp_path)
    assert suite.committed() == {}
    (tmp_path / "results.json").write_text(json.dumps({"startup": {"help": 3.0}}))
    name = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["add", "."], [*name, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    (tmp_path / "results.json").write_text("{}")
    assert suite.committed() == {"startup": {"help": 3.0}}


def test_every_benchmark_exists_and_takes_the_common_options() -> None:
    for name in suite.SUITE:
        source = (suite.HERE / f"{name}.py").read_text()
        assert "conclude(" in source
        assert suite.Done(name, "", (), 0.0).about
