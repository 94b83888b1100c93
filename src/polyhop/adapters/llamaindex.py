"""LlamaIndex: a retriever and a query engine over a polyhop pipeline; LlamaIndex retrievers and LLMs for a pipeline."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from typing import Any

from polyhop.adapters.base import (
    SETTINGS,
    ChatLM,
    ExternalPassage,
    ExternalRetriever,
    OpenPipeline,
    Reply,
    answer_row,
    finish_reason_of,
    metadata_of,
    passage_of,
    sources,
)
from polyhop.answer import Answer
from polyhop.engine.options import Searcher, Source
from polyhop.errors import MissingExtra
from polyhop.lm.base import Request
from polyhop.pipeline import Pipeline
from polyhop.types import Kind, Passage

try:
    from llama_index.core.base.base_query_engine import BaseQueryEngine
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.base.llms.types import ChatMessage, ThinkingBlock
    from llama_index.core.base.response.schema import Response
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.llms.custom import CustomLLM
    from llama_index.core.llms.llm import LLM
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ImportError as error:
    raise MissingExtra("polyhop.adapters.llamaindex", "llamaindex") from error


def to_node(passage: Passage, score: float | None = None) -> NodeWithScore:
    """Convert a passage to a LlamaIndex node, title and links in its metadata. A passage made from a node gives that
    node back."""
    if isinstance(passage, ExternalPassage) and isinstance(passage.original, NodeWithScore):
        return NodeWithScore(node=passage.original.node, score=passage.original.score)
    return NodeWithScore(
        node=TextNode(id_=passage.id, text=passage.text, metadata=metadata_of(passage)),
        score=score,
    )


def to_passage(found: NodeWithScore) -> Passage:
    """Convert a LlamaIndex node to a passage (``adapters.base.passage_of``); the node keeps its score."""
    return passage_of(found.node.node_id, found.node.get_content(), found.node.metadata, found)


# --- polyhop for the framework ---------------------------------------------------------------------------------------


class PolyhopRetriever(BaseRetriever):
    """A LlamaIndex retriever. ``source``: an open ``Pipeline``, whose retriever and reranker are asked, else a
    retriever or a corpus (a file, folder, index or passages), opened with ``options`` of a ``Pipeline``. ``k``: nodes
    per search, with the retriever's scores if it gives any."""

    def __init__(
        self,
        source: Pipeline | Source | Searcher | None = None,
        *,
        k: int = 5,
        callback_manager: CallbackManager | None = None,
        **options: Any,
    ) -> None:
        super().__init__(callback_manager=callback_manager)
        self.k = k
        self._opened = OpenPipeline(source, options)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._opened.wait(self._aretrieve(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = await self._opened.search(query_bundle.query_str, self.k)
        return [to_node(passage, score) for passage, score in found]


class PolyhopQueryEngine(BaseQueryEngine):
    """A LlamaIndex query engine: its ``Response`` has the answer, the passages behind it as ``source_nodes``, and in
    ``metadata`` all of ``Answer.to_dict`` but those (``trace`` adds the trace). ``source`` and ``options`` as
    ``PolyhopRetriever``'s."""

    def __init__(
        self,
        source: Pipeline | Source | Searcher | None = None,
        *,
        kind: Kind = "qa",
        trace: bool = False,
        callback_manager: CallbackManager | None = None,
        **options: Any,
    ) -> None:
        super().__init__(callback_manager)
        self.kind, self.trace = kind, trace
        self._opened = OpenPipeline(source, options)

    def _get_prompt_modules(self) -> dict[str, Any]:
        return {}

    def _query(self, query_bundle: QueryBundle) -> Response:
        return self._opened.wait(self._aquery(query_bundle))

    async def _aquery(self, query_bundle: QueryBundle) -> Response:
        answer: Answer = await self._opened.pipeline.aask(query_bundle.query_str, kind=self.kind)
        nodes = [to_node(passage) for passage in sources(answer)]
        return Response(answer.text, source_nodes=nodes, metadata=answer_row(answer, trace=self.trace))


# --- the framework for polyhop ---------------------------------------------------------------------------------------


def from_llamaindex(retriever: BaseRetriever) -> ExternalRetriever:
    """A LlamaIndex retriever for ``Pipeline(retriever=…)``; a synchronous one runs on a thread. It returns a
    fixed number of passages: set its ``similarity_top_k`` to the size of the method's widest search."""
    own = inspect.unwrap(type(retriever)._aretrieve)
    threaded = own is inspect.unwrap(BaseRetriever._aretrieve)  # which would hold up the event loop

    async def find(query: str, k: int) -> list[Passage]:
        found = await (asyncio.to_thread(retriever.retrieve, query) if threaded else retriever.aretrieve(query))
        return [to_passage(node) for node in found]

    return ExternalRetriever(f"llamaindex:{type(retriever).__name__}", find)


class LlamaIndexLM(ChatLM):
    """A LlamaIndex LLM for ``Pipeline(lm=…)``; ``settings`` as ``adapters.base.SETTINGS``. A synchronous LLM
    runs on a thread."""

    def __init__(self, llm: LLM, *, settings: Mapping[str, str] = SETTINGS) -> None:
        super().__init__(f"llamaindex:{llm.metadata.model_name}", settings)
        self._llm = llm
        own = inspect.unwrap(type(llm).achat)  # LlamaIndex wraps what a class inherits, to trace it
        self._threaded = own is inspect.unwrap(CustomLLM.achat)

    async def _reply(self, request: Request, settings: dict[str, Any]) -> Reply:
        messages = [ChatMessage(role=message["role"], content=message["content"]) for message in request.messages]
        llm = self._llm
        reply = asyncio.to_thread(llm.chat, messages, **settings) if self._threaded else llm.achat(messages, **settings)
        response = await reply
        raw = _mapping(response.raw)
        choice = _mapping((raw.get("choices") or [{}])[0])
        counted = response.additional_kwargs  # the counts, if the integration gives them
        thoughts = [block.content for block in response.message.blocks if isinstance(block, ThinkingBlock)]
        return Reply(
            response.message.content or "",
            finish_reason_of({**raw, **response.message.additional_kwargs, **counted, **choice}),
            counted if "prompt_tokens" in counted else _mapping(raw.get("usage")),
            "\n\n".join(filter(None, thoughts)) or None,
            choice.get("logprobs"),
        )


def _mapping(value: Any) -> dict[str, Any]:
    """Return a provider's reply, or a part of it, as a mapping; {} if it is not one."""
    dumped = value.model_dump() if hasattr(value, "model_dump") else value
    return dict(dumped) if isinstance(dumped, Mapping) else {}
