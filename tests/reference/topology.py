"""Slow, obviously right: signs by walking, ranks by fractions, Laplacians by their definitions, all dense."""

from fractions import Fraction

import numpy as np


def signs_of_cycle(edges, ends, start):
    """Signs of the edges of a closed cycle when it is walked along the edge at `start` first, forwards."""
    sign = {edges[start]: 1}
    _, here = ends[edges[start]]
    left = [e for e in edges if e != edges[start]]
    while left:
        e = next(e for e in left if here in ends[e])
        tail, head = ends[e]
        sign[e] = 1 if here == tail else -1
        here = head if here == tail else tail
        left.remove(e)
    return [sign[e] for e in edges]


def boundary_matrices(complex_):
    """B_1 and B_2, dense: edges from the smaller end to the larger, 2-cells as `cells(2)` lists them."""
    ends = [tuple(sorted(pair)) for pair in complex_.cells(1)]
    first = np.zeros((complex_.num_cells[0], len(ends)))
    for e, (tail, head) in enumerate(ends):
        first[tail, e], first[head, e] = -1, 1
    rows = complex_.boundary(2).tolist()
    second = np.zeros((len(ends), len(rows)))
    for c, edges in enumerate(rows):
        start = min(range(len(edges)), key=lambda i: (*ends[edges[i]], edges[i]))
        second[edges, c] = signs_of_cycle(edges, ends, start)
    return first, second


def rank(matrix, modulus=0):
    """The rank of a matrix of whole numbers, over the rational numbers or modulo a prime."""
    rows = [[Fraction(int(v)) if not modulus else int(v) % modulus for v in row] for row in matrix]
    found = 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((i for i in range(found, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[found], rows[pivot] = rows[pivot], rows[found]
        inverse = pow(rows[found][column], -1, modulus) if modulus else 1 / rows[found][column]
        for i in range(found + 1, len(rows)):
            factor = rows[i][column] * inverse
            if factor:
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[found], strict=True)]
                if modulus:
                    rows[i] = [a % modulus for a in rows[i]]
        found += 1
    return found


def betti(boundaries, counts, modulus=0):
    """b_d = n_d - rank B_d - rank B_{d+1}, from dense boundary matrices."""
    ranks = [0, *(rank(b.tolist(), modulus) for b in boundaries), 0]
    return tuple(n - ranks[d] - ranks[d + 1] for d, n in enumerate(counts))


def sheaf_coboundary(sheaf, d):
    """δ^d block by block: (δx)_τ = Σ_σ [σ:τ] F_{σ≤τ} x_σ."""
    cells, below, above = sheaf.cells, sheaf.stalks[d], sheaf.stalks[d + 1]
    out = np.zeros((cells.num_cells[d + 1] * above, cells.num_cells[d] * below))
    at = 0
    for tau, faces in enumerate(cells.boundary(d + 1).tolist()):
        for sigma in faces:
            block = float(cells.signs[d][at]) * sheaf.maps[d][at].numpy()
            out[tau * above : (tau + 1) * above, sigma * below : (sigma + 1) * below] = block
            at += 1
    return out


def gram(sheaf, d):
    """The inner products of all stalks of a dimension, as one matrix."""
    n, s = sheaf.cells.num_cells[d], sheaf.stalks[d]
    out = np.eye(n * s)
    for i in range(n if sheaf.products[d] is not None else 0):
        out[i * s : (i + 1) * s, i * s : (i + 1) * s] = sheaf.products[d][i].numpy()
    return out


def sheaf_laplacian(sheaf, d):
    """Δ^d with adjoints T* = G^{-1} T^T G', in the coordinates of the stalks: not symmetric, but self-adjoint."""
    n = sheaf.cells.num_cells[d] * sheaf.stalks[d]
    out = np.zeros((n, n))
    own = gram(sheaf, d)
    if d + 1 < len(sheaf.stalks):
        delta = sheaf_coboundary(sheaf, d)
        out += np.linalg.solve(own, delta.T @ gram(sheaf, d + 1) @ delta)
    if d > 0:
        delta = sheaf_coboundary(sheaf, d - 1)
        out += delta @ np.linalg.solve(gram(sheaf, d - 1), delta.T @ own)
    return out


def kernel_dimension(matrix, tolerance=1e-8):
    """The number of eigenvalues of a symmetric matrix that are zero, up to rounding."""
    return int((np.linalg.eigvalsh(matrix) < tolerance).sum()) if len(matrix) else 0
