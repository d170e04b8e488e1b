"""Disjoint unions of complexes."""

from __future__ import annotations

from dataclasses import replace

import torch

from cwnet.complexes._csr import Csr
from cwnet.complexes._store import ComplexStore
from cwnet.errors import InvalidComplexError

__all__ = ["disjoint_unions"]


def disjoint_unions(store: ComplexStore, count: int) -> ComplexStore:
    """Every `count` complexes of a store as one, their disjoint union: the cells of the first come first.

    A disjoint union of complexes is a complex: cells keep their boundaries and get other numbers. Features of cells
    stay with them; what complexes have as wholes is left behind.

    >>> from cwnet import lift_many
    >>> store = lift_many([(3, [(0, 1), (1, 2), (2, 0)]), (2, [(0, 1)])], "rings:6")
    >>> disjoint_unions(store, 2)[0].cells(1)
    [(0, 1), (1, 2), (2, 0), (3, 4)]
    """
    if count < 1 or len(store) % count:
        raise InvalidComplexError(f"{len(store)} complexes do not make unions of {count} each")
    cell_ptr = tuple(ptr[::count].contiguous() for ptr in store.cell_ptr)
    boundaries = []
    for d, csr in enumerate(store.boundaries, start=1):
        per_complex = csr.ptr[store.cell_ptr[d]].diff()  # incidences of each complex
        shift = store.cell_ptr[d - 1][:-1] - cell_ptr[d - 1][:-1].repeat_interleave(count)
        boundaries.append(Csr(csr.ptr, csr.idx + torch.repeat_interleave(shift, per_complex)).packed())
    dims = store.dims.reshape(-1, count).amax(1) if len(store) else store.dims
    return replace(
        store, cell_ptr=cell_ptr, boundaries=tuple(boundaries), dims=dims, y=None, complex_x=None, skipped=(),
        truncated=(),
    )  # fmt: skip
