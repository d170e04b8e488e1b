import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings

import cwnet
from cwnet import CellComplex, Cliques, InvalidComplexError, Rings, collate
from cwnet.complexes import Csr
from cwnet.topology import Oriented, boundary_matrix, orient, random_flips
from tests.reference.spaces import SPACES
from tests.reference.topology import boundary_matrices
from tests.strategies import complexes
from tests.topology.complexes import random_parts, random_store

spaces = pytest.mark.parametrize("name", list(SPACES))


def assert_chain_complex(cells):
    """∂∂ = 0, and every sign is ±1."""
    oriented = orient(cells)
    for d in range(1, len(oriented.num_cells)):
        assert set(oriented.signs[d - 1].tolist()) <= {-1, 1}
        product = boundary_matrix(oriented, d) @ boundary_matrix(oriented, d + 1)
        assert abs(product).max() == 0 if product.nnz else True


@spaces
def test_named_spaces(name):
    assert_chain_complex(SPACES[name][0])


@given(complexes)
@settings(max_examples=150)
def test_the_boundary_of_a_boundary_is_zero(complex_):
    assert_chain_complex(complex_)


def test_the_boundary_of_a_boundary_is_zero_on_thousands_of_complexes():
    assert_chain_complex(random_store(3000))
    assert_chain_complex(collate(random_parts(300)))


@given(complexes)
@settings(max_examples=60)
def test_edges_by_vertex_order_and_rings_along_their_cycle(complex_):
    complex_ = complex_.skeleton(2)
    for d, expected in enumerate(boundary_matrices(complex_), start=1):
        np.testing.assert_array_equal(boundary_matrix(complex_, d).toarray(), expected)


def test_a_ring_runs_as_its_vertices_are_listed():
    complex_ = cwnet.lift(nx.petersen_graph(), Rings(6))
    dense = boundary_matrix(complex_, 2).toarray()
    edges = {pair: e for e, pair in enumerate(complex_.cells(1))}
    for c, walk in enumerate(complex_.cells(2)):
        for u, v in zip(walk, (*walk[1:], walk[0]), strict=True):
            assert dense[edges[min(u, v), max(u, v)], c] == (1 if u < v else -1)


def test_the_order_inside_boundaries_means_nothing():
    a = CellComplex.from_boundaries(4, [[(0, 1), (1, 2), (2, 3), (3, 0)], [(0, 1, 2, 3)]])
    b = CellComplex.from_boundaries(4, [[(1, 0), (2, 1), (2, 3), (0, 3)], [(2, 0, 3, 1)]])
    for d in (1, 2):
        np.testing.assert_array_equal(boundary_matrix(a, d).toarray(), boundary_matrix(b, d).toarray())


def test_many_are_oriented_as_each_by_itself():
    store = random_store(40, seed=1)
    together = orient(store)
    for i, complex_ in enumerate(store):
        alone = orient(complex_)
        for d in range(1, len(complex_.num_cells)):
            csr = together.boundary(d)
            start, stop = csr.ptr[together.cell_ptr[d][i : i + 2]].tolist()
            assert together.signs[d - 1][start:stop].tolist() == alone.signs[d - 1].tolist()
    assert [s.tolist() for s in orient(store.batch()).signs] == [s.tolist() for s in together.signs]
    assert orient(together) is together


