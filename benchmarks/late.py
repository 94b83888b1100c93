"""Late interaction: passages encoded per second, MaxSim per query, and the error of one-byte codes in a score.

    python -m benchmarks.late --checkpoint FOLDER --corpus FILE [--passages 300] [--queries 20]

FOLDER is a ColBERT checkpoint. Queries are the first sentences of passages; candidates are drawn at random. Seconds are
CPU seconds of one thread, so that they can be measured on a busy machine: start it with OMP_NUM_THREADS=1
OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np

from polyhop.common.sentences import sentences
from polyhop.data.corpora import open_corpus
from polyhop.retrieval.colbert import ColbertCheckpoint
from polyhop.retrieval.token_vectors import Vectors, codes_of, max_sims

CANDIDATES = (100, 1000)
REPEATS = 5


def measure(folder: Path, corpus: Path, count: int, asked: int) -> None:
    """Print the figures."""
    checkpoint = ColbertCheckpoint(f"colbert:{folder}", str(folder))
    passages = list(islice(open_corpus(corpus).unique(), count))
    vectors: list[Vectors] = []
    spent = seconds(lambda: vectors.extend(checkpoint.passages(passages)), 1)
    tokens = sum(map(len, vectors))
    print(f"encoded: {count / spent:.1f} passages per second, {tokens / count:.0f} tokens each")
    texts = [sentences(passage.text)[0] for passage in passages[:asked]]
    queries = [checkpoint.query(text) for text in texts]
    print(f"a query encoded: {1000 * seconds(lambda: checkpoint.query(texts[0])):.1f} ms")
    codes = [codes_of(each) for each in vectors]
    for size in CANDIDATES:
        drawn = random.Random(0).choices(codes, k=size)
        print(f"MaxSim over {size}: {1000 * seconds(lambda drawn=drawn: max_sims(queries[0], drawn)):.1f} ms")  # type: ignore[misc]
    print(f"bytes a passage: {tokens * checkpoint.size // count + 8}")
    off, spread = [], []
    for query in queries:
        full = np.array([float((query @ each.T).max(1).astype(np.float64).sum()) for each in vectors])
        off.append(np.abs(max_sims(query, codes) - full).max())
        spread.append(full.std())
    print(
        f"codes move a score of {len(queries[0])} at most by {max(off):.3f}; scores' deviation is {np.mean(spread):.2f}"
    )


def seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the CPU time of some work, the minimum of several."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--passages", type=int, default=300)
    parser.add_argument("--queries", type=int, default=20)
    given = parser.parse_args()
    measure(given.checkpoint, given.corpus, given.passages, given.queries)


if __name__ == "__main__":
    main()
