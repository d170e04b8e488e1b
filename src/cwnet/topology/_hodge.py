"""Signals on cells: low frequencies, harmonic cochains and the Hodge decomposition."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from cwnet.errors import CwnetError, InvalidComplexError
from cwnet.topology._homology import betti_numbers
from cwnet.topology._laplacians import hodge_laplacian
from cwnet.topology._matrices import boundary_matrix
from cwnet.topology._orientation import AnyCells, orient

__all__ = ["HodgeParts", "harmonic_cochains", "hodge_decomposition", "lowest_eigenpairs"]

#: Below so many rows a dense solver is faster than a sparse one, and takes no memory to speak of.
_DENSE = 200


def lowest_eigenpairs(matrix: Any, count: int) -> tuple[Tensor, Tensor]:
    """The smallest eigenvalues of a sparse positive semi-definite matrix and their eigenvectors.

    By Lanczos iteration on the inverse of the matrix, shifted a little so that its kernel does no harm; the shifted
    matrix is factorised as a sparse one.

    Args:
        matrix: a SciPy sparse array [n, n], such as a Laplacian.
        count: how many pairs.

    Returns:
        Eigenvalues [count], increasing, and eigenvectors [n, count], orthonormal; float64.

    >>> from cwnet import lift
    >>> values, vectors = lowest_eigenpairs(hodge_laplacian(lift((3, [(0, 1), (1, 2)]), None), 0), 2)
    >>> [round(v, 6) + 0.0 for v in values.tolist()], vectors.shape
    ([0.0, 1.0], torch.Size([3, 2]))
    """
    from scipy.sparse.linalg import eigsh

    n = matrix.shape[0]
    if not 0 <= count <= n:
        raise ValueError(f"{count} eigenpairs of a matrix with {n} rows: ask for 0 to {n}")
    if count == 0:
        return torch.zeros(0, dtype=torch.float64), torch.zeros(n, 0, dtype=torch.float64)
    if n <= max(_DENSE, 2 * count):
        values, vectors = np.linalg.eigh(matrix.toarray())
    else:
        shift = 1e-6 * max(float(abs(matrix).sum(1).max()), 1e-300)
        start = np.random.default_rng(0).standard_normal(n)  # the same result at every call
        values, vectors = eigsh(matrix.tocsc(), count, sigma=-shift, which="LM", v0=start)
        order = np.argsort(values)
        values, vectors = values[order], vectors[:, order]
    return torch.from_numpy(values[:count].copy()), torch.from_numpy(vectors[:, :count].copy())


def harmonic_cochains(cells: AnyCells, d: int, *, normalised: bool = False) -> Tensor:
    """An orthonormal basis of ker L_d, [d-cells, b_d], float64: one signal for every d-dimensional hole.

    How many there are is known exactly, from `betti_numbers`; no threshold decides what counts as zero. The basis of
    many complexes is that of all of them together: for thousands of small ones, ask for each by itself.

    Args:
        cells: a complex, a store or a batch.
        d: the dimension.
        normalised: of the normalised Laplacian.

    >>> from cwnet import lift
    >>> harmonic_cochains(lift((3, [(0, 1), (1, 2), (0, 2)]), None), 1).abs().round(decimals=4).flatten().tolist()
    [0.5774, 0.5774, 0.5774]
    """
    oriented = orient(cells)
    betti = betti_numbers(oriented)
    assert isinstance(betti, Tensor)
    count = int(betti[:, d].sum()) if d < betti.shape[1] else 0
    values, vectors = lowest_eigenpairs(hodge_laplacian(oriented, d, normalised=normalised), count)
    if count and float(values[-1]) > 1e-6:
        raise CwnetError(
            f"the eigenvalue solver found {float(values[-1]):.1e} where an eigenvalue is zero: "
            f"the Laplacian of dimension {d} is too badly conditioned"
        )
    return vectors


class HodgeParts(NamedTuple):
    """A signal x as gradient + curl + harmonic, which are orthogonal to each other.

    Attributes:
        gradient: B_d^T a, what comes from the faces: it adds up to zero along every boundary.
        curl: B_{d+1} b, what comes from the cofaces: it flows into each face as much as out of it.
        harmonic: neither: it is in the kernel of L_d, and flows around holes.
        potential: a, on (d-1)-cells.
        circulation: b, on (d+1)-cells.
    """

    gradient: Tensor
    curl: Tensor
    harmonic: Tensor
    potential: Tensor
    circulation: Tensor


def hodge_decomposition(cells: AnyCells, d: int, signal: Any, *, tolerance: float = 1e-12) -> HodgeParts:
    """Split a signal on d-cells into gradient, curl and harmonic part.

    Both potentials solve a sparse least-squares problem, min |B_d^T a - x| and min |B_{d+1} b - x|, by LSMR.

    Args:
        cells: a complex, a store or a batch.
        d: the dimension.
        signal: [d-cells] or [d-cells, channels].
        tolerance: of the solver.

    Returns:
        Five tensors in float64, with as many channels as the signal.

    >>> from cwnet import lift, Rings
    >>> triangle = lift((3, [(0, 1), (1, 2), (0, 2)]), Rings(3))
    >>> [part.round(decimals=3).tolist() for part in hodge_decomposition(triangle, 1, [1.0, 1.0, 1.0])[:2]]
    [[0.667, 0.667, 1.333], [0.333, 0.333, -0.333]]
    """
    oriented = orient(cells)
    x = torch.as_tensor(signal, dtype=torch.float64).cpu()
    n = oriented._count(d)
    if x.dim() not in (1, 2) or x.shape[0] != n:
        raise InvalidComplexError(
            f"the signal is of shape {tuple(x.shape)}, but there are {n} cells of dimension {d}: it must be [{n}] or "
            f"[{n}, channels]"
        )
    lower, upper = boundary_matrix(oriented, d).T.tocsr(), boundary_matrix(oriented, d + 1)
    potential, gradient = _least_squares(lower, x, tolerance)
    circulation, curl = _least_squares(upper, x, tolerance)
    return HodgeParts(gradient, curl, x - gradient - curl, potential, circulation)


def _least_squares(matrix: Any, x: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """The shortest a that minimises |matrix a - x|, and matrix a; one column of x at a time."""
    from scipy.sparse.linalg import lsmr

    columns = (x if x.dim() == 2 else x[:, None]).numpy()
    found = np.zeros((matrix.shape[1], columns.shape[1]))
    limit = max(1000, 20 * max(matrix.shape))
    if matrix.nnz:
        for i in range(columns.shape[1]):
            found[:, i] = lsmr(matrix, columns[:, i], atol=tolerance, btol=tolerance, conlim=0, maxiter=limit)[0]
    result = torch.from_numpy(found), torch.from_numpy(matrix @ found)
    return result if x.dim() == 2 else (result[0][:, 0], result[1][:, 0])
