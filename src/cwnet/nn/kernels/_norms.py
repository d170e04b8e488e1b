"""Batch norm and layer norm of a layer's products, without passes of their own.

A product leaves statistics of its tiles behind, and whoever reads its result y next applies the norm on the way in.

- **Batch norm** has statistics of columns: those of all tiles are put together by a tiny kernel, which also moves the
  running averages, and makes z = y · scale + shift of them.
- **Layer norm** has statistics of rows. A row lies in as many tiles as there are columns of tiles, each of which leaves
  the mean and the squared deviations of its part of the row; the reader puts these few together by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from cwnet.nn.kernels._tiles import COLUMNS, ROWS, WARPS, Plan, address, blocks, capped, group, grouped, in_use, within

__all__ = [
    "FEATURES",
    "TILES",
    "Normed",
    "Norms",
    "across_rows",
    "apply_norm",
    "batch_norm",
    "layer_norm",
    "leave_row_statistics",
    "leave_tile_statistics",
    "of_group",
    "parts",
    "parts_of_rows",
    "row_statistics",
    "some_tiles",
]

TILES, FEATURES = 32, 32  #: tiles and features that a program adds up at once.


@dataclass(frozen=True)
class Norms:
    """The norms of all groups of a stage, found by their addresses."""

    kind: str  # "batch" or "layer"
    table: Tensor  # addresses of γ, β and the bias in front; of batch norms, μ and σ² on average: [3 or 5, B · D]
    eps: float
    momentum: float = 0.0
    limit: float | None = None


@dataclass(frozen=True)
class Normed:
    """The result of a product before its norm, and what the norm needs to be applied."""

    y: Tensor  # [B, N, H]
    kind: str  # "batch" or "layer"
    eps: float
    scale: Tensor  # batch: γ / σ, [B · D, H]; layer: addresses of γ, [B · D]
    shift: Tensor  # batch: β − μ γ / σ, [B · D, H]; layer: addresses of β, [B · D]
    mean: Tensor  # μ. batch: [B · D, H]; layer: [B, N], written by the next reader
    rstd: Tensor  # 1 / σ, likewise
    share: Tensor | None  # batch: [B · D], 1 / rows where the statistics are the batch's, 0 where running averages
    parts: Tensor | None  # layer: means and squared deviations of parts of rows, [2, B, parts, N]


def parts(width: int) -> dict[str, int]:
    """What kernels need to read rows in parts: the features of a part, and a power of two that covers the parts."""
    part = blocks(width, COLUMNS)
    return {"PART": part, "PARTS": max(2, triton.next_power_of_2(triton.cdiv(width, part)))}


# ------------------------------------------------------------------------------------------------------------- launches


def batch_norm(plan: Plan, y: Tensor, statistics: Tensor | None, norms: Norms) -> Normed:
    """The norms of a product: those of the batch if there are `statistics`, [3, B · D, tiles, H], else running ones."""
    branches, _, h = y.shape
    groups = branches * plan.dims
    scale, shift, mean, rstd = y.new_empty(4, groups, h).unbind(0)
    share = y.new_empty(groups)
    columns = blocks(h, FEATURES)
    _batch_norm_kernel[(triton.cdiv(h, columns), plan.dims, branches)](
        statistics=in_use(statistics, y),
        table=norms.table,
        scale=scale,
        shift=shift,
        mean_out=mean,
        rstd_out=rstd,
        share=share,
        **plan.sizes,
        tiles=plan.tiles,
        h_size=h,
        eps=norms.eps,
        momentum=norms.momentum,
        limit=norms.limit or 0.0,
        TRAINING=statistics is not None,
        LIMITED=norms.limit is not None,
        ROWS=ROWS,
        COLUMNS=columns,
        TILES=TILES,
        num_warps=WARPS,
    )
    return Normed(y, "batch", norms.eps, scale, shift, mean, rstd, share, None)


def layer_norm(y: Tensor, statistics: Tensor, norms: Norms) -> Normed:
    """The norms of a product that left the statistics of parts of its rows behind, [2, B, parts, N]."""
    mean, rstd = y.new_empty(2, *y.shape[:2]).unbind(0)
    return Normed(y, "layer", norms.eps, norms.table[0], norms.table[1], mean, rstd, None, statistics)


def apply_norm(plan: Plan, normed: Normed) -> Tensor:
    """act(norm(y)) of a product with one branch: [N, H]."""
    h = normed.y.shape[2]
    out = normed.y.new_empty(plan.cells, h)
    columns = blocks(h, COLUMNS)
    _apply_kernel[(plan.tiles * triton.cdiv(h, columns), plan.dims)](
        y=normed.y,
        scale=normed.scale,
        shift=normed.shift,
        parts=in_use(normed.parts, normed.y),
        mean=normed.mean,
        rstd=normed.rstd,
        out=out,
        **plan.sizes,
        cells=plan.cells,
        h_size=h,
        eps=normed.eps,
        ACT=plan.act,
        CAP=plan.cap,
        NORM=normed.kind,
        ROWS=ROWS,
        COLUMNS=columns,
        **parts(h),
        num_warps=WARPS,
    )
    return out


# --------------------------------------------------------------------------------------- for kernels that read or leave


@triton.jit  # type: ignore[untyped-decorator]
def of_group(
    values: tl.tensor,  # batch: [groups, width]; layer: addresses, [groups]
    g: tl.tensor,
    width: tl.tensor,
    NORM: tl.constexpr,
) -> tl.tensor:
    """Where the numbers of group g start, such as its scale."""
    if NORM == "layer":
        at = address(values, g)
    else:
        at = values + g * width
    return at


@triton.jit  # type: ignore[untyped-decorator]
def across_rows(values: tl.tensor, column: tl.tensor, inside: tl.tensor) -> tl.tensor:
    """Numbers that all rows share, one per feature: [1, columns]."""
    return tl.load(values + column, mask=inside, other=0.0)[None, :]


@triton.jit  # type: ignore[untyped-decorator]
def leave_tile_statistics(
    y: tl.tensor,  # [rows, columns]
    real: tl.tensor,  # [rows]
    statistics: tl.tensor,  # [3, groups, tiles, H]
    g: tl.tensor,
    groups: tl.tensor,
    tile: tl.tensor,
    tiles: tl.tensor,
    h_size: tl.tensor,
    column: tl.tensor,
    COLUMNS: tl.constexpr,
) -> None:
    """The number of a tile's real rows, and per column their mean and squared deviations."""
    inside = column < h_size
    size = tl.sum(real.to(tl.float32))
    mean = tl.sum(tl.where(real[:, None], y, 0.0), 0) / tl.maximum(size, 1.0)
    apart = tl.where(real[:, None], y - mean[None, :], 0.0)
    at = (g * tiles + tile) * h_size + column
    plane = groups * tiles * h_size
    tl.store(statistics + at, size + tl.zeros([COLUMNS], tl.float32), mask=inside)
    tl.store(statistics + plane + at, mean, mask=inside)
    tl.store(statistics + 2 * plane + at, tl.sum(apart * apart, 0), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def leave_row_statistics(
    y: tl.tensor,  # [rows, columns]
    statistics: tl.tensor,  # [2, B, parts, N]
    row: tl.tensor,  # among all N
    live: tl.tensor,
    b: tl.tensor,
    branches: tl.tensor,
    part: tl.tensor,
    cells: tl.tensor,
    h_size: tl.tensor,
    inside: tl.tensor,  # [columns]
    PART: tl.constexpr,
) -> None:
    """The mean and the squared deviations of a part of each row."""
    size = tl.minimum(h_size - part * PART, PART).to(tl.float32)
    mean = tl.sum(tl.where(inside[None, :], y, 0.0), 1) / size
    apart = tl.where(inside[None, :], y - mean[:, None], 0.0)
    many = tl.cdiv(h_size, PART)
    at = cells.to(tl.int64) * (b * many + part) + row
    tl.store(statistics + at, mean, mask=live)
    tl.store(statistics + cells.to(tl.int64) * branches * many + at, tl.sum(apart * apart, 1), mask=live)


@triton.jit  # type: ignore[untyped-decorator]
def row_statistics(
    statistics: tl.tensor,  # [2, B, parts, N]
    row: tl.tensor,  # among all N
    live: tl.tensor,
    b: tl.tensor,
    branches: tl.tensor,
    cells: tl.tensor,
    width: tl.tensor,
    eps: tl.tensor,
    PART: tl.constexpr,
    PARTS: tl.constexpr,
) -> tl.tuple:
    """μ and 1 / σ of rows, put together from those of their parts (Chan et al., 1979)."""
    part = tl.arange(0, PARTS)
    size = tl.maximum(tl.minimum(width - part * PART, PART), 0).to(tl.float32)[None, :]
    plane = cells.to(tl.int64) * branches * tl.cdiv(width, PART)
    means = parts_of_rows(statistics, row, live, b, cells, width, PART, PARTS)
    apart = parts_of_rows(statistics + plane, row, live, b, cells, width, PART, PARTS)
    mean = tl.sum(size * means, 1) / width
    off = means - mean[:, None]
    var = tl.sum(apart + size * off * off, 1) / width
    return mean, 1 / tl.sqrt(var + eps)


@triton.jit  # type: ignore[untyped-decorator]
def parts_of_rows(
    values: tl.tensor,  # [B, parts, N]
    row: tl.tensor,
    live: tl.tensor,
    b: tl.tensor,
    cells: tl.tensor,
    width: tl.tensor,
    PART: tl.constexpr,
    PARTS: tl.constexpr,
) -> tl.tensor:
    """What there is of all parts of some rows: [rows, PARTS], zero past the last part."""
    part = tl.arange(0, PARTS)
    at = cells.to(tl.int64) * (b * tl.cdiv(width, PART) + part)[None, :] + row[:, None]
    return tl.load(values + at, mask=live[:, None] & (part * PART < width)[None, :], other=0.0)


# -------------------------------------------------------------------------------------------------------------- kernels


@grouped
def _batch_norm_kernel(
    statistics: tl.tensor,  # number of rows, mean and squared deviations of each tile, [3, B · D, tiles, H]
    table: tl.tensor,  # addresses of γ, β, bias, running mean and variance, each [H]: [5, B · D]
    scale: tl.tensor,  # out, [B · D, H]
    shift: tl.tensor,  # out, [B · D, H]
    mean_out: tl.tensor,  # out, [B · D, H]
    rstd_out: tl.tensor,  # out, [B · D, H]
    share: tl.tensor,  # out, [B · D]
    n0: tl.tensor,
    n1: tl.tensor,
    n2: tl.tensor,
    n3: tl.tensor,
    tiles: tl.tensor,
    h_size: tl.tensor,
    eps: tl.tensor,
    momentum: tl.tensor,
    limit: tl.tensor,
    TRAINING: tl.constexpr,
    LIMITED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TILES: tl.constexpr,
) -> None:
    """Put the statistics of tiles together, move the running averages, and make a scale and a shift.

    A bias in front of a batch norm cancels in training; it is seen by the running mean alone.
    """
    d, _, count = group(n0, n1, n2, n3)
    dims, groups = tl.num_programs(1), tl.num_programs(1) * tl.num_programs(2)
    g = tl.program_id(2) * dims + d
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < h_size
    gamma = tl.load(address(table, g) + column, mask=inside, other=0.0)
    beta = tl.load(address(table, groups + g) + column, mask=inside, other=0.0)
    bias = tl.load(address(table, 2 * groups + g) + column, mask=inside, other=0.0)
    running_mean = address(table, 3 * groups + g) + column
    running_var = address(table, 4 * groups + g) + column
    old_mean = tl.load(running_mean, mask=inside, other=0.0)
    old_var = tl.load(running_var, mask=inside, other=0.0)
    mean, var, part = old_mean - bias, old_var, 0.0
    if TRAINING:
        size, batch_mean, apart = _together(statistics, g, groups, count, tiles, h_size, column, ROWS, COLUMNS, TILES)
        enough = size > 1
        away = batch_mean + bias - old_mean
        unbiased = apart / tl.maximum(size - 1, 1.0)
        more = momentum * (unbiased - old_var)
        if LIMITED:
            wide = old_var + eps
            away = within(away / tl.sqrt(wide), limit) * tl.sqrt(wide)
            more = wide * (tl.exp(momentum * within(tl.log((unbiased + eps) / wide), limit)) - 1)
        tl.store(running_mean, old_mean + momentum * away, mask=inside & enough)
        tl.store(running_var, old_var + more, mask=inside & enough)
        mean = tl.where(enough, batch_mean, mean)
        var = tl.where(enough, apart / tl.maximum(size, 1.0), var)
        part = tl.max(tl.where(enough & inside, 1 / tl.maximum(size, 1.0), 0.0))
    rstd = 1 / tl.sqrt(var + eps)
    out = g * h_size + column
    tl.store(scale + out, gamma * rstd, mask=inside)
    tl.store(shift + out, beta - mean * gamma * rstd, mask=inside)
    tl.store(mean_out + out, mean, mask=inside)
    tl.store(rstd_out + out, rstd, mask=inside)
    if tl.program_id(0) == 0:
        tl.store(share + g, part)


@triton.jit  # type: ignore[untyped-decorator]
def _together(
    statistics: tl.tensor,  # [3, groups, tiles, H]
    g: tl.tensor,
    groups: tl.tensor,
    count: tl.tensor,
    tiles: tl.tensor,
    h_size: tl.tensor,
    column: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TILES: tl.constexpr,
) -> tl.tuple:
    """The number of rows of a group, and the mean and the squared deviations of each column, from those of tiles."""
    inside = column < h_size
    plane = groups * tiles * h_size
    used = tl.cdiv(count, ROWS)
    size = tl.zeros([COLUMNS], tl.float32)
    total = tl.zeros([COLUMNS], tl.float32)
    for first in range(0, used, TILES):
        at, there = some_tiles(first, used, g, tiles, h_size, column, inside, TILES)
        rows = tl.load(statistics + at, mask=there, other=0.0)
        size += tl.sum(rows, 0)
        total += tl.sum(rows * tl.load(statistics + plane + at, mask=there, other=0.0), 0)
    mean = total / tl.maximum(size, 1.0)
    apart = tl.zeros([COLUMNS], tl.float32)
    for first in range(0, used, TILES):
        at, there = some_tiles(first, used, g, tiles, h_size, column, inside, TILES)
        rows = tl.load(statistics + at, mask=there, other=0.0)
        off = tl.load(statistics + plane + at, mask=there, other=0.0) - mean[None, :]
        apart += tl.sum(rows * off * off + tl.load(statistics + 2 * plane + at, mask=there, other=0.0), 0)
    return size, mean, apart


@triton.jit  # type: ignore[untyped-decorator]
def some_tiles(
    first: tl.tensor,
    used: tl.tensor,
    g: tl.tensor,
    tiles: tl.tensor,
    h_size: tl.tensor,
    column: tl.tensor,
    inside: tl.tensor,
    TILES: tl.constexpr,
) -> tl.tuple:
    """Where the sums of some tiles of a group lie, and which of them there are."""
    tile = first + tl.arange(0, TILES)
    at = (g * tiles + tile)[:, None] * h_size + column[None, :]
    return at, (tile < used)[:, None] & inside[None, :]


@grouped
def _apply_kernel(
    y: tl.tensor,  # [N, H]
    scale: tl.tensor,  # batch: [D, H]; layer: addresses, [D]
    shift: tl.tensor,  # likewise
    parts: tl.tensor,  # layer: [2, 1, parts, N]
    mean: tl.tensor,  # layer: out, [N]
    rstd: tl.tensor,  # layer: out, [N]
    out: tl.tensor,  # [N, H]
    n0: tl.tensor,
    n1: tl.tensor,
    n2: tl.tensor,
    n3: tl.tensor,
    cells: tl.tensor,
    h_size: tl.tensor,
    eps: tl.tensor,
    ACT: tl.constexpr,
    CAP: tl.constexpr,
    NORM: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PART: tl.constexpr,
    PARTS: tl.constexpr,
) -> None:
    """Out = act(y · scale + shift), where layer norm takes x̂ for y."""
    d, start, count = group(n0, n1, n2, n3)
    across = tl.cdiv(h_size, COLUMNS)
    tile, block = tl.program_id(0) // across, tl.program_id(0) % across
    row = tile * ROWS + tl.arange(0, ROWS)
    live = row < count
    column = block * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < h_size
    here = live[:, None] & inside[None, :]
    at = ((start + row).to(tl.int64) * h_size)[:, None] + column[None, :]
    values = tl.load(y + at, mask=here, other=0.0)
    if NORM == "layer":
        of_row, by_row = row_statistics(
            statistics=parts,
            row=start + row,
            live=live,
            b=0,
            branches=1,
            cells=cells,
            width=h_size,
            eps=eps,
            PART=PART,
            PARTS=PARTS,
        )
        values = (values - of_row[:, None]) * by_row[:, None]
        if block == 0:
            tl.store(mean + start + row, of_row, mask=live)
            tl.store(rstd + start + row, by_row, mask=live)
    z = values * across_rows(of_group(scale, d, h_size, NORM), column, inside)
    z += across_rows(of_group(shift, d, h_size, NORM), column, inside)
    tl.store(out + at, capped(z, ACT, CAP), mask=here)
