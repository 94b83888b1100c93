"""Engines that mean harm once they are open: passages of the right types, or one line that names the engine.

``POLYHOP_TRIES=20`` makes twenty times as many tries.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from polyhop.errors import PolyhopError, RetrievalError
from polyhop.retrieval import Index, encoders
from polyhop.retrieval.engines import Remote
from polyhop.retrieval.engines.base import readable
from polyhop.types import Passage
from tests.kit import elasticsearch_server, qdrant_server
from tests.kit.encoders import WordEncoder
from tests.kit.engine_contract import PASSAGES, built, ids, index, load, opened
from tests.kit.hostile_json import spoiled
from tests.kit.tally import count
from tests.kit.tries import tries

__all__ = ["built", "index"]

pytestmark = [pytest.mark.extra, pytest.mark.filterwarnings("ignore")]

KINDS = {"elastic": "elasticsearch", "opensearch": "opensearchpy", "qdrant": "qdrant_client"}
QUERY = "ferries cross the water of Bremen"


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, index: Index, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A server with the passages and their vectors; ``address`` is the retriever's name."""
    pytest.importorskip(KINDS[request.param])
    monkeypatch.setattr(encoders, "open_encoder", lambda spec: WordEncoder())
    monkeypatch.setattr("polyhop.retrieval.engines.base.time.sleep", lambda seconds: None)
    kit = qdrant_server if request.param == "qdrant" else elasticsearch_server
    with kit.serving(*([] if request.param == "qdrant" else [request.param])) as started:
        started.address = f"{request.param}:{started.url}/wiki"
        load(index, started.address, WordEncoder())
        yield started


def check(found: list[tuple[Passage, float]], k: int) -> None:
    """Check the hits of a search: what a method may rely on."""
    assert len(found) <= k
    assert len({passage.id for passage, _ in found}) == len(found)
    scores = [score for _, score in found]
    assert all(isinstance(score, float) and math.isfinite(score) for score in scores)
    assert scores == sorted(scores, reverse=True)
    check_types([passage for passage, _ in found])


def check_types(passages: list[Passage]) -> None:
    """Check that passages hold what their class says."""
    for passage in passages:
        assert all(isinstance(text, str) for text in (passage.id, passage.title, passage.text, *passage.links))
        assert isinstance(passage.metadata, dict)
        json.dumps(passage.to_dict())


def is_one_line_of(server: Any, text: str) -> bool:
    """True for an error of one printable line that names the engine's address."""
    return text.isprintable() and len(text) < 900 and server.url.partition("//")[2] in text


@pytest.mark.parametrize("dense", ["", "?dense=words", "?dense=words&fusion=rrf"], ids=["terms", "vectors", "both"])
def test_any_answer_of_an_engine_is_passages_or_a_line(server: Any, dense: str) -> None:
    """Some of the answers to opening, searching and following links are spoiled."""
    draw, whole = random.Random(dense), server.spoil
    said, right = list[str](), 0

    def spoil(answer: Any) -> bytes:
        if draw.random() < share:
            count("hostile inputs")
            return spoiled(answer, draw)
        return bytes(whole(answer))

    for n in range(tries(60)):
        share, retriever = (0.15, 0.5)[n % 2], None
        try:
            server.spoil = whole if n % 3 else spoil
            retriever = opened(server.address + dense)
            server.spoil = spoil
            check(retriever.search_scored(QUERY, 3), 3)
            check_types(retriever.links(PASSAGES[1]))
            right += 1
        except PolyhopError as error:
            said.append(str(error))
        finally:
            if retriever is not None:
                retriever._store.close()
    assert said
    assert right
    assert [text for text in said if not is_one_line_of(server, text)] == []


def hits_of(answer: Any) -> Any:
    """The list of hits in an answer to a search."""
    return answer["hits"]["hits"] if "hits" in answer else answer["result"]["points"]


def changed(change: Callable[[Any], Any]) -> Callable[[Any], bytes]:
    """Spoil the hits of a search by a function of their list."""

    def spoil(answer: Any) -> bytes:
        hits = hits_of(answer)
        hits[:] = change(hits)
        return json.dumps(answer).encode()

    return spoil


