"""Scores of a run, replayed from its trace."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import orjson
import pytest

from polyhop.errors import DataError, LMError
from polyhop.lm import ScoreRequest, TokenScores
from polyhop.lm.replay import ReplayLM
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.trace import Note, Score, Trace
from polyhop.types import Passage


def recorded(folder: Path, *requests: ScoreRequest, older: bool = False) -> Path:
    """A run folder whose one trace holds the scores -1, -2 and a half of each request's target."""
    steps = tuple(
        Score(
            id=n,
            task=one.task,
            model="m",
            prompt_hash=one.digest(),
            temperature=one.temperature,
            targets=(one.target, one.target + "?"),
            logprobs=(-3.5 - n, -1.0),
            tokens=((-1.0, -2.5 - n), (-1.0,)),
        )
        for n, one in enumerate(requests)
    )
    (folder / "traces").mkdir()
    row = {"trace": Trace("Q", "promptrank", steps).to_dict()}
    written = orjson.dumps(row)
    (folder / "traces" / "0.json").write_bytes(written.replace(b"prompt_hash", b"prompt") if older else written)
    return folder


@pytest.mark.parametrize("older", [False, True])
async def test_scores_come_again_as_they_were(tmp_path: Path, older: bool) -> None:
    one = ScoreRequest(task="promptrank.path", prompt="p", target="Who")
    two = ScoreRequest(task="promptrank.path", prompt="p", target="Who", temperature=1.5)
    lm = ReplayLM(recorded(tmp_path, one, two, older=older))
    assert lm.capabilities.score
    assert lm.capabilities.score_temperature
    assert await lm.score([two, one]) == [TokenScores(("", ""), (-1.0, -3.5)), TokenScores(("", ""), (-1.0, -2.5))]
    for other in (
        ScoreRequest(task="promptrank.path", prompt="q", target="Who"),
        ScoreRequest(task="promptrank.path", prompt="p", target="Whom"),
        ScoreRequest(task="promptrank.path", prompt="p", target="Who", temperature=2.0),
        ScoreRequest(task="other", prompt="p", target="Who"),
    ):
        with pytest.raises(LMError, match="has no score for this"):
            await lm.score([one, other])


async def test_what_a_model_held_impossible_is_so_again(tmp_path: Path) -> None:
    answers: dict[str, Any] = {
        "retriever": lambda query, k: [Passage("p", "P", "It is here.")],
        "links": 0,
        "answer_by": "none",
    }
    model = ScriptedLM({}, score=lambda request: [-1.0, -math.inf])
    async with Pipeline(method="promptrank", lm=model, **answers) as pipeline:
        first = await pipeline.aask("Where?")
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "0.json").write_bytes(orjson.dumps({"trace": first.trace.to_dict()}))
    async with Pipeline(method="promptrank", lm=ReplayLM(tmp_path), **answers) as pipeline:
        again = await pipeline.aask("Where?")
    assert [note.data for note in again.trace.steps if isinstance(note, Note)] == [
        {"ranked": [{"passages": ["p"], "score": -50.5}]}
    ]


def test_a_folder_without_calls_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no traces"):
        ReplayLM(recorded(tmp_path))
