"""Prices: what a table may hold, how a model's name finds its price, and a budget of money."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import polyhop
from polyhop import Pipeline, ScriptedLM
from polyhop.engine.budget import Budget, Price, Prices
from polyhop.engine.run import Run
from polyhop.errors import SettingError, UsageError
from polyhop.lm.base import Capabilities, Completion, Request, ScoreRequest, TokenScores, TokenUsage
from polyhop.trace import Score, Usage
from tests.cli.test_cli import corpus, questions
from tests.evaluation.test_compare import QUESTIONS
from tests.kit.custom_method import RIGHT, using
from tests.kit.scene import notes
from tests.kit.terminal import Cli, cli

__all__ = ["cli", "corpus", "questions"]

TABLE = {"openai:small@http://host/v1": {"prompt": 1, "completion": 2}, "small": {"prompt": 3, "completion": 4}}


def test_the_most_exact_name_has_the_price() -> None:
    prices = Prices.of({**TABLE, "*": {"prompt": 5, "completion": 6}})
    assert prices["openai:small@http://host/v1"] == Price(1, 2)
    assert prices["openai:small@http://elsewhere/v1"] == prices["openai:small"] == prices["small"] == Price(3, 4)
    assert prices["openai:large"] == prices["pocket"] == Price(5, 6)


def test_tokens_of_one_kind_alone_have_a_price() -> None:
    prices = Prices.of({"*": {"prompt": 1_000_000, "completion": 1_000_000}})
    assert prices.total(Usage(prompt_tokens_by_model={"a": 3})) == 3
    assert prices.total(Usage(completion_tokens_by_model={"a": 2})) == 2


def test_a_model_without_a_price_is_named_beside_those_with_one() -> None:
    with pytest.raises(
        SettingError, match=r"no price is given for openai:large \(prices are for: openai:small@.*, small\)"
    ):
        Prices.of(TABLE)["openai:large"]


def test_a_call_costs_its_tokens_by_the_million() -> None:
    prices = Prices.of("0.5:2")
    assert prices.cost("any", 1_000_000, 500_000) == 1.5
    used = Usage(prompt_tokens_by_model={"a": 2_000_000, "b": 0}, completion_tokens_by_model={"a": 0, "b": 1_000_000})
    assert prices.total(used) == 3.0
    assert prices.total(Usage()) == 0.0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.json", '{"small": {"prompt": 0.25, "completion": 1}}'),
        ("p.toml", '["small"]\nprompt = 0.25\ncompletion = 1'),
    ],
)
def test_a_table_in_a_file(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    prices = Prices.of(tmp_path / name)
    assert prices["openai:small"] == Price(0.25, 1.0)
    assert Prices.of(prices.to_dict()) == prices


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "no table of prices in JSON or TOML"),
        ("[1, 2]", "no table of prices by model"),
        ("{}", "no table of prices by model"),
        ('{"small": 3}', "the price of small is 3"),
        ('{"small": {"prompt": 1}}', "the price of small"),
        ('{"small": {"prompt": "free", "completion": 1}}', "not a number"),
        ('{"small": {"prompt": -1, "completion": 1}}', "0 or more"),
    ],
)
def test_wrong_tables_are_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "prices.json").write_text(content)
    with pytest.raises(UsageError, match=message):
        Prices.of(tmp_path / "prices.json")


@pytest.mark.parametrize("given", ["nowhere.json", "1:2:3", "-1:2", "1:", "1..2:3", ":"])
def test_what_is_no_pair_and_no_file_is_named(given: str) -> None:
    with pytest.raises(UsageError, match=r"PROMPT:COMPLETION|not a number"):
        Prices.of(given)


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 10**7), st.integers(0, 10**7))
def test_costs_add_up_and_never_fall(prompt: float, completion: float, one: int, other: int) -> None:
    prices = Prices.of({"*": {"prompt": prompt, "completion": completion}})
    both = prices.cost("m", one + other, other)
    assert both == pytest.approx(prices.cost("m", one, 0) + prices.cost("m", other, other))
    assert both >= prices.cost("m", one, other) >= 0


# --- a budget of money -----------------------------------------------------------------------------------------------


class Counting:
    """Every call costs 10 prompt tokens and 5 of completion."""

    capabilities = ScriptedLM({}).capabilities

    def __init__(self, name: str = "counting") -> None:
        self.name, self.calls = name, 0

    async def complete(self, request: Request) -> Completion:
        self.calls += 1
        return Completion(text=RIGHT, usage=TokenUsage(prompt_tokens=10, completion_tokens=5))


@pytest.mark.parametrize(("max_cost", "calls"), [(0.00002, 2), (0.00004, 3), (0.00005, 4), (1.0, 10)])
async def test_max_cost_ends_the_gathering(max_cost: float, calls: int) -> None:
    """At 1 and 2 a million a call costs 0.00002; the last call is made in any case."""

    async def method(run: Run) -> None:
        with run.gathering():
            for number in range(9):
                await run.ask("answer.cot", question=str(number))
        await run.ask("answer.cot", final=True, question="last")

    model = Counting()
    budget = Budget(max_cost=max_cost, prices=Prices.of("1:2"))
    _, answer = await using(method, model, budget=budget)
    assert model.calls == calls
    assert answer.trace.budget == ("max_cost" if calls < 10 else None)
    assert notes(answer) == ([("budget spent", {"limit": "max_cost"})] if calls < 10 else [])
    assert answer.usage.prompt_tokens_by_model == {"counting": 10 * calls}
    assert answer.usage.completion_tokens_by_model == {"counting": 5 * calls}


class Scoring(Counting):
    """Finds every word of a target equally likely."""

    capabilities = Capabilities(score=True)

    async def score(self, requests: Sequence[ScoreRequest]) -> list[TokenScores]:
        words = [tuple(request.target.split()) for request in requests]
        return [TokenScores(tokens=each, logprobs=tuple(-1.0 for _ in each)) for each in words]


async def test_scored_text_is_paid_for_as_prompt_once_a_target() -> None:
    async def method(run: Run) -> None:
        with run.gathering():
            for _ in range(9):
                await run.score("answer.cot", ["two words", "three more words"], question="Q")

    _, some = await using(method, Scoring(), budget=Budget(max_calls=4))
    assert (some.usage.calls, some.trace.budget) == (3, "max_calls")  # one is reserved; two targets are one call
    budget = Budget(max_cost=1e-9, prices=Prices.of("1:2"))
    _, answer = await using(method, Scoring(), budget=budget)
    (step,) = [step for step in answer.trace.steps if isinstance(step, Score)]
    assert answer.trace.budget == "max_cost"
    _, two = await using(method, Scoring(), budget=Budget(max_tokens=step.prompt_tokens + 1))
    assert (two.usage.calls, two.trace.budget) == (2, "max_tokens")  # both targets of the first are below it
    _, free = await using(method, Scoring())
    text = (step.prompt_tokens - 5) // 2  # the prompt's own, twice; 2 + 3 words
    assert (step.prompt_tokens, text > 10) == (2 * text + 5, True)
    assert free.usage.prompt_tokens_by_model == {"counting": 9 * step.prompt_tokens}
    assert (free.usage.prompt_tokens, free.usage.completion_tokens) == (9 * step.prompt_tokens, 0)
    assert free.usage.prompt_words == 9 * step.prompt_words > 0
    assert free.usage.tokens_estimated


async def test_no_call_is_made_ahead_under_a_budget_of_money() -> None:
    async def method(run: Run) -> Any:
        async with run.speculating(8) as speculative:
            return speculative.speculator

    limited = Budget(max_cost=1.0, prices=Prices.of("1:1"))
    assert (await using(method, Counting(), budget=limited))[0] is None
    assert (await using(method, Counting(), budget=Budget(prices=Prices.of("1:1"))))[0] is not None


def test_a_cost_limit_needs_the_prices_of_all_models() -> None:
    with pytest.raises(SettingError, match=r"max_cost=0.5: give the prices"):
        Pipeline(method="cot", lm="pocket", max_cost=0.5)
    with pytest.raises(SettingError, match="max_cost=-1"):
        Pipeline(method="cot", lm="pocket", max_cost=-1, prices="1:1")
    models = {"default": Counting("dear"), "judge": Counting("cheap")}
    with pytest.raises(SettingError, match="no price is given for cheap"):
        Pipeline(method="cot", lm=models, max_cost=1, prices={"dear": {"prompt": 1, "completion": 1}})
    Pipeline(method="cot", lm=models, prices={"dear": {"prompt": 1, "completion": 1}}).close()  # nothing to bound


def test_the_prices_that_decide_stand_in_the_runs_settings(tmp_path: Path) -> None:
    def held(name: str, **budget: Any) -> Any:
        polyhop.evaluate(QUESTIONS, method="cot", lm=Counting(), out=tmp_path / name, **budget)
        return json.loads((tmp_path / name / "run.json").read_text())["budget"]

    limits = {"max_calls": None, "max_tokens": None, "max_seconds": None}
    assert held("free", prices="1:2") == {**limits, "max_cost": None}
    prices = {"*": {"prompt": 1.0, "completion": 2.0}}
    assert held("bound", prices="1:2", max_cost=3) == {**limits, "max_cost": 3, "prices": prices}


def test_money_on_the_command_line(cli: Cli, corpus: Path, questions: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ("run", "--dataset", questions, "--corpus", corpus, "--method", "one-r", "--out", out)
    result = cli(*arguments, "--price", "100:100", "--max-cost", "1")
    assert result.code == 0, result.err
    (money,) = [line.split() for line in result.out.splitlines() if line.startswith("money")]
    found = json.loads(cli("report", out, "--format", "json", "--price", "100:100").out)[str(out)]
    tokens = found["usage"]["prompt_tokens"] + found["usage"]["completion_tokens"]
    assert found["money"] == pytest.approx(tokens / 10_000)
    assert float(money[1]) == pytest.approx(found["money"] / 2, rel=0.01)
    assert "money" not in cli("report", out).out
    assert "| money |" in cli("report", out, "--format", "markdown", "--price", "1:1").out
    assert "give the prices" in cli(*arguments, "--max-cost", "1").err
    assert "PROMPT:COMPLETION" in cli("report", out, "--price", "cheap").err


def test_a_report_tells_words_parsing_and_own_time(cli: Cli, questions: Path, tmp_path: Path) -> None:
    out = cli("run", "--dataset", questions, "--method", "cot", "--out", tmp_path / "run").out
    for name in ("words in", "words out", "seconds (own time)", "replies parsed at first try"):
        assert name in out
    parts = cli("report", tmp_path / "run", "--by", "hops").out
    for name in ("words in", "words out", "parsed at first try"):
        assert name in parts
