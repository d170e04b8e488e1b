"""What the kernels of a whole layer are made of: tiles of cells and features, and what is done to one of them.

The features of all dimensions lie in one tensor, dimension after dimension (`packed`). A program owns a tile of one
dimension in one branch: its grid is (tiles · columns of tiles, dimensions, branches), and `group` says where its cells
are. Weights of dimension d in branch b are found by their addresses, which are in a table.

Names of shapes, here and in all files of the layer: N cells of all dimensions, D dimensions, B branches, K features in,
H features out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from cwnet._torch import autocasting
from cwnet.nn.kernels import MAX_DIMS

__all__ = [
    "COLUMNS",
    "ROWS",
    "WARPS",
    "Plan",
    "address",
    "blocks",
    "capped",
    "capped_slope",
    "dot",
    "group",
    "grouped",
    "in_use",
    "multiply_in",
    "packed",
    "real_rows",
    "slope",
    "value",
    "within",
]

WARPS = 4  #: of a program.
ROWS = 64  #: cells of a tile in a product.
COLUMNS = 64  #: features of a tile.


# ------------------------------------------------------------------------------------------------------- for launches


@dataclass(frozen=True)
class Plan:
    """What all kernels of one call share: the cells of each dimension, the activation, and how to multiply."""

    counts: tuple[int, ...]  # cells of each dimension
    mask: Tensor | None  # [N] of bool: the cells that are no padding; None if all are
    act: str
    cap: float  # largest value that comes out of a norm; 0 for any
    precision: str  # see `multiply_in`
    alignment: int  # weights start at a multiple of so many bytes

    @property
    def dims(self) -> int:
        """D."""
        return len(self.counts)

    @property
    def cells(self) -> int:
        """N."""
        return sum(self.counts)

    @property
    def tiles(self) -> int:
        """How many tiles the largest dimension has."""
        return -(-max(self.counts) // ROWS)

    @property
    def sizes(self) -> dict[str, int]:
        """The arguments that `group` takes."""
        counts = (*self.counts, *[0] * (MAX_DIMS - self.dims))
        return {f"n{d}": count for d, count in enumerate(counts)}


def multiply_in() -> str:
    """How to multiply: float32 as three products in tf32, which is as exact, or one in tf32 or bfloat16."""
    if autocasting("cuda"):
        return "bf16"
    return "tf32x3" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def blocks(width: int, most: int) -> int:
    """The width of a tile: a power of two that covers the features, or a part of them."""
    return min(max(1 << (width - 1).bit_length(), 16), most)


def in_use(argument: Tensor | None, instead: Tensor) -> Tensor:
    """An argument of a kernel, or any other tensor where it is not read: a kernel takes no None."""
    return instead if argument is None else argument


def packed(parts: Sequence[Tensor]) -> Tensor:
    """Tensors one after another as one; no copy where they lie so already."""
    first, at = parts[0], parts[0].data_ptr()
    for part in parts:
        if not part.is_contiguous() or (part.numel() and part.data_ptr() != at):
            return torch.cat(list(parts))
        at += part.numel() * part.element_size()
    rows = sum(part.shape[0] for part in parts)
    if first.untyped_storage().nbytes() < at - first.untyped_storage().data_ptr():
        return torch.cat(list(parts))  # neighbours by chance, in storages of their own
    return first.as_strided((rows, *first.shape[1:]), first.stride())


def grouped(kernel: Any) -> Any:
    """A kernel over groups. Sizes change from batch to batch: one that is compiled anew for them gains nothing."""
    return triton.jit(kernel, do_not_specialize=["n0", "n1", "n2", "n3", "cells", "tiles"])


# ----------------------------------------------------------------------------------------------------- inside kernels


@triton.jit  # type: ignore[untyped-decorator]
def group(n0: tl.tensor, n1: tl.tensor, n2: tl.tensor, n3: tl.tensor) -> tl.tuple:
    """The dimension of this program: where its cells start, and how many there are."""
    d = tl.program_id(1)
    start = tl.where(d > 0, n0, 0) + tl.where(d > 1, n1, 0) + tl.where(d > 2, n2, 0)
    count = tl.where(d == 0, n0, tl.where(d == 1, n1, tl.where(d == 2, n2, n3)))
    return d, start, count


@triton.jit  # type: ignore[untyped-decorator]
def real_rows(mask: tl.tensor, row: tl.tensor, live: tl.tensor, MASKED: tl.constexpr) -> tl.tensor:
    """Which of these rows are cells and no padding."""
    real = live
    if MASKED:
        real = live & (tl.load(mask + row, mask=live, other=0) != 0)
    return real


@triton.jit  # type: ignore[untyped-decorator]
def address(table: tl.tensor, i: tl.tensor) -> tl.tensor:
    """The i-th address of a table, of numbers in float32."""
    return tl.load(table + i).to(tl.pointer_type(tl.float32))


@triton.jit  # type: ignore[untyped-decorator]
def dot(a: tl.tensor, b: tl.tensor, total: tl.tensor, PRECISION: tl.constexpr) -> tl.tensor:
    """Total + a b."""
    if PRECISION == "bf16":
        total = tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16), total)
    else:
        total = tl.dot(a, b, total, input_precision=PRECISION)
    return total


@triton.jit  # type: ignore[untyped-decorator]
def within(x: tl.tensor, limit: tl.tensor) -> tl.tensor:
    """x, but between -limit and limit. NaN stays NaN."""
    x = tl.where(x > limit, limit, x)
    return tl.where(x < -limit, -limit, x)


@triton.jit  # type: ignore[untyped-decorator]
def capped(z: tl.tensor, ACT: tl.constexpr, CAP: tl.constexpr) -> tl.tensor:
    """What comes out of a norm, kept below the cap if there is one, and through the activation."""
    if CAP > 0:
        z = within(z, CAP)
    return value(z, ACT)


@triton.jit  # type: ignore[untyped-decorator]
def capped_slope(z: tl.tensor, ACT: tl.constexpr, CAP: tl.constexpr) -> tl.tensor:
    """The derivative of `capped`."""
    by = slope(z, ACT)
    if CAP > 0:
        by = tl.where((z > CAP) | (z < -CAP), 0.0, by)
    return by


@triton.jit  # type: ignore[untyped-decorator]
def value(z: tl.tensor, ACT: tl.constexpr) -> tl.tensor:
    """act(z). NaN stays NaN."""
    if ACT == "relu":
        z = tl.where(z < 0, 0.0, z)
    elif ACT == "elu":
        z = tl.where(z > 0, z, tl.exp(z) - 1)
    elif ACT == "tanh":
        z = 2 * tl.sigmoid(2 * z) - 1
    elif ACT == "silu":
        z = z * tl.sigmoid(z)
    else:
        tl.static_assert(ACT == "identity", "an activation that the kernels do not know")
    return z


@triton.jit  # type: ignore[untyped-decorator]
def slope(z: tl.tensor, ACT: tl.constexpr) -> tl.tensor:
    """act'(z)."""
    if ACT == "relu":
        by = tl.where(z <= 0, 0.0, 1.0)  # of NaN, as PyTorch has it
    elif ACT == "elu":
        by = tl.where(z > 0, 1.0, tl.exp(z))
    elif ACT == "tanh":
        by = 1 - value(z, "tanh") * value(z, "tanh")
    elif ACT == "silu":
        by = tl.sigmoid(z) * (1 + z * (1 - tl.sigmoid(z)))
    else:
        tl.static_assert(ACT == "identity", "an activation that the kernels do not know")
        by = tl.full(z.shape, 1.0, tl.float32)
    return by
