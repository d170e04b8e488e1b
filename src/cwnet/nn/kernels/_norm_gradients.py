"""The gradients of batch norm and layer norm, without passes of their own either.

With x̂ = (y − μ) / σ, z = γ x̂ + β and g the gradient in front of the activation, both norms need Σ g and Σ g x̂ over the
cells for β and γ, and then

    batch norm:  grad y = γ/σ (g − mean g − x̂ mean(g x̂)),         means over the cells,
    layer norm:  grad y = 1/σ (γ g − mean(γ g) − x̂ mean(γ g x̂)),   means over the features.

Whoever makes the gradient behind the activation leaves the sums of its tiles behind; for layer norm, also those of its
parts of rows. The first are added up by a tiny kernel, the second by the next reader.
"""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from cwnet.nn.kernels._norms import FEATURES, TILES, Normed, across_rows, of_group, parts_of_rows, some_tiles
from cwnet.nn.kernels._tiles import COLUMNS, ROWS, WARPS, Plan, blocks, capped_slope, group, grouped, in_use, real_rows

__all__ = [
    "GradientSums",
    "NormGradients",
    "grad_norm",
    "gradient_sums",
    "leave_gradient_sums",
    "new_gradient_sums",
    "row_sums",
]


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


# ------------------------------------------------------------------------------------------------------------- launches


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


# --------------------------------------------------------------------------------------- for kernels that read or leave


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
    return tl.sum(parts_of_rows(sums, row, live, b, cells, width, PART, PARTS), 1)


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


# -------------------------------------------------------------------------------------------------------------- kernels


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
        grad=g,
        y=y,
        scale=scale,
        shift=shift,
        mean=mean,
        rstd=rstd,
        tile_sums=tile_sums,
        part_sums=part_sums,
        d=d,
        row=start + row,
        live=live,
        real=real,
        column=column,
        cells=cells,
        tile=tile,
        tiles=tiles,
        part=block,
        width=h_size,
        ACT=ACT,
        CAP=CAP,
        NORM=NORM,
        PART=COLUMNS,
    )


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
        at, there = some_tiles(first, used, g, tiles, h_size, column, inside, TILES)
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
