"""The share of gold passages that each retriever finds, for each benchmark over its own corpus.

    python -m benchmarks.retrieval --data DIR [--split dev] [--dense FOLDER] [--triplets FOLDER] [--only NAME]
        [--limit N] [--check]

DIR has a folder per benchmark with ``corpus.jsonl`` and ``SPLIT.jsonl`` (fields as in ``read_questions``, gold passages
in ``gold_pids``). ``--dense`` names an encoder as in ``--retriever dense:…``, such as the folder of all-MiniLM-L6-v2;
without it the rows that need one are left out. ``--triplets`` has a file ``NAME.json`` per benchmark, from ``polyhop
index triplets`` or HippoRAG, for the rows of ``triplets`` and ``hipporag``. Prints, in percent: R@k, the mean share of
a question's gold passages in the top k, with the 95 % interval of R@5; all@5, the share of questions with all gold
passages there; ans@5, the share with a gold answer in the text of the top 5 (without yes/no questions). Further, ms per
query in sequence, wall and CPU; MB and seconds to build the index and what the retriever adds to it (a row above may
have added it already). After each benchmark's name is reach@k: the mean share of gold passages in BM25's top k or one
link away, the upper bound of ``hops``, and in brackets the share of questions with all of them there. With ``--check``
the exit code is 1 if R@5 on dev is more than a point below its bar.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from polyhop import Pipeline
from polyhop.common.text import counted, normalise
from polyhop.data.corpora import open_corpus
from polyhop.data.questions import read_questions
from polyhop.evaluation.statistics import Mean
from polyhop.methods.as_retriever import HopsRetriever
from polyhop.retrieval import Index, Retriever, build_index, open_plain_retriever, open_retriever
from polyhop.retrieval.base import RetrieverObject
from polyhop.types import Passage, Question

HELD_TO = {
    "hotpotqa": {"bm25": 76.8, "ppr": 92.3, "hops": 94.6},
    "2wikimultihopqa": {"bm25": 68.9, "ppr": 92.8, "hops": 97.0},
    "musique": {"bm25": 50.1, "ppr": 59.1, "hops": 60.8},
}
"""Mean R@5 on dev of BM25 (stemmed, without stop words, k1 1.2, b 0.75), and of ``ppr`` and ``hops`` based on it."""

RECALL_AT, REACH_AT = (2, 5, 10, 20), (10, 30, 100)
HEADS = ("R@2", "R@5", "", "R@10", "R@20", "all@5", "ans@5", "ms", "CPU", "MB", "build s")


class Row(NamedTuple):
    """A retriever's figures: recall by k, the shares of questions with all gold passages and with an answer, its
    costs."""

    recall: dict[int, Mean]
    all_at_5: float
    answer_at_5: float
    ms: float
    cpu: float
    mb: float
    build: float

    def __str__(self) -> str:
        at = {k: f"{100 * mean.value:.1f}" for k, mean in self.recall.items()}
        interval = f"({100 * self.recall[5].low:.1f}–{100 * self.recall[5].high:.1f})"
        cells = [at[2], at[5], interval, at[10], at[20], f"{self.all_at_5:.1f}", f"{self.answer_at_5:.1f}"]
        cells += [f"{self.ms:.1f}", f"{self.cpu:.1f}", f"{self.mb:.1f}", f"{self.build:.1f}"]
        return line(cells)


def line(cells: Sequence[str]) -> str:
    """Return the cells in the order of the columns."""
    return "".join(f"{cell:>{14 if number == 2 else 8}}" for number, cell in enumerate(cells))


Opens = Callable[[Index], RetrieverObject]


def retrievers(dense: str | None, triplets: Path | None) -> Iterator[tuple[str, Opens]]:
    """Yield every row's name and the function that opens its retriever."""
    if triplets:
        encoder = f"encoder={dense or 'pocket'}"
        yield "triplets", lambda index: open_retriever(f"triplets:{triplets}?{encoder}", index)
        yield "hipporag", lambda index: open_retriever(f"hipporag:{triplets}?{encoder}", index)
        unfiltered = f"hipporag:{triplets}?{encoder}&recognise=no"
        yield "hipporag, unfiltered", lambda index: open_retriever(unfiltered, index)
    for name in ("bm25", "tfidf", "tfidf-bm25", "ppr"):
        yield name, lambda index, name=name: open_plain_retriever(name, index)  # type: ignore[misc]
    if dense:
        hybrid = f"hybrid:bm25+dense:{dense}"
        yield "dense", lambda index: open_plain_retriever(f"dense:{dense}", index)
        yield "hybrid: bm25 and dense", lambda index: open_plain_retriever(hybrid, index)
        yield "ppr from the hybrid", lambda index: open_plain_retriever(f"ppr?start={hybrid}", index)
    yield "promptrank", lambda index: open_retriever("promptrank", index)
    yield "hops", lambda index: open_retriever("hops", index)
    if dense:
        yield "hops from the hybrid", lambda index: HopsRetriever(open_plain_retriever(hybrid, index))


