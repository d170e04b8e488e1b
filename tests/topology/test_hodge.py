import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings

import cwnet
from cwnet import InvalidComplexError, Rings
from cwnet.topology import (
    betti_numbers,
    boundary_matrix,
    harmonic_cochains,
    hodge_decomposition,
    hodge_laplacian,
    lowest_eigenpairs,
    orient,
)
from tests.reference.spaces import SPACES, grid_torus
from tests.strategies import complexes


@pytest.mark.parametrize("name", list(SPACES))
@pytest.mark.parametrize("normalised", [False, True])
def test_harmonic_cochains_are_a_basis_of_the_kernel(name, normalised):
    complex_, rational, _ = SPACES[name]
    for d in range(complex_.dim + 1):
        basis = harmonic_cochains(complex_, d, normalised=normalised)
        assert basis.shape == (complex_.num_cells[d], rational[d])
        torch.testing.assert_close(basis.T @ basis, torch.eye(rational[d], dtype=torch.float64))
        assert abs(hodge_laplacian(complex_, d, normalised=normalised) @ basis.numpy()).max(initial=0) < 1e-9
    assert harmonic_cochains(complex_, complex_.dim + 1).shape == (0, 0)


def test_sparse_and_dense_solvers_agree():
    complex_ = grid_torus(12, 13)
    for d in range(3):
        matrix = hodge_laplacian(complex_, d)
        values, vectors = lowest_eigenpairs(matrix, 9)
        exact = np.linalg.eigvalsh(matrix.toarray())[:9]
        np.testing.assert_allclose(values, exact, atol=1e-10)
        np.testing.assert_allclose(matrix @ vectors.numpy(), vectors.numpy() * values.numpy(), atol=1e-9)
        again, same = lowest_eigenpairs(matrix, 9)
        assert torch.equal(values, again)
        assert torch.equal(vectors, same)


def test_too_many_eigenpairs():
    with pytest.raises(ValueError, match="5 eigenpairs of a matrix with 4 rows: ask for 0 to 4"):
        lowest_eigenpairs(hodge_laplacian(SPACES["projective plane"][0], 0), 5)


def check_decomposition(complex_, d, x, tolerance=1e-8):
    parts = hodge_decomposition(complex_, d, x)
    size = max(1.0, float(x.norm()))
    assert float((parts.gradient + parts.curl + parts.harmonic - x).norm()) <= 1e-12 * size
    lower, upper = boundary_matrix(complex_, d), boundary_matrix(complex_, d + 1)
    np.testing.assert_allclose(parts.gradient, lower.T @ parts.potential.numpy(), atol=tolerance * size)
    np.testing.assert_allclose(parts.curl, upper @ parts.circulation.numpy(), atol=tolerance * size)
    assert abs(upper.T @ parts.gradient.numpy()).max(initial=0) <= tolerance * size
    assert abs(lower @ parts.curl.numpy()).max(initial=0) <= tolerance * size
    assert abs(hodge_laplacian(complex_, d) @ parts.harmonic.numpy()).max(initial=0) <= tolerance * size
    return parts


@pytest.mark.parametrize("name", list(SPACES))
def test_decomposition(name):
    complex_, rational, _ = SPACES[name]
    for d in range(complex_.dim + 1):
        x = torch.randn(complex_.num_cells[d], 2, dtype=torch.float64, generator=torch.Generator().manual_seed(d))
        parts = check_decomposition(complex_, d, x)
        basis = harmonic_cochains(complex_, d)
        torch.testing.assert_close(parts.harmonic, basis @ (basis.T @ x), atol=1e-8, rtol=0)
        if rational[d] == 0:
            assert float(parts.harmonic.norm()) < 1e-8


@given(complexes)
@settings(max_examples=25)
def test_decomposition_of_flows(complex_):
    x = torch.randn(complex_._count(1), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    parts = check_decomposition(complex_, 1, x)
    if betti_numbers(complex_)[1] == 0:
        assert float(parts.harmonic.norm()) < 1e-7 * max(1.0, float(x.norm()))


def test_a_flow_around_a_hole_is_harmonic():
    ring = cwnet.lift(nx.cycle_graph(5), None)
    flow = torch.tensor([1.0 if (v - u) == 1 else -1.0 for u, v in map(sorted, ring.cells(1))])
    parts = hodge_decomposition(ring, 1, flow)
    torch.testing.assert_close(parts.harmonic, flow.double())
    filled = hodge_decomposition(cwnet.lift(nx.cycle_graph(5), Rings(5)), 1, flow)
    torch.testing.assert_close(filled.curl, flow.double())
    assert abs(float(filled.circulation)) == pytest.approx(1)


def test_many_complexes_at_once():
    batch = orient(cwnet.collate([SPACES["torus"][0], SPACES["Klein bottle"][0]]))
    x = torch.randn(batch.num_cells[1], dtype=torch.float64)
    parts = check_decomposition(batch, 1, x)
    assert harmonic_cochains(batch, 1).shape == (batch.num_cells[1], 3)
    alone = hodge_decomposition(SPACES["torus"][0], 1, x[: SPACES["torus"][0].num_cells[1]])
    torch.testing.assert_close(parts.curl[: len(alone.curl)], alone.curl, atol=1e-9, rtol=0)


@pytest.mark.parametrize("shape", [(3,), (7, 1, 1), ()])
def test_wrong_signal(shape):
    with pytest.raises(InvalidComplexError, match=r"but there are 7 cells of dimension 1: it must be \[7\]"):
        hodge_decomposition(SPACES["disc"][0], 1, torch.zeros(shape))
