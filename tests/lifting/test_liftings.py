"""Liftings as values, and liftings given as functions."""

import networkx as nx
import pytest
import torch

import cwnet
from cwnet import CellComplex, Cliques, Custom, Cycles, GraphError, Rings
from cwnet.lifting import as_lifting


def test_liftings_print_as_what_was_typed():
    for text in ("Rings(6)", "Cycles(8, max_cells=10)", "Cliques(4) | Rings(6)", "Rings(3, max_seconds=0.5)"):
        assert repr(eval(text)) == text


def test_liftings_are_values():
    assert Rings(6) == Rings(6) != Rings(7)
    assert Rings(6) != Cycles(6)
    assert (Cliques(4) | Rings(6)) == (Cliques(4) | Rings(6))
    assert len({Rings(6), Rings(6), Cliques(4) | Rings(6)}) == 2
    assert ((Rings(6) | Cliques(4)) | Cycles(5)) == (Rings(6) | (Cliques(4) | Cycles(5)))


def test_dimension():
    assert [as_lifting(x).dim for x in (None, Rings(6), Cliques(5), Cliques(5) | Rings(6))] == [1, 2, 4, 4]


def test_liftings_from_text():
    assert as_lifting("rings:18") == Rings(18)
    assert as_lifting("cliques:4 | cycles:6") == Cliques(4) | Cycles(6)
    assert repr(as_lifting("none")) == "None"
    with pytest.raises(ValueError, match="rings:x"):
        as_lifting("rings:x")


PRISM = nx.circular_ladder_graph(4)  # a cube


def faces(graph: CellComplex):
    return [c for c in cwnet.lift(graph, Rings(4)).cells(2) if len(c) == 4]


def solid(graph: CellComplex) -> CellComplex:
    """The cube with its six faces and its inside."""
    hollow = cwnet.lift(graph, faces)
    return CellComplex.from_boundaries(8, [*hollow.boundaries, [range(6)]])


def test_custom_lifting_by_cycles():
    found = cwnet.lift(PRISM, faces)
    assert found.num_cells == (8, 12, 6)
    assert found.num_cells == cwnet.lift(PRISM, Rings(4)).num_cells


def test_custom_lifting_by_a_complex():
    assert cwnet.lift(PRISM, Custom(solid, dim=3)).num_cells == (8, 12, 6, 1)


def test_custom_lifting_that_goes_too_high():
    with pytest.raises(GraphError, match=r"cells of dimension 3.*Custom\(solid, dim=3\)"):
        cwnet.lift(PRISM, solid)
    with pytest.raises(GraphError, match=r"Custom\(solid, dim=3\)"):
        cwnet.lift(PRISM, Rings(4) | Custom(solid))


def test_custom_lifting_that_finds_a_cycle_twice():
    square = (4, [(0, 1), (1, 2), (2, 3), (3, 0)])
    assert cwnet.lift(square, lambda g: [(0, 1, 2, 3), (2, 1, 0, 3), (1, 2, 3, 0)]).num_cells == (4, 4, 1)


@pytest.mark.parametrize("result", [None, 3, [1, 2]])
def test_custom_lifting_that_returns_no_cycles(result):
    with pytest.raises(GraphError, match=r"(returned (None|3): return a list of cycles|1 is not a cycle)"):
        cwnet.lift((3, [(0, 1), (1, 2), (2, 0)]), lambda g: result)


def test_union_with_a_custom_lifting():
    union = Rings(6) | Custom(solid, dim=3)
    assert repr(union) == "Rings(6) | solid"
    both = cwnet.lift(PRISM, union)
    rings = cwnet.lift(PRISM, Rings(6))
    assert both.num_cells == (*rings.num_cells, 1)  # the six faces are rings already
    assert both.cells(2) == rings.cells(2)
    assert sorted(len(both.cells(2)[i]) for i in both.boundary(3).tolist()[0]) == [4] * 6
    assert cwnet.lift(PRISM, faces | Rings(6)).num_cells == rings.num_cells


def test_custom_lifting_keeps_features_and_positions():
    graph = cwnet.Graph(3, [(0, 1), (1, 2), (2, 0)], x=torch.rand(3, 2), y=1.0)
    found = cwnet.lift_many([graph, graph], lambda g: [(0, 1, 2)])
    assert found[1].x[0].equal(graph.x)
    assert found.y.tolist() == [1, 1]
    assert found.lifting == "<lambda>"


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([(0, 1, 3)], r"\(0, 1, 3\) is not a cycle of the graph: \(1, 3\) is not an edge"),
        ([(0, 1)], "fewer than three vertices"),
        ([(0, 1, 2, 0, 1, 2)], "names 1-cell 0 twice"),
    ],
)
def test_cells_that_do_not_fit(cells, message):
    graph = (4, [(0, 1), (1, 2), (2, 0), (2, 3)])
    with pytest.raises(GraphError, match=rf"graph 1: the lifting wrong returned cells that do not fit: .*{message}"):
        cwnet.lift_many([graph, graph], _second(cells))
    with pytest.warns(cwnet.errors.LiftingWarning):
        store = cwnet.lift_many([graph, graph], _second(cells), on_error="skip")
    assert len(store) == 1


def _second(cells):
    calls = []

    def wrong(graph):
        calls.append(graph)
        return cells if len(calls) == 2 else []

    return wrong


def test_a_complex_on_another_graph_is_refused():
    with pytest.raises(GraphError, match="on the vertices and edges it was given"):
        cwnet.lift(PRISM, lambda g: cwnet.lift((2, [(0, 1)]), None))
