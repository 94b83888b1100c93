"""LlamaIndex's own objects over a pipeline of ours, and a pipeline over LlamaIndex's."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given

from polyhop import Pipeline
from polyhop.errors import LMError, RetrievalError, UsageError
from polyhop.types import Passage
from tests.kit.adapters import ANSWER, CORPUS, QUESTION, facts, metadata, passages, pipeline, request, same

pytest.importorskip("llama_index.core")

from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    TextBlock,
    ThinkingBlock,
)
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import CustomLLM, MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import ResponseMode
from llama_index.core.schema import ImageNode, NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode
from llama_index.core.tools import QueryEngineTool

from polyhop.adapters.llamaindex import (
    LlamaIndexLM,
    PolyhopQueryEngine,
    PolyhopRetriever,
    from_llamaindex,
    to_node,
    to_passage,
)

pytestmark = pytest.mark.extra

# --- nodes ------------------------------------------------------------------------------------------------------------


@given(passages)
def test_a_passage_comes_back_as_it_was(passage: Passage) -> None:
    assert same(to_passage(to_node(passage)), passage)


@given(metadata)
def test_a_node_comes_back_as_it_was(theirs: dict[str, Any]) -> None:
    node = TextNode(id_="1", text="text", metadata=theirs, start_char_idx=4, embedding=[0.5])
    node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="document")
    found = NodeWithScore(node=node, score=0.5)
    assert to_node(to_passage(found)) == found


def test_a_node_of_another_kind_comes_back_as_it_was() -> None:
    found = NodeWithScore(node=ImageNode(text="a ship", image_url="https://example.org/ship.png"), score=None)
    assert to_passage(found).text == "a ship"
    assert to_node(to_passage(found)) == found


# --- ours as theirs ---------------------------------------------------------------------------------------------------


async def test_the_retriever_is_one_of_theirs() -> None:
    retriever = PolyhopRetriever(CORPUS, k=1, method="bm25")
    (found,) = retriever.retrieve("film Alien")
    assert found.node == TextNode(id_="alien", text=CORPUS[0].text, metadata={"title": "Alien (film)", "page": 3})
    assert found.score is not None
    assert found.score > 0
    assert await retriever.aretrieve(QueryBundle("film Alien")) == [found]
    assert retriever.retrieve("zzz") == []


def test_the_retriever_takes_an_open_pipeline_and_has_no_score_if_there_is_none() -> None:
    with pipeline(retriever=lambda query, k: CORPUS[-k:]) as qa:
        (found,) = PolyhopRetriever(qa, k=1).retrieve("any")
    assert (found.node.node_id, found.score) == ("rome", None)


def test_their_query_engine_answers_over_our_retriever() -> None:
    engine = RetrieverQueryEngine.from_args(
        PolyhopRetriever(CORPUS, k=2, method="bm25"), llm=MockLLM(), response_mode=ResponseMode.COMPACT
    )
    assert [found.node.node_id for found in engine.query("Ridley Scott").source_nodes] == ["scott", "alien"]


async def test_the_query_engine_answers() -> None:
    with pipeline() as qa:
        engine = PolyhopQueryEngine(qa)
        response = engine.query(QUESTION)
        assert str(response) == response.response == ANSWER
        assert [found.node.node_id for found in response.source_nodes][:2] == ["scott", "alien"]
        assert response.metadata["citations"][0] == {"marker": 1, "passage_id": "scott", "start": 44, "end": 57}
        assert response.metadata["supported"]
        assert "trace" not in response.metadata
        assert (await engine.aquery(QueryBundle(QUESTION))).response == ANSWER
        steps = PolyhopQueryEngine(qa, trace=True).query(QUESTION).metadata["trace"]["steps"]
        assert [step["kind"] for step in steps] == ["search", "ask"]


async def test_the_query_engine_is_a_tool() -> None:
    with pipeline() as qa:
        tool = QueryEngineTool.from_defaults(PolyhopQueryEngine(qa), name="films", description="about films")
        assert tool.call(QUESTION).content == (await tool.acall(QUESTION)).content == ANSWER


def test_an_empty_question_is_refused() -> None:
    with pipeline() as qa, pytest.raises(UsageError, match="the question is empty"):
        PolyhopQueryEngine(qa).query(" ")


# --- theirs as ours: retrievers ---------------------------------------------------------------------------------------


async def test_a_vector_index_is_searched() -> None:
    index = VectorStoreIndex([to_node(passage).node for passage in CORPUS], embed_model=MockEmbedding(8))
    search = from_llamaindex(index.as_retriever(similarity_top_k=3))
    assert search.name == "llamaindex:VectorIndexRetriever"
    found = await search("any", 2)
    assert len(found) == 2
    known = {passage.id: passage for passage in CORPUS}
    assert all(same(passage, known[passage.id]) for passage in found)


class Fixed(BaseRetriever):
    """Nodes it was made with; it tells the thread that it works on."""

    def __init__(self, nodes: list[NodeWithScore]) -> None:
        super().__init__()
        self.nodes, self.thread = nodes, ""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.thread = threading.current_thread().name
        if query_bundle.query_str == "down":
            raise ConnectionError("no route")
        return self.nodes


class Awaited(Fixed):
    """One that is async."""

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._retrieve(query_bundle)


async def test_one_that_is_not_async_works_on_a_thread() -> None:
    nodes = [to_node(passage, 0.5) for passage in CORPUS]
    blocking, awaited = Fixed(nodes), Awaited(nodes)
    here = threading.current_thread().name
    assert await from_llamaindex(blocking)("any", 9) == await from_llamaindex(awaited)("any", 9) == CORPUS
    assert blocking.thread != here
    assert awaited.thread == here
    with pytest.raises(RetrievalError, match="llamaindex:Fixed: ConnectionError: no route"):
        await from_llamaindex(blocking)("down", 1)


def test_a_pipeline_answers_over_their_retriever_and_gives_their_nodes_back() -> None:
    nodes = [to_node(passage, 0.5) for passage in CORPUS[:2]]
    with pipeline(retriever=from_llamaindex(Fixed(nodes))) as qa:
        response = PolyhopQueryEngine(qa).query(QUESTION)
    assert response.response == ANSWER
    assert response.source_nodes == nodes


# --- theirs as ours: language models ----------------------------------------------------------------------------------


class Chat(CustomLLM):
    """Replies as it was made to, and keeps what it was asked and on which thread."""

    reply: Any = None
    asked: list[Any] = []  # noqa: RUF012

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_chat_model=True, model_name="chat-1")

    def chat(self, messages: Any, **kwargs: Any) -> Any:
        self.asked.append((messages, kwargs, threading.current_thread().name))
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError


class AwaitedChat(Chat):
    """One that is async."""

    async def achat(self, messages: Any, **kwargs: Any) -> ChatResponse:
        return self.chat(messages, **kwargs)


def chat(reply: Any, made: type[Chat] = Chat) -> Chat:
    model = made()
    model.reply, model.asked = reply, []
    return model


OPENAI = {
    "choices": [
        {
            "finish_reason": "length",
            "logprobs": {"content": [{"token": "Rome", "bytes": None, "logprob": -0.5, "top_logprobs": []}]},
        }
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 4},
}
ANTHROPIC = {"stop_reason": "max_tokens", "usage": {"input_tokens": 9, "output_tokens": 4}}


@pytest.mark.parametrize("raw", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
async def test_an_llm_is_asked_and_read(raw: Any) -> None:
    blocks = [ThinkingBlock(content="Born there."), TextBlock(text="Rome")]
    llm = chat(ChatResponse(message=ChatMessage(role="assistant", blocks=blocks), raw=raw))
    lm = LlamaIndexLM(llm)
    assert lm.name == "llamaindex:chat-1"
    completion = await lm.complete(request(stop=("\n",), max_tokens=7, temperature=0.5))
    assert facts(completion) == ("Rome", "Born there.", "length", 9, 4, False)
    assert completion.logprobs == ((-0.5,) if raw is OPENAI else None)
    ((messages, kwargs, _),) = llm.asked
    assert [(message.role.value, message.content) for message in messages] == [("system", "Answer."), ("user", "Who?")]
    assert kwargs == {"temperature": 0.5, "max_tokens": 7, "stop": ["\n"]}


async def test_token_counts_of_the_integration_are_read() -> None:
    reply = ChatResponse(
        message=ChatMessage(role="assistant", content="Rome"),
        additional_kwargs={"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
    )
    assert facts(await LlamaIndexLM(chat(reply)).complete(request())) == ("Rome", None, "stop", 9, 4, False)


async def test_an_llm_that_is_not_async_works_on_a_thread() -> None:
    reply = ChatResponse(message=ChatMessage(role="assistant", content="Rome"))
    blocking, awaited = chat(reply), chat(reply, AwaitedChat)
    for llm in (blocking, awaited):
        assert (await LlamaIndexLM(llm).complete(request())).text == "Rome"
    here = threading.current_thread().name
    assert blocking.asked[0][2] != here
    assert awaited.asked[0][2] == here


async def test_an_error_of_an_llm_is_ours() -> None:
    with pytest.raises(LMError, match="llamaindex:chat-1: ValueError: no key"):
        await LlamaIndexLM(chat(ValueError("no key"))).complete(request())


class Completing(CustomLLM):
    """A model that completes texts."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="text-1")

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=f"So the answer is: {ANSWER}")

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError


def test_a_pipeline_answers_by_their_llm() -> None:
    with Pipeline(CORPUS, "one-r", LlamaIndexLM(Completing())) as qa:
        answer = qa.ask(QUESTION)
    assert ANSWER in answer.text
    assert answer.trace.calls[0].model == "llamaindex:text-1"
