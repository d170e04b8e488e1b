"""Relabelling the input relabels the output, and changes nothing else."""

import networkx as nx
import pytest
from hypothesis import given, settings

from cwnet import Cliques, Cycles, Rings
from cwnet.lifting import assert_invariant
from tests.strategies import graphs


def theta(*lengths):
    """Two vertices joined by disjoint paths of the given numbers of edges."""
    graph = nx.Graph()
    for number, length in enumerate(lengths):
        nx.add_path(graph, ["s", *((number, i) for i in range(length - 1)), "t"])
    return graph


def cycle_basis(graph):
    return nx.cycle_basis(graph.to_networkx())


@settings(max_examples=1000)
@given(graphs)
def test_liftings_are_invariant(graph):
    assert_invariant(Rings(7) | Cliques(4), graph, seeds=1)
    assert_invariant(Cycles(5), graph, seeds=1)


def test_liftings_are_invariant_where_a_cycle_basis_is_not():
    for lifting in (Rings(18), Cycles(9), Cliques(3), Rings(6) | Cliques(4)):
        assert_invariant(lifting, theta(2, 3, 4), seeds=20)
    with pytest.raises(AssertionError, match="depends on the numbering"):
        assert_invariant(cycle_basis, theta(2, 3, 4), seeds=20)


def test_invariance_under_truncation():
    """What is left of a graph over its budget is the same for all of its numberings."""
    import warnings

    import cwnet
    from cwnet.lifting import relabelled

    graph = nx.complete_graph(7)
    counts = set()
    for seed in range(5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            store = cwnet.lift_many([relabelled(graph, seed)[0]], Cycles(7, max_cells=400), on_budget="truncate")
        counts.add(store.num_cells)
    assert counts == {(7, 21, 35 + 105 + 252)}  # triangles, squares, pentagons; 420 hexagons do not fit
