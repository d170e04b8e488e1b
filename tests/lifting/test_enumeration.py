"""Rings, cycles and cliques against networkx, and the paper's own counts."""

import networkx as nx
import pytest
from hypothesis import given, settings

import cwnet
from cwnet import Cliques, Cycles, Rings
from tests.reference import cells as reference
from tests.strategies import graphs


def as_networkx(complex_):
    graph = nx.Graph(complex_.cells(1))
    graph.add_nodes_from(range(complex_.num_cells[0]))
    return graph


@settings(max_examples=2000)
@given(graphs)
def test_rings_equal_networkx(graph):
    assert sorted(cwnet.lift(graph, Rings(9)).cells(2)) == reference.rings(renumbered(graph), 9)


@settings(max_examples=2000)
@given(graphs)
def test_cycles_equal_networkx(graph):
    found = cwnet.lift(graph, Cycles(6))
    assert sorted(found.cells(2)) == reference.cycles(renumbered(graph), 6)
    # Cells are told apart by their edges.
    edge_sets = [frozenset(row) for row in found.boundary(2).tolist()]
    assert len(set(edge_sets)) == len(edge_sets)


@settings(max_examples=2000)
@given(graphs)
def test_cliques_equal_networkx(graph):
    found = cwnet.lift(graph, Cliques(6))
    for size, expected in reference.cliques(renumbered(graph), 6).items():
        assert [tuple(sorted(c)) for c in found.cells(size - 1)] == expected
    for d in range(2, 6):  # the boundary of a simplex is all its faces
        below = [frozenset(c) for c in found.cells(d - 1)]
        for cell, row in zip(found.cells(d), found.boundary(d).tolist(), strict=True):
            assert {below[i] for i in row} == {frozenset(cell) - {v} for v in cell}


@settings(max_examples=500)
@given(graphs)
def test_union_is_the_union(graph):
    union = cwnet.lift(graph, Cliques(5) | Rings(7) | Cycles(4))
    renumbered_graph = renumbered(graph)
    expected = {*reference.rings(renumbered_graph, 7), *reference.cycles(renumbered_graph, 4)}
    assert union.cells(2) == sorted(expected, key=lambda c: (len(c), c))
    alone = cwnet.lift(graph, Cliques(5))
    for d in (3, 4):
        assert union.cells(d) == alone.cells(d)
        assert union.boundary(d).tolist() == alone.boundary(d).tolist()


def renumbered(graph):
    """Vertices as cwnet numbers them: in the order of iteration."""
    return nx.relabel_nodes(graph, {v: i for i, v in enumerate(graph.nodes)})


def test_rings_equal_networkx_on_zinc(zinc):
    lifted = cwnet.lift_many(zinc, Rings(18))
    for complex_ in lifted:
        assert sorted(complex_.cells(2)) == reference.rings(as_networkx(complex_), 18)


def test_cycles_equal_networkx_on_zinc(zinc):
    lifted = cwnet.lift_many(zinc.select(slice(0, 2000)), Cycles(12))
    for complex_ in lifted:
        assert sorted(complex_.cells(2)) == reference.cycles(as_networkx(complex_), 12)


