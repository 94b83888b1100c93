"""No question costs a day: every setting of every method is bounded for the clients of a service, and so are calls."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest

from polyhop import ScriptedLM
from polyhop.errors import SettingError
from polyhop.methods.meanings import literals, takes_many
from polyhop.methods.registry import Method, Setting, method_named, methods
from polyhop.serve.bounds import MAX_CALLS, MAX_PASSAGES, MAX_PATH_PASSAGES, bound_of, is_raised, path_passages
from polyhop.serve.errors import OutOfTime
from polyhop.serve.service import AskRequest, Service
from polyhop.trace import Searched
from tests.kit.worst_case import ABLE, Endless, never_content

QUESTION = "Where was the director of Dark Mill born?"
SERVED = {name: method for name, method in methods().items() if not method.reads_gold}
SEARCHING = [name for name, method in SERVED.items() if not method.is_retriever and name != "full-context"]
"""Methods that take any retriever."""
WITHIN = {"first": 1000, "keep": 40, "links": 50, "hops": 2, "requery": 0}
"""A beam as large as may be."""
LOWER = {"demos": 2, "edit_below": 0.5, "context_tokens": 4096, "input_tokens": 12_000}
"""Settings that cost nothing but the time of a test, or take few values."""


def service(lm: ScriptedLM | None = None, **options: Any) -> Service:
    arguments: dict[str, Any] = {"lm": lm or ScriptedLM({}), "retriever": Endless(), "reader": lambda q, p: []}
    return Service({"films": None}, **{**arguments, **options})


def longest_way() -> ScriptedLM:
    """A model that always wants more."""
    return ScriptedLM(never_content, capabilities=ABLE, score=lambda request: -1.0)


def counts_of(method: Method) -> list[Setting]:
    """The settings that take a number, but for seeds."""
    found = (setting for setting in method.settings.values() if not setting.name.endswith("seed"))
    return [setting for setting in found if re.search(r"\b(int|float)\b", str(setting.type))]


def dearest(method: Method) -> dict[str, Any]:
    """As much of each setting as a client may give."""

    def highest(setting: Setting) -> Any:
        upper = re.findall(r"Le\(le=(\d+)\)", str(setting.type))
        number = min([bound_of(method.name, setting.name), *map(int, upper)])
        return [number] * 3 if takes_many(setting) else number

    counts = [setting for setting in counts_of(method) if not literals(setting.type)]
    found = {setting.name: LOWER.get(setting.name, highest(setting)) for setting in counts}
    return {**found, **{name: number for name, number in WITHIN.items() if "keep" in found and name in found}}


@pytest.mark.parametrize("name", SERVED)
def test_no_setting_of_any_method_may_be_a_million(name: str) -> None:
    asked = service(method=name)
    for setting in counts_of(method_named(name)):
        for value in [[10**6] * 3] if takes_many(setting) else [10**6, "1000000"]:
            with pytest.raises(SettingError, match=rf"\b{setting.name}=") as raised:
                asked.resolved(AskRequest(QUESTION, settings={setting.name: value}))
            assert raised.value.field == "settings"
            own = "less than or equal" in str(raised.value)  # the method's own bound
            assert own or f"is more than {bound_of(name, setting.name)}, the maximum" in str(raised.value)


@pytest.mark.parametrize("name", SERVED)
def test_the_defaults_may_be_given_and_limit_nothing(name: str) -> None:
    method = method_named(name)
    defaults = {s.name: s.default for s in method.settings.values() if not s.names_file and s.default is not None}
    request = service().resolved(AskRequest(QUESTION, method=name, settings=defaults))
    assert (request.settings, request.max_calls) == (method.resolve({}), None)


@pytest.mark.parametrize("name", ["hops", "promptrank"])
def test_a_beam_is_bounded_as_a_whole(name: str) -> None:
    within = {setting: WITHIN[setting] for setting in WITHIN if setting in method_named(name).settings}
    assert path_passages({**method_named(name).resolve({}), **within}) == MAX_PATH_PASSAGES
    service().resolved(AskRequest(QUESTION, method=name, settings=within))
    for more in ({"hops": 3}, {"keep": 41}, {"links": 51}, {"hops": 100, "keep": 1, "links": 1}):
        with pytest.raises(SettingError, match=r"make paths of up to \d+ passages, which is more than 5000"):
            service().resolved(AskRequest(QUESTION, method=name, settings={**within, **more}))


def test_the_owner_may_exceed_the_bounds_and_clients_may_as_far() -> None:
    own = service(method="hops", settings={"first": 20_000})
    assert own.resolved(AskRequest(QUESTION, settings={"first": 19_000})).settings["first"] == 19_000
    with pytest.raises(SettingError, match="first=20001 is more than 20000"):
        own.resolved(AskRequest(QUESTION, settings={"first": 20_001}))


def test_calls_are_bounded_if_a_client_asks_for_more_than_the_service_does() -> None:
    def calls(*, own: int | None = None, **given: Any) -> int | None:
        return service(max_calls=own).resolved(AskRequest(QUESTION, "cot-sc", **given)).max_calls

    assert calls() is None
    assert calls(settings={"samples": 5}) is None
    assert calls(settings={"samples": 6}) == MAX_CALLS
    assert calls(settings={"samples": 6}, max_calls=30) == 30
    assert calls(max_calls=10**9) == MAX_CALLS
    assert calls(settings={"samples": 6}, max_calls=10**9, own=5000) == 5000
    assert is_raised({"instructions": ()}, {"instructions": ("a", "b")})


@pytest.mark.parametrize("name", SEARCHING)
async def test_no_question_at_the_defaults_takes_more_calls_than_that(name: str) -> None:
    lm = longest_way()
    await service(lm, method=name).ask(AskRequest(QUESTION))
    assert 0 < len(lm.calls) + len(lm.score_calls) <= MAX_CALLS


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHING)
async def test_the_dearest_question_is_bounded_in_calls_passages_and_seconds(name: str) -> None:
    lm, found = longest_way(), 0
    asked = service(lm, method=name, timeout=1)
    with suppress(OutOfTime):
        async for event in asked.stream(AskRequest(QUESTION, settings=dearest(method_named(name)))):
            found += len(event.passages) if isinstance(event, Searched) else 0
        assert lm.calls or lm.score_calls  # on a busy machine, the time may be over before the first
    assert len(lm.calls) + len(lm.score_calls) <= MAX_CALLS
    assert found <= MAX_CALLS * MAX_PASSAGES