def measure(opens: Opens, index: Index, built: tuple[float, float], questions: Sequence[Question]) -> Row:
    """Measure one retriever; ``built``: the MB and seconds of the index alone."""
    base, begun = size(index), time.perf_counter()
    retriever = opens(index)
    added = time.perf_counter() - begun
    with Pipeline(index, "one-r", "pocket", retriever=retriever) as pipeline:
        pipeline.search(questions[0].text, 1)  # opens and warms
        begun, spent = time.perf_counter(), time.process_time()
        found = [pipeline.search(question.text, max(RECALL_AT)) for question in questions]
        wall, cpu = time.perf_counter() - begun, time.process_time() - spent
    gold = [frozenset(question.gold_ids) for question in questions]
    shares = {
        k: [share(ids, {p.id for p in hits[:k]}) for ids, hits in zip(gold, found, strict=True)] for k in RECALL_AT
    }
    answered = [
        has_answer(question, hits[:5]) for question, hits in zip(questions, found, strict=True) if open_(question)
    ]
    return Row(
        {k: Mean.of(values) for k, values in shares.items()},
        mean([float(value == 1) for value in shares[5]]),
        mean(answered),
        1000 * wall / len(questions),
        1000 * cpu / len(questions),
        built[0] + size(index) - base,
        built[1] + added,
    )


def size(index: Index) -> float:
    """Return the MB of an index's folder."""
    return sum(file.stat().st_size for file in index.folder.rglob("*") if file.is_file()) / 1e6


def reach(index: Index, questions: Sequence[Question]) -> str:
    """Return the share of gold passages in BM25's top k or one link away."""
    retriever = open_plain_retriever("bm25", index)
    found = [retriever.search(question.text, max(REACH_AT)) for question in questions]
    shown = []
    for k in REACH_AT:
        shares = [
            share(frozenset(question.gold_ids), within_reach(retriever, hits[:k]))
            for question, hits in zip(questions, found, strict=True)
        ]
        shown.append(f"reach@{k} {mean(shares):.1f} ({mean([float(value == 1) for value in shares]):.0f})")
    return ", ".join(shown)


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
    """Return the mean of the values in percent."""
    return 100 * sum(values) / max(1, len(values))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--dense", help="an encoder, as --retriever dense:… names it")
    parser.add_argument("--triplets", type=Path, help="a folder of files of triplets, one per benchmark")
    parser.add_argument("--only", choices=HELD_TO, action="append", help="this benchmark alone")
    parser.add_argument("--limit", type=int, help="the first questions only")
    parser.add_argument("--check", action="store_true", help="exit 1 when BM25, ppr or hops falls short")
    arguments = parser.parse_args()
    print(f"{'':26}{line(HEADS)}")
    missed = []
    for name in arguments.only or HELD_TO:
        folder = arguments.data / name
        questions = read_questions(folder / f"{arguments.split}.jsonl")[: arguments.limit]
        with tempfile.TemporaryDirectory() as temporary:
            begun = time.perf_counter()
            index = build_index(open_corpus(folder / "corpus.jsonl"), Path(temporary, "index"))
            built = size(index), time.perf_counter() - begun
            sizes = f"{counted(len(questions), 'questions')}, {counted(len(index), 'passages')}"
            print(f"{name} ({sizes}), {reach(index, questions)}")
            for label, opens in retrievers(arguments.dense, arguments.triplets and arguments.triplets / f"{name}.json"):
                row = measure(opens, index, built, questions)
                print(f"  {label:24}{row}", flush=True)
                recall, held_to = 100 * row.recall[5].value, HELD_TO[name].get(label, 0.0)
                if arguments.split == "dev" and not arguments.limit and recall < held_to - 1:
                    missed.append(f"{name}: R@5 of {label} {recall:.1f}, held to {held_to}")
    for each in missed:
        print(f"missed: {each}", file=sys.stderr)
    return 1 if arguments.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
