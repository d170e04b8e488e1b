"""Complexes to and from TopoBench's layout: sparse matrices by name and rank, and the graph of every cell."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from cwnet import CellComplex, ComplexBatch
from cwnet.complexes import Csr
from cwnet.topology import orient

#: The kinds of matrices that TopoBench keeps for every rank.
KINDS = ("incidence", "down_laplacian", "up_laplacian", "hodge_laplacian", "adjacency", "coadjacency")


def connectivity(complex_: CellComplex, kinds: Iterable[str] = KINDS, dim: int = 2) -> dict[str, Tensor]:
    """The matrices of TopoBench, named ``incidence_1`` and so on, for ranks 0 to `dim`; coalesced, float32.

    They are without signs, as TopoBench asks TopoNetX for them: Laplacians are multiplied with signs and then stripped
    of them, adjacencies count shared cells and have no diagonal. Zeros are not stored.
    """
    kinds = tuple(kinds)
    if unknown := set(kinds) - set(KINDS):
        raise ValueError(f"unknown connectivities {sorted(unknown)}: choose from {', '.join(KINDS)}")
    signed = any("laplacian" in kind for kind in kinds)
    signs = orient(complex_).signs if signed else ()
    matrices = [_boundary_matrix(complex_, d, signs) for d in range(dim + 2)]
    return {f"{kind}_{d}": _matrix(kind, matrices[d], matrices[d + 1]) for d in range(dim + 1) for kind in kinds}


def _boundary_matrix(complex_: CellComplex, d: int, signs: Sequence[Tensor]) -> Tensor:
    """B_d, with signs if there are any."""
    boundary = complex_.boundary(d)
    values = signs[d - 1].float() if 1 <= d <= len(signs) else torch.ones(boundary.idx.numel())
    rows, columns = (complex_.num_cells[i] if 0 <= i < len(complex_.num_cells) else 0 for i in (d - 1, d))
    index = torch.stack([boundary.idx, boundary.rows])
    return torch.sparse_coo_tensor(index, values, (rows, columns), check_invariants=False).coalesce()


def _matrix(kind: str, down: Tensor, up: Tensor) -> Tensor:
    """One matrix of rank d, given B_d and B_{d+1}."""
    if kind == "incidence":
        return down.abs()
    if kind == "down_laplacian":
        return _stored(down.t() @ down)
    if kind == "up_laplacian":
        return _stored(up @ up.t())
    if kind == "hodge_laplacian":
        return _stored(down.t() @ down + up @ up.t())
    shared = up.abs() if kind == "adjacency" else down.abs().t()
    return _stored(shared @ shared.t(), diagonal=False)


def _stored(matrix: Tensor, diagonal: bool = True) -> Tensor:
    """The absolute values of a matrix, without entries that are zero and, if so wished, without its diagonal."""
    matrix = matrix.coalesce()
    index, values = matrix.indices(), matrix.values().abs()
    keep = values > 0 if diagonal else (values > 0) & (index[0] != index[1])
    kept = index[:, keep], values[keep]
    return torch.sparse_coo_tensor(*kept, matrix.shape, is_coalesced=True, check_invariants=False)


def cells_of(batch: Any, dim: int = 2) -> ComplexBatch:
    """The cells of a TopoBench batch, from ``incidence_d`` and ``batch_d`` alone."""
    owners = [batch[f"batch_{d}"] for d in range(dim + 1)]
    graphs = int(owners[0].max()) + 1 if owners[0].numel() else 0
    none = (None,) * (dim + 1)
    return ComplexBatch(
        num_cells=tuple(owner.numel() for owner in owners),
        boundaries=tuple(_columns(batch[f"incidence_{d}"]) for d in range(1, dim + 1)),
        x=none,
        y=None,
        cell_y=none,
        cell_ptr=tuple(_pointers(owner, graphs) for owner in owners),
        dims=torch.full((graphs,), dim, device=owners[0].device),
    )


def _columns(incidence: Tensor) -> Csr:
    """The rows that every column of a sparse matrix has entries in: the boundaries of the upper cells."""
    lower, upper = incidence.coalesce().indices()
    return Csr(_pointers(upper, incidence.shape[1]), lower[upper.argsort(stable=True)])


def _pointers(owner: Tensor, owners: int) -> Tensor:
    """Where what belongs to each owner starts, once sorted by owner, and where the last ends."""
    return pad(torch.bincount(owner, minlength=owners).cumsum(0), (1, 0))
