"""Personalised PageRank over a synthetic graph: seconds to build it, milliseconds per query, error of the pushes.

    python -m benchmarks.pagerank [--passages 1000000] [--mentions 8] [--queries 100]

Every passage has a distinct title and mentions names drawn by Zipf's law, so that a few are mentioned by hundreds of
thousands of passages. A query starts at 100 passages and two names. The error is the L1 distance to power iteration
over the whole graph, for one query.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyhop.common.pagerank import Graph, pagerank, pagerank_of_all
from polyhop.retrieval.ppr import DAMPING, FIRST, name_graph

Pairs = tuple[NDArray[np.intp], NDArray[np.uint32]]


@dataclass
class Tables:
    """The links of a synthetic index, with the interface of ``retrieval.links.Links``."""

    rows: int
    per_passage: int

    @property
    def names(self) -> int:
        """Return one name per passage."""
        return self.rows

    def titles(self) -> Pairs:
        """Return the names of the titles: passage ``i`` has the name ``i``."""
        return np.arange(self.rows), np.arange(self.rows, dtype=np.uint32)

    def mentions(self) -> Pairs:
        """Return mentions of names by Zipf's law, scattered over the passages."""
        random = np.random.default_rng(0)
        drawn = (self.rows ** random.random(self.rows * self.per_passage)).astype(np.int64) - 1
        scattered = (drawn * 2_654_435_761 % self.rows).astype(np.uint32)
        return np.repeat(np.arange(self.rows), self.per_passage), scattered


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--mentions", type=int, default=8, help="names that a passage mentions")
    parser.add_argument("--queries", type=int, default=100)
    arguments = parser.parse_args()
    tables = Tables(arguments.passages, arguments.mentions)
    begun, spent = time.perf_counter(), time.process_time()
    graph = name_graph(tables)  # type: ignore[arg-type]
    wall, cpu = time.perf_counter() - begun, time.process_time() - spent
    megabytes = (graph.starts.nbytes + graph.targets.nbytes + graph.weights.nbytes) / 1e6
    print(f"{arguments.passages:,} passages, {len(graph.targets):,} edges: ", end="")
    print(f"{wall:.1f} s to build ({cpu:.1f} s of CPU), {megabytes:.0f} MB")
    random = np.random.default_rng(1)
    starts = random.integers(0, arguments.passages, (arguments.queries, FIRST + 2))
    asked = [{**dict.fromkeys(row[:-2].tolist(), 1.0), **dict.fromkeys((row[-2:] + arguments.passages).tolist(), 20.0)}
             for row in starts]  # fmt: skip
    times, spent = [], time.process_time()
    for seeds in asked:
        begun = time.perf_counter()
        nodes, _ = pagerank(graph, seeds, DAMPING)
        times.append(time.perf_counter() - begun)
    cpu = time.process_time() - spent
    print(
        f"a query: median {1000 * np.median(times):.1f} ms, 95th percentile {1000 * np.quantile(times, 0.95):.1f} ms, "
    )
    print(f"{1000 * cpu / len(asked):.1f} ms of CPU; {len(nodes):,} nodes reached, error {error(graph, asked[-1]):.1e}")


def error(graph: Graph, seeds: dict[int, float]) -> float:
    """Return the L1 distance of the pushes to power iteration."""
    nodes, shares = pagerank(graph, seeds, DAMPING)
    start: NDArray[np.float64] = np.zeros(len(graph.starts) - 1)
    start[list(seeds)] = list(seeds.values())
    exact = pagerank_of_all(graph, start, DAMPING, 1e-9)
    exact[nodes] -= shares
    return float(np.abs(exact).sum())


if __name__ == "__main__":
    main()
