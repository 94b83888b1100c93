"""The tasks of ERA-CoT (Liu et al., 2024): entities, relations stated and implied, how likely these are, the answer.

``triplets`` are the relations a call starts from: for ``era_cot.infer`` those stated, for ``era_cot.score`` those to be
scored, for ``era_cot.answer`` all that are kept.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, field_validator

from polyhop.prompts.lines import Items, write_items
from polyhop.prompts.parsing import Malformed
from polyhop.prompts.show import show_bullets
from polyhop.prompts.tasks.answers import reasoned_answer
from polyhop.prompts.tasks.base import Fields, Output, Task
from polyhop.prompts.tasks.ge import show_triplets, triplets_task
from polyhop.prompts.triplets import MAX_TRIPLETS, write_triplet

HIGHEST = 10.0
"""The score of a relation that is sure."""


class Entities(Output):
    """§3.1: the entities of question and passages, each with its type in parentheses."""

    entities: list[str] = Field(description='the entities, each as "name (type)"')

    def missing(self) -> str | None:
        return None if any(self.entities) else "at least one entity is needed"


class Scores(Output):
    """§3.4: the likelihood of each relation, 0 to 10, in the order given."""

    scores: list[float] = Field(description="a number from 0 to 10 for each relation, in their order")

    @field_validator("scores", mode="before")
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        return [_score(item) for item in value[:MAX_TRIPLETS]] if isinstance(value, (list, tuple)) else value


_NUMBERED = re.compile(
    r"[^\w\n]{0,6}(?:relation(?:ship)?[ \t])?(\d{1,3})[ \t*]{0,3}[.):](?!\d)[ \t*]{0,3}", re.IGNORECASE
)
_OPENING = re.compile(r"\d{1,3}(?:\.\d{1,3})?(?![\w.])")
_CLOSING = re.compile(r"(?<![\w.-])(\d{1,3}(?:\.\d{1,3})?)(?:[ \t]?/[ \t]?10)?[ \t*.]{0,6}\Z")


def _score(value: Any) -> float:
    """Convert a value to a score within its bounds; 0 if it is not a number."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return min(max(number, 0.0), HIGHEST) if math.isfinite(number) else 0.0


def read_scores(text: str, fields: Fields) -> dict[str, Any]:
    """Read the number of each relation and its score; a relation without a score has 0.

    >>> read_scores("1. 9\\n2. (Alien; made in; 1990): 2/10", {"triplets": [{}, {}, {}]})
    {'scores': [9.0, 2.0, 0.0]}
    """
    lines = text.splitlines()
    found = {int(head[1]): _scored(line[head.end() :]) for line in lines if (head := _NUMBERED.match(line))}
    if not found:
        raise Malformed("each line must be the number of a relation and its score: 1. 7")
    count = len(fields.get("triplets") or ()) or max(found)
    return {"scores": [found.get(number, 0.0) for number in range(1, count + 1)]}


def _scored(line: str) -> float:
    """Return the score that opens a line, else the one that ends it."""
    if opening := _OPENING.match(line):
        return _score(opening[0])
    closing = _CLOSING.search(line[-40:])
    return _score(closing[1]) if closing else 0.0


def show_numbered(triplets: Sequence[Mapping[str, str]] | None, fields: Fields) -> str:
    """Show relations under their numbers, one per line."""
    return write_items([write_triplet(triplet) for triplet in triplets or ()])


def show_entities(entities: Sequence[str] | None, fields: Fields) -> str:
    """Show entities, one per line."""
    return show_bullets(entities, fields) or "none"


ERA_COT_ENTITIES = Task(
    "era_cot.entities",
    fields=("question", "passages"),
    output=Entities,
    lines=(Items("entities", "the entities", "name (type)"),),
    default={"entities": ()},
)
ERA_COT_RELATIONS = triplets_task(
    "era_cot.relations", fields=("question", "passages", "entities"), show={"entities": show_entities}
)
ERA_COT_INFER = triplets_task(
    "era_cot.infer",
    fields=("question", "passages", "entities", "triplets", "count"),
    show={"entities": show_entities, "triplets": show_triplets},
)
ERA_COT_SCORE = Task(
    "era_cot.score",
    fields=("question", "passages", "triplets"),
    output=Scores,
    parse=read_scores,
    write=lambda output, fields: write_items([f"{score:g}" for score in output.scores]),
    default={"scores": ()},
    show={"triplets": show_numbered},
)
ERA_COT_ANSWER = reasoned_answer(
    "era_cot.answer",
    fields=("question", "passages", "entities", "triplets"),
    show={"entities": show_entities, "triplets": show_triplets},
)
