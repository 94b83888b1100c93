"""A run in batches is the run whose calls are sent: the same files and calls, in as many layers as calls in a row."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from pydantic import BaseModel

from polyhop import Answer, Passage, Question, ScriptedLM, Span, evaluate
from polyhop.engine.run import Run
from polyhop.engine.tool_call import Calls
from polyhop.errors import CapabilityError, DataError, UsageError
from polyhop.evaluation.batches import batched
from polyhop.evaluation.report import Report
from polyhop.lm.base import Message
from polyhop.lm.tools import Tool, ToolCall
from polyhop.methods import registry
from polyhop.methods.registry import method, methods
from polyhop.prompts.book import PromptBook
from polyhop.prompts.tasks.answers import ANSWER_COT
from polyhop.retrieval.reranking.lm import LmReranker
from tests.cli.test_cli import PASSAGES, QUESTIONS, write_lines
from tests.evaluation.test_store import files
from tests.kit import batches as kit
from tests.kit.killed_run import find
from tests.kit.openai_server import FakeServer, Reply, in_thread
from tests.kit.terminal import Cli, cli
from tests.kit.victims import Fault, victims

__all__ = ["cli"]

LM = "openai:tiny@http://localhost:1/v1"
SIX = [Question(f"q{n}", f"Question {n}?", answers=(f"word {n}",)) for n in range(6)]
BOOK = PromptBook()


def read(question: str, passages: Sequence[Passage]) -> list[Span]:
    return [Span(passages[0].id, f"word {len(question) % 7}", 0, 4, 1.0)] if passages else []


def slow_search(query: str, k: int) -> list[Passage]:
    time.sleep(0.02)
    return find(query, k)


def given(method: str, **more: Any) -> dict[str, Any]:
    how: dict[str, Any] = {"retriever": find, "reader": read, "rendering": "json", "prompts": BOOK, "concurrency": 3}
    return {**how, "method": method, **more}


def layer(folder: Path, method: str, questions: Sequence[Question] = SIX, lm: str = LM, **more: Any) -> Report:
    """Run as far as it goes."""
    with batched(folder / "batch", lm, cache=folder / "lm.sqlite") as batch:
        report = evaluate(questions, lm=batch.models, out=folder / "run", **given(method, **more))
    assert bool(batch.waiting) == bool(report.waiting)
    return report


def sent(folder: Path, lm: str, method: str, **more: Any) -> Report:
    """The run whose calls are sent."""
    cache = folder / "sent.sqlite"
    return evaluate(SIX, lm=lm, out=folder / "sent", cache=cache, **given(method, **more))


def longest(report: Report) -> int:
    """The longest chain of calls of a question."""
    return max(int(row["usage"]["volatile"]["layers"]) for row in report.rows)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["cot-sc", "resp", "tor", "searchain"])
def test_a_batched_run_equals_the_direct_run(tmp_path: Path, method: str) -> None:
    with in_thread(FakeServer(kit.say)) as server:
        lm = f"openai:tiny@{server.url}"
        online = sent(tmp_path, lm, method)
        calls = [json.dumps(one.body) for one in server.requests]
        layers = 0
        while layer(tmp_path, method, lm=lm).waiting:
            assert not (tmp_path / "run" / "metrics.json").exists()
            assert kit.serve(tmp_path / "batch", seed=layers)
            layers += 1
        assert len(server.requests) == len(calls)  # not one more
    assert files(tmp_path / "run") == files(tmp_path / "sent")
    assert layers == longest(online)
    assert sorted(json.dumps(row["body"]) for row in kit.requests(tmp_path / "batch")) == sorted(calls)


@pytest.mark.slow
def test_slower_branches_join_the_same_layer(tmp_path: Path) -> None:
    """A search of one branch takes its time in a thread while the other branch's call waits already."""

    with in_thread(FakeServer(kit.say)) as server:
        most = longest(sent(tmp_path, f"openai:tiny@{server.url}", "flare", retriever=slow_search))
    layers = 0
    while layer(tmp_path, "flare", retriever=slow_search).waiting:
        layers += bool(kit.serve(tmp_path / "batch"))
    assert layers == most


async def _task_group(*branches: Coroutine[Any, Any, str]) -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(branch) for branch in branches]
    return [task.result() for task in tasks]


