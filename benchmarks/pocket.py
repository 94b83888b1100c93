"""Pocket, measured: how well it answers, at each level, and how well its reviews decide.

    python -m benchmarks.pocket DATA [--split dev] [--limit 100]

DATA holds one folder a data set with ``corpus.jsonl`` (pid, title, text) and ``train.jsonl``, ``dev.jsonl`` (question,
answers, gold_pids, context_pids).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polyhop import Passage, Pipeline, metrics
from polyhop.data.corpora import open_corpus
from polyhop.lm.pocket import judging, queries
from polyhop.lm.pocket.study import study
from polyhop.lm.pocket.tasks import RELEVANT_ABOVE, SUFFICIENT_ABOVE, do
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.index import index_for
from polyhop.text import normalise

SETS = ("hotpotqa", "2wikimultihopqa", "musique")


@dataclass
class Split:
    """One data set's questions of one split, its passages and its BM25."""

    name: str
    questions: list[dict[str, Any]]
    passages: dict[str, Passage]
    search: Callable[[str, int], list[Passage]]


def load(data: Path, split: str, limit: int | None = None) -> list[Split]:
    """The data sets that are there."""
    splits = []
    for name in SETS:
        corpus = data / name / "corpus.jsonl"
        if corpus.exists():
            lines = (data / name / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()[:limit]
            passages = {passage.id: passage for passage in open_corpus(corpus)}
            search = BM25(index_for(open_corpus(corpus))).search
            splits.append(Split(name, [json.loads(line) for line in lines], passages, search))
    return splits


def measure(data: Path, split: str, limit: int | None) -> None:
    """Answers from gold passages, from the BM25 top 5, closed book, by Tree of Reviews; and the review's decisions."""
    for part in load(data, split, limit):
        answerers: dict[str, Callable[[dict[str, Any]], str]] = {
            "closed book": lambda row: do("answer.direct", row)["answer"],
            "gold passages": lambda row, part=part: _read(row, [part.passages[pid] for pid in row["gold_pids"]]),  # type: ignore[misc]
            "BM25 top 5": lambda row, part=part: _read(row, part.search(row["question"], 5)),  # type: ignore[misc]
        }
        print(f"{part.name}, {split}, {len(part.questions)} questions")
        for name, answer in answerers.items():
            _print_scores(name, [(answer(row), row) for row in part.questions])
        with Pipeline(data / part.name / "corpus.jsonl", "tor", "pocket") as pipeline:
            start = time.process_time()
            told = [(pipeline.ask(row["question"]).text, row) for row in part.questions]
            spent = (time.process_time() - start) / max(1, len(told))
        _print_scores("Tree of Reviews", told, f"{1000 * spent:.0f} ms CPU a question")
        _print_reviews(part)


def _read(row: dict[str, Any], passages: list[Passage]) -> str:
    answer: str = do("answer.read", {"question": row["question"], "passages": passages})["answer"]
    return answer


def _print_scores(name: str, told: list[tuple[str, dict[str, Any]]], note: str = "") -> None:
    f1 = np.mean([metrics.f1(answer, row["answers"]) for answer, row in told])
    em = np.mean([metrics.exact_match(answer, row["answers"]) for answer, row in told])
    print(f"  {name:16} F1 {100 * f1:5.1f}  EM {100 * em:5.1f}  {note}")


def _print_reviews(part: Split) -> None:
    relevance: list[tuple[bool, bool]] = []
    sufficiency: list[tuple[bool, bool]] = []
    for row, path in paths(part):
        found = study(row["question"], path)
        relevance.append((judging.relevant(found) >= RELEVANT_ABOVE, all_gold(row, path)))
        if len(path) > 1:
            sufficiency.append((judging.sufficient(found) >= SUFFICIENT_ABOVE, is_enough(row, path)))
    for name, pairs in (("relevance", relevance), ("sufficiency", sufficiency)):
        both = sum(said and true for said, true in pairs)
        said, true = (max(1, sum(pair[at] for pair in pairs)) for at in (0, 1))
        print(f"  {name:16} precision {both / said:.3f}  recall {both / true:.3f}  of {len(pairs)} paths")


def paths(part: Split) -> Iterator[tuple[dict[str, Any], tuple[Passage, ...]]]:
    """Paths as Tree of Reviews meets them: roots, second hops after gold and other roots, and gold paths."""
    for row in part.questions:
        roots = part.search(row["question"], 5)
        gold = [part.passages[pid] for pid in row["gold_pids"]]
        yield from ((row, (root,)) for root in roots)
        good = [root for root in roots if root in gold] or gold[:1]
        for root in (*good[:2], *[root for root in roots if root not in gold][:1]):
            query = queries.next_query(study(row["question"], [root])) or row["question"]
            hits = [hit for hit in part.search(query, 4) if hit != root]
            yield from ((row, (root, hit)) for hit in hits[: 3 if root in gold else 2])
        yield row, tuple(gold[:3])
        if len(gold) > 2:
            yield row, tuple(gold[:2])


def all_gold(row: dict[str, Any], path: Sequence[Passage]) -> bool:
    """Whether every passage of the path is a gold one."""
    return all(passage.id in row["gold_pids"] for passage in path)


def is_enough(row: dict[str, Any], path: Sequence[Passage]) -> bool:
    """Whether a path holds all gold passages, or several of them that already give the answer."""
    answer = study(row["question"], path).solution.answer
    if answer is None:
        return False
    spoken = normalise(row["answers"][0]) not in ("yes", "no") and metrics.f1(answer, row["answers"]) >= 0.6
    everything = set(row["gold_pids"]) <= {passage.id for passage in path}
    return everything or (spoken and len(path) > 1 and all_gold(row, path))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--limit", type=int)
    arguments = parser.parse_args()
    measure(arguments.data, arguments.split, arguments.limit)
