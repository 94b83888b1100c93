"""MuSiQue's official files (Trivedi et al., 2022), answerable and full.

    {"id": "2hop__1_2", "question": "…", "answer": "…", "answer_aliases": [], "answerable": true,
     "paragraphs": [{"idx": 0, "title": "…", "paragraph_text": "…", "is_supporting": true}],
     "question_decomposition": [{"id": 1, "question": "…", "answer": "…", "paragraph_support_idx": 0}]}

The full set repeats each question under the same id, with a paragraph taken away. Such a question has no gold: it is
read without answers, so that no answer to it is scored, with ``~unanswerable`` after its id and ``answerable`` false in
its metadata, where ``pair`` is the id that the twins share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyhop.data.formats import Format, answers_of, known, objects_of, question_id, question_text
from polyhop.data.lines import boolean_of, id_of, json_type, require, text_of
from polyhop.data.sources import Source
from polyhop.types import Question

UNANSWERABLE = "~unanswerable"
"""The suffix of an unanswerable question's id; in the official files it has its twin's id."""


def read_musique(row: Mapping[str, Any], number: int) -> Question:
    """Read one record. Gold titles are in the order of the hops; a step names its paragraph's title."""
    id = question_id(row, number)
    kind = id.partition("__")[0]
    answerable = boolean_of(row, "answerable")
    pair = None if answerable is None else id
    metadata = known(type=kind if "hop" in kind else None, answerable=answerable, pair=pair)
    text = question_text(row, "question")
    if answerable is False:
        return Question(id=id + UNANSWERABLE, text=text, metadata=metadata)
    titles = paragraph_titles(row)
    steps = tuple(_step(step, titles) for step in objects_of(row, "question_decomposition"))
    paragraphs = objects_of(row, "paragraphs")
    marked = [titles[_index(paragraph)] for paragraph in paragraphs if paragraph.get("is_supporting") is True]
    return Question(
        id=id,
        text=text,
        answers=answers_of(row, "answer", "answer_aliases"),
        gold_titles=tuple(dict.fromkeys([*(step["title"] for step in steps if "title" in step), *marked])),
        steps=steps,
        metadata=metadata,
    )


def paragraph_titles(row: Mapping[str, Any]) -> dict[int, str]:
    """Return the titles of a record's paragraphs by their ``idx``.

    Raises:
        ValueError: a paragraph lacks a field, or a field has another type.
    """
    found = {}
    for paragraph in objects_of(row, "paragraphs"):
        text_of(paragraph, require(paragraph, ("paragraph_text",)))
        found[_index(paragraph)] = text_of(paragraph, require(paragraph, ("title",)))
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
    index = step.get("paragraph_support_idx")
    if index is None or not titles:
        return found
    if not isinstance(index, int) or index not in titles:
        raise ValueError(f"a step's 'paragraph_support_idx' is {index!r}; the paragraphs have {sorted(titles)}")
    return {**found, "paragraph_support_idx": index, "title": titles[index]}


def _recognise(row: Mapping[str, Any], _: Source) -> str | None:
    if "golden_answers" in row:
        return None
    if "paragraphs" in row and "question" in row:
        return "its records have 'question' and 'paragraphs'"
    if {"question_decomposition", "answerable"} <= row.keys():
        return "its records have 'question_decomposition' and 'answerable'"
    return None


MUSIQUE = Format("musique", "MuSiQue's JSON lines, answerable or full", _recognise, lambda _: read_musique)
