"""A reply that spends its token cap before any text comes: asked again with more, then an error that says what to do;
and the options by which a model is given more, or asked to think less."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from polyhop import Passage, Pipeline, Question, ScriptedLM, evaluate
from polyhop.engine.rerender import messages_of
from polyhop.errors import CutReply, LMError, SettingError, UnknownName, UsageError
from polyhop.evaluation.batches import batched
from polyhop.evaluation.store import read_report
from polyhop.evaluation.sweeps.sweep import sweep
from polyhop.lm.base import Completion
from polyhop.lm.memory import HEADROOM
from polyhop.lm.names import open_lm, register_lm
from polyhop.lm.openai import OpenAICompatible
from polyhop.methods.registry import methods
from polyhop.prompts.book import PromptBook
from tests.cli.test_cli import QUESTIONS, write_lines
from tests.kit import batches as kit
from tests.kit.custom_method import one_ask, using
from tests.kit.openai_server import FakeServer, Reply, in_thread, thinker
from tests.kit.question_data import question_for
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]

RIGHT = "Answer: Rome"
CUT = Completion(text="", finish_reason="length", reasoning="Hm.")
ONE = [Question("q", "Who?", answers=("Rome",))]


def find(query: str, k: int) -> list[Passage]:
    return [Passage("p", "Rome", "Rome is a city.")]


def caps(server: FakeServer) -> list[int]:
    return [received.body["max_tokens"] for received in server.requests]


# --- in the engine's call --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("empty", ["", " \n"])
async def test_a_cut_reply_is_retried_with_more_tokens(empty: str) -> None:
    model = ScriptedLM({"answer.cot": [Completion(text=empty, finish_reason="length"), RIGHT]})
    output, answer = await using(one_ask(), model, seed=7)
    first, second = model.calls
    assert output.answer == "Rome"
    assert (second.max_tokens, second.sample, second.seed) == (first.max_tokens + HEADROOM, 0, 7)
    assert second.messages == first.messages
    assert "256 tokens were spent before any text came" in str(answer.trace.calls[0].problem)
    assert [call.max_tokens for call in answer.trace.calls] == [256, 256 + HEADROOM]
    assert answer.usage.cut_by_task == answer.usage.malformed_by_task == {"answer.cot": 1}
    assert answer.usage.defaulted_by_task == {}
    book = PromptBook()
    for call, request in zip(answer.trace.calls, model.calls, strict=True):
        assert messages_of(call, answer.trace.steps, book) == request.messages


async def test_a_second_cut_is_an_error_with_the_remedy() -> None:
    model = ScriptedLM({"answer.cot": [CUT, CUT]})
    with pytest.raises(CutReply, match=r"all 4,352 tokens of a call \(answer\.cot\).*--reasoning-tokens 8192"):
        await using(one_ask(), model)


async def test_a_given_cap_is_never_exceeded() -> None:
    model = ScriptedLM({"answer.cot": [CUT]})
    with pytest.raises(CutReply, match=r"all 900 tokens.*--lm-option reasoning_effort=low"):
        await using(one_ask(), model, max_tokens_per_call=900)
    assert [call.max_tokens for call in model.calls] == [900]


async def test_without_a_call_left_a_cut_is_an_error() -> None:
    async with Pipeline(method="cot", lm=ScriptedLM({"answer.cot": CUT}), max_calls=1) as pipeline:
        with pytest.raises(CutReply, match="all 256 tokens"):
            await pipeline.aask("Who?")


async def test_a_cut_correction_is_retried_with_more_tokens() -> None:
    model = ScriptedLM({"answer.cot": ["", CUT, RIGHT]})
    output, answer = await using(one_ask(), model)
    assert output.answer == "Rome"
    assert [call.max_tokens for call in model.calls] == [256, 256, 256 + HEADROOM]
    assert model.calls[2].messages == model.calls[1].messages
    book = PromptBook()
    for call, request in zip(answer.trace.calls, model.calls, strict=True):
        assert messages_of(call, answer.trace.steps, book) == request.messages


async def test_a_reply_with_more_tokens_is_corrected() -> None:
    model = ScriptedLM({"answer.cot": [CUT, "", RIGHT]})
    output, answer = await using(one_ask(), model)
    assert output.answer == "Rome"
    assert [call.max_tokens for call in model.calls] == [256, 256 + HEADROOM, 256 + HEADROOM]
    assert model.calls[1].messages == model.calls[0].messages != model.calls[2].messages
    assert [call.attempt for call in answer.trace.calls] == [1, 2, 3]
    book = PromptBook()
    for call, request in zip(answer.trace.calls, model.calls, strict=True):
        assert messages_of(call, answer.trace.steps, book) == request.messages


async def test_a_server_without_room_for_more_tokens_is_named() -> None:
    model = ScriptedLM({"answer.cot": [CUT, LMError("the context has 4096 tokens")]})
    with pytest.raises(CutReply, match=r"all 256 tokens.*asked again with 4,096 more: the context has 4096 tokens"):
        await using(one_ask(), model)


async def test_cut_text_is_read_like_any_text() -> None:
    model = ScriptedLM({"answer.cot": Completion(text=f"{RIGHT}\n\nI hope", finish_reason="length")})
    output, answer = await using(one_ask(), model)
    assert output.answer == "Rome"
    assert [call.max_tokens for call in model.calls] == [256]
    assert answer.usage.cut_by_task == {}


async def test_a_retried_sample_keeps_its_number() -> None:
    model = ScriptedLM({"answer.cot": [CUT, CUT, CUT, RIGHT, RIGHT, RIGHT]}, latency=0.01)

    async def three(run: Any) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(run.ask("answer.cot", question="Q"))

    await using(three, model, seed=7)
    assert [(call.sample, call.seed) for call in model.calls[3:]] == [
        (call.sample, call.seed) for call in model.calls[:3]
    ]
    assert [call.sample for call in model.calls[:3]] == [0, 1, 2]


@pytest.mark.parametrize("said", ["length", "max_tokens", "MAX_TOKENS"])
async def test_gateways_pass_on_other_finish_reasons(said: str) -> None:
    async with FakeServer(Reply(text=None, finish_reason=said)) as server, OpenAICompatible("tiny", server.url) as lm:
        with pytest.raises(CutReply):
            await using(one_ask(), lm)


@pytest.mark.parametrize("method", sorted({*methods()} - {"search-agent"}))  # which goes on with cut thoughts
def test_no_method_makes_an_answer_of_a_cut_reply(method: str) -> None:
    given = {"retriever": find} if methods()[method].retriever != method else {"corpus": [*find("", 1)]}
    with in_thread(FakeServer(thinker(10**6))) as server:
        try:
            pipeline = Pipeline(method=method, lm=f"openai:tiny@{server.url}", cache=False, **given)
        except UsageError:
            return  # it needs more than a retriever, or asks for what a chat cannot do
        answer = None
        with pipeline, suppress(CutReply):
            answer = pipeline.ask(question_for(method, "Who?", find("", 1)))
        assert answer is None or not answer.trace.calls


# --- runs ------------------------------------------------------------------------------------------------------------


def test_a_replay_makes_both_calls_again(tmp_path: Path) -> None:
    with in_thread(FakeServer(thinker(300, RIGHT))) as server:
        asked = evaluate(ONE, None, "cot-sc", f"openai:tiny@{server.url}", out=tmp_path / "run", seed=7)
        assert sorted(caps(server)) == [256] * 5 + [256 + HEADROOM] * 5
    again = evaluate(ONE, None, "cot-sc", f"replay:{tmp_path / 'run'}", seed=7)
    assert asked.usage.cut_by_task == again.usage.cut_by_task == {"answer.cot": 5}
    assert again.usage.calls == 10


@pytest.mark.parametrize("known", [False, True])
def test_a_replay_gives_each_call_the_headroom_that_it_had(tmp_path: Path, known: bool) -> None:
    questions = [Question(str(n), f"Who is {n}?", answers=("Rome",)) for n in range(3)]
    out = tmp_path / "run"
    with in_thread(FakeServer(thinker(300, RIGHT))) as server:
        given: dict[str, Any] = {"method": "cot", "cache": False, "concurrency": 1, "seed": 7}
        if known:  # the recorded run begins with what an earlier one found
            evaluate(ONE, lm=f"openai:tiny@{server.url}", out=out, **given)
        evaluate([*(ONE if known else ()), *questions], lm=f"openai:tiny@{server.url}", out=out, **given)
    evaluate([*(ONE if known else ()), *questions], lm=f"replay:{out}", out=tmp_path / "again", **given)
    recorded, again = (calls_of(folder, questions) for folder in (out, tmp_path / "again"))
    assert again == recorded
    assert [cap for _, cap, _ in recorded].count(256 + HEADROOM) == 3


def test_a_replay_asks_no_more_of_a_reply_that_its_thoughts_cut_with_headroom(tmp_path: Path) -> None:
    part = Reply(text=RIGHT, finish_reason="length", reasoning="Hm.")
    out, again = tmp_path / "run", tmp_path / "again"
    with in_thread(FakeServer(part)) as server:
        given: dict[str, Any] = {"method": "cot", "cache": False, "concurrency": 1}
        questions = [Question(str(n), f"Who is {n}?", answers=("Rome",)) for n in range(2)]
        evaluate(questions, lm=f"openai:tiny@{server.url}", out=out, **given)
        evaluate(questions, lm=f"replay:{out}", out=again, **given)
    assert calls_of(again, questions) == calls_of(out, questions)
    assert [cap for _, cap, _ in calls_of(out, questions)] == [256, *[256 + HEADROOM] * 4]


def calls_of(folder: Path, questions: Sequence[Question]) -> list[tuple[str, int, int]]:
    """The task, token cap and attempt of each call of a run."""
    calls = []
    for path in sorted((folder / "traces").glob("*.json")):
        answer = json.loads(path.read_bytes())
        if answer["trace"]["question"] in {question.text for question in questions}:
            steps = [step for step in answer["trace"]["steps"] if step["kind"] == "ask"]
            calls += [(step["task"], step["max_tokens"], step["attempt"]) for step in steps]
    return calls


def test_a_batch_retries_a_cut_reply_in_its_next_file(tmp_path: Path) -> None:
    def result(row: kit.Row) -> kit.Row:
        cut = row["body"]["max_tokens"] <= 300
        result = kit.result(row, lambda body: "" if cut else RIGHT)
        result["response"]["body"]["choices"][0]["finish_reason"] = "length" if cut else "stop"
        return result

    for number in (1, 2, 3):
        with batched(tmp_path / "batch", "openai:tiny@http://localhost:1/v1", cache=tmp_path / "lm.sqlite") as batch:
            report = evaluate(ONE, None, "cot", batch.models, out=tmp_path / "run")
        if number < 3:
            rows = kit.requests(tmp_path / "batch", number)
            kit.write(tmp_path / "batch" / f"results-{number:04d}.jsonl", [result(row) for row in rows])
    assert [row["body"]["max_tokens"] for row in kit.requests(tmp_path / "batch")] == [256, 256 + HEADROOM]
    assert (report.waiting, report.metrics["em"].value) == (0, 1.0)


def test_one_question_fails_and_the_run_goes_on(cli: Cli, tmp_path: Path) -> None:
    """The first question is cut, before anything is finished: a model that cannot be reached would end the run."""
    say = {"Alien": thinker(10**6), "Balaton": thinker(0, "Answer: Hungary")}

    def reply(body: Mapping[str, Any]) -> str | Reply:
        asked = body["messages"][-1]["content"]
        return next(script(body) for name, script in say.items() if name in asked)

    out = tmp_path / "run"
    questions = write_lines(tmp_path / "questions.jsonl", QUESTIONS)
    with in_thread(FakeServer(reply)) as server:
        lm = f"openai:tiny@{server.url}"
        done = cli("run", "--dataset", questions, "--method", "cot", "--lm", lm, "--out", out, "--concurrency", "1")
        assert done.code == 1
        assert "1 question failed; the same command tries them again. The first: q1" in done.err
        assert "  1 x openai:tiny" in done.err
        assert "spent all 4,352 tokens" in done.err
    seen = cli("report", out)
    assert "1 question failed. The first: q1\n  1 x openai:tiny" in seen.err
    assert seen.code == 0
    assert list(read_report(out).failed) == ["q1"]


def test_repeated_calls_are_counted_and_reported(cli: Cli, tmp_path: Path) -> None:
    with in_thread(FakeServer(thinker(300, RIGHT))) as server:
        lm = f"openai:tiny@{server.url}"
        asked = cli("ask", "Who?", "--method", "cot", "--lm", lm)
        assert asked.code == 0, asked.err
        assert "Answer: Rome" in asked.out
        assert "1 call reached the token limit before any text" in asked.err
        out = tmp_path / "run"
        questions = write_lines(tmp_path / "questions.jsonl", QUESTIONS)
        done = cli("run", "--dataset", questions, "--method", "cot", "--lm", lm, "--no-cache", "--out", out)
        assert "2 calls reached the token limit before any text" in " ".join(done.out.split())
        assert "2 calls reached" in " ".join(cli("report", out).out.split())


# --- by option -------------------------------------------------------------------------------------------------------


def test_ask_fails_with_the_remedy_and_works_with_it(cli: Cli) -> None:
    with in_thread(FakeServer(thinker(5000, RIGHT))) as server:
        asked = ("ask", "Who?", "--method", "cot", "--lm", f"openai:tiny@{server.url}")
        failed = cli(*asked)
        assert (failed.code, failed.out) == (2, "")
        assert "--reasoning-tokens 8192" in failed.err
        server.requests.clear()
        options = (
            "--lm-option",
            "reasoning_effort=low",
            "--lm-option",
            'chat_template_kwargs={"enable_thinking": false}',
        )
        done = cli(*asked, "--max-tokens-per-call", "8704", *options, "--lm-option", "top_p=0.5")
        assert done.code == 0, done.err
        assert "Rome" in done.out
        (received,) = server.requests
        sent = {"max_tokens": 8704, "reasoning_effort": "low", "top_p": 0.5}
        assert sent.items() <= received.body.items()
        assert received.body["chat_template_kwargs"] == {"enable_thinking": False}


def test_doctor_says_what_is_wrong_with_a_model(cli: Cli) -> None:
    with in_thread(FakeServer(thinker(10**6))) as server:
        lm = f"openai:tiny@{server.url}"
        failed = cli("doctor", "--quick", "--lm", lm)
        assert failed.code == 2
        assert "before any text came" in failed.err
        server.reply = ""
        assert (
            cli("doctor", "--quick", "--lm", lm).code,
            "gave no readable answer" in cli("doctor", "--quick", "--lm", lm).err,
        ) == (1, True)
        server.reply = thinker(100, RIGHT)
        done = cli("doctor", "--quick", "--lm", lm)
        assert done.code == 0, done.err
        assert "answers ('Rome'); 1 call reached the token limit" in done.out
        server.requests.clear()
        assert (
            "answers ('Rome')"
            in cli("doctor", "--quick", "--lm", lm, "--max-tokens-per-call", "500", "--lm-option", "a=1").out
        )
        assert (server.requests[0].body["max_tokens"], server.requests[0].body["a"]) == (500, 1)


def test_lm_options_and_cap_are_in_run_json_and_in_the_cache_key(tmp_path: Path) -> None:
    with in_thread(FakeServer(thinker(0, RIGHT))) as server:
        given: dict[str, Any] = {"lm": f"openai:tiny@{server.url}", "method": "cot"}
        low: dict[str, Any] = {
            **given,
            "lm_options": {"extra_body": {"reasoning_effort": "low"}},
            "max_tokens_per_call": 900,
        }
        evaluate(ONE, out=tmp_path / "low", **low)
        evaluate(ONE, out=tmp_path / "plain", **given)
        assert len(server.requests) == 2
        evaluate(ONE, out=tmp_path / "again", **low)
        assert len(server.requests) == 2  # kept
        with pytest.raises(UsageError, match="other settings: lm_options, max_tokens_per_call"):
            evaluate(ONE, out=tmp_path / "plain", **low)
    settings = json.loads((tmp_path / "low" / "run.json").read_text())
    assert settings["lm_options"] == {"default": {"reasoning_effort": "low"}}
    assert settings["max_tokens_per_call"] == 900


def test_a_sweep_may_vary_lm_options(tmp_path: Path) -> None:
    with in_thread(FakeServer(thinker(0, RIGHT))) as server:
        run = {"dataset": ONE, "method": "cot", "lm": f"openai:tiny@{server.url}"}
        efforts = {
            "lm_option": [{"reasoning_effort": effort} for effort in ("low", "high")],
            "max_tokens_per_call": [64],
        }
        swept = sweep({"run": run, "grid": efforts}, tmp_path)
        assert [received.body["reasoning_effort"] for received in server.requests] == ["low", "high"]
        assert caps(server) == [64, 64]
    assert [json.loads((tmp_path / name / "run.json").read_text())["lm_options"] for name in swept.reports] == [
        {"default": {"reasoning_effort": effort}} for effort in ("low", "high")
    ]


@pytest.mark.parametrize(
    ("lm", "body", "said"),
    [
        ("pocket", {"a": 1}, r"--lm-option \(extra_body\): for a model behind a server only"),
        ("openai:m@http://localhost:1/v1", {"max_tokens": 9}, "set it by --max-tokens-per-call"),
        ("openai:m@http://localhost:1/v1", {"seed": 9}, "set it by --seed"),
        ("openai:m@http://localhost:1/v1", {"messages": []}, "polyhop sets it itself"),
        ("hf:.", {"devise": "cpu"}, "unknown option of hf 'devise'; did you mean 'device'"),
    ],
)
def test_an_option_that_a_model_does_not_have_is_named(lm: str, body: Mapping[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Pipeline(method="cot", lm=lm, lm_options={"extra_body": body})


@pytest.mark.parametrize("cap", [0, -1])
def test_a_cap_below_one_is_refused(cap: int) -> None:
    with pytest.raises(SettingError, match=f"max_tokens_per_call={cap}"):
        Pipeline(method="cot", max_tokens_per_call=cap)


def test_a_local_model_takes_extra_body_as_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyhop.lm.names._openers", {})

    @register_lm("mine")
    def mine(rest: str, *, size: int = 1) -> ScriptedLM:
        return ScriptedLM({}, name=f"mine {size}")

    assert open_lm("mine", extra_body={"size": 3}).name == "mine 3"
    with pytest.raises(UnknownName, match="sise"):
        open_lm("mine", extra_body={"sise": 3})
