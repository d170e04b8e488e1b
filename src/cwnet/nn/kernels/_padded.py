"""Mini-batches gathered on the GPU into arrays of fixed size, so that a CUDA graph can hold the gathering too.

A batch is described by the numbers of its complexes alone; -1 stands for none. One program lays out where each complex
goes, then a program per complex and dimension copies its cells and their incidences. Real cells come first in each
dimension, padding after them: padding has empty boundaries and coboundaries and belongs to no complex.

All tensors of the store are found through a table of addresses, [5, D]: `cell_ptr` (64 bit), then pointers and entries
of boundaries and of coboundaries (32 bit, numbers local to the complex).
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

__all__ = ["gather_padded"]


def gather_padded(
    table: Tensor,
    order: Tensor,
    step: Tensor,
    starts: Tensor,
    *,
    chosen: Tensor,
    now: Tensor,
    cell_ptr: Tensor,
    entries: Tensor,
    source: Tensor,
    mask: Tensor,
    ptr: Tensor,
    idx: Tensor,
    local: Tensor,
) -> None:
    """Fill the arrays of a padded batch with the complexes of the next step, and count the step.

    Args:
        table: addresses of the store's tensors, [5, D].
        order: the complexes of every step, [steps, B]; -1 for none.
        step: the number of the next step, [1]; one more afterwards.
        starts: where the cells of each dimension start, [D + 1].
        chosen: the complexes of this step, [B].
        now: the number of this step, [1].
        cell_ptr: where each complex starts in each dimension, [D, B + 1].
        entries: the same for its incidences, from below and from above, [2, D, B + 1].
        source: the cell of the store that each cell is, [N].
        mask: whether it is a cell and no padding, [N].
        ptr: where the boundary, and the coboundary, of each cell starts, [2, N + 1].
        idx: the cells on them, numbered through all dimensions, [2, incidences].
        local: the same, numbered from 0 in each dimension.
    """
    size, dims = order.shape[1], starts.numel() - 1
    block = triton.next_power_of_2(size)
    _plan_kernel[(1,)](
        table, order, step, chosen, now, cell_ptr, entries, size, DIMS=dims, BLOCK=block, num_warps=4
    )  # fmt: skip
    _copy_kernel[(size + 1, dims)](
        table, chosen, starts, cell_ptr, entries, source, mask, ptr, idx, local,
        size, source.numel(), idx.shape[1], BLOCK=128, num_warps=4,
    )  # fmt: skip


@triton.jit  # type: ignore[untyped-decorator]
def _plan_kernel(
    table: tl.tensor,
    order: tl.tensor,
    step: tl.tensor,
    chosen: tl.tensor,
    now: tl.tensor,
    cell_ptr: tl.tensor,
    entries: tl.tensor,
    size: tl.tensor,
    DIMS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Where each complex of the batch goes: the sizes of those before it, added up."""
    number = tl.load(step)
    slot = tl.arange(0, BLOCK)
    inside = slot < size
    complex_ = tl.load(order + number * size + slot, mask=inside, other=-1)
    real = inside & (complex_ >= 0)
    tl.store(chosen + slot, complex_, mask=inside)
    below = number * 0
    above = number * 0
    for d in tl.static_range(DIMS):
        cells = tl.load(table + d).to(tl.pointer_type(tl.int64))
        first = tl.load(cells + complex_, mask=real, other=0)
        last = tl.load(cells + complex_ + 1, mask=real, other=0)
        tl.store(cell_ptr + d * (size + 1) + slot + 1, tl.cumsum(last - first, 0), mask=inside)
        tl.store(cell_ptr + d * (size + 1), number * 0)
        down = tl.load(table + DIMS + d).to(tl.pointer_type(tl.int32))
        many = tl.load(down + last, mask=real, other=0) - tl.load(down + first, mask=real, other=0)
        at = entries + d * (size + 1)
        tl.store(at, below)
        tl.store(at + slot + 1, below + tl.cumsum(many.to(tl.int64), 0), mask=inside)
        below += tl.sum(many.to(tl.int64))
        up = tl.load(table + 3 * DIMS + d).to(tl.pointer_type(tl.int32))
        many = tl.load(up + last, mask=real, other=0) - tl.load(up + first, mask=real, other=0)
        at = entries + (DIMS + d) * (size + 1)
        tl.store(at, above)
        tl.store(at + slot + 1, above + tl.cumsum(many.to(tl.int64), 0), mask=inside)
        above += tl.sum(many.to(tl.int64))
    tl.store(now, number)
    tl.store(step, number + 1)


