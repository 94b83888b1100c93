"""Set-ups: one budget for every method of a run, in each method's own settings."""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from polyhop import Passage, Question
from polyhop.cli.app import app
from polyhop.common.registry import path_and_options
from polyhop.errors import UnknownName
from polyhop.evaluation.reproduction.recipe import recipe
from polyhop.evaluation.runs import evaluate_methods
from polyhop.evaluation.setups import BUDGETS, SETUPS, demonstrations, setup_named
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.registry import Method, method_named, methods
from polyhop.pipeline import Pipeline
from polyhop.retrieval.encoders.families import recipe_of
from polyhop.types import Kind
from tests.conftest import SHARED

CORPUS = [Passage("p1", "Oslo", "Oslo is the capital of Norway."), Passage("p2", "Lima", "Lima is in Peru.")]
QUESTIONS = [Question("q1", "What is the capital of Norway?", ("Oslo",))]

NO_TURNS = {"max_sentences", "max_questions", "max_calls", "max_pairs", "max_strips"}
"""Settings that bound something else than searches: sentences written, sub-questions of a closed book, strips read."""


@pytest.mark.parametrize("name", SETUPS)
@pytest.mark.parametrize("method", methods().values(), ids=lambda method: method.name)
def test_every_method_takes_every_set_up(name: str, method: Method) -> None:
    setup = SETUPS[name]
    settings = setup.settings(method.name)
    method.resolve(settings)
    for budget, names in BUDGETS.items():
        if (value := getattr(setup, budget)) is not None:
            own = {setting: settings[setting] for setting in names if setting in method.settings}
            differing = setup.by_method.get(method.name, {})
            assert all(each == differing.get(setting, value) for setting, each in own.items()), own


def test_a_turn_has_the_name_each_method_gives_it() -> None:
    given = {
        name: SETUPS["tor"].settings(name)
        for name in ("react", "resp", "searchain", "ge", "plan-solve-ir", "tot-ir", "dsp")
    }
    names = ("max_turns", "max_iterations", "max_rounds", "max_steps", "max_searches", "steps", "max_turns")
    assert [settings[name] for settings, name in zip(given.values(), names, strict=True)] == [3] * 7
    assert SETUPS["ge"].settings("react")["max_turns"] == 10  # a set-up's turn cap wins over a method's own


def test_no_setting_that_counts_turns_is_forgotten() -> None:
    counting = {
        setting for method in methods().values() for setting in method.settings if setting.startswith("max_")
    } - NO_TURNS
    assert counting <= set(BUDGETS["turns"])


@pytest.mark.parametrize(
    ("setup", "widths"),
    [("tor", (5, 3, 3)), ("resp", (5, 3, 3)), ("ge", (2, 2, 2)), ("searchain", (1, 1, 1)), ("promptrank", (5, 3, 3))],
)
def test_a_tree_is_as_deep_as_turns_and_as_wide_as_a_query(setup: str, widths: tuple[int, ...]) -> None:
    assert SETUPS[setup].settings("tor")["widths"] == widths


def test_what_is_given_wins() -> None:
    assert "k" not in SETUPS["ge"].settings("one-r", {"k": 7})
    assert SETUPS["ge"].settings("one-r", {"k": 7})["shots"] == 6


def test_searchains_demonstrations_are_its_table_by_dataset_or_kind() -> None:
    setup = SETUPS["searchain"]
    assert [setup.settings("dsp", dataset=name)["shots"] for name in ("hotpotqa", "musique", "eli5")] == [16, 8, 2]
    assert [setup.settings("cot", kind=kind)["shots"] for kind in ("qa", "boolean", "long")] == [4, 6, 2]
    assert setup.settings("direct", kind="qa")["shots"] == 0
    assert setup.settings("verify-edit", kind="fact")["shots"] == 4
    assert setup.settings("ircot", kind="boolean")["shots"] == 6  # not in the table: what most get
    assert "shots" not in setup.settings("searchain")