FAMILIES = {
    "sr16622": 2, "sr251256": 15, "sr261034": 10, "sr281264": 4, "sr291467": 41,
    "sr351668": 3854, "sr351899": 227, "sr361446": 180, "sr401224": 28,
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_rings_equal_networkx_on_strongly_regular_graphs(sr_family, family):
    every = sr_family(family)
    assert len(every) == FAMILIES[family]
    sample = every[::64] if family == "sr351668" else every
    store = cwnet.lift_many(sample, Rings(6))
    for graph, complex_ in zip(sample, store, strict=True):
        assert sorted(complex_.cells(2)) == reference.rings(graph, 6)


def test_cycles_equal_networkx_on_the_smallest_strongly_regular_graphs(rook, shrikhande):
    for graph in (rook, shrikhande):
        assert sorted(cwnet.lift(graph, Cycles(7)).cells(2)) == reference.cycles(renumbered(graph), 7)


def sizes(graph, lifting):
    lengths = cwnet.lift(graph, lifting).boundary(2).sizes.tolist()
    return [lengths.count(size) for size in range(3, 9)]


def test_table_of_cycle_counts_in_the_paper(rook, shrikhande):
    """Appendix A, Table 'Number of cycles and induced cycles (rings) on the SR graphs in family SR(16,6,2,2)'."""
    assert sizes(rook, Cycles(8)) == [32, 60, 288, 1248, 4032, 11952]
    assert sizes(shrikhande, Cycles(8)) == [32, 60, 288, 1248, 4032, 11688]
    assert sizes(rook, Rings(8)) == [32, 36, 0, 96, 0, 72]
    assert sizes(shrikhande, Rings(8)) == [32, 12, 96, 64, 0, 36]


def test_long_rings_need_no_deep_stack():
    n = 300_000
    ring = cwnet.lift((n, [(i, (i + 1) % n) for i in range(n)]), Rings(n))
    assert ring.num_cells == (n, n, 1)
    assert ring.boundary(2).sizes.tolist() == [n]


@pytest.mark.parametrize("n", [63, 64, 65, 66])
def test_the_border_between_words_and_lists(n):
    graph = nx.circulant_graph(n, [1, 5])
    assert sorted(cwnet.lift(graph, Rings(7)).cells(2)) == reference.rings(graph, 7)
    assert sorted(cwnet.lift(graph, Cycles(6)).cells(2)) == reference.cycles(graph, 6)


def test_two_cycles_on_the_same_vertices_are_two_cells():
    found = cwnet.lift(nx.complete_graph(4), Cycles(4))
    squares = [c for c in found.cells(2) if len(c) == 4]
    assert len(squares) == 3
    assert len({frozenset(c) for c in squares}) == 1


def test_order_of_cells_and_of_their_edges():
    graph = (6, [(5, 0), (1, 0), (2, 1), (3, 2), (4, 3), (4, 5), (0, 3)])
    found = cwnet.lift(graph, Cycles(6))
    assert found.cells(2) == [(0, 1, 2, 3), (0, 3, 4, 5), (0, 1, 2, 3, 4, 5)]
    assert found.boundary(2).tolist() == [[1, 2, 3, 6], [6, 4, 5, 0], [1, 2, 3, 4, 5, 0]]


def test_cells_do_not_depend_on_threads(zinc):
    one, two = (cwnet.lift_many(zinc, Rings(18), threads=t) for t in (1, 2))
    for a, b in zip(one.cell_ptr + one.boundaries[1], two.cell_ptr + two.boundaries[1], strict=True):
        assert a.equal(b)


class TestMultigraphs:
    """Conventions of networkx: see `cwnet.Rings` and `cwnet.Cycles`."""

    doubled = (3, [(0, 1), (1, 2), (2, 0), (0, 1)])

    def test_cycles_take_any_parallel_edge(self):
        found = cwnet.lift(self.doubled, Cycles(3), repeated="keep")
        assert found.boundary(2).tolist() == [[0, 3], [0, 1, 2], [3, 1, 2]]

    def test_rings_take_none(self):
        found = cwnet.lift(self.doubled, Rings(3), repeated="keep")
        assert found.boundary(2).tolist() == [[0, 3]]

    def test_three_parallel_edges_are_no_ring(self):
        tripled = (2, [(0, 1)] * 3)
        assert cwnet.lift(tripled, Rings(3), repeated="keep").num_cells == (2, 3, 0)
        assert cwnet.lift(tripled, Cycles(3), repeated="keep").num_cells == (2, 3, 3)

    def test_counts_equal_networkx(self):
        for seed in range(50):
            simple = nx.gnm_random_graph(8, 12, seed=seed)
            graph = nx.MultiGraph(simple)
            graph.add_edges_from(list(simple.edges)[:: seed % 4 + 1])
            rings = cwnet.lift(graph, Rings(6), repeated="keep")
            assert rings.num_cells[2] == len(list(nx.chordless_cycles(graph, 6)))
            cycles = cwnet.lift(graph, Cycles(5), repeated="keep")
            # With a vertex put on every edge, cycles that differ in an edge differ in a vertex.
            halved = nx.Graph((e, v) for e in graph.edges(keys=True) for v in e[:2])
            assert cycles.num_cells[2] == sum(1 for _ in nx.simple_cycles(halved, 10))

    def test_networkx_multigraph_goes_and_comes_back(self):
        complex_ = cwnet.lift(self.doubled, None, repeated="keep")
        assert cwnet.lift(complex_.to_networkx(), None, repeated="keep").num_cells == (3, 4)

    def test_cliques_are_refused(self):
        with pytest.raises(cwnet.GraphError, match="cliques are not defined"):
            cwnet.lift(self.doubled, Cliques(3), repeated="keep")
