"""Typed results of the MCP server's tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Self

from pydantic import BaseModel, Field

from polyhop.answer import references, title_and_location, with_citation_marks
from polyhop.serve.schemas import notice_of
from polyhop.serve.service import AskResponse
from polyhop.types import Passage


class FoundPassage(BaseModel):
    """A passage of the corpus."""

    rank: int = Field(description="1 for the best.")
    id: str
    title: str
    text: str


class FoundPassages(BaseModel):
    """The passages that a search found, best first."""

    passages: list[FoundPassage]

    @classmethod
    def of(cls, passages: Sequence[Passage]) -> Self:
        rows = [
            {"rank": rank, "id": passage.id, "title": title_and_location(passage), "text": passage.text}
            for rank, passage in enumerate(passages, 1)
        ]
        return cls.model_validate(valid({"passages": rows}))


class CitedPassage(BaseModel):
    """A passage that the answer rests on."""

    markers: list[int] = Field(description="The numbers it is cited by: [1] in the answer.")
    id: str
    title: str
    text: str = Field(description="The whole passage.")
    quotes: list[str] = Field(description="The places of the text that carry the answer word for word, if any.")


class FoundAnswer(BaseModel):
    """An answer with what stands behind it."""

    answer: str = Field(description="Empty where the answer was withheld.")
    content: str = Field(description="The answer with the marks of its citations, and its reasoning where written.")
    confidence: float | None = Field(description="0 to 1; null where unknown.")
    supported: bool = Field(description="Whether retrieved passages back the answer.")
    abstained: bool = Field(description="Whether there is no answer: none was found, or it was withheld as too unsure.")
    notice: str | None = Field(description="What to know before trusting the answer.")
    citations: list[CitedPassage]
    method: str
    corpus: str
    trace_id: str = Field(description="For get_trace.")

    @classmethod
    def of(cls, response: AskResponse) -> Self:
        answer = response.answer
        row = {
            "answer": answer.text,
            "content": with_citation_marks(answer),
            "confidence": answer.confidence,
            "supported": answer.supported,
            "abstained": answer.abstained,
            "notice": notice_of(answer),
            "citations": [
                {
                    "markers": reference.markers,
                    "id": reference.passage.id,
                    "title": title_and_location(reference.passage),
                    "text": reference.passage.text,
                    "quotes": [reference.passage.text[start:end] for start, end in reference.spans],
                }
                for reference in references(answer)
            ],
            "method": response.request.method,
            "corpus": response.request.corpus,
            "trace_id": response.trace_id,
        }
        return cls.model_validate(valid(row))


class FoundTrace(BaseModel):
    """The trace of an answer."""

    trace_id: str
    question: str
    method: str
    corpus: str
    answer: str
    outline: str = Field(description="Every step on a line, indented under the step it belongs to.")
    steps: list[dict[str, Any]] = Field(description="Every step in order: its id, its parent, what it waited for.")
    passages: dict[str, dict[str, Any]] = Field(description="By id, every passage that the steps name.")

    @classmethod
    def of(cls, response: AskResponse) -> Self:
        trace = response.answer.trace.to_dict()
        row = {
            "trace_id": response.trace_id,
            "question": response.request.question,
            "method": response.request.method,
            "corpus": response.request.corpus,
            "answer": response.answer.text,
            "outline": response.answer.trace.outline(),
            "steps": trace["steps"],
            "passages": trace["passages"],
        }
        return cls.model_validate(valid(row))


def valid(value: Any) -> Any:
    """A JSON-ready value whose texts can be sent: half of a surrogate pair becomes a question mark.

    >>> valid({"text": "a\\ud800", "numbers": (1, 2)})
    {'text': 'a?', 'numbers': [1, 2]}
    """
    return json.loads(json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace"))
