"""Datasets of questions with their gold, in any of ``FORMATS``, recognised by the first rows or given by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from polyhop.common.text import counted
from polyhop.data import path_or_demo
from polyhop.data.beir import BEIR, is_beir, open_beir
from polyhop.data.fever import FEVER
from polyhop.data.formats import Format
from polyhop.data.headerless import BAMBOOGLE, DPR
from polyhop.data.hotpotqa import HOTPOTQA, MOREHOPQA, TWO_WIKI
from polyhop.data.kilt import ELI5, KILT, TREX, ZSRE
from polyhop.data.musique import MUSIQUE
from polyhop.data.plain import CSV, FLASHRAG, MAPPED, PLAIN
from polyhop.data.rag import BROWSECOMP_PLUS, FRAMES, GRAPHRAG_BENCH, HIPPORAG, MULTIHOP_RAG
from polyhop.data.sources import Row, Source, is_hub_name, open_hub, open_source
from polyhop.data.squad import SQUAD, is_squad, open_squad
from polyhop.data.strategyqa import STRATEGYQA
from polyhop.errors import DataError, SettingError, UnknownName
from polyhop.types import Question

_BY_FIELDS = (BEIR, ELI5, KILT, ZSRE, TREX, FEVER, HIPPORAG, MUSIQUE, STRATEGYQA, SQUAD, TWO_WIKI, MOREHOPQA, HOTPOTQA)
_LATER = (MULTIHOP_RAG, FRAMES, BROWSECOMP_PLUS, GRAPHRAG_BENCH, FLASHRAG)
_IN_ORDER = (*_BY_FIELDS, *_LATER, DPR, BAMBOOGLE, CSV, PLAIN)
FORMATS = {format.name: format for format in _IN_ORDER}
"""Formats by name, in the order in which they are tried: the first that recognises a row wins."""

_NO_ANSWER = {"answerable": False}
_MAX_ROWS_TRIED = 20  # to recognise the format, if the first rows are malformed


class Record(NamedTuple):
    """A row of a dataset, and its question or its fault; ``row`` is None if it is not an object."""

    number: int
    row: Row | None
    question: Question | DataError


class Dataset:
    """A dataset of questions. Each iteration reads it again, in constant memory except for the ids.

    Attributes:
        name: the name of its file, or its Hub name.
        format: the format of its rows; ``reason`` says why it was chosen.
        skipped: the number of bad rows that the latest iteration left out, with ``skip_bad``.
    """

    def __init__(self, source: Source, format: Format, reason: str, *, skip_bad: bool) -> None:
        self.source, self.format, self.reason, self.skip_bad = source, format, reason, skip_bad
        self.name, self.skipped = source.path.name, 0

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in order.

        Raises:
            DataError: a row is malformed or repeats an id (the message locates it), unless ``skip_bad``; or there is no
                question.
        """
        for record in self.valid_records():
            if isinstance(record.question, Question):
                yield record.question

    def valid_records(self) -> Iterator[Record]:
        """Yield the records that hold a question; raises as iterating does."""
        self.skipped = count = 0
        for record in self.records():
            if isinstance(record.question, Question):
                count += 1
                yield record
            elif self.skip_bad:
                self.skipped += 1
            else:
                raise record.question
        if not count:
            raise DataError(f"no questions in it ({counted(self.skipped, 'bad rows')} skipped)", self.source.path)

    def records(self) -> Iterator[Record]:
        """Yield every row with its question or its fault."""
        read = self.format.open(self.source)
        seen: dict[str, int] = {}
        for number, row in self.source.rows():
            if isinstance(row, DataError):
                yield Record(number, None, row)
                continue
            try:
                found: Question | DataError = read(row, number)
            except (ValueError, UnknownName, RecursionError) as error:
                found = self.source.fault(number, str(error))
            if isinstance(found, Question) and (first := seen.setdefault(found.id, number)) != number:
                first_use = self.source.location(first)
                preposition = "on" if first_use.startswith("line") else "in"
                found = self.source.fault(number, f"duplicate id {found.id!r}; first {preposition} {first_use}")
            yield Record(number, row, found)


