"""The gradients of a layer's products: of their inputs, and of weights and biases. See `_products`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from cwnet.nn.kernels._norm_gradients import (
    GradientSums,
    NormGradients,
    leave_gradient_sums,
    new_gradient_sums,
    row_sums,
)
from cwnet.nn.kernels._norms import Normed, across_rows, of_group, parts
from cwnet.nn.kernels._products import DEPTH, STAGES
from cwnet.nn.kernels._tiles import (
    COLUMNS,
    ROWS,
    WARPS,
    Plan,
    blocks,
    capped,
    capped_slope,
    dot,
    group,
    grouped,
    in_use,
    real_rows,
)

__all__ = ["WeightGradients", "grad_weights", "product_backward"]

CHUNK = 256  #: cells that one program adds up in the gradient of weights.
HIGH, WIDE = 32, 128  #: a tile of the gradient of weights.


# ------------------------------------------------------------------------------------------------------------ of inputs


def product_backward(
    plan: Plan,
    grad: Tensor,
    normed: Normed,
    norm: NormGradients,
    a: Tensor,
    before: Normed | None,
    table: Tensor,
    like: Tensor,
) -> tuple[Tensor, Tensor, GradientSums | None]:
    """From the gradient behind a product's norm and activation to those of the product and of its input.

    Args:
        plan: of the layer.
        grad: [B, N, H].
        normed: the product's result y.
        norm: what the statistics of y take out of its gradient.
        a: its input, [blocks, N, K].
        before: the norm of a, if the product applied it.
        table: addresses of weights, [blocks, D].
        like: a weight, for its strides.

    Returns:
        The gradients of y and a, and what the gradient of the norm before needs.
    """
    many, _, k = a.shape
    branches, _, h = normed.y.shape
    grad_y, grad_a = torch.empty_like(normed.y), torch.empty_like(a)
    sums = None if before is None else new_gradient_sums(plan, before)
    past = normed if before is None else before
    columns = blocks(k, COLUMNS)
    _product_backward_kernel[(plan.tiles * triton.cdiv(k, columns), plan.dims, many)](
        grad=grad,
        y=normed.y,
        scale=normed.scale,
        shift=normed.shift,
        mean=normed.mean,
        rstd=normed.rstd,
        mean_g=norm.mean_g,
        mean_gx=norm.mean_gx,
        weights=table,
        a=a,
        a_scale=past.scale,
        a_shift=past.shift,
        a_mean=past.mean,
        a_rstd=past.rstd,
        mask=in_use(plan.mask, grad),
        grad_y=grad_y,
        grad_a=grad_a,
        tile_sums=grad if sums is None else sums.tiles,
        part_sums=grad if sums is None else in_use(sums.rows, grad),
        **plan.sizes,
        cells=plan.cells,
        tiles=plan.tiles,
        k_size=k,
        h_size=h,
        stride_h=like.stride(0),
        ACT=plan.act,
        CAP=plan.cap,
        SHARED=branches == 1,
        NORM=normed.kind,
        NORMED=before is not None,
        MASKED=plan.mask is not None,
        PRECISION=plan.precision,
        ALIGNMENT=plan.alignment,
        ROWS=ROWS,
        COLUMNS=columns,
        DEPTH=blocks(h, DEPTH),
        **parts(h),
        num_warps=WARPS,
        num_stages=STAGES,
    )
    return grad_y, grad_a, sums


@grouped
def _product_backward_kernel(
    grad: tl.tensor,  # [B, N, H]
    y: tl.tensor,  # [B, N, H]
    scale: tl.tensor,  # this and the next three: of the norm of y, see `Normed`
    shift: tl.tensor,
    mean: tl.tensor,
    rstd: tl.tensor,
    mean_g: tl.tensor,  # batch: [B · D, H]; layer: [B, parts, N]
    mean_gx: tl.tensor,  # likewise
    weights: tl.tensor,  # addresses, [blocks, D]
    a: tl.tensor,  # [blocks, N, K]
    a_scale: tl.tensor,  # this and the next three: of the norm of a
    a_shift: tl.tensor,
    a_mean: tl.tensor,
    a_rstd: tl.tensor,
    mask: tl.tensor,  # [N]
    grad_y: tl.tensor,  # out, [B, N, H]
    grad_a: tl.tensor,  # out, [blocks, N, K]
    tile_sums: tl.tensor,  # out, [2, blocks · D, tiles, K]
    part_sums: tl.tensor,  # layer: out, [2, blocks, parts, N]
    n0: tl.tensor,
    n1: tl.tensor,
    n2: tl.tensor,
    n3: tl.tensor,
    cells: tl.tensor,
    tiles: tl.tensor,
    k_size: tl.tensor,
    h_size: tl.tensor,
    stride_h: tl.tensor,
    ACT: tl.constexpr,
    CAP: tl.constexpr,
    SHARED: tl.constexpr,
    NORM: tl.constexpr,
    NORMED: tl.constexpr,
    MASKED: tl.constexpr,
    PRECISION: tl.constexpr,
    ALIGNMENT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    PART: tl.constexpr,
    PARTS: tl.constexpr,
) -> None:
    """grad_a = grad_y W, with grad_y as in `_norms`. It is zero in padding.

    Where one product read all blocks (`SHARED`), its gradient goes back to each of them.
    """
    d, start, count = group(n0, n1, n2, n3)
    b, dims = tl.program_id(2), tl.num_programs(1)
    across = tl.cdiv(k_size, COLUMNS)
    tile, block = tl.program_id(0) // across, tl.program_id(0) % across
    if tile * ROWS >= count:
        return
    row = tile * ROWS + tl.arange(0, ROWS)
    live = row < count
    real = real_rows(mask, start + row, live, MASKED)
    column = block * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < k_size
    branch = b * 0 if SHARED else b  # of grad and y
    g, first_row = branch * dims + d, branch * cells + start + row
    writes = (block == 0) & (b == branch)  # all programs of a row find the same grad_y: one of them stores it
    if NORM == "layer":
        of_row = tl.load(mean + first_row, mask=live, other=0.0)[:, None]
        by_row = tl.load(rstd + first_row, mask=live, other=0.0)[:, None]
        row_g = row_sums(mean_g, start + row, live, branch, cells, h_size, PART, PARTS)[:, None] / h_size
        row_gx = row_sums(mean_gx, start + row, live, branch, cells, h_size, PART, PARTS)[:, None] / h_size
    by_at, to_at = of_group(scale, g, h_size, NORM), of_group(shift, g, h_size, NORM)
    place = tl.load(weights + b * dims + d)
    weight = tl.multiple_of(place.to(tl.pointer_type(tl.float32)), ALIGNMENT)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for h in range(0, h_size, DEPTH):
        hh = h + tl.arange(0, DEPTH)
        deep = hh < h_size
        at = (first_row.to(tl.int64) * h_size)[:, None] + hh[None, :]
        there = real[:, None] & deep[None, :]
        values = tl.load(y + at, mask=there, other=0.0)
        outer = tl.load(grad + at, mask=there, other=0.0)
        by, to = across_rows(by_at, hh, deep), across_rows(to_at, hh, deep)
        if NORM == "layer":
            normed = (values - of_row) * by_row
            inner = outer * capped_slope(normed * by + to, ACT, CAP) * by
            inner = (inner - row_g - normed * row_gx) * by_row
        else:
            inner = outer * capped_slope(values * by + to, ACT, CAP)
            normed = values - across_rows(mean + g * h_size, hh, deep)
            normed = normed * across_rows(rstd + g * h_size, hh, deep)
            inner -= across_rows(mean_g + g * h_size, hh, deep)
            inner -= normed * across_rows(mean_gx + g * h_size, hh, deep)
            inner = inner * by
        inner = tl.where(there, inner, 0.0)
        if writes:
            tl.store(grad_y + at, inner, mask=live[:, None] & deep[None, :])
        w = tl.load(weight + hh[:, None] * stride_h + column[None, :], mask=deep[:, None] & inside[None, :], other=0.0)
        total = dot(inner, w, total, PRECISION)
    at_a = ((b * cells + start + row).to(tl.int64) * k_size)[:, None] + column[None, :]
    tl.store(grad_a + at_a, total, mask=live[:, None] & inside[None, :])
    if NORMED:
        leave_gradient_sums(
            grad=total,
            y=a,
            scale=a_scale,
            shift=a_shift,
            mean=a_mean,
            rstd=a_rstd,
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
            width=k_size,
            ACT=ACT,
            CAP=CAP,
            NORM=NORM,
            PART=COLUMNS,
        )


# ----------------------------------------------------------------------------------------------------------- of weights


class WeightGradients:
    """The gradients of many parameters: each program leaves its part behind, and all are added up at the end.

    Args:
        plan: of the layer.
        groups: lists of parameters, those of a list of one shape.
        like: a tensor on the device.
    """

    def __init__(self, plan: Plan, groups: Sequence[Sequence[Tensor]], like: Tensor) -> None:
        self.groups = groups
        sizes = [sum(t.numel() for t in tensors) for tensors in groups]
        self.starts = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
        self.chunks = triton.cdiv(max(plan.counts), CHUNK)
        self.parts = like.new_empty(self.chunks, self.starts[-1])

    def of(self, tensors: Sequence[Tensor]) -> Tensor:
        """Where the parts of a group go, [chunks, ...]."""
        i = next(i for i, other in enumerate(self.groups) if other is tensors)
        return self.parts[:, self.starts[i] : self.starts[i + 1]]

    def added_up(self) -> list[list[Tensor]]:
        """Per group, the gradient of each of its tensors."""
        flat = self.parts[0] if self.chunks == 1 else self.parts.sum(0)
        return [
            list(flat[a:b].view(len(tensors), *tensors[0].shape).unbind(0)) if tensors else []
            for tensors, a, b in zip(self.groups, self.starts, self.starts[1:], strict=False)
        ]


def grad_weights(
    plan: Plan,
    grad_y: Tensor,
    a: Tensor,
    normed: Normed | None,
    gradients: WeightGradients,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor] = (),
    *,
    meeting: bool = False,
) -> None:
    """The gradients of the weights of all groups, Σ_rows grad_yᵀ T(a), chunk by chunk, and of biases, Σ_rows grad_y.

    Where all blocks of `a` go into one product, or one product is split into two (`meeting`, which M of the messages
    is), a weight's gradient is put together side by side.

    Args:
        plan: of the layer.
        grad_y: [B, N, H].
        a: [blocks, N, K].
        normed: the norm of a, if the product applied it.
        gradients: where the results go.
        weights: one per group.
        biases: likewise; none where their gradients are not sums over all rows.
        meeting: whether these are the maps M of messages.
    """
    out = gradients.of(weights)
    many = max(a.shape[0], grad_y.shape[0])
    h, k = grad_y.shape[2], a.shape[2]
    side_by_side = meeting or (grad_y.shape[0] == 1 and a.shape[0] > 1)
    row = many * k if side_by_side else k
    columns, high = blocks(k, WIDE), blocks(h, HIGH)
    _grad_weights_kernel[(gradients.chunks * triton.cdiv(h, high) * triton.cdiv(k, columns), plan.dims, many)](
        grad_y=grad_y,
        a=a,
        scale=a if normed is None else normed.scale,
        shift=a if normed is None else normed.shift,
        mean=a if normed is None else normed.mean,
        rstd=a if normed is None else normed.rstd,
        of_weights=out,
        of_biases=gradients.of(biases) if biases else out,
        **plan.sizes,
        cells=plan.cells,
        k_size=k,
        h_size=h,
        stride_chunk=out.stride(0),
        stride_weight=h * row,
        stride_h=row,
        stride_block=k if side_by_side else plan.dims * h * row,
        ACT=plan.act,
        CAP=plan.cap,
        NORM="none" if normed is None else normed.kind,
        SHARED_Y=grad_y.shape[0] == 1,
        SHARED_A=a.shape[0] == 1,
        MEETING=meeting,
        BIASED=bool(biases),
        PRECISION=plan.precision,
        CHUNK=CHUNK,
        HIGH=high,
        COLUMNS=columns,
        DEPTH=DEPTH,
        num_warps=WARPS,
        num_stages=STAGES,
    )


@grouped
def _grad_weights_kernel(
    grad_y: tl.tensor,  # [B, N, H]
    a: tl.tensor,  # [blocks, N, K]
    scale: tl.tensor,  # this and the next three: of the norm of a, see `Normed`
    shift: tl.tensor,
    mean: tl.tensor,
    rstd: tl.tensor,
    of_weights: tl.tensor,  # out, [chunks, weights, H, K of what is side by side], chunks `stride_chunk` apart
    of_biases: tl.tensor,  # out, [chunks, biases, H], chunks `stride_chunk` apart
    n0: tl.tensor,
    n1: tl.tensor,
    n2: tl.tensor,
    n3: tl.tensor,
    cells: tl.tensor,
    k_size: tl.tensor,
    h_size: tl.tensor,
    stride_chunk: tl.tensor,
    stride_weight: tl.tensor,
    stride_h: tl.tensor,
    stride_block: tl.tensor,
    ACT: tl.constexpr,
    CAP: tl.constexpr,
    NORM: tl.constexpr,
    SHARED_Y: tl.constexpr,
    SHARED_A: tl.constexpr,
    MEETING: tl.constexpr,
    BIASED: tl.constexpr,
    PRECISION: tl.constexpr,
    CHUNK: tl.constexpr,
    HIGH: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
) -> None:
    """Σ grad_yᵀ T(a) and Σ grad_y over the rows of a chunk; zero for chunks past the end."""
    d, start, count = group(n0, n1, n2, n3)
    b, dims = tl.program_id(2), tl.num_programs(1)
    across = tl.cdiv(k_size, COLUMNS)
    pieces = across * tl.cdiv(h_size, HIGH)
    chunk, piece = tl.program_id(0) // pieces, tl.program_id(0) % pieces
    weight, bias, writes = d, b * dims + d, piece % across == 0
    if SHARED_Y:
        bias, writes = d, writes & (b == 0)
    if MEETING:  # the second half of M's columns is for cells of one dimension further up, and so is its bias
        weight = d - b
        bias, writes = weight, (piece % across == 0) & (b == 1)
        if (weight < 0) | (weight >= dims - 1):
            return
    hh = (piece // across) * HIGH + tl.arange(0, HIGH)
    kk = (piece % across) * COLUMNS + tl.arange(0, COLUMNS)
    high, inside = hh < h_size, kk < k_size
    of_y, of_a = (0 if SHARED_Y else b), (0 if SHARED_A else b)
    if NORM != "none":
        by = across_rows(of_group(scale, of_a * dims + d, k_size, NORM), kk, inside)
        to = across_rows(of_group(shift, of_a * dims + d, k_size, NORM), kk, inside)
    total = tl.zeros([HIGH, COLUMNS], tl.float32)
    total_y = tl.zeros([HIGH], tl.float32)
    stop = tl.minimum(count, (chunk + 1) * CHUNK)
    for first in range(chunk * CHUNK, stop, DEPTH):
        row = first + tl.arange(0, DEPTH)
        live = row < stop
        y_row = (of_y * cells + start + row).to(tl.int64) * h_size
        gy = tl.load(grad_y + y_row[None, :] + hh[:, None], mask=high[:, None] & live[None, :], other=0.0)
        a_row = of_a * cells + start + row
        x = tl.load(
            a + (a_row.to(tl.int64) * k_size)[:, None] + kk[None, :], mask=live[:, None] & inside[None, :], other=0.0
        )
        if NORM == "layer":
            x = x - tl.load(mean + a_row, mask=live, other=0.0)[:, None]
            x = x * tl.load(rstd + a_row, mask=live, other=0.0)[:, None]
        if NORM != "none":
            x = capped(x * by + to, ACT, CAP)
        if BIASED:
            total_y += tl.sum(gy, 1)
        total = dot(gy, x, total, PRECISION)
    if BIASED:
        tl.store(of_biases + chunk.to(tl.int64) * stride_chunk + bias * h_size + hh, total_y, mask=high & writes)
    out = chunk.to(tl.int64) * stride_chunk + weight * stride_weight + b * stride_block
    tl.store(of_weights + out + hh[:, None] * stride_h + kk[None, :], total, mask=high[:, None] & inside[None, :])
