"""Readers: the names, the embedded one, and what may be handed in instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from polyhop import readers
from polyhop.errors import UnknownName, UsageError
from polyhop.lm.pocket.encoder.cache import cached_only, predict
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.readers import Reader, as_reader, open_reader, register_reader
from polyhop.readers.pocket import PocketReader, PocketSupportReader
from polyhop.types import Passage, Span

MILL = Passage("mill", "Dark Mill", "Dark Mill is a 1931 German drama film directed by Rolf Anders.")
FERRY = Passage("ferry", "Ferry transport", "A ferry carries passengers and goods across water.")
EMPTY = Passage("empty", "", "")
NO_CORPUS: dict[str, Any] = {"method": "searchain", "lm": ScriptedLM({}), "retriever": lambda query, k: []}


def test_names_are_looked_up() -> None:
    assert isinstance(open_reader("pocket"), Reader)
    with pytest.raises(UnknownName, match=r"unknown reader 'poket'; did you mean 'pocket'\?"):
        Pipeline(**NO_CORPUS, reader="poket")


@pytest.fixture
def own() -> Iterator[str]:
    register_reader("own")(PocketReader)
    yield "own"
    del readers._readers.registered["own"]


def test_a_reader_of_ones_own_is_registered_by_name(own: str) -> None:
    assert own in readers.readers()
    reader = Pipeline(**NO_CORPUS, reader=own).engine.reader
    assert reader is not None
    assert isinstance(reader.source, PocketReader)


def test_pocket_reads_the_answer_and_is_surer_of_the_right_passage() -> None:
    spans = PocketReader().read("Who directed Dark Mill?", [FERRY, MILL])
    best = spans[0]
    assert (best.passage_id, best.text) == ("mill", "Rolf Anders")
    assert best.text == MILL.text[best.start : best.end]
    assert 1 >= best.confidence > PocketReader.threshold
    assert all(span.confidence < 0.5 for span in spans[1:])


@pytest.mark.parametrize("question", ["Is Dark Mill a film?", "", "?", "Who?"])
def test_pockets_spans_are_in_their_passages(question: str) -> None:
    for span in PocketReader().read(question, [MILL, EMPTY, FERRY]):
        passage = next(p for p in (MILL, FERRY) if p.id == span.passage_id)
        assert span.text == passage.text[span.start : span.end] != ""


async def test_pocket_reads_a_few_cited_articles_as_one_path() -> None:
    question, cited = (
        "Who did the directing of Dark Mill in the end?",
        [FERRY, MILL, Passage("ship", "Ship", "A ship.")],
    )
    predict(question, [cited])
    with cached_only():
        reading = await PocketSupportReader().read_alone(question, cited, "qa")
    assert reading.answer == "Rolf Anders"


def test_a_question_of_yes_or_no_has_no_span() -> None:
    assert PocketReader().read("Is Dark Mill a film?", [MILL]) == []


async def test_a_reader_may_be_an_object_or_a_callable_sync_or_async() -> None:
    span = Span("mill", "Dark", 0, 4, 2.0)

    class Own:
        name, threshold = "own", 1.5

        async def read(self, question: str, passages: Sequence[Passage]) -> tuple[Span, ...]:
            return (span,)

    for source, threshold in ((Own(), 1.5), (Own().read, 0.5), (lambda question, passages: [span], 0.5)):
        reader = as_reader(source)
        assert await reader.read("Who?", [MILL], None) == [span]
        assert reader.threshold == threshold


@pytest.mark.parametrize("found", ["Rolf Anders", 7, None, ["Rolf Anders"]])
async def test_anything_but_spans_is_an_error_that_says_so(found: Any) -> None:
    with pytest.raises(UsageError, match=r"the reader must return polyhop.Span objects, not a"):
        await as_reader(lambda question, passages: found).read("Who?", [MILL], None)


def test_pocket_reads_a_path_as_a_whole() -> None:
    man = Passage("man", "Rolf Anders", "Rolf Anders (4 May 1899 – 1950) was a German film director.")
    (span,) = PocketReader().read_path("When was the director of Dark Mill born?", [MILL, man])
    assert (span.passage_id, span.text, man.text[span.start : span.end]) == ("man", "4 May 1899", "4 May 1899")
    (verdict,) = PocketReader().read_path("Is Dark Mill a film?", [MILL, man])
    assert (verdict.text in ("yes", "no"), verdict.start, verdict.end) == (True, 0, 0)
    assert 0 < verdict.confidence <= 1
    assert PocketReader().read_path("Who?", []) == []


async def test_a_reader_that_reads_no_paths_reads_their_passages() -> None:
    span = Span("mill", "Dark", 0, 4, 2.0)
    assert await as_reader(lambda question, passages: [span]).read_path("Who?", [MILL, FERRY], None) == [span]