class TestFlipped:
    def test_is_t_b_t(self):
        cells = orient(SPACES["3-torus"][0])
        flips = random_flips(cells, torch.Generator().manual_seed(0))
        turned = cells.flipped(flips)
        for d in (1, 2, 3):
            left, right = (np.diag(flips[e].numpy().astype(float)) for e in (d - 1, d))
            expected = left @ boundary_matrix(cells, d).toarray() @ right
            np.testing.assert_array_equal(boundary_matrix(turned, d).toarray(), expected)
        assert_chain_complex(turned)
        again = turned.flipped(flips)
        assert all(torch.equal(a, b) for a, b in zip(again.signs, cells.signs, strict=True))

    def test_signals_change_with_their_cells(self):
        complex_ = cwnet.lift(nx.cycle_graph(3), Rings(3))
        x = (torch.ones(3, 2), torch.ones(3, 2), torch.ones(1))
        cells = orient(CellComplex.from_boundaries(3, [b.tolist() for b in complex_.boundaries], x=x))
        flips = [None, torch.tensor([1, -1, 1]), torch.tensor([-1.0])]
        turned = cells.flipped(flips, signals=[1, 2])
        assert turned.x[1].tolist() == [[1, 1], [-1, -1], [1, 1]]
        assert turned.x[2].tolist() == [-1]
        assert cells.flipped(flips).x[1] is cells.x[1]

    def test_vertices_have_no_orientation(self):
        cells = orient(SPACES["disc"][0])
        assert random_flips(cells)[0].tolist() == [1] * 7
        with pytest.raises(InvalidComplexError, match=r"flips\[0\] is -1 at cell 2: a vertex can not be turned round"):
            cells.flipped([torch.tensor([1, 1, -1, 1, 1, 1, 1])])

    @pytest.mark.parametrize(
        ("flips", "message"),
        [
            ([None, torch.ones(6)], r"flips\[1\] is of shape \(6,\), but there are 7 cells of dimension 1"),
            ([None, torch.zeros(7)], r"flips\[1\] is 0.0 at cell 0: it must be 1 or -1"),
            ([None] * 4, "flips for 4 dimensions, but there are 3"),
        ],
        ids=["shape", "value", "dimensions"],
    )
    def test_bad_flips(self, flips, message):
        with pytest.raises(InvalidComplexError, match=message):
            orient(SPACES["disc"][0]).flipped(flips)


def test_an_oriented_complex_is_a_batch():
    cells = orient(cwnet.lift(nx.cycle_graph(4), Rings(4)))
    assert isinstance(cells, Oriented)
    assert len(cells) == 1
    assert repr(cells) == "Oriented(1 complex: 4 vertices, 4 edges, 1 2-cell)"
    assert cells[0] == cwnet.lift(nx.cycle_graph(4), Rings(4))
    assert cells.to("cpu").signs[0].dtype == torch.int8
    cells.signed_incidence(1)
    other = cells.with_features([torch.zeros(4, 1), None, None])
    assert other.signed_incidence(1) is cells.signed_incidence(1)
    assert other.x[0].shape == (4, 1)
    assert cells.x[0] is None


def unchecked(num_vertices, *boundaries):
    rows = tuple(Csr.from_lists(b) for b in boundaries)
    counts = (num_vertices, *(len(b) for b in boundaries))
    nothing = (None,) * len(counts)
    return CellComplex(num_cells=counts, boundaries=rows, x=nothing, y=None, cell_y=nothing)


def test_what_is_not_regular_is_refused():
    path = unchecked(3, [(0, 1), (1, 2)], [(0, 1)])
    with pytest.raises(InvalidComplexError, match="2-cell 0 can not be oriented: 0-cell 0 does not lie on two"):
        orient(path)
    triangles = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]
    with pytest.raises(InvalidComplexError, match="2-cell 0 can not be oriented: its boundary is not a 1-sphere"):
        orient(unchecked(6, triangles, [range(6)]))
    plane = SPACES["projective plane"][0]
    with pytest.raises(InvalidComplexError, match="3-cell 0 can not be oriented: its boundary is not a 2-sphere"):
        orient(unchecked(4, plane.boundary(1).tolist(), plane.boundary(2).tolist(), [range(3)]))


def test_nothing_to_orient():
    for graph in (nx.empty_graph(1), nx.empty_graph(3), nx.path_graph(3)):
        for lifting in (None, Rings(5), Cliques(4)):
            assert_chain_complex(cwnet.lift(graph, lifting))
    assert orient(cwnet.lift(nx.empty_graph(2), None).skeleton(0)).signs == ()
