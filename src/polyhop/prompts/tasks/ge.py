"""The tasks of GE-Reasoning (Park et al., 2024, Tables 8 to 12)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from polyhop.prompts.answers import bare_answer, clean_value, find_answer
from polyhop.prompts.parsing import (
    Malformed,
    bare_question,
    has_marker,
    labelled_question,
    quotable,
    require_confidence,
    split_confidence,
)
from polyhop.prompts.show import one_line, show_passages
from polyhop.prompts.tasks.answers import Response, read_reasoned, write_reasoned
from polyhop.prompts.tasks.base import BY_TYPE, Confidence, Fields, Output, Show, Task
from polyhop.prompts.triplets import (
    TRIPLET,
    as_triplets,
    find_triplets,
    own_lines,
    with_plain_variables,
    write_triplet,
)


class Triplet(BaseModel):
    """``(head; relation; tail)``; in a question's graph head or tail may be a variable, ``type: #n``."""

    model_config = ConfigDict(frozen=True)

    head: str
    relation: str
    tail: str


class Triplets(Output):
    """GE §3.1 and §3.4, Tables 8, 11 and 12: a list of triplets; malformed ones are dropped."""

    triplets: tuple[Triplet, ...] = Field(
        description='each {"head": "<head>", "relation": "<relation>", "tail": "<tail>"}'
    )

    _drop = field_validator("triplets", mode="before")(as_triplets)


class GraphTriplets(Triplets):
    """GE §3.1, Table 8: the triplets of a question. A variable is read in other forms than ``type: #n`` too."""

    @field_validator("triplets")
    @classmethod
    def _plain(cls, triplets: tuple[Triplet, ...]) -> tuple[Triplet, ...]:
        return tuple(Triplet(**row) for row in with_plain_variables([row.model_dump() for row in triplets]))

    def missing(self) -> str | None:
        ends = [end for triplet in self.triplets for end in (triplet.head, triplet.tail)]
        if not ends or any("#" in end for end in ends):
            return None
        return "each unknown entity must be written as a variable: a number after a hash, such as #1"


class SubQuestion(Output):
    """GE §3.2, Table 9: the next sub-question; null if none is left."""

    sub_question: str | None = Field(description="the sub-question")


class StepAnswer(Output):
    """GE §3.3, Table 10: a sub-question's answer as a sentence and in a few words, and its confidence if asked for."""

    ANSWER = "answer"

    sentence: str = Field(default="", description="one full sentence")
    answer: str = Field(description="in as few words as possible")
    confidence: Confidence = Field(default=None, description="how sure, 0 to 1")


_NOTHING = re.compile(
    r"\W*+(?:none|nothing|null|no (?:relevant |further |more |other )?(?:triplet|sub-?question)s?)\b", re.I
)
_NUMBERED = re.compile(r"^[ \t*]*\(?\d{1,2}[).]\)?[ \t]+", re.M)
MAX_BARE_WORDS = 6
"""Words: a sub-answer of one line up to this length, and without a full stop, is taken as the answer alone."""


def read_triplets(text: str, fields: Fields) -> dict[str, Any]:
    """Read triplets, one per line or side by side; "none" for none. The last lines count if others may be quoted.

    >>> read_triplets("Triplets:" + chr(10) + "(Alien; director; Ridley Scott)", {})["triplets"][0]["tail"]
    'Ridley Scott'
    """
    own = own_lines(text) if quotable(TRIPLET, fields) else text
    found = find_triplets(own)
    if not found and not _NOTHING.match(own.rpartition(":")[2]):
        raise Malformed("each line must be a triplet in parentheses, (head; relation; tail)")
    return {"triplets": found}


def write_triplets(output: Triplets, fields: Fields) -> str:
    """Write the form that ``read_triplets`` reads."""
    return show_triplets([triplet.model_dump() for triplet in output.triplets], fields)


def triplets_task(
    name: str, *, fields: tuple[str, ...], output: type[Triplets] = Triplets, show: Show = BY_TYPE
) -> Task[Triplets]:
    """Make a task whose reply is a list of triplets."""
    return Task(name, fields, output, {"triplets": ()}, parse=read_triplets, write=write_triplets, show=show)


def read_subquestion(text: str, fields: Fields) -> dict[str, Any]:
    """Read a sub-question, labelled or alone; "none" if none is left.

    >>> read_subquestion("Subquestion: Who directed Alien?", {}), read_subquestion("Subquestion: none", {})
    ({'sub_question': 'Who directed Alien?'}, {'sub_question': None})
    """
    labelled = labelled_question(text, fields)
    found = clean_value(labelled or bare_question(text))
    if found is None or _NOTHING.fullmatch(found.rstrip(".")):
        if labelled is None and not _NOTHING.match(text):
            raise Malformed('the reply must be "Subquestion:" and the sub-question')
        found = None
    if found is None and fields.get("triplet"):
        raise Malformed("the triplet needs a sub-question")
    return {"sub_question": found}


