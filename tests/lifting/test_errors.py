"""Bad input: each error names the graph's position, the value and the way out."""

import os
import signal
import subprocess
import sys
import time

import networkx as nx
import pytest
import torch

import cwnet
from cwnet import Cliques, Cycles, GraphError, LiftingBudgetExceeded, Rings
from cwnet.errors import LiftingWarning

GOOD = (3, [(0, 1), (1, 2), (2, 0)])
BAD_EDGES = {
    "missing vertex": ((3, [(0, 1), (1, 7)]), r"edge 1 \(1, 7\) names vertex 7, but the graph has 3 vertices, 0 to 2"),
    "negative index": ((3, [(0, -1)]), r"edge 0 \(0, -1\) names vertex -1"),
    "self-loop": ((3, [(0, 1), (2, 2)]), r"edge 1 \(2, 2\) is a self-loop.*loops='drop'"),
    "repeated edge": ((3, [(0, 1), (1, 2), (1, 0)]), r"edge 2 \(1, 0\) repeats edge 0 \(0, 1\).*repeated='drop'"),
    "empty graph": ((0, []), "no vertices"),
    "edges of three": ((3, [(0, 1, 2)]), r"edges must be \[m, 2\]"),
    "float edges": ((3, [(0.5, 1.0)]), "edges must be whole numbers"),
    "negative size": ((-1, []), "whole number ≥ 0, not -1"),
    "not a graph": ("c1ccccc1", "a str is not a graph"),
    "none": (None, "None.*did a SMILES fail to parse"),
    "too many vertices away": ((70, [(0, 1), (3, 70)]), r"edge 1 \(3, 70\) names vertex 70"),
    "loop in a large graph": ((70, [(0, 1), (69, 69)]), r"edge 1 \(69, 69\) is a self-loop"),
    "repeat in a large graph": ((70, [(0, 1), (5, 6), (6, 5)]), r"edge 2 \(6, 5\) repeats edge 1 \(5, 6\)"),
    "short features": (cwnet.Graph(*GOOD, x=torch.zeros(2, 4)), "x has 2 rows, but there are 3 vertices"),
    "short edge features": (cwnet.Graph(*GOOD, edge_x=torch.zeros(2)), "edge_x has 2 rows, but there are 3 edges"),
    "nan": (cwnet.Graph(*GOOD, x=torch.tensor([[0.0, 1], [1, float("nan")], [0, 0]])), "x is NaN at row 1, column 1"),
    "directed": (nx.DiGraph([(0, 1)]), "directed"),
}


@pytest.mark.parametrize("case", BAD_EDGES)
@pytest.mark.parametrize("lifting", [Rings(6), None], ids=["rings", "none"])
def test_bad_graph_is_named(case, lifting):
    graph, message = BAD_EDGES[case]
    with pytest.raises(GraphError, match=message) as error:
        cwnet.lift(graph, lifting)
    assert error.value.position is None
    others = [GOOD] * 3
    with pytest.raises(GraphError, match=message) as error:
        cwnet.lift_many([*others, graph], lifting)
    assert error.value.position == 3
    assert str(error.value).startswith("graph 3: ")


@pytest.mark.parametrize("case", BAD_EDGES)
def test_one_bad_graph_does_not_lose_the_others(case):
    graph, message = BAD_EDGES[case]
    with pytest.warns(LiftingWarning, match="1 graph was left out"):
        store = cwnet.lift_many([GOOD, graph, GOOD], Rings(6), on_error="skip")
    assert store.num_cells == (6, 6, 2)
    assert [e.position for e in store.skipped] == [1]
    with pytest.raises(GraphError, match=message):
        raise store.skipped[0]


def test_the_first_bad_graph_is_the_one_reported():
    bad = (2, [(0, 5)])
    for threads in (1, 2):
        with pytest.raises(GraphError) as error:
            cwnet.lift_many([GOOD] * 700 + [bad] + [GOOD] * 500 + [bad] * 300, Rings(6), threads=threads)
        assert error.value.position == 700


@pytest.mark.parametrize("kind", [Rings, Cycles, Cliques])
def test_k_below_three_is_refused(kind):
    with pytest.raises(ValueError, match=rf"{kind.__name__}\(2\) attaches nothing.*k ≥ 3"):
        kind(2)
    with pytest.raises(TypeError, match="whole number"):
        kind(6.0)


