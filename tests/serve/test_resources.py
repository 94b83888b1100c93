"""The facts of a corpus that are shown before the first question."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyhop import Passage
from polyhop.data.corpora import open_corpus
from polyhop.data.questions import read_questions
from polyhop.retrieval.index import index_for
from polyhop.serve import resources
from polyhop.serve.errors import UnknownCorpus
from polyhop.serve.resources import CorpusFacts, facts_of
from polyhop.serve.service import Service


def facts(*passages: Passage) -> CorpusFacts:
    return facts_of(index_for(open_corpus(passages)))


def numbered(count: int, **metadata: str) -> list[Passage]:
    return [Passage(str(n), f"Title {n}", f"Text {n}.", metadata=metadata) for n in range(count)]


def test_the_demo_offers_its_questions() -> None:
    found = facts_of(index_for(open_corpus("demo")))
    assert found.passages == 375
    assert found.questions == tuple(question.text for question in read_questions("demo", limit=3))
    assert found.files is None


def test_another_corpus_offers_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one that is called demo."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").write_text('{"id": "1", "title": "Own", "text": "My own text."}\n')
    found = facts_of(index_for(open_corpus("demo")))
    assert found == CorpusFacts(passages=1, titles=("Own",))


def test_titles_are_spread_and_distinct() -> None:
    found = facts(*numbered(1000))
    assert len(found.titles) == resources.TITLES
    assert int(found.titles[-1].split()[1]) > 700
    assert facts(*(Passage(str(n), "Same", f"Text {n}.") for n in range(9)), Passage("x", " ", "No title.")).titles == (
        "Same",
    )


def test_files_are_counted_in_a_small_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    passages = [*numbered(3, source="a.md"), Passage("b", "B", "Of b.", metadata={"source": "b.md"})]
    assert facts(*passages).files == 2
    monkeypatch.setattr(resources, "MAX_READ", 3)
    assert facts(*passages).files is None


async def test_a_corpus_of_the_retrievers_own_is_unknown() -> None:
    service = Service({"web": None}, retriever=lambda query, k: [], cache=False)
    assert await service.facts("web") == CorpusFacts()
    with pytest.raises(UnknownCorpus, match="unknown corpus 'wob'; did you mean 'web'"):
        await service.facts("wob")
    await service.aclose()