@pytest.mark.slow
@pytest.mark.parametrize(("fork", "layers"), [("run.gather", 1), ("TaskGroup", 2), ("asyncio.gather", 2)])
def test_a_method_may_fork_by_asyncio_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fork: str, layers: int
) -> None:
    """Only ``run.gather`` lets a slower branch write its call into the same batch; the others need one layer more."""

    async def forked(question: str, run: Run) -> Answer:
        async def ask() -> str:
            return str((await run.ask("answer.direct", question=question)).answer)

        async def search_and_ask() -> str:
            passages = await run.search(question, 2)
            return str((await run.ask("answer.read", question=question, passages=passages)).answer)

        forks: dict[str, Callable[..., Awaitable[list[str]]]] = {
            "run.gather": run.gather,
            "TaskGroup": _task_group,
            "asyncio.gather": asyncio.gather,
        }
        return Answer(" ".join(await forks[fork](ask(), search_and_ask())))

    monkeypatch.setattr(registry, "_registered", dict(methods()))
    method("forked", paper="-", layers=lambda settings: 1)(forked)
    count = 0
    while layer(tmp_path, "forked", retriever=slow_search).waiting:
        count += bool(kit.serve(tmp_path / "batch"))
    assert count <= layers


class _Find(BaseModel):
    query: str


