"""Boundary matrices, with and without signs, and the weights that normalise them."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from cwnet.complexes import Csr
from cwnet.topology._orientation import AnyCells, Oriented, as_batch, orient

__all__ = ["boundary_matrix", "cell_weights", "to_torch"]

Layout = Literal["scipy", "torch"]


def boundary_matrix(
    cells: AnyCells, d: int, *, signed: bool = True, normalised: bool = False, layout: Layout = "scipy"
) -> Any:
    """B_d, from d-cells to (d-1)-cells: the entry (i, j) is [σ_i : σ_j] (paper, appendix "Symmetries").

    Args:
        cells: a complex, a store or a batch; many complexes give one block-diagonal matrix. What has no orientation
            gets that of `orient`.
        d: the dimension, 0 or more. B_0 has no rows, and above the top dimension there are no columns.
        signed: whether entries are ±1, or 1 wherever σ_i ≺ σ_j.
        normalised: W_{d-1}^{-1/2} B_d W_d^{1/2} in place of B_d, with the weights of `cell_weights`.
        layout: "scipy" for a `scipy.sparse.csr_array`, "torch" for a sparse COO tensor; both in float64.

    >>> from cwnet import lift, Rings
    >>> triangle = lift((3, [(0, 1), (1, 2), (0, 2)]), Rings(3))
    >>> boundary_matrix(triangle, 1).toarray().astype(int).tolist()
    [[-1, 0, -1], [1, -1, 0], [0, 1, 1]]
    >>> (boundary_matrix(triangle, 1) @ boundary_matrix(triangle, 2)).toarray().tolist()
    [[0.0], [0.0], [0.0]]
    """
    if layout not in ("scipy", "torch"):
        raise ValueError(f"unknown layout {layout!r}: choose from scipy, torch")
    batch = orient(cells) if signed else as_batch(cells)
    columns = batch._count(d)
    if d == 0:
        rows = Csr.empty(0, batch._device)
        values = torch.zeros(0, dtype=torch.float64, device=batch._device)
    else:
        incidence = batch.incidence(d)
        rows = incidence.up
        if isinstance(batch, Oriented):
            values = batch.signed_incidence(d).up_signs.double()
        else:
            values = torch.ones(rows.idx.numel(), dtype=torch.float64, device=rows.idx.device)
        if normalised and values.numel():
            weights = [w.sqrt() for w in cell_weights(batch)]
            values = values * weights[d][rows.idx] / weights[d - 1][incidence.up_rows]
    if layout == "torch":
        return torch.sparse_coo_tensor(
            torch.stack([rows.rows, rows.idx]),
            values,
            (rows.num_rows, columns),
            is_coalesced=True,
            check_invariants=False,
        )
    return _scipy_matrix(rows, values, columns)


def cell_weights(cells: AnyCells, *, contracting: bool = False) -> list[Tensor]:
    """Inner products on the constant sheaf that normalise it, one positive number per cell and dimension, float64.

        w(σ) = Σ_{τ ∈ C(σ)} w(τ),   and 1 where σ has no coface

    so that ⟨δx, δx⟩ = ⟨x, x⟩ for a signal x on one cell that has cofaces (Hansen and Ghrist, "Toward a spectral theory
    of cellular sheaves", 2019, section on normalisation). Vertices of a graph weigh their degree. The eigenvalues of
    the up part of the normalised Laplacian are at most the largest number of faces of a cell, as Horak and Jost show
    for simplices ("Spectra of combinatorial Laplace operators on simplicial complexes", 2013).

    Args:
        cells: a complex, a store or a batch.
        contracting: count every coface as often as it has faces, w(σ) = Σ_{τ ∈ C(σ)} |B(τ)| w(τ). Then all eigenvalues
            of the Laplacian lie between 0 and 1, whatever the size of the cells.

    >>> cell_weights(__import__("cwnet").lift((3, [(0, 1), (1, 2)]), None))[0].tolist()
    [1.0, 2.0, 1.0]
    """
    batch = as_batch(cells)
    if isinstance(batch, Oriented) and contracting in batch._weights:
        return batch._weights[contracting]
    weights: list[Tensor] = [torch.ones(n, dtype=torch.float64, device=batch._device) for n in batch.num_cells]
    for d in range(len(weights) - 2, -1, -1):
        incidence = batch.incidence(d + 1)
        above = weights[d + 1] * incidence.down.sizes if contracting else weights[d + 1]
        total = torch.zeros_like(weights[d]).index_add_(0, incidence.up_rows, above[incidence.up.idx])
        weights[d] = torch.where(incidence.up.sizes > 0, total, weights[d])
    if isinstance(batch, Oriented):
        batch._weights[contracting] = weights
    return weights


def _scipy_matrix(rows: Csr, values: Tensor, columns: int) -> Any:
    """Compressed rows and their values as a SciPy array."""
    from scipy.sparse import csr_array

    # 32 bits where they are enough: SciPy's products and solvers are faster on them.
    small = max(rows.idx.numel(), columns, rows.num_rows) < 2**31
    ptr, idx = (t.cpu().to(torch.int32 if small else torch.int64).numpy() for t in rows)
    return csr_array((values.cpu().numpy(), idx, ptr), shape=(rows.num_rows, columns))


def to_torch(matrix: Any, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Tensor:
    """A SciPy sparse array as a sparse COO tensor.

    >>> from scipy.sparse import eye_array
    >>> to_torch(eye_array(2)).to_dense().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    matrix = matrix.tocoo()
    matrix.sum_duplicates()  # which sorts, too
    index = torch.stack([torch.from_numpy(a).long() for a in matrix.coords])
    values = torch.from_numpy(matrix.data).to(dtype)
    return torch.sparse_coo_tensor(
        index, values, matrix.shape, device=device, is_coalesced=True, check_invariants=False
    )
