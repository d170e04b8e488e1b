"""Hypothesis strategies for graphs and complexes."""

import random

import networkx as nx
from hypothesis import strategies as st

from cwnet import Cliques, Cycles, Rings, lift


def _random_graph(n: int, m: int, seed: int) -> nx.Graph:
    rng = random.Random(seed)
    pairs = [(i, j) for i in range(n) for j in range(i)]
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(rng.sample(pairs, min(m, len(pairs))))
    return graph


def _shuffled(graph: nx.Graph, seed: int) -> nx.Graph:
    order = list(range(len(graph)))
    random.Random(seed).shuffle(order)
    return nx.relabel_nodes(nx.convert_node_labels_to_integers(graph), dict(enumerate(order)))


seeds = st.integers(0, 2**32 - 1)
sparse = st.integers(1, 30).flatmap(lambda n: st.builds(_random_graph, st.just(n), st.integers(0, 2 * n), seeds))
dense = st.integers(1, 9).flatmap(lambda n: st.builds(_random_graph, st.just(n), st.integers(0, 36), seeds))
# More than 64 vertices, with one block larger than that: a long ring with chords, and something hanging on it.
large = st.builds(
    lambda n, m, seed: _shuffled(nx.compose(nx.cycle_graph(n), _random_graph(n + 10, m, seed)), seed),
    st.integers(60, 110),
    st.integers(0, 45),
    seeds,
)
disconnected = st.builds(
    lambda a, b, c, seed: _shuffled(nx.disjoint_union_all([a, b, c]), seed), sparse, dense, dense, seeds
)
graphs = st.one_of(sparse, dense, large, disconnected)
small_graphs = st.one_of(sparse, dense)

liftings = st.sampled_from(
    [None, Rings(6), Cycles(5), Cliques(3), Cliques(5), Cliques(4) | Rings(6), Cycles(4) | Cliques(4) | Rings(7)]
)
complexes = st.builds(lift, small_graphs, liftings)
