"""Is this a regular cell complex?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cwnet.complexes._components import connected_components
from cwnet.complexes._csr import Csr, ranges
from cwnet.errors import InvalidComplexError

if TYPE_CHECKING:
    from cwnet.complexes._store import ComplexStore

__all__ = ["check_numbers", "validate"]


def validate(num_vertices: int, boundaries: Sequence[Csr]) -> None:
    """Check that boundary incidences describe a regular cell complex, and say what is wrong where they do not.

    Every cell must be glued along a sphere. For a d-cell this is checked through what all spheres have:

    - each (d-2)-cell met lies on exactly two of the boundary cells (so ∂∂ = 0 mod 2);
    - the boundary is in one piece;
    - its Euler characteristic is that of a (d-1)-sphere.

    An edge then has two distinct ends, and a 2-cell's boundary is one simple closed cycle. The faces of a 3-cell are
    glued in pairs to one closed surface, with an Euler characteristic of at most 2, and every point in which it is
    pinched takes 1 away: only a sphere has 2. So for d ≤ 3 the conditions are not only necessary but sufficient. For
    d ≥ 4 they are not: all closed 3-manifolds have the same Euler characteristic.

    All cells are checked at once with array operations, in O(E log E) for E incidences in closures.
    """
    num_cells = [num_vertices]
    for d, csr in enumerate(boundaries, start=1):
        _check_csr(d, csr, num_cells[d - 1])
        num_cells.append(csr.num_rows)
    for d in range(1, len(num_cells)):
        _check_spheres(d, boundaries, num_cells)


def _check_csr(d: int, csr: Csr, num_faces: int) -> None:
    ptr, idx = csr.ptr, csr.idx
    ordered = ptr.numel() > 0 and int(ptr[0]) == 0 and int(ptr[-1]) == idx.numel() and bool((ptr.diff() >= 0).all())
    if not ordered:
        raise InvalidComplexError(
            f"the pointers of the boundaries of {d}-cells must increase from 0 to the number of entries"
        )
    bad = ((idx < 0) | (idx >= num_faces)).nonzero()
    if bad.numel():
        at = int(bad[0])
        cell = int(torch.searchsorted(ptr, at, right=True)) - 1
        face = int(idx[at])
        raise InvalidComplexError(
            f"{d}-cell {cell} names {d - 1}-cell {face} on its boundary, but there are {num_faces} of them "
            f"(numbered 0 to {num_faces - 1})"
        )
    key, counts = torch.unique(csr.rows * max(num_faces, 1) + idx, return_counts=True)
    if bool((counts > 1).any()):
        cell, face = divmod(int(key[counts > 1][0]), max(num_faces, 1))
        hint = ": an edge needs two distinct ends" if d == 1 else ""
        raise InvalidComplexError(f"{d}-cell {cell} names {d - 1}-cell {face} twice on its boundary{hint}")


def _check_spheres(d: int, boundaries: Sequence[Csr], num_cells: Sequence[int]) -> None:
    n = num_cells[d]
    if n == 0:
        return
    if d == 1:
        sizes = boundaries[0].sizes
        if bool((sizes != 2).any()):
            bad = int((sizes != 2).nonzero()[0])
            raise InvalidComplexError(f"1-cell {bad} has {int(sizes[bad])} ends; an edge has two")
        return
    cell, face = boundaries[d - 1].rows, boundaries[d - 1].idx
    # χ of each boundary, summed from its top dimension down. `sign` is (-1)^dimension.
    euler = torch.zeros(n, dtype=torch.int64)
    facets, sign = torch.stack([cell, face]), 1 if (d - 1) % 2 == 0 else -1
    euler += sign * torch.bincount(cell, minlength=n)
    for lower in range(d - 1, 0, -1):
        csr = boundaries[lower - 1]
        sizes = csr.sizes[face]
        at = ranges(csr.ptr[:-1][face], sizes)
        key = torch.repeat_interleave(cell, sizes) * num_cells[lower - 1] + csr.idx[at]
        unique, inverse, counts = torch.unique(key, return_inverse=True, return_counts=True)
        if lower == d - 1:
            _check_diamonds(d, unique, counts, num_cells[d - 2])
            owner = torch.repeat_interleave(torch.arange(facets.shape[1]), sizes)
            _check_connected(d, facets[0], owner, inverse, unique.numel(), n)
        cell = torch.div(unique, num_cells[lower - 1], rounding_mode="floor")
        face = unique % num_cells[lower - 1]
        sign = -sign
        euler += sign * torch.bincount(cell, minlength=n)
    sphere = 2 if (d - 1) % 2 == 0 else 0
    if bool((euler != sphere).any()):
        at_cell = int((euler != sphere).nonzero()[0])
        raise InvalidComplexError(
            f"the boundary of {d}-cell {at_cell} is not a {d - 1}-sphere: its Euler characteristic is "
            f"{int(euler[at_cell])}, a sphere's is {sphere}"
        )


def _check_diamonds(d: int, key: Tensor, counts: Tensor, num_ridges: int) -> None:
    if bool((counts != 2).any()):
        at = int((counts != 2).nonzero()[0])
        owner, ridge = divmod(int(key[at]), num_ridges)
        shape = "one simple closed cycle" if d == 2 else "closed (∂∂ ≠ 0)"
        raise InvalidComplexError(
            f"the boundary of {d}-cell {owner} is not {shape}: {d - 2}-cell {ridge} lies on "
            f"{int(counts[at])} of its {d - 1}-cells, not on two"
        )


def _check_connected(d: int, cell: Tensor, owner: Tensor, ridge: Tensor, num_ridges: int, n: int) -> None:
    """One piece per cell: components of the graph between (cell, facet) pairs and (cell, ridge) pairs."""
    size = cell.numel() + num_ridges
    _, label = connected_components(size, owner.numpy(), (ridge + cell.numel()).numpy())
    pieces = torch.unique(torch.stack([cell, torch.from_numpy(label)[: cell.numel()].long()]), dim=1)
    count = torch.bincount(pieces[0], minlength=n)
    if bool((count != 1).any()):
        bad = int((count != 1).nonzero()[0])
        raise InvalidComplexError(
            f"the boundary of {d}-cell {bad} is in {int(count[bad])} pieces; it must be one closed "
            + ("cycle" if d == 2 else "surface" if d == 3 else "piece")
        )


# ------------------------------------------------------------------------------------------------ many complexes


Ints = NDArray[Any]


def check_numbers(store: ComplexStore) -> None:
    """Check that no number of a store on the CPU leads out of its arrays, and say which one does.

    Whoever reads a store follows its pointers and the numbers of its cells without looking, so this is done once for
    what comes from outside. It is what `validate` checks of numbers, not of spheres: pointers increase, boundaries name
    cells of their own complex, edges have two distinct ends. Every number is read once, in linear time and with memory
    for the pointers only; by NumPy, as PyTorch would start its threads for each of many short passes.
    """
    cell_ptr, dims = [ptr.numpy() for ptr in store.cell_ptr], store.dims.numpy()
    for d, ptr in enumerate(cell_ptr):
        if len(ptr) != len(store) + 1 or not _increases(ptr, None):
            raise InvalidComplexError(f"the pointers of complexes to their {d}-cells do not increase from 0")
    counts = [np.diff(ptr) for ptr in cell_ptr]
    for d, csr in enumerate(store.boundaries, start=1):
        _check_boundaries(d, csr, cell_ptr[d], counts[d - 1])
    top = len(counts) - 1
    for d, count in enumerate(counts):
        unlisted = (dims < d) & (count > 0) if d else (dims < 0) | (dims > top)
        for at in np.flatnonzero(unlisted)[:1]:
            raise InvalidComplexError(
                f"complex {at} lists dimensions up to {dims[at]}, but has {count[at]} {d}-cells, and the store "
                f"dimensions up to {top}"
            )
    for d, total in enumerate(store.num_cells):
        for name, features in (("x", store.x), ("cell_y", store.cell_y)):
            some = features[d]
            if some is not None and len(some) != total:
                raise InvalidComplexError(f"{name}[{d}] has {len(some)} rows for {total} {d}-cells")
    if store.y is not None and len(store.y) != len(store):
        raise InvalidComplexError(f"y has {len(store.y)} rows for {len(store)} complexes")
    if store.complex_x is not None and len(store.complex_x) != len(store):
        raise InvalidComplexError(f"complex_x has {len(store.complex_x)} rows for {len(store)} complexes")


def _increases(ptr: Ints, last: int | None) -> bool:
    """Whether pointers go up from 0, to the last one if it is known."""
    ends = len(ptr) > 0 and ptr[0] == 0 and (last is None or ptr[-1] == last)
    return bool(ends and (ptr[1:] >= ptr[:-1]).all())


def _check_boundaries(d: int, csr: Csr, cell_ptr: Ints, num_faces: Ints) -> None:
    if csr.ptr.dtype != torch.int32 or csr.idx.dtype != torch.int32:
        raise InvalidComplexError(f"the boundaries of {d}-cells are {csr.idx.dtype}, and a store has {torch.int32}")
    ptr, idx = csr.ptr.numpy(), csr.idx.numpy()
    if len(ptr) != cell_ptr[-1] + 1 or not _increases(ptr, len(idx)):
        raise InvalidComplexError(
            f"the pointers of the boundaries of {cell_ptr[-1]} {d}-cells do not increase from 0 to the number of "
            "entries"
        )
    starts = ptr[cell_ptr]
    filled = starts[1:] > starts[:-1]
    # The largest number of each complex; as unsigned, a negative one is larger than any.
    some = idx.view(np.uint32)
    largest = np.maximum.reduceat(some, starts[:-1][filled]) if len(some) else some
    for at in np.flatnonzero(largest >= num_faces[filled])[:1]:
        owner = np.flatnonzero(filled)[at]
        inside = idx[starts[owner] : starts[owner + 1]]
        face = inside[(inside < 0) | (inside >= num_faces[owner])][0]
        raise InvalidComplexError(
            f"a {d}-cell of complex {owner} names {d - 1}-cell {face} on its boundary, but the complex has "
            f"{num_faces[owner]} of them"
        )
    if d == 1:
        _check_edges(ptr, idx)


def _check_edges(ptr: Ints, idx: Ints) -> None:
    sizes = np.diff(ptr)
    for at in np.flatnonzero(sizes != 2)[:1]:
        raise InvalidComplexError(f"edge {at} of the store has {sizes[at]} ends; an edge has two")
    for at in np.flatnonzero(idx[::2] == idx[1::2])[:1]:
        raise InvalidComplexError(f"edge {at} of the store has vertex {idx[2 * at]} at both ends")
