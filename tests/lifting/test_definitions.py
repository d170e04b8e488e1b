"""The paper's definitions of liftings, by name."""

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cwnet
from cwnet import Cliques, Cycles, GraphError, Rings
from cwnet.lifting import relabelled
from tests.strategies import seeds, small_graphs

LIFTINGS = [Rings(6), Cycles(5), Cliques(4), Cliques(4) | Rings(6), Cliques(3) | Cycles(5)]


def poset(complex_):
    """The face poset as a directed graph of cells, with their dimensions."""
    found = nx.DiGraph()
    for d, n in enumerate(complex_.num_cells):
        found.add_nodes_from(((d, i) for i in range(n)), dim=d)
        found.add_edges_from(((d, i), (d - 1, f)) for i, row in enumerate(complex_.boundary(d).tolist()) for f in row)
    return found


def isomorphic(a, b):
    return nx.is_isomorphic(poset(a), poset(b), node_match=lambda x, y: x["dim"] == y["dim"])


class TestDefinitionLiftingMap:
    """Two graphs are isomorphic if and only if their complexes are."""

    @settings(max_examples=40)
    @given(small_graphs.filter(lambda g: len(g) <= 12), seeds, st.sampled_from(LIFTINGS))
    def test_isomorphic_graphs(self, graph, seed, lifting):
        assert isomorphic(cwnet.lift(graph, lifting), cwnet.lift(relabelled(graph, seed)[0], lifting))

    @pytest.mark.parametrize("lifting", LIFTINGS, ids=repr)
    def test_graphs_that_are_not(self, lifting):
        """All graphs with five vertices, pair by pair."""
        graphs = [g for g in nx.graph_atlas_g() if len(g) == 5]
        lifted = [cwnet.lift(g, lifting) for g in graphs]
        assert len(graphs) == 34
        for i, a in enumerate(lifted):
            assert [j for j, b in enumerate(lifted) if isomorphic(a, b)] == [i]


class TestDefinitionSkeletonPreserving:
    """The 1-skeleton of the complex is the graph."""

    @settings(max_examples=150)
    @given(small_graphs, st.sampled_from(LIFTINGS))
    def test_liftings_of_the_paper(self, graph, lifting):
        skeleton = cwnet.lift(graph, lifting).skeleton(1)
        number = {v: i for i, v in enumerate(graph)}
        assert skeleton.num_cells[0] == len(graph)
        assert sorted(map(sorted, skeleton.cells(1))) == sorted(sorted((number[u], number[v])) for u, v in graph.edges)
        assert skeleton == cwnet.lift(graph, None)

    def test_parallel_edges_are_not_added(self):
        """The paper's example of a map that does not preserve the skeleton: every edge twice."""

        def twice(graph):
            return cwnet.CellComplex.from_boundaries(graph.num_cells[0], [2 * graph.boundary(1).tolist()])

        with pytest.raises(GraphError, match="on the vertices and edges it was given"):
            cwnet.lift(nx.cycle_graph(4), twice)
