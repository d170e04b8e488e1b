"""Many complexes as one, with global numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from cwnet.complexes._cells import Cells, Features, describe_cells
from cwnet.complexes._complex import CellComplex
from cwnet.complexes._csr import Csr

__all__ = ["ComplexBatch"]


@dataclass(frozen=True, eq=False, repr=False)
class ComplexBatch(Cells):
    """Several complexes side by side, which is again a complex: all of `Cells` works on it.

    Attributes:
        cell_ptr: per dimension d, [complexes + 1]: complex i has the d-cells ``cell_ptr[d][i]:cell_ptr[d][i + 1]``.
        dims: the last dimension each complex lists, [complexes].
        y: targets of the complexes, [complexes, ...], or None.
    """

    cell_ptr: tuple[Tensor, ...]
    dims: Tensor

    def complex_of(self, d: int) -> Tensor:
        """The complex each d-cell belongs to, [d-cells]."""
        if self._count(d) == 0:
            return torch.zeros(0, dtype=torch.int64, device=self.dims.device)
        return torch.repeat_interleave(self.cell_ptr[d].diff(), output_size=self.num_cells[d])

    def __len__(self) -> int:
        return self.dims.numel()

    def __getitem__(self, i: int) -> CellComplex:
        """Complex i, as it was before batching."""
        if not -len(self) <= i < len(self):
            raise IndexError(f"complex {i} was asked for, but the batch has {len(self)}")
        i %= len(self)
        last = int(self.dims[i])
        spans = [(int(ptr[i]), int(ptr[i + 1])) for ptr in self.cell_ptr[: last + 1]]
        boundaries = []
        for d in range(1, last + 1):
            csr, (a, b) = self.boundaries[d - 1], spans[d]
            ptr = csr.ptr[a : b + 1]
            begin, end = int(ptr[0]), int(ptr[-1])
            boundaries.append(Csr(ptr - begin, csr.idx[begin:end] - spans[d - 1][0]))

        def part(features: Features) -> Features:
            return tuple(None if f is None else f[a:b] for f, (a, b) in zip(features, spans, strict=False))

        return CellComplex(
            num_cells=tuple(b - a for a, b in spans),
            boundaries=tuple(boundaries),
            x=part(self.x),
            y=None if self.y is None else self.y[i],
            cell_y=part(self.cell_y),
        )

    def __iter__(self) -> Iterator[CellComplex]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        many = "complex" if len(self) == 1 else "complexes"
        return f"ComplexBatch({len(self):,} {many}: {describe_cells(self.num_cells)})"
