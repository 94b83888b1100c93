"""Log-probabilities of a target after a prompt, by pocket's unigram model."""

from __future__ import annotations

import pytest

from polyhop.lm.base import ScoreRequest
from polyhop.lm.pocket import Pocket
from tests.lm.pocket.scene import FERRY, MILL


async def test_a_target_is_likelier_after_a_prompt_with_its_words() -> None:
    target = "Who directed Dark Mill?"
    near, far = await Pocket().score(
        [ScoreRequest(task="promptrank.path", prompt=passage.text, target=target) for passage in (MILL, FERRY)]
    )
    assert near.tokens == ("who", "directed", "dark", "mill")
    assert len(near.logprobs) == 4
    assert all(value < 0 for value in near.logprobs)
    assert sum(near.logprobs) > sum(far.logprobs)


async def test_temperature_flattens_the_scores() -> None:
    def requests(temperature: float) -> list[ScoreRequest]:
        target = "mill kaleidoscope"
        return [ScoreRequest(task="t", prompt=MILL.text, target=target, temperature=temperature)]

    (sharp,), (flat,) = await Pocket().score(requests(1.0)), await Pocket().score(requests(2.0))
    spread = [scores.logprobs[0] - scores.logprobs[1] for scores in (sharp, flat)]
    assert spread[1] == pytest.approx(spread[0] / 2)


async def test_an_empty_target_has_no_tokens() -> None:
    (scores,) = await Pocket().score([ScoreRequest(task="t", prompt="", target="")])
    assert (scores.tokens, scores.logprobs) == ((), ())
