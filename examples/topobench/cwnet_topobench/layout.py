"""Complexes to and from TopoBench's layout: sparse matrices by name and rank, and the graph of every cell."""

from collections.abc import Iterable
from typing import Any

import torch
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn.functional import pad

from cwnet import CellComplex, ComplexBatch
from cwnet.complexes import Csr
from cwnet.topology import boundary_matrix, orient, to_torch

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
    cells = orient(complex_) if signed else complex_
    matrices = [boundary_matrix(cells, d, signed=signed) for d in range(dim + 2)]
    return {
        f"{kind}_{d}": to_torch(_matrix(kind, matrices[d], matrices[d + 1]), torch.float32)
        for d in range(dim + 1)
        for kind in kinds
    }


def _matrix(kind: str, down: csr_array, up: csr_array) -> csr_array:
    """One matrix of rank d, given B_d and B_{d+1}."""
    if kind == "incidence":
        matrix = abs(down)
    elif kind == "down_laplacian":
        matrix = abs(down.T @ down)
    elif kind == "up_laplacian":
        matrix = abs(up @ up.T)
    elif kind == "hodge_laplacian":
        matrix = abs(down.T @ down + up @ up.T)
    else:
        shared = abs(up) if kind == "adjacency" else abs(down).T
        matrix = (shared @ shared.T).tolil()
        matrix.setdiag(0)
    matrix = csr_array(matrix)
    matrix.eliminate_zeros()
    return matrix


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
