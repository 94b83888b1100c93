"""The sheet on which people judge an answer's marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from polyhop.evaluation.reproduction.measures import SHEET, mark_precision, write_sheet


def row(folder: Path, name: str) -> Mapping[str, Any]:
    """A line of a run's predictions, whose trace tells one reference."""
    references = [{"passage": "p", "fragment": "It is by Ann Lee"}]
    note = {"kind": "note", "name": "final content", "data": {"references": references}}
    passages = {"p": {"title": "Mill", "text": "Mill is by Ann Lee."}}
    (folder / "traces").mkdir(exist_ok=True)
    trace = orjson.dumps({"trace": {"steps": [note], "passages": passages}})
    (folder / "traces" / f"{name}.json").write_bytes(trace)
    return {"id": name, "question": "Who made Mill?", "trace": f"traces/{name}.json"}


def test_verdicts_survive_a_sheet_that_cannot_be_rewritten(tmp_path: Path) -> None:
    first = row(tmp_path, "q1")
    write_sheet(tmp_path, [first])
    sheet = tmp_path / SHEET
    sheet.write_text(sheet.read_text().replace("Mill is by Ann Lee.,,,", "Mill is by Ann Lee.,yes,no,"))
    before = sheet.read_bytes()

    def broken() -> Iterator[Mapping[str, Any]]:
        yield first
        yield {**first, "id": "q2", "trace": "none.json"}

    with pytest.raises(FileNotFoundError):
        write_sheet(tmp_path, broken())
    assert sheet.read_bytes() == before
    write_sheet(tmp_path, [row(tmp_path, "q0"), first])
    found = mark_precision([tmp_path])
    assert found is not None
    assert (found.value, found.n) == (0.5, 2)
