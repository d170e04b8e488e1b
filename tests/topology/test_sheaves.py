import networkx as nx
import numpy as np
import pytest
import torch

import cwnet
from cwnet import Cliques, Rings
from cwnet.topology import Sheaf, SheafError, cell_weights, hodge_laplacian, orient
from tests.reference.spaces import SPACES
from tests.reference.topology import kernel_dimension, sheaf_coboundary, sheaf_laplacian

spaces = pytest.mark.parametrize("name", ["sphere", "torus", "Klein bottle", "projective space", "Möbius strip"])


def random_sheaf(complex_, stalks, seed=0, weighted=False):
    """F_{σ≤τ} = A_τ P A_σ^{-1} with a random matrix A for each cell: functorial, and without any other structure."""
    generator = torch.Generator().manual_seed(seed)
    cells = orient(complex_)

    def randn(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    frames = [torch.linalg.qr(randn(n, s, s))[0] * 1.3 for n, s in zip(cells.num_cells, stalks, strict=True)]
    maps = []
    for d in range(1, len(stalks)):
        incidence = cells.incidence(d)
        common = torch.eye(stalks[d], stalks[d - 1], dtype=torch.float64)
        inverse = torch.linalg.inv(frames[d - 1])
        maps.append(frames[d][incidence.down_rows] @ common @ inverse[incidence.down.idx])
    products = None
    if weighted:
        roots = [randn(n, s, s) for n, s in zip(cells.num_cells, stalks, strict=True)]
        products = [r @ r.mT + torch.eye(s, dtype=torch.float64) for r, s in zip(roots, stalks, strict=True)]
        products = [(g + g.mT) / 2 for g in products]
    return Sheaf.of(cells, maps, products)


def eigenvalues(matrix):
    return np.sort(np.linalg.eigvals(matrix).real)


class TestConstant:
    @spaces
    def test_is_hodge(self, name):
        complex_ = SPACES[name][0]
        for d in range(complex_.dim + 1):
            for part in ("up", "down", "both"):
                found = Sheaf.constant(complex_).laplacian(d, part)
                np.testing.assert_allclose(found.toarray(), hodge_laplacian(complex_, d, part).toarray(), atol=1e-12)

    @spaces
    def test_normalised_is_the_normalised_hodge_laplacian(self, name):
        complex_ = SPACES[name][0]
        sheaf = Sheaf.constant(complex_).normalised()
        for d, weights in enumerate(cell_weights(complex_)):
            if sheaf.products[d] is not None:
                torch.testing.assert_close(sheaf.products[d].flatten(), weights)
            expected = hodge_laplacian(complex_, d, normalised=True).toarray()
            np.testing.assert_allclose(sheaf.laplacian(d).toarray(), expected, atol=1e-12)

    def test_wider_stalks_are_copies(self):
        complex_ = SPACES["torus"][0]
        found = Sheaf.constant(complex_, 3).laplacian(1).toarray()
        np.testing.assert_allclose(found, np.kron(hodge_laplacian(complex_, 1).toarray(), np.eye(3)), atol=1e-12)

    def test_cells_without_cofaces(self):
        complex_ = cwnet.lift(nx.Graph([(0, 1), (1, 2), (0, 2), (2, 3)]), Rings(3))
        sheaf = Sheaf.constant(complex_, 2).normalised()
        expected = [w[:, None, None] * torch.eye(2, dtype=torch.float64) for w in cell_weights(complex_)]
        for d in (0, 1):
            torch.testing.assert_close(sheaf.products[d], expected[d])


class TestConnection:
    def test_is_the_connection_laplacian(self):
        """Σ_e |x_v - O_e x_u|², so degrees on the diagonal and -O^T, -O off it."""
        graph = nx.gnm_random_graph(8, 14, seed=1)
        complex_ = cwnet.lift(graph, None)
        generator = torch.Generator().manual_seed(0)
        rotations = torch.linalg.qr(torch.randn(14, 3, 3, generator=generator, dtype=torch.float64))[0]
        expected = np.kron(np.diag([float(graph.degree[v]) for v in range(8)]), np.eye(3))
        for e, (a, b) in enumerate(complex_.cells(1)):
            u, v = min(a, b), max(a, b)
            expected[3 * v : 3 * v + 3, 3 * u : 3 * u + 3] = -rotations[e].numpy()
            expected[3 * u : 3 * u + 3, 3 * v : 3 * v + 3] = -rotations[e].numpy().T
        found = Sheaf.connection(complex_, rotations).laplacian(0).toarray()
        np.testing.assert_allclose(found, expected, atol=1e-12)

    def test_without_holonomy_there_are_as_many_sections_as_the_stalk_is_wide(self):
        ring = cwnet.lift(nx.cycle_graph(5), None)
        turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]]).double()
        flat = torch.eye(2, dtype=torch.float64).repeat(5, 1, 1)
        assert kernel_dimension(Sheaf.connection(ring, flat).laplacian(0).toarray()) == 2
        flat[3] = turn
        assert kernel_dimension(Sheaf.connection(ring, flat).laplacian(0).toarray()) == 0

    def test_higher_cells_do_not_matter(self):
        graph = nx.complete_graph(4)
        maps = torch.randn(6, 2, 2, dtype=torch.float64)
        a, b = (Sheaf.connection(cwnet.lift(graph, lifting), maps) for lifting in (None, Cliques(4)))
        np.testing.assert_array_equal(a.laplacian(0).toarray(), b.laplacian(0).toarray())
        assert b.stalks == (2, 2)

    @pytest.mark.parametrize("shape", [(5, 2, 2), (6, 2, 3), (6, 2)])
    def test_wrong_shape(self, shape):
        with pytest.raises(SheafError, match=r"it must be \[6, s, s\], a square matrix per edge"):
            Sheaf.connection(cwnet.lift(nx.complete_graph(4), None), torch.zeros(shape))


