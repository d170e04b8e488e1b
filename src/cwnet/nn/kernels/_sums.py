"""The sums of `cwnet.nn.functional` as Triton kernels. Nothing here checks its arguments: the callers there do.

A program owns a tile of rows and columns. It walks the entries of its rows side by side, up to the longest of them,
and adds in float32. Every row is summed by one program in the order of its entries, without atomics, so results are the
same bits in every run.

Where cells meet in others, the cells that are met in are called hubs here, and the cells that meet members: for upper
adjacencies the hubs are the cofaces δ. `incidence.down` lists the members of every hub, `incidence.up` the hubs of
every member.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from cwnet.complexes import Csr, Incidence
from cwnet.nn.kernels._tiles import WARPS, slope, value

__all__ = [
    "adjacent_sum",
    "adjacent_sum_backward",
    "entry",
    "gather_sum",
    "hub_gradient_kernel",
    "hub_sum_kernel",
    "launch",
    "over_rows",
    "read",
    "row_tile",
    "spread",
]

THREAD_BYTES = 16  #: how much of a row of x a thread reads at once: the widest load there is.
NARROWEST, WIDEST = 16, 128  #: columns of a tile. Few sizes mean few kernels to compile.


def gather_sum(x: Tensor, rows: Csr) -> Tensor:
    """Σ_{j ∈ row i} x_j for every row i. [cells, width] → [rows, width]."""
    if not _any_work(x, rows):
        return x.new_zeros(rows.num_rows, x.shape[1])
    out = x.new_empty(rows.num_rows, x.shape[1])
    launch(_gather_sum_kernel, rows, x.contiguous(), out=(out,))
    return out


def spread(x: Tensor, ptr: Tensor, size: int) -> Tensor:
    """x_i in the rows ``ptr[i]:ptr[i + 1]``, zero in the rows of no segment: [segments, width] → [size, width]."""
    out = x.new_empty(size, x.shape[1])
    if out.numel():
        columns = min(max(triton.next_power_of_2(x.shape[1]), NARROWEST), WIDEST)
        with torch.cuda.device_of(out):  # type: ignore[no-untyped-call]
            _spread_kernel[(x.shape[0] + 1, triton.cdiv(x.shape[1], columns))](
                x.contiguous(), ptr, out, x.shape[0], size, x.shape[1], ROWS=16, COLUMNS=columns, num_warps=WARPS
            )
    return out


def adjacent_sum(x: Tensor, shared: Tensor, incidence: Incidence, act: str) -> Tensor:
    """Σ_{δ ∈ up(σ)} ( S(δ) − m(σ, δ) ) for every member σ, with S(δ) = Σ_{τ ∈ down(δ)} m(τ, δ).

    The message m(τ, δ) = act(x_τ + shared_δ) is computed anew in each of the two passes. S is kept in float32.
    """
    if not _any_work(x, incidence.down):
        return torch.zeros_like(x, memory_format=torch.contiguous_format)
    x, shared = x.contiguous(), shared.contiguous()
    total = torch.empty_like(shared, dtype=torch.float32)
    out = torch.empty_like(x)
    launch(hub_sum_kernel, incidence.down, x, shared, out=(total,), act=act)
    launch(_member_sum_kernel, incidence.up, x, shared, total, out=(out,), act=act)
    return out


def adjacent_sum_backward(
    grad: Tensor, x: Tensor, shared: Tensor, incidence: Incidence, act: str
) -> tuple[Tensor, Tensor]:
    """The gradients of `adjacent_sum`, given the gradient G of its result.

    With z(τ, δ) = x_τ + shared_δ and H(δ) = Σ_{σ ∈ down(δ)} G_σ, the gradient of m(τ, δ) is H(δ) − G_τ, so

        grad_shared_δ = Σ_{τ ∈ down(δ)} act'(z(τ, δ)) ( H(δ) − G_τ ),
        grad_x_τ      = Σ_{δ ∈ up(τ)}   act'(z(τ, δ)) ( H(δ) − G_τ ).

    The first pass makes H, which is kept in float32, and grad_shared; the second grad_x.
    """
    if not _any_work(x, incidence.down):
        return (
            torch.zeros_like(x, memory_format=torch.contiguous_format),
            torch.zeros_like(shared, memory_format=torch.contiguous_format),
        )
    grad, x, shared = grad.contiguous(), x.contiguous(), shared.contiguous()
    total = torch.empty_like(shared, dtype=torch.float32)
    grad_x, grad_shared = torch.empty_like(x), torch.empty_like(shared)
    launch(hub_gradient_kernel, incidence.down, grad, x, shared, out=(total, grad_shared), act=act)
    launch(_member_gradient_kernel, incidence.up, grad, x, shared, total, out=(grad_x,), act=act)
    return grad_x, grad_shared


# ------------------------------------------------------------------------------------------------------------ launches


def _any_work(x: Tensor, rows: Csr) -> bool:
    return rows.idx.numel() > 0 and x.shape[1] > 0


def launch(kernel: Any, rows: Csr, *inputs: Tensor, out: tuple[Tensor, ...], act: str | None = None) -> None:
    """Run a kernel over rows. Tile sizes follow from shapes alone: nothing waits for the GPU."""
    num_rows, width = out[0].shape
    columns = min(max(triton.next_power_of_2(width), NARROWEST), WIDEST)
    tile_rows = 32 * WARPS * THREAD_BYTES // (columns * inputs[0].element_size())
    grid = (triton.cdiv(num_rows, tile_rows), triton.cdiv(width, columns))
    constants: dict[str, Any] = {"ROWS": tile_rows, "COLUMNS": columns, "UNROLL": _unroll(rows)}
    if act is not None:
        constants["ACT"] = act
    with torch.cuda.device_of(out[0]):  # type: ignore[no-untyped-call]  # Triton launches on the current device
        kernel[grid](*inputs, rows.ptr, rows.idx, *out, num_rows, width, **constants, num_warps=WARPS)


def _unroll(rows: Csr) -> int:
    """How many entries of a row to read at once. More hide more latency, but rows shorter than that waste the rest."""
    return 2 if rows.idx.numel() <= 3 * rows.num_rows else 4


# Row counts change from batch to batch, and so does the alignment of index tensors cut out of others: a kernel that is
# compiled anew for them gains nothing. Whether the width is a multiple of 16 does matter, for wide loads.
over_rows = triton.jit(do_not_specialize=["num_rows"], do_not_specialize_on_alignment=["ptr", "idx"])


# ------------------------------------------------------------------------------------------------------------- kernels


@over_rows  # type: ignore[untyped-decorator]
def _gather_sum_kernel(
    x: tl.tensor,
    ptr: tl.tensor,
    idx: tl.tensor,
    out: tl.tensor,
    num_rows: tl.tensor,
    width: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    UNROLL: tl.constexpr,
) -> None:
    """out_i = Σ_{j ∈ row i} x_j."""
    start, size, at, here = row_tile(ptr, num_rows, width, ROWS, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, tl.max(size), UNROLL):
        for k in tl.static_range(UNROLL):
            there, live = entry(idx, start, size, first + k, width, COLUMNS)
            total += read(x, there, live)
    tl.store(out + at, total, mask=here)


@triton.jit(do_not_specialize=["segments", "size"])  # type: ignore[untyped-decorator]
def _spread_kernel(
    x: tl.tensor,
    ptr: tl.tensor,
    out: tl.tensor,
    segments: tl.tensor,
    size: tl.tensor,
    width: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """The rows of one segment; of the last program, those after the last segment and before the first."""
    i = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    start = tl.load(ptr + i)
    stop = tl.load(ptr + i + 1, mask=i < segments, other=0)
    stop = tl.where(i < segments, stop, size)
    value = tl.load(x + i.to(tl.int64) * width + column, mask=(column < width) & (i < segments), other=0.0)
    for first in range(start, stop, ROWS):
        row = first + tl.arange(0, ROWS)
        here = (row < stop)[:, None] & (column < width)[None, :]
        at = row.to(tl.int64)[:, None] * width + column[None, :]
        tl.store(out + at, tl.broadcast_to(value[None, :], [ROWS, COLUMNS]), mask=here)
    before = tl.where(i < segments, 0, tl.load(ptr))
    for first in range(0, before, ROWS):
        row = first + tl.arange(0, ROWS)
        here = (row < before)[:, None] & (column < width)[None, :]
        at = row.to(tl.int64)[:, None] * width + column[None, :]
        tl.store(out + at, tl.zeros([ROWS, COLUMNS], tl.float32), mask=here)


@over_rows  # type: ignore[untyped-decorator]
def hub_sum_kernel(
    x: tl.tensor,
    shared: tl.tensor,
    ptr: tl.tensor,
    idx: tl.tensor,
    hub_sum: tl.tensor,
    num_rows: tl.tensor,
    width: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    UNROLL: tl.constexpr,
    ACT: tl.constexpr,
) -> None:
    """S(δ) = Σ_{τ ∈ down(δ)} act(x_τ + shared_δ)."""
    start, size, at, here = row_tile(ptr, num_rows, width, ROWS, COLUMNS)
    hub = read(shared, at, here)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, tl.max(size), UNROLL):
        for k in tl.static_range(UNROLL):
            there, live = entry(idx, start, size, first + k, width, COLUMNS)
            member = read(x, there, live)
            total += tl.where(live, value(member + hub, ACT), 0.0)
    tl.store(hub_sum + at, total, mask=here)


@over_rows  # type: ignore[untyped-decorator]
def _member_sum_kernel(
    x: tl.tensor,
    shared: tl.tensor,
    hub_sum: tl.tensor,
    ptr: tl.tensor,
    idx: tl.tensor,
    out: tl.tensor,
    num_rows: tl.tensor,
    width: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    UNROLL: tl.constexpr,
    ACT: tl.constexpr,
) -> None:
    """out_σ = Σ_{δ ∈ up(σ)} ( S(δ) − act(x_σ + shared_δ) )."""
    start, size, at, here = row_tile(ptr, num_rows, width, ROWS, COLUMNS)
    member = read(x, at, here)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, tl.max(size), UNROLL):
        for k in tl.static_range(UNROLL):
            there, live = entry(idx, start, size, first + k, width, COLUMNS)
            hub, of_all = read(shared, there, live), read(hub_sum, there, live)
            total += tl.where(live, of_all - value(member + hub, ACT), 0.0)
    tl.store(out + at, total, mask=here)


@over_rows  # type: ignore[untyped-decorator]
def hub_gradient_kernel(
    grad: tl.tensor,
    x: tl.tensor,
    shared: tl.tensor,
    ptr: tl.tensor,
    idx: tl.tensor,
    hub_grad: tl.tensor,
    grad_shared: tl.tensor,
    num_rows: tl.tensor,
    width: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    UNROLL: tl.constexpr,
    ACT: tl.constexpr,
) -> None:
    """H(δ) = Σ_{τ ∈ down(δ)} G_τ, then grad_shared_δ = Σ_{τ ∈ down(δ)} act'(x_τ + shared_δ) ( H(δ) − G_τ )."""
    start, size, at, here = row_tile(ptr, num_rows, width, ROWS, COLUMNS)
    hub = read(shared, at, here)
    of_all = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, tl.max(size), UNROLL):
        for k in tl.static_range(UNROLL):
            there, live = entry(idx, start, size, first + k, width, COLUMNS)
            of_all += read(grad, there, live)
    tl.store(hub_grad + at, of_all, mask=here)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, tl.max(size), UNROLL):
        for k in tl.static_range(UNROLL):
            there, live = entry(idx, start, size, first + k, width, COLUMNS)
            member, own = read(x, there, live), read(grad, there, live)
            total += tl.where(live, slope(member + hub, ACT) * (of_all - own), 0.0)
    tl.store(grad_shared + at, total, mask=here)