@pytest.mark.parametrize("kind", typing.get_args(Kind))
@pytest.mark.parametrize("open_book", [True, False])
def test_searchain_itself_shows_what_its_table_says(kind: Kind, open_book: bool) -> None:
    from polyhop.methods.searchain import _paper_shots

    dataset = {"qa": "musique", "boolean": "strategyqa", "slot": "zsre", "fact": "fever", "long": "eli5"}[kind]
    given = {} if open_book else {"open_book": False}
    assert demonstrations("searchain", given, dataset) == _paper_shots(kind, open_book)
    assert method_named("searchain").settings["shots"].default is None


def test_dsp_keeps_the_two_hops_of_its_program_in_searchains_comparison() -> None:
    assert SETUPS["searchain"].settings("dsp")["max_turns"] == 2
    assert "max_turns" not in SETUPS["searchain"].settings("dsp", {"max_turns": 3})  # what is given wins
    assert SETUPS["searchain"].settings("react")["max_turns"] == 5


# --- own: each method as its authors ran it -------------------------------------------------------------------------

OWN: dict[str, dict[str, Any]] = {
    "cot": {"shots": 8},
    "cot-sc": {"shots": 8, "samples": 40},
    "zero-few-cot": {"shots": 8},
    "auto-cot": {"shots": 8},
    "recite": {"samples": 20},
    "plan-solve": {"shots": 0},
    "self-ask": {"shots": 4},
    "react": {"shots": 6, "max_turns": 6},
    "agent": {"max_turns": 15, "context_tokens": 128000},
    "react-cot-sc": {"shots": 6, "max_turns": 6, "samples": 21},
    "toolformer": {"max_turns": 1},
    "tot-ir": {"values": 3, "keep": 5},
    "iter-retgen": {"max_turns": 2},
    "ircot": {"k": 6, "max_turns": 11, "max_sentences": 10},
    "flare": {"k": 2, "retrieve_below": 0.8, "mask_below": 0.4, "max_turns": 99, "shots": 8},
    "dsp": {"samples": 20, "max_turns": 2},
    "verify-edit": {"max_turns": 99},
    "sure": {"k": 10, "shots": 0},
    "replug": {"k": 10},
    "era-cot": {"shots": 0},
    "tor": {"widths": (5, 3, 3), "rank_limit": 15, "shots": 3, "repeat_passages": True},
    "resp": {"k": 5, "max_iterations": 3, "input_tokens": 12_000, "shots": 0},
    "ge": {"k": 2, "max_steps": 10, "shots": 6, "sample": True, "confidence": "sentence"},
    "searchain": {"k": 1, "max_rounds": 5, "consistency": "one-way"},
    "promptrank": {"combine": "raw"},
}


@pytest.mark.parametrize("method", methods().values(), ids=lambda method: method.name)
def test_own_has_every_method_at_its_authors_settings(method: Method) -> None:
    settings = setup_named("own").settings(method.name)
    assert OWN.get(method.name, {}).items() <= settings.items()
    method.resolve(settings)
    assert settings or method.name not in OWN


def test_own_names_methods_and_settings_that_exist_and_what_is_given_wins() -> None:
    own = setup_named("own")
    assert set(own.by_method) <= set(methods())
    assert own.settings("sure", {"k": 3}) == {"shots": 0}
    assert "span" not in own.settings("searchain")  # few readers can choose


