"""The executor of several runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from polyhop.errors import DataError
from polyhop.evaluation.runs import MemoizingReader, RunInputs, RunSpec, folder_name, open_index, run_all
from polyhop.lm.scripted import ScriptedLM
from polyhop.types import Passage, Span
from tests.kit.scene import names, passage


def test_runs_share_one_progress_and_come_in_order() -> None:
    inputs, index = RunInputs.read("demo", None, limit=2), open_index("demo")
    specs = [
        RunSpec(name, inputs.questions, {"corpus": index, "method": name, "concurrency": 1})
        for name in ("tfidf", "bm25")
    ]
    seen: list[tuple[int, int]] = []
    reports = dict(run_all(specs, lambda done, total: seen.append((done, total))))
    assert [(name, report.method, len(report.rows)) for name, report in reports.items()] == [
        ("tfidf", "tfidf", 2),
        ("bm25", "bm25", 2),
    ]
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_the_limit_does_not_change_the_profiles() -> None:
    whole, few = RunInputs.read("demo", None), RunInputs.read("demo", None, limit=1)
    assert (few.profiles, few.title, len(few.questions)) == (whole.profiles, "demo", 1)


def test_a_bad_record_is_an_error_unless_it_may_be_skipped(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text('{"id": "q", "question": "Who?", "answers": ["Ann"]}\n{"id": "bad"}\n')
    with pytest.raises(DataError, match=r"questions\.jsonl"):
        RunInputs.read(path, None)
    assert [question.id for question in RunInputs.read(path, None, skip_bad=True).questions] == ["q"]


def test_a_model_names_its_folder_as_its_name_does() -> None:
    model = ScriptedLM({}, name="tiny")
    assert folder_name({"lm": model, "k": 5}) == folder_name({"lm": "tiny", "k": 5}) == "lm=tiny,k=5"
    assert folder_name({"lm": {"default": model}, "widths": None}) == "lm=default=tiny,widths=none"


async def test_runs_that_share_a_reader_read_nothing_twice() -> None:
    """Passages are read one by one or as a path: the same passages may have other answers as a path."""
    calls: list[str] = []

    class Reading:
        name, threshold = "reading", 0.5

        def read(self, question: str, passages: Sequence[Passage]) -> list[Span]:
            calls.append(f"read {names(passages)}")
            return [Span("a", "a1", 0, 2, 0.9)]

        def read_path(self, question: str, path: Sequence[Passage]) -> list[Span]:
            calls.append(f"path {names(path)}")
            return [Span("a", "yes", 0, 0, 0.9)]

    reader, path = MemoizingReader(Reading()), [passage("a"), passage("b")]
    for _ in range(2):
        assert [span.text for span in await reader.read("Who?", path)] == ["a1"]
        assert [span.text for span in await reader.read_path("Who?", path)] == ["yes"]
    await reader.read_path("Who?", path[:1])
    assert calls == ["read a b", "path a b", "path a"]
