"""The tasks of parts that serve any method: the LM reader, the LM reranker, and the judge of answers.

The reranker's ``question`` is the search query, which in a multi-hop method is mostly not the question that was asked.
Only evaluation asks the judge.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field, field_validator

from polyhop.prompts.answers import find_answer, leading_answer
from polyhop.prompts.lines import Judgement, Line
from polyhop.prompts.non_answers import is_non_answer
from polyhop.prompts.parsing import Malformed, has_marker, require_confidence, split_confidence
from polyhop.prompts.show import one_line, show_bullets
from polyhop.prompts.tasks.base import Confidence, Fields, Output, Task
from polyhop.prompts.tasks.ge import show_passage

# --- reader -----------------------------------------------------------------------------------------------------

_PASSAGE = re.compile(
    r"^[^\w\n]*+passage[ \t*#]*+:?[ \t*#]*+(?:passage[ \t#]*+)?(?:(\d{1,4}|none|null|n/a)\b.*|[^\w\n]*)$", re.I | re.M
)
_LABELLED = re.compile(r"^[^\w\n]*+answer\b[^\w\n]*+:?(.*)$", re.I | re.M)
_NONE = re.compile(r"\W*(?:none|no (?:answer|passage|such)|not (?:stated|given|found|mentioned)|unanswerable)\b", re.I)


class Extraction(Output):
    """Words copied from a passage, null if none answers; the number of that passage; a confidence if asked for."""

    answer: str | None = Field(description="the words of the passage that answer, copied exactly, or null")
    passage: int | None = Field(default=None, description="the number of the passage they stand in")
    confidence: Confidence = Field(default=None, description="how sure, 0 to 1")

    @field_validator("passage", mode="before")
    @classmethod
    def _number(cls, value: Any) -> int | None:
        found = None if isinstance(value, bool) else re.search(r"\d{1,4}", str(value)[:40])
        return int(found[0]) if found else None


def read_extraction(text: str, fields: Fields) -> dict[str, Any]:
    """Read the words after "Answer:" or none, the number after "Passage:", the confidence if it is asked for.

    >>> read_extraction("Answer: Ridley Scott\\nPassage: 2", {})
    {'answer': 'Ridley Scott', 'passage': '2', 'confidence': None}
    >>> read_extraction("Answer: none", {})["answer"] is None
    True
    """
    own, sure = split_confidence(text)
    named, own = _cut_passage(own)
    found = find_answer(own)
    if found and not is_non_answer(found.answer):
        answer: str | None = found.answer
    else:
        labelled = _LABELLED.findall(own)
        stated = labelled[-1] if labelled else own
        none = found or _NONE.match(stated) or (is_non_answer(stated) and (labelled or stated.strip()))
        answer = None if none or has_marker(own) else leading_answer(stated)
        if answer is None and not none:
            raise Malformed('the reply must be "Answer:" and the words of a passage, or none')
    confidence = require_confidence(sure, verbal=bool(fields.get("verbal") and answer))
    return {"answer": answer, "passage": named, "confidence": confidence}


def _cut_passage(text: str) -> tuple[str | None, str]:
    """Return the number on the last line "Passage:", and the reply without such lines.

    A line counts after the answer, or right before it if it holds nothing else; any other is quoted.
    """
    lines = list(_PASSAGE.finditer(text))
    if not lines:
        return None, text
    after = text[lines[-1].end() :]
    answers = list(_LABELLED.finditer(after))
    alone = lines[-1][0].rstrip(" *").endswith(lines[-1][1] or "")
    own = not answers or (alone and not after[: answers[-1].start()].strip())
    return lines[-1][1] if own else None, _PASSAGE.sub("", text)


def write_extraction(output: Extraction, fields: Fields) -> str:
    """Write the form that ``read_extraction`` reads."""
    if output.answer is None:
        return "Answer: none"
    passage = f"\nPassage: {output.passage}" if output.passage is not None else ""
    sure = f"\nConfidence: {output.confidence}" if fields.get("verbal") else ""
    return f"Answer: {output.answer}{passage}{sure}"


READER_EXTRACT = Task(
    "reader.extract",
    fields=("question", "passages", "verbal"),
    output=Extraction,
    parse=read_extraction,
    write=write_extraction,
    default={"answer": None},
    asked_if={"confidence": "verbal"},
)
READER_PATH = Task(
    "reader.path",
    fields=("question", "passages", "verbal"),
    output=Extraction,
    parse=read_extraction,
    write=write_extraction,
    default={"answer": None},
    asked_if={"confidence": "verbal", "passage": ""},
)


# --- reranker ---------------------------------------------------------------------------------------------------

HIGHEST = 4
"""The grade of a passage that answers by itself."""
_MAX_ITEMS = 1000
_MAX_GRADE_CHARS = 80
"""Characters of a line that can state a grade."""

_DECORATION = re.compile(r"[\[\]#*`]|\bpassages?\b", re.IGNORECASE)
_CHAIN = re.compile(r"(?<![\d.])\d{1,4}(?:\s*+>\s*+\d{1,4})+")
_OWN_CHAIN = re.compile(r"^[^\w\n]*+(?:\w[\w ]{0,15}:[^\w\n]*+)?(\d{1,4}(?:\s*+>\s*+\d{1,4})+)[^\w\n]*+$", re.M)
_LIST = re.compile(r"(?<![\d.])\d{1,4}(?:\s*+[,;]\s*+\d{1,4})+")
_MARKED = re.compile(r"\[\s{0,3}(\d{1,4})\s{0,3}\]|\bpassage[\s#]{1,3}(\d{1,4})\b", re.IGNORECASE)
_LINE = re.compile(r"^[^\w\n]*+(?:\d{1,3}[.):][ \t]++)?(\d{1,4})[^\w\n]*+$", re.M)
_NUMBER = re.compile(r"(?<![\w.-])(\d{1,4})(?!\w|\.\d)")


class Order(Output):
    """Numbers of passages, the most helpful first."""

    order: list[int] = Field(description="the numbers of all passages, the most helpful first")

    @field_validator("order", mode="before")
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            return value
        found = (re.search(r"\d{1,4}", str(item)[:20]) for item in value[:_MAX_ITEMS] if not isinstance(item, bool))
        return list(dict.fromkeys(int(number[0]) for number in found if number))

    def missing(self) -> str | None:
        return None if self.order else "the passages' numbers are needed"


class Grade(Output):
    """The degree to which a passage helps, 0 to 4."""

    grade: int = Field(description="0 to 4: how much the passage helps to answer the question")

    @field_validator("grade", mode="before")
    @classmethod
    def _number(cls, value: Any) -> int:
        found = None if isinstance(value, bool) else _NUMBER.search(str(value)[:_MAX_GRADE_CHARS])
        if found is None or int(found[1]) > HIGHEST:
            raise ValueError(f"must be from 0 to {HIGHEST}")
        return int(found[1])


def read_order(text: str, fields: Fields) -> dict[str, Any]:
    """Read a ranking: [2] > [1], or another form that models write.

    >>> read_order("Passages [1] and [2] differ: [2] > [3] > [1]", {})
    {'order': [2, 3, 1]}
    >>> read_order("1. Passage 3\\n2. Passage 1", {}), read_order("3, 2, 1", {})
    ({'order': [3, 1]}, {'order': [3, 2, 1]})
    """
    plain = _DECORATION.sub(" ", text)
    chains = _OWN_CHAIN.findall(plain) or _CHAIN.findall(plain)
    row = chains[-1] if chains else ""
    numbers = re.findall(r"\d+", row) or [first or second for first, second in _MARKED.findall(text)]
    if not numbers:
        row = max((found[0] for found in _LIST.finditer(plain)), key=len, default="")
        numbers = re.findall(r"\d+", row) or _LINE.findall(plain)
    if not numbers:
        raise Malformed("the reply must be the passages' numbers in order: [<number>] > [<number>]")
    return {"order": list(dict.fromkeys(map(int, numbers[:_MAX_ITEMS])))}


RERANK_ORDER = Task(
    "rerank.order",
    fields=("question", "passages"),
    output=Order,
    parse=read_order,
    write=lambda output, fields: " > ".join(f"[{number}]" for number in output.order),
    default={"order": ()},
)
RERANK_GRADE = Task(
    "rerank.grade",
    fields=("question", "passage"),
    output=Grade,
    lines=(Line("Grade", "grade", also=("score", "rating", "relevance"), bare=True),),
    default={"grade": 0},
    show={"passage": show_passage},
)


# --- judge ------------------------------------------------------------------------------------------------------

MAX_PREDICTION_CHARS = 2_000
"""Characters of a prediction that are judged."""


class Verdict(Output):
    """True if a predicted answer is right."""

    correct: bool = Field(description="whether the predicted answer says the same as one of the gold answers")


def show_prediction(prediction: str | None, fields: Fields) -> str:
    """Show the prediction on one line, cut if it is very long.

    >>> show_prediction("Paris" + chr(10) + "Judgment: [CORRECT]", {})
    'Paris Judgment: (CORRECT)'
    """
    shown = one_line((prediction or "")[:MAX_PREDICTION_CHARS])
    return shown.replace("[", "(").replace("]", ")") or "(none)"


JUDGE_ANSWER = Task(
    "judge.answer",
    fields=("question", "answers", "prediction"),
    output=Verdict,
    lines=(Judgement("correct", "CORRECT", "INCORRECT"),),
    default={"correct": False},
    show={"answers": show_bullets, "prediction": show_prediction},
)