@over_rows  # type: ignore[untyped-decorator]
def _member_gradient_kernel(
    grad: tl.tensor,
    x: tl.tensor,
    shared: tl.tensor,
    hub_grad: tl.tensor,
    ptr: tl.tensor,
    idx: tl.tensor,
    grad_x: tl.tensor,
    num_rows: tl.tensor,
    width: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    UNROLL: tl.constexpr,
    ACT: tl.constexpr,
) -> None:
    """grad_x_τ = Σ_{δ ∈ up(τ)} act'(x_τ + shared_δ) ( H(δ) − G_τ )."""
    start, size, at, here = row_tile(ptr, num_rows, width, ROWS, COLUMNS)
    member, own = read(x, at, here), read(grad, at, here)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, tl.max(size), UNROLL):
        for k in tl.static_range(UNROLL):
            there, live = entry(idx, start, size, first + k, width, COLUMNS)
            hub, of_all = read(shared, there, live), read(hub_grad, there, live)
            total += tl.where(live, slope(member + hub, ACT) * (of_all - own), 0.0)
    tl.store(grad_x + at, total, mask=here)


# ----------------------------------------------------------------------------------------- what the kernels are made of


@triton.jit  # type: ignore[untyped-decorator]
def row_tile(
    ptr: tl.tensor, num_rows: tl.tensor, width: tl.tensor, ROWS: tl.constexpr, COLUMNS: tl.constexpr
) -> tl.tuple:
    """Where the rows of this program start in idx, their sizes, and the offsets and mask of its tile."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    start = tl.load(ptr + row, mask=row < num_rows, other=0)
    stop = tl.load(ptr + row + 1, mask=row < num_rows, other=0)
    here = (row < num_rows)[:, None] & (column < width)[None, :]
    return start, (stop - start).to(tl.int32), row.to(tl.int64)[:, None] * width + column[None, :], here


@triton.jit  # type: ignore[untyped-decorator]
def entry(
    idx: tl.tensor, start: tl.tensor, size: tl.tensor, k: tl.tensor, width: tl.tensor, COLUMNS: tl.constexpr
) -> tl.tuple:
    """The k-th entry of every row: the offsets of the cell it names, and a mask without the rows that have no k-th."""
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    cell = tl.load(idx + start + k, mask=k < size, other=0).to(tl.int64)
    return cell[:, None] * width + column[None, :], (k < size)[:, None] & (column < width)[None, :]


@triton.jit  # type: ignore[untyped-decorator]
def read(x: tl.tensor, at: tl.tensor, mask: tl.tensor) -> tl.tensor:
    """Numbers in float32, zero where the mask is not."""
    return tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