def test_a_method_with_tools_runs_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two searches at once, then the answer: what comes by the folder is what the server sends."""

    def say(body: Mapping[str, Any]) -> str | Reply:
        if body["messages"][-1]["role"] != "tool":
            return Reply(text=None, calls=(("search", {"query": "one"}), ("search", {"query": "two"})))
        return f"The answer is {body['messages'][-1]['content']}."

    async def searching(question: str, run: Run) -> Answer:
        async def search(call: ToolCall) -> str:
            return (await run.search((call.arguments or {})["query"], 1))[0].title

        turns: list[Message] = []
        while True:
            output = await run.ask_with_tools(ANSWER_COT, [Tool("search", "Find.", _Find)], turns, question=question)
            if not isinstance(output, Calls):
                return Answer(output.answer)
            turns += await output.results(run, search)

    monkeypatch.setattr(registry, "_registered", dict(methods()))
    method("searching", paper="-", layers=lambda settings: 2)(searching)
    with in_thread(FakeServer(say)) as server:
        lm = f"openai:tiny@{server.url}"
        sent(tmp_path, lm, "searching", rendering="text")
        layers = 0
        while layer(tmp_path, "searching", lm=lm, rendering="text").waiting:
            layers += 1
            rows = [kit.result(row, say) for row in kit.requests(tmp_path / "batch", layers)]
            kit.write(tmp_path / "batch" / f"results-{layers}.jsonl", rows)
    assert files(tmp_path / "run") == files(tmp_path / "sent")
    assert layers == 2
    assert len(kit.requests(tmp_path / "batch")) == 2 * len(SIX)
    assert all(row["body"]["tools"] for row in kit.requests(tmp_path / "batch"))


@pytest.mark.slow
def test_speculative_calls_join_the_same_batch(tmp_path: Path) -> None:
    def layers(folder: Path, **more: Any) -> int:
        count = 0
        while layer(folder, "tor", retriever=slow_search, **more).waiting:
            count += bool(kit.serve(folder / "batch"))
        return count

    assert layers(tmp_path / "ahead", speculate=16) < layers(tmp_path / "in turn")


def test_calls_of_a_reranker_join_the_batch(tmp_path: Path) -> None:
    with in_thread(FakeServer(kit.say)) as server:
        sent(tmp_path, f"openai:tiny@{server.url}", "one-r", rerank=LmReranker())
    while layer(tmp_path, "one-r", rerank=LmReranker()).waiting:
        kit.serve(tmp_path / "batch")
    names = {path: row for path, row in files(tmp_path / "run").items() if path == "predictions.jsonl"}
    other = files(tmp_path / "sent")["predictions.jsonl"]
    assert [row["prediction"] for row in names["predictions.jsonl"]] == [row["prediction"] for row in other]


def test_other_models_are_called_directly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYHOP_CACHE", str(tmp_path))
    judge = ScriptedLM(lambda task, fields: {"sufficient": True})
    for _ in range(2):
        with batched(tmp_path / "batch", {"default": LM, "resp.judge": judge}) as batch:
            assert batch.models["resp.judge"] is judge
            evaluate(SIX, lm=batch.models, **given("resp"))
        kit.serve(tmp_path / "batch")
    assert len(judge.calls) == 6
    tasks = {row["body"]["response_format"]["json_schema"]["name"] for row in kit.requests(tmp_path / "batch")}
    assert tasks == {"resp_summarize", "resp_generate"}


def test_an_interrupted_run_leaves_no_request(tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        if done == 3:
            raise UsageError("enough")

    with pytest.raises(UsageError, match="enough"):
        layer(tmp_path, "cot-sc", progress=stop)
    assert not kit.requests(tmp_path / "batch")
    assert layer(tmp_path, "cot-sc").waiting == 6
    assert len(kit.requests(tmp_path / "batch")) == 30


def test_a_refused_question_fails_and_the_others_go_on(tmp_path: Path) -> None:
    layer(tmp_path, "cot")
    first, *others = kit.requests(tmp_path / "batch")
    words = "This model's maximum context length is 8 tokens."
    rows = [kit.failure(first, 400, words), *map(kit.result, others)]
    kit.write(tmp_path / "batch" / "results.jsonl", rows)
    report = layer(tmp_path, "cot")
    assert (report.waiting, len(report.rows), len(report.failed)) == (0, 5, 1)
    assert words in str(report.failed)
    assert layer(tmp_path, "cot").waiting == 1  # tried again, as a question that failed is
    kit.write(tmp_path / "batch" / "results-2.jsonl", [kit.result(row) for row in kit.requests(tmp_path / "batch", 2)])
    assert not layer(tmp_path, "cot").failed


@pytest.mark.slow
def test_thousands_of_questions_need_little_memory(tmp_path: Path) -> None:
    """The memory held while calls are written does not grow with their number."""

    def peak(count: int) -> int:
        folder = tmp_path / str(count)
        questions = [Question(f"q{n}", f"Question {n}?") for n in range(count)]
        tracemalloc.start()
        report = layer(folder, "cot", questions)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert report.waiting == count
        assert len(kit.requests(folder / "batch")) == count
        return most

    peak(100)
    assert peak(800) < peak(200) + 2_000_000


def test_unsupported_uses_are_errors_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="pocket: a batch is for models behind an OpenAI"), batched(tmp_path, "pocket"):
        pass
    with pytest.raises(UsageError, match="kept in the cache"), batched(tmp_path, LM, cache=False):
        pass
    with pytest.raises(CapabilityError, match="needs score"):
        layer(tmp_path, "promptrank")


def advance(folder: Path) -> None:
    """Run a layer: the work of the victims."""
    layer(folder, "resp")


def warm_up() -> None:
    """Do all that a first layer imports."""
    with TemporaryDirectory() as folder:
        advance(Path(folder))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and signals")
def test_a_run_killed_at_any_write_repeats_and_loses_nothing(tmp_path: Path) -> None:
    draw = random.Random(3)
    layers = killed = 0
    with victims(f"{__name__}:advance", tmp_path) as processes:
        while True:
            fault = draw.choice([Fault(at=draw.randint(0, 15)), Fault(limit=draw.randint(0, 20_000))])
            killed += processes.run(tmp_path, fault=fault).killed
            if not layer(tmp_path, "resp").waiting:
                break
            layers += bool(kit.serve(tmp_path / "batch"))
    assert killed > 2
    with in_thread(FakeServer(kit.say)) as server:
        online = sent(tmp_path, f"openai:tiny@{server.url}", "resp")
        calls = [json.dumps(one.body) for one in server.requests]
    assert sorted(json.dumps(row["body"]) for row in kit.requests(tmp_path / "batch")) == sorted(calls)
    rows, others = (files(tmp_path / name)["predictions.jsonl"] for name in ("run", "sent"))
    assert [{**row, "usage": None} for row in rows] == [{**row, "usage": None} for row in others]  # it names the URL
    assert layers >= longest(online)


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str | Path]:
    """``polyhop run`` over two questions, with a cache of its own."""
    monkeypatch.setenv("POLYHOP_CACHE", str(tmp_path / "cache"))
    questions, corpus = (
        write_lines(tmp_path / f"{name}.jsonl", rows) for name, rows in (("q", QUESTIONS), ("c", PASSAGES))
    )
    return ["run", "--dataset", questions, "--corpus", corpus, "--rendering", "json", "--method", "one-r"]


def test_the_command_prints_the_next_step_and_continues(cli: Cli, words: list[str | Path], tmp_path: Path) -> None:
    batch = tmp_path / "a batch"
    command = [*words, "--lm", LM, "--batch", batch, "--out", tmp_path / "run"]
    result = cli(*command)
    assert (result.code, result.out) == (3, "")
    assert "waiting for the results of 2 requests, 1 file in" in result.err
    asked, results = f"'{batch}/requests-0001.jsonl'", f"'{batch}/results-0001.jsonl'"
    assert f"vllm run-batch -i {asked} -o {results}.part --model tiny" in result.err
    assert f"&& mv {results}.part {results}" in result.err
    assert cli(*command).code == 3
    first, second = kit.requests(batch)
    kit.write(batch / "results-0001.jsonl", [kit.result(first), kit.failure(second, 503, "busy")])
    result = cli(*command)
    assert result.code == 3
    assert "1 reply read" in result.err
    assert "1 request failed, 0 of them without a result; they are sent again" in result.err
    assert "1 x 503 Service Unavailable: busy" in result.err
    assert "requests-0002.jsonl: 1 request to" in result.err
    assert kit.serve(batch) == 1
    result = cli(*command, "--json")
    assert result.code == 0
    assert json.loads(result.out)["questions"] == 2


def test_for_openai_the_command_prints_its_api_calls(
    cli: Cli, words: list[str | Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    result = cli(*words, "--lm", "openai:gpt-4o-mini", "--batch", tmp_path / "b", "--out", tmp_path / "run")
    assert result.code == 3
    assert f"-F purpose=batch -F file=@{tmp_path}/b/requests-0001.jsonl" in result.err
    assert '"endpoint": "/v1/chat/completions", "completion_window": "24h"' in result.err
    assert f"-o {tmp_path}/b/errors-0001.jsonl" in result.err
    assert "sk-secret" not in result.err + (tmp_path / "b" / "requests-0001.jsonl").read_text()


@pytest.mark.slow
def test_several_methods_share_one_batch(cli: Cli, words: list[str | Path], tmp_path: Path) -> None:
    command = [*words[:-1], "one-r,cot,direct,promptrank", "--lm", LM, "--batch", tmp_path / "b"]
    command += ["--out", tmp_path / "run"]
    assert cli(*command).code == 3
    assert kit.serve(tmp_path / "b") == 6
    result = cli(*command)
    assert result.code == 0
    assert "one-r" in result.out
    assert "promptrank was left out: promptrank needs score" in result.err
    assert (tmp_path / "run" / "cot" / "metrics.json").exists()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--lm", LM], "--batch requires --out"),
        (["--lm", LM, "--out", "b"], "both b: name two folders"),
        (["--lm", LM, "--out", "run", "--no-cache"], "kept in the cache"),
        (["--lm", "pocket", "--out", "run"], "pocket: a batch is for models behind"),
        (["--lm", LM, "--out", "run", "--max-seconds", "9"], "--max-seconds limits the time"),
        (["--lm", LM, "--out", "run", "--method", "promptrank"], "promptrank scores given texts"),
        (["--lm", LM, "--out", "run", "--method", "replug", "-o", "probability=scored"], "replug scores"),
    ],
)
def test_the_command_refuses_contradictory_options(
    cli: Cli, words: list[str | Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = cli(*words, "--batch", "b", *more)
    assert result.code == 2
    assert why in result.err


def test_an_invalid_result_file_is_named(cli: Cli, words: list[str | Path], tmp_path: Path) -> None:
    command = [*words, "--lm", LM, "--batch", tmp_path / "b", "--out", tmp_path / "run"]
    cli(*command)
    (tmp_path / "b" / "other.jsonl").write_text('{"custom_id": "request-1"}\n')
    result = cli(*command)
    assert result.code == 2
    assert f"{tmp_path}/b/other.jsonl:1: not a result of a batch" in result.err
    assert DataError.exit_code == 2
    assert "1 line skipped" in cli(*command, "--skip-bad").err
