"""From a laptop to Wikipedia: the cost of an index of any size, measured if possible and extrapolated by formula.

    python -m benchmarks.scale sparse [--passages 5000000] [--check]
    python -m benchmarks.scale dense [--rows 500000 1000000] [--size 768] [--to 21000000]
    python -m benchmarks.scale growth [--check]

``sparse`` indexes a file of synthetic passages (those of ``benchmarks/bm25.py``) and serves it, each in its own
process: seconds, peak memory, size on disk, seconds to the first hit, and milliseconds per query of 15 words, reading
the texts of 10 hits. Memory is given twice: the process's own, and with the touched pages of mapped files, which the
system reclaims if memory is short. With ``--check`` the exit code is 1 if building takes 1.5 GB with those pages,
serving 500 MB without, or the median query 10 ms.

``dense`` builds ``ivf-rabitq`` over vectors of one cloud without clusters (``falling`` in ``benchmarks/dense.py``), for
each number of ROWS. The unit costs of each predict the next, printed beside the measurement; those of the last predict
``--to`` vectors. The formulas are the functions of this file:

- disk: 2 bytes per number for the vectors, and the index;
- memory: the index with ``size / 8`` bytes of code per vector, some bytes for its number and factors, and the
  centroids;
- build: each vector is rotated, which takes size² products, and compared with every centroid;
- search: the query is compared with the centroids and with the codes of the lists read, and some vectors are rescored.
  A larger collection needs between the same number of lists (neighbours are in few of them) and the same share of the
  lists for the same recall; both are given. On a cold disk, each rescored vector costs another page (``--page-us``).

``growth`` estimates machines and cost for many questions per day: ``benchmarks/growth.py``.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

import numpy as np
import orjson
from benchmarks.bm25 import HITS, Synthetic, size_of
from benchmarks.dense import drawn

from benchmarks import growth
from polyhop.common.text import counted
from polyhop.data.corpora import open_corpus
from polyhop.retrieval.approximate import Approximate, fill, lists_of
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.index import build_index, open_index

BUILD_MB, SERVE_MB, HALF_MS = 1536, 500, 10.0
MB = 2**20

SPARSE_FIXED_MB, SPARSE_BYTES_A_PASSAGE = 180, 265
"""Memory of a build: the writer's, and ids or titles (all distinct here); measured at 1 and 5 million passages."""


class Made(NamedTuple):
    """A dense index as it was built: ``rows`` vectors of ``size`` numbers, in ``lists`` of which ``probes`` are read
    and ``again`` vectors multiplied again; ``held`` bytes, ``build`` and ``search`` seconds of CPU; its ``recall``."""

    rows: int
    size: int
    lists: int
    probes: int
    again: int
    held: int
    build: float
    search: float
    recall: float


class Foretold(NamedTuple):
    """The cost of an index: bytes and CPU seconds."""

    disk: float
    memory: float
    build: float
    search_as_many: float
    search_as_large: float


def sparse_build_mb(passages: int) -> float:
    """Return the peak memory of building a sparse index, by formula.

    >>> round(sparse_build_mb(21_000_000))
    5487
    """
    return SPARSE_FIXED_MB + SPARSE_BYTES_A_PASSAGE * passages / MB


def building(rows: int, size: int, lists: int) -> float:
    """Return the products to build an index: every vector is rotated, and compared with every centroid."""
    return float(rows) * size * (size + lists)


def searching(rows: int, size: int, lists: int, probes: int, again: int) -> float:
    """Return the bits compared and products computed per query, with 16 bits per product: the query is rotated and
    compared with the centres, the codes of some lists are compared with it, some vectors multiplied again."""
    return size * (16.0 * (size + lists + again) + probes * rows / lists)


def held(rows: int, size: int, lists: int, a_vector: float) -> float:
    """Return the bytes of an index: ``a_vector`` and one bit per number for each vector, centroids and rotation
    matrix."""
    return rows * (size / 8 + a_vector) + 4.0 * size * (lists + size)


