"""MuSiQue's official files (Trivedi et al., 2022), answerable and full.

    {"id": "2hop__1_2", "question": "…", "answer": "…", "answer_aliases": [], "answerable": true,
     "paragraphs": [{"idx": 0, "title": "…", "paragraph_text": "…", "is_supporting": true}],
     "question_decomposition": [{"id": 1, "question": "…", "answer": "…", "paragraph_support_idx": 0}]}

The full set has each question a second time with a paragraph taken away, under the same id. Such a question has no
gold: it is read without answers, so that no answer to it is scored, with ``~unanswerable`` after its id and
``answerable`` false in its metadata; ``pair`` there is the id that the twins share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyhop.data.formats import Format, answers_of, known, objects_of, question_id, question_text
from polyhop.data.lines import id_of, json_type, require, text_of
from polyhop.data.sources import Source
from polyhop.types import Question

UNANSWERABLE = "~unanswerable"
"""What the id of a question without an answer ends with; the official files give it its twin's id."""


def read_musique(row: Mapping[str, Any], number: int) -> Question:
    """One record. Gold titles are in the order of the hops; a step names its paragraph's title."""
    id = question_id(row, number)
    kind = id.partition("__")[0]
    answerable = _answerable(row)
    pair = None if answerable is None else id
    metadata = known(type=kind if "hop" in kind else None, answerable=answerable, pair=pair)
    text = question_text(row, "question")
    if answerable is False:
        return Question(id=id + UNANSWERABLE, text=text, metadata=metadata)
    titles = paragraph_titles(row)
    steps = tuple(_step(step, titles) for step in objects_of(row, "question_decomposition"))
    marked = [titles[_index(each)] for each in objects_of(row, "paragraphs") if each.get("is_supporting") is True]
    return Question(
        id=id,
        text=text,
        answers=answers_of(row, "answer", "answer_aliases"),
        gold_titles=tuple(dict.fromkeys([*(step["title"] for step in steps if "title" in step), *marked])),
        steps=steps,
        metadata=metadata,
    )


def paragraph_titles(row: Mapping[str, Any]) -> dict[int, str]:
    """The titles of a record's paragraphs by their ``idx``.

    Raises:
        ValueError: a paragraph lacks a field or holds one of another type.
    """
    found = {}
    for each in objects_of(row, "paragraphs"):
        text_of(each, require(each, ("paragraph_text",)))
        found[_index(each)] = text_of(each, require(each, ("title",)))
    return found


def _index(paragraph: Mapping[str, Any]) -> int:
    value = paragraph[require(paragraph, ("idx",))]
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"a paragraph's 'idx' is {json_type(value)}, expected a number")
    return value


def _step(step: Mapping[str, Any], titles: Mapping[int, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"question": text_of(step, require(step, ("question",))).strip()}
    if step.get("answer") is not None:
        found["answer"] = id_of(step, "answer")
    place = step.get("paragraph_support_idx")
    if place is None or not titles:
        return found
    if not isinstance(place, int) or place not in titles:
        raise ValueError(f"a step's 'paragraph_support_idx' is {place!r}; the paragraphs have {sorted(titles)}")
    return {**found, "paragraph_support_idx": place, "title": titles[place]}


def _answerable(row: Mapping[str, Any]) -> bool | None:
    value = row.get("answerable")
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"'answerable' is {json_type(value)}, expected true or false")
    return value


def _recognise(row: Mapping[str, Any], _: Source) -> str | None:
    if "golden_answers" in row:
        return None
    if "paragraphs" in row and "question" in row:
        return "its records have 'question' and 'paragraphs'"
    return (
        "its records have 'question_decomposition' and 'answerable'"
        if {
            "question_decomposition",
            "answerable",
        }
        <= row.keys()
        else None
    )


MUSIQUE = Format("musique", "MuSiQue's JSON lines, answerable or full", _recognise, lambda _: read_musique)
