"""One complex: adjacencies by their definitions, skeletons, cells, equality."""

from dataclasses import replace

import networkx as nx
import pytest
import torch
from hypothesis import given

import cwnet
from cwnet import CellComplex, Cliques, InvalidComplexError, Rings
from tests.reference import cells as reference
from tests.strategies import complexes

SPHERE = (2, [[(0, 1), (0, 1)], [(0, 1), (0, 1)]])


@given(complexes)
def test_adjacencies_equal_their_definitions(complex_):
    for d in range(len(complex_.num_cells)):
        below = complex_.boundary(d).tolist()
        assert len(below) == complex_.num_cells[d]
        above = [[] for _ in below]
        for i, row in enumerate(complex_.boundary(d + 1).tolist()):
            for face in row:
                above[face].append(i)
        assert complex_.coboundary(d).tolist() == above
        assert reference.as_counter(complex_.upper(d)) == reference.upper_pairs(complex_, d)
        assert reference.as_counter(complex_.lower(d)) == reference.lower_pairs(complex_, d)
        expected = [sorted(reference.vertices(complex_, d, i)) for i in range(complex_.num_cells[d])]
        assert complex_.vertices(d).tolist() == expected
        assert [sorted(c) for c in complex_.cells(d)] == expected


@given(complexes)
def test_lifted_complexes_are_valid(complex_):
    again = CellComplex.from_boundaries(complex_.num_cells[0], complex_.boundaries)
    assert again == complex_


@given(complexes)
def test_the_boundary_of_a_2_cell_follows_its_vertices(complex_):
    ends = [frozenset(e) for e in complex_.cells(1)]
    for cell, row in zip(complex_.cells(2), complex_.boundary(2).tolist(), strict=True):
        assert [frozenset(step) for step in zip(cell, cell[1:] + cell[:1], strict=True)] == [ends[e] for e in row]


def test_the_sphere_of_the_paper():
    sphere = CellComplex.from_boundaries(*SPHERE)
    assert sphere.num_cells == (2, 2, 2)
    assert sphere.dim == 2
    assert sphere.cells(2) == [(0, 1), (0, 1)]
    # The two hemispheres share both edges, so each is the other's lower neighbour twice.
    assert reference.as_counter(sphere.lower(2)) == {(0, 1, 0): 1, (0, 1, 1): 1, (1, 0, 0): 1, (1, 0, 1): 1}
    assert sphere.skeleton(1).num_cells == (2, 2)


def test_dim_is_the_largest_dimension_with_a_cell():
    tree = cwnet.lift((3, [(0, 1), (1, 2)]), Rings(6))
    assert tree.num_cells == (3, 2, 0)
    assert tree.dim == 1
    assert tree.cells(2) == tree.cells(7) == []
    assert cwnet.lift((1, []), Rings(6)).dim == 0


def test_a_dimension_below_zero_is_refused():
    point = cwnet.lift((1, []), None)
    for ask in (point.boundary, point.coboundary, point.upper, point.lower, point.vertices, point.skeleton):
        with pytest.raises(ValueError, match="-1"):
            ask(-1)


def test_skeleton_keeps_features_and_target():
    graph = cwnet.Graph(3, [(0, 1), (1, 2), (2, 0)], x=torch.rand(3, 2), edge_x=torch.arange(3), y=1.5)
    complex_ = cwnet.lift(graph, Cliques(3), init="sum")
    skeleton = complex_.skeleton(1)
    assert skeleton.num_cells == (3, 3)
    assert skeleton == cwnet.lift(graph, None)
    assert complex_.skeleton(5) == complex_


@pytest.mark.parametrize("init", ["sum", "mean"])
def test_features_of_higher_cells(init):
    x = torch.tensor([[1.0, 10], [2, 20], [3, 30], [4, 40]])
    edge_x = torch.arange(5.0)[:, None]
    edges = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 0)]
    given_edges = cwnet.lift(cwnet.Graph(4, edges, x=x, edge_x=edge_x), Rings(6), init=init)
    assert given_edges.x[1].equal(edge_x)
    for complex_ in (given_edges, cwnet.lift(cwnet.Graph(4, edges, x=x), Rings(6), init=init)):
        for d in (1, 2):
            if complex_ is given_edges and d == 1:
                continue
            rows = [x[list(c)] for c in complex_.cells(d)]
            expected = torch.stack([r.sum(0) if init == "sum" else r.mean(0) for r in rows])
            assert torch.allclose(complex_.x[d], expected)


