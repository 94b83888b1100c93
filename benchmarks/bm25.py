"""BM25 at scale: polyhop's search compared with bare tantivy doing the same work, and the cost of building an index.

    python -m benchmarks.bm25 [--passages 1000000] [--check]

Both engines have the same synthetic passages (Zipf-distributed words, about 95 per passage, from a seed) and the same
analyser. Bare tantivy parses the query, takes 10 hits and reads their stored title and text; ours is ``BM25.search``.
Queries run in interleaved repeats in one process; the figure is CPU time per query, the best repeat of each engine.
Each build runs in its own process, to measure its peak memory. With ``--check`` the exit code is 1 if search takes more
than 1.2 times as long as bare tantivy, or a build more than 1 GB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import tantivy
from benchmarks.figures import Figure, conclude, parser

from polyhop.common.text import STOP_WORDS, counted
from polyhop.data.corpora import open_corpus
from polyhop.retrieval.analysis import ENGLISH
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.index import build_index, open_index
from polyhop.retrieval.links import build_links
from polyhop.types import Passage

WORST_RATIO, MAX_MEMORY_MB = 1.2, 1024
HITS, WORDS, VOCABULARY, BLOCK = 10, 110, 300_000, 10_000
SYLLABLES = [c + v for c in "bcdfghklmnprstvz" for v in ("a", "e", "i", "o", "u", "ai", "or", "en")]


class Synthetic:
    """Passages generated from a seed on demand; none is kept. Every second one mentions another's title."""

    def __init__(self, count: int, seed: int = 7) -> None:
        self.count, self.seed = count, seed
        self.words = [*sorted(STOP_WORDS), *(_word(number) for number in range(VOCABULARY - len(STOP_WORDS)))]
        shares = 1.0 / np.arange(1, VOCABULARY + 1)
        self.cumulative = np.cumsum(shares / shares.sum())

    def __iter__(self) -> Iterator[Passage]:
        rng = np.random.default_rng(self.seed)
        for start in range(0, self.count, BLOCK):
            size = min(BLOCK, self.count - start)
            draws = np.searchsorted(self.cumulative, rng.random((size, WORDS))).tolist()
            lengths = rng.integers(WORDS - 30, WORDS + 1, size).tolist()
            mentions = rng.integers(0, self.count, size).tolist()
            for offset, (row, length, other) in enumerate(zip(draws, lengths, mentions, strict=True)):
                number = start + offset
                found = [self.words[rank] for rank in row[:length]]
                if number % 2:
                    found[length // 2] = self.title(other)
                yield Passage(f"p{number}", self.title(number), " ".join(found))

    def title(self, number: int) -> str:
        """Return two capitalised words, distinct for every passage."""
        return f"{_word(number % 5003).title()} {_word(40_000 + number // 5003).title()}"

    def queries(self, count: int, seed: int = 11) -> list[str]:
        """Return questions of 10 content words and 5 stop words, each drawn from a passage that answers it."""
        rng = np.random.default_rng(seed)
        made: list[str] = []
        for passage in Synthetic(4 * count, self.seed):
            words = list(dict.fromkeys(passage.text.lower().split()))
            content = [word for word in words if word not in STOP_WORDS]
            stops = [word for word in words if word in STOP_WORDS]
            if len(content) >= 10 and len(stops) >= 5 and len(made) < count:
                chosen = [*rng.choice(content, 10, replace=False), *rng.choice(stops, 5, replace=False)]
                made.append(" ".join(rng.permutation(chosen)))
        return made


def _word(number: int) -> str:
    """Return a pronounceable word, distinct for every number.

    >>> _word(1000), _word(40000)
    ('taben', 'malabi')
    """
    syllables = [SYLLABLES[number % len(SYLLABLES)]]
    number //= len(SYLLABLES)
    while number or len(syllables) < 2:
        syllables.append(SYLLABLES[number % len(SYLLABLES)])
        number //= len(SYLLABLES)
    return "".join(syllables)


def bare_index(folder: Path) -> tantivy.Index:
    """A tantivy index with one stored field for title and text, and our analyser."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("body", stored=True, tokenizer_name="same", index_option="freq")
    folder.mkdir(exist_ok=True)
    index = tantivy.Index(builder.build(), path=str(folder))
    index.register_tokenizer("same", ENGLISH.tokenizer())
    return index


def bare_search(index: tantivy.Index) -> Callable[[str], list[list[str]]]:
    """Parse the query, take the hits and read their stored texts."""
    searcher = index.searcher()

    def search(query: str) -> list[list[str]]:
        parsed = index.parse_query(query, ["body"])
        hits = searcher.search(parsed, HITS, count=False).hits
        return [searcher.doc(address)["body"][0].split("\n", 1) for _, address in hits]

    return search


def build(what: str, count: int, folder: Path) -> None:
    """Build an index in this process; print the seconds and this process's peak memory as JSON."""
    start = time.perf_counter()
    if what == "bare":
        writer = bare_index(folder / "bare").writer(256 * 2**20, 2)
        for passage in Synthetic(count):
            writer.add_document(tantivy.Document(body=f"{passage.title}\n{passage.text}"))
        writer.commit()
        writer.wait_merging_threads()
    elif what == "ours":
        build_index(open_corpus(Synthetic(count)), folder / "ours", links=False)
    else:
        (folder / "links").mkdir()
        build_links(open_index(folder / "ours").passages, folder / "links", own=False)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": time.perf_counter() - start, "peak": peak, "size": size_of(folder / what)}))


def build_apart(what: str, count: int, folder: Path) -> dict[str, float]:
    """Run ``build`` in a new process."""
    command = [sys.executable, "-m", "benchmarks.bm25", "--passages", str(count), "--build", what]
    run = subprocess.run([*command, "--folder", str(folder)], check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(run.stdout)
    return result


def size_of(folder: Path) -> float:
    """Return the megabytes in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


def milliseconds(searches: Sequence[Callable[[str], object]], queries: Sequence[str], repeats: int) -> list[float]:
    """Return the CPU time per query of each engine, the minimum of interleaved repeats."""
    best = [float("inf")] * len(searches)
    for repeat in range(repeats + 1):
        for i, search in enumerate(searches):
            start = time.process_time()
            for query in queries:
                search(query)
            if repeat:  # the first warms the page cache
                best[i] = min(best[i], 1000 * (time.process_time() - start) / len(queries))
    return best


def main() -> None:
    """Measure, print the table and, with ``--check``, check the bars."""
    made = parser(__doc__)
    made.add_argument("--passages", type=int, default=1_000_000)
    made.add_argument("--queries", type=int, default=300)
    made.add_argument("--repeats", type=int, default=5)
    made.add_argument("--build", choices=["bare", "ours", "links"], help=argparse.SUPPRESS)
    made.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = made.parse_args()
    if arguments.build:
        build(arguments.build, arguments.passages, arguments.folder)
        return
    with tempfile.TemporaryDirectory(prefix="polyhop-bm25-") as name:
        folder = Path(name)
        builds = {what: build_apart(what, arguments.passages, folder) for what in ("bare", "ours", "links")}
        queries = Synthetic(arguments.passages).queries(arguments.queries)
        engine = BM25(open_index(folder / "ours"))
        bare = bare_search(bare_index(folder / "bare"))
        found = [hit[1] for query in queries for hit in bare(query)]
        same = [passage.text for query in queries for passage in engine.search(query, HITS)]
        agreement = len(set(found) & set(same)) / len(set(found))
        bare_ms, ours_ms = milliseconds([bare, lambda query: engine.search(query, HITS)], queries, arguments.repeats)
    print(
        f"{counted(arguments.passages, 'passages')}, {counted(len(queries), 'queries')}, "
        f"top {HITS}, {agreement:.1%} of the hits the same\n"
    )
    print(f"{'':14}{'build s':>9}{'peak MB':>9}{'size MB':>9}{'ms a query':>12}{'ratio':>7}")
    for what, label, cost in (
        ("bare", "bare tantivy", bare_ms),
        ("ours", "polyhop", ours_ms),
        ("links", "  links", None),
    ):
        row = builds[what]
        line = f"{label:14}{row['seconds']:9.1f}{row['peak']:9.0f}{row['size']:9.0f}"
        print(line + (f"{cost:12.3f}{cost / bare_ms:7.2f}" if cost is not None else ""))
    figures = [Figure("search / bare tantivy", ours_ms / bare_ms, most=WORST_RATIO)]
    for what in ("ours", "links"):
        figures.append(Figure(f"building {what}", builds[what]["peak"], " MB", most=MAX_MEMORY_MB))
    conclude(figures, arguments)


if __name__ == "__main__":
    main()
