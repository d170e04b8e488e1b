"""The sums of `cwnet.nn.functional` as Triton kernels. Nothing here checks its arguments: the callers there do.

A program owns a tile of rows and columns. It walks the entries of its rows side by side, up to the longest of them,
and adds in float32. Every row is summed by one program in the order of its entries, without atomics, so results are the
same bits in every run, whatever the size of the tile.

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

__all__ = ["adjacent_sum", "adjacent_sum_backward", "gather_sum"]

TILE = 1024  #: elements of a tile. With the warps below that is eight for each thread, or 32 bytes of float32.
WARPS = 4
NARROWEST, WIDEST = 16, 128  #: columns of a tile. Few sizes mean few kernels to compile.


def gather_sum(x: Tensor, rows: Csr) -> Tensor:
    """Σ_{j ∈ row i} x_j for every row i. [cells, width] → [rows, width]."""
    if not _any_work(x, rows):
        return x.new_zeros(rows.num_rows, x.shape[1])
    out = x.new_empty(rows.num_rows, x.shape[1])
    _launch(_gather_sum_kernel, rows, x.contiguous(), out=(out,))
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
    _launch(_hub_sum_kernel, incidence.down, x, shared, out=(total,), act=act)
    _launch(_member_sum_kernel, incidence.up, x, shared, total, out=(out,), act=act)
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
    _launch(_hub_gradient_kernel, incidence.down, grad, x, shared, out=(total, grad_shared), act=act)
    _launch(_member_gradient_kernel, incidence.up, grad, x, shared, total, out=(grad_x,), act=act)
    return grad_x, grad_shared


# ------------------------------------------------------------------------------------------------------------ launches


def _any_work(x: Tensor, rows: Csr) -> bool:
    return rows.idx.numel() > 0 and x.shape[1] > 0


def _launch(kernel: Any, rows: Csr, *inputs: Tensor, out: tuple[Tensor, ...], act: str | None = None) -> None:
    """Run a kernel over rows. The sizes of its tile follow from shapes alone, so that nothing waits for the GPU."""
    num_rows, width = out[0].shape
    columns = min(max(triton.next_power_of_2(width), NARROWEST), WIDEST)
    tile = max(TILE // columns, 1)
    grid = (triton.cdiv(num_rows, tile), triton.cdiv(width, columns))
    constants: dict[str, Any] = {"ROWS": tile, "COLUMNS": columns, "UNROLL": _unroll(rows)}
    if act is not None:
        constants["ACT"] = act
    with torch.cuda.device_of(out[0]):  # Triton launches on the current device
        kernel[grid](*inputs, rows.ptr, rows.idx, *out, num_rows, width, **constants, num_warps=WARPS)


def _unroll(rows: Csr) -> int:
    """How many entries of a row to read at once. More hide more latency, but rows shorter than that waste the rest."""
    return 2 if rows.idx.numel() <= 3 * rows.num_rows else 4


# Row counts change from batch to batch, and so does the alignment of index tensors cut out of others: a kernel that is
# compiled anew for them gains nothing. Whether the width is a multiple of 16 does matter, for wide loads.
_jit = triton.jit(do_not_specialize=["num_rows"], do_not_specialize_on_alignment=["ptr", "idx"])


# ------------------------------------------------------------------------------------------------------------- kernels


@_jit  # type: ignore[untyped-decorator]
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
    start, size, at, here = _tile(ptr, num_rows, width, ROWS, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, tl.max(size), UNROLL):
        there, live = _entries(idx, start, size, first, width, COLUMNS, UNROLL)
        x_j = _read_all(x, there, live, UNROLL)
        for k in tl.static_range(UNROLL):
            total += x_j[k]
    tl.store(out + at, total, mask=here)


@_jit  # type: ignore[untyped-decorator]
def _hub_sum_kernel(
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
    start, size, at, here = _tile(ptr, num_rows, width, ROWS, COLUMNS)
    hub = _read(shared, at, here)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, tl.max(size), UNROLL):
        there, live = _entries(idx, start, size, first, width, COLUMNS, UNROLL)
        member = _read_all(x, there, live, UNROLL)
        for k in tl.static_range(UNROLL):
            total += tl.where(live[k], _value(member[k] + hub, ACT), 0.0)
    tl.store(hub_sum + at, total, mask=here)


@_jit  # type: ignore[untyped-decorator]
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
    start, size, at, here = _tile(ptr, num_rows, width, ROWS, COLUMNS)
    member = _read(x, at, here)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, tl.max(size), UNROLL):
        there, live = _entries(idx, start, size, first, width, COLUMNS, UNROLL)
        hub = _read_all(shared, there, live, UNROLL)
        all_of_hub = _read_all(hub_sum, there, live, UNROLL)
        for k in tl.static_range(UNROLL):
            total += tl.where(live[k], all_of_hub[k] - _value(member + hub[k], ACT), 0.0)
    tl.store(out + at, total, mask=here)


@_jit  # type: ignore[untyped-decorator]
def _hub_gradient_kernel(
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
    start, size, at, here = _tile(ptr, num_rows, width, ROWS, COLUMNS)
    hub = _read(shared, at, here)
    all_of_hub = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, tl.max(size), UNROLL):
        there, live = _entries(idx, start, size, first, width, COLUMNS, UNROLL)
        own = _read_all(grad, there, live, UNROLL)
        for k in tl.static_range(UNROLL):
            all_of_hub += own[k]
    tl.store(hub_grad + at, all_of_hub, mask=here)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, tl.max(size), UNROLL):
        there, live = _entries(idx, start, size, first, width, COLUMNS, UNROLL)
        member = _read_all(x, there, live, UNROLL)
        own = _read_all(grad, there, live, UNROLL)
        for k in tl.static_range(UNROLL):
            total += tl.where(live[k], _slope(member[k] + hub, ACT) * (all_of_hub - own[k]), 0.0)
    tl.store(grad_shared + at, total, mask=here)


@_jit  # type: ignore[untyped-decorator]
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
    start, size, at, here = _tile(ptr, num_rows, width, ROWS, COLUMNS)
    member = _read(x, at, here)
    own = _read(grad, at, here)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, tl.max(size), UNROLL):
        there, live = _entries(idx, start, size, first, width, COLUMNS, UNROLL)
        hub = _read_all(shared, there, live, UNROLL)
        all_of_hub = _read_all(hub_grad, there, live, UNROLL)
        for k in tl.static_range(UNROLL):
            total += tl.where(live[k], _slope(member + hub[k], ACT) * (all_of_hub[k] - own), 0.0)
    tl.store(grad_x + at, total, mask=here)


# ------------------------------------------------------------------------------------------- what the kernels are made of


@triton.jit  # type: ignore[untyped-decorator]
def _tile(ptr: tl.tensor, num_rows: tl.tensor, width: tl.tensor, ROWS: tl.constexpr, COLUMNS: tl.constexpr) -> tl.tuple:
    """Where the rows of this program start in idx, their sizes, and the offsets and mask of its tile."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    start = tl.load(ptr + row, mask=row < num_rows, other=0)
    stop = tl.load(ptr + row + 1, mask=row < num_rows, other=0)
    here = (row < num_rows)[:, None] & (column < width)[None, :]
    return start, (stop - start).to(tl.int32), row.to(tl.int64)[:, None] * width + column[None, :], here


