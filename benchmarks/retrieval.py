"""How much of the gold the sparse retrievers find, each benchmark over its own corpus.jsonl.

    python benchmarks/retrieval.py --data DIR [--split dev] [--check]

DIR holds a folder for each benchmark with ``corpus.jsonl`` and ``SPLIT.jsonl`` (fields as ``read_questions`` takes
them, gold passages in ``gold_pids``). Printed, in per cent: R@k, the mean share of a question's gold passages in the
top k; ans@k, the share of questions with a gold answer in the text of the top k (yes/no questions left out); and
reach@k, the mean share of gold in the top k or one link away, and in brackets the share of questions with all of it
there. With ``--check`` the exit status is 1 when R@5 of BM25 on dev is more than a point below the figures it is held
to.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from polyhop.data.corpora import open_corpus
from polyhop.data.questions import read_questions
from polyhop.retrieval import Retriever, build_index, open_plain_retriever
from polyhop.text import normalise
from polyhop.types import Passage, Question

HELD_TO = {"hotpotqa": 76.8, "2wikimultihopqa": 68.9, "musique": 50.1}
"""Mean R@5 on dev of BM25, stemmed, without stop words, k1 1.2, b 0.75."""

RECALL_AT, ANSWER_AT, REACH_AT = (2, 5, 10, 20), (5, 20), (10, 30, 100)


def measure(retriever: Retriever, questions: Sequence[Question]) -> dict[str, float]:
    """Every figure of a row, by its name."""
    found = [retriever.search(question.text, max(REACH_AT)) for question in questions]
    gold = [frozenset(question.gold_ids) for question in questions]
    row: dict[str, float] = {}
    for k in RECALL_AT:
        row[f"R@{k}"] = mean([share(ids, {p.id for p in hits[:k]}) for ids, hits in zip(gold, found, strict=True)])
    for k in ANSWER_AT:
        row[f"ans@{k}"] = mean(
            [has_answer(question, hits[:k]) for question, hits in zip(questions, found, strict=True) if open_(question)]
        )
    for k in REACH_AT:
        reached = [within_reach(retriever, hits[:k]) for hits in found]
        row[f"reach@{k}"] = mean([share(ids, near) for ids, near in zip(gold, reached, strict=True)])
        row[f"all@{k}"] = mean([float(ids <= near) for ids, near in zip(gold, reached, strict=True)])
    return row


def share(gold: frozenset[str], found: set[str]) -> float:
    return len(gold & found) / len(gold)


def within_reach(retriever: Retriever, hits: Sequence[Passage]) -> set[str]:
    return {p.id for p in hits} | {target.id for p in hits for target in retriever.links(p)}


def open_(question: Question) -> bool:
    return not {"yes", "no"} & {normalise(answer) for answer in question.answers}


def has_answer(question: Question, hits: Sequence[Passage]) -> float:
    texts = [f" {normalise(f'{p.title} {p.text}')} " for p in hits]
    answers = [f" {normalise(answer)} " for answer in question.answers]
    return float(any(answer in text for answer in answers for text in texts))


def mean(values: Sequence[float]) -> float:
    """Their mean in per cent."""
    return 100 * sum(values) / len(values)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--check", action="store_true", help="exit 1 when BM25 falls short")
    arguments = parser.parse_args()
    heads = [f"R@{k}" for k in RECALL_AT] + [f"ans@{k}" for k in ANSWER_AT]
    print(f"{'':34}" + "".join(f"{head:>8}" for head in heads) + "".join(f"{f'reach@{k}':>14}" for k in REACH_AT))
    missed = []
    for name, held_to in HELD_TO.items():
        folder = arguments.data / name
        questions = read_questions(folder / f"{arguments.split}.jsonl")
        with tempfile.TemporaryDirectory() as place:
            index = build_index(open_corpus(folder / "corpus.jsonl"), Path(place, "index"))
            kept = build_index(open_corpus(folder / "corpus.jsonl"), Path(place, "kept"), stop_words=False)
            rows = {
                "bm25": measure(open_plain_retriever("bm25", index), questions),
                "bm25, stop words kept": measure(open_plain_retriever("bm25", kept), questions),
                "tfidf": measure(open_plain_retriever("tfidf", index), questions),
            }
        print(f"{name} ({len(questions)} questions, {len(index):,} passages)")
        for label, row in rows.items():
            reach = "".join(f"{row[f'reach@{k}']:8.1f} ({row[f'all@{k}']:3.0f})" for k in REACH_AT)
            print(f"  {label:32}" + "".join(f"{row[head]:8.1f}" for head in heads) + reach)
        if arguments.split == "dev" and rows["bm25"]["R@5"] < held_to - 1:
            missed.append(f"{name}: R@5 {rows['bm25']['R@5']:.1f}, held to {held_to}")
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if arguments.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
