"""Scores of a run, replayed from its trace."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from polyhop.errors import DataError, LMError
from polyhop.lm import ScoreRequest, TokenScores
from polyhop.lm.replay import ReplayLM
from polyhop.trace import Score, Trace


def recorded(folder: Path, *requests: ScoreRequest) -> Path:
    """A run folder whose one trace holds the scores -1, -2 and a half of each request's target."""
    steps = tuple(
        Score(
            id=n,
            task=one.task,
            model="m",
            prompt=one.digest(),
            temperature=one.temperature,
            targets=(one.target, one.target + "?"),
            logprobs=(-3.5 - n, -1.0),
            tokens=((-1.0, -2.5 - n), (-1.0,)),
        )
        for n, one in enumerate(requests)
    )
    (folder / "traces").mkdir()
    row = {"trace": Trace("Q", "promptrank", steps).to_dict()}
    (folder / "traces" / "0.json").write_bytes(orjson.dumps(row))
    return folder


async def test_scores_come_again_as_they_were(tmp_path: Path) -> None:
    one = ScoreRequest(task="promptrank.path", prompt="p", target="Who")
    two = ScoreRequest(task="promptrank.path", prompt="p", target="Who", temperature=1.5)
    lm = ReplayLM(recorded(tmp_path, one, two))
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


def test_a_folder_without_calls_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no traces"):
        ReplayLM(recorded(tmp_path))