@triton.jit  # type: ignore[untyped-decorator]
def _copy_kernel(
    table: tl.tensor,
    chosen: tl.tensor,
    starts: tl.tensor,
    cell_ptr: tl.tensor,
    entries: tl.tensor,
    source: tl.tensor,
    mask: tl.tensor,
    ptr: tl.tensor,
    idx: tl.tensor,
    local: tl.tensor,
    size: tl.tensor,
    cells: tl.tensor,
    incidences: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """The cells of one complex and dimension, or, after the last complex, the padding of the dimension."""
    slot, d = tl.program_id(0), tl.program_id(1)
    dims = tl.num_programs(1)
    start = tl.load(starts + d)
    if slot == size:
        below = tl.load(entries + d * (size + 1) + size)
        above = tl.load(entries + (dims + d) * (size + 1) + size)
        stop = tl.load(starts + d + 1)
        for first in range(start + tl.load(cell_ptr + d * (size + 1) + size), stop, BLOCK):
            row = first + tl.arange(0, BLOCK)
            live = row < stop
            tl.store(source + row, row * 0, mask=live)
            tl.store(mask + row, row * 0 == 1, mask=live)
            tl.store(ptr + row, row * 0 + below, mask=live)
            tl.store(ptr + cells + 1 + row, row * 0 + above, mask=live)
        if d == dims - 1:
            tl.store(ptr + cells, below)
            tl.store(ptr + 2 * cells + 1, above)
    else:
        complex_ = tl.load(chosen + slot)
        if complex_ >= 0:
            place = cell_ptr + d * (size + 1) + slot
            to = start + tl.load(place)
            count = tl.load(place + 1) - tl.load(place)
            origin = tl.load(tl.load(table + d).to(tl.pointer_type(tl.int64)) + complex_)
            for first in range(0, count, BLOCK):
                c = first + tl.arange(0, BLOCK)
                tl.store(source + to + c, origin + c, mask=c < count)
                tl.store(mask + to + c, c >= 0, mask=c < count)
            for side in tl.static_range(2):  # boundaries, then coboundaries
                rows = tl.load(table + (1 + 2 * side) * dims + d).to(tl.pointer_type(tl.int32)) + origin
                list_ = tl.load(table + (2 + 2 * side) * dims + d).to(tl.pointer_type(tl.int32))
                low = tl.load(rows).to(tl.int64)
                high = tl.load(rows + count).to(tl.int64)
                target = tl.load(entries + (side * dims + d) * (size + 1) + slot)
                for first in range(0, count, BLOCK):
                    c = first + tl.arange(0, BLOCK)
                    begin = tl.load(rows + c, mask=c < count, other=0)
                    tl.store(ptr + side * (cells + 1) + to + c, target + begin - low, mask=c < count)
                other = d - 1 + 2 * side  # the dimension of the cells that are listed
                if (other >= 0) & (other < dims):
                    shift = tl.load(cell_ptr + other * (size + 1) + slot)
                    base = tl.load(starts + other)
                    out = side * incidences + target
                    for first in range(0, high - low, BLOCK):
                        e = first + tl.arange(0, BLOCK)
                        cell = shift + tl.load(list_ + low + e, mask=e < high - low, other=0)
                        tl.store(local + out + e, cell, mask=e < high - low)
                        tl.store(idx + out + e, base + cell, mask=e < high - low)
