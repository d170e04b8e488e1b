"""Graphs, cells and selections in arrays of every kind: they are what they say, or refused in our own words."""

import warnings

import numpy as np
import pytest
import torch

import cwnet
from cwnet import CellComplex
from cwnet.errors import CwnetError, GraphError, InvalidComplexError

TRIANGLE = (3, [(0, 1), (1, 2), (2, 0)])
ENDS = np.array(TRIANGLE[1])


def skipping(graph):
    """What `lift_many` leaves out of three graphs of which this is the second."""
    with warnings.catch_warnings(action="ignore"):
        store = cwnet.lift_many([TRIANGLE, graph, TRIANGLE], "rings:6", on_error="skip")
    assert store.num_cells[2] == 2
    (error,) = store.skipped
    assert error.position == 1
    return error.reason


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        ([(0, 1), (1,)], r"edge 1 is \(1,\)"),
        ([("a", "b")], "whole numbers, not <U1 such as"),
        (np.array([["2020", "2021"]], dtype="datetime64[Y]"), "whole numbers, not datetime64"),
        (((i, i + 1) for i in range(2)), r"not of shape \(\)"),
        ([(0, 2**80)], "fit 32 bits"),
        (np.ma.array([[0, 1]], mask=[[True, False]]), "edges have masked entries"),
        (torch.zeros(1, 2, dtype=torch.int64, device="meta"), "edges is a tensor without data"),
    ],
)
def test_edges_that_are_none(edges, said):
    with pytest.raises(GraphError, match=said):
        cwnet.lift((3, list(edges) if isinstance(edges, range) else edges), "rings:6")
    assert skipping((3, edges))


@pytest.mark.parametrize("kind", ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", ">i2", ">i8", ">u4", ">u8"])
def test_whole_numbers_of_every_kind(kind):
    ends = ENDS.astype(kind)
    for some in (ends, ends[::-1], ends[:, ::-1], np.asfortranarray(ends)):
        assert cwnet.lift((3, some), "rings:6").cells(2) == [(0, 1, 2)]
        assert cwnet.lift_many([(3, some)], "rings:6")[0].cells(2) == [(0, 1, 2)]


@pytest.mark.parametrize("kind", [">f4", ">i8", "u2", "f8"])
def test_features_and_targets_of_every_kind(kind):
    given = np.arange(3).astype(kind)[::-1]
    X = cwnet.lift((3, ENDS, given, given, given), "rings:6")
    for found in (X.x[0], X.x[1], X.y):
        assert found.tolist() == [2, 1, 0]


def raises(graph):
    raise KeyError("mine")


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (raises, "the lifting raises failed: KeyError: 'mine'"),
        (lambda graph: None, "returned None: return a list of cycles"),
        (lambda graph: 3, "returned 3: return a list of cycles"),
        (lambda graph: [3], "not a cycle"),
        (lambda graph: [("a", "b", "c")], "whole numbers, not 'a'"),
        (lambda graph: [(0, 0.9, 2)], "whole numbers, not 0.9"),
        (lambda graph: [(0, True, 2)], "whole numbers, not True"),
    ],
)
def test_a_lifting_that_fails_costs_its_graph(function, said):
    with pytest.raises(GraphError, match=f"graph 0: .*{said}"):
        cwnet.lift_many([TRIANGLE], function)
    with pytest.raises(GraphError, match=said):
        cwnet.lift(TRIANGLE, function)

    def now_and_then(graph):
        return function(graph) if graph.num_cells[0] == 4 else [(0, 1, 2)]

    with warnings.catch_warnings(action="ignore"):
        store = cwnet.lift_many([TRIANGLE, (4, [(0, 1)]), TRIANGLE], now_and_then, on_error="skip")
    assert (len(store), [error.position for error in store.skipped]) == (2, [1])


def test_a_lifting_that_is_interrupted_stops():
    def interrupted(graph):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cwnet.lift_many([TRIANGLE], interrupted, on_error="skip")


@pytest.mark.parametrize(
    "index", [[0.9], 0.9, np.array([0.9]), torch.tensor([0.9]), "0", [None], [2**70], {0}, {"a": 1}, None, ["a"]]
)
def test_a_selection_of_what_is_no_number(index):
    store = cwnet.lift_many([TRIANGLE] * 2, "rings:6")
    with pytest.raises((IndexError, TypeError), match="numbers of complexes, a slice or a mask"):
        store.select(index)


@pytest.mark.parametrize(
    "index", [[1, 0], np.array([0, 1])[::-1], np.array([1, 0], dtype=">i8"), np.array([1, 0], dtype="u8"), [-1, -2]]
)
def test_selections_of_every_kind(index):
    store = cwnet.lift_many([(3, TRIANGLE[1], None, None, 0), (3, TRIANGLE[1], None, None, 1)], "rings:6")
    assert store.select(index).y.tolist() == [1, 0]
    assert store.batch(index).y.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("boundaries", "said"),
    [
        ([[(0.5, 1)]], r"boundary of 1-cell 0 .* 0\.5"),
        ([[(0, 1), (0, 1.0)]], r"boundary of 1-cell 1 .* 1\.0"),
        ([[("a", 1)]], "boundary of 1-cell 0 .* 'a'"),
        ([[(True, False)]], "boundary of 1-cell 0 .* True"),
        ([np.array([[0.0, 1.0]])], "boundary of 1-cell 0"),
        ([[(0, 2**80)]], "boundary of 1-cell 0"),
        ([[(0, 1), (0, 1)], [(0, 1.5)]], r"boundary of 2-cell 0 .* 1\.5"),
        ([[None]], "boundary of 1-cell 0"),
        ([3], "boundaries of 1-cells"),
        (3, "boundaries"),
    ],
)
def test_boundaries_that_are_no_numbers(boundaries, said):
    with pytest.raises(InvalidComplexError, match=said):
        CellComplex.from_boundaries(2, boundaries)


@pytest.mark.parametrize("kind", ["u1", "i4", ">i8", "u8"])
def test_boundaries_of_every_kind(kind):
    for rows in (np.array([[1, 0]], dtype=kind), np.array([[0, 1]], dtype=kind)[:, ::-1], torch.tensor([[1, 0]])):
        assert CellComplex.from_boundaries(2, [rows]).boundary(1).tolist() == [[1, 0]]


@pytest.mark.parametrize("count", [2.0, "2", True, None, 2**70, -1])
def test_a_number_of_vertices_that_is_none(count):
    with pytest.raises(CwnetError, match="vertices"):
        CellComplex.from_boundaries(count, [])


def test_an_edge_of_no_ends():
    with pytest.raises(GraphError, match=r"not of shape \(1, 0\)"):
        cwnet.lift((1, [()]), "rings:6")


@pytest.mark.parametrize("edges", [[0, 1, 1], [[0], [1]], [[0, 1], [1]], [(0, 1), None]])
def test_flat_edges_of_another_shape(edges):
    with pytest.raises(CwnetError, match="edges must be"):
        cwnet.ComplexStore.from_graphs([3], [2], edges)