def foretold(made: Made, rows: int) -> Foretold:
    """Return the cost of an index of ``rows`` vectors, by the unit costs of one that was built.

    >>> made = Made(1000, 64, 32, 4, 100, 1000 * (8 + 16) + 4 * 64 * 96, 2.0, 0.001, 0.95)
    >>> larger = foretold(made, 1000)
    >>> (larger.disk - larger.memory) / 1000, larger.memory == made.held, larger.build, larger.search_as_many
    (128.0, True, 2.0, 0.001)
    """
    size, lists = made.size, lists_of(rows)
    a_vector = (made.held - held(made.rows, size, made.lists, 0)) / made.rows
    memory = held(rows, size, lists, a_vector)
    a_product = made.build / building(made.rows, size, made.lists)
    a_bit = made.search / searching(made.rows, size, made.lists, made.probes, made.again)
    as_large = max(made.probes, round(made.probes * lists / made.lists))
    return Foretold(
        disk=2.0 * rows * size + memory,
        memory=memory,
        build=a_product * building(rows, size, lists),
        search_as_many=a_bit * searching(rows, size, lists, made.probes, made.again),
        search_as_large=a_bit * searching(rows, size, lists, as_large, made.again),
    )


# --- sparse -------------------------------------------------------------------------------------------------------


def sparse(passages: int) -> list[str]:
    """Print the table; return the missed bars."""
    with tempfile.TemporaryDirectory(prefix="polyhop-scale-") as name:
        folder = Path(name)
        with (folder / "corpus.jsonl").open("wb", buffering=MB) as stream:
            for passage in Synthetic(passages):
                stream.write(orjson.dumps({"id": passage.id, "title": passage.title, "text": passage.text}) + b"\n")
        built = apart("build", passages, folder)
        served = apart("serve", passages, folder)
    print(f"{counted(passages, 'passages')}, {served['corpus']:.0f} MB of JSON lines")
    print(
        f"  build        {built['seconds']:8.0f} s      peak {built['held']:6.0f} MB of its own, "
        f"{built['peak']:.0f} MB with the mapped pages touched; {built['size']:.0f} MB on disk"
    )
    print(
        f"  by formula   {'':10}      peak {sparse_build_mb(passages):6.0f} MB   21M: {sparse_build_mb(21_000_000):.0f}"
    )
    print(f"  first hit    {served['first']:8.2f} s      from opening the folder, links and all")
    print(
        f"  serving      {served['p50']:8.2f} ms p50  {served['p99']:6.2f} ms p99   "
        f"{served['held']:.0f} MB of its own, {served['resident']:.0f} MB with the mapped pages touched"
    )
    bars = (
        ("peak", built["peak"], BUILD_MB),
        ("serving", served["held"], SERVE_MB),
        ("p50", served["p50"], HALF_MS),
    )
    return [f"{what}: {value:.1f}, the bar is {bar}" for what, value, bar in bars if value >= bar]


def apart(what: str, passages: int, folder: Path) -> dict[str, float]:
    """Run ``build`` or ``serve`` in a new process."""
    command = [sys.executable, "-m", "benchmarks.scale", what, "--passages", str(passages), "--folder", str(folder)]
    measured: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return measured


def build(folder: Path) -> dict[str, float]:
    """Build the index, including its links."""
    done, held = Event(), [0.0]

    def watch() -> None:
        while not done.wait(0.2):
            held.append(resident()["RssAnon"])

    watching = Thread(target=watch)
    watching.start()
    begun = time.perf_counter()
    build_index(open_corpus(folder / "corpus.jsonl"), folder / "index")
    seconds = time.perf_counter() - begun
    done.set()
    watching.join()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "held": max(held), "peak": peak, "size": size_of(folder / "index")}


