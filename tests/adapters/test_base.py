"""The common part of the adapters: nothing is lost between passages and documents; retrievers, models, threads."""

from __future__ import annotations

import asyncio
import datetime
import importlib
import sys
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given

from polyhop.adapters.base import (
    RESERVED,
    SETTINGS,
    ChatLM,
    ExternalRetriever,
    OpenPipeline,
    Reply,
    answer_row,
    metadata_of,
    passage_of,
    sources,
)
from polyhop.answer import Answer
from polyhop.errors import LMError, MissingExtra, PolyhopError, RetrievalError, UsageError
from polyhop.lm.base import LanguageModel, Request
from polyhop.trace import Step
from polyhop.types import Evidence, Passage
from tests.kit.adapters import ANSWER, CORPUS, QUESTION, facts, metadata, passages, pipeline, request, same


@pytest.mark.parametrize(
    ("extra", "module"), [("langchain", "langchain_core"), ("llamaindex", "llama_index"), ("haystack", "haystack")]
)
def test_without_its_library_an_adapter_names_the_install_line(
    extra: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(sys.modules):
        if name == f"polyhop.adapters.{extra}" or name.partition(".")[0] == module:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'polyhop\[{extra}\]'"):
        importlib.import_module(f"polyhop.adapters.{extra}")


# --- documents --------------------------------------------------------------------------------------------------------


@given(passages)
def test_a_passage_comes_back_from_a_document_as_it_was(passage: Passage) -> None:
    assert same(passage_of(passage.id, passage.text, metadata_of(passage)), passage)


@given(metadata)
def test_their_metadata_comes_back_from_a_passage_as_it_was(theirs: dict[str, Any]) -> None:
    theirs.pop(RESERVED, None)
    assert metadata_of(passage_of("1", "text", theirs)) == theirs


def test_valid_title_and_links_become_the_passages() -> None:
    passage = passage_of("1", "text", {"title": "Alien", "links": ["Ridley Scott"], "page": 3})
    assert (passage.title, passage.links, passage.metadata) == ("Alien", ("Ridley Scott",), {"page": 3})
    strange = {"title": 7, "links": "Ridley Scott"}
    passage = passage_of("1", "text", strange)
    assert (passage.title, passage.links, passage.metadata) == ("", (), strange)


def test_a_document_without_an_id_has_a_steady_one() -> None:
    def name(text: str, **given: Any) -> str:
        return passage_of(None, text, given).id

    assert name("text", title="T", source="a.txt", score=0.1) == name("text", title="T", source="a.txt", score=0.2)
    assert len({name("text"), name("other"), name("text", title="T"), name("text", source="a.txt")}) == 4


def test_a_passage_with_metadata_of_any_kind_can_be_written() -> None:
    theirs = {"day": datetime.date(1979, 5, 25), "score": np.float32(0.5), "vector": np.arange(2), 3: {"set": {1}}}
    passage = passage_of("1", "text", theirs)
    assert dict(passage.metadata) == theirs
    assert orjson.loads(orjson.dumps(passage.to_dict()))["metadata"] == {
        "day": "1979-05-25",
        "score": 0.5,
        "vector": [0, 1],
        "3": {"set": [1]},
    }


# --- a pipeline -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [CORPUS, lambda query, k: CORPUS[:k]], ids=["a corpus", "a callable"])
async def test_what_is_searched_may_be_anything_a_pipeline_takes(source: Any) -> None:
    opened = OpenPipeline(source, {"method": "bm25"})
    found = await opened.search("film Alien", 1)
    assert [passage.id for passage, _ in found] == ["alien"]
    scored = found[0][1] is not None
    assert scored == isinstance(source, list)
    await asyncio.to_thread(opened.close)


def test_an_open_pipeline_takes_no_options() -> None:
    with pipeline() as qa, pytest.raises(UsageError, match="top_p: an open Pipeline has its settings"):
        OpenPipeline(qa, {"top_p": 1})


def test_an_open_pipeline_is_left_open() -> None:
    with pipeline() as qa:
        opened = OpenPipeline(qa, {})
        assert opened.wait(qa.aask(QUESTION)).text == ANSWER
        opened.close()
        assert qa.ask(QUESTION).text == ANSWER


def test_many_threads_share_one_loop() -> None:
    with pipeline() as qa, ThreadPoolExecutor(8) as threads:
        opened = OpenPipeline(qa, {})
        loops = set(threads.map(lambda _: opened.wait(_loop()), range(32)))
        assert len(loops) == 1
        opened.close()


async def _loop() -> int:
    await asyncio.sleep(0.001)
    return id(asyncio.get_running_loop())


async def test_ordinary_code_waits_inside_a_running_loop_too() -> None:
    with pipeline() as qa:
        opened = OpenPipeline(qa, {})
        assert opened.wait(qa.aask(QUESTION)).text == ANSWER
        opened.close()


def test_leaving_a_stream_ends_it() -> None:
    ended = []

    async def steps() -> AsyncGenerator[int, None]:
        try:
            for number in range(9):
                yield number
        finally:
            ended.append(True)

    with pipeline() as qa:
        opened = OpenPipeline(qa, {})
        assert list(opened.iterate(steps())) == list(range(9))
        stream = opened.iterate(steps())
        assert next(stream) == 0
        assert len(ended) == 1
        stream.close()  # type: ignore[attr-defined]
        assert len(ended) == 2
        assert all(isinstance(step, Step | Answer) for step in opened.iterate(qa.stream(QUESTION)))
        opened.close()


def test_all_that_is_cited_is_among_the_sources() -> None:
    answer = Answer("x", (CORPUS[1],), (Evidence((CORPUS[0], CORPUS[1])),))
    assert [passage.id for passage in sources(answer)] == ["scott", "alien"]


def test_an_answers_metadata_is_json() -> None:
    with pipeline() as qa:
        answer = qa.ask(QUESTION)
    row = orjson.loads(orjson.dumps(answer_row(answer, trace=False)))
    assert row.keys() == answer.to_dict().keys() - {"passages", "trace"}
    assert (row["answer"], row["supported"], row["usage"]["calls"]) == (ANSWER, True, 1)
    assert answer_row(answer, trace=True)["trace"] == answer.trace.to_dict()


# --- their retriever --------------------------------------------------------------------------------------------------


async def test_their_hits_are_distinct_and_no_more_than_asked_for() -> None:
    async def find(query: str, k: int) -> list[Passage]:
        return [CORPUS[0], CORPUS[0], *CORPUS]

    assert await ExternalRetriever("r", find)("film", 2) == CORPUS[:2]
    assert await ExternalRetriever("r", find)(" ", 2) == []


async def test_an_error_of_theirs_is_ours_and_names_the_retriever() -> None:
    async def find(query: str, k: int) -> list[Passage]:
        raise ConnectionError("no route")

    with pytest.raises(RetrievalError, match="the retriever r: ConnectionError: no route") as raised:
        await ExternalRetriever("r", find)("film", 2)
    assert isinstance(raised.value.__cause__, ConnectionError)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (lambda: [passage_of({"a": 1}, "text", {})], "the id of a document is {'a': 1}, expected a string"),  # type: ignore[arg-type]
        (lambda: [passage_of("1", None, {})], "the text of a document is None, expected a string"),  # type: ignore[arg-type]
        (lambda: [passage_of("1", "text", [1, 2])], "TypeError"),  # type: ignore[arg-type]
        (lambda: None, "the passages are None, expected a list"),
        (lambda: ["text"], "the passages are .*, expected a list"),
    ],
    ids=["id", "text", "metadata", "nothing", "texts"],
)
async def test_documents_of_other_types_are_named(found: Callable[[], Any], message: str) -> None:
    async def find(query: str, k: int) -> Any:
        return found()

    with pytest.raises(RetrievalError, match=f"the retriever r: .*{message}"):
        await ExternalRetriever("r", find)("film", 2)