def sub_question_task(name: str, *, fields: tuple[str, ...], show: Show = BY_TYPE) -> Task[SubQuestion]:
    """Make a task whose reply is a sub-question."""
    return Task(
        name, fields, SubQuestion, {"sub_question": None}, parse=read_subquestion,
        write=lambda output, fields: f"Subquestion: {output.sub_question or 'none'}", show=show,
    )  # fmt: skip


def read_subanswer(text: str, fields: Fields) -> dict[str, Any]:
    """Read a sentence, then "Answer:" and the answer, then "Confidence:" if it is asked for.

    >>> read_subanswer("Alien was directed by Ridley Scott." + chr(10) + "Answer: Ridley Scott", {})["answer"]
    'Ridley Scott'
    """
    own, sure = split_confidence(text)
    named = find_answer(own)
    if named:
        sentence, answer = _sentence(named.before), named.answer
    else:
        alone = bare_answer(own)
        if alone is None or has_marker(own) or own.rstrip().endswith((".", "?")) or len(alone.split()) > MAX_BARE_WORDS:
            raise Malformed('after the sentence a line must give the answer in a few words: "Answer: <answer>"')
        sentence, answer = "", alone
    confidence = require_confidence(sure, verbal=bool(fields.get("verbal")))
    return {"sentence": sentence, "answer": answer, "confidence": confidence}


def _sentence(text: str) -> str:
    """Return the text before the answer, without a repeated sub-question."""
    lines = [_NUMBERED.sub("", line).strip() for line in text.splitlines()]
    return " ".join(line for line in lines if line and not line.endswith("?"))


def write_subanswer(output: StepAnswer, fields: Fields) -> str:
    """Write the form that ``read_subanswer`` reads."""
    sure = f"\nConfidence: {output.confidence}" if fields.get("verbal") else ""
    return f"{output.sentence}\nAnswer: {output.answer}{sure}".lstrip()


def write_final(output: Response, fields: Fields) -> str:
    """Write the form that ``read_reasoned`` reads, in the paper's words (§3.6)."""
    if fields.get("kind") == "long":
        return write_reasoned(output, fields)
    lead = f"{output.rationale} " if output.rationale else ""
    return f"{lead}So the answer is {output.answer}."


def show_triplets(triplets: Sequence[Mapping[str, str]] | None, fields: Fields) -> str:
    """Show one triplet per line."""
    return "\n".join(map(write_triplet, triplets or ())) or "none"


def show_triplet(triplet: Mapping[str, str] | None, fields: Fields) -> str:
    """Show a triplet on its line."""
    return write_triplet(triplet) if triplet else "none"


def show_passage(passage: Any, fields: Fields) -> str:
    """Show one passage in its fence."""
    return show_passages([passage] if passage else [])


def show_history(history: Sequence[Mapping[str, str]] | None, fields: Fields) -> str:
    """Show sub-questions and their answers, numbered (Table 10); one that was dropped has none.

    >>> print(show_history([{"sub_question": "Who made it?", "sentence": "Ann Lee made it.", "answer": "Ann Lee"}], {}))
    (1) Who made it?
    Ann Lee made it.
    """
    lines = (
        f"({number}) {one_line(pair['sub_question'])}\n"
        f"{one_line(pair['sentence'] or pair['answer'] or 'No answer was found.')}"
        for number, pair in enumerate(history or (), 1)
    )
    return "\n".join(lines) or "none yet"


def show_next(sub_question: Any, fields: Fields) -> str:
    """Show the sub-question under the number that follows the history's."""
    return f"({len(fields.get('history') or ()) + 1}) {one_line(str(sub_question))}"


GE_GRAPH = triplets_task("ge.graph", fields=("question", "typed"), output=GraphTriplets)
GE_SUBQUESTION = sub_question_task(
    "ge.subquestion", fields=("triplet", "question", "history"), show={"triplet": show_triplet, "history": show_history}
)
GE_SUBANSWER = Task(
    "ge.subanswer",
    fields=("question", "history", "sub_question", "triplets", "passages", "verbal"),
    output=StepAnswer,
    parse=read_subanswer,
    write=write_subanswer,
    default={"sentence": "", "answer": ""},
    show={"history": show_history, "sub_question": show_next, "triplets": show_triplets},
    asked_if={"confidence": "verbal"},
)
GE_TRIPLETS = triplets_task("ge.triplets", fields=("passage",), show={"passage": show_passage})
GE_FILTER = triplets_task("ge.filter", fields=("triplets", "sub_question"), show={"triplets": show_triplets})
GE_EXTRACT = triplets_task("ge.extract", fields=("passages", "sub_question"))
"""Ours: extraction and filter in one call."""
GE_ANSWER = Task(
    "ge.answer",
    fields=("question", "history", "kind"),
    output=Response,
    parse=read_reasoned,
    write=write_final,
    default={"answer": ""},
    show={"history": show_history},
)
