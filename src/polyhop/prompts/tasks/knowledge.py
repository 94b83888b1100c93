"""The tasks of methods that collect facts as triplets: KnowTrace (Li et al., 2025) and T²RAG (Gong et al., 2025).

``triplets`` are the facts known so far; of ``t2rag.resolve`` they are the open ones, and the known ones are ``known``.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field

from polyhop.prompts.answers import clean_value
from polyhop.prompts.kinds import find_named
from polyhop.prompts.lines import MAX_ITEMS, write_items
from polyhop.prompts.non_answers import is_non_answer
from polyhop.prompts.parsing import Malformed
from polyhop.prompts.tasks.answers import read_reasoned, reasoned_answer, write_reasoned
from polyhop.prompts.tasks.base import Fields, Output, Task
from polyhop.prompts.tasks.ge import Triplets, show_triplets, triplets_task


class OpenTriplets(Triplets):
    """T²RAG §3.2: what has to be known, as triplets in which a question mark begins a placeholder."""

    def missing(self) -> str | None:
        ends = [end for triplet in self.triplets for end in (triplet.head, triplet.tail)]
        if not ends or any(end.startswith("?") for end in ends):
            return None
        return "each unknown entity must be written as a placeholder: a question mark and its type, such as ?person"


class Exploration(Output):
    """KnowTrace §3.2: the answer if the known facts are enough, else pairs of an entity and a relation to look up."""

    ANSWER = "answer"

    rationale: str | None = Field(default=None, description="the reasoning, null if facts are missing")
    pairs: list[str] = Field(
        default_factory=list, description='what to look up next, each "<entity>; <relation>"; empty if nothing is'
    )
    answer: str | None = Field(default=None, description="{>brief}, null if facts are missing")

    def missing(self) -> str | None:
        return None if self.answer or any(self.pairs) else "give the answer, or what to look up next"


_PAIR = re.compile(
    r"^[ \t*]{0,6}(?:(?P<number>\d{1,2})[.):][ \t*]{1,3}|[-–•][ \t]{1,3}|(?=\())"
    r"(?P<entity>[^;\n]{1,200});(?P<relation>[^;\n]{1,200})(?:;[^;\n]{0,200})?$",
    re.M,
)


def read_exploration(text: str, fields: Fields) -> dict[str, Any]:
    """Read the pairs, one per numbered line, from the last number 1 on; or the answer that is named after them.

    >>> read_exploration("Missing:\\n1. Alien; director\\n2. Jaws; director", {})["pairs"]
    ['Alien; director', 'Jaws; director']
    >>> read_exploration("1. (Alien; director; Ridley Scott)\\nThe answer is Ridley Scott.", {})["answer"]
    'Ridley Scott'
    """
    lines = list(_PAIR.finditer(text))
    first = max((i for i, line in enumerate(lines) if line["number"] == "1"), default=0)
    pairs = [pair for line in lines[first : first + MAX_ITEMS] if (pair := _pair(line))]
    named = find_named(text[lines[-1].end() if lines else 0 :], fields)
    if named and not (pairs and is_non_answer(named.answer)):
        return {"rationale": named.before or None, "pairs": [], "answer": named.answer}
    if not pairs and fields.get("kind") == "long":
        return {**read_reasoned(text, fields), "pairs": []}  # a paragraph alone
    if not pairs:
        raise Malformed("the reply must name the answer, or what to look up in numbered lines: 1. <entity>; <relation>")
    return {"rationale": None, "pairs": pairs, "answer": None}


def _pair(line: re.Match[str]) -> str | None:
    """Return the entity and the relation of a line, without brackets around them."""
    parts = [clean_value(part) for part in (line["entity"].removeprefix("("), line["relation"])]
    if parts[1] and line["entity"].startswith("("):
        parts[1] = parts[1].removesuffix(")")
    return "; ".join(filter(None, parts)) if all(parts) and not any(map(is_non_answer, filter(None, parts))) else None


def write_exploration(output: Exploration, fields: Fields) -> str:
    """Write the form that ``read_exploration`` reads."""
    return write_reasoned(output, fields) if output.answer else write_items(output.pairs)


KNOWTRACE_EXPLORE = Task(
    "knowtrace.explore",
    fields=("question", "triplets", "kind"),
    output=Exploration,
    parse=read_exploration,
    write=write_exploration,
    default={},
    show={"triplets": show_triplets},
)
TRIPLETS_ANSWER = reasoned_answer("triplets.answer", fields=("question", "triplets"), show={"triplets": show_triplets})
T2RAG_DECOMPOSE = triplets_task("t2rag.decompose", fields=("question",), output=OpenTriplets)
T2RAG_RESOLVE = triplets_task(
    "t2rag.resolve",
    fields=("question", "triplets", "known", "facts", "passages"),
    show={"triplets": show_triplets, "known": show_triplets, "facts": show_triplets},
)
