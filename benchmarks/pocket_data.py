"""The questions and passages that ``pocket`` is measured and fitted on.

A data folder has one folder per set with ``corpus.jsonl`` (pid, title, text) and ``train.jsonl``, ``dev.jsonl`` (id,
question, answers, gold_pids, context_pids). The split ``held`` is the part of ``train`` that the network was not
trained on: all choices are made there, and ``dev`` is used only to measure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.examples import held_out

from polyhop import Passage, metrics
from polyhop.common.text import normalise
from polyhop.data.corpora import open_corpus
from polyhop.data.questions import read_questions
from polyhop.lm.pocket.reading.answer import next_query, read_path
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.index import index_for
from polyhop.types import Question

SETS = ("hotpotqa", "2wikimultihopqa", "musique")
SPLITS = ("train", "held", "dev")


@dataclass
class Split:
    """One data set's questions of one split, its passages and its BM25."""

    name: str
    questions: list[dict[str, Any]]
    passages: dict[str, Passage]
    search: Callable[[str, int], list[Passage]]


def load(data: Path, split: str, limit: int | None = None) -> list[Split]:
    """Return the data sets that exist."""
    splits = []
    for name in there(data):
        corpus = data / name / "corpus.jsonl"
        lines = _file(data, name, split).read_text(encoding="utf-8").splitlines()
        rows = [row for row in map(json.loads, lines) if _belongs(row["id"], split)][:limit]
        passages = {passage.id: passage for passage in open_corpus(corpus)}
        splits.append(Split(name, rows, passages, BM25(index_for(open_corpus(corpus))).search))
    return splits


def there(data: Path) -> list[str]:
    """Return the names of the data sets in a folder."""
    return [name for name in SETS if (data / name / "corpus.jsonl").exists()]


def questions(data: Path, name: str, split: str, limit: int | None = None) -> list[Question]:
    """Return the first questions of a set's split."""
    every = read_questions(_file(data, name, split))
    return [question for question in every if _belongs(question.id, split)][:limit]


def _file(data: Path, name: str, split: str) -> Path:
    return data / name / f"{'train' if split == 'held' else split}.jsonl"


def _belongs(question_id: str, split: str) -> bool:
    return split != "held" or held_out(question_id)


def paths(part: Split) -> Iterator[tuple[dict[str, Any], tuple[Passage, ...]]]:
    """Yield paths such as Tree of Reviews reviews: roots, second hops after gold and other roots, and gold paths."""
    for row in part.questions:
        roots = part.search(row["question"], 5)
        gold = [part.passages[pid] for pid in row["gold_pids"]]
        yield from ((row, (root,)) for root in roots)
        good = [root for root in roots if root in gold] or gold[:1]
        for root in (*good[:2], *[root for root in roots if root not in gold][:1]):
            query = next_query(read_path(row["question"], [root])) or row["question"]
            hits = [hit for hit in part.search(query, 4) if hit != root]
            yield from ((row, (root, hit)) for hit in hits[: 3 if root in gold else 2])
        yield row, tuple(gold[:3])
        if len(gold) > 2:
            yield row, tuple(gold[:2])


def all_gold(row: dict[str, Any], path: Sequence[Passage]) -> bool:
    """True if every passage of the path is a gold one."""
    return all(passage.id in row["gold_pids"] for passage in path)


def is_enough(row: dict[str, Any], path: Sequence[Passage]) -> bool:
    """True if a path contains all gold passages, or several of them that already give the answer."""
    answer = read_path(row["question"], path).solution.answer
    if answer is None:
        return False
    is_spoken = normalise(row["answers"][0]) not in ("yes", "no") and metrics.f1(answer, row["answers"]) >= 0.6
    everything = set(row["gold_pids"]) <= {passage.id for passage in path}
    return everything or (is_spoken and len(path) > 1 and all_gold(row, path))