def test_features_of_higher_cells_from_whole_numbers():
    graph = cwnet.Graph(3, [(0, 1), (1, 2), (2, 0)], x=torch.tensor([1, 2, 4], dtype=torch.uint8))
    assert cwnet.lift(graph, Rings(3), init="sum").x[2].tolist() == [7]
    assert cwnet.lift(graph, Rings(3), init="mean").x[1].tolist() == [1.5, 3.0, 2.5]


def test_repr():
    assert repr(cwnet.lift(nx.complete_graph(4), Cliques(4))) == "CellComplex(4 vertices, 6 edges, 4 2-cells, 1 3-cell)"


def test_equality_is_not_identity_of_shape():
    a, b = (cwnet.lift(cwnet.Graph(2, [(0, 1)], y=y), None) for y in (1.0, 2.0))
    assert a == cwnet.lift(cwnet.Graph(2, [(0, 1)], y=1.0), None)
    assert a != b
    assert a != 3
    missing = cwnet.lift(cwnet.Graph(2, [(0, 1)], y=float("nan")), None)
    assert missing == missing.skeleton(1)


class TestValidation:
    @pytest.mark.parametrize(
        ("num_vertices", "boundaries", "message"),
        [
            (2, [[(0, 2)]], "1-cell 0 names 0-cell 2 on its boundary, but there are 2"),
            (2, [[(0, -1)]], "1-cell 0 names 0-cell -1"),
            (2, [[(0, 1), (1, 1)]], "1-cell 1 names 0-cell 1 twice.*two distinct ends"),
            (2, [[(0,)]], "1-cell 0 has 1 ends; an edge has two"),
            (3, [[(0, 1), (1, 2), (2, 0)], [(0, 1)]], "boundary of 2-cell 0 is not one simple closed cycle"),
            (3, [[(0, 1), (1, 2), (2, 0)], [()]], "boundary of 2-cell 0"),
            (3, [[(0, 1), (1, 2), (2, 0)], [(0, 1, 2), (0, 1, 2, 2)]], "2-cell 1 names 1-cell 2 twice"),
            (-1, [], "can not have -1 vertices"),
        ],
    )
    def test_irregular(self, num_vertices, boundaries, message):
        with pytest.raises(InvalidComplexError, match=message):
            CellComplex.from_boundaries(num_vertices, boundaries)

    def test_figure_eight_is_no_2_cell(self):
        edges = [(0, 1), (1, 2), (2, 0), (0, 3), (3, 4), (4, 0)]
        with pytest.raises(InvalidComplexError, match="0-cell 0 lies on 4 of its 1-cells"):
            CellComplex.from_boundaries(5, [edges, [range(6)]])

    def test_two_cycles_are_no_2_cell(self):
        edges = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]
        with pytest.raises(InvalidComplexError, match="in 2 pieces"):
            CellComplex.from_boundaries(6, [edges, [range(6)]])

    def test_open_box_is_no_3_cell(self):
        tetrahedron = cwnet.lift(nx.complete_graph(4), Cliques(3))
        closed = [*tetrahedron.boundaries, [range(4)]]
        assert CellComplex.from_boundaries(4, closed).dim == 3
        with pytest.raises(InvalidComplexError, match=r"not closed \(∂∂ ≠ 0\)"):
            CellComplex.from_boundaries(4, [*tetrahedron.boundaries, [range(3)]])

    def test_torus_is_no_3_cell(self):
        n = 3
        number = {(i, j): i * n + j for i in range(n) for j in range(n)}
        right = {p: i for i, p in enumerate(number)}
        up = {p: i + n * n for i, p in enumerate(number)}
        edges = [(number[i, j], number[(i + 1) % n, j]) for i, j in number]
        edges += [(number[i, j], number[i, (j + 1) % n]) for i, j in number]
        squares = [(right[i, j], up[(i + 1) % n, j], right[i, (j + 1) % n], up[i, j]) for i, j in number]
        assert CellComplex.from_boundaries(n * n, [edges, squares]).num_cells == (9, 18, 9)
        with pytest.raises(InvalidComplexError, match="not a 2-sphere: its Euler characteristic is 0"):
            CellComplex.from_boundaries(n * n, [edges, squares, [range(9)]])

    def test_higher_spheres(self):
        for n in (5, 6, 7):
            simplex = cwnet.lift(nx.complete_graph(n), Cliques(n))
            assert CellComplex.from_boundaries(n, simplex.boundaries) == simplex

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"x": [torch.zeros(3, 2)]}, r"x\[0\] has 3 rows, but there are 2 cells of dimension 0"),
            ({"x": [None, None, None, None]}, "entries for 4 dimensions"),
            ({"x": torch.zeros(2, 2)}, "x is one tensor; it must be one per dimension"),
            ({"x": [torch.tensor([0.0, float("nan")])]}, r"x\[0\] is NaN at \[1\]"),
            ({"cell_y": [None, torch.zeros(1)]}, r"cell_y\[1\] has 1 rows"),
        ],
    )
    def test_features(self, options, message):
        with pytest.raises(InvalidComplexError, match=message):
            CellComplex.from_boundaries(*SPHERE, **options)