@spaces
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("stalks", [(2, 2, 2, 2), (1, 2, 3, 3), (3, 2, 2, 1)])
class TestArbitraryMaps:
    def sheaf(self, name, weighted, stalks):
        complex_ = SPACES[name][0]
        return random_sheaf(complex_, stalks[: complex_.dim + 1], weighted=weighted)

    def test_against_the_definition(self, name, weighted, stalks):
        sheaf = self.sheaf(name, weighted, stalks)
        for d in range(len(sheaf.stalks)):
            if d + 1 < len(sheaf.stalks):
                np.testing.assert_allclose(sheaf.coboundary(d).toarray(), sheaf_coboundary(sheaf, d), atol=1e-12)
            found = sheaf.laplacian(d).toarray()
            np.testing.assert_allclose(found, found.T, atol=1e-10)
            np.testing.assert_allclose(np.linalg.eigvalsh(found), eigenvalues(sheaf_laplacian(sheaf, d)), atol=1e-7)
            assert np.linalg.eigvalsh(found).min(initial=0) > -1e-9

    def test_the_coboundary_of_a_coboundary_is_zero(self, name, weighted, stalks):
        sheaf = self.sheaf(name, weighted, stalks)
        for d in range(len(sheaf.stalks) - 1):
            assert abs((sheaf.coboundary(d + 1) @ sheaf.coboundary(d)).toarray()).max(initial=0) < 1e-10
        assert sheaf.coboundary(len(sheaf.stalks) - 1).shape[0] == 0

    def test_normalised(self, name, weighted, stalks):
        """⟨δx, δx⟩ = ⟨x, x⟩ for x in one stalk and orthogonal to the kernel, and the kernels stay as large."""
        before = self.sheaf(name, weighted, stalks)
        sheaf = before.normalised()
        for d in range(len(sheaf.stalks) - 1):
            up = sheaf.laplacian(d, "up").toarray()
            s = sheaf.stalks[d]
            for i in range(sheaf.cells.num_cells[d]):
                block = np.linalg.eigvalsh(up[i * s : (i + 1) * s, i * s : (i + 1) * s])
                assert np.all((abs(block) < 1e-7) | (abs(block - 1) < 1e-7)), (d, i, block)
            kernels = [kernel_dimension(one.laplacian(d).toarray(), 1e-7) for one in (before, sheaf)]
            assert kernels[0] == kernels[1]


class TestErrors:
    TRIANGLE = cwnet.lift(nx.complete_graph(3), Rings(3))

    def test_functoriality_names_the_cells(self):
        maps = [torch.eye(2).repeat(6, 1, 1), torch.eye(2).repeat(3, 1, 1)]
        Sheaf.of(self.TRIANGLE, maps)
        maps[1][1] *= 2
        with pytest.raises(
            SheafError,
            match=r"the maps from 0-cell \d to 2-cell 0 through 1-cells \d and \d differ by 1: a sheaf needs",
        ):
            Sheaf.of(self.TRIANGLE, maps)

    def test_not_a_number_is_not_functorial(self):
        maps = [torch.eye(2).repeat(6, 1, 1), torch.full((3, 2, 2), float("nan"))]
        with pytest.raises(SheafError, match="differ by nan"):
            Sheaf.of(self.TRIANGLE, maps)

    def test_in_higher_dimensions(self):
        cells = orient(SPACES["3-sphere"][0])
        maps = [torch.ones(csr.idx.numel(), 1, 1) for csr in cells.boundaries]
        maps[2][7] = -1
        with pytest.raises(SheafError, match=r"the maps from 1-cell .* to 3-cell"):
            Sheaf.of(cells, maps)

    @pytest.mark.parametrize(
        ("shapes", "message"),
        [
            ([(6, 2, 2)], "maps for 1 dimensions, but there are incidences in 2"),
            ([(5, 2, 2), (3, 2, 2)], r"maps\[0\] is of shape \(5, 2, 2\): it must be \[6, s, 2\]"),
            ([(6, 2, 2), (3, 2, 3)], r"maps\[1\] is of shape \(3, 2, 3\): it must be \[3, s, 2\]"),
        ],
        ids=["dimensions", "incidences", "stalks"],
    )
    def test_shapes(self, shapes, message):
        with pytest.raises(SheafError, match=message):
            Sheaf.of(self.TRIANGLE, [torch.zeros(s) for s in shapes])

    def test_inner_products(self):
        maps = [torch.ones(6, 1, 1), torch.ones(3, 1, 1)]
        with pytest.raises(SheafError, match=r"products\[1\] is of shape \(3, 2, 2\), it must be \(3, 1, 1\)"):
            Sheaf.of(self.TRIANGLE, maps, [None, torch.eye(2).repeat(3, 1, 1)])
        with pytest.raises(SheafError, match=r"products\[0\] of cell 2 is not symmetric and positive definite"):
            Sheaf.of(self.TRIANGLE, maps, [torch.tensor([1.0, 2.0, -1.0])[:, None, None]])
        with pytest.raises(SheafError, match="inner products for 4 dimensions, but there are 3"):
            Sheaf.of(self.TRIANGLE, maps, [None] * 4)
