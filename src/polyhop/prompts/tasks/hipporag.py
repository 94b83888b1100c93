"""The tasks of HippoRAG 2 (Gutiérrez et al., 2025): the entities and triplets of a passage, and the facts that matter.

``triplets`` of ``hipporag.filter`` are the facts nearest to the question.
"""

from __future__ import annotations

from pydantic import Field

from polyhop.prompts.lines import Items
from polyhop.prompts.show import show_bullets
from polyhop.prompts.tasks.base import Output, Task
from polyhop.prompts.tasks.ge import show_passage, show_triplets, triplets_task


class NamedEntities(Output):
    """§3.2: the named entities of a passage."""

    entities: list[str] = Field(description="the names, each once")


HIPPORAG_ENTITIES = Task(
    "hipporag.entities",
    fields=("passage",),
    output=NamedEntities,
    lines=(Items("entities", "the entities", example="<name>"),),
    default={"entities": []},
    show={"passage": show_passage},
)
HIPPORAG_TRIPLETS = triplets_task(
    "hipporag.triplets", fields=("passage", "entities"), show={"passage": show_passage, "entities": show_bullets}
)
HIPPORAG_FILTER = triplets_task("hipporag.filter", fields=("question", "triplets"), show={"triplets": show_triplets})
