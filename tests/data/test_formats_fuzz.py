"""No value in any field of any format's row raises anything but a message; what is read can be written and scored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.data.contexts import contexts_of
from polyhop.data.plain import flashrag_row, plain_row, read_question
from polyhop.data.questions import FORMATS
from polyhop.data.sources import Source
from polyhop.data.statistics import dataset_statistics
from polyhop.errors import UnknownName
from polyhop.evaluation.predictions import gold_of
from polyhop.evaluation.tuning.readers import steps_of
from polyhop.metrics import score_passages
from polyhop.types import Passage
from tests.data.test_formats import ROWS

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
_FIELDS = sorted({name for row in ROWS.values() for name in row} | {"metadata", "gold_titles", "kind", "1", "2"})
SOURCE = Source(Path("dev.jsonl"), "JSON lines", lambda: iter(()))


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every part of a JSON value."""
    inner = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(below for key, item in inner for below in paths_in(item, (*path, key)))]


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return a JSON value with a new part at a path."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, Mapping) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize("name", FORMATS)
@settings(deadline=None)
@given(data=st.data())
def test_a_row_is_read_or_its_fault_is_reported(name: str, data: st.DataObject) -> None:
    row: dict[str, Any] = dict(ROWS.get(name, ROWS["jsonl"]))
    if data.draw(st.booleans()):
        row |= data.draw(st.dictionaries(st.sampled_from(_FIELDS), _JSON, max_size=3))
    path = data.draw(st.sampled_from([path for path in paths_in(row) if path]))
    row = changed(row, path, data.draw(_JSON))
    for format in FORMATS.values():
        try:
            assert isinstance(format.recognise(row, SOURCE), str | None)
        except ValueError as error:
            assert str(error)  # noqa: PT017
    try:
        question = FORMATS[name].open(SOURCE)(row, 3)
    except (ValueError, UnknownName) as error:
        assert str(error)  # noqa: PT017
        return
    assert question.text == question.text.strip() != ""
    assert steps_of(question)
    assert set(score_passages([Passage("1", "Emma", "Steventon")], question)) <= set(_metrics())
    dataset_statistics([question])
    gold_of(question)
    for written in (plain_row(question), flashrag_row(question)):
        assert read_question(orjson.loads(orjson.dumps(written))) == question


@pytest.mark.parametrize("name", ["hotpotqa", "musique", "flashrag"])
@settings(deadline=None)
@given(data=st.data())
def test_contexts_are_read_or_their_fault_is_reported(name: str, data: st.DataObject) -> None:
    row = dict(ROWS[name])
    path = data.draw(st.sampled_from([path for path in paths_in(row) if path]))
    try:
        for context in contexts_of(changed(row, path, data.draw(_JSON))):
            assert orjson.dumps(context.passage.to_dict())
            assert len(context.starts) == len(context.sentences)
    except ValueError as error:
        assert str(error)  # noqa: PT017


def _metrics() -> list[str]:
    names = ("recall_mean", "recall_all", "recall_any", "ar", "ar_comparison")
    return [f"{name}@{k}" for name in names for k in (2, 5, 10, 15, 20)]
