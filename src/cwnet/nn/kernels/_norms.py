"""Batch norm and layer norm of a layer's products, without passes of their own.

A product leaves statistics of its tiles behind, and whoever reads its result y next applies the norm on the way in.

- **Batch norm** has statistics of columns: those of all tiles are put together by a tiny kernel, which also moves the
  running averages, and makes z = y · scale + shift of them.
- **Layer norm** has statistics of rows. A row lies in as many tiles as there are columns of tiles, each of which leaves
  the mean and the squared deviations of its part of the row; the reader puts these few together by itself.

The gradient runs back the same way. With x̂ = (y − μ) / σ, z = γ x̂ + β and g the gradient in front of the activation,
both norms need Σ g and Σ g x̂ over the cells for β and γ, and then

    batch norm:  grad y = γ/σ (g − mean g − x̂ mean(g x̂)),         means over the cells,
    layer norm:  grad y = 1/σ (γ g − mean(γ g) − x̂ mean(γ g x̂)),   means over the features.

Nothing is added up atomically: tiles leave partial sums, which are added in a fixed order, so results are the same bits
in every run.
"""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from cwnet.nn.kernels._tiles import (
    COLUMNS,
    ROWS,
    WARPS,
    Plan,
    address,
    blocks,
    capped,
    capped_slope,
    group,
    grouped,
    in_use,
    real_rows,
    within,
)

