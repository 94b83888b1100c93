"""LangChain: a retriever and a runnable over a polyhop pipeline; LangChain retrievers and chat models for a
pipeline."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import asdict
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
from polyhop.errors import MissingExtra, UsageError
from polyhop.lm.base import Request
from polyhop.pipeline import Pipeline
from polyhop.trace import Step, passages_in
from polyhop.types import Kind, Passage

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import Runnable, RunnableConfig
    from langchain_core.vectorstores import VectorStoreRetriever
    from pydantic import PrivateAttr
except ImportError as error:
    raise MissingExtra("polyhop.adapters.langchain", "langchain") from error


def to_document(passage: Passage) -> Document:
    """Convert a passage to a LangChain document, title and links in its metadata. A passage made from a document gives
    that document back."""
    if isinstance(passage, ExternalPassage) and isinstance(passage.original, Document):
        return passage.original.model_copy(update={"metadata": dict(passage.original.metadata)})
    return Document(id=passage.id, page_content=passage.text, metadata=metadata_of(passage))


def to_passage(document: Document) -> Passage:
    """Convert a LangChain document to a passage (``adapters.base.passage_of``)."""
    return passage_of(document.id, document.page_content, document.metadata, document)


# --- polyhop for the framework ---------------------------------------------------------------------------------------


class PolyhopRetriever(BaseRetriever):
    """A LangChain retriever. ``source``: an open ``Pipeline``, whose retriever and reranker are asked, else a retriever
    or a corpus (a file, folder, index or passages), opened with ``options`` of a ``Pipeline``. ``k``: passages per
    search; ``invoke(query, k=3)`` for one."""

    source: Any
    k: int = 5
    options: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies it
    _opened: OpenPipeline = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Open what is searched."""
        super().model_post_init(context)
        self._opened = OpenPipeline(self.source, self.options)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return [to_document(passage) for passage, _ in self._opened.wait(self._opened.search(query, k or self.k))]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return [to_document(passage) for passage, _ in await self._opened.search(query, k or self.k)]


class PolyhopRunnable(Runnable[Any, Any]):
    """A LangChain runnable that answers: a question, or a mapping with a ``question``, to a dict: ``question``,
    ``documents`` and all of ``Answer.to_dict`` but the passages (``trace`` adds the trace).

    With ``message`` to an ``AIMessage`` instead, its text annotated with LangChain's citations, the dict but for text
    and documents in ``response_metadata``. ``stream`` gives ``{"step": …, "documents": […]}`` for each step of the
    trace as it happens, then the answer. ``source`` and ``options`` as ``PolyhopRetriever``'s.
    """

    def __init__(
        self,
        source: Pipeline | Source | Searcher | None = None,
        *,
        kind: Kind = "qa",
        message: bool = False,
        trace: bool = False,
        **options: Any,
    ) -> None:
        self._opened = OpenPipeline(source, options)
        self.kind, self.message, self.trace = kind, message, trace

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Answer a question."""
        return self._call_with_config(lambda value: self._opened.wait(self._answer(value)), input, config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Answer a question, as a coroutine."""
        return await self._acall_with_config(self._answer, input, config)

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Any]:
        """Yield the steps as they happen, then the answer."""

        def steps(inputs: Iterator[Any]) -> Iterator[Any]:
            for value in inputs:
                yield from self._opened.iterate(self._steps(value))

        yield from self._transform_stream_with_config(iter([input]), steps, config)

    async def astream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Any]:
        """Yield what ``stream`` yields, asynchronously."""

        async def given() -> AsyncIterator[Any]:
            yield input

        async def steps(inputs: AsyncIterator[Any]) -> AsyncIterator[Any]:
            async for value in inputs:
                async with aclosing(self._steps(value)) as taken:
                    async for step in taken:
                        yield step

        async with aclosing(self._atransform_stream_with_config(given(), steps, config)) as stream:
            async for step in stream:
                yield step

    async def _answer(self, value: Any) -> Any:
        question = _question(value)
        return self._output(question, await self._opened.pipeline.aask(question, kind=self.kind))

    async def _steps(self, value: Any) -> AsyncGenerator[Any, None]:
        question = _question(value)
        async with aclosing(self._opened.pipeline.stream(question, kind=self.kind)) as stream:
            async for step in stream:
                if isinstance(step, Step):
                    documents = [to_document(passage) for passage in dict.fromkeys(passages_in(step))]
                    yield {"step": step.to_dict(), "documents": documents}
                else:
                    yield self._output(question, step)

    def _output(self, question: str, answer: Answer) -> Any:
        row = {"question": question, **answer_row(answer, trace=self.trace)}
        if not self.message:
            return {**row, "documents": [to_document(passage) for passage in sources(answer)]}
        del row["answer"]
        usage = answer.usage
        return AIMessage(
            [{"type": "text", "text": answer.text, "annotations": _citations(answer)}],
            response_metadata=row,
            usage_metadata={
                "input_tokens": usage.prompt_tokens,
                "output_tokens": usage.completion_tokens,
                "total_tokens": usage.prompt_tokens + usage.completion_tokens,
                "output_token_details": {"reasoning": usage.reasoning_tokens},
            },
        )


