"""The tasks of methods that judge first: Corrective RAG (Yan et al., 2024) and Adaptive-RAG (Jeong et al., 2024)."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

from pydantic import Field, field_validator

from polyhop.prompts.lines import Choice, Line
from polyhop.prompts.tasks.base import Output, Task


class Rewrite(Output):
    """Corrective RAG §4.5: the question as a query for a search engine."""

    query: str = Field(description="key phrases, at most three")

    def missing(self) -> str | None:
        return None if self.query else 'the "query" must not be empty'


Strategy: TypeAlias = Literal["none", "single", "multi"]


class Complexity(Output):
    """Adaptive-RAG §3.2: how much retrieval a question needs."""

    strategy: Strategy = Field(description="none, single or multi: the searches that the question needs")

    @field_validator("strategy", mode="before")
    @classmethod
    def _as_named(cls, value: Any) -> Any:
        return value.strip().lower() if isinstance(value, str) else value


CRAG_REWRITE = Task(
    "crag.rewrite",
    fields=("question",),
    output=Rewrite,
    lines=(Line("Query", "query", also=("search query", "keywords"), bare=True),),
    default={"query": ""},
)
ROUTE_CHOOSE = Task(
    "route.choose",
    fields=("question",),
    output=Complexity,
    lines=(Choice("Strategy", "strategy", get_args(Strategy), also=("answer",)),),
    default={"strategy": "single"},
)