@triton.jit  # type: ignore[untyped-decorator]
def _entries(
    idx: tl.tensor,
    start: tl.tensor,
    size: tl.tensor,
    first: tl.tensor,
    width: tl.tensor,
    COLUMNS: tl.constexpr,
    UNROLL: tl.constexpr,
) -> tl.tuple:
    """The next entries of every row: offsets of the cells they name, and masks without the rows that have ended."""
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    there, live = (), ()
    for k in tl.static_range(UNROLL):
        in_row = first + k < size
        # Cells are fewer than 2^31, so a product of 32-bit numbers does. Offsets need 64 bits.
        cell = tl.load(idx + start + (first + k), mask=in_row, other=0).to(tl.int32)
        there = there + (cell.to(tl.int64)[:, None] * width + column[None, :],)  # noqa: RUF005
        live = live + (in_row[:, None] & (column < width)[None, :],)  # noqa: RUF005
    return there, live


@triton.jit  # type: ignore[untyped-decorator]
def _read(x: tl.tensor, at: tl.tensor, mask: tl.tensor) -> tl.tensor:
    return tl.load(x + at, mask=mask, other=0.0).to(tl.float32)


@triton.jit  # type: ignore[untyped-decorator]
def _read_all(x: tl.tensor, at: tl.tuple, mask: tl.tuple, UNROLL: tl.constexpr) -> tl.tuple:
    """Several reads in a row: left to itself, the compiler waits for one before it starts the next."""
    values = ()
    for k in tl.static_range(UNROLL):
        values = values + (_read(x, at[k], mask[k]),)  # noqa: RUF005
    return values


@triton.jit  # type: ignore[untyped-decorator]
def _value(z: tl.tensor, ACT: tl.constexpr) -> tl.tensor:
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
def _slope(z: tl.tensor, ACT: tl.constexpr) -> tl.tensor:
    """act'(z)."""
    if ACT == "relu":
        slope = tl.where(z > 0, 1.0, 0.0)
    elif ACT == "elu":
        slope = tl.where(z > 0, 1.0, tl.exp(z))
    elif ACT == "tanh":
        slope = 1 - _value(z, "tanh") * _value(z, "tanh")
    elif ACT == "silu":
        slope = tl.sigmoid(z) * (1 + z * (1 - tl.sigmoid(z)))
    else:
        tl.static_assert(ACT == "identity", "an activation that the kernels do not know")
        slope = tl.full(z.shape, 1.0, tl.float32)
    return slope