def open_questions(
    source: str | Path,
    *,
    format: str | None = None,
    skip_bad: bool = False,
    fields: Mapping[str, str] | None = None,
) -> Dataset:
    """Open a dataset: a file or folder in any of ``FORMATS``, ``demo`` (the set that ships with the package) or
    ``hf:DATASET[:SPLIT]``. Only its first rows are read.

    ``fields`` maps our own fields to the columns of any file, as in ``{"question": "Prompt", "answers": "Answer"}``.

    Raises:
        DataError: it is missing, empty or of no known format; the message names the content and the known formats.
        UnknownName: ``format`` is none of ``FORMATS``, or a field is none of ours.
    """
    if format is not None and format not in FORMATS:
        raise UnknownName("format of questions", format, FORMATS)
    if strange := next((name for name in fields or () if name not in MAPPED), None):
        raise UnknownName("field of a question", strange, MAPPED)
    path = path_or_demo(source, "questions")
    opened = _source(path, fields or {})
    if fields:
        own = FORMATS[format] if format else CSV if opened.layout == "CSV" else PLAIN
        return Dataset(opened, own, f"{opened.layout}; its columns are mapped", skip_bad=skip_bad)
    if format is not None:
        return Dataset(opened, FORMATS[format], "as specified", skip_bad=skip_bad)
    found, reason = _detect(opened, skip_bad)
    return Dataset(opened, found, reason, skip_bad=skip_bad)


def read_questions(
    path: str | Path,
    *,
    limit: int | None = None,
    skip_bad: bool = False,
    format: str | None = None,
    fields: Mapping[str, str] | None = None,
) -> list[Question]:
    """Read the first ``limit`` questions of a dataset, in order; all if it is None.

    A row without an id gets one from its number (``q17``). With ``skip_bad``, malformed rows are left out.

    Raises:
        DataError: the dataset is missing, empty or of no known format; or a row is malformed or repeats an id (the
            message names the file, and the line, record of a JSON array or row of a table).
        SettingError: ``limit`` is negative.
        UnknownName: as ``open_questions``, which also explains ``fields``.
    """
    if limit is not None and limit < 0:
        raise SettingError(f"limit is {limit}; it is a number of questions, 0 or more")
    dataset = open_questions(path, format=format, skip_bad=skip_bad, fields=fields)
    return list(islice(dataset, limit))


def with_answerability(questions: Iterable[Question]) -> list[Question]:
    """Mark the questions without gold answers as unanswerable, unless they say that they are not."""
    return [
        question if question.answerable is not None else replace(question, metadata={**question.metadata, **_NO_ANSWER})
        for question in questions
    ]


def _source(path: Path, fields: Mapping[str, str]) -> Source:
    if is_hub_name(path):
        return open_hub(str(path)).renamed(fields)
    if is_beir(path):
        return open_beir(path)
    if path.is_dir():
        raise DataError(
            "a folder, but not a BEIR dataset (queries.jsonl, qrels/): name the file of the questions", path
        )
    opened = open_squad(path) if is_squad(path) else open_source(path, fields.values())
    return opened.renamed(fields)


def _detect(source: Source, skip_bad: bool) -> tuple[Format, str]:
    """Return the format of the first row that has one, and the reason."""
    unknown: tuple[int, Row] | None = None
    number = 0
    for number, row in islice(source.rows(), _MAX_ROWS_TRIED):
        if isinstance(row, DataError):
            if not skip_bad:
                raise row
            continue
        for format in _IN_ORDER:
            if reason := _recognised(format, row, source):
                return format, f"{source.layout}; {reason}"
        unknown = unknown or (number, row)
    if unknown is None and number:
        return PLAIN, f"{source.layout}; none of its first {number} rows can be read"
    if unknown is None:
        raise DataError("no questions in it", source.path)
    fields = ", ".join(map(repr, unknown[1])) or "none"
    raise source.fault(
        unknown[0], f"unknown format of questions: its fields are {fields}. Known: {', '.join(FORMATS)} (--format)"
    )


def _recognised(format: Format, row: Row, source: Source) -> str | None:
    try:
        return format.recognise(row, source)
    except ValueError:  # the field that identifies it is malformed
        return None
