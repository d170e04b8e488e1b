"""Hodge Laplacians and the Dirac operator."""

from __future__ import annotations

from typing import Any, Literal

from cwnet.topology._matrices import boundary_matrix
from cwnet.topology._orientation import AnyCells, orient

__all__ = ["Part", "dirac_operator", "hodge_laplacian", "laplacian_of"]

#: Which summand of a Laplacian: the one through cofaces, the one through faces, or their sum.
Part = Literal["up", "down", "both"]


def hodge_laplacian(cells: AnyCells, d: int, part: Part = "both", *, normalised: bool = False) -> Any:
    """L_d = B_d^T B_d + B_{d+1} B_{d+1}^T, on signals on d-cells (paper, appendix "Convolutional Operators").

    It is symmetric and positive semi-definite, and its kernel has the dimension of the d-th rational homology. L_0 of a
    graph is the graph Laplacian.

    Args:
        cells: a complex, a store or a batch; many complexes give one block-diagonal matrix.
        d: the dimension.
        part: "down" for B_d^T B_d, "up" for B_{d+1} B_{d+1}^T, "both" for their sum.
        normalised: the same of W_{d-1}^{-1/2} B_d W_d^{1/2}, with the inner products W of `cell_weights`. For d = 0
            this is the normalised graph Laplacian I - D^{-1/2} A D^{-1/2}.

    Returns:
        A `scipy.sparse.csr_array`, float64; `to_torch` makes a tensor of it.

    >>> from cwnet import lift
    >>> hodge_laplacian(lift((3, [(0, 1), (1, 2)]), None), 0).toarray().astype(int).tolist()
    [[1, -1, 0], [-1, 2, -1], [0, -1, 1]]
    """
    cells = orient(cells)
    lower, upper = (boundary_matrix(cells, e, normalised=normalised) for e in (d, d + 1))
    return laplacian_of(lower, upper, part)


def laplacian_of(lower: Any, upper: Any, part: Part = "both") -> Any:
    """lower^T lower + upper upper^T, or one of the two."""
    if part not in ("up", "down", "both"):
        raise ValueError(f"unknown part {part!r} of a Laplacian: choose from up, down, both")
    if part == "down":
        return (lower.T @ lower).tocsr()
    up = upper @ upper.T
    return (up if part == "up" else lower.T @ lower + up).tocsr()


def dirac_operator(cells: AnyCells, *, normalised: bool = False) -> Any:
    """D = ∂ + ∂^T on signals on all cells, vertices first: D² is the block-diagonal matrix of L_0, L_1, ...

    Args:
        cells: a complex, a store or a batch.
        normalised: as in `hodge_laplacian`.

    >>> from cwnet import lift
    >>> D = dirac_operator(lift((2, [(0, 1)]), None))
    >>> D.toarray().astype(int).tolist(), (D @ D).toarray().astype(int).tolist()
    ([[0, 0, -1], [0, 0, 1], [-1, 1, 0]], [[1, -1, 0], [-1, 1, 0], [0, 0, 2]])
    """
    from scipy.sparse import block_array, csr_array

    cells = orient(cells)
    counts = cells.num_cells
    blocks: list[list[Any]] = [[None] * len(counts) for _ in counts]
    for d, n in enumerate(counts):
        blocks[d][d] = csr_array((n, n))
        if d:
            boundary = boundary_matrix(cells, d, normalised=normalised)
            blocks[d - 1][d], blocks[d][d - 1] = boundary, boundary.T
    return block_array(blocks, format="csr")
