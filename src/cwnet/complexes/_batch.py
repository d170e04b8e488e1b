"""Many complexes as one, with global numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cwnet import _core
from cwnet.complexes._cells import Cells, Features, describe_cells
from cwnet.complexes._complex import CellComplex
from cwnet.complexes._csr import Csr
from cwnet.complexes._pytree import register

if TYPE_CHECKING:
    from cwnet.complexes._store import ComplexStore

__all__ = ["ComplexBatch", "cut"]


@register
@dataclass(frozen=True, eq=False, repr=False)
class ComplexBatch(Cells):
    """Several complexes side by side, which is again a complex: all of `Cells` works on it.

    Attributes:
        cell_ptr: per dimension d, [complexes + 1]: complex i has the d-cells ``cell_ptr[d][i]:cell_ptr[d][i + 1]``.
        dims: the last dimension each complex lists, [complexes].
        y: targets of the complexes, [complexes, ...], or None.
        complex_x: features of the complexes as wholes, [complexes, ...], or None.
        masks: per dimension, which cells are real, [cells]; empty where there is no padding. See `mask`.
    """

    cell_ptr: tuple[Tensor, ...]
    dims: Tensor
    masks: tuple[Tensor, ...] = field(default=(), kw_only=True)

    def mask(self, d: int) -> Tensor | None:
        return self.masks[d] if d < len(self.masks) else None

    def complex_of(self, d: int) -> Tensor:
        """The complex each d-cell belongs to, [d-cells]."""
        if self._count(d) == 0:
            return torch.zeros(0, dtype=torch.int64, device=self.dims.device)
        return torch.repeat_interleave(self.cell_ptr[d].diff(), output_size=self.num_cells[d])

    def __len__(self) -> int:
        return self.dims.numel()

    def __getitem__(self, i: int) -> CellComplex:
        """Complex i, as it was before batching."""
        return cut(self, i)

    def __iter__(self) -> Iterator[CellComplex]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        many = "complex" if len(self) == 1 else "complexes"
        return f"ComplexBatch({len(self):,} {many}: {describe_cells(self.num_cells)})"


def cut(many: ComplexBatch | ComplexStore, i: int) -> CellComplex:
    """One complex out of many, whether their numbers are global (a batch) or local (a store)."""
    if not -len(many) <= i < len(many):
        raise IndexError(f"complex {i} was asked for, but there are {len(many)} (numbered 0 to {len(many) - 1})")
    i %= len(many)
    local = not isinstance(many, ComplexBatch)
    if many.dims.is_cpu:
        num_cells, tensors, spans = _core.cut(many.cell_ptr, many.boundaries, many.dims, i, local)
        boundaries = tuple(map(Csr, tensors[::2], tensors[1::2]))
    else:
        num_cells, boundaries, spans = _cut_elsewhere(many, i, local)

    def part(features: Features) -> Features:
        return tuple(None if f is None else f[a:b] for f, (a, b) in zip(features, spans, strict=False))

    return CellComplex(
        num_cells=num_cells,
        boundaries=boundaries,
        x=part(many.x),
        y=None if many.y is None else many.y[i],
        cell_y=part(many.cell_y),
        complex_x=None if many.complex_x is None else many.complex_x[i],
    )


def _cut_elsewhere(
    many: ComplexBatch | ComplexStore, i: int, local: bool
) -> tuple[tuple[int, ...], tuple[Csr, ...], list[tuple[int, int]]]:
    """The same as the core's, on the device where the complexes are."""
    ends = [ptr[i : i + 2].tolist() for ptr in many.cell_ptr[: int(many.dims[i]) + 1]]
    spans = [(a, b) for a, b in ends]
    cut = [many.boundaries[d - 1].slice(*spans[d]).wide() for d in range(1, len(spans))]
    boundaries = tuple(Csr(csr.ptr, csr.idx - (0 if local else spans[d][0])) for d, csr in enumerate(cut))
    return tuple(b - a for a, b in spans), boundaries, spans