def test_hasse_has_all_incidences_at_once():
    graph = nx.Graph([*nx.cycle_graph(5).edges, (4, 5), (5, 6), (6, 4)])
    cells = cwnet.lift(graph, Rings(5))
    starts = [0, cells.num_cells[0], sum(cells.num_cells[:2]), sum(cells.num_cells)]
    for top in (0, 1, 2):
        found = cells.hasse(top)
        assert cells.hasse(top) is found
        down, up = found.down.tolist(), found.up.tolist()
        assert len(down) == len(up) == starts[top + 1]
        for d in range(top + 1):
            for i in range(cells.num_cells[d]):
                below = [starts[d - 1] + j for j in cells.boundary(d).tolist()[i]]
                above = [starts[d + 1] + j for j in cells.coboundary(d).tolist()[i]] if d < top else []
                assert (down[starts[d] + i], up[starts[d] + i]) == (below, above)
        assert found.down_rows.tolist() == found.down.rows.tolist()
        assert found.up_rows.tolist() == found.up.rows.tolist()


@pytest.mark.parametrize("kind", ["complex", "batch", "store"])
def test_a_precision_is_that_of_features(kind):
    x = (torch.rand(3, 2), torch.tensor([1, 2, 0]), None)
    one = replace(cwnet.lift((3, [(0, 1), (1, 2), (2, 0)]), cwnet.Rings(6)), x=x, y=torch.tensor([1.0]))
    cells = {"complex": one, "batch": cwnet.collate([one]), "store": cwnet.ComplexStore.from_complexes([one])}[kind]
    wide = cells.to(torch.float64)
    assert wide.x[0].dtype == wide.y.dtype == torch.float64
    assert wide.x[1].dtype == torch.int64
    assert all(a.dtype == b.dtype for a, b in zip(cells.boundaries[1], wide.boundaries[1], strict=True))
    assert cells.to("cpu", torch.float16).x[0].dtype == torch.float16
    assert cells.to(wide.x[0]).x[0].dtype == torch.float64
    assert cells.cpu().x[0].dtype == torch.float32
    with pytest.raises(TypeError, match=r"can not be turned into torch\.int32"):
        cells.to(torch.int32)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_to_a_gpu_and_back():
    one = cwnet.lift((3, [(0, 1), (1, 2), (2, 0)]), cwnet.Rings(6))
    assert one.cuda().boundary(1).idx.is_cuda
    assert one.pin_memory().boundary(1).idx.is_pinned()
    assert one.cuda().cpu() == one
