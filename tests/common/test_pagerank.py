"""Personalised PageRank against the solution of its linear equations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.common.pagerank import Graph, pagerank, pagerank_of

NODES = 8
EDGES = st.lists(
    st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1), st.integers(1, 5)), max_size=30
)  # loops, repeated edges and nodes without edges among them
SEEDS = st.dictionaries(st.integers(0, NODES - 1), st.floats(0.1, 5), min_size=1)
DAMPING = st.sampled_from([0.1, 0.5, 0.85])


def graph_of(edges: list[tuple[int, int, int]]) -> Graph:
    columns = np.array(edges, np.uint32).reshape(-1, 3)
    return Graph.of(NODES, columns[:, 0], columns[:, 1], columns[:, 2].astype(np.float32))


def solved(edges: list[tuple[int, int, int]], seeds: dict[int, float], damping: float) -> np.ndarray:
    """The stationary distribution of the walk; a node without edges leads to the seeds."""
    start = np.zeros(NODES)
    for node, weight in seeds.items():
        start[node] = weight / sum(seeds.values())
    steps = np.zeros((NODES, NODES))
    for source, target, weight in edges:
        steps[source, target] += weight
    sums = steps.sum(1, keepdims=True)
    steps = np.where(sums > 0, steps / np.where(sums > 0, sums, 1), start)
    return np.linalg.solve(np.eye(NODES) - damping * steps.T, (1 - damping) * start)


@settings(max_examples=100, deadline=None)
@given(EDGES, SEEDS, DAMPING)
def test_it_solves_the_equations_of_the_walk(
    edges: list[tuple[int, int, int]], seeds: dict[int, float], damping: float
) -> None:
    nodes, shares = pagerank(graph_of(edges), seeds, damping, tolerance=1e-12)
    expected = solved(edges, seeds, damping)
    found = np.zeros(NODES)
    found[nodes] = shares
    assert found == pytest.approx(expected, abs=1e-6)
    assert shares.sum() == pytest.approx(1)
    assert set(nodes.tolist()) >= set(np.flatnonzero(expected > 1e-9).tolist())


def test_a_tolerance_leaves_out_what_little_is_passed_on() -> None:
    chain = graph_of([(node, node + 1, 1) for node in range(NODES - 1)])
    assert pagerank(chain, {0: 1.0}, 0.5, tolerance=0.1)[0].tolist() == [0, 1, 2, 3]  # 1, 0.5, 0.25 and 0.125 come
    assert pagerank(chain, {0: 1.0, 7: 1e-9}, 0.5, tolerance=0.1)[0].tolist() == [0, 1, 2, 3, 7]  # a seed counts


def test_a_graph_without_edges_leaves_the_seeds_their_weights_and_no_seeds_reach_nothing() -> None:
    nodes, shares = pagerank(graph_of([]), {5: 1.0, 2: 3.0}, 0.85)
    assert (nodes.tolist(), shares.tolist()) == ([2, 5], [0.75, 0.25])
    assert pagerank(graph_of([(0, 1, 1)]), {}, 0.85)[0].tolist() == []


def test_the_same_graph_in_another_order_of_edges_gives_the_same_ranking() -> None:
    edges = [(0, 1, 1), (0, 2, 1), (1, 3, 2), (2, 3, 2), (3, 0, 1)]
    nodes, shares = pagerank(graph_of(edges), {0: 1.0}, 0.85)
    other_nodes, other_shares = pagerank(graph_of(edges[::-1]), {0: 1.0}, 0.85)
    assert nodes.tolist() == other_nodes.tolist()
    assert shares[1] == shares[2]  # symmetric nodes
    assert other_shares == pytest.approx(shares, rel=1e-12)


def test_links_by_name_may_repeat_and_point_to_nodes_without_links() -> None:
    shares = pagerank_of({"film": ["lee", "lee", "oslo"], "oslo": []}, {"film": 2.0}, 0.5)
    assert shares == pytest.approx({"film": 2 / 3, "lee": 2 / 9, "oslo": 1 / 9})
    assert pagerank_of({}, {}, 0.5) == {}
