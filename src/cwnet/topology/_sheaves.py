"""Cellular sheaves: a vector space on every cell, a linear map along every incidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cwnet.complexes._cells import describe_cells
from cwnet.errors import CwnetError
from cwnet.topology._laplacians import Part, laplacian_of
from cwnet.topology._orientation import AnyCells, Oriented, diamonds, orient

__all__ = ["Sheaf", "SheafError"]


class SheafError(CwnetError, ValueError):
    """Maps or inner products that do not make a cellular sheaf."""


@dataclass(frozen=True, eq=False)
class Sheaf:
    """A weighted cellular sheaf F (paper, appendix "Sheaf Laplacian"; Hansen and Ghrist, 2019).

    The stalk F(σ) is R^s, with s the same for all cells of a dimension. The restriction maps F_{σ≤τ}: F(σ) → F(τ) are
    given where σ is a face of τ; the others are their products. Make one with `Sheaf.of`, `constant` or `connection`.

    Attributes:
        cells: the complexes, oriented.
        maps: for d = 1, 2, ... the maps F_{σ≤τ} of the incidences in ``cells.boundary(d)``, [incidences, s_d, s_{d-1}].
        products: per dimension the inner products ⟨x, y⟩ = x^T G y of the stalks, [cells, s, s]; None for the standard.
        stalks: (s_0, s_1, ...).

    >>> from cwnet import lift, Rings
    >>> triangle = lift((3, [(0, 1), (1, 2), (0, 2)]), Rings(3))
    >>> sheaf = Sheaf.constant(triangle, 2)
    >>> sheaf, sheaf.laplacian(1).shape
    (Sheaf(3 vertices, 3 edges, 1 2-cell; stalks 2, 2, 2), (6, 6))
    """

    cells: Oriented
    maps: tuple[Tensor, ...]
    products: tuple[Tensor | None, ...]
    stalks: tuple[int, ...]

    @classmethod
    def of(
        cls,
        cells: AnyCells,
        maps: Sequence[Any],
        products: Sequence[Any] | None = None,
        *,
        tolerance: float = 1e-9,
    ) -> Sheaf:
        """A sheaf with given restriction maps.

        Args:
            cells: a complex, a store or a batch.
            maps: see the attributes of the class.
            products: see there; one entry (or None) per dimension.
            tolerance: how far two ways from ρ to τ may differ, relative to the larger of the two maps or 1.

        Raises:
            SheafError: if shapes do not fit, an inner product is not positive definite, or
                F_{τ≤ω} F_{σ≤τ} depends on the τ between σ and ω.
        """
        oriented = orient(cells)
        tensors = tuple(torch.as_tensor(m, dtype=torch.float64, device=oriented._device) for m in maps)
        stalks = _stalks(oriented, tensors)
        grams = tuple(
            None if g is None else torch.as_tensor(g, dtype=torch.float64, device=oriented._device)
            for g in (products or ())
        )
        grams += (None,) * (len(stalks) - len(grams))
        _check_products(oriented, grams, stalks)
        sheaf = cls(oriented, tensors, grams, stalks)
        for d in range(2, len(stalks)):
            sheaf._check_functorial(d, tolerance)
        return sheaf

    @classmethod
    def constant(cls, cells: AnyCells, stalk: int = 1) -> Sheaf:
        """R^s on every cell and the identity along every incidence. Its Laplacians are L_d ⊗ I: for s = 1, Hodge's."""
        oriented = orient(cells)
        identity = torch.eye(stalk, dtype=torch.float64, device=oriented._device)
        maps = tuple(identity.expand(csr.idx.numel(), stalk, stalk) for csr in oriented.boundaries)
        count = len(oriented.num_cells)
        return cls(oriented, maps, (None,) * count, (stalk,) * count)

    @classmethod
    def connection(cls, graph: AnyCells, transport: Any) -> Sheaf:
        """The sheaf of a connection on a graph: (δx)_e = x_v - O_e x_u for an edge e from u to v.

        With orthogonal O_e its Laplacian in degree 0 is the connection Laplacian of Singer and Wu, "Vector diffusion
        maps and the connection Laplacian", 2012.

        Args:
            graph: one or more complexes; edges alone matter.
            transport: O_e, [edges, s, s], along the orientation of the edges.
        """
        oriented = orient(graph)
        along = torch.as_tensor(transport, dtype=torch.float64, device=oriented._device)
        shape, edges = tuple(along.shape), oriented._count(1)
        if len(shape) != 3 or shape[0] != edges or shape[1] != shape[2]:
            raise SheafError(f"the transport is of shape {shape}: it must be [{edges}, s, s], a square matrix per edge")
        skeleton = replace(
            oriented,
            **{name: getattr(oriented, name)[:2] for name in ("num_cells", "x", "cell_y", "cell_ptr")},
            boundaries=oriented.boundaries[:1],
            signs=oriented.signs[:1],
            dims=oriented.dims.clamp(max=1),
        )
        tails = (skeleton.signs[0] < 0).nonzero().flatten()
        maps = torch.eye(shape[1], dtype=torch.float64, device=along.device).repeat(2 * edges, 1, 1)
        maps[tails] = along[skeleton.incidence(1).down_rows[tails]]
        return cls(skeleton, (maps,), (None, None), (shape[1], shape[1]))

    def coboundary(self, d: int) -> Any:
        """δ^d from signals on d-cells to signals on (d+1)-cells: (δx)_τ = Σ_σ [σ:τ] F_{σ≤τ} x_σ.

        Returns:
            A `scipy.sparse.csr_array`, [cells · stalk above, cells · stalk], in the coordinates of the stalks.
        """
        return self._matrix(d, lambda blocks: blocks)

    def laplacian(self, d: int, part: Part = "both") -> Any:
        """The sheaf Laplacian Δ^d = (δ^d)* δ^d + δ^{d-1} (δ^{d-1})*.

        Adjoints are those of the inner products. The matrix is written in orthonormal coordinates x ↦ C^T x of the
        stalks, with G = C C^T the Cholesky factors of the inner products, so it is symmetric.

        Args:
            d: the dimension.
            part: "up" for the first summand, "down" for the second, "both" for their sum.

        Returns:
            A `scipy.sparse.csr_array`, [cells · stalk, cells · stalk].
        """
        return laplacian_of(self._orthonormal(d - 1).T, self._orthonormal(d).T, part)

    def normalised(self) -> Sheaf:
        """The same maps with inner products for which ⟨δx, δx⟩ = ⟨x, x⟩ for every x in one stalk orthogonal to ker δ.

        From the top dimension down, G(σ) becomes Σ_{τ ∈ C(σ)} F^T G(τ) F wherever that is not zero (Hansen and Ghrist,
        2019, section on normalisation). For the constant sheaf this gives the weights of `cell_weights`.
        """
        products = list(self.products)
        for d in range(len(self.stalks) - 2, -1, -1):
            incidence, maps = self.cells.incidence(d + 1), self.maps[d]
            above = products[d + 1]
            pulled = maps.mT @ (maps if above is None else above[incidence.down_rows] @ maps)
            total = pulled.new_zeros(self.cells.num_cells[d], self.stalks[d], self.stalks[d])
            total.index_add_(0, incidence.down.idx, pulled)
            products[d] = _normalised_product(total, products[d])
        return replace(self, products=tuple(products))

    def __repr__(self) -> str:
        stalks = ", ".join(map(str, self.stalks))
        return f"Sheaf({describe_cells(self.cells.num_cells)}; stalks {stalks})"

    def _matrix(self, d: int, change: Any) -> Any:
        """δ^d after a change of its blocks, which are in the order of the incidences."""
        from scipy.sparse import bsr_array, csr_array

        count, stalk = self.cells._count, (0, *self.stalks, 0)
        shape = (count(d + 1) * stalk[d + 2], count(d) * stalk[d + 1] if d >= 0 else 0)
        if not 0 <= d < len(self.maps) or 0 in shape:
            return csr_array(shape)
        csr = self.cells.boundary(d + 1)
        blocks = change(self.maps[d] * self.cells.signs[d].double()[:, None, None])
        data, idx, ptr = (t.cpu().contiguous().numpy() for t in (blocks, csr.idx, csr.ptr))
        return bsr_array((data, idx, ptr), shape=shape).tocsr()

    def _orthonormal(self, d: int) -> Any:
        """δ^d in orthonormal coordinates: blocks C_τ^T F C_σ^{-T}."""

        def change(blocks: Tensor) -> Tensor:
            above, own, incidence = self.products[d + 1], self.products[d], self.cells.incidence(d + 1)
            if above is not None:
                blocks = torch.linalg.cholesky(above).mT[incidence.down_rows] @ blocks
            if own is not None:
                factor = torch.linalg.cholesky(own)[incidence.down.idx]
                # Y = F C^{-T} solves C Y^T = F^T.
                blocks = torch.linalg.solve_triangular(factor, blocks.mT, upper=False).mT
            return blocks

        return self._matrix(d, change)

    def _check_functorial(self, d: int, tolerance: float) -> None:
        upper, lower = self.maps[d - 1], self.maps[d - 2]
        first, second, below_first, below_second = diamonds(self.cells, d)
        one, other = upper[first] @ lower[below_first], upper[second] @ lower[below_second]
        if one.numel() == 0:
            return
        size = torch.maximum(one.abs().amax((1, 2)), other.abs().amax((1, 2))).clamp(min=1)
        apart = (one - other).abs().amax((1, 2))
        wrong = ~(apart <= tolerance * size)
        if bool(wrong.any()):
            at = int(wrong.nonzero()[0])
            up, down = self.cells.incidence(d), self.cells.incidence(d - 1)
            a, b = int(up.down.idx[first[at]]), int(up.down.idx[second[at]])
            cell, ridge = int(up.down_rows[first[at]]), int(down.down.idx[below_first[at]])
            raise SheafError(
                f"the maps from {d - 2}-cell {ridge} to {d}-cell {cell} through {d - 1}-cells {a} and {b} differ by "
                f"{float(apart[at]):.2g}: a sheaf needs F_(τ≤ω) F_(σ≤τ) to be the same for every τ between σ and ω"
            )


