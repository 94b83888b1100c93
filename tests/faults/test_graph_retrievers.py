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
from polyhop.retrieval.index import Index, build_index
from polyhop.retrieval.triplets import TripletRetriever, TripletTable
from tests.faults.test_methods import written
from tests.faults.test_vicious import PERSONAS, harass
from tests.faults.test_vicious_services import PASSAGES
from tests.kit.encoders import WordEncoder
from tests.kit.tries import tries

METHODS = ("one-r", "t2rag", "tor", "ircot", "search-agent")


def opened(kind: type[Any], index: Index, folder: Path) -> Any:
    """A retriever over triplets that join each passage to the next."""
    stated = [
        Extraction(content_of(passage), (), ({"head": passage.title, "relation": "is before", "tail": after.title},))
        for passage, after in zip(PASSAGES, PASSAGES[1:] + PASSAGES[:1], strict=True)
    ]
    write_openie(folder / "triplets.json", stated)
    return kind(index, TripletTable.of(index, str(folder / "triplets.json")), WordEncoder())


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [HippoRAG, TripletRetriever])
def test_no_reply_loses_or_doubles_a_question_over_triplets(kind: type[Any], method: str, tmp_path: Path) -> None:
    index = build_index(open_corpus(PASSAGES), tmp_path / "index")
    retriever = opened(kind, index, tmp_path)
    for n in range(tries(2)):
        draw = random.Random(f"{method} {n}")
        rendering = draw.choice(["json", "text"])
        harass(method, draw.choice(PERSONAS), 10 * n, tmp_path / f"{n}", rendering=rendering, retriever=retriever)
    tasks = [task for row in written(tmp_path / "0") for task in row["usage"]["calls_by_task"]]
    assert ("hipporag.filter" in tasks) == (kind is HippoRAG)
