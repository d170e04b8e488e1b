"""Sums and means of the cells of every complex, all dimensions in one launch.

A program owns a complex, a dimension and a tile of columns. It adds rows in their order, without atomics: results are
the same bits in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from cwnet.nn.kernels import MAX_DIMS, differentiable_once
from cwnet.nn.kernels._tiles import WARPS, blocks, group, packed

__all__ = ["pool"]

ROWS, COLUMNS = 16, 64  #: of a tile.


def pool(x: Sequence[Tensor], ptrs: Sequence[Tensor], total: bool, mean: bool) -> Tensor:
    """Sums, means, or both side by side: [D, segments, width] or [D, segments, 2 width]; at most `MAX_DIMS` dimensions.

    Args:
        x: [rows, width] in each dimension, in float32.
        ptrs: segment i of dimension d is ``x[d][ptrs[d][i]:ptrs[d][i + 1]]``; later rows have no part.
        total: whether there are sums.
        mean: whether there are means.
    """
    out: Tensor = _Pool.apply(packed(list(ptrs)), total, mean, *x)  # type: ignore[no-untyped-call]
    return out


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ptr: Tensor, total: bool, mean: bool, *x: Tensor) -> Tensor:
        counts, width = [h.shape[0] for h in x], x[0].shape[1]
        segments = ptr.numel() // len(x) - 1
        out = x[0].new_empty(len(x), segments, (total + mean) * width)
        ctx.ptr, ctx.counts, ctx.flags = ptr, counts, {"TOTAL": total, "MEAN": mean}
        if out.numel():
            _launch(_pool_kernel, segments, packed([h.contiguous() for h in x]), out, ctx, width)
        return out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        width = grad.shape[2] // sum(ctx.flags.values())
        out = grad.new_empty(sum(ctx.counts), width)
        if out.numel():
            _launch(_pool_gradient_kernel, grad.shape[1] + 1, grad.contiguous(), out, ctx, width)
        return None, None, None, *torch.split(out, ctx.counts)


def _launch(kernel: Any, programs: int, source: Tensor, out: Tensor, ctx: Any, width: int) -> None:
    dims, columns = len(ctx.counts), blocks(width, COLUMNS)
    sizes = (*ctx.counts, *[0] * (MAX_DIMS - dims))
    with torch.cuda.device_of(out):  # type: ignore[no-untyped-call]
        kernel[(programs, dims, triton.cdiv(width, columns))](
            source, ctx.ptr, out, *sizes, ctx.ptr.numel() // dims - 1, width,
            **ctx.flags, ROWS=ROWS, COLUMNS=columns, num_warps=WARPS,
        )  # fmt: skip


_over_segments = triton.jit(do_not_specialize=["n0", "n1", "n2", "n3", "segments"])


@_over_segments  # type: ignore[untyped-decorator]
def _pool_kernel(
    x: tl.tensor,
    ptr: tl.tensor,
    out: tl.tensor,
    n0: tl.tensor,
    n1: tl.tensor,
    n2: tl.tensor,
    n3: tl.tensor,
    segments: tl.tensor,
    width: tl.tensor,
    TOTAL: tl.constexpr,
    MEAN: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """One segment of one dimension."""
    d, first, _ = group(n0, n1, n2, n3)
    i = tl.program_id(0)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    start = tl.load(ptr + d * (segments + 1) + i)
    stop = tl.load(ptr + d * (segments + 1) + i + 1)
    value = tl.zeros([COLUMNS], tl.float32)
    for top in range(start, stop, ROWS):
        row = top + tl.arange(0, ROWS)
        here = (row < stop)[:, None] & inside[None, :]
        value += tl.sum(tl.load(x + (first + row)[:, None] * width + column[None, :], mask=here, other=0.0), 0)
    at = out + (d * segments + i).to(tl.int64) * (TOTAL + MEAN) * width + column
    if TOTAL:
        tl.store(at, value, mask=inside)
    if MEAN:
        tl.store(at + TOTAL * width, value / tl.maximum(stop - start, 1).to(tl.float32), mask=inside)


@_over_segments  # type: ignore[untyped-decorator]
def _pool_gradient_kernel(
    grad: tl.tensor,
    ptr: tl.tensor,
    out: tl.tensor,
    n0: tl.tensor,
    n1: tl.tensor,
    n2: tl.tensor,
    n3: tl.tensor,
    segments: tl.tensor,
    width: tl.tensor,
    TOTAL: tl.constexpr,
    MEAN: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """The rows of one segment; of the last program, the zeros of those after the last segment."""
    d, first, count = group(n0, n1, n2, n3)
    i = tl.program_id(0)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    real = i < segments
    start = tl.load(ptr + d * (segments + 1) + i)
    stop = tl.load(ptr + d * (segments + 1) + i + 1, mask=real, other=0)
    stop = tl.where(real, stop, count)
    at = grad + (d * segments + i).to(tl.int64) * (TOTAL + MEAN) * width + column
    value = tl.zeros([COLUMNS], tl.float32)
    if TOTAL:
        value += tl.load(at, mask=inside & real, other=0.0)
    if MEAN:
        each = tl.load(at + TOTAL * width, mask=inside & real, other=0.0)
        value += each / tl.maximum(stop - start, 1).to(tl.float32)
    for top in range(start, stop, ROWS):
        row = top + tl.arange(0, ROWS)
        here = (row < stop)[:, None] & inside[None, :]
        to = out + (first + row)[:, None] * width + column[None, :]
        tl.store(to, tl.broadcast_to(value[None, :], [ROWS, COLUMNS]), mask=here)
