"""Graphs that the core reads are those that Python reads, one by one and slowly; and nothing is taken for a graph
that is none."""

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cwnet
from cwnet import Cliques, Cycles, GraphError, Rings, certificate, lift, lift_many
from cwnet.errors import LiftingWarning
from cwnet.lifting import _graphs
from cwnet.lifting._graphs import Graph, as_graph, pack

INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, ">i4", ">u8", "<i8"]


@st.composite
def simple_graphs(draw, most=12):
    n = draw(st.integers(1, most))
    pairs = [(u, v) for v in range(n) for u in range(v)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=20)) if pairs else []
    return n, [(v, u) if draw(st.booleans()) else (u, v) for u, v in chosen]


def forms(n, edges):
    """The same graph in every form with a list of edges."""
    array = np.array(edges, dtype=np.int64).reshape(-1, 2)
    yield n, edges
    yield n, [list(e) for e in edges]
    yield n, tuple(edges)
    yield np.int64(n), array
    yield n, torch.from_numpy(array)
    yield n, torch.from_numpy(array).to(torch.uint8)
    yield n, torch.from_numpy(array.T.copy()).t()
    yield n, np.asfortranarray(array)
    yield n, np.repeat(array, 2, axis=0)[::2]
    yield n, array[::-1][::-1]
    yield n, array[:, ::-1][:, ::-1]
    yield n, [(np.int32(u), v) for u, v in edges]
    yield Graph(n, array)
    for kind in INTEGERS:
        yield n, array.astype(kind)
    if n > 1:
        yield n, memoryview(array)


@given(simple_graphs(), st.sampled_from([Rings(6), Cycles(5), Cliques(4), None]))
def test_all_forms_are_one_graph(graph, lifting):
    n, edges = graph
    many = list(forms(n, edges))
    store = lift_many(many, lifting, threads=1)
    expected = lift((n, edges), lifting)
    assert expected.cells(1) == edges
    for i, form in enumerate(many):
        assert store[i] == expected
        assert lift(form, lifting) == expected
    assert len(set(cwnet.wl.certificates(many, lifting))) == 1
    assert certificate(many[3], lifting) == cwnet.wl.certificates(store)[0]


def same(a, b):
    return (a is None) == (b is None) and (a is None or (a.dtype == b.dtype and torch.equal(a, b)))


def assert_reads_as_python_does(graphs):
    store, positions, errors = pack(graphs, skip=False)
    assert positions.tolist() == list(range(len(graphs)))
    assert errors == []
    for i, graph in enumerate(graphs):
        found, expected = store[i], as_graph(graph)
        assert found.num_cells == (expected.num_nodes, len(expected.edges))
        assert found.boundary(1).tolist() == expected.edges.tolist()
        assert same(found.x[0], expected.x)
        assert same(found.x[1], expected.edge_x)
        assert same(found.y, expected.y)
        assert lift(graph, None) == found


class Unread(Exception):
    pass


def not_slowly(*_):
    raise Unread


def assert_core_reads(graph):
    """That a graph takes the fast way, without which the comparison would say nothing."""
    cwnet._core.read_graphs([graph], _graphs.kind_of, not_slowly)


@given(simple_graphs(most=90), st.data())
def test_pyg(graph, data):
    from torch_geometric.data import Data

    n, edges = graph
    both = [e for u, v in edges for e in ((u, v), (v, u))]
    order = data.draw(st.permutations(range(len(both))))
    index = torch.tensor(both, dtype=torch.int64).reshape(-1, 2)[list(order)].t()
    attr = torch.arange(len(edges)).repeat_interleave(2)[list(order)].float().reshape(-1, 1)
    plain = Data(edge_index=index, num_nodes=n)
    full = Data(x=torch.rand(n, 3), edge_index=index, edge_attr=attr, y=torch.rand(1, 2))
    other = Data(x=full.x + 1, edge_index=index, edge_attr=attr + 100, y=full.y)
    for made in (plain, full):
        assert_core_reads(made)
    assert_reads_as_python_does([plain, plain])
    assert_reads_as_python_does([full, other, full])
    assert_reads_as_python_does([Data(pos=torch.rand(n, 2), edge_index=index)])