def resident() -> dict[str, float]:
    """Return the megabytes of this process in memory, by Linux's names."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return {
        name: int(rest.split()[0]) / 1024
        for name, _, rest in (one.partition(":") for one in lines)
        if "R" in name and "kB" in rest
    }


def serve(folder: Path, passages: int) -> dict[str, float]:
    """Open the index, and search it."""
    queries = Synthetic(passages).queries(1000)
    begun = time.perf_counter()
    engine = BM25(open_index(folder / "index"))
    engine.search(queries[0], HITS)
    first = time.perf_counter() - begun
    taken = []
    for query in queries:
        begun = time.perf_counter()
        engine.search(query, HITS)
        taken.append(1000 * (time.perf_counter() - begun))
    p50, p99 = np.percentile(taken, (50, 99)).tolist()
    memory = resident()
    corpus = (folder / "corpus.jsonl").stat().st_size / MB
    return {
        "first": first,
        "p50": p50,
        "p99": p99,
        "held": memory["RssAnon"],
        "resident": memory["VmRSS"],
        "corpus": corpus,
    }


# --- dense --------------------------------------------------------------------------------------------------------


def dense(rows: Iterable[int], size: int, to: int, page_us: float) -> None:
    """Build an index for each number of rows, and print the prediction of each for the next."""
    last: Made | None = None
    for count in rows:
        with tempfile.TemporaryDirectory(prefix="polyhop-scale-") as folder:
            made = make(count, size, Path(folder))
        quality = f"recall@10 {made.recall:.3f}, {made.probes} of {made.lists} lists, {made.again} multiplied again"
        print(f"\n{count:,} x {size}, measured: {quality}")
        line("measured", 2 * count * size + made.held, made.held, made.build, f"{1000 * made.search:.1f}")
        if last is not None:
            show(f"foretold by {last.rows:,}", foretold(last, count))
        last = made
    if last is not None:
        print(f"\n{to:,} x {size}, in {lists_of(to)} lists, predicted by {last.rows:,}")
        show("foretold", foretold(last, to))
        print(f"  from a cold disk, {page_us:.0f} us a page: {last.again * page_us / 1000:.0f} ms a query more")


def make(rows: int, size: int, folder: Path) -> Made:
    """Draw vectors, build the index, search it."""
    vectors, asked = drawn("falling", rows, size, 200, folder / "vectors")
    (folder / "index").mkdir()
    begun = time.process_time()
    facts: dict[str, Any] = fill(folder / "index", vectors)
    taken = time.process_time() - begun
    search = Approximate(folder / "index", facts, vectors).nearest
    search(asked, 10)
    begun = time.process_time()
    search(asked, 10)
    each = (time.process_time() - begun) / len(asked)
    again = 10 * facts["rerank"]
    return Made(rows, size, facts["lists"], facts["probes"], again, facts["bytes"], taken, each, facts["recall"])


def show(label: str, index: Foretold) -> None:
    """Return a line of the prediction."""
    search = f"{1000 * index.search_as_many:.1f}-{1000 * index.search_as_large:.1f}"
    line(label, index.disk, index.memory, index.build, search)


def line(label: str, disk: float, memory: float, seconds: float, search: str) -> None:
    """Return a line of the table."""
    sizes = f"{disk / MB:10,.0f} MB on disk {memory / MB:8,.0f} MB in memory"
    print(f"  {label:22}{sizes}   built in {seconds:7,.0f} s of CPU   {search} ms of CPU a query", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    one, two = verbs.add_parser("sparse"), verbs.add_parser("dense")
    one.add_argument("--passages", type=int, default=5_000_000)
    one.add_argument("--check", action="store_true", help="exit 1 when a bar is missed")
    two.add_argument("--rows", type=int, nargs="+", default=[500_000, 1_000_000])
    two.add_argument("--size", type=int, default=768)
    two.add_argument("--to", type=int, default=21_000_000)
    two.add_argument("--page-us", type=float, default=100)
    for name in ("build", "serve"):  # what ``sparse`` starts
        part = verbs.add_parser(name)
        part.add_argument("--passages", type=int)
        part.add_argument("--folder", type=Path)
    growth.add_options(verbs.add_parser("growth"))
    asked = parser.parse_args()
    if asked.verb == "build":
        print(json.dumps(build(asked.folder)))
    elif asked.verb == "serve":
        print(json.dumps(serve(asked.folder, asked.passages)))
    elif asked.verb == "dense":
        dense(asked.rows, asked.size, asked.to, asked.page_us)
    else:
        missed = growth.show(asked) if asked.verb == "growth" else sparse(asked.passages)
        print(*(f"missed: {what}" for what in missed), sep="\n", file=sys.stderr)
        return 1 if missed and asked.check else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
