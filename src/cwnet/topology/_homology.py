"""Homology with exact arithmetic: Betti numbers and the Euler characteristic."""

from __future__ import annotations

import heapq
from math import gcd, isqrt
from typing import Literal

import torch
from torch import Tensor

from cwnet.complexes import CellComplex, ComplexBatch
from cwnet.complexes._components import connected_components
from cwnet.topology._orientation import AnyCells, Oriented, as_batch, orient

__all__ = ["betti_numbers", "euler_characteristic"]

#: "Q" for the rational numbers, or a prime p for the field with p elements.
Field = Literal["Q"] | int


def betti_numbers(cells: AnyCells, field: Field = "Q") -> tuple[int, ...] | Tensor:
    """b_d = n_d - rank B_d - rank B_{d+1}: the number of pieces, of holes, of hollows, ...

    Ranks are exact: no floating point number is involved. Over different fields they differ where there is torsion: the
    Klein bottle has (1, 1, 0) over the rational numbers and (1, 2, 1) over the field with two elements.

    Args:
        cells: a complex, a store or a batch.
        field: "Q", or a prime such as 2.

    Returns:
        For one complex a number per dimension that it lists. For many, [complexes, dimensions], int64.

    >>> sphere = CellComplex.from_boundaries(2, [[(0, 1), (0, 1)], [(0, 1), (0, 1)]])
    >>> betti_numbers(sphere), betti_numbers(sphere, field=2)
    ((1, 0, 1), (1, 0, 1))
    """
    modulus = _modulus(field)
    # Over the field with two elements there are no signs.
    batch = as_batch(cells) if modulus == 2 else orient(cells)
    counts = torch.stack([ptr.diff().cpu() for ptr in batch.cell_ptr], dim=1)
    ranks = torch.zeros(len(batch), len(batch.num_cells) + 1, dtype=torch.int64)
    for d in range(1, len(batch.num_cells)):
        ranks[:, d] = _ranks(batch, d, modulus)
    betti = counts - ranks[:, :-1] - ranks[:, 1:]
    return tuple(betti[0].tolist()) if isinstance(cells, CellComplex) else betti


def euler_characteristic(cells: AnyCells) -> int | Tensor:
    """χ = Σ_d (-1)^d n_d, which is also Σ_d (-1)^d b_d over any field.

    Returns:
        A number for one complex, [complexes] for many.

    >>> euler_characteristic(CellComplex.from_boundaries(2, [[(0, 1), (0, 1)], [(0, 1), (0, 1)]]))
    2
    """
    if isinstance(cells, CellComplex):
        return sum(cells.num_cells[::2]) - sum(cells.num_cells[1::2])
    counts = torch.stack([ptr.diff() for ptr in cells.cell_ptr])
    euler: Tensor = counts[::2].sum(0) - counts[1::2].sum(0)
    return euler


def _modulus(field: Field) -> int:
    """The prime, or 0 for the rational numbers."""
    if field == "Q":
        return 0
    if isinstance(field, int) and field >= 2 and all(field % p for p in range(2, isqrt(field) + 1)):
        return field
    raise ValueError(f"field={field!r} is not a field: give 'Q' for the rational numbers, or a prime such as 2")


def _ranks(batch: ComplexBatch, d: int, modulus: int) -> Tensor:
    """The rank of B_d of each complex."""
    if d == 1:
        return _graph_ranks(batch)
    csr = batch.boundary(d)
    signs = batch.signs[d - 1].tolist() if isinstance(batch, Oriented) else [1] * csr.idx.numel()
    columns = _eliminate(csr.tolist(), signs, modulus)
    return torch.bincount(batch.complex_of(d).cpu()[columns], minlength=len(batch))


def _graph_ranks(batch: ComplexBatch) -> Tensor:
    """Vertices less connected components, which is the rank of B_1 over any field."""
    ends = batch.boundary(1).idx.reshape(-1, 2).cpu().numpy()
    count, label = connected_components(batch.num_cells[0], ends[:, 0], ends[:, 1])
    complex_of = batch.complex_of(0).cpu()
    owner = torch.zeros(count, dtype=torch.int64)
    owner[torch.from_numpy(label).long()] = complex_of  # all vertices of a component are in one complex
    size = len(batch)
    return torch.bincount(complex_of, minlength=size) - torch.bincount(owner, minlength=size)


def _eliminate(boundaries: list[list[int]], signs: list[int], modulus: int) -> list[int]:
    """Columns that are a basis of the column space of a sparse matrix; their number is the rank.

    Gaussian elimination on columns {row: value}. A row with the fewest entries is next, and in it the shortest column
    is the pivot, which is added to the others. A row with one entry costs nothing: this is a collapse through a free
    face. A row with two joins two cells into one, and the shorter boundary is copied, so surfaces take O(n log n).
    Over the rational numbers the values stay whole: columns are multiplied, and divided only by what all of their
    entries have in common.
    """
    values = iter(signs)
    columns = [{row: next(values) for row in boundary} for boundary in boundaries]
    rows: dict[int, set[int]] = {}
    for c, column in enumerate(columns):
        for row in column:
            rows.setdefault(row, set()).add(c)
    queue = [(len(members), row) for row, members in rows.items()]
    heapq.heapify(queue)
    pivots: list[int] = []
    while queue:
        size, row = heapq.heappop(queue)
        if row not in rows or len(rows[row]) != size:
            continue  # it has changed since, and is queued again
        members = rows[row]
        pivot = min(members, key=lambda c: (abs(columns[c][row]) != 1, len(columns[c]), c))
        pivots.append(pivot)
        source = columns[pivot]
        for c in members - {pivot}:
            _subtract(columns[c], source, row, modulus)
            for other in source:
                rows[other].add(c) if other in columns[c] else rows[other].discard(c)
        for other in source:
            rows[other].discard(pivot)
            if rows[other]:
                heapq.heappush(queue, (len(rows[other]), other))
        columns[pivot] = {}
    return pivots


def _subtract(target: dict[int, int], source: dict[int, int], row: int, modulus: int) -> None:
    """Make the entry of `target` in `row` zero by a multiple of `source`."""
    a, b = source[row], target[row]
    if modulus:
        factor = b * pow(a, -1, modulus) % modulus
    elif abs(a) == 1:
        factor = a * b
    else:
        common = gcd(a, b)
        factor = b // common
        for key in target:
            target[key] *= a // common
    for key, value in source.items():
        new = target.get(key, 0) - factor * value
        new = new % modulus if modulus else new
        if new:
            target[key] = new
        else:
            target.pop(key, None)
    content = 1 if modulus else gcd(*target.values())
    if content > 1:
        for key in target:
            target[key] //= content