@given(simple_graphs(), st.sampled_from(["numbers", "letters", "shuffled", "tuples"]), st.randoms())
def test_networkx(graph, names, random):
    n, edges = graph
    nodes = {
        "numbers": list(range(n)),
        "letters": [chr(97 + i) for i in range(n)],
        "shuffled": random.sample(range(100), n),
        "tuples": [(i, i) for i in range(n)],
    }[names]
    made = nx.Graph()
    made.add_nodes_from(nodes)
    made.add_edges_from((nodes[u], nodes[v]) for u, v in edges)
    if names != "tuples":
        assert_core_reads(made)
    with_x = nx.Graph(made)
    nx.set_node_attributes(with_x, {v: [1.0, 2.0] for v in with_x}, "x")
    assert_reads_as_python_does([made, made])
    assert_reads_as_python_does([with_x])


def test_networkx_kinds_that_are_no_plain_graph():
    loop = nx.Graph([(0, 1), (1, 1)])
    with pytest.raises(GraphError, match=r"edge 1 \(1, 1\) is a self-loop"):
        lift(loop, Rings(6))
    assert lift(nx.MultiGraph([(0, 1), (0, 1)]), Rings(6), repeated="keep").num_cells == (2, 2, 1)
    assert_reads_as_python_does([nx.grid_2d_graph(3, 3), nx.karate_club_graph(), nx.petersen_graph()])


def test_rdkit():
    chem = pytest.importorskip("rdkit.Chem")
    smiles = ["CCO", "c1ccccc1", "[Na+].[Cl-]", "C[C@H](N)C(=O)O", "C/C=C\\C", "*C", "C" * 300, "[2H]C"]
    mols = [chem.MolFromSmiles(s) for s in smiles]
    assert _graphs.kind_of(type(mols[0])) != 0
    assert_core_reads(mols[1])
    assert_reads_as_python_does(mols)
    assert_reads_as_python_does([chem.AddHs(m) for m in mols])


@given(st.lists(simple_graphs(), min_size=1, max_size=5), st.booleans(), st.booleans(), st.booleans())
def test_features_of_plain_graphs(graphs, with_x, with_edges, with_y):
    many = [
        Graph(
            n,
            np.array(e).reshape(-1, 2).astype(int),
            torch.rand(n, 2) if with_x else None,
            torch.rand(len(e)) if with_edges else None,
            float(n) if with_y else None,
        )
        for n, e in graphs
    ]
    assert_reads_as_python_does(many)
    assert_reads_as_python_does([g._replace(x=None if g.x is None else g.x.numpy()[:, ::-1]) for g in many])


def test_features_keep_their_gradients():
    x = torch.rand(3, 2, requires_grad=True)
    lift(Graph(3, [(0, 1)], x), Rings(3)).x[0].sum().backward()
    assert x.grad is not None


def test_features_are_copied():
    x = torch.zeros(2, 1)
    found = lift(Graph(2, [(0, 1)], x), None)
    x += 1
    assert found.x[0].sum() == 0