@pytest.mark.parametrize("said", ["\x1b]0;title\x07 no\nmore\u202e", "word " * 20_000], ids=["controls", "long"])
async def test_what_their_errors_say_is_one_printable_line(said: str) -> None:
    async def find(query: str, k: int) -> list[Passage]:
        raise ConnectionError(said)

    for work in (ExternalRetriever("r", find)("film", 2), Told(ConnectionError(said)).complete(request())):
        with pytest.raises(PolyhopError, match="ConnectionError: ") as raised:
            await work
        assert str(raised.value).isprintable()
        assert len(str(raised.value)) < 500


# --- their chat model -------------------------------------------------------------------------------------------------


class Told(ChatLM):
    """A chat model that replies what it was made with, and keeps what it was sent."""

    def __init__(self, reply: Reply | Exception, settings: Any = SETTINGS) -> None:
        super().__init__("scripted", settings)
        self.reply, self.sent = reply, dict[str, Any]()

    async def _reply(self, request: Request, settings: dict[str, Any]) -> Reply:
        self.sent = settings
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


async def test_a_reply_is_read_as_a_servers() -> None:
    lm = Told(Reply("<think>Born there.</think>\nRome\n\nQ: next", "end_turn", {"input_tokens": 9, "output_tokens": 4}))
    assert isinstance(lm, LanguageModel)
    assert facts(await lm.complete(request(stop=("\n\nQ:",)))) == ("Rome", "Born there.", "stop", 9, 4, False)
    lm = Told(Reply("Rome", None, None, "Born there."))
    assert facts(await lm.complete(request())) == ("Rome", "Born there.", "stop", 3, 1, True)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("stop", "stop"),
        ("STOP", "stop"),
        ("max_tokens", "length"),
        ("MAX_TOKENS", "length"),
        ("length", "length"),
        ("SAFETY", "content_filter"),
        ("tool_calls", "tool_calls"),
    ],
)
async def test_finish_reasons_are_translated(theirs: str, ours: str) -> None:
    assert (await Told(Reply("Rome", theirs)).complete(request())).finish_reason == ours


