"""Compressed sparse rows: the one form in which incidences are held."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

__all__ = ["Csr", "Incidence", "Pairs", "is_whole", "map_tensors", "offsets", "ranges"]


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number, and not one that stands for true or false."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


class Csr(NamedTuple):
    """Lists of numbers, one list per row: row i is ``idx[ptr[i]:ptr[i + 1]]``.

    >>> Csr.from_lists([[0, 1], [], [2]])
    Csr(3 rows, 3 entries)
    """

    ptr: Tensor
    idx: Tensor

    @classmethod
    def from_lists(cls, rows: Iterable[Sequence[int]]) -> Csr:
        """Pack lists; the way in for small hand-made complexes."""
        rows = [list(row) for row in rows]
        sizes = torch.tensor([len(row) for row in rows], dtype=torch.int64)
        return cls(offsets(sizes), torch.tensor([i for row in rows for i in row], dtype=torch.int64))

    @classmethod
    def empty(cls, num_rows: int, device: torch.device | None = None) -> Csr:
        """Rows without entries."""
        return cls(
            torch.zeros(num_rows + 1, dtype=torch.int64, device=device),
            torch.zeros(0, dtype=torch.int64, device=device),
        )

    @property
    def num_rows(self) -> int:
        """How many lists there are."""
        return self.ptr.numel() - 1

    @property
    def sizes(self) -> Tensor:
        """Length of each list, [rows]."""
        return self.ptr[1:] - self.ptr[:-1]

    @property
    def rows(self) -> Tensor:
        """The row of each entry, [entries]."""
        arange = torch.arange(self.num_rows, device=self.ptr.device)
        return torch.repeat_interleave(arange, self.sizes, output_size=self.idx.numel())

    def packed(self) -> Csr:
        """The same in 32 bits, as stores hold it."""
        if self.idx.numel() >= 2**31:
            raise OverflowError(f"{self.idx.numel():,} incidences are more than one store can hold (2^31 - 1)")
        return Csr(self.ptr.to(torch.int32), self.idx.to(torch.int32))

    def wide(self) -> Csr:
        """The same in 64 bits, as PyTorch's index operations want it."""
        return Csr(self.ptr.long(), self.idx.long())

    def slice(self, start: int, stop: int) -> Csr:
        """Rows start, start + 1, ..., stop - 1."""
        ptr = self.ptr[start : stop + 1]
        first, last = ptr[0], ptr[-1]
        return Csr(ptr - first, self.idx[first:last])

    def tolist(self) -> list[list[int]]:
        """The rows as Python lists."""
        ptr, idx = self.ptr.tolist(), self.idx.tolist()
        return [idx[a:b] for a, b in pairwise(ptr)]

    def __repr__(self) -> str:
        return f"Csr({self.num_rows} rows, {self.idx.numel()} entries)"


class Incidence(NamedTuple):
    """The incidences between the cells of two neighbouring dimensions, from both sides.

    Attributes:
        down: the boundary of every upper cell.
        up: the coboundary of every lower cell, increasing.
        down_rows: the upper cell of every entry of `down`.
        up_rows: the lower cell of every entry of `up`.
        in_down: where in `down` the same incidence is, for every entry of `up`.
        in_up: where in `up` the same incidence is, for every entry of `down`.
    """

    down: Csr
    up: Csr
    down_rows: Tensor
    up_rows: Tensor
    in_down: Tensor
    in_up: Tensor

    @classmethod
    def of(cls, down: Csr, num_lower: int) -> Incidence:
        """Add the other side to boundaries."""
        rows = down.rows
        lower, order = torch.sort(down.idx, stable=True)
        # Where each number starts among the sorted: of a size known beforehand, as torch.compile wants it.
        ptr = torch.searchsorted(lower, torch.arange(num_lower + 1, device=lower.device))
        back = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=order.device))
        return cls(down, Csr(ptr, rows[order]), rows, lower, order, back)

    def flipped(self) -> Incidence:
        """The same with upper and lower exchanged."""
        return Incidence(self.up, self.down, self.up_rows, self.down_rows, self.in_up, self.in_down)


class Pairs(NamedTuple):
    """Adjacent cells, expanded: ``index[0][i]`` sends to ``index[1][i]`` through the cell ``shared[i]``."""

    index: Tensor  # type: ignore[assignment]  # hides tuple.index, which no one needs here
    shared: Tensor

    @classmethod
    def within_rows(cls, csr: Csr) -> Pairs:
        """All ordered pairs of distinct entries of a row; the row is what they share. O(Σ size²)."""
        rows, sizes = csr.rows, csr.sizes
        repeats = sizes[rows]
        receiver = torch.repeat_interleave(repeats)
        sender = ranges(csr.ptr[:-1][rows], repeats)
        distinct = sender != receiver
        receiver, sender = receiver[distinct], sender[distinct]
        return cls(torch.stack([csr.idx[sender], csr.idx[receiver]]), rows[receiver])

    def __repr__(self) -> str:
        return f"Pairs({self.shared.numel()})"


def offsets(sizes: Tensor) -> Tensor:
    """Where each of several consecutive pieces starts, and where the last one ends: [n] → [n + 1], int64."""
    ptr = torch.zeros(sizes.numel() + 1, dtype=torch.int64, device=sizes.device)
    torch.cumsum(sizes, 0, out=ptr[1:])
    return ptr


def ranges(starts: Tensor, sizes: Tensor) -> Tensor:
    """The concatenation of ``arange(start, start + size)``.

    >>> ranges(torch.tensor([5, 0]), torch.tensor([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ptr = offsets(sizes)
    total = int(ptr[-1])
    shift = torch.repeat_interleave(starts - ptr[:-1], sizes, output_size=total)
    return shift + torch.arange(total, device=starts.device)


def map_tensors(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """Apply a function to every tensor of nested tuples, leaving everything else as it is."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, Csr):
        return Csr(function(value.ptr), function(value.idx))
    if isinstance(value, tuple):
        return tuple(map_tensors(item, function) for item in value)
    return value
