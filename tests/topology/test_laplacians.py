import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

import cwnet
from cwnet import Cliques, Rings
from cwnet.topology import betti_numbers, boundary_matrix, cell_weights, hodge_laplacian, orient, random_flips
from tests.reference.spaces import SPACES
from tests.reference.topology import kernel_dimension
from tests.strategies import complexes, small_graphs
from tests.topology.complexes import random_parts, random_store


def assert_laplacian(complex_, d, betti, normalised=False):
    """Symmetric, positive semi-definite, and with a kernel of the dimension of the homology."""
    matrix = hodge_laplacian(complex_, d, normalised=normalised).toarray()
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
    values = np.linalg.eigvalsh(matrix) if len(matrix) else np.zeros(0)
    assert (values > -1e-9).all()
    assert kernel_dimension(matrix) == betti[d]


@pytest.mark.parametrize("name", list(SPACES))
@pytest.mark.parametrize("normalised", [False, True])
def test_named_spaces(name, normalised):
    complex_, rational, _ = SPACES[name]
    for d in range(complex_.dim + 1):
        assert_laplacian(complex_, d, rational, normalised)


def test_kernels_are_homology_on_thousands_of_complexes():
    """Liftings of random graphs, and random choices of 2-cells."""
    for many in (random_store(1500, seed=3), cwnet.ComplexStore.from_complexes(random_parts(300, seed=3))):
        betti = betti_numbers(many).tolist()
        oriented = orient(many)
        for d in range(len(many.num_cells)):
            matrix = hodge_laplacian(oriented, d)
            assert abs(matrix - matrix.T).sum() == 0
            ptr = oriented.cell_ptr[d].tolist()
            for i, expected in enumerate(betti):
                block = matrix[ptr[i] : ptr[i + 1], ptr[i] : ptr[i + 1]].toarray()
                values = np.linalg.eigvalsh(block) if len(block) else np.zeros(0)
                assert (values > -1e-8).all()
                assert (values < 1e-8).sum() == expected[d], (i, d)


@given(complexes)
@settings(max_examples=40)
def test_random_complexes(complex_):
    betti = betti_numbers(complex_)
    for d in range(len(complex_.num_cells)):
        if complex_.num_cells[d] < 150:
            assert_laplacian(complex_, d, betti)
            assert_laplacian(complex_, d, betti, normalised=True)


def test_parts():
    complex_ = SPACES["3-torus"][0]
    for d in range(4):
        up, down, both = (hodge_laplacian(complex_, d, part).toarray() for part in ("up", "down", "both"))
        lower, upper = boundary_matrix(complex_, d).toarray(), boundary_matrix(complex_, d + 1).toarray()
        np.testing.assert_array_equal(up, upper @ upper.T)
        np.testing.assert_array_equal(down, lower.T @ lower)
        np.testing.assert_array_equal(both, up + down)
        assert not (up @ down).any()


@given(small_graphs)
@settings(max_examples=30)
def test_of_vertices_is_the_graph_laplacian(graph):
    complex_ = cwnet.lift(graph, Rings(5))
    expected = nx.laplacian_matrix(graph, nodelist=range(len(graph))).toarray()
    np.testing.assert_array_equal(hodge_laplacian(complex_, 0).toarray(), expected)
    # Without 2-cells edges weigh one, and vertices their degree.
    found = hodge_laplacian(complex_.skeleton(1), 0, normalised=True).toarray()
    expected = nx.normalized_laplacian_matrix(graph, nodelist=range(len(graph))).toarray()
    np.testing.assert_allclose(found, expected, atol=1e-12)


@given(complexes)
@settings(max_examples=40)
def test_spectra_are_bounded(complex_):
    """The up part by the number of faces of a cell; with contracting weights everything by one."""
    for d in range(complex_.dim):
        if complex_.num_cells[d] > 150:
            continue
        largest = int(complex_.boundary(d + 1).sizes.max())
        top = np.linalg.eigvalsh(hodge_laplacian(complex_, d, "up", normalised=True).toarray()).max()
        assert top <= largest + 1e-9
        weights = [np.sqrt(w.numpy()) for w in cell_weights(complex_, contracting=True)]
        boundary = boundary_matrix(complex_, d + 1).toarray() * weights[d + 1] / weights[d][:, None]
        assert np.linalg.norm(boundary, 2) <= 1 + 1e-9


def test_spectra_do_not_depend_on_the_orientation():
    cells = orient(cwnet.lift(nx.icosahedral_graph(), Cliques(3)))
    turned = cells.flipped(random_flips(cells))
    for d in range(3):
        a, b = (np.linalg.eigvalsh(hodge_laplacian(c, d).toarray()) for c in (cells, turned))
        np.testing.assert_allclose(a, b, atol=1e-10)
    np.testing.assert_array_equal(hodge_laplacian(cells, 0).toarray(), hodge_laplacian(turned, 0).toarray())


DECALIN = nx.Graph([(i, (i + 1) % 10) for i in range(10)] + [(0, 5)])
GRAPHS = {
    "petersen": (nx.petersen_graph(), Rings(6)),
    "decalin": (DECALIN, Rings(6)),
    "grid": (nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 5)), Rings(4)),
    "random": (nx.gnm_random_graph(12, 20, seed=4), Rings(6)),
    "icosahedron": (nx.icosahedral_graph(), Rings(3)),
}


class TestAgainstTopoNetX:
    """The same matrices, up to the order and the orientation of cells."""

    @pytest.mark.parametrize("name", list(GRAPHS))
    def test_matrices(self, name):
        pytest.importorskip("toponetx")
        complex_ = cwnet.lift(*GRAPHS[name])
        other = complex_.to_toponetx()
        vertices, edges, theirs1 = other.incidence_matrix(1, signed=True, index=True)
        _, faces, theirs2 = other.incidence_matrix(2, signed=True, index=True)
        of_vertex = [list(vertices).index(v) for v in range(complex_.num_cells[0])]
        keys = [frozenset(e) for e in edges]
        of_edge = [keys.index(frozenset(e)) for e in complex_.cells(1)]
        walks = [_as_cycle(f) for f in faces]
        of_face = [walks.index(_as_cycle(c)) for c in complex_.cells(2)]
        theirs1 = theirs1.toarray()[np.ix_(of_vertex, of_edge)]
        theirs2 = theirs2.toarray()[np.ix_(of_edge, of_face)]
        ours1, ours2 = (boundary_matrix(complex_, d).toarray() for d in (1, 2))
        turn_edges = (theirs1 * ours1).sum(0) / 2  # 1 where both point the same way, -1 where they do not
        assert set(np.unique(turn_edges)) <= {-1, 1}
        np.testing.assert_array_equal(theirs1, ours1 * turn_edges)
        turned = turn_edges[:, None] * ours2
        turn_faces = (theirs2 * turned).sum(0) / abs(ours2).sum(0)
        assert set(np.unique(turn_faces)) <= {-1, 1}
        np.testing.assert_array_equal(theirs2, turned * turn_faces)
        for d in range(3):
            theirs = np.linalg.eigvalsh(other.hodge_laplacian_matrix(d).toarray().astype(float))
            np.testing.assert_allclose(theirs, np.linalg.eigvalsh(hodge_laplacian(complex_, d).toarray()), atol=1e-9)


def _as_cycle(walk):
    """The edges of a closed walk over vertices."""
    walk = list(walk)
    return frozenset(frozenset(pair) for pair in zip(walk, [*walk[1:], walk[0]], strict=True))
