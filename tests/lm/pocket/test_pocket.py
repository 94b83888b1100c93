"""Pocket as a language model: its capabilities, the shapes of its outputs, the same reply every time."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from polyhop.errors import CapabilityError
from polyhop.lm.base import LanguageModel
from polyhop.lm.pocket import TASKS, Pocket
from polyhop.lm.pocket.reading.answer import clear_cache
from polyhop.prompts.tasks import CONTINUED
from polyhop.prompts.tasks import TASKS as PROMPT_TASKS
from polyhop.types import Passage
from tests.lm.pocket.scene import ANDERS, FERRY, MILL, fields_of, request


def test_it_is_a_language_model_with_the_capabilities_it_names() -> None:
    pocket = Pocket()
    assert isinstance(pocket, LanguageModel)
    assert pocket.name == "pocket"
    assert pocket.capabilities.score
    assert pocket.capabilities.score_temperature
    assert pocket.capabilities.token_logprobs


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("passages", [[], [MILL], [MILL, ANDERS, FERRY]], ids=["none", "one", "three"])
async def test_every_task_gives_its_output_shape(task: str, passages: list[Passage]) -> None:
    completion = await Pocket().complete(request(task, **fields_of(task, passages)))
    if completion.tool_calls:
        assert (completion.value, completion.text, completion.finish_reason) == (None, "", "tool_calls")
        return
    assert completion.value == json.loads(completion.text)
    output = {**PROMPT_TASKS, **CONTINUED}[task].output.model_validate(completion.value)
    assert set(completion.value or {}) == set(type(output).model_fields)


async def test_usage_is_estimated_from_the_rendered_prompt() -> None:
    completion = await Pocket().complete(request("answer.direct", question="Who?"))
    assert completion.usage is not None
    assert completion.usage.estimated
    assert completion.usage.prompt_tokens == 10


async def test_an_unknown_task_is_named_with_those_it_can_do() -> None:
    with pytest.raises(CapabilityError, match=r"'ge\.dance'.*tor\.review"):
        await Pocket().complete(request("ge.dance", question="Who?"))


@pytest.mark.parametrize("task", TASKS)
async def test_the_same_request_gives_the_same_reply(task: str) -> None:
    fields = fields_of(task, [MILL, ANDERS, FERRY])
    first = await Pocket().complete(request(task, **fields))
    clear_cache()
    assert await Pocket().complete(request(task, **fields)) == first


def test_importing_it_loads_nothing_heavy() -> None:
    code = (
        "import sys, polyhop.lm.pocket\n"
        "print([name for name in ('numpy', 'tantivy', 'aiohttp', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
