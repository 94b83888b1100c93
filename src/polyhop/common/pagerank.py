"""Personalised PageRank by local pushes, so that a query touches the neighbourhood of its seeds only.

Sources: Page, Brin, Motwani and Winograd, "The PageRank Citation Ranking: Bringing Order to the Web", 1999: a walk
follows an edge with probability ``damping``, and otherwise starts again at a seed. Andersen, Chung and Lang, "Local
Graph Partitioning using PageRank Vectors", 2006, §3: mass that has not walked on is pushed from node to node. Here all
nodes that hold more than ``tolerance`` are pushed in one round, so that each round is a few operations on arrays.

A walk that comes to a node without edges starts again at a seed too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Node = TypeVar("Node", bound=Hashable)

TOLERANCE = 1e-5
"""Mass that a node keeps without passing it on, as a share of all."""


@dataclass(frozen=True, slots=True)
class Graph:
    """A directed graph in compressed rows: the edges of node ``i`` lie from ``starts[i]`` to before ``starts[i + 1]``.
    ``weights`` are the probabilities of a node's edges."""

    starts: NDArray[np.int64]
    targets: NDArray[np.uint32]
    weights: NDArray[np.float32]

    @classmethod
    def of(
        cls, nodes: int, sources: NDArray[np.uint32], targets: NDArray[np.uint32], weights: NDArray[np.float32]
    ) -> Graph:
        """Build a graph of edges with positive weights, in any order; a node's edges share its walks by weight."""
        import numpy as np

        order = np.argsort(sources, kind="stable")
        sums = np.bincount(sources, weights, nodes)
        starts = np.concatenate([[0], np.cumsum(np.bincount(sources, minlength=nodes))])
        return cls(starts, targets[order], (weights / sums[sources]).astype(np.float32)[order])


def pagerank(
    graph: Graph, seeds: Mapping[int, float], damping: float, tolerance: float = TOLERANCE
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the nodes that walks from the seeds come to, rising, and the share of time they spend at each.

    Args:
        seeds: the weight of each node where walks start, positive.
        damping: the probability of a further step, below 1.

    >>> import numpy as np
    >>> edges = np.array([[0, 1], [1, 0], [1, 2]], np.uint32)
    >>> graph = Graph.of(4, edges[:, 0], edges[:, 1], np.ones(3, np.float32))
    >>> nodes, shares = pagerank(graph, {0: 1.0}, 0.5)
    >>> nodes.tolist(), shares.round(3).tolist()
    ([0, 1, 2], [0.615, 0.308, 0.077])
    """
    import numpy as np

    scores, held = np.zeros(len(graph.starts) - 1), np.zeros(len(graph.starts) - 1)
    active = np.array(sorted(seeds), np.intp)
    held[active] = np.array([seeds[node] for node in active.tolist()]) / max(sum(seeds.values()), np.finfo(float).tiny)
    reached = [active]
    while len(active):
        mass, held[active] = held[active], 0.0
        scores[active] += mass
        starts, ends = graph.starts[active], graph.starts[active + 1]
        lengths = ends - starts
        edges = np.arange(lengths.sum()) + np.repeat(ends - np.cumsum(lengths), lengths)
        targets = graph.targets[edges]
        np.add.at(held, targets, np.repeat(damping * mass, lengths) * graph.weights[edges])
        active = np.unique(targets[held[targets] > tolerance]).astype(np.intp)
        reached.append(active)
    nodes = np.unique(np.concatenate(reached))
    return nodes, scores[nodes] / max(scores[nodes].sum(), np.finfo(float).tiny)


def pagerank_of_all(
    graph: Graph, start: NDArray[np.float64], damping: float, error: float = 1e-6
) -> NDArray[np.float64]:
    """Return the share of time that walks spend at each node, by power iteration, for walks that start at most nodes.

    Args:
        start: the weight of each node as a start, 0 or more, at least one of them positive.
        damping: as in ``pagerank``.
        error: the mass that may be left out, as a share of all.

    >>> import numpy as np
    >>> graph = Graph.of(2, np.array([0], np.uint32), np.array([1], np.uint32), np.ones(1, np.float32))
    >>> pagerank_of_all(graph, np.array([1.0, 0.0]), 0.5).round(3).tolist()
    [0.667, 0.333]
    """
    import numpy as np

    sources = np.repeat(np.arange(len(start)), np.diff(graph.starts))
    targets = graph.targets.astype(np.intp)
    mass = start / start.sum()
    scores = mass.copy()
    while mass.sum() > error:
        mass = damping * np.bincount(targets, mass[sources] * graph.weights, len(start))
        scores += mass
    shares: NDArray[np.float64] = scores / scores.sum()
    return shares


def pagerank_of(links: Mapping[Node, Iterable[Node]], seeds: Mapping[Node, float], damping: float) -> dict[Node, float]:
    """Compute ``pagerank`` over links, all of a node equally likely; a link that occurs twice counts twice.

    >>> pagerank_of({"film": ["director"]}, {"film": 1}, 0.5)["director"]
    0.3333333333333333
    """
    import numpy as np

    number = {
        node: i for i, node in enumerate(dict.fromkeys((*seeds, *links, *(t for ts in links.values() for t in ts))))
    }
    edges = np.array([(number[node], number[to]) for node, ts in links.items() for to in ts], np.uint32).reshape(-1, 2)
    graph = Graph.of(len(number), edges[:, 0], edges[:, 1], np.ones(len(edges), np.float32))
    nodes, shares = pagerank(graph, {number[node]: weight for node, weight in seeds.items()}, damping)
    named = list(number)
    return {named[node]: share for node, share in zip(nodes.tolist(), shares.tolist(), strict=True)}
