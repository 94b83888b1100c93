"""Whatever asks a model closes its connections on the event loop that opened them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import polyhop
from polyhop import Passage, Question, ScriptedLM
from polyhop.data.corpora import open_corpus
from polyhop.evaluation.extraction import extract_triplets
from polyhop.evaluation.judging import judge_answers
from polyhop.evaluation.store import read_report
from polyhop.evaluation.tuning.promptrank import tune_promptrank
from polyhop.lm.base import Completion, Request, ScoreRequest, TokenScores
from polyhop.retrieval.index import build_index

PASSAGES = [Passage("p", "Page", "Ann lives in Rome."), Passage("q", "Rome", "Rome is a city.")]
QUESTIONS = [Question("q0", "Where does Ann live?", answers=("Rome",), gold_ids=("p", "q"))]
REPLIES: dict[str, Any] = {
    "answer.direct": {"answer": "Rome"},
    "judge.answer": {"correct": True},
    "hipporag.entities": {"entities": ["Ann"]},
    "hipporag.triplets": {"triplets": [{"head": "Ann", "relation": "lives in", "tail": "Rome"}]},
}


class ConnectedLM(ScriptedLM):
    """A model with a connection per event loop, which can only be closed there."""

    def __init__(self) -> None:
        super().__init__(REPLIES, score=lambda request: -1.0)
        self.opened: set[asyncio.AbstractEventLoop] = set()
        self.closed: set[asyncio.AbstractEventLoop] = set()

    async def complete(self, request: Request) -> Completion:
        self.opened.add(asyncio.get_running_loop())
        return await super().complete(request)

    async def score(self, requests: Sequence[ScoreRequest]) -> list[TokenScores]:
        self.opened.add(asyncio.get_running_loop())
        return await super().score(requests)

    async def aclose(self) -> None:
        self.closed.add(asyncio.get_running_loop())


def run(lm: Any, folder: Path) -> object:
    return polyhop.evaluate(QUESTIONS, method="direct", lm=lm, out=folder / "run")


def judge(lm: Any, folder: Path) -> object:
    run(ScriptedLM(REPLIES), folder)
    return judge_answers(read_report(folder / "run"), folder / "run", lm)


def extract(lm: Any, folder: Path) -> object:
    return extract_triplets(build_index(open_corpus(PASSAGES), folder / "index"), folder / "triplets.json", lm)


def tune(lm: Any, folder: Path) -> object:
    return tune_promptrank(QUESTIONS, PASSAGES, lm, instructions=[], demos=0)


@pytest.mark.parametrize("asks", [run, judge, extract, tune])
def test_connections_are_closed_where_they_were_opened(asks: Callable[[Any, Path], object], tmp_path: Path) -> None:
    model = ConnectedLM()
    asks(model, tmp_path)
    assert model.opened
    assert model.opened <= model.closed
