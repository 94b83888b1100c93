"""A BEIR folder (Thakur et al., 2021) as a dataset: its queries, with the passages judged relevant as gold.

    FOLDER/queries.jsonl      {"_id": "q1", "text": "Who wrote Emma?", "metadata": {}}
    FOLDER/qrels/test.tsv     query-id <tab> corpus-id <tab> score

The folder means its ``test`` split, else its only one; a file under ``qrels`` names a split. Only queries that have
judgements in it are read. TREC's four columns (``qid 0 docid relevance``) are also accepted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polyhop.data.formats import Format, answers_of, question_id, question_text
from polyhop.data.lines import DAMAGED, mapping_of, open_bytes, part_of, read_objects, strings_of
from polyhop.data.sources import Rows, Source
from polyhop.errors import DataError, UsageError
from polyhop.types import Question

QUERIES, QRELS, _TEST = "queries.jsonl", "qrels", "test.tsv"
_JUDGED = "judged relevant"
"""The field that is added to a query's row."""


def is_beir(path: Path) -> bool:
    """Return True if a path is a BEIR folder or a file of its judgements."""
    return (path / QUERIES).is_file() or (path.parent.name == QRELS and (path.parent.parent / QUERIES).is_file())


def open_beir(path: Path) -> Source:
    """Open the judged queries of a folder's split.

    Raises:
        UsageError: the folder has several splits, and none is ``test``.
        DataError: a judgement is malformed, there are no judgements, or a file is a link that leads out of the folder.
    """
    judgements = part_of(path, _split(path).relative_to(path)) if path.is_dir() else path
    queries = part_of(judgements.parent.parent, QUERIES)

    def rows() -> Rows:
        relevant = read_qrels(judgements)
        for number, row in read_objects(queries):
            if isinstance(row, DataError) or "_id" not in row:
                yield number, row
            elif judged := relevant.get(str(row["_id"])):
                yield number, {**row, _JUDGED: judged}

    return Source(queries, "JSON lines", rows)


def read_qrels(path: Path) -> dict[str, list[str]]:
    """Return the ids of the relevant passages (score above 0) of each query, best first.

    Raises:
        DataError: a line is neither ``query-id corpus-id score`` nor ``qid 0 docid relevance``.
    """
    found: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
    with open_bytes(path) as stream:
        try:
            for number, line in enumerate(stream, 1):
                cells = line.decode("utf-8-sig", "replace").split()
                if not cells or cells[0] == "query-id":
                    continue
                try:
                    query, passage, score = cells if len(cells) == 3 else (cells[0], *cells[2:])
                    found[query].append((-float(score), passage))
                except ValueError:
                    raise DataError("not a judgement: expected query-id, corpus-id and score", path, number) from None
        except DAMAGED as error:
            raise DataError(f"damaged or unreadable: {error}", path) from error
    return {
        query: [id for score, id in sorted(judged, key=lambda judgement: judgement[0]) if score < 0]
        for query, judged in found.items()
    }


def _split(folder: Path) -> Path:
    splits = sorted((folder / QRELS).glob("*.tsv"))
    if not splits:
        raise DataError(f"no judgements: it has no {QRELS}/*.tsv", folder)
    if len(splits) == 1:
        return splits[0]
    if (folder / QRELS / _TEST) in splits:
        return folder / QRELS / _TEST
    raise UsageError(f"{folder} has several splits: name one of {', '.join(map(str, splits))}")


def _read(row: Mapping[str, Any], number: int) -> Question:
    metadata = mapping_of(row, "metadata")
    return Question(
        id=question_id(row, number),
        text=question_text(row, "text"),
        answers=answers_of(metadata, "answer"),
        gold_ids=strings_of(row, _JUDGED),
    )


def _recognise(row: Mapping[str, Any], _: Source) -> str | None:
    return "a BEIR folder's queries with their judgements" if _JUDGED in row else None


BEIR = Format("beir", "a BEIR folder, or a file of its qrels", _recognise, lambda _: _read)