def test_features_must_agree_across_a_list():
    plain, wide = cwnet.Graph(*GOOD, x=torch.zeros(3, 2)), cwnet.Graph(*GOOD, x=torch.zeros(3, 5))
    with pytest.raises(GraphError, match=r"graph 1: x is .*\(5,\).*\(2,\) in graph 0"):
        cwnet.lift_many([plain, wide], Rings(6))
    with pytest.raises(GraphError, match="graph 1: graph 0 has x and this graph has none"):
        cwnet.lift_many([plain, GOOD], Rings(6))


def test_loops_and_repeats_can_be_dropped():
    graph = cwnet.Graph(3, [(0, 1), (1, 1), (1, 2), (2, 1), (2, 0)], edge_x=torch.arange(5))
    found = cwnet.lift(graph, Rings(6), loops="drop", repeated="drop")
    assert found.cells(1) == [(0, 1), (1, 2), (2, 0)]
    assert found.x[1].tolist() == [0, 2, 4]
    assert found.num_cells == (3, 3, 1)


class TestBudgets:
    k40 = nx.complete_graph(40)

    def test_cells(self):
        start = time.monotonic()
        with pytest.raises(LiftingBudgetExceeded, match=r"max_cells=1,000,000.*smaller k or a larger budget") as error:
            cwnet.lift(self.k40, Cycles(40))
        assert time.monotonic() - start < 30
        assert error.value.cells == 1_000_001

    def test_seconds(self):
        start = time.monotonic()
        with pytest.raises(LiftingBudgetExceeded, match=r"graph 1: .*max_seconds=0.3") as error:
            cwnet.lift_many([GOOD, self.k40], Cycles(40, max_cells=10**12, max_seconds=0.3))
        assert time.monotonic() - start < 5
        assert error.value.position == 1
        assert 0.3 <= error.value.seconds < 1

    def test_seconds_where_there_is_nothing_to_find(self):
        """A search that runs long without finding a cell is stopped as well."""
        bipartite = nx.complete_bipartite_graph(3, 30)
        grid = nx.disjoint_union(bipartite, nx.grid_2d_graph(12, 12))
        with pytest.raises(LiftingBudgetExceeded):
            cwnet.lift(grid, Rings(100, max_cells=10**9, max_seconds=0.2))

    def test_skip(self):
        lifting = Cycles(40, max_cells=1000)
        with pytest.warns(LiftingWarning):
            store = cwnet.lift_many([GOOD, self.k40, GOOD], lifting, on_budget="skip")
        assert len(store) == 2
        assert [e.position for e in store.skipped] == [1]

    def test_truncate_keeps_whole_sizes(self):
        with pytest.warns(LiftingWarning, match="1 graph was lifted in part"):
            store = cwnet.lift_many([GOOD, self.k40], Cycles(40, max_cells=10_000), on_budget="truncate")
        assert store[1].num_cells[2] == 40 * 39 * 38 // 6
        assert store.truncated[0].kept == 3
        assert store[0].num_cells == (3, 3, 1)

    def test_truncate_to_nothing(self):
        with pytest.warns(LiftingWarning):
            store = cwnet.lift_many([self.k40], Cliques(5, max_cells=10), on_budget="truncate")
        assert store.num_cells == (40, 780, 0, 0, 0)

    def test_budget_is_checked(self):
        with pytest.raises(ValueError, match="budget must be at least one cell"):
            Rings(6, max_cells=0)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_stops_a_long_enumeration(threads):
    script = (
        "import cwnet, networkx as nx\n"
        "k40 = nx.complete_graph(40)\n"
        "print('started', flush=True)\n"
        f"cwnet.lift_many([k40] * 4, cwnet.Cycles(40, max_cells=10**12, max_seconds=600), threads={threads})\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "started\n"
    time.sleep(0.5)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - start < 3  # of which the interpreter's own exit takes a part
    assert "KeyboardInterrupt" in errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_error": "ignore"}, "on_error='ignore' is not one of 'raise', 'skip'"),
        ({"init": "max"}, "init='max' is not one of"),
        ({"threads": 0}, "threads=0"),
        ({"repeated": "merge"}, "repeated='merge'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        cwnet.lift_many([GOOD], Rings(6), **options)


def test_what_is_not_a_lifting():
    with pytest.raises(TypeError, match="6 is not a lifting"):
        cwnet.lift(GOOD, 6)
    with pytest.raises(ValueError, match="can not read the lifting 'ring:6'"):
        cwnet.lift(GOOD, "ring:6")


def test_init_needs_features():
    with pytest.raises(GraphError, match="needs vertex features"):
        cwnet.lift(GOOD, Rings(6), init="sum")
