"""KILT's JSON lines (Petroni et al., 2021), and the datasets in it that also exist in a form of their own.

KILT has FEVER, zsRE, T-REx, HotpotQA, ELI5 and others in one form:

    {"id": "…", "input": "…", "output": [{"answer": "…", "provenance": [{"wikipedia_id": "290", "title": "…"}]}],
     "meta": {"template_questions": ["…"]}}

Answers are those of all outputs. The kind follows the row: labels are ``fact``, ``head [SEP] relation`` is ``slot``
(its text becomes ``head: relation``), else ``qa``. Each output's provenance is sufficient evidence: the gold is that of
the first, by title, which any corpus of Wikipedia has, or by id if there are no titles. ``metadata["evidence_sets"]``
holds all of them, ``metadata["wikipedia_ids"]`` the page ids.

ELI5 (Fan et al., 2019): questions answered by a paragraph. A row of KILT does not name its task: ELI5 is recognised by
the file's name or by answers of more than 40 words. Its original form:

    {"q_id": "5lchat", "title": "Why …?", "selftext": "", "answers": {"a_id": ["…"], "text": ["…"], "score": [9]}}

zsRE (Levy et al., 2017) and T-REx (Elsahar et al., 2018), flattened: a head, a relation, and the slot's value.

    {"input": "Mapo Bridge [SEP] crosses", "answer": "Han River", "alias": ["Han River"], "relation": "crosses",
     "template_questions": ["…?"]}                                                            (zsRE)
    {"input": "Public Speaking [SEP] genre", "answer": "documentary film", "alias": ["documentary film"],
     "wikipedia_title": "Public Speaking (film)"}                                             (T-REx)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from polyhop.data.formats import Format, answers_of, known, objects_of, question_id, question_text, unique
from polyhop.data.lines import id_of, mapping_of, require, strings_of, text_of
from polyhop.data.plain import LABELS
from polyhop.data.sources import Source
from polyhop.types import Kind, Question

SEPARATOR = "[SEP]"
_LONG = 40  # words; a phrase has fewer, nearly every ELI5 answer has more


def read_kilt(row: Mapping[str, Any], number: int, *, kind: Kind | None = None) -> Question:
    """Read one record, of ``kind`` if the file's task is known."""
    text = question_text(row, "input")
    outputs = objects_of(row, "output")
    answers = unique(id_of(output, "answer") for output in outputs if output.get("answer") not in (None, ""))
    sets = [pages for pages in (objects_of(output, "provenance") for output in outputs) if pages]
    titles = [_field_of_all(pages, "title", "wikipedia_title") for pages in sets]
    ids = [_field_of_all(pages, "wikipedia_id") for pages in sets]
    titled = bool(titles and titles[0])
    return Question(
        id=question_id(row, number),
        text=slot_text(text),
        answers=answers,
        kind=kind or _kind(text, answers),
        gold_ids=ids[0] if ids and not titled else (),
        gold_titles=titles[0] if titled else (),
        metadata={
            **slot_metadata(text),
            **known(
                template_questions=list(strings_of(mapping_of(row, "meta"), "template_questions")) or None,
                wikipedia_ids=list(ids[0]) if ids and ids[0] else None,
                evidence_sets=[list(pages) for pages in titles if pages] or None,
            ),
        },
    )


def read_eli5(row: Mapping[str, Any], number: int) -> Question:
    """Read one record of either form."""
    if "input" in row:
        return read_kilt(row, number, kind="long")
    return Question(
        id=id_of(row, require(row, ("q_id", "id"))),
        text=question_text(row, "title"),
        answers=unique(strings_of(mapping_of(row, "answers"), "text")),
        kind="long",
    )


def read_slot(row: Mapping[str, Any], number: int) -> Question:
    """Read one record of zsRE or T-REx; the question's text is ``head: relation``."""
    if "output" in row:
        return read_kilt(row, number, kind="slot")
    text = question_text(row, "input")
    if not slot_metadata(text):
        raise ValueError(f"'input' is {text!r}, expected 'head {SEPARATOR} relation'")
    title = text_of(row, "wikipedia_title") if row.get("wikipedia_title") is not None else None
    return Question(
        id=question_id(row, number),
        text=slot_text(text),
        answers=unique(answers_of(row, "answer", "alias")),
        kind="slot",
        gold_titles=(title,) if title else (),
        metadata={
            **slot_metadata(text),
            **known(template_questions=list(strings_of(row, "template_questions")) or None),
        },
    )


def slot_text(text: str) -> str:
    """Return an input as a question: head and relation of a slot, anything else as it is.

    >>> slot_text("Cirith Ungol [SEP] genre")
    'Cirith Ungol: genre'
    """
    parts = slot_metadata(text)
    return f"{parts['head']}: {parts['relation']}" if parts else text


def slot_metadata(text: str) -> dict[str, str]:
    """Return ``head`` and ``relation`` of a slot; {} for anything else."""
    head, separator, relation = (part.strip() for part in text.partition(SEPARATOR))
    return {"head": head, "relation": relation} if separator and head and relation else {}


def _field_of_all(pages: Sequence[Mapping[str, Any]], *names: str) -> tuple[str, ...]:
    """Return a field of every page, each value once; () if any page lacks it."""
    values = [next((id_of(page, name) for name in names if page.get(name) not in (None, "")), None) for page in pages]
    return unique(value for value in values if value) if all(values) else ()


def _kind(text: str, answers: tuple[str, ...]) -> Kind:
    if answers and set(answers) <= set(LABELS):
        return "fact"
    return "slot" if slot_metadata(text) else "qa"


def _has_kilt_form(row: Mapping[str, Any]) -> bool:
    """Return True if a row has KILT's form; its test files have no output."""
    return "input" in row and (isinstance(row.get("output"), list) or {"id", "meta"} <= row.keys())


def _is_kilt(row: Mapping[str, Any], _: Source) -> str | None:
    return "its rows have 'input' and 'output'" if _has_kilt_form(row) else None


def _is_eli5(row: Mapping[str, Any], source: Source) -> str | None:
    if {"q_id", "title"} <= row.keys():
        return "its rows have 'q_id' and 'title'"
    if not _has_kilt_form(row):
        return None
    if "eli5" in source.path.name.lower():
        return "its rows have 'input' and 'output', and its name says ELI5"
    answers = [str(output.get("answer") or "") for output in objects_of(row, "output")]
    return (
        f"its rows have 'input' and 'output', with answers of more than {_LONG} words"
        if any(len(answer.split()) > _LONG for answer in answers)
        else None
    )


def _is_flat_slot(row: Mapping[str, Any], _: Source, *, field: str) -> str | None:
    slot = isinstance(row.get("input"), str) and SEPARATOR in row["input"]
    return (
        f"its inputs are 'head {SEPARATOR} relation', with {field!r}"
        if slot and field in row and not _has_kilt_form(row)
        else None
    )


KILT = Format("kilt", "KILT's JSON lines, any task of it", _is_kilt, lambda _: read_kilt)
ELI5 = Format("eli5", "ELI5, KILT's or the original form", _is_eli5, lambda _: read_eli5)
ZSRE = Format("zsre", "zsRE, flat or KILT's", partial(_is_flat_slot, field="template_questions"), lambda _: read_slot)
TREX = Format("trex", "T-REx, flat or KILT's", partial(_is_flat_slot, field="answer"), lambda _: read_slot)
