"""The paper's definitions of signs, matrices, sheaves and Laplacians, by name."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cwnet.topology import Sheaf, boundary_matrix, hodge_laplacian, orient
from tests.reference.spaces import SPACES
from tests.strategies import complexes

regular = st.one_of(
    complexes.filter(lambda c: sum(c.num_cells) < 200), st.sampled_from([space for space, *_ in SPACES.values()])
)
spaces = pytest.mark.parametrize("name", list(SPACES))


def signed_incidence(cells):
    """[σ : τ] for all pairs of cells of all dimensions, as one matrix; rows are σ, columns τ."""
    starts = np.cumsum([0, *cells.num_cells])
    out = np.zeros((starts[-1], starts[-1]), dtype=int)
    for d in range(1, len(cells.num_cells)):
        signs = iter(cells.signs[d - 1].tolist())
        for i, row in enumerate(cells.boundary(d).tolist()):
            for face in row:
                out[starts[d - 1] + face, starts[d] + i] = next(signs)
    return out


class TestDefinitionSignedIncidence:
    """[σ : τ] ≠ 0 only where σ ≺ τ, and Σ_γ [σ : γ][γ : τ] = 0.

    Nothing in the definition keeps all signs from being zero; here they are not zero wherever σ ≺ τ.
    """

    @settings(max_examples=60)
    @given(regular)
    def test_both_properties(self, complex_):
        cells = orient(complex_)
        signs = signed_incidence(cells)
        starts = np.cumsum([0, *cells.num_cells])
        covering = np.zeros_like(signs)
        for d in range(1, len(cells.num_cells)):
            for i, row in enumerate(cells.boundary(d).tolist()):
                covering[starts[d - 1] + np.array(row), starts[d] + i] = 1
        np.testing.assert_array_equal(abs(signs), covering)
        assert not (signs @ signs).any()

    @settings(max_examples=60)
    @given(regular)
    def test_matrices(self, complex_):
        """The k-th signed boundary matrix is a block of it, the unsigned one that block without its signs."""
        cells = orient(complex_)
        signs, starts = signed_incidence(cells), np.cumsum([0, *cells.num_cells])
        for k in range(1, len(cells.num_cells)):
            block = signs[starts[k - 1] : starts[k], starts[k] : starts[k + 1]]
            np.testing.assert_array_equal(boundary_matrix(cells, k).toarray(), block)
            np.testing.assert_array_equal(boundary_matrix(complex_, k, signed=False).toarray(), abs(block))


class TestDefinitionHodgeLaplacian:
    @spaces
    def test_the_coboundary_is_the_next_boundary_matrix_transposed(self, name):
        """δ^k of the constant sheaf is B_{k+1}^T. The paper's text has B_k^T, which goes from k-1 to k."""
        complex_ = SPACES[name][0]
        sheaf = Sheaf.constant(complex_)
        for k in range(complex_.dim):
            np.testing.assert_array_equal(sheaf.coboundary(k).toarray(), boundary_matrix(complex_, k + 1).toarray().T)
            assert sheaf.coboundary(k).shape == (complex_.num_cells[k + 1], complex_.num_cells[k])

    @spaces
    def test_powers_do_not_mix_upper_and_lower_neighbours(self, name):
        """L^r = (B_k^T B_k)^r + (B_{k+1} B_{k+1}^T)^r, as the proof on convolutions has it, since ∂∂ = 0."""
        complex_ = SPACES[name][0]
        for k in range(complex_.dim + 1):
            whole, down, up = (hodge_laplacian(complex_, k, part).toarray() for part in ("both", "down", "up"))
            for r in (1, 2, 3):
                powers = [np.linalg.matrix_power(m, r) for m in (whole, down, up)]
                np.testing.assert_allclose(powers[0], powers[1] + powers[2], atol=1e-9)

    def test_neighbours_in_one_cell_have_both_signs(self):
        """A message of the Hodge convolution can not ignore the cell it passes through: there lies its sign."""
        disc = SPACES["disc"][0]
        for part in ("up", "down"):
            entries = hodge_laplacian(disc, 1, part).toarray()
            np.fill_diagonal(entries, 0)
            assert {-1.0, 1.0} <= set(entries.flatten().tolist())
