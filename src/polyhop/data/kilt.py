"""KILT's JSON lines (Petroni et al., 2021): FEVER, zsRE, T-REx, HotpotQA, ELI5 and others in one form.

    {"id": "…", "input": "…", "output": [{"answer": "…", "provenance": [{"wikipedia_id": "290", "title": "…"}]}],
     "meta": {"template_questions": ["…"]}}

Answers are those of all outputs. The kind follows the row: labels are ``fact``, ``head [SEP] relation`` is ``slot``
(its text becomes ``head: relation``), else ``qa``. Each output's provenance is sufficient evidence: the gold is that of
the first, by title, which any corpus of Wikipedia has, or by id if there are no titles. ``metadata["evidence_sets"]``
holds all of them, ``metadata["wikipedia_ids"]`` the page ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polyhop.data.formats import Format, known, objects_of, question_id, question_text, unique
from polyhop.data.lines import id_of, mapping_of, strings_of
from polyhop.data.plain import LABELS
from polyhop.data.sources import Source
from polyhop.types import Kind, Question

SEPARATOR = "[SEP]"


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


def is_kilt(row: Mapping[str, Any]) -> bool:
    """Return True if a row has KILT's form; its test files have no output."""
    return "input" in row and (isinstance(row.get("output"), list) or {"id", "meta"} <= row.keys())


def _field_of_all(pages: Sequence[Mapping[str, Any]], *names: str) -> tuple[str, ...]:
    """Return a field of every page, each value once; () if any page lacks it."""
    values = [next((id_of(page, name) for name in names if page.get(name) not in (None, "")), None) for page in pages]
    return unique(value for value in values if value) if all(values) else ()


def _kind(text: str, answers: tuple[str, ...]) -> Kind:
    if answers and set(answers) <= set(LABELS):
        return "fact"
    return "slot" if slot_metadata(text) else "qa"


def _recognise(row: Mapping[str, Any], _: Source) -> str | None:
    return "its rows have 'input' and 'output'" if is_kilt(row) else None


KILT = Format("kilt", "KILT's JSON lines, any task of it", _recognise, lambda _: read_kilt)
