"""A run on real questions that is stopped midway and started again gives the files of an unbroken run."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from polyhop import evaluate
from polyhop.data.corpora import open_corpus
from polyhop.evaluation.runner import Progress, run_settings
from polyhop.methods.as_retriever import HopsRetriever
from polyhop.pipeline import Pipeline
from polyhop.retrieval.base import Reranked, Retriever
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.index import Index, build_index, index_for
from polyhop.retrieval.reranking.lm import LmReranker
from polyhop.retrieval.tfidf import TfIdf
from polyhop.types import Passage
from tests.conftest import SHARED
from tests.evaluation.test_store import files

pytestmark = pytest.mark.slow

DEMO = Path(str(resources.files("polyhop.data") / "demo"))
SETS = {
    "demo": (DEMO / "questions.jsonl", DEMO / "passages.jsonl"),
    **{name: (SHARED / name / "dev.jsonl", SHARED / name / "corpus.jsonl")
       for name in ("hotpotqa", "2wikimultihopqa", "musique")},
}  # fmt: skip
METHODS = ("resp", "ge", "searchain")
"""Each runs on the demo set and on one of the benchmarks' samples."""


@cache
def index(name: str) -> Index:
    """A set's passages, indexed once for all its runs."""
    return index_for(open_corpus(SETS[name][1]))


def stopping_after(count: int) -> Progress:
    """Stops the run from the keyboard, so to speak, when so many questions are answered."""
    stopped = threading.Event()

    def stop(number: int, frame: object) -> None:
        stopped.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)

    def progress(done: int, total: int) -> None:
        if done == count:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            assert stopped.wait(10)  # not one question more before the signal is heard

    return progress


@pytest.mark.parametrize(
    ("method", "name"),
    [
        *((method, "demo") for method in METHODS),
        *(pytest.param(*pair, marks=pytest.mark.shared) for pair in zip(METHODS, list(SETS)[1:], strict=True)),
    ],
)
def test_stopped_and_started_again_it_is_the_unbroken_run(tmp_path: Path, method: str, name: str) -> None:
    dataset, corpus = SETS[name][0], index(name)
    before = signal.getsignal(signal.SIGINT)
    given: dict[str, Any] = {"method": method, "lm": "pocket", "limit": 12, "concurrency": 3}
    if method == "searchain":
        given["reader"] = "pocket"
    evaluate(dataset, corpus, **given, out=tmp_path / "unbroken")
    try:
        for count in (4, 8):
            with pytest.raises(KeyboardInterrupt):
                evaluate(dataset, corpus, **given, out=tmp_path / "stopped", progress=stopping_after(count))
    finally:
        signal.signal(signal.SIGINT, before)
    kept = (tmp_path / "stopped" / "predictions.jsonl").read_text().count("\n")
    assert 3 <= kept < 12
    evaluate(dataset, corpus, **given, out=tmp_path / "stopped")
    assert files(tmp_path / "stopped") == files(tmp_path / "unbroken")


def test_settings_distinguish_indexes_of_one_corpus(tmp_path: Path) -> None:
    corpus = open_corpus([Passage("1", "Songs", "The singers sang."), Passage("2", "Song", "A song.")])

    def settings_of(**built: Any) -> dict[str, Any]:
        over = build_index(corpus, tmp_path / "-".join(("index", *map(str, built.items()))), **built)
        return run_settings(Pipeline(corpus=over, method="one-r", lm="pocket"), "questions")

    built: tuple[dict[str, Any], ...] = ({}, {"stem": False}, {"stop_words": False}, {"links": False}, {"links": "own"})
    found = [settings_of(**each) for each in built]
    assert [settings for settings in found if found.count(settings) > 1] == []


def test_settings_name_the_corpus_of_a_reranked_retriever() -> None:
    class Engine:
        name, fingerprint = "engine:wiki", "abc"

        def search(self, query: str, k: int) -> list[Passage]:
            return []

        def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
            return [[] for _ in queries]

        def links(self, passage: Passage) -> list[Passage]:
            return []

    pipeline = Pipeline(method="one-r", lm="pocket", retriever=Engine(), rerank=LmReranker())
    assert isinstance(pipeline.engine.retriever, Reranked)
    assert run_settings(pipeline, "questions")["corpus"] == "abc"


@pytest.mark.parametrize("chosen", [{"retriever": "promptrank:{}"}, {"rerank": "promptrank:{}"}])
def test_settings_distinguish_files_of_path_ranking(tmp_path: Path, chosen: dict[str, str]) -> None:
    over = index("demo")
    file = tmp_path / "ranking.json"

    def settings_of(settings: dict[str, Any]) -> dict[str, Any]:
        file.write_text(json.dumps({"method": "promptrank", "settings": settings}))
        named: dict[str, Any] = {name: spec.format(file) for name, spec in chosen.items()}
        return run_settings(Pipeline(corpus=over, method="one-r", lm="pocket", **named), "questions")

    assert settings_of({"first": 50}) == settings_of({"first": 50}) != settings_of({"first": 20})
    assert settings_of({})["retriever_settings"] is settings_of({})["reranker_settings"] is None


def test_settings_hold_the_arguments_of_hops() -> None:
    over = index("demo")

    def settings_of(start: Retriever, **settings: Any) -> Any:
        pipeline = Pipeline(corpus=over, method="one-r", lm="pocket", retriever=HopsRetriever(start, **settings))
        return run_settings(pipeline, "questions")["retriever_settings"]

    assert settings_of(BM25(over)) is None
    assert settings_of(TfIdf(over), hops=3) == {"hops": 3, "start": "tfidf"}