async def test_what_is_sent_goes_by_the_models_names() -> None:
    lm = Told(Reply("Rome"))
    await lm.complete(request(temperature=0.5, max_tokens=7, stop=("\n",), seed=1))
    assert lm.sent == {"temperature": 0.5, "max_tokens": 7, "stop": ["\n"]}
    await lm.complete(request(max_tokens=7))
    assert lm.sent == {"temperature": 0.0, "max_tokens": 7}
    lm = Told(Reply("Rome"), {"max_tokens": "max_output_tokens", "seed": "seed", "logprobs": "logprobs"})
    assert lm.capabilities.seed
    assert lm.capabilities.token_logprobs
    await lm.complete(request(max_tokens=7, seed=1, logprobs=True))
    assert lm.sent == {"max_output_tokens": 7, "seed": 1, "logprobs": True}


async def test_log_probabilities_are_those_of_the_answer() -> None:
    tokens = [{"token": "Ro", "logprob": -1.0, "bytes": None}, {"token": "me", "logprob": -2.0, "bytes": None}]
    reply = await Told(Reply("Rome", logprobs={"content": tokens})).complete(request())
    assert (reply.tokens, reply.logprobs) == (("Ro", "me"), (-1.0, -2.0))


def test_a_setting_that_no_request_has_is_refused() -> None:
    with pytest.raises(UsageError, match="settings: unknown top_p"):
        Told(Reply(""), {"top_p": "top_p"})


async def test_an_error_of_their_model_is_ours() -> None:
    with pytest.raises(LMError, match="scripted: TimeoutError"):
        await Told(TimeoutError()).complete(request())
