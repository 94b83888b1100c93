"""A sheet on which people judge whether each reference mark of an answer is in the right position (AMP).

Xu et al., 2024 (SearChain, §4.3.4) have three people judge. The sheet is ``marks.csv`` in a run's folder: a line for
each mark, with its fragment and passage, and a column for each judge, to be filled with yes or no. Verdicts are kept
when the sheet is written anew; a mark without one does not count.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from polyhop.common.files import atomic_write, read_inside
from polyhop.data.sources import csv_cell
from polyhop.errors import DataError
from polyhop.evaluation.statistics import Mean
from polyhop.evaluation.store import read_trace

SHEET = "marks.csv"
JUDGES = ("judge 1", "judge 2", "judge 3")
_HEAD = ("question id", "mark", "question", "fragment", "passage title", "passage", *JUDGES)
_VERDICTS = {"yes": 1.0, "1": 1.0, "no": 0.0, "0": 0.0}


def write_sheet(folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write the sheet of a run's predictions; a prediction without a reference has no line."""
    path = folder / SHEET
    before = {_key(line): [line[judge] for judge in JUDGES] for line in _lines(path)}
    content = io.StringIO(newline="")
    sheet = csv.writer(content)
    sheet.writerow(_HEAD)
    for row in rows:
        for mark in _marks(folder, row):
            line = [str(csv_cell(cell)) for cell in mark]
            sheet.writerow([*line, *before.get((line[0].strip(), line[1]), [""] * len(JUDGES))])
    with atomic_write(path) as stream:  # people's work stands in it: it is never half written
        stream.write(content.getvalue().encode())


def mark_precision(folders: Iterable[Path]) -> Mean | None:
    """Return the share of verdicts that call a mark right; None if there is none yet.

    ``DataError`` names a line with a verdict other than yes or no.
    """
    verdicts = []
    for path in (folder / SHEET for folder in folders):
        for number, line in enumerate(_lines(path), 2):
            for verdict in filter(None, (line[judge].strip().lower() for judge in JUDGES)):
                if verdict not in _VERDICTS:
                    raise DataError(f"a verdict is yes or no, not {verdict!r}", path, number)
                verdicts.append(_VERDICTS[verdict])
    return Mean.of(verdicts) if verdicts else None


def _marks(folder: Path, row: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    trace = read_trace(folder, row)["trace"]
    notes = (step["data"] for step in trace["steps"] if step["kind"] == "note" and step["name"] == "final content")
    references = [reference for note in notes for reference in note["references"]]
    for number, reference in enumerate(references, 1):
        passage = trace["passages"][reference["passage"]]
        yield row["id"], str(number), row["question"], reference["fragment"], passage["title"], passage["text"]


def _lines(path: Path) -> list[dict[str, str]]:
    try:
        sheet = csv.DictReader(
            io.StringIO(read_inside(path.parent, path.name).decode("utf-8-sig"), newline=""), restval=""
        )
        if lacking := [name for name in (*_HEAD[:2], *JUDGES) if name not in (sheet.fieldnames or ())]:
            raise DataError(f"not a sheet of marks: it has no column {lacking[0]!r}", path)
        return list(sheet)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"not a sheet of marks: {error}", path) from None


def _key(line: Mapping[str, str]) -> tuple[str, str]:
    return str(csv_cell(line["question id"].strip())), line["mark"]
