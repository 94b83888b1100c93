"""Questions with their gold, from JSON lines: FlashRAG's fields, ours, or no more than a question and its answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast, get_args

from polyhop.data.lines import (
    first_of,
    id_of,
    json_type,
    mapping_of,
    peek,
    read_objects,
    require,
    strings_of,
    text_of,
)
from polyhop.data.shipped import or_shipped
from polyhop.errors import DataError, SettingError, UnknownName
from polyhop.types import Kind, Question

KINDS: tuple[str, ...] = get_args(Kind)
ID_FIELDS = ("id", "_id", "qid")
ANSWER_FIELDS = ("answers", "golden_answers", "answer")
GOLD_ID_FIELDS = ("gold_pids", "gold_ids")
STEP_FIELDS = ("decomposition", "question_decomposition")
_KEPT = ("type", "level", "split", "context_pids", "evidences")
"""Fields that pass into ``Question.metadata`` as they are."""

FORMAT = (
    "JSON lines (.gz too) with question and, as they are known, id, answers|golden_answers|answer, kind, type, "
    "gold_pids, gold_titles, supporting_facts, evidences, decomposition, metadata"
)


def read_questions(path: str | Path, *, limit: int | None = None, skip_bad: bool = False) -> list[Question]:
    """The questions of a file in order, the first ``limit`` of them; ``demo`` is the set that ships inside.

    A line without an id is given one from its number (``q17``). With ``skip_bad`` a malformed line is left out.

    Raises:
        DataError: the file is missing, empty or of another format; a line is malformed or repeats an id (the message
            names file and line).
        SettingError: ``limit`` is negative.
    """
    if limit is not None and limit < 0:
        raise SettingError(f"limit is {limit}; it is a number of questions, 0 or more")
    path = or_shipped(path, "questions")
    start = peek(path)
    if start and not start.startswith(b"{"):
        raise DataError(f"unknown format of questions: begins with {start[:40]!r}. Accepted: {FORMAT}.", path)
    questions: dict[str, Question] = {}
    lines: dict[str, int] = {}
    for number, item in _read(path):
        if limit is not None and len(questions) >= limit:
            break
        if isinstance(item, Question) and item.id in questions:
            item = DataError(f"duplicate id {item.id!r}; first on line {lines[item.id]}", path, number)
        if isinstance(item, Question):
            questions[item.id], lines[item.id] = item, number
        elif not skip_bad:
            raise item
    if not questions and limit != 0:
        raise DataError("no questions in it", path)
    return list(questions.values())


def read_question(row: Mapping[str, Any], number: int = 1) -> Question:
    """One line as a question.

    >>> question = read_question({"question": "Who wrote Emma?", "answer": "Jane Austen"}, number=3)
    >>> question.id, question.text, question.answers, question.kind
    ('q3', 'Who wrote Emma?', ('Jane Austen',), 'qa')

    Raises:
        ValueError: a field is missing or of another type.
        UnknownName: ``kind`` is none of ``types.Kind``.
    """
    given = mapping_of(row, "metadata")
    text = text_of(row, require(row, ("question",)))
    id_field = first_of(row, ID_FIELDS)
    kind = row.get("kind") or given.get("kind") or "qa"
    if kind not in KINDS:
        raise UnknownName("kind of question", str(kind), KINDS)
    supporting = _supporting(_either(row, given, ("supporting_facts",)))
    titles = strings_of(row, "gold_titles") or tuple(dict.fromkeys(title for title, _ in supporting))
    return Question(
        id=id_of(row, id_field) if id_field else f"q{number}",
        text=text.strip(),
        answers=_answers(row),
        kind=cast(Kind, kind),
        gold_ids=strings_of(row, first_of(row, GOLD_ID_FIELDS) or "gold_pids"),
        gold_titles=titles,
        supporting=supporting,
        steps=_steps(_either(row, given, STEP_FIELDS)),
        metadata={**given, **{name: row[name] for name in _KEPT if row.get(name) is not None}},
    )


def _read(path: Path) -> Iterator[tuple[int, Question | DataError]]:
    for number, row in read_objects(path):
        if isinstance(row, DataError):
            yield number, row
            continue
        try:
            yield number, read_question(row, number)
        except (ValueError, UnknownName) as error:
            yield number, DataError(str(error), path, number)


def _either(row: Mapping[str, Any], metadata: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """A field of the line itself or, as FlashRAG has them, of its metadata; None where neither has it."""
    for place in (row, metadata):
        if name := first_of(place, names):
            return place[name]
    return None


def _answers(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The gold answers, each alias its own; () for a question without gold.

    >>> _answers({"answer": True}), _answers({"golden_answers": ["UDC", "U.D.C."]}), _answers({})
    (('yes',), ('UDC', 'U.D.C.'), ())
    """
    name = first_of(row, ANSWER_FIELDS)
    if name is None:
        return ()
    value = row[name]
    if isinstance(value, bool):
        return ("yes" if value else "no",)
    if isinstance(value, str | int | float):
        return (str(value),)
    return strings_of(row, name)


def _supporting(value: Any) -> tuple[tuple[str, int], ...]:
    """(title, sentence number) pairs, from a list of pairs or from parallel lists.

    >>> _supporting([["Emma", 0]]) == _supporting({"title": ["Emma"], "sent_id": [0]})
    True
    """
    if value is None:
        return ()
    if isinstance(value, dict) and isinstance(value.get("title"), list) and isinstance(value.get("sent_id"), list):
        value = [list(pair) for pair in zip(value["title"], value["sent_id"], strict=True)]
    if not isinstance(value, list):
        raise ValueError(f"'supporting_facts' is {json_type(value)}, expected an array of [title, sentence] pairs")
    facts: list[tuple[str, int]] = []
    for fact in value:
        match fact:
            case [str() as title, int() as sentence]:
                facts.append((title, sentence))
            case _:
                raise ValueError(f"'supporting_facts' holds {fact!r}, expected [title, sentence] pairs")
    return tuple(facts)


def _steps(value: Any) -> tuple[Mapping[str, Any], ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(step, dict) for step in value):
        raise ValueError("the decomposition is not an array of objects, one a step")
    return tuple(value)
