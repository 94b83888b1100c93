"""The scripted model: what a script may say, and what it says when it has nothing to say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from polyhop.errors import CapabilityError, DataError, LMError, UsageError
from polyhop.lm import Capabilities, Completion, LanguageModel, Request, ScoreRequest, ScriptedLM, TokenScores
from polyhop.types import Passage
from tests.kit.virtual_clock import run_virtually


def request(task: str = "answer.direct", **fields: Any) -> Request:
    return Request(task=task, fields=fields, messages=[{"role": "user", "content": "12345678"}])


async def test_a_function_answers_from_task_and_fields() -> None:
    lm = ScriptedLM(lambda task, fields: f"{task} {fields['question']}")
    asked = request(question="Who?")
    assert (await lm.complete(asked)).text == "answer.direct Who?"
    assert lm.calls == [asked]
    assert isinstance(lm, LanguageModel)


async def test_a_coroutine_function_is_awaited() -> None:
    async def script(task: str, fields: Mapping[str, Any]) -> str:
        await asyncio.sleep(0)
        return task

    assert (await ScriptedLM(script).complete(request())).text == "answer.direct"


async def test_every_kind_of_reply() -> None:
    whole = Completion(text="x", tokens=("x",), logprobs=(-1.0,))
    lm = ScriptedLM(
        {
            "text": "Paris",
            "value": {"answer": "Paris", "supported": True},
            "whole": whole,
            "function": lambda fields: {"answer": fields["question"]},
            "turns": ["one", {"answer": "two"}, LMError("down")],
            "error": LMError("down"),
            "error class": KeyError,
        }
    )
    assert (await lm.complete(request("text"))).text == "Paris"
    valued = await lm.complete(request("value"))
    assert (valued.value, json.loads(valued.text)) == ({"answer": "Paris", "supported": True}, valued.value)
    got = await lm.complete(request("whole"))
    assert (got.text, got.tokens, got.logprobs) == ("x", ("x",), (-1.0,))
    assert (await lm.complete(request("function", question="Q"))).value == {"answer": "Q"}
    assert [(await lm.complete(request("turns"))).text for _ in range(2)] == ["one", '{"answer":"two"}']
    for task, error in (("turns", LMError), ("error", LMError), ("error class", KeyError)):
        with pytest.raises(error):
            await lm.complete(request(task))


async def test_usage_is_estimated_unless_given() -> None:
    usage = (await ScriptedLM({"t": "12345"}).complete(request("t"))).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.estimated) == (2, 2, True)


async def test_an_unscripted_task_is_an_error_that_lists_the_scripted_ones() -> None:
    lm = ScriptedLM({"answer.direct": "x", "tor.review": "y"})
    with pytest.raises(
        UsageError, match=r"'tor.reviews'; the script has 'answer.direct', 'tor.review'. Did you mean 't"
    ):
        await lm.complete(request("tor.reviews"))


async def test_replies_that_are_used_up_are_an_error() -> None:
    lm = ScriptedLM({"t": ["one"]})
    await lm.complete(request("t"))
    with pytest.raises(UsageError, match="all replies for task 't' are used up"):
        await lm.complete(request("t"))


async def test_a_reply_of_no_known_kind_is_an_error() -> None:
    with pytest.raises(UsageError, match="is a int"):
        await ScriptedLM(lambda task, fields: 3).complete(request())  # type: ignore[arg-type, return-value]


def test_latency_delays_replies() -> None:
    async def work() -> float:
        lm = ScriptedLM({"t": "x"}, latency=2.5)
        await asyncio.gather(*(lm.complete(request("t")) for _ in range(3)))
        return asyncio.get_running_loop().time()

    assert run_virtually(work()) == 2.5


async def test_scores_come_from_a_function() -> None:
    asked = [ScoreRequest(task="t", prompt="p", target=target) for target in ("a b", "c")]
    lm = ScriptedLM({}, score=lambda one: TokenScores(("a", " b"), (-1.0, -2.0)) if one.target == "a b" else -3.0)
    can = Capabilities(
        json_schema=True, seed=True, score=True, score_any=True, score_temperature=True, tools=True, continues=True
    )
    assert lm.capabilities == can
    assert await lm.score(asked) == [TokenScores(("a", " b"), (-1.0, -2.0)), TokenScores(("c",), (-3.0,))]
    assert lm.score_calls == asked
    bare = ScriptedLM({}, score=lambda one: [-1.0, -2.0], capabilities=Capabilities(score=True))
    assert not bare.capabilities.score_temperature
    assert await bare.score(asked) == [TokenScores(("a", "b"), (-1.0, -2.0)), TokenScores(("c", ""), (-1.0, -2.0))]
    with pytest.raises(CapabilityError, match="score="):
        await ScriptedLM({}).score(asked)


# --- script files ----------------------------------------------------------------------------------------------------


def written(folder: Path, *lines: Any) -> Path:
    path = folder / "script.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), "utf-8")
    return path


async def test_the_first_matching_line_answers_in_rotation(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"task": "review", "when": {"passages": "spielberg", "thoughts": False}, "reply": {"relevant": True}},
        "",
        {"task": "review", "when": {"missing": None}, "reply": ["one", "two"]},
        {"task": "review", "reply": "never"},
        {"task": "answer", "when": {"question": "WHO"}, "reply": "him"},
    )
    lm = ScriptedLM.from_file(path)
    passages = [Passage("1", "Jaws", "A film by Steven Spielberg.")]
    assert (await lm.complete(request("review", passages=passages, thoughts=False))).value == {"relevant": True}
    texts = [(await lm.complete(request("review", passages=passages, thoughts=True))).text for _ in range(3)]
    assert texts == ["one", "two", "one"]
    assert (await lm.complete(request("answer", question="So who is it?"))).text == "him"
    with pytest.raises(DataError, match="no line for task 'answer' fits the fields"):
        await lm.complete(request("answer", question="Where?"))
    with pytest.raises(DataError, match="no line for task 'plan'; the script has 'answer', 'review'"):
        await lm.complete(request("plan"))


def test_an_edited_script_is_another_model_to_a_cache(tmp_path: Path) -> None:
    first = ScriptedLM.from_file(written(tmp_path, {"task": "t", "reply": "a"}))
    second = ScriptedLM.from_file(written(tmp_path, {"task": "t", "reply": "b"}))
    assert first.name == second.name
    assert first.identity != second.identity


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "not JSON"),
        ("[1]", "must be an object"),
        ({"reply": "x"}, '"task"'),
        ({"task": "t"}, '"reply"'),
        ({"task": 3, "reply": "x"}, '"task"'),
        ({"task": "t", "reply": 3}, '"reply" must be a text'),
        ({"task": "t", "reply": []}, '"reply" must be a text'),
        ({"task": "t", "reply": "x", "when": "y"}, '"when" must be an object'),
        ({"task": "t", "reply": "x", "then": "y"}, "has then"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: Any, words: str) -> None:
    path = written(tmp_path, {"task": "t", "reply": "x"}, line)
    with pytest.raises(DataError, match=words) as caught:
        ScriptedLM.from_file(path)
    assert str(caught.value).startswith(f"{path}:2: ")


@pytest.mark.parametrize("content", ["", "\n \n", None])
def test_an_empty_or_missing_script_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "script.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(DataError, match=r"script\.jsonl"):
        ScriptedLM.from_file(path)