__all__ = [
    "GradientSums",
    "NormGradients",
    "Normed",
    "Norms",
    "across_rows",
    "apply_norm",
    "batch_norm",
    "grad_norm",
    "gradient_sums",
    "layer_norm",
    "leave_gradient_sums",
    "leave_row_statistics",
    "leave_tile_statistics",
    "new_gradient_sums",
    "of_group",
    "parts",
    "row_statistics",
    "row_sums",
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


@dataclass(frozen=True)
class GradientSums:
    """What the gradient of a norm needs to know of all of its tiles."""

    tiles: Tensor  # Σ g and Σ g x̂ of each tile, [2, B · D, tiles, H]
    rows: Tensor | None  # layer: Σ γ g and Σ γ g x̂ of parts of rows, [2, B, parts, N]


@dataclass(frozen=True)
class NormGradients:
    """The gradients of a norm's parameters, and the means that its statistics take out of the gradient of y."""

    of_bias: Tensor | None  # [B · D, H]; None under layer norm, where it is a sum over the gradient of y
    of_gamma: Tensor
    of_beta: Tensor
    mean_g: Tensor  # batch: [B · D, H]; layer: Σ γ g of parts of rows, [B, parts, N]
    mean_gx: Tensor  # batch: [B · D, H]; layer: Σ γ g x̂ of parts of rows, [B, parts, N]


def parts(width: int) -> dict[str, int]:
    """What kernels need to read rows in parts: the features of a part, and a power of two that covers the parts."""
    part = blocks(width, COLUMNS)
    return {"PART": part, "PARTS": max(2, triton.next_power_of_2(triton.cdiv(width, part)))}


# ------------------------------------------------------------------------------------------------------------ launches


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


def gradient_sums(plan: Plan, grad: Tensor, normed: Normed) -> GradientSums:
    """The sums of each tile that the gradient of a norm needs, from the gradient behind the activation, [B, N, H]."""
    branches, _, h = normed.y.shape
    sums = new_gradient_sums(plan, normed)
    columns = blocks(h, COLUMNS)
    _gradient_sums_kernel[(plan.tiles * triton.cdiv(h, columns), plan.dims, branches)](
        grad=grad,
        y=normed.y,
        scale=normed.scale,
        shift=normed.shift,
        mean=normed.mean,
        rstd=normed.rstd,
        mask=in_use(plan.mask, grad),
        tile_sums=sums.tiles,
        part_sums=in_use(sums.rows, grad),
        **plan.sizes,
        cells=plan.cells,
        tiles=plan.tiles,
        h_size=h,
        ACT=plan.act,
        CAP=plan.cap,
        NORM=normed.kind,
        MASKED=plan.mask is not None,
        ROWS=ROWS,
        COLUMNS=columns,
        num_warps=WARPS,
    )
    return sums


def new_gradient_sums(plan: Plan, normed: Normed) -> GradientSums:
    """Where the sums of tiles go."""
    branches, _, h = normed.y.shape
    tiles = normed.y.new_empty(2, branches * plan.dims, plan.tiles, h)
    return GradientSums(tiles, None if normed.parts is None else normed.parts.new_empty(normed.parts.shape))


def grad_norm(plan: Plan, normed: Normed, sums: GradientSums) -> NormGradients:
    """Add the sums of all tiles up."""
    branches, _, h = normed.y.shape
    groups = branches * plan.dims
    batch = normed.kind == "batch"
    of_gamma, of_beta, *more = normed.y.new_empty(5 if batch else 2, groups, h).unbind(0)
    of_bias, mean_g, mean_gx = more if batch else (None, None, None)
    columns = blocks(h, FEATURES)
    _grad_norm_kernel[(triton.cdiv(h, columns), plan.dims, branches)](
        tile_sums=sums.tiles,
        share=in_use(normed.share, of_gamma),
        scale=normed.scale,
        of_gamma=of_gamma,
        of_beta=of_beta,
        of_bias=in_use(of_bias, of_gamma),
        mean_g=in_use(mean_g, of_gamma),
        mean_gx=in_use(mean_gx, of_gamma),
        **plan.sizes,
        tiles=plan.tiles,
        h_size=h,
        NORM=normed.kind,
        ROWS=ROWS,
        COLUMNS=columns,
        TILES=TILES,
        num_warps=WARPS,
    )
    if mean_g is None or mean_gx is None:
        assert sums.rows is not None
        mean_g, mean_gx = sums.rows.unbind(0)
    return NormGradients(of_bias, of_gamma, of_beta, mean_g, mean_gx)


# ------------------------------------------------------------------------------------- for kernels that read or leave


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
    means = _parts_of_rows(statistics, row, live, b, cells, width, PART, PARTS)
    apart = _parts_of_rows(statistics + plane, row, live, b, cells, width, PART, PARTS)
    mean = tl.sum(size * means, 1) / width
    off = means - mean[:, None]
    var = tl.sum(apart + size * off * off, 1) / width
    return mean, 1 / tl.sqrt(var + eps)


@triton.jit  # type: ignore[untyped-decorator]
def row_sums(
    sums: tl.tensor,  # [B, parts, N]
    row: tl.tensor,  # among all N
    live: tl.tensor,
    b: tl.tensor,
    cells: tl.tensor,
    width: tl.tensor,
    PART: tl.constexpr,
    PARTS: tl.constexpr,
) -> tl.tensor:
    """The sums of rows, from those of their parts."""
    return tl.sum(_parts_of_rows(sums, row, live, b, cells, width, PART, PARTS), 1)


@triton.jit  # type: ignore[untyped-decorator]
def _parts_of_rows(
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


@triton.jit  # type: ignore[untyped-decorator]
def leave_gradient_sums(
    grad: tl.tensor,  # [rows, columns], behind the activation
    y: tl.tensor,  # [B, N, width]
    scale: tl.tensor,
    shift: tl.tensor,
    mean: tl.tensor,
    rstd: tl.tensor,
    tile_sums: tl.tensor,  # [2, B · D, tiles, width]
    part_sums: tl.tensor,  # layer: [2, B, parts, N]
    d: tl.tensor,
    row: tl.tensor,  # among all N
    live: tl.tensor,
    real: tl.tensor,
    column: tl.tensor,
    cells: tl.tensor,
    tile: tl.tensor,
    tiles: tl.tensor,
    part: tl.tensor,
    width: tl.tensor,
    ACT: tl.constexpr,
    CAP: tl.constexpr,
    NORM: tl.constexpr,
    PART: tl.constexpr,
) -> None:
    """The sums of a tile that the gradient of its norm needs."""
    b, branches, dims = tl.program_id(2), tl.num_programs(2), tl.num_programs(1)
    inside = column < width
    here = real[:, None] & inside[None, :]
    g = b * dims + d
    values = tl.load(y + ((b * cells + row).to(tl.int64) * width)[:, None] + column[None, :], mask=here, other=0.0)
    by = across_rows(of_group(scale, g, width, NORM), column, inside)
    to = across_rows(of_group(shift, g, width, NORM), column, inside)
    if NORM == "layer":
        cell = b * cells + row
        values = values - tl.load(mean + cell, mask=live, other=0.0)[:, None]
        normed = values * tl.load(rstd + cell, mask=live, other=0.0)[:, None]
        z = normed * by + to
    else:
        z = values * by + to
        normed = values - across_rows(of_group(mean, g, width, NORM), column, inside)
        normed = normed * across_rows(of_group(rstd, g, width, NORM), column, inside)
    inner = tl.where(here, grad * capped_slope(z, ACT, CAP), 0.0)
    at = (g * tiles + tile) * width + column
    tl.store(tile_sums + at, tl.sum(inner, 0), mask=inside)
    tl.store(tile_sums + branches * dims * tiles * width + at, tl.sum(inner * normed, 0), mask=inside)
    if NORM == "layer":
        many = tl.cdiv(width, PART)
        at_part = cells.to(tl.int64) * (b * many + part) + row
        tl.store(part_sums + at_part, tl.sum(inner * by, 1), mask=live)
        plane = cells.to(tl.int64) * branches * many
        tl.store(part_sums + plane + at_part, tl.sum(inner * by * normed, 1), mask=live)


# ------------------------------------------------------------------------------------------------------------- kernels


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
        at, there = _some_tiles(first, used, g, tiles, h_size, column, inside, TILES)
        rows = tl.load(statistics + at, mask=there, other=0.0)
        size += tl.sum(rows, 0)
        total += tl.sum(rows * tl.load(statistics + plane + at, mask=there, other=0.0), 0)
    mean = total / tl.maximum(size, 1.0)
    apart = tl.zeros([COLUMNS], tl.float32)
    for first in range(0, used, TILES):
        at, there = _some_tiles(first, used, g, tiles, h_size, column, inside, TILES)
        rows = tl.load(statistics + at, mask=there, other=0.0)
        off = tl.load(statistics + plane + at, mask=there, other=0.0) - mean[None, :]
        apart += tl.sum(rows * off * off + tl.load(statistics + 2 * plane + at, mask=there, other=0.0), 0)
    return size, mean, apart


@triton.jit  # type: ignore[untyped-decorator]
def _some_tiles(
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
        of_row, by_row = row_statistics(parts, start + row, live, 0, 1, cells, h_size, eps, PART, PARTS)
        values = (values - of_row[:, None]) * by_row[:, None]
        if block == 0:
            tl.store(mean + start + row, of_row, mask=live)
            tl.store(rstd + start + row, by_row, mask=live)
    z = values * across_rows(of_group(scale, d, h_size, NORM), column, inside)
    z += across_rows(of_group(shift, d, h_size, NORM), column, inside)
    tl.store(out + at, capped(z, ACT, CAP), mask=here)


@grouped
def _gradient_sums_kernel(
    grad: tl.tensor,  # [B, N, H]
    y: tl.tensor,  # [B, N, H]
    scale: tl.tensor,  # this and the next three: see `Normed`
    shift: tl.tensor,
    mean: tl.tensor,
    rstd: tl.tensor,
    mask: tl.tensor,  # [N]
    tile_sums: tl.tensor,  # out, [2, B · D, tiles, H]
    part_sums: tl.tensor,  # layer: out, [2, B, parts, N]
    n0: tl.tensor,
    n1: tl.tensor,
    n2: tl.tensor,
    n3: tl.tensor,
    cells: tl.tensor,
    tiles: tl.tensor,
    h_size: tl.tensor,
    ACT: tl.constexpr,
    CAP: tl.constexpr,
    NORM: tl.constexpr,
    MASKED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Per tile, Σ g and Σ g x̂ with g the gradient in front of the activation."""
    d, start, count = group(n0, n1, n2, n3)
    across = tl.cdiv(h_size, COLUMNS)
    tile, block = tl.program_id(0) // across, tl.program_id(0) % across
    if tile * ROWS >= count:
        return
    row = tile * ROWS + tl.arange(0, ROWS)
    live = row < count
    column = block * COLUMNS + tl.arange(0, COLUMNS)
    real = real_rows(mask, start + row, live, MASKED)
    at = ((tl.program_id(2) * cells + start + row).to(tl.int64) * h_size)[:, None] + column[None, :]
    g = tl.load(grad + at, mask=real[:, None] & (column < h_size)[None, :], other=0.0)
    leave_gradient_sums(
        g, y, scale, shift, mean, rstd, tile_sums, part_sums, d, start + row, live, real, column,
        cells, tile, tiles, block, h_size, ACT, CAP, NORM, COLUMNS,
    )  # fmt: skip


@grouped
def _grad_norm_kernel(
    tile_sums: tl.tensor,  # [2, B · D, tiles, H]
    share: tl.tensor,  # batch: [B · D]
    scale: tl.tensor,  # batch: [B · D, H]
    of_gamma: tl.tensor,  # out, [B · D, H]
    of_beta: tl.tensor,  # out, [B · D, H]
    of_bias: tl.tensor,  # batch: out, [B · D, H]
    mean_g: tl.tensor,  # batch: out, [B · D, H]
    mean_gx: tl.tensor,  # batch: out, [B · D, H]
    n0: tl.tensor,
    n1: tl.tensor,
    n2: tl.tensor,
    n3: tl.tensor,
    tiles: tl.tensor,
    h_size: tl.tensor,
    NORM: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TILES: tl.constexpr,
) -> None:
    """The gradients of γ and β, and the means that a batch's statistics take out of the gradient of y.

    A bias in front of a batch norm has a gradient only where running averages are used: the batch's mean takes it out.
    """
    d, _, count = group(n0, n1, n2, n3)
    dims, groups = tl.num_programs(1), tl.num_programs(1) * tl.num_programs(2)
    g = tl.program_id(2) * dims + d
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < h_size
    plane = groups * tiles * h_size
    used = tl.cdiv(count, ROWS)
    total = tl.zeros([COLUMNS], tl.float32)
    total_x = tl.zeros([COLUMNS], tl.float32)
    for first in range(0, used, TILES):
        at, there = _some_tiles(first, used, g, tiles, h_size, column, inside, TILES)
        total += tl.sum(tl.load(tile_sums + at, mask=there, other=0.0), 0)
        total_x += tl.sum(tl.load(tile_sums + plane + at, mask=there, other=0.0), 0)
    out = g * h_size + column
    tl.store(of_beta + out, total, mask=inside)
    tl.store(of_gamma + out, total_x, mask=inside)
    if NORM == "batch":
        part = tl.load(share + g)
        by = tl.load(scale + out, mask=inside, other=0.0)
        tl.store(of_bias + out, tl.where(part == 0, by * total, 0.0), mask=inside)
        tl.store(mean_g + out, total * part, mask=inside)
        tl.store(mean_gx + out, total_x * part, mask=inside)
