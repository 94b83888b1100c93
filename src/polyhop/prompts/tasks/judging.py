"""The tasks of methods that judge first: Corrective RAG (Yan et al., 2024) and Adaptive-RAG (Jeong et al., 2024)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from polyhop.prompts.lines import Line
from polyhop.prompts.tasks.base import Output, Task


class Rewrite(Output):
    """Corrective RAG §4.5: the question as a query for a search engine."""

    query: str = Field(description="key phrases, at most three")


class Strategy(Output):
    """Adaptive-RAG §3.2: how much retrieval a question needs."""

    strategy: Literal["none", "single", "multi"] = Field(
        description="none, single or multi: the searches that the question needs"
    )


CRAG_REWRITE = Task(
    "crag.rewrite",
    fields=("question",),
    output=Rewrite,
    lines=(Line("Query", "query", also=("search query", "keywords"), bare=True),),
    default={"query": ""},
)
