"""A run on real questions that is stopped midway and started again gives the files of an unbroken run."""

from __future__ import annotations

import signal
import threading
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from polyhop import evaluate
from polyhop.data.corpora import open_corpus
from polyhop.evaluation.runner import Progress
from polyhop.retrieval.index import Index, index_for
from tests.conftest import SHARED
from tests.test_run_store import files

DEMO = Path(str(resources.files("polyhop.data") / "demo"))
SETS = {
    "demo": (DEMO / "questions.jsonl", DEMO / "passages.jsonl"),
    **{name: (SHARED / name / "dev.jsonl", SHARED / name / "corpus.jsonl")
       for name in ("hotpotqa", "2wikimultihopqa", "musique")},
}  # fmt: skip


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


@pytest.mark.parametrize("name", ["demo", *(pytest.param(name, marks=pytest.mark.shared) for name in list(SETS)[1:])])
@pytest.mark.parametrize("method", ["resp", "ge", "searchain"])
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
