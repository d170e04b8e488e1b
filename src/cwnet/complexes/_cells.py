"""What a complex and a batch of complexes have in common: cells with boundaries, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import torch
from torch import Tensor

from cwnet.complexes._csr import Csr, Incidence, Pairs, map_tensors, offsets, ranges
from cwnet.errors import InvalidComplexError

__all__ = ["Cells", "Features", "Movable", "as_features", "describe_cells"]

#: One tensor per dimension, [cells, ...], or None where the cells of a dimension have none.
Features = tuple[Tensor | None, ...]


class Movable:
    """A dataclass of tensors that goes to a device as a whole."""

    def _map(self, function: Callable[[Tensor], Tensor]) -> Self:
        changed = {
            f.name: map_tensors(getattr(self, f.name), function)
            for f in fields(self)  # type: ignore[arg-type]
            if f.init
        }
        return replace(self, **changed)  # type: ignore[type-var]

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The same on another device, in another precision, or both, as `torch.nn.Module.to` takes them.

        A precision is that of features and targets that are floating point; categories, numbers of cells and pointers
        stay whole numbers.

        >>> import cwnet
        >>> X = cwnet.lift((3, [(0, 1), (1, 2), (2, 0)]), cwnet.Rings(6))
        >>> X.to(torch.float64).boundary(1).idx.dtype
        torch.int64
        """
        device, dtype, non_blocking, _ = torch._C._nn._parse_to(*args, **kwargs)
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(f"cells can not be turned into {dtype}: give a floating point type, for their features")

        def moved(t: Tensor) -> Tensor:
            return t.to(device, dtype if t.is_floating_point() else None, non_blocking=non_blocking)

        return self._map(moved)

    def cpu(self) -> Self:
        """The same in main memory."""
        return self.to("cpu")

    def cuda(self, device: torch.device | str | int | None = None, non_blocking: bool = False) -> Self:
        """The same on a GPU, the current one by default."""
        return self._map(lambda t: t.cuda(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """The same in page-locked memory, from where copies to a GPU do not wait."""
        return self._map(lambda t: t.pin_memory())


@dataclass(frozen=True, eq=False, repr=False)
class Cells(Movable):
    """Cells of several dimensions, numbered from 0 in each, and the boundary of each cell.

    The boundary incidences are all the structure there is. Coboundaries are their transpose, computed when
    first asked for and kept (`incidence`); upper and lower pairs are expanded at every call.
    """

    num_cells: tuple[int, ...]
    boundaries: tuple[Csr, ...]
    x: Features
    y: Tensor | None
    cell_y: Features
    complex_x: Tensor | None = field(default=None, kw_only=True)
    _incidences: dict[int, Incidence] = field(default_factory=dict, init=False)
    _hasse: dict[int, Incidence] = field(default_factory=dict, init=False)

    @property
    def dim(self) -> int:
        """The largest dimension in which there is a cell; -1 where there is none at all."""
        return max((d for d, n in enumerate(self.num_cells) if n), default=-1)

    def boundary(self, d: int) -> Csr:
        """B(σ) for every d-cell σ: the (d-1)-cells on its boundary. Vertices have empty boundaries."""
        n = self._count(d)
        if 1 <= d <= len(self.boundaries):
            return self.boundaries[d - 1]
        return Csr.empty(n, self._device)

    def coboundary(self, d: int) -> Csr:
        """C(σ) for every d-cell σ: the (d+1)-cells that have it on their boundary."""
        self._count(d)
        return self.incidence(d + 1).up

    def incidence(self, d: int) -> Incidence:
        """The incidences between d-cells and (d-1)-cells, d ≥ 1, from both sides."""
        if d not in self._incidences:
            self._incidences[d] = Incidence.of(self.boundary(d), self._count(d - 1))
        return self._incidences[d]

    def mask(self, d: int) -> Tensor | None:
        """Which d-cells are real and which are padding, [d-cells] of bool; None where there is no padding."""
        return None

    def hasse(self, top: int) -> Incidence:
        """All incidences up to dimension `top` at once, cells numbered through: vertices first, then edges, and so on.

        This is the covering relation of the face poset, the diagram that Hasse drew.
        """
        if top not in self._hasse:
            device = self._device
            starts = [sum(self.num_cells[:d]) for d in range(top + 2)]
            sizes = [self.boundary(d).sizes for d in range(top + 1)]
            faces = [self.boundary(d).idx + starts[d - 1] for d in range(1, top + 1)]
            down = Csr(offsets(torch.cat(sizes)), torch.cat([torch.zeros(0, dtype=torch.int64, device=device), *faces]))
            self._hasse[top] = Incidence.of(down, starts[-1])
        return self._hasse[top]

    def upper(self, d: int) -> Pairs:
        """N↑: ordered pairs of d-cells on the boundary of a common (d+1)-cell, which is `shared`.

        Two cells that share several cofaces are paired once for each (paper, definition of c_↑).
        """
        self._count(d)
        return Pairs.within_rows(self.boundary(d + 1))

    def lower(self, d: int) -> Pairs:
        """N↓: ordered pairs of d-cells with a common (d-1)-cell on their boundaries, which is `shared`."""
        self._count(d)
        return Pairs.within_rows(self.coboundary(d - 1) if d else Csr.empty(0, self._device))

    def vertices(self, d: int) -> Csr:
        """The vertices in the closure of every d-cell, increasing."""
        n = self._count(d)
        if d == 0:
            numbers = torch.arange(n + 1, device=self._device)
            return Csr(numbers, numbers[:-1])
        cell, face = self.boundary(d).rows, self.boundary(d).idx
        for lower in range(d - 1, 0, -1):
            csr = self.boundary(lower)
            sizes = csr.sizes[face]
            cell, face = (
                torch.repeat_interleave(cell, sizes),
                csr.idx[ranges(csr.ptr[:-1][face], sizes)],
            )
            cell, face = _unique(cell, face, self._count(lower - 1))
        cell, face = _unique(cell, face, self._count(0))
        return Csr(offsets(torch.bincount(cell, minlength=n)), face)

    def _count(self, d: int) -> int:
        if d < 0:
            raise ValueError(f"there are no cells of dimension {d}: dimensions start at 0, with the vertices")
        return self.num_cells[d] if d < len(self.num_cells) else 0

    @property
    def _device(self) -> torch.device:
        if self.boundaries:
            return self.boundaries[0].ptr.device
        some = next((t for t in self.x if t is not None), self.y)
        return torch.device("cpu") if some is None else some.device


def describe_cells(num_cells: Sequence[int]) -> str:
    """For example "6 vertices, 6 edges, 1 2-cell"."""
    names = [("vertex", "vertices"), ("edge", "edges")]
    names += [(f"{d}-cell", f"{d}-cells") for d in range(2, len(num_cells))]
    return ", ".join(f"{n:,} {one if n == 1 else many}" for n, (one, many) in zip(num_cells, names, strict=False))


def _unique(row: Tensor, column: Tensor, num_columns: int) -> tuple[Tensor, Tensor]:
    """Distinct (row, column) pairs in lexicographic order."""
    width = max(num_columns, 1)
    key = torch.unique(row * width + column)
    return torch.div(key, width, rounding_mode="floor"), key % width


def as_features(value: Any, num_cells: Sequence[int], name: str) -> Features:
    """Features given by a user: one row per cell in each dimension, and no NaN in `x`; missing ones are None."""
    if value is None:
        return (None,) * len(num_cells)
    if isinstance(value, Tensor):
        raise InvalidComplexError(
            f"{name} is one tensor; it must be one per dimension: ({name} of vertices, of edges, ...), "
            "with None for a dimension that has none"
        )
    if len(value) > len(num_cells):
        raise InvalidComplexError(
            f"{name} has entries for {len(value)} dimensions, but there are cells in {len(num_cells)} only"
        )
    tensors: list[Tensor | None] = []
    for d, item in enumerate(value):
        tensor = None if item is None else torch.as_tensor(item)
        if tensor is not None:
            if tensor.dim() == 0 or tensor.shape[0] != num_cells[d]:
                rows = "no rows" if tensor.dim() == 0 else f"{tensor.shape[0]} rows"
                raise InvalidComplexError(
                    f"{name}[{d}] has {rows}, but there are {num_cells[d]} cells of dimension {d}"
                )
            if tensor.is_floating_point() and name == "x" and bool(torch.isnan(tensor).any()):
                where = torch.isnan(tensor).nonzero()[0].tolist()
                raise InvalidComplexError(f"x[{d}] is NaN at {where}: fill in or drop missing features first")
        tensors.append(tensor)
    return tuple(tensors) + (None,) * (len(num_cells) - len(value))