REFUSED = {
    "does not fit": ((3, np.array([[0, 2**32 + 1]])), "must fit 32 bits; found 0 to 4294967297"),
    "does not fit, unsigned": ((3, np.array([[0, 2**63]], dtype=np.uint64)), "must fit 32 bits"),
    "does not fit, list": ((3, [(0, 2**32)]), "must fit 32 bits"),
    "far too large": ((3, [(0, 2**70)]), "must fit 32 bits; found 0 to 1180591620717411303424"),
    "does not fit, tensor": ((3, torch.tensor([[0, 2**40]])), "must fit 32 bits"),
    "floats": ((3, np.array([[0.0, 1.0]])), "whole numbers, not float64"),
    "one float": ((3, [(0, 1), (1, 2.0)]), "whole numbers, not float64"),
    "float tensor": ((3, torch.tensor([[0.0, 1.0]])), "whole numbers, not torch.float32"),
    "half tensor": ((3, torch.tensor([[0.0, 1.0]], dtype=torch.bfloat16)), "whole numbers"),
    "bools": ((3, [(True, False)]), "whole numbers, not bool"),
    "text": ((3, [("0", "1")]), "whole numbers, not <U1 such as"),
    "ragged": ((3, [(0, 1), (1, 2, 0)]), r"but edge 1 is \(1, 2, 0\)"),
    "not pairs": ((3, [0, 1, 2]), r"not of shape \(3,\)"),
    "none inside": ((3, [(0, None)]), "whole numbers, not None"),
    "nodes as a float": ((3.0, [(0, 1)]), "whole number ≥ 0, not 3.0"),
    "nodes as a bool": ((True, []), "whole number ≥ 0, not True"),
    "too many nodes": ((2**40, [(0, 1)]), "must fit 32 bits"),
    "features as text": (Graph(2, [(0, 1)], ["a", "b"]), "x is not an array of numbers"),
    "ragged features": (Graph(2, [(0, 1)], [[1], [1, 2]]), "x is not an array of numbers"),
    "target as text": (Graph(2, [(0, 1)], y="a"), "y is not an array of numbers"),
    "missing vertex, unsigned": ((3, np.array([[0, 7]], dtype=np.uint8)), r"edge 0 \(0, 7\) names vertex 7"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_graph_is_refused_and_can_be_skipped(case):
    graph, message = REFUSED[case]
    with pytest.raises(GraphError, match=message):
        lift(graph, Rings(6))
    with pytest.raises(GraphError, match="^graph 1: .*" + message):
        lift_many([(1, []), graph], Rings(6))
    with pytest.raises(GraphError, match=message):
        certificate(graph)
    good = (3, [(0, 1)])
    with pytest.warns(LiftingWarning, match="1 graph was left out"):
        store = lift_many([good, graph, good], Rings(6), on_error="skip")
    assert len(store) == 2
    assert [e.position for e in store.skipped] == [1]


def test_pyg_that_is_no_graph():
    from torch_geometric.data import Data

    def index(*pairs):
        return torch.tensor(pairs).t()

    cases = {
        "more often than 1 → 0": Data(edge_index=index((0, 1)), num_nodes=2),
        "more often than 1 → 2": Data(edge_index=index((2, 1), (0, 1)), num_nodes=3),
        "names vertex 5": Data(edge_index=index((0, 5), (5, 0)), num_nodes=2),
        "names vertex -1": Data(edge_index=index((0, -1), (-1, 0)), num_nodes=2),
        "edge_attr differs": Data(
            edge_index=index((0, 1), (1, 0)), num_nodes=2, edge_attr=torch.tensor([[1.0], [2.0]])
        ),
        "edge_attr has 1 rows": Data(edge_index=index((0, 1), (1, 0)), num_nodes=2, edge_attr=torch.ones(1, 1)),
        "x is NaN at row 1": Data(edge_index=index((0, 1), (1, 0)), x=torch.tensor([[0.0], [float("nan")]])),
        "self-loop": Data(edge_index=index((0, 0)), num_nodes=2),
        "repeats edge 0": Data(edge_index=index((0, 1), (1, 0), (0, 1), (1, 0)), num_nodes=2),
        "whole numbers": Data(edge_index=index((0.0, 1.0), (1.0, 0.0)), num_nodes=2),
        "no edge_index": Data(num_nodes=2),
    }
    for message, data in cases.items():
        with pytest.raises(GraphError, match=message):
            lift(data, Rings(6))
    with pytest.warns(LiftingWarning):
        store = lift_many(cases.values(), Rings(6), on_error="skip")
    assert len(store) == 0
    assert [e.position for e in store.skipped] == list(range(len(cases)))


def test_a_list_of_many_kinds():
    from torch_geometric.data import Data

    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    many = [
        (3, [(0, 1), (1, 2)]),
        nx.path_graph(3),
        Data(edge_index=path, num_nodes=3),
        lift((3, [(0, 1), (1, 2)]), None),
    ]
    assert len(set(cwnet.wl.certificates(many, Rings(6)))) == 1
    assert len(lift_many(iter(many), Rings(6))) == 4
    assert len(lift_many([], Rings(6))) == 0


@settings(max_examples=20)
@given(st.lists(simple_graphs(), max_size=8), st.integers(0, 7))
def test_a_bad_graph_takes_nothing_along(graphs, at):
    """Half of a graph that is given up on does not stay behind."""
    bad = (3, [(0, 1), (1, 2), (0, "x")])
    mixed = [*graphs[:at], bad, *graphs[at:]]
    with pytest.warns(LiftingWarning):
        store = lift_many(mixed, Rings(6), on_error="skip", threads=1)
    assert [store[i] for i in range(len(store))] == [lift(g, Rings(6)) for g in graphs]
