"""A line of ``predictions.jsonl``: the prediction for a question beside its gold, enough to score it again.

No model, dataset or corpus is needed to score a line: it holds the gold (answers, passages, facts, triples), the ranked
passages' ids and titles, and at which rank the first of them holds a gold answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, overload

import orjson

from polyhop.answer import Answer
from polyhop.data.statistics import hops
from polyhop.errors import UsageError
from polyhop.evaluation.citations import bound_triples, cited_facts, cited_passages
from polyhop.evaluation.errors import path_of
from polyhop.evaluation.gold_statistics import gold_statistics
from polyhop.metrics import Prediction, score, span_rank
from polyhop.metrics.predictions import SCORED_METADATA
from polyhop.metrics.profiles import DEFAULT
from polyhop.types import Passage, Question

Row: TypeAlias = Mapping[str, Any]

_SCORED = ("kind", "gold", "answering", "titles", "cited")
"""Fields that scoring needs and that older runs lack."""


class Lines(Sequence[Row]):
    """A sequence of rows that keeps each as JSON and parses it on access, in a fifth of the memory of the objects."""

    __slots__ = ("_lines",)

    def __init__(self, rows: Iterable[Row]) -> None:
        self._lines = [b"%b" % orjson.dumps(row) for row in rows]  # copied: orjson's own bytes keep much room behind

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        lines = self._lines[index]
        return [*map(orjson.loads, lines)] if isinstance(lines, list) else dict(orjson.loads(lines))

    def __len__(self) -> int:
        return len(self._lines)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]


def prediction(
    question: Question, answer: Answer, position: int, *, answers: bool = True, profiles: Sequence[str] = (DEFAULT,)
) -> dict[str, Any]:
    """Return one line of ``predictions.jsonl``; without answer metrics if the method gives no answer."""
    row: dict[str, Any] = {
        "id": question.id,
        "question": question.text,
        "kind": question.kind,
        "type": question.metadata.get("type"),
        "hops": hops(question),
        "answers": list(question.answers),
        "gold": gold_of(question),
        "prediction": answer.text,
        "answering": answers,
        "supported": answer.supported,
        "confidence": answer.confidence,
        "abstained": answer.abstained,
        "passages": [passage.id for passage in answer.passages],
        "titles": [passage.title for passage in answer.passages],
        "answer_rank": span_rank(answer.passages, question),
        "cited": [[passage.id, passage.title] for passage in cited_passages(answer)],
        "facts": cited_facts(question.text, answer),
        "triples": bound_triples(answer),
        "metrics": {},
        "statistics": {**answer.statistics, **gold_statistics(question, answer)},
        "budget": answer.trace.budget,
        **path_of(answer),
        "usage": answer.usage.to_dict(),
        "trace": f"traces/{position:05d}.json",
    }
    return next(scored([row], profiles)[0])


def gold_of(question: Question) -> dict[str, Any]:
    """Return a question's gold besides its answers, as a line holds it; empty fields are left out."""
    gold = {
        "ids": list(question.gold_ids),
        "titles": list(question.gold_titles),
        "supporting": [list(fact) for fact in question.supporting],
        "metadata": {name: question.metadata[name] for name in SCORED_METADATA if name in question.metadata},
    }
    return {name: value for name, value in gold.items() if value}


def scored(rows: Sequence[Row], profiles: Iterable[str]) -> tuple[Iterator[dict[str, Any]], dict[str, str]]:
    """Score the lines by these profiles; return them one by one, and the reason for each metric that no line has.

    Raises ``UsageError`` if a line lacks what is needed.
    """
    scores, missing = score([_read(row) for row in rows], profiles)
    return ({**row, "metrics": metrics} for row, metrics in zip(rows, scores, strict=True)), missing


def with_gold(row: Row, question: Question, passages: Sequence[Passage] | None) -> dict[str, Any]:
    """A line with another dataset's gold. ``passages``: what was ranked, with texts, where answers are sought in them
    anew; None where they are gone."""
    rank = span_rank(passages, question) if passages is not None else None
    return {
        **row,
        "kind": question.kind,
        "answers": list(question.answers),
        "gold": gold_of(question),
        "answer_rank": rank,
    }


def _read(row: Row) -> Prediction:
    if lacking := [name for name in _SCORED if name not in row]:
        raise UsageError(
            f"the predictions do not hold what metrics are computed from (no {', '.join(lacking)}): an older polyhop "
            "wrote them. Their own metrics can be reported, without --metrics; for others run again into another folder"
        )
    gold: Mapping[str, Any] = row["gold"]
    question = Question(
        row["id"],
        row["question"],
        tuple(row["answers"]),
        row["kind"],
        tuple(gold.get("ids", ())),
        tuple(gold.get("titles", ())),
        tuple((title, sentence) for title, sentence in gold.get("supporting", ())),
        metadata=gold.get("metadata", {}),
    )
    ranked = zip(row["passages"], row["titles"], strict=True)
    return Prediction(
        question,
        row["prediction"],
        row["answering"],
        [Passage(name, title, "") for name, title in ranked],
        row.get("answer_rank"),
        [Passage(name, title, "") for name, title in row["cited"]],
        _tuples(row.get("facts")),
        _tuples(row.get("triples")),
    )


def _tuples(value: Sequence[Sequence[Any]] | None) -> list[Any] | None:
    return None if value is None else [tuple(item) for item in value]