def scored(value: Any) -> Callable[[Any], Any]:
    """Give each hit this score."""
    return lambda hits: [{**hit, ("_score" if "_score" in hit else "score"): value} for hit in hits]


def filed(**fields: Any) -> Callable[[Any], Any]:
    """Give each hit's passage these fields."""
    return lambda hits: [
        {**hit, (part := "_source" if "_source" in hit else "payload"): {**hit[part], **fields}} for hit in hits
    ]


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a score that is no number": (scored(math.nan), "score|Input should be|number|nan"),
    "an endless score": (scored(math.inf), "score|Input should be|number|inf"),
    "a huge score": (scored(10**400), "score|Input should be|number|int too large"),
    "no score": (scored(None), "score|Input should be"),
    "an id of another type": (filed(id={"a": 1}), "'id' is an object, expected a string"),
    "a number as the id": (filed(id=7), "'id' is a number, expected a string"),
    "no text": (filed(text=None), "'text' is null, expected a string"),
    "a list as the title": (filed(title=["a"]), "'title' is an array, expected a string"),
    "links of another type": (filed(links={"a": 1}), "'links' is an object, expected an array of strings"),
    "metadata of another type": (filed(metadata="[1]"), "'metadata' is|expected an object"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_with_a_hit_is_named(server: Any, kind: str) -> None:
    change, message = WRONG[kind]
    retriever = opened(server.address)
    server.spoil = changed(change)
    with pytest.raises(RetrievalError, match=message) as caught:
        retriever.search(QUERY, 3)
    assert is_one_line_of(server, str(caught.value))


def test_hits_that_repeat_or_are_too_many_are_the_best_of_them_once(server: Any) -> None:
    retriever = opened(server.address)
    expected = retriever.search_scored(QUERY, 3)
    server.spoil = changed(lambda hits: [hit for hit in hits[::-1] for _ in range(2_000)])
    assert retriever.search_scored(QUERY, 3) == expected


def test_text_that_steers_a_terminal_comes_as_it_is_and_is_shown_as_text(server: Any) -> None:
    name = "\x1b]0;title\x07\u202eno\x00"
    retriever = opened(server.address)
    server.spoil = changed(filed(id=name))
    assert ids(retriever.search(QUERY, 3)) == [name]


def test_html_in_place_of_an_answer_is_one_line(server: Any) -> None:
    retriever = opened(server.address)
    server.spoil = lambda answer: b"<!doctype html><title>Sign in</title>" + b"<p>Please.</p>" * 2000
    with pytest.raises(RetrievalError) as caught:
        retriever.search(QUERY, 3)
    assert is_one_line_of(server, str(caught.value))
    assert isinstance(retriever, Remote)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("1", "t", "x", [], {}, float("nan")), "a score is nan, expected a number"),
        (("1", "t", "x", [], {}, "high"), "a score is 'high', expected a number"),
        ((7, "t", "x", [], {}, 1.0), "'id' is a number, expected a string"),
        (("1", None, "x", [], {}, 1.0), "'title' is null, expected a string"),
        (("1", "t", "x", {}, {}, 1.0), "'links' is an object, expected an array of strings"),
        (("1", "t", "x", [], "{}", 1.0), "'metadata' is a string, expected an object"),
        (("1", "t"), "KeyError|IndexError"),
        (None, "TypeError"),
    ],
    ids=["nan", "words", "id", "title", "links", "metadata", "short", "none"],
)
def test_rows_of_other_types_are_named(row: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg")
    from polyhop.retrieval.engines.postgres import PostgresStore

    store = object.__new__(PostgresStore)
    monkeypatch.setattr(store, "_with", lambda work: [row], raising=False)
    with (
        pytest.raises(RetrievalError, match=f"sent an unreadable answer .*{message}"),
        readable("postgres://h/db#wiki"),
    ):
        store._hits("SELECT", [], 3)