def _stalks(cells: Oriented, maps: Sequence[Tensor]) -> tuple[int, ...]:
    """The dimensions of the stalks, told by the shapes of the maps."""
    if len(maps) != len(cells.boundaries) or not maps:
        raise SheafError(
            f"maps for {len(maps)} dimensions, but there are incidences in {len(cells.boundaries)}: give maps[0] from "
            "vertices to edges, maps[1] from edges to 2-cells, and so on"
        )
    stalks = [maps[0].shape[-1] if maps[0].dim() else 0]
    for d, (m, csr) in enumerate(zip(maps, cells.boundaries, strict=True)):
        n = csr.idx.numel()
        if m.dim() != 3 or m.shape[0] != n or m.shape[2] != stalks[-1]:
            raise SheafError(
                f"maps[{d}] is of shape {tuple(m.shape)}: it must be [{n}, s, {stalks[-1]}], a matrix for each of the "
                f"{n} incidences of {d + 1}-cells, from stalks of dimension {stalks[-1]}"
            )
        stalks.append(m.shape[1])
    return tuple(stalks)


def _check_products(cells: Oriented, products: Sequence[Tensor | None], stalks: Sequence[int]) -> None:
    if len(products) > len(stalks):
        raise SheafError(f"inner products for {len(products)} dimensions, but there are {len(stalks)}")
    for d, gram in enumerate(products):
        if gram is None:
            continue
        shape = (cells.num_cells[d], stalks[d], stalks[d])
        if gram.shape != shape:
            raise SheafError(f"products[{d}] is of shape {tuple(gram.shape)}, it must be {shape}")
        info = torch.linalg.cholesky_ex(gram).info
        wrong = (info != 0) | (gram != gram.mT).any(-1).any(-1)
        if bool(wrong.any()):
            at = int(wrong.nonzero()[0])
            raise SheafError(f"products[{d}] of cell {at} is not symmetric and positive definite")


def _normalised_product(pulled: Tensor, own: Tensor | None) -> Tensor:
    """`pulled` where it is not zero, and the cell's own inner product on its kernel.

    In coordinates that are orthonormal for `own` this replaces the zero eigenvalues of `pulled` by ones.
    """
    if own is not None:
        factor = torch.linalg.cholesky(own)
        half = torch.linalg.solve_triangular(factor, pulled, upper=False)
        pulled = torch.linalg.solve_triangular(factor, half.mT, upper=False)
    values, vectors = torch.linalg.eigh((pulled + pulled.mT) / 2)
    # Without cofaces all eigenvalues are zero, and all of the stalk is kernel.
    kernel = values <= 1e-10 * values.amax(-1, keepdim=True)
    values = torch.where(kernel, torch.ones_like(values), values)
    product: Tensor = (vectors * values[..., None, :]) @ vectors.mT
    if own is not None:
        product = factor @ product @ factor.mT
    return (product + product.mT) / 2  # symmetric to the last bit
