"""Claims about every method: what it needs, that it is deterministic, and that it keeps to its settings."""

from __future__ import annotations

import typing
from typing import Any

import pytest

from polyhop.errors import SettingError, UsageError
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.registry import method_named, methods
from polyhop.pipeline import Pipeline
from polyhop.types import NonNegative, Positive
from tests.kit.random_world import World, still

NEEDS = {name: {need.partition(":")[0] for need in known.needs(known.resolve({}))} for name, known in methods().items()}
SEARCHING = [name for name, needs in NEEDS.items() if "retriever" in needs]
PLAYED = [
    name
    for name, needs in NEEDS.items()
    if not needs & {"links", "score"} and methods()[name].family != "retrieval only" and name != "flare"
]
"""The methods that a random world answers: it has no links, scores nothing and gives no log-probabilities."""


FEW_SHOW = ("auto-cot", "search-agent")
"""Methods that show demonstrations of their own, or in one of their calls alone."""

COMPARED: dict[str, tuple[float, dict[str, float | None]]] = {
    "k": (5, {"ge": 2, "searchain": 1, "search-agent": None, "hops": None}),
    "shots": (3, {"ge": 6, "resp": 0, "searchain": None}),
    "context_tokens": (4096, {"agent": 8192, "full-context": 32768}),
    "rank_limit": (15, dict.fromkeys(("hops", "bm25", "tfidf", "tfidf-bm25"), 20)),
    "max_turns": (3, {"dsp": 2, "agent": 5, "search-agent": None}),
    "samples": (5, {}),
    "temperature": (0.7, {"ge": 0.6, "promptrank": None, "search-agent": 0.0}),
}
"""The settings in which the methods are compared, those of ToR §4 and for sampling of GE-Reasoning §4.3, and the others
of methods whose papers have others; ``hops`` reads five articles, too."""


def settings_with(method: str, *names: str) -> bool:
    return set(names) <= set(method_named(method).settings)


@pytest.mark.parametrize("name", COMPARED)
def test_methods_are_compared_in_the_same_settings(name: str) -> None:
    usual, others = COMPARED[name]
    chosen = {method: known.resolve({}) for method, known in methods().items()}
    found = {method: settings[name] for method, settings in chosen.items() if name in settings}
    assert {method: value for method, value in found.items() if value != usual} == others
    assert len(found) > len(others)


@pytest.mark.parametrize("method", SEARCHING)
def test_a_retriever_is_needed(method: str) -> None:
    with pytest.raises(UsageError, match="corpus"):
        Pipeline(method=method, lm=ScriptedLM({}))


@pytest.mark.parametrize("method", PLAYED)
async def test_a_run_twice_is_the_same_run(method: str) -> None:
    for seed in range(10):
        first, _ = await World.random(seed).run(method)
        second, _ = await World.random(seed).run(method)
        assert still(first.to_dict()) == still(second.to_dict())


@pytest.mark.parametrize("method", [name for name in PLAYED if settings_with(name, "k", "rank_limit")])
async def test_k_and_rank_limit_bound_searches_and_passages(method: str) -> None:
    for seed in range(5):
        answer, _ = await World.random(seed).run(method, k=2, rank_limit=1)
        assert all(search.k == 2 for search in answer.trace.searches)
        assert len(answer.passages) <= 1


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("method", [name for name in PLAYED if settings_with(name, "shots") and name not in FEW_SHOW])
async def test_shots_are_the_demonstrations_shown(method: str, count: int) -> None:
    _, model = await World.random(3).run(method, shots=count)
    first_tries = [call for call in model.calls if "could not be read" not in call.messages[-1]["content"]]
    assert first_tries
    for call in first_tries:
        assert sum(turn["role"] == "assistant" for turn in call.messages) == count


def refused(hint: Any) -> Any:
    """A value that a setting of this type must refuse; None if any value is valid."""
    if hint is bool or typing.get_origin(hint) is typing.Literal:
        return "neither"
    return {Positive: 0, NonNegative: -1}.get(hint)


@pytest.mark.parametrize("method", list(methods()))
def test_a_setting_it_cannot_take_is_named(method: str) -> None:
    known = method_named(method)
    for name, setting in known.settings.items():
        if (value := refused(setting.type)) is not None:
            with pytest.raises(SettingError, match=f"{method}: {name}="):
                known.resolve({name: value})
