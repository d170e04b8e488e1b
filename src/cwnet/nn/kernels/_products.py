"""Matrix products of a whole layer: those of all dimensions and branches are one launch.

The rows of dimension d in branch b meet the weights of (b, d), which are found by their addresses. A product reads its
input through the norm and the activation that come before it, and leaves behind what the norm after it needs; see
`_norms`.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from cwnet.nn.kernels._norms import (
    Normed,
    across_rows,
    leave_row_statistics,
    leave_tile_statistics,
    of_group,
    parts,
    row_statistics,
)
from cwnet.nn.kernels._tiles import (
    COLUMNS,
    ROWS,
    WARPS,
    Plan,
    blocks,
    capped,
    dot,
    group,
    grouped,
    in_use,
    real_rows,
)

__all__ = ["DEPTH", "STAGES", "product"]

DEPTH = 32  #: features that a tile of a product reads at once.
STAGES = 3  #: of the pipeline that reads them.


def product(
    plan: Plan,
    a: Tensor,
    table: Tensor,
    branches: int,
    like: Tensor,
    *,
    normed: Normed | None = None,
    sources: int = 1,
    biases: Tensor | None = None,
    statistics: str = "none",
    transposed: bool = False,
    width: int | None = None,
    add: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """out_b = Σ_s T(a_s) Wᵀ + bias for every branch b, weights by the table; T is the norm and activation, or nothing.

    Args:
        plan: of the layer.
        a: [blocks, N, K].
        table: addresses of weights, [blocks, D]; 0 where there is nothing to do.
        branches: B.
        like: a weight, for its strides.
        normed: the norm of a, if it has one that was not applied yet.
        sources: blocks that are added up for each branch; with one, branch b reads block b, or the only one there is.
        biases: addresses, [B, D]; 0 where there is none.
        statistics: what to leave behind of the result: "none", "batch" or "layer", which are [3, B · D, tiles, H] and
            [2, B, parts, N].
        transposed: whether to take W and not Wᵀ.
        width: H.
        add: [N, H], what to add.

    Returns:
        The result, [B, N, H], and the statistics.
    """
    k = a.shape[2]
    h = like.shape[0] if width is None else width
    out = a.new_empty(branches, plan.cells, h)
    columns = blocks(h, COLUMNS)
    across = triton.cdiv(h, columns)
    left = {"batch": (3, branches * plan.dims, plan.tiles, h), "layer": (2, branches, across, plan.cells)}
    found = a.new_empty(left[statistics]) if statistics in left else None
    stride_h, stride_k = (1, like.stride(0)) if transposed else (like.stride(0), 1)
    _product_kernel[(plan.tiles * across, plan.dims, branches)](
        a=a,
        scale=a if normed is None else normed.scale,
        shift=a if normed is None else normed.shift,
        part_statistics=a if normed is None else in_use(normed.parts, a),
        mean=a if normed is None else normed.mean,
        rstd=a if normed is None else normed.rstd,
        weights=table,
        biases=in_use(biases, table),
        add=in_use(add, a),
        mask=in_use(plan.mask, a),
        out=out,
        statistics=in_use(found, a),
        **plan.sizes,
        cells=plan.cells,
        tiles=plan.tiles,
        k_size=k,
        h_size=h,
        stride_h=stride_h,
        stride_k=stride_k,
        eps=0.0 if normed is None else normed.eps,
        ACT=plan.act,
        CAP=plan.cap,
        SOURCES=sources,
        SHARED=a.shape[0] == 1,
        NORM="none" if normed is None else normed.kind,
        BIASED=biases is not None,
        ADD=add is not None,
        STATISTICS=statistics,
        MASKED=plan.mask is not None,
        PRECISION=plan.precision,
        ALIGNMENT=plan.alignment,
        ROWS=ROWS,
        COLUMNS=columns,
        DEPTH=blocks(k, DEPTH),
        **parts(k),
        num_warps=WARPS,
        num_stages=STAGES,
    )
    return out, found


@grouped
def _product_kernel(
    a: tl.tensor,  # [blocks, N, K]
    scale: tl.tensor,  # this and the next four: of the norm of a, see `Normed`
    shift: tl.tensor,
    part_statistics: tl.tensor,  # layer: [2, blocks, parts, N]
    mean: tl.tensor,  # layer: out, [blocks, N]
    rstd: tl.tensor,  # layer: out, [blocks, N]
    weights: tl.tensor,  # addresses, [blocks or B, D]
    biases: tl.tensor,  # addresses, [B, D]
    add: tl.tensor,  # [N, H]
    mask: tl.tensor,  # [N]
    out: tl.tensor,  # [B, N, H]
    statistics: tl.tensor,  # out; batch: [3, B · D, tiles, H]; layer: [2, B, parts, N]
    n0: tl.tensor,
    n1: tl.tensor,
    n2: tl.tensor,
    n3: tl.tensor,
    cells: tl.tensor,
    tiles: tl.tensor,
    k_size: tl.tensor,
    h_size: tl.tensor,
    stride_h: tl.tensor,
    stride_k: tl.tensor,
    eps: tl.tensor,
    ACT: tl.constexpr,
    CAP: tl.constexpr,
    SOURCES: tl.constexpr,
    SHARED: tl.constexpr,
    NORM: tl.constexpr,
    BIASED: tl.constexpr,
    ADD: tl.constexpr,
    STATISTICS: tl.constexpr,
    MASKED: tl.constexpr,
    PRECISION: tl.constexpr,
    ALIGNMENT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    PART: tl.constexpr,
    PARTS: tl.constexpr,
) -> None:
    """out_b = Σ_s T(a_s) Wᵀ + bias, and the statistics of this tile."""
    d, start, count = group(n0, n1, n2, n3)
    b, dims = tl.program_id(2), tl.num_programs(1)
    across = tl.cdiv(h_size, COLUMNS)
    tile, block = tl.program_id(0) // across, tl.program_id(0) % across
    if tile * ROWS >= count:
        return
    if (SOURCES == 1) & (tl.load(weights + b * dims + d) == 0):
        return  # nothing to multiply with
    row = tile * ROWS + tl.arange(0, ROWS)
    live = row < count
    column = block * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < h_size
    at = ((b * cells + start + row).to(tl.int64) * h_size)[:, None] + column[None, :]
    here = live[:, None] & inside[None, :]
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    if ADD:
        total += tl.load(add + at, mask=here, other=0.0)
    for s in tl.static_range(SOURCES):
        source = b if SOURCES == 1 else s
        place = tl.load(weights + source * dims + d)
        weight = tl.multiple_of(place.to(tl.pointer_type(tl.float32)), ALIGNMENT)
        if SHARED:
            first = a + (start + row).to(tl.int64) * k_size
        else:
            first = a + (source * cells + start + row).to(tl.int64) * k_size
        if NORM == "layer":
            many = tl.num_programs(2) * SOURCES
            of_row, by_row = row_statistics(
                statistics=part_statistics,
                row=start + row,
                live=live,
                b=source,
                branches=many,
                cells=cells,
                width=k_size,
                eps=eps,
                PART=PART,
                PARTS=PARTS,
            )
            if block == 0:  # the gradient reads them
                tl.store(mean + source * cells + start + row, of_row, mask=live)
                tl.store(rstd + source * cells + start + row, by_row, mask=live)
        if NORM != "none":
            by_at = of_group(scale, source * dims + d, k_size, NORM)
            to_at = of_group(shift, source * dims + d, k_size, NORM)
        depth = k_size if place != 0 else 0
        for k in range(0, depth, DEPTH):
            kk = k + tl.arange(0, DEPTH)
            deep = kk < k_size
            x = tl.load(first[:, None] + kk[None, :], mask=live[:, None] & deep[None, :], other=0.0)
            if NORM != "none":
                if NORM == "layer":
                    x = (x - of_row[:, None]) * by_row[:, None]
                x = x * across_rows(by_at, kk, deep)
                x = capped(x + across_rows(to_at, kk, deep), ACT, CAP)
            w = tl.load(
                weight + column[None, :] * stride_h + kk[:, None] * stride_k,
                mask=deep[:, None] & inside[None, :], other=0.0,
            )  # fmt: skip
            total = dot(x, w, total, PRECISION)
    if BIASED:
        bias = tl.load(biases + b * dims + d)
        total += tl.load(bias.to(tl.pointer_type(tl.float32)) + column, mask=inside & (bias != 0), other=0.0)[None, :]
    tl.store(out + at, total, mask=here)
    if STATISTICS == "batch":
        leave_tile_statistics(
            y=total,
            real=real_rows(mask, start + row, live, MASKED),
            statistics=statistics,
            g=b * dims + d,
            groups=tl.num_programs(2) * dims,
            tile=tile,
            tiles=tiles,
            h_size=h_size,
            column=column,
            COLUMNS=COLUMNS,
        )
    if STATISTICS == "layer":
        leave_row_statistics(
            y=total,
            statistics=statistics,
            row=start + row,
            live=live,
            b=b,
            branches=tl.num_programs(2),
            part=block,
            cells=cells,
            h_size=h_size,
            inside=inside,
            PART=COLUMNS,
        )
