"""Demonstrations: what prompts really show is recorded, too few are warned of, and no comparison favours its system."""

from __future__ import annotations

import json
import logging
import typing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from polyhop.evaluation.reproduction.benchmarks import Benchmarks
from polyhop.evaluation.reproduction.jobs import UserInputs, jobs, runnable_rows
from polyhop.evaluation.reproduction.recipe import keys, recipe
from polyhop.evaluation.runner import evaluate
from polyhop.evaluation.runs import open_index
from polyhop.evaluation.setups import SETUPS, demonstrations
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.registry import method_named, methods
from polyhop.prompts.prompt import warn_of_fewer
from polyhop.retrieval.index import Index
from polyhop.types import Kind, Passage, Question
from tests.kit.question_data import question_for

CORPUS = [Passage("p1", "Oslo", "Oslo is the capital of Norway.")]
QUESTIONS = [Question(f"q{i}", f"What is the capital of Norway, number {i}?", ("Oslo",)) for i in range(2)]
DEMO = '{"fields": {"question": "Q?", "passages": []}, "output": {"answer": "a"}}'


def knows(task: str, fields: Any) -> Any:
    return {"answer": "Oslo", "rationale": "So."}


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Prompts of which one holds a single demonstration."""
    folder = tmp_path / "prompts"
    folder.mkdir()
    (folder / "answer.read.demos.jsonl").write_text(DEMO)
    return folder


def test_a_run_records_the_demonstrations_that_it_showed(few: Path, tmp_path: Path) -> None:
    report = evaluate(QUESTIONS, CORPUS, "one-r", ScriptedLM(knows), shots=3, prompts=few, out=tmp_path / "run")
    held = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (held["settings"]["shots"], held["volatile"]["demonstrations"]) == (3, {"answer.read": [1]})
    assert report.usage.calls_by_shots == {"answer.read 1": 2}
    report = evaluate(QUESTIONS, CORPUS, "one-r", ScriptedLM(knows), style="cot", shots=2, out=tmp_path / "two")
    assert report.usage.shots_by_task == {"answer.read_cot": [2]}
    again = evaluate(QUESTIONS, CORPUS, "one-r", ScriptedLM({}), style="cot", shots=2, out=tmp_path / "two")
    assert again.usage == report.usage  # it resumes: nothing is asked


def test_a_prompt_with_fewer_than_asked_is_warned_of_once(few: Path, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_fewer.cache_clear()
    with caplog.at_level(logging.WARNING, "polyhop"):
        evaluate(QUESTIONS, CORPUS, "one-r", ScriptedLM(knows), shots=1, prompts=few)
        assert not caplog.messages
        evaluate(QUESTIONS, CORPUS, "one-r", ScriptedLM(knows), shots=3, prompts=few)
    assert caplog.messages == ["answer.read shows 1 demonstrations of 3 asked for: its prompt has no more of them"]


# --- no comparison shows its system more demonstrations than its baselines, unless its paper does ------------------

KINDS: dict[str, Kind] = {"strategyqa": "boolean", "zsre": "slot", "trex": "slot", "fever": "fact", "eli5": "long"}
OWN_DEMONSTRATIONS = ("promptrank", "auto-cot", "search-agent")
"""PromptRank's are of a scored prompt; auto-cot's are written by the model; search-agent's are of one of its calls."""


@cache
def demo() -> Index:
    index = open_index("demo")
    assert index
    return index


@cache
def shown(method: str, settings: tuple[tuple[str, Any], ...], kind: Kind) -> dict[str, list[int]]:
    """The numbers of demonstrations that a method shows by task, for a question of a kind."""
    texts = {"fact": "Larvik is in Norway.", "slot": "Kon-Tiki expedition: leader"}
    text = texts.get(kind, "Was the leader of the Kon-Tiki expedition born in Larvik?")
    question = question_for(method, text, [demo().passages.get(0)], kind=kind)
    return evaluate([question], demo(), method, "pocket", **dict(settings)).usage.shots_by_task


def fewest(method: str, settings: dict[str, Any], kind: Kind) -> int:
    found = shown(method, tuple(sorted(settings.items())), kind)
    return min((number for numbers in found.values() for number in numbers), default=99)


def shows_any(method: str) -> bool:
    known = method_named(method)
    return "shots" in known.settings and method not in OWN_DEMONSTRATIONS and known.answers(known.resolve({}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setup", "method"),
    [
        (setup, name)
        for setup in ("tor", "resp", "ge")
        for name, known in methods().items()
        if shows_any(name) and (known.family != "system" or name == setup)
    ],
)
def test_a_set_up_shows_its_system_and_every_baseline_the_papers_number(setup: str, method: str) -> None:
    assert fewest(method, SETUPS[setup].settings(method), "qa") >= (SETUPS[setup].shots or 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", typing.get_args(Kind))
@pytest.mark.parametrize("method", [name for name in methods() if shows_any(name)])
def test_searchains_set_up_shows_a_baseline_no_fewer_than_searchain_unless_its_table_does(
    method: str, kind: Kind
) -> None:
    settings = SETUPS["searchain"].settings(method, kind=kind)
    system = fewest("searchain", SETUPS["searchain"].settings("searchain", kind=kind), kind)
    assert fewest(method, settings, kind) >= min(settings.get("shots", system), system)


@pytest.mark.slow
@pytest.mark.parametrize("key", [key for key in keys() if recipe(key).is_result and recipe(key).setup != "promptrank"])
def test_a_recipe_shows_no_baseline_fewer_demonstrations_than_its_system(key: str) -> None:
    """Unless the paper does: SearChain's Table 8 says how many each has."""
    table, given = recipe(key), UserInputs(Benchmarks({}))
    for dataset in table.datasets:
        kind = KINDS.get(dataset, "qa")
        found = {row.name: jobs(table, row, dataset, None, given)[0] for row in runnable_rows(table)}
        least = {name: fewest(job.method, dict(job.settings), kind) for name, job in found.items()}
        system = min((least[name] for name, job in found.items() if job.method == table.setup), default=0)
        for name, job in found.items():
            if shows_any(job.method):
                said = demonstrations(job.method, dict(job.settings), dataset) if table.setup == "searchain" else system
                assert least[name] >= min(said, system), (name, dataset)
