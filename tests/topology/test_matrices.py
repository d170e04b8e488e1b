import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings

import cwnet
from cwnet import Rings, collate
from cwnet.topology import boundary_matrix, cell_weights, dirac_operator, hodge_laplacian, orient, to_torch
from tests.reference.spaces import SPACES
from tests.strategies import complexes
from tests.topology.complexes import random_store

SQUARES = SPACES["torus"][0]


@given(complexes)
@settings(max_examples=40)
def test_scipy_and_torch_agree(complex_):
    oriented = orient(complex_)
    for d in range(len(complex_.num_cells) + 2):
        for options in ({}, {"signed": False}, {"normalised": True}):
            ours = boundary_matrix(oriented, d, **options)
            tensor = boundary_matrix(oriented, d, layout="torch", **options)
            assert ours.shape == tensor.shape == (complex_._count(d - 1) if d else 0, complex_._count(d))
            np.testing.assert_array_equal(ours.toarray(), tensor.to_dense().numpy())
            assert tensor.is_coalesced()


def test_unsigned_is_the_paper_s_definition():
    unsigned = boundary_matrix(SQUARES, 2, signed=False).toarray()
    for j, faces in enumerate(SQUARES.boundary(2).tolist()):
        assert np.flatnonzero(unsigned[:, j]).tolist() == sorted(faces)
    np.testing.assert_array_equal(unsigned, abs(boundary_matrix(SQUARES, 2).toarray()))


def test_many_complexes_are_blocks():
    store = random_store(10, seed=2)
    for d in (1, 2):
        blocks = [boundary_matrix(c, d).toarray() for c in store]
        whole = np.zeros(boundary_matrix(store, d).shape)
        row = column = 0
        for block in blocks:
            whole[row : row + block.shape[0], column : column + block.shape[1]] = block
            row, column = row + block.shape[0], column + block.shape[1]
        np.testing.assert_array_equal(boundary_matrix(store, d).toarray(), whole)
        np.testing.assert_array_equal(boundary_matrix(store.batch(), d).toarray(), whole)


def test_sparse_tensors_multiply_and_differentiate():
    matrix = boundary_matrix(SQUARES, 1, layout="torch")
    x = torch.randn(matrix.shape[1], 3, dtype=torch.float64, requires_grad=True)
    (matrix @ x).square().sum().backward()
    dense = matrix.to_dense()
    torch.testing.assert_close(x.grad, 2 * dense.T @ dense @ x.detach())
    laplacian = hodge_laplacian(SQUARES, 1)
    tensor = to_torch(laplacian, torch.float32)
    assert tensor.dtype == torch.float32
    np.testing.assert_array_equal(tensor.to_dense().numpy(), laplacian.toarray())


def test_wrong_arguments():
    with pytest.raises(ValueError, match="unknown layout 'dense': choose from scipy, torch"):
        boundary_matrix(SQUARES, 1, layout="dense")
    with pytest.raises(ValueError, match="there are no cells of dimension -1"):
        boundary_matrix(SQUARES, -1)
    with pytest.raises(ValueError, match="unknown part 'upper' of a Laplacian: choose from up, down, both"):
        hodge_laplacian(SQUARES, 1, "upper")


class TestWeights:
    def test_vertices_of_a_graph_weigh_their_degree(self):
        graph = nx.star_graph(3)
        weights = cell_weights(cwnet.lift(graph, None))
        assert weights[0].tolist() == [3, 1, 1, 1]
        assert weights[1].tolist() == [1, 1, 1]

    def test_from_the_top_down(self):
        """An edge of the ring weighs one, a vertex of it two; the tail has its own."""
        graph = nx.Graph([(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)])
        weights = cell_weights(cwnet.lift(graph, Rings(4)))
        assert [w.tolist() for w in weights] == [[2, 2, 2, 3, 1], [1] * 5, [1]]
        contracting = cell_weights(cwnet.lift(graph, Rings(4)), contracting=True)
        edges = cwnet.lift(graph, Rings(4)).cells(1)
        assert contracting[1].tolist() == [1 if e == (3, 4) else 4 for e in edges]
        assert contracting[0].tolist() == [16, 16, 16, 18, 2]

    def test_normalised_boundaries_have_unit_rows_and_are_a_chain_complex(self):
        for cells in (SQUARES, SPACES["3-torus"][0], collate([SQUARES, SPACES["sphere"][0]])):
            for d in (1, 2):
                product = boundary_matrix(cells, d, normalised=True) @ boundary_matrix(cells, d + 1, normalised=True)
                assert abs(product.toarray()).max(initial=0) < 1e-15
                rows = boundary_matrix(cells, d, normalised=True).power(2).sum(1)
                np.testing.assert_allclose(rows, 1)  # ⟨δx, δx⟩ = ⟨x, x⟩ for x on one cell

    def test_are_kept_by_oriented_complexes(self):
        oriented = orient(SQUARES)
        assert cell_weights(oriented) is cell_weights(oriented)
        assert cell_weights(oriented) is not cell_weights(oriented, contracting=True)


def test_dirac():
    for name, (complex_, _, _) in SPACES.items():
        for normalised in (False, True):
            dirac = dirac_operator(complex_, normalised=normalised)
            assert abs(dirac - dirac.T).max() == 0, name
            square = (dirac @ dirac).toarray()
            start = 0
            for d, n in enumerate(complex_.num_cells):
                block = square[start : start + n]
                expected = hodge_laplacian(complex_, d, normalised=normalised).toarray()
                np.testing.assert_allclose(block[:, start : start + n], expected, atol=1e-12)
                block[:, start : start + n] = 0
                assert abs(block).max() < 1e-12
                start += n
