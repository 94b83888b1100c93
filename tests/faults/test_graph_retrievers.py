"""Methods over retrievers of triplets against a vicious model server, whose filter of facts HippoRAG asks too.

On a virtual clock. ``POLYHOP_TRIES=10`` makes ten times as many runs.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from polyhop.data.corpora import open_corpus
from polyhop.data.openie import Extraction, content_of, write_openie
from polyhop.retrieval.hipporag import HippoRAG
from polyhop.retrieval.index import build_index
from polyhop.retrieval.triplets import TripletRetriever, TripletTable
from tests.faults.test_methods import written
from tests.faults.test_vicious import PERSONAS, harass
from tests.faults.test_vicious_services import PASSAGES
from tests.kit.encoders import WordEncoder
from tests.kit.tries import tries

METHODS = ("one-r", "t2rag", "tor", "ircot", "search-agent")


@pytest.fixture(scope="module", params=[HippoRAG, TripletRetriever])
def retriever(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A retriever over triplets that join each passage to the next."""
    folder = tmp_path_factory.mktemp("graphs")
    index = build_index(open_corpus(PASSAGES), folder / "index")
    stated = [
        Extraction(content_of(passage), (), ({"head": passage.title, "relation": "is before", "tail": after.title},))
        for passage, after in zip(PASSAGES, PASSAGES[1:] + PASSAGES[:1], strict=True)
    ]
    write_openie(folder / "triplets.json", stated)
    return request.param(index, TripletTable.of(index, str(folder / "triplets.json")), WordEncoder())


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_no_reply_loses_or_doubles_a_question_over_triplets(method: str, retriever: Any, tmp_path: Path) -> None:
    for n in range(tries(2)):
        draw = random.Random(f"{method} {n}")
        rendering = draw.choice(["json", "text"])
        harass(method, draw.choice(PERSONAS), 10 * n, tmp_path / f"{n}", rendering=rendering, retriever=retriever)
    tasks = [task for row in written(tmp_path / "0") for task in row["usage"]["calls_by_task"]]
    assert ("hipporag.filter" in tasks) == isinstance(retriever, HippoRAG)
