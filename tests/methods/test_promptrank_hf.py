"""PromptRank over checkpoints: the ranking is that of a plain scorer, one path at a time, every logit, no batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.lm.base import Capabilities, Completion, Request, ScoreRequest, TokenScores
from polyhop.pipeline import Pipeline
from tests.kit import tiny_models
from tests.kit.random_web import BOOK, Web
from tests.kit.scene import notes

pytestmark = pytest.mark.extra
SETTINGS: list[dict[str, Any]] = [
    {},
    {"instruction": "none", "normalise": "sum"},
    {"instructions": ["Ask.", "before: Do ask about it.", "none"], "ensemble": "token-median", "temperature": 0.7},
    {"demos": 4, "passage_tokens": 12, "prompt_tokens": 700, "titles": True},
    {"passage_tokens": 40, "prompt_tokens": 90, "order": "inverted"},
]


class Plain:
    """A checkpoint's tokens, and ``tiny_models.plainly`` for its scores."""

    name = "plain"
    capabilities = Capabilities(score=True, score_temperature=True)

    def __init__(self, folder: Path, model: Any) -> None:
        self.folder, self.tokens = folder, model.tokens
        self.count_tokens, self.truncate = model.count_tokens, model.truncate

    async def complete(self, request: Request) -> Completion:
        raise NotImplementedError

    async def score(self, requests: Sequence[ScoreRequest]) -> list[TokenScores]:
        return [self._scores(request) for request in requests]

    def _scores(self, request: ScoreRequest) -> TokenScores:
        prompt, target = self.tokens.prompt(request.prompt), self.tokens.target(request.target)
        logprobs = tiny_models.plainly(self.folder, list(prompt), list(target), request.temperature)
        return TokenScores(tuple(map(str, target)), tuple(logprobs))


@pytest.fixture(scope="module", params=["t5", "gpt2"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    return tiny_models.make(tmp_path_factory.mktemp(request.param), request.param, positions=2048)


def scores(answer: Answer) -> dict[tuple[str, ...], float]:
    ((_, data),) = notes(answer)
    return {tuple(row["passages"]): row["score"] for row in data["ranked"]}


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
async def test_scores_are_those_of_a_plain_scorer(folder: Path, settings: dict[str, Any]) -> None:
    from polyhop.lm.hf import TransformersLM

    web = Web.random(7)
    model = TransformersLM(str(folder))
    found = []
    for lm in (model, Plain(folder, model)):
        # all are extended: near ties must not decide what is scored
        given = {"retriever": web, "prompts": BOOK, "first": 2, "keep": 9, "answer_by": "none", **settings}
        async with Pipeline(method="promptrank", lm=lm, **given) as pipeline:
            found.append(scores(await pipeline.aask(web.question)))
    assert len(found[0]) > 3
    assert found[0] == pytest.approx(found[1], abs=1e-4)