def _question(value: Any) -> str:
    question = value.get("question") if isinstance(value, Mapping) else value
    if not isinstance(question, str):
        raise UsageError(f"a question is a text or a mapping with a text under 'question', not {value!r}")
    return question


def _citations(answer: Answer) -> list[dict[str, Any]]:
    """Return the citations in LangChain's form: offsets in the answer; offsets in the passage under ``extras``."""
    known = {passage.id: passage for passage in sources(answer)}
    rows = []
    for cited in answer.citations:
        passage = known.get(cited.passage_id)
        span = {"title": passage.title if passage else "", "start_index": 0, "end_index": len(answer.text)}
        text = {"cited_text": passage.text[cited.start : cited.end]} if passage and cited.start is not None else {}
        rows.append({"type": "citation", **span, **text, "extras": asdict(cited)})
    return rows


# --- the framework for polyhop ---------------------------------------------------------------------------------------


def from_langchain(retriever: BaseRetriever) -> ExternalRetriever:
    """A LangChain retriever for ``Pipeline(retriever=…)``. One over a vector store, or that takes a ``k``, is asked for
    as many passages as a method needs. Others return a fixed number, so configure them to return enough."""
    takes_k = "k" in inspect.signature(retriever._get_relevant_documents).parameters
    counted = takes_k or isinstance(retriever, VectorStoreRetriever)

    async def find(query: str, k: int) -> list[Passage]:
        return [to_passage(document) for document in await retriever.ainvoke(query, **({"k": k} if counted else {}))]

    return ExternalRetriever(f"langchain:{retriever.get_name()}", find)


class LangChainLM(ChatLM):
    """A LangChain chat model for ``Pipeline(lm=…)``; ``settings`` as ``adapters.base.SETTINGS``."""

    def __init__(self, model: BaseChatModel, *, settings: Mapping[str, str] = SETTINGS) -> None:
        named = getattr(model, "model_name", None) or getattr(model, "model", None) or model.get_name()
        super().__init__(f"langchain:{named}", settings)
        self.identity = f"{self.name} {model._get_llm_string()}"  # LangChain's own cache distinguishes models by this
        self._model = model

    async def _reply(self, request: Request, settings: dict[str, Any]) -> Reply:
        message = await self._model.ainvoke([*request.messages], **settings)
        facts = message.response_metadata
        thoughts = [block.get("reasoning", "") for block in message.content_blocks if block["type"] == "reasoning"]
        return Reply(
            message.text,
            finish_reason_of(facts),
            message.usage_metadata,
            "\n\n".join(filter(None, thoughts)) or None,
            facts.get("logprobs"),
        )