async def test_own_searches_as_often_as_the_authors_did() -> None:
    """ReAct with a model that never finishes, and IRCoT with one that never concludes."""

    def reply(task: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        number = len(fields.get("steps") or fields.get("reasoning") or ())
        known = {
            "react.act": {"thought": "On.", "action": "Search", "argument": f"query {number}"},
            "cot.sentence": {"sentence": f"It is sentence {number}."},
        }
        return known.get(task, {"answer": "Oslo", "rationale": "So."})

    for method, searches in (("react", 6), ("ircot", 11)):
        given = setup_named("own").settings(method)
        async with Pipeline(CORPUS, method, ScriptedLM(reply), **given) as pipeline:
            assert (await pipeline.aask("Which is the capital of Norway?")).statistics["searches"] == searches


def test_tor_retrieves_by_contriever_and_cosine() -> None:
    """§3.2. Contriever's own vectors are not scaled: the name that the set-up gives scales them."""
    named = re.search(r"--retriever dense:(\S+?)\)", SETUPS["tor"].retriever)
    assert named
    path, options = path_and_options("dense", named[1])
    recipe = recipe_of(f"dense:{named[1]}", path, options, lambda file: None)
    assert (path, recipe.pooling, recipe.normalise) == ("facebook/contriever", "mean", True)


def test_an_unknown_set_up_names_the_others() -> None:
    with pytest.raises(UnknownName, match=r"own.*tor"):
        setup_named("toor")


def test_several_methods_share_a_set_up_and_what_is_given_wins(tmp_path: Path) -> None:
    lm = ScriptedLM(lambda task, fields: {"answer": "Oslo"})
    evaluate_methods(["direct", "one-r"], QUESTIONS, CORPUS, lm, out=tmp_path, setup="ge", k=1)
    kept = {name: json.loads((tmp_path / name / "run.json").read_text())["settings"] for name in ("direct", "one-r")}
    assert kept["direct"] == {"shots": 6}
    assert (kept["one-r"]["k"], kept["one-r"]["shots"], kept["one-r"]["rank_limit"]) == (1, 6, 15)


def test_on_the_command_line(tmp_path: Path) -> None:
    common = ["run", "--dataset", "demo", "--limit", "1", "--setup", "ge"]
    result = CliRunner().invoke(app, [*common, "--method", "one-r", "-o", "shots=1", "--out", str(tmp_path / "one")])
    assert result.exit_code == 0, result.output
    settings = json.loads((tmp_path / "one" / "run.json").read_text())["settings"]
    assert (settings["k"], settings["shots"]) == (2, 1)
    result = CliRunner().invoke(app, [*common, "--method", "one-r,ircot", "--out", str(tmp_path / "two")])
    assert result.exit_code == 0, result.output
    settings = json.loads((tmp_path / "two" / "ircot" / "run.json").read_text())["settings"]
    assert (settings["k"], settings["max_turns"], settings["shots"]) == (2, 10, 6)
    with pytest.raises(UnknownName, match="ge"):
        CliRunner().invoke(app, ["run", "--dataset", "demo", "--setup", "gee"], catch_exceptions=False)


@pytest.mark.shared
def test_the_budgets_are_the_designs() -> None:
    lines = (SHARED.parent / "design" / "recipes.md").read_text("utf-8").splitlines()
    rows = {name: next(line for line in lines if line.startswith(f"| `{name}` |")) for name in SETUPS}
    for name, words in {
        "tor": ("top 5 a query", "≤ 3 turns", "≤ 15 passages returned", "4,096 tokens of prompt", "3 for all methods"),
        "resp": ("top 5", "≤ 3 iterations", "12,000 tokens in", "none (zero-shot prompts)"),
        "ge": ("top 2", "≤ 10 steps", "| 6 |"),
        "searchain": ("top 1 a node", "≤ 5 rounds", "Table 8"),
    }.items():
        assert all(each in rows[name] for each in words)
    values = {name: (setup.k, setup.turns, setup.rank_limit, setup.prompt_tokens, setup.shots)
              for name, setup in SETUPS.items()}  # fmt: skip
    assert values == {
        "tor": (5, 3, 15, 4096, 3),
        "resp": (5, 3, None, 12_000, 0),
        "ge": (2, 10, None, None, 6),
        "promptrank": (None, None, 20, None, None),
        "searchain": (1, 5, None, None, None),
    }
    assert recipe("searchain/table8").rows
