"""Haystack's own pipelines with components of ours, and a pipeline of ours over Haystack's components."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given

import polyhop
from polyhop.errors import LMError, RetrievalError, UsageError
from polyhop.types import Passage
from tests.kit.adapters import ANSWER, CORPUS, QUESTION, facts, metadata, passages, pipeline, request, same

pytest.importorskip("haystack")

from haystack import Document, Pipeline, component
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.joiners import DocumentJoiner
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
from haystack.core.errors import DeserializationError, SerializationError
from haystack.dataclasses import ByteStream, ChatMessage, GeneratedAnswer, ReasoningContent, SparseEmbedding
from haystack.document_stores.in_memory import InMemoryDocumentStore

from polyhop.adapters.haystack import (
    HaystackLM,
    PolyhopAnswerer,
    PolyhopRetriever,
    from_haystack,
    to_document,
    to_passage,
)

pytestmark = pytest.mark.extra


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """The three passages as a file."""
    file = tmp_path / "corpus.jsonl"
    file.write_bytes(b"\n".join(orjson.dumps(passage.to_dict()) for passage in CORPUS))
    return file


# --- documents --------------------------------------------------------------------------------------------------------


@given(passages)
def test_a_passage_comes_back_as_it_was(passage: Passage) -> None:
    assert same(to_passage(to_document(passage)), passage)


@given(metadata)
def test_a_document_comes_back_as_it_was(theirs: dict[str, Any]) -> None:
    sparse = SparseEmbedding([1], [0.5])
    document = Document(id="1", content="text", meta=theirs, score=0.5, embedding=[0.5], sparse_embedding=sparse)
    assert to_document(to_passage(document)) == document


def test_a_document_without_a_text_comes_back_as_it_was() -> None:
    document = Document(blob=ByteStream(b"ship"))
    assert to_passage(document).text == ""
    assert to_document(to_passage(document)) == document


# --- ours as theirs ---------------------------------------------------------------------------------------------------


async def test_the_retriever_stands_in_a_pipeline_of_theirs(corpus: Path) -> None:
    theirs = Pipeline()
    theirs.add_component("films", PolyhopRetriever(corpus, top_k=1, method="bm25"))
    theirs.add_component("join", DocumentJoiner(join_mode="merge"))
    theirs.connect("films.documents", "join.documents")
    (document,) = theirs.run({"films": {"query": "film Alien"}})["join"]["documents"]
    assert (document.id, document.content) == ("alien", CORPUS[0].text)
    assert document.meta == {"title": "Alien (film)", "page": 3}
    assert document.score > 0
    found = (await theirs.run_async({"films": {"query": "Ridley Scott", "top_k": 2}}))["join"]["documents"]
    assert [document.id for document in found] == ["scott", "alien"]
    theirs.close()


async def test_the_answerer_stands_in_a_pipeline_of_theirs() -> None:
    with pipeline() as qa:
        theirs = Pipeline()
        theirs.add_component("films", PolyhopAnswerer(qa))
        (answer,) = theirs.run({"films": {"query": QUESTION}})["films"]["answers"]
        assert isinstance(answer, GeneratedAnswer)
        assert (answer.data, answer.query) == (ANSWER, QUESTION)
        assert [document.id for document in answer.documents][:2] == ["scott", "alien"]
        assert answer.meta["citations"][0] == {"marker": 1, "passage_id": "scott", "start": 44, "end": 57}
        assert "trace" not in answer.meta
        assert GeneratedAnswer.from_dict(orjson.loads(orjson.dumps(answer.to_dict()))) == answer
        (awaited,) = (await theirs.run_async({"films": {"query": QUESTION}}))["films"]["answers"]
        assert awaited.data == ANSWER
        (traced,) = PolyhopAnswerer(qa, trace=True).run(QUESTION)["answers"]
        assert [step["kind"] for step in traced.meta["trace"]["steps"]] == ["search", "ask"]


def test_a_pipeline_of_theirs_is_written_and_read(corpus: Path) -> None:
    theirs = Pipeline()
    theirs.add_component("find", PolyhopRetriever(corpus, top_k=2, method="bm25"))
    theirs.add_component("answer", PolyhopAnswerer(str(corpus), method="tor", lm="pocket", widths=(5, 3)))
    written = theirs.dumps()
    with pytest.raises(DeserializationError, match="trusted-module allowlist"):
        Pipeline.loads(written)
    again = Pipeline.loads(written, allowed_modules=["polyhop.adapters.haystack"])
    assert again.to_dict() == theirs.to_dict()
    row = again.to_dict()["components"]["answer"]["init_parameters"]
    assert row == {
        "source": str(corpus),
        "kind": "qa",
        "trace": False,
        "method": "tor",
        "lm": "pocket",
        "widths": [5, 3],
    }
    results = again.run({"find": {"query": "Ridley Scott"}, "answer": {"query": QUESTION}})
    assert [document.id for document in results["find"]["documents"]] == ["scott", "alien"]
    assert results["answer"]["answers"][0].data == ANSWER
    again.close()


@pytest.mark.parametrize("source", [CORPUS, lambda query, k: []], ids=["passages", "a callable"])
def test_what_was_made_of_objects_cannot_be_written(source: Any) -> None:
    with pytest.raises(SerializationError, match="PolyhopRetriever was made with an object"):
        PolyhopRetriever(source).to_dict()


@pytest.mark.parametrize(
    "secret",
    [{"lm_options": {"api_key": "k"}}, {"retriever": "elastic:http://ada:secret@localhost:9200/wiki"}],
    ids=["a key", "a password"],
)
def test_no_secret_is_written(corpus: Path, secret: dict[str, Any]) -> None:
    with pytest.raises(SerializationError, match="a key or password"):
        PolyhopAnswerer(corpus, **secret).to_dict()


def test_a_component_is_opened_once_and_an_open_one_stays_open() -> None:
    with pipeline() as qa:
        made = PolyhopAnswerer(qa)
        made.warm_up()
        assert made.run(QUESTION)["answers"][0].data == ANSWER
        made.close()
        assert qa.ask(QUESTION).text == ANSWER


def test_a_component_with_a_wrong_setting_says_so_when_it_is_opened(corpus: Path) -> None:
    with pytest.raises(UsageError, match="widht"):
        PolyhopAnswerer(corpus, method="tor", widht=3).warm_up()


# --- theirs as ours: retrievers ---------------------------------------------------------------------------------------


def store() -> InMemoryDocumentStore:
    made = InMemoryDocumentStore()
    made.write_documents([to_document(passage) for passage in CORPUS])
    return made


async def test_a_retriever_is_asked_for_as_many_as_wanted() -> None:
    search = from_haystack(InMemoryBM25Retriever(store(), top_k=1))
    assert search.name == "haystack:InMemoryBM25Retriever"
    assert len(await search("Ridley Scott", 3)) == 2
    found = await search("born in South Shields", 1)
    assert [passage.id for passage in found] == ["scott"]
    assert same(found[0], CORPUS[1])


@component
class Fixed:
    """A retriever without a number, not async; it tells the thread that it works on and whether it was warmed up."""

    def __init__(self) -> None:
        self.thread, self.warm = "", 0

    def warm_up(self) -> None:
        self.warm += 1

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, list[Document]]:
        self.thread = threading.current_thread().name
        if query == "down":
            raise ConnectionError("no route")
        return {"documents": [to_document(passage) for passage in (CORPUS[0], *CORPUS)]}


async def test_one_that_is_not_async_works_on_a_thread() -> None:
    made = Fixed()
    search = from_haystack(made)
    assert await search("any", 2) == CORPUS[:2]
    assert made.thread != threading.current_thread().name
    assert made.warm == 1
    with pytest.raises(RetrievalError, match="haystack:Fixed: ConnectionError: no route"):
        await search("down", 1)


def test_what_takes_no_query_is_refused() -> None:
    with pytest.raises(UsageError, match="InMemoryEmbeddingRetriever does not take a query and return documents"):
        from_haystack(InMemoryEmbeddingRetriever(store()))
    with pytest.raises(UsageError, match="InMemoryDocumentStore does not take a query"):
        from_haystack(store())


def test_a_pipeline_returns_the_documents_of_their_retriever() -> None:
    with pipeline(retriever=from_haystack(InMemoryBM25Retriever(store()))) as qa:
        (answer,) = PolyhopAnswerer(qa).run(QUESTION)["answers"]
    assert answer.data == ANSWER
    assert all(document.score is not None for document in answer.documents)


# --- theirs as ours: chat generators ----------------------------------------------------------------------------------


@component
class Chat:
    """A chat generator that is not async, and keeps what it was asked."""

    model = "chat-1"

    def __init__(self, reply: ChatMessage | Exception) -> None:
        self.reply, self.asked = reply, list[Any]()

    @component.output_types(replies=list[ChatMessage])
    def run(
        self, messages: list[ChatMessage], generation_kwargs: dict[str, Any] | None = None
    ) -> dict[str, list[ChatMessage]]:
        self.asked.append((messages, generation_kwargs, threading.current_thread().name))
        if isinstance(self.reply, Exception):
            raise self.reply
        return {"replies": [self.reply]}


async def test_a_chat_generator_is_asked_and_read() -> None:
    generator = Chat(
        ChatMessage.from_assistant(
            "Rome",
            meta={
                "finish_reason": "length",
                "usage": {"prompt_tokens": 9, "completion_tokens": 4},
                "logprobs": {"content": [{"token": "Rome", "bytes": None, "logprob": -0.5}]},
            },
            reasoning=ReasoningContent("Born there."),
        )
    )
    lm = HaystackLM(generator)
    assert lm.name == "haystack:chat-1"
    completion = await lm.complete(request(stop=("\n",), max_tokens=7, temperature=0.5))
    assert facts(completion) == ("Rome", "Born there.", "length", 9, 4, False)
    assert completion.logprobs == (-0.5,)
    ((messages, kwargs, thread),) = generator.asked
    assert [(message.role.value, message.text) for message in messages] == [("system", "Answer."), ("user", "Who?")]
    assert kwargs == {"temperature": 0.5, "max_tokens": 7, "stop": ["\n"]}
    assert thread != threading.current_thread().name


async def test_an_error_of_a_chat_generator_is_ours() -> None:
    with pytest.raises(LMError, match="haystack:chat-1: ValueError: no key"):
        await HaystackLM(Chat(ValueError("no key"))).complete(request())


def test_a_pipeline_answers_by_their_chat_generator() -> None:
    lm = HaystackLM(MockChatGenerator(f"So the answer is: {ANSWER}"))
    with polyhop.Pipeline(CORPUS, "one-r", lm) as qa:
        answer = qa.ask(QUESTION)
    assert ANSWER in answer.text
    assert answer.trace.calls[0].model == "haystack:mock-model"
