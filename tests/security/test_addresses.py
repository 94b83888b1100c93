"""No address out of a text or a request is ever asked: not those in passages and replies, not those a client sends."""

from __future__ import annotations

from typing import Any

import pytest

from polyhop import Passage, Pipeline, ScriptedLM
from polyhop.errors import PolyhopError
from polyhop.methods.registry import methods
from polyhop.serve.requests import AskRequest, RequestPolicy
from tests.kit.side_effects import effects

ADDRESS = "http://169.254.169.254/latest/meta-data/"


async def test_an_address_in_a_text_is_text() -> None:
    passage = Passage("p", ADDRESS, f"See {ADDRESS}, ![a]({ADDRESS}) <img src={ADDRESS}>.", links=(ADDRESS,))
    lm = ScriptedLM(lambda task, fields: f"The answer is {ADDRESS}.")
    for _ in range(2):  # once for what is loaded when it is first used
        with effects() as done:
            async with Pipeline(method="one-r", lm=lm, retriever=lambda query, k: [passage]) as pipeline:
                await pipeline.aask(f"What is at {ADDRESS}?")
    assert done == []


def terms() -> RequestPolicy:
    return RequestPolicy(
        corpora=lambda: ("towns",), method="tor", settings={}, limits={}, max_question_chars=4000,
    )  # fmt: skip


@pytest.mark.parametrize("method", list(methods()))
def test_no_setting_that_a_client_may_give_is_an_address_or_a_file(method: str) -> None:
    for setting in methods()[method].settings.values():
        given: Any = ADDRESS if not str(setting.type).startswith("collections.abc.Sequence") else [ADDRESS]
        try:
            resolved = terms().resolved(AskRequest("Who?", method=method, settings={setting.name: given}))
        except PolyhopError:
            continue
        assert setting.name in ("instruction", "instructions"), setting  # words of a prompt
        assert resolved.settings[setting.name] in (ADDRESS, (ADDRESS,), [ADDRESS])


@pytest.mark.parametrize("name", [ADDRESS, "file:///etc/passwd", "../../etc", "openai:m@http://localhost"])
def test_a_client_names_corpora_and_methods_out_of_a_list(name: str) -> None:
    for asked in (AskRequest("Who?", corpus=name), AskRequest("Who?", method=name)):
        with pytest.raises(PolyhopError, match="unknown"):
            terms().resolved(asked)
