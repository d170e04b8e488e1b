"""A whole CIN layer in about ten kernels each way: all dimensions and both branches at once.

Small batches are bound by the number of kernels and not by their work, so everything that does not wait for one another
is one launch here. The features of all dimensions lie in one tensor, dimension after dimension (`packed`), and so do
the incidences (`Cells.hasse`). Matrix products are grouped: the rows of dimension d in branch b meet the weights of
(b, d), whose addresses are in a table. Batch norm costs no passes of its own: a product leaves the statistics of each
of its tiles behind, a tiny kernel makes a scale and a shift of them, and whoever reads the features next applies these
on the way in. The gradient runs back the same way.

Nothing is added up atomically: tiles leave partial sums, which are added in a fixed order, so results are the same bits
in every run. A bias in front of a batch norm cancels in training; it is seen by the running mean alone.

Names of shapes: N cells of all dimensions, D dimensions, B branches, K features in, H features out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from cwnet.complexes import Csr, Incidence
from cwnet.nn.kernels import MAX_DIMS
from cwnet.nn.kernels._sums import (
    WARPS,
    _entry,
    _jit,
    _read,
    _slope,
    _tile,
    _value,
    hub_gradient_kernel,
    hub_sum_kernel,
    launch,
)

__all__ = ["isomorphism_layer"]

ROWS = 64  #: cells of a tile in a product.
COLUMNS = 64  #: features of a tile.
DEPTH = 32  #: features that a tile of a product reads at once.
STAGES = 3  #: of the pipeline that reads them.
CHUNK = 256  #: cells that one program adds up in the gradient of weights.
HIGH, WIDE = 32, 128  #: a tile of the gradient of weights.


class Stage(NamedTuple):
    """Products that happen at once, each followed by a batch norm and the activation. One entry per group."""

    weights: list[Tensor]
    biases: list[Tensor]
    gammas: list[Tensor]
    betas: list[Tensor]
    means: list[Tensor]
    variances: list[Tensor]
    eps: float
    momentum: float
    limit: float | None
    cap: float | None

    @classmethod
    def of(cls, linears: Sequence[Any], norms: Sequence[Any]) -> Stage:
        """From the modules."""
        return cls(
            [linear.weight for linear in linears],
            [linear.bias for linear in linears],
            [norm.weight for norm in norms],
            [norm.bias for norm in norms],
            [norm.running_mean for norm in norms],
            [norm.running_var for norm in norms],
            norms[0].eps,
            norms[0].momentum,
            norms[0].limit,
            norms[0].cap,
        )


class Parameters(NamedTuple):
    """All that a layer learns: M of each dimension but the last, and the three products of each dimension.

    `first` and `second` have a group per branch and dimension (branch after branch), `join` one per dimension.
    """

    message_weights: list[Tensor]
    message_biases: list[Tensor]
    first: Stage
    second: Stage
    join: Stage

    def all_weights(self) -> list[Tensor]:
        """The matrices."""
        return [*self.message_weights, *self.first.weights, *self.second.weights, *self.join.weights]

    def learnt(self) -> list[Tensor]:
        """Those with a gradient, in the order in which the backward pass returns them."""
        out = [*self.message_weights, *self.message_biases]
        for stage in (self.first, self.second, self.join):
            out += [*stage.weights, *stage.biases, *stage.gammas, *stage.betas]
        return out


def isomorphism_layer(
    x: Sequence[Tensor],
    hasse: Incidence,
    messages: Sequence[Any],
    linears: Sequence[Sequence[Any]],
    norms: Sequence[Sequence[Any]],
    masks: Sequence[Tensor | None] | None,
    act: str,
    eps: float,
    training: bool,
    addresses: dict[Any, Any],
    heard: Sequence[Tensor] = (),
) -> list[Tensor]:
    """`CINConv` with batch norm, and layers with more branches than its two: features of all dimensions in and out.

    Args:
        x: [cells of dimension d, K] for d = 0, ..., D - 1.
        hasse: the incidences of all these dimensions, cells numbered through.
        messages: the linear maps of M, for d = 0, ..., D - 2.
        linears: of the three stages; the first two have one per branch and dimension, the last one per dimension.
        norms: the batch norms that follow them.
        masks: the cells of each dimension that are no padding; None if all are.
        act: the activation by name.
        eps: the weight of a cell's own features is 1 + eps.
        training: whether to take the statistics of the batch.
        addresses: where the layer keeps the addresses of its parameters between calls.
        heard: what branches beyond the upper and the boundary one hear, each [N, K], dimension after dimension.
    """
    parameters = Parameters(
        [linear.weight for linear in messages],
        [linear.bias for linear in messages],
        *(Stage.of(*modules) for modules in zip(linears, norms, strict=True)),
    )
    mask = None if masks is None else packed([m for m in masks[: len(x)] if m is not None])
    plan = _Plan(x, hasse, mask, parameters, act, eps, training, addresses)
    out: tuple[Tensor, ...] = _Layer.apply(plan, len(heard), *x, *heard, *parameters.learnt())  # type: ignore[no-untyped-call]
    return list(out)


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


class _Plan:
    """What the passes over one batch share: sizes, incidences, addresses, and how to multiply."""

    def __init__(
        self,
        x: Sequence[Tensor],
        hasse: Incidence,
        mask: Tensor | None,
        parameters: Parameters,
        act: str,
        eps: float,
        training: bool,
        addresses: dict[Any, Any],
    ) -> None:
        self.hasse, self.mask, self.parameters = hasse, mask, parameters
        self.act, self.eps, self.training = act, eps, training
        self.cap = parameters.join.cap or 0.0
        self.counts = tuple(h.shape[0] for h in x)
        self.dims, self.cells = len(x), sum(self.counts)
        self.sizes = (*self.counts, *[0] * (MAX_DIMS - len(x)))
        self.tiles = triton.cdiv(max(self.counts), ROWS)
        self.precision = _precision()
        # Weights that start at a multiple of 16 bytes are read 16 bytes at a time.
        self.alignment = 16 if all(w.shape[0] % 4 == w.shape[1] % 4 == 0 for w in parameters.all_weights()) else 4
        self.tables = _tables(parameters, x[0].shape[1], self.dims, x[0].device, addresses)


def _precision() -> str:
    """How to multiply: float32 as three products in tf32, which is as exact, or one in tf32 or bfloat16."""
    if torch.is_autocast_enabled("cuda"):
        return "bf16"
    return "tf32x3" if torch.get_float32_matmul_precision() == "highest" else "tf32"


class _Tables(NamedTuple):
    """Addresses, as the kernels want them: [groups] or, for norms, [5, groups]."""

    message: Tensor
    message_bias: Tensor
    first: Tensor
    second: Tensor
    join: Tensor
    norms: tuple[Tensor, Tensor, Tensor]


def _tables(parameters: Parameters, width: int, dims: int, device: torch.device, kept: dict[Any, Any]) -> _Tables:
    """The addresses of the parameters, looked up anew when one has moved. Old ones stay: a CUDA graph may read them."""
    key = tuple(t.data_ptr() for t in (*parameters.learnt(), parameters.join.means[-1]))
    if key in kept:
        found: _Tables = kept[key]
        return found

    def table(addresses: list[int]) -> Tensor:
        return torch.tensor(addresses, dtype=torch.int64, device=device)

    # M [h_τ ‖ h_δ]: the first half of its columns is for τ, of dimension d; the second for δ, of dimension d + 1.
    own = [w.data_ptr() for w in parameters.message_weights]
    met = [w.data_ptr() + width * w.element_size() for w in parameters.message_weights]
    branches = len(parameters.first.weights) // dims
    out = parameters.join.weights[0].shape[0]
    joined = [w.data_ptr() + b * out * w.element_size() for b in range(branches) for w in parameters.join.weights]
    tables = _Tables(
        table([*own, 0, 0, *met]),
        table([b.data_ptr() for b in parameters.message_biases]),
        table([w.data_ptr() for w in parameters.first.weights]),
        table([w.data_ptr() for w in parameters.second.weights]),
        table(joined),
        tuple(  # type: ignore[arg-type]
            table([t.data_ptr() for many in (s.gammas, s.betas, s.means, s.variances, s.biases) for t in many])
            for s in (parameters.first, parameters.second, parameters.join)
        ),
    )
    kept[key] = tables
    return tables


@dataclass
class _Normed:
    """The result of a stage before its norm, and what the norm makes of it."""

    y: Tensor  # [groups of rows, N, H]
    scale: Tensor  # γ / σ
    shift: Tensor  # β − μ γ / σ
    mean: Tensor
    rstd: Tensor  # 1 / σ
    share: Tensor  # [groups]: 1 / rows where the statistics are the batch's, 0 where they are running averages


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: _Plan, more: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        x = packed([t.contiguous() for t in tensors[: plan.dims]])
        p = plan.parameters
        meet, _ = _product(plan, x[None], plan.tables.message, 2, p.message_weights[0], bias=plan.tables.message_bias)
        z = _messages(plan, x, meet, tensors[plan.dims : plan.dims + more])
        first = _stage(plan, z, None, plan.tables.first, p.first, 0)
        second = _stage(plan, first.y, first, plan.tables.second, p.second, 1)
        join = _stage(plan, second.y, second, plan.tables.join, p.join, 2)
        out = _apply_norm(plan, join)
        if any(ctx.needs_input_grad):
            ctx.plan, ctx.x, ctx.meet, ctx.z = plan, x, meet, z
            ctx.stages = (first, second, join)
        return torch.split(out, list(plan.counts))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        plan: _Plan = ctx.plan
        first, second, join = ctx.stages
        p, tables = plan.parameters, plan.tables
        grad = packed([g.contiguous() for g in grads])[None]
        weights = _WeightGradients(plan, grad)
        sums = _grad_statistics(plan, grad, join)
        grad, of_join, sums = _stage_backward(plan, grad, join, sums, second.y, second, tables.join, p.join, weights)
        grad, of_second, sums = _stage_backward(
            plan, grad, second, sums, first.y, first, tables.second, p.second, weights
        )
        grad, of_first, _ = _stage_backward(plan, grad, first, sums, ctx.z, None, tables.first, p.first, weights)
        grad_x = _messages_backward(plan, grad, ctx.x, ctx.meet, weights)
        message, bias, w1, w2, w3 = weights.added_up()
        of_parameters = [*message, *bias, *w1, *of_first, *w2, *of_second, *w3, *of_join]
        return None, None, *torch.split(grad_x, list(plan.counts)), *grad[2:], *of_parameters


class _WeightGradients:
    """The gradients of all weights of a layer: each program leaves its part behind, and all are added up at the end."""

    def __init__(self, plan: _Plan, like: Tensor) -> None:
        p = plan.parameters
        self.groups = (p.message_weights, p.message_biases, p.first.weights, p.second.weights, p.join.weights)
        sizes = [len(group) * group[0].numel() for group in self.groups]
        self.starts = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
        self.chunks = triton.cdiv(max(plan.counts), CHUNK)
        self.parts = like.new_empty(self.chunks, self.starts[-1])

    def of(self, group: Sequence[Tensor]) -> Tensor:
        """Where the parts of a group go, [chunks, ...]."""
        i = next(i for i, other in enumerate(self.groups) if other is group)
        return self.parts[:, self.starts[i] : self.starts[i + 1]]

    def added_up(self) -> list[list[Tensor]]:
        """Per group, the gradient of each of its tensors."""
        flat = self.parts[0] if self.chunks == 1 else self.parts.sum(0)
        return [
            list(flat[a:b].view(len(group), *group[0].shape).unbind(0))
            for group, a, b in zip(self.groups, self.starts, self.starts[1:], strict=False)
        ]


# ------------------------------------------------------------------------------------------------------------ products


def _blocks(width: int, most: int) -> int:
    """The width of a tile: a power of two that covers the features, or a part of them."""
    return min(max(1 << (width - 1).bit_length(), 16), most)


def _product(
    plan: _Plan,
    a: Tensor,
    table: Tensor,
    branches: int,
    like: Tensor,
    *,
    normed: _Normed | None = None,
    sources: int = 1,
    bias: Tensor | None = None,
    statistics: bool = False,
    transposed: bool = False,
    width: int | None = None,
    add: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """out_b = Σ_s T(a_s) Wᵀ for every branch b, with weights by the table; T is the norm and activation, or nothing.

    Args:
        plan: of the layer.
        a: [blocks, N, K].
        table: addresses of weights, [blocks, D]; 0 where there is nothing to do.
        branches: B.
        like: a weight, for its strides.
        normed: the norm of a, if it has one that was not applied yet.
        sources: blocks that are added up for each branch; with one, branch b reads block b, or the only one there is.
        bias: addresses of those of the messages, [D - 1]; added to the second branch, one dimension further up.
        statistics: whether to leave the sums of the tiles behind.
        transposed: whether to take W and not Wᵀ.
        width: H.
        add: [N, H], what to add.
    """
    k = a.shape[2]
    h = like.shape[0] if width is None else width
    out = a.new_empty(branches, plan.cells, h)
    partial = a.new_empty(3, branches * plan.dims, plan.tiles, h) if statistics else None
    columns = _blocks(h, COLUMNS)
    stride_h, stride_k = (1, like.stride(0)) if transposed else (like.stride(0), 1)
    grid = (plan.tiles * triton.cdiv(h, columns), plan.dims, branches)
    kept = a if normed is None else normed.scale, a if normed is None else normed.shift
    _product_kernel[grid](
        a, *kept, table,
        table if bias is None else bias, a if add is None else add,
        a if plan.mask is None else plan.mask, out, a if partial is None else partial,
        *plan.sizes, plan.cells, plan.tiles, k, h, stride_h, stride_k,
        ACT=plan.act, CAP=plan.cap, SOURCES=sources, SHARED=a.shape[0] == 1, NORMED=normed is not None,
        BIAS=bias is not None, ADD=add is not None, STATISTICS=statistics, MASKED=plan.mask is not None,
        PRECISION=plan.precision, ALIGNMENT=plan.alignment,
        ROWS=ROWS, COLUMNS=columns, DEPTH=_depth(k), num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    return out, partial


def _depth(k: int) -> int:
    return _blocks(k, DEPTH)


def _stage(plan: _Plan, a: Tensor, normed: _Normed | None, table: Tensor, stage: Stage, number: int) -> _Normed:
    """A product with the statistics of its norm."""
    sources = a.shape[0] if number == 2 else 1
    branches = 1 if number == 2 else a.shape[0]
    y, partial = _product(
        plan, a, table, branches, stage.weights[0], normed=normed, sources=sources, statistics=plan.training
    )
    groups, h = branches * plan.dims, y.shape[2]
    scale, shift, mean, rstd = y.new_empty(4, groups, h).unbind(0)
    share = y.new_empty(groups)
    columns = _blocks(h, 32)
    _norm_kernel[(triton.cdiv(h, columns), plan.dims, branches)](
        y if partial is None else partial, plan.tables.norms[number], scale, shift, mean, rstd, share,
        *plan.sizes, plan.tiles, h, stage.eps, stage.momentum, stage.limit or 0.0,
        TRAINING=plan.training, LIMITED=stage.limit is not None, ROWS=ROWS, COLUMNS=columns, TILES=32, num_warps=WARPS,
    )  # fmt: skip
    return _Normed(y, scale, shift, mean, rstd, share)


def _apply_norm(plan: _Plan, normed: _Normed) -> Tensor:
    h = normed.y.shape[2]
    out = normed.y.new_empty(plan.cells, h)
    columns = _blocks(h, COLUMNS)
    _apply_kernel[(plan.tiles * triton.cdiv(h, columns), plan.dims)](
        normed.y, normed.scale, normed.shift, out, *plan.sizes, h,
        ACT=plan.act, CAP=plan.cap, ROWS=ROWS, COLUMNS=columns, num_warps=WARPS,
    )  # fmt: skip
    return out


def _grad_statistics(plan: _Plan, grad: Tensor, normed: _Normed) -> Tensor:
    """The two sums of each tile that the gradient of a norm needs."""
    groups, h = normed.scale.shape
    partial = grad.new_empty(2, groups, plan.tiles, h)
    columns = _blocks(h, COLUMNS)
    _grad_statistics_kernel[(plan.tiles * triton.cdiv(h, columns), plan.dims, groups // plan.dims)](
        grad, normed.y, normed.scale, normed.shift, normed.mean, normed.rstd,
        grad if plan.mask is None else plan.mask, partial,
        *plan.sizes, plan.cells, plan.tiles, h,
        ACT=plan.act, CAP=plan.cap, MASKED=plan.mask is not None, ROWS=ROWS, COLUMNS=columns, num_warps=WARPS,
    )  # fmt: skip
    return partial


def _stage_backward(
    plan: _Plan,
    grad: Tensor,
    normed: _Normed,
    partial: Tensor,
    a: Tensor,
    before: _Normed | None,
    table: Tensor,
    stage: Stage,
    weights: _WeightGradients,
) -> tuple[Tensor, list[Tensor], Tensor]:
    """From the gradient of a stage's output to that of its input, of its biases, γ and β, and the next sums."""
    groups, h = normed.scale.shape
    k, blocks = a.shape[2], a.shape[0]
    of_bias, of_gamma, of_beta, mean_g, mean_gx = grad.new_empty(5, groups, h).unbind(0)
    columns = _blocks(h, 32)
    _grad_norm_kernel[(triton.cdiv(h, columns), plan.dims, groups // plan.dims)](
        partial, normed.share, normed.scale, of_bias, of_gamma, of_beta, mean_g, mean_gx, *plan.sizes, plan.tiles, h,
        ROWS=ROWS, COLUMNS=columns, TILES=32, num_warps=WARPS,
    )  # fmt: skip
    grad_y = torch.empty_like(normed.y)
    grad_a = torch.empty_like(a)
    sums = grad.new_empty(2, blocks * plan.dims, plan.tiles, k) if before is not None else grad.new_empty(0)
    wide = _blocks(k, COLUMNS)
    past = normed if before is None else before
    _product_backward_kernel[(plan.tiles * triton.cdiv(k, wide), plan.dims, blocks)](
        grad, normed.y, normed.scale, normed.shift, normed.mean, normed.rstd, mean_g, mean_gx, table,
        a, past.scale, past.shift, past.mean, past.rstd, grad if plan.mask is None else plan.mask,
        grad_y, grad_a, sums,
        *plan.sizes, plan.cells, plan.tiles, k, h, stage.weights[0].stride(0),
        ACT=plan.act, CAP=plan.cap, SHARED=groups == plan.dims, NORMED=before is not None, MASKED=plan.mask is not None,
        PRECISION=plan.precision, ALIGNMENT=plan.alignment,
        ROWS=ROWS, COLUMNS=wide, DEPTH=_depth(h), num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    joined = groups == plan.dims and blocks > 1
    _grad_weights(plan, grad_y, a, before, weights.of(stage.weights), weights.chunks, joined=joined)
    return grad_a, [*of_bias, *of_gamma, *of_beta], sums


def _grad_weights(
    plan: _Plan,
    grad_y: Tensor,
    a: Tensor,
    normed: _Normed | None,
    out: Tensor,
    chunks: int,
    *,
    joined: bool = False,
    bias: Tensor | None = None,
) -> None:
    """The gradients of the weights of all groups, Σ_rows grad_yᵀ T(a), chunk by chunk.

    Where all blocks of `a` go into one product (`joined`), or one product is split into two (which is so where there is
    a `bias`), a weight's gradient is put together side by side.
    """
    blocks = max(a.shape[0], grad_y.shape[0])
    h, k = grad_y.shape[2], a.shape[2]
    side_by_side = joined or bias is not None
    row = blocks * k if side_by_side else k
    columns, high = _blocks(k, WIDE), _blocks(h, HIGH)
    kept = a if normed is None else normed.scale, a if normed is None else normed.shift
    _grad_weights_kernel[(chunks * triton.cdiv(h, high) * triton.cdiv(k, columns), plan.dims, blocks)](
        grad_y, a, *kept, out, out if bias is None else bias, *plan.sizes, plan.cells, chunks, k, h,
        out.stride(0), h * row, row, k if side_by_side else plan.dims * h * row,
        ACT=plan.act, CAP=plan.cap, NORMED=normed is not None, SHARED_Y=grad_y.shape[0] == 1, SHARED_A=a.shape[0] == 1,
        MEETING=bias is not None, PRECISION=plan.precision,
        CHUNK=CHUNK, HIGH=high, COLUMNS=columns, DEPTH=DEPTH, num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------------ messages


def _messages(plan: _Plan, x: Tensor, meet: Tensor, heard: Sequence[Tensor]) -> Tensor:
    """What each branch hears: [B, N, K], upper and boundary messages, the cell's own features added, and the others."""
    total = torch.empty_like(x)
    z = x.new_empty(2 + len(heard), *x.shape)
    for i, other in enumerate(heard):
        z[2 + i] = other
    down, up = plan.hasse[:2]
    launch(hub_sum_kernel, down, *meet, out=(total,), act=plan.act)
    _over_rows(_hear_kernel, up, plan, meet, total, x, down.ptr, down.idx, z, plan.eps)
    return z


def _messages_backward(plan: _Plan, grad: Tensor, x: Tensor, meet: Tensor, weights: _WeightGradients) -> Tensor:
    """The gradient of x; those of M are left with the others."""
    down, up = plan.hasse[:2]
    p = plan.parameters
    total, of_x = torch.empty_like(x), torch.empty_like(x)
    of_meet = torch.empty_like(meet)
    launch(hub_gradient_kernel, down, grad[0], *meet, out=(total, of_meet[1]), act=plan.act)
    _over_rows(_hear_gradient_kernel, up, plan, meet, grad, total, of_meet, of_x, plan.eps)
    out, _ = _product(
        plan, of_meet, plan.tables.message, 1, p.message_weights[0],
        sources=2, transposed=True, width=x.shape[1], add=of_x,
    )  # fmt: skip
    parts, bias = weights.of(p.message_weights), weights.of(p.message_biases)
    _grad_weights(plan, of_meet, x[None], None, parts, weights.chunks, bias=bias)
    return out[0]


def _over_rows(kernel: Any, rows: Csr, plan: _Plan, *arguments: Any) -> None:
    """Run a kernel of sums over rows: one program per tile of cells and columns."""
    width = arguments[0].shape[-1]
    columns = _blocks(width, 128)
    tile_rows = max(1, 32 * WARPS * 4 // columns)
    grid = (triton.cdiv(plan.cells, tile_rows), triton.cdiv(width, columns))
    kernel[grid](
        *arguments, rows.ptr, rows.idx, plan.cells, width,
        ROWS=tile_rows, COLUMNS=columns, UNROLL=2, ACT=plan.act, num_warps=WARPS,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- kernels


_grouped = triton.jit(do_not_specialize=["n0", "n1", "n2", "n3", "cells", "tiles", "chunks"])


@triton.jit  # type: ignore[untyped-decorator]
def _group(n0: tl.tensor, n1: tl.tensor, n2: tl.tensor, n3: tl.tensor) -> tl.tuple:
    """The dimension of this program: where its cells start, and how many there are."""
    d = tl.program_id(1)
    start = tl.where(d > 0, n0, 0) + tl.where(d > 1, n1, 0) + tl.where(d > 2, n2, 0)
    count = tl.where(d == 0, n0, tl.where(d == 1, n1, tl.where(d == 2, n2, n3)))
    return d, start, count


@triton.jit  # type: ignore[untyped-decorator]
def _within(x: tl.tensor, limit: tl.tensor) -> tl.tensor:
    """x, but between -limit and limit. NaN stays NaN."""
    x = tl.where(x > limit, limit, x)
    return tl.where(x < -limit, -limit, x)


@triton.jit  # type: ignore[untyped-decorator]
def _capped(z: tl.tensor, ACT: tl.constexpr, CAP: tl.constexpr) -> tl.tensor:
    """What comes out of a norm, kept below the cap if there is one, and through the activation."""
    if CAP > 0:
        z = _within(z, CAP)
    return _value(z, ACT)


@triton.jit  # type: ignore[untyped-decorator]
def _capped_slope(z: tl.tensor, ACT: tl.constexpr, CAP: tl.constexpr) -> tl.tensor:
    slope = _slope(z, ACT)
    if CAP > 0:
        slope = tl.where((z > CAP) | (z < -CAP), 0.0, slope)
    return slope


@triton.jit  # type: ignore[untyped-decorator]
def _dot(a: tl.tensor, b: tl.tensor, total: tl.tensor, PRECISION: tl.constexpr) -> tl.tensor:
    if PRECISION == "bf16":
        total = tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16), total)
    else:
        total = tl.dot(a, b, total, input_precision=PRECISION)
    return total


@triton.jit  # type: ignore[untyped-decorator]
def _real(mask: tl.tensor, row: tl.tensor, live: tl.tensor, MASKED: tl.constexpr) -> tl.tensor:
    """Which of these rows are cells and no padding."""
    real = live
    if MASKED:
        real = live & (tl.load(mask + row, mask=live, other=0) != 0)
    return real


@_grouped  # type: ignore[untyped-decorator]
def _product_kernel(
    a: tl.tensor,
    scale: tl.tensor,
    shift: tl.tensor,
    table: tl.tensor,
    bias: tl.tensor,
    add: tl.tensor,
    mask: tl.tensor,
    out: tl.tensor,
    partial: tl.tensor,
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
    ACT: tl.constexpr,
    CAP: tl.constexpr,
    SOURCES: tl.constexpr,
    SHARED: tl.constexpr,
    NORMED: tl.constexpr,
    BIAS: tl.constexpr,
    ADD: tl.constexpr,
    STATISTICS: tl.constexpr,
    MASKED: tl.constexpr,
    PRECISION: tl.constexpr,
    ALIGNMENT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
) -> None:
    """out_b = Σ_s T(a_s) Wᵀ, and per tile the number, sum and squared deviations of its rows."""
    d, start, count = _group(n0, n1, n2, n3)
    b, dims = tl.program_id(2), tl.num_programs(1)
    blocks = tl.cdiv(h_size, COLUMNS)
    tile, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    if tile * ROWS >= count:
        return
    if (SOURCES == 1) & (tl.load(table + b * dims + d) == 0):
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
        address = tl.load(table + source * dims + d)
        weight = tl.multiple_of(address.to(tl.pointer_type(tl.float32)), ALIGNMENT)
        if SHARED:
            first = a + (start + row).to(tl.int64) * k_size
        else:
            first = a + (source * cells + start + row).to(tl.int64) * k_size
        depth = k_size if address != 0 else 0
        for k in range(0, depth, DEPTH):
            kk = k + tl.arange(0, DEPTH)
            deep = kk < k_size
            x = tl.load(first[:, None] + kk[None, :], mask=live[:, None] & deep[None, :], other=0.0)
            if NORMED:
                g = (source * dims + d) * k_size + kk
                x = x * tl.load(scale + g, mask=deep, other=0.0)[None, :]
                x = _capped(x + tl.load(shift + g, mask=deep, other=0.0)[None, :], ACT, CAP)
            w = tl.load(
                weight + column[None, :] * stride_h + kk[:, None] * stride_k,
                mask=deep[:, None] & inside[None, :], other=0.0,
            )  # fmt: skip
            total = _dot(x, w, total, PRECISION)
    if BIAS:
        values = tl.load(bias + d - 1, mask=b == 1, other=0).to(tl.pointer_type(tl.float32))
        total += tl.load(values + column, mask=inside & (b == 1), other=0.0)[None, :]
    tl.store(out + at, total, mask=here)
    if STATISTICS:
        real = _real(mask, start + row, live, MASKED)[:, None]
        size = tl.sum(real.to(tl.float32))
        mean = tl.sum(tl.where(real, total, 0.0), 0) / tl.maximum(size, 1.0)
        apart = tl.where(real, total - mean[None, :], 0.0)
        p = ((b * dims + d) * tiles + tile) * h_size + column
        plane = tl.num_programs(2) * dims * tiles * h_size
        tl.store(partial + p, size + tl.zeros([COLUMNS], tl.float32), mask=inside)
        tl.store(partial + plane + p, mean, mask=inside)
        tl.store(partial + 2 * plane + p, tl.sum(apart * apart, 0), mask=inside)


@_grouped  # type: ignore[untyped-decorator]
def _norm_kernel(
    partial: tl.tensor,
    table: tl.tensor,
    scale: tl.tensor,
    shift: tl.tensor,
    mean_out: tl.tensor,
    rstd_out: tl.tensor,
    share: tl.tensor,
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
    """Put the statistics of tiles together, move the running averages, and make a scale and a shift."""
    d, _, count = _group(n0, n1, n2, n3)
    dims, groups = tl.num_programs(1), tl.num_programs(1) * tl.num_programs(2)
    g = tl.program_id(2) * dims + d
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < h_size
    gamma = tl.load(_address(table, g) + column, mask=inside, other=0.0)
    beta = tl.load(_address(table, groups + g) + column, mask=inside, other=0.0)
    running_mean = _address(table, 2 * groups + g) + column
    running_var = _address(table, 3 * groups + g) + column
    bias = tl.load(_address(table, 4 * groups + g) + column, mask=inside, other=0.0)
    old_mean = tl.load(running_mean, mask=inside, other=0.0)
    old_var = tl.load(running_var, mask=inside, other=0.0)
    mean, var, part = old_mean - bias, old_var, 0.0
    if TRAINING:
        plane = groups * tiles * h_size
        used = tl.cdiv(count, ROWS)
        size = tl.zeros([COLUMNS], tl.float32)
        total = tl.zeros([COLUMNS], tl.float32)
        for first in range(0, used, TILES):
            at, there = _partial_tile(first, used, g, tiles, h_size, column, inside, TILES)
            rows = tl.load(partial + at, mask=there, other=0.0)
            size += tl.sum(rows, 0)
            total += tl.sum(rows * tl.load(partial + plane + at, mask=there, other=0.0), 0)
        batch_mean = total / tl.maximum(size, 1.0)
        apart = tl.zeros([COLUMNS], tl.float32)
        for first in range(0, used, TILES):
            at, there = _partial_tile(first, used, g, tiles, h_size, column, inside, TILES)
            rows = tl.load(partial + at, mask=there, other=0.0)
            off = tl.load(partial + plane + at, mask=there, other=0.0) - batch_mean[None, :]
            apart += tl.sum(rows * off * off + tl.load(partial + 2 * plane + at, mask=there, other=0.0), 0)
        enough = size > 1
        away = batch_mean + bias - old_mean
        unbiased = apart / tl.maximum(size - 1, 1.0)
        more = momentum * (unbiased - old_var)
        if LIMITED:
            wide = old_var + eps
            away = _within(away / tl.sqrt(wide), limit) * tl.sqrt(wide)
            more = wide * (tl.exp(momentum * _within(tl.log((unbiased + eps) / wide), limit)) - 1)
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
def _address(table: tl.tensor, i: tl.tensor) -> tl.tensor:
    return tl.load(table + i).to(tl.pointer_type(tl.float32))


@triton.jit  # type: ignore[untyped-decorator]
def _partial_tile(
    first: tl.tensor,
    used: tl.tensor,
    g: tl.tensor,
    tiles: tl.tensor,
    h_size: tl.tensor,
    column: tl.tensor,
    inside: tl.tensor,
    TILES: tl.constexpr,
) -> tl.tuple:
    """Where the sums of some tiles of a group lie."""
    tile = first + tl.arange(0, TILES)
    at = (g * tiles + tile)[:, None] * h_size + column[None, :]
    return at, (tile < used)[:, None] & inside[None, :]


@_grouped  # type: ignore[untyped-decorator]
def _apply_kernel(
    y: tl.tensor,
    scale: tl.tensor,
    shift: tl.tensor,
    out: tl.tensor,
    n0: tl.tensor,
    n1: tl.tensor,
    n2: tl.tensor,
    n3: tl.tensor,
    h_size: tl.tensor,
    ACT: tl.constexpr,
    CAP: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Out = act(y · scale + shift)."""
    d, start, count = _group(n0, n1, n2, n3)
    blocks = tl.cdiv(h_size, COLUMNS)
    tile, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    row = tile * ROWS + tl.arange(0, ROWS)
    column = block * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < h_size
    here = (row < count)[:, None] & inside[None, :]
    at = ((start + row).to(tl.int64) * h_size)[:, None] + column[None, :]
    z = tl.load(y + at, mask=here, other=0.0) * tl.load(scale + d * h_size + column, mask=inside, other=0.0)[None, :]
    z += tl.load(shift + d * h_size + column, mask=inside, other=0.0)[None, :]
    tl.store(out + at, _capped(z, ACT, CAP), mask=here)


@_grouped  # type: ignore[untyped-decorator]
def _grad_statistics_kernel(
    grad: tl.tensor,
    y: tl.tensor,
    scale: tl.tensor,
    shift: tl.tensor,
    mean: tl.tensor,
    rstd: tl.tensor,
    mask: tl.tensor,
    partial: tl.tensor,
    n0: tl.tensor,
    n1: tl.tensor,
    n2: tl.tensor,
    n3: tl.tensor,
    cells: tl.tensor,
    tiles: tl.tensor,
    h_size: tl.tensor,
    ACT: tl.constexpr,
    CAP: tl.constexpr,
    MASKED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Per tile, Σ g and Σ g x̂ with g the gradient in front of the activation."""
    d, start, count = _group(n0, n1, n2, n3)
    b, dims = tl.program_id(2), tl.num_programs(1)
    blocks = tl.cdiv(h_size, COLUMNS)
    tile, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    if tile * ROWS >= count:
        return
    row = tile * ROWS + tl.arange(0, ROWS)
    live = row < count
    column = block * COLUMNS + tl.arange(0, COLUMNS)
    at = ((b * cells + start + row).to(tl.int64) * h_size)[:, None] + column[None, :]
    here = _real(mask, start + row, live, MASKED)[:, None] & (column < h_size)[None, :]
    g = tl.load(grad + at, mask=here, other=0.0)
    _leave_sums(
        g, y, at, here, scale, shift, mean, rstd, partial, (b * dims + d), tile, tiles, h_size, column, ACT, CAP,
        tl.num_programs(2) * dims,
    )  # fmt: skip


@triton.jit  # type: ignore[untyped-decorator]
def _leave_sums(
    grad: tl.tensor,
    y: tl.tensor,
    at: tl.tensor,
    here: tl.tensor,
    scale: tl.tensor,
    shift: tl.tensor,
    mean: tl.tensor,
    rstd: tl.tensor,
    partial: tl.tensor,
    g: tl.tensor,
    tile: tl.tensor,
    tiles: tl.tensor,
    width: tl.tensor,
    column: tl.tensor,
    ACT: tl.constexpr,
    CAP: tl.constexpr,
    groups: tl.tensor,
) -> None:
    """The two sums of a tile that the gradient of its norm needs."""
    inside = column < width
    values = tl.load(y + at, mask=here, other=0.0)
    c = g * width + column
    z = values * tl.load(scale + c, mask=inside, other=0.0)[None, :]
    z += tl.load(shift + c, mask=inside, other=0.0)[None, :]
    inner = tl.where(here, grad * _capped_slope(z, ACT, CAP), 0.0)
    normed = (values - tl.load(mean + c, mask=inside, other=0.0)[None, :]) * (
        tl.load(rstd + c, mask=inside, other=0.0)[None, :]
    )
    p = (g * tiles + tile) * width + column
    tl.store(partial + p, tl.sum(inner, 0), mask=inside)
    tl.store(partial + groups * tiles * width + p, tl.sum(inner * normed, 0), mask=inside)


@_grouped  # type: ignore[untyped-decorator]
def _grad_norm_kernel(
    partial: tl.tensor,
    share: tl.tensor,
    scale: tl.tensor,
    of_bias: tl.tensor,
    of_gamma: tl.tensor,
    of_beta: tl.tensor,
    mean_g: tl.tensor,
    mean_gx: tl.tensor,
    n0: tl.tensor,
    n1: tl.tensor,
    n2: tl.tensor,
    n3: tl.tensor,
    tiles: tl.tensor,
    h_size: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TILES: tl.constexpr,
) -> None:
    """The gradients of γ and β, and the means that a batch's statistics take out of the gradient of y.

    A bias in front of the norm has a gradient only where running averages are used: the batch's mean takes it out.
    """
    d, _, count = _group(n0, n1, n2, n3)
    dims, groups = tl.num_programs(1), tl.num_programs(1) * tl.num_programs(2)
    g = tl.program_id(2) * dims + d
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < h_size
    plane = groups * tiles * h_size
    used = tl.cdiv(count, ROWS)
    total = tl.zeros([COLUMNS], tl.float32)
    total_x = tl.zeros([COLUMNS], tl.float32)
    for first in range(0, used, TILES):
        at, there = _partial_tile(first, used, g, tiles, h_size, column, inside, TILES)
        total += tl.sum(tl.load(partial + at, mask=there, other=0.0), 0)
        total_x += tl.sum(tl.load(partial + plane + at, mask=there, other=0.0), 0)
    part = tl.load(share + g)
    out = g * h_size + column
    by = tl.load(scale + out, mask=inside, other=0.0)
    tl.store(of_bias + out, tl.where(part == 0, by * total, 0.0), mask=inside)
    tl.store(of_beta + out, total, mask=inside)
    tl.store(of_gamma + out, total_x, mask=inside)
    tl.store(mean_g + out, total * part, mask=inside)
    tl.store(mean_gx + out, total_x * part, mask=inside)


@_grouped  # type: ignore[untyped-decorator]
def _product_backward_kernel(
    grad: tl.tensor,
    y: tl.tensor,
    scale: tl.tensor,
    shift: tl.tensor,
    mean: tl.tensor,
    rstd: tl.tensor,
    mean_g: tl.tensor,
    mean_gx: tl.tensor,
    table: tl.tensor,
    a: tl.tensor,
    a_scale: tl.tensor,
    a_shift: tl.tensor,
    a_mean: tl.tensor,
    a_rstd: tl.tensor,
    mask: tl.tensor,
    grad_y: tl.tensor,
    grad_a: tl.tensor,
    partial: tl.tensor,
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
    NORMED: tl.constexpr,
    MASKED: tl.constexpr,
    PRECISION: tl.constexpr,
    ALIGNMENT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
) -> None:
    """grad_a = grad_y W with grad_y = scale (g − mean g − x̂ mean(g x̂)), g the gradient in front of the activation.

    Where one product read all blocks (`SHARED`), its gradient goes back to each of them.
    """
    d, start, count = _group(n0, n1, n2, n3)
    b, dims = tl.program_id(2), tl.num_programs(1)
    blocks = tl.cdiv(k_size, COLUMNS)
    tile, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    if tile * ROWS >= count:
        return
    row = tile * ROWS + tl.arange(0, ROWS)
    live = row < count
    real = _real(mask, start + row, live, MASKED)
    column = block * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < k_size
    if SHARED:
        g, first_row = d, start + row
    else:
        g, first_row = b * dims + d, b * cells + start + row
    address = tl.load(table + b * dims + d)
    weight = tl.multiple_of(address.to(tl.pointer_type(tl.float32)), ALIGNMENT)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for h in range(0, h_size, DEPTH):
        hh = h + tl.arange(0, DEPTH)
        deep = hh < h_size
        c = g * h_size + hh
        at = (first_row.to(tl.int64) * h_size)[:, None] + hh[None, :]
        there = real[:, None] & deep[None, :]
        values = tl.load(y + at, mask=there, other=0.0)
        by = tl.load(scale + c, mask=deep, other=0.0)[None, :]
        z = values * by + tl.load(shift + c, mask=deep, other=0.0)[None, :]
        inner = tl.load(grad + at, mask=there, other=0.0) * _capped_slope(z, ACT, CAP)
        normed = (values - tl.load(mean + c, mask=deep, other=0.0)[None, :]) * (
            tl.load(rstd + c, mask=deep, other=0.0)[None, :]
        )
        inner -= tl.load(mean_g + c, mask=deep, other=0.0)[None, :]
        inner -= normed * tl.load(mean_gx + c, mask=deep, other=0.0)[None, :]
        inner = tl.where(there, inner * by, 0.0)
        if SHARED:
            if (b == 0) & (block == 0):
                tl.store(grad_y + at, inner, mask=live[:, None] & deep[None, :])
        else:
            if block == 0:
                tl.store(grad_y + at, inner, mask=live[:, None] & deep[None, :])
        w = tl.load(weight + hh[:, None] * stride_h + column[None, :], mask=deep[:, None] & inside[None, :], other=0.0)
        total = _dot(inner, w, total, PRECISION)
    at_a = ((b * cells + start + row).to(tl.int64) * k_size)[:, None] + column[None, :]
    tl.store(grad_a + at_a, total, mask=live[:, None] & inside[None, :])
    if NORMED:
        _leave_sums(
            total, a, at_a, real[:, None] & inside[None, :], a_scale, a_shift, a_mean, a_rstd, partial,
            b * dims + d, tile, tiles, k_size, column, ACT, CAP, tl.num_programs(2) * dims,
        )  # fmt: skip


@_grouped  # type: ignore[untyped-decorator]
def _grad_weights_kernel(
    grad_y: tl.tensor,
    a: tl.tensor,
    scale: tl.tensor,
    shift: tl.tensor,
    partial: tl.tensor,
    bias: tl.tensor,
    n0: tl.tensor,
    n1: tl.tensor,
    n2: tl.tensor,
    n3: tl.tensor,
    cells: tl.tensor,
    chunks: tl.tensor,
    k_size: tl.tensor,
    h_size: tl.tensor,
    stride_chunk: tl.tensor,
    stride_weight: tl.tensor,
    stride_h: tl.tensor,
    stride_block: tl.tensor,
    ACT: tl.constexpr,
    CAP: tl.constexpr,
    NORMED: tl.constexpr,
    SHARED_Y: tl.constexpr,
    SHARED_A: tl.constexpr,
    MEETING: tl.constexpr,
    PRECISION: tl.constexpr,
    CHUNK: tl.constexpr,
    HIGH: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
) -> None:
    """Σ grad_yᵀ T(a) over the rows of a chunk; zero for chunks past the end."""
    d, start, count = _group(n0, n1, n2, n3)
    b, dims = tl.program_id(2), tl.num_programs(1)
    across = tl.cdiv(k_size, COLUMNS)
    pieces = across * tl.cdiv(h_size, HIGH)
    chunk, piece = tl.program_id(0) // pieces, tl.program_id(0) % pieces
    weight = d
    if MEETING:  # the second half of M's columns is for cells of one dimension further up
        weight = d - b
        if (weight < 0) | (weight >= dims - 1):
            return
    hh = (piece // across) * HIGH + tl.arange(0, HIGH)
    kk = (piece % across) * COLUMNS + tl.arange(0, COLUMNS)
    high, inside = hh < h_size, kk < k_size
    of_y, of_a = (0 if SHARED_Y else b), (0 if SHARED_A else b)
    if NORMED:
        g = (of_a * dims + d) * k_size + kk
        by = tl.load(scale + g, mask=inside, other=0.0)[None, :]
        to = tl.load(shift + g, mask=inside, other=0.0)[None, :]
    total = tl.zeros([HIGH, COLUMNS], tl.float32)
    of_bias = tl.zeros([HIGH], tl.float32)
    stop = tl.minimum(count, (chunk + 1) * CHUNK)
    for first in range(chunk * CHUNK, stop, DEPTH):
        row = first + tl.arange(0, DEPTH)
        live = row < stop
        y_row = (of_y * cells + start + row).to(tl.int64) * h_size
        gy = tl.load(grad_y + y_row[None, :] + hh[:, None], mask=high[:, None] & live[None, :], other=0.0)
        a_row = (of_a * cells + start + row).to(tl.int64) * k_size
        x = tl.load(a + a_row[:, None] + kk[None, :], mask=live[:, None] & inside[None, :], other=0.0)
        if NORMED:
            x = _capped(x * by + to, ACT, CAP)
        if MEETING:
            of_bias += tl.sum(gy, 1)
        total = _dot(gy, x, total, PRECISION)
    if MEETING:
        once = (b == 1) & (piece % across == 0)
        tl.store(bias + chunk.to(tl.int64) * stride_chunk + weight * h_size + hh, of_bias, mask=high & once)
    out = chunk.to(tl.int64) * stride_chunk + weight * stride_weight + b * stride_block
    at = out + hh[:, None] * stride_h + kk[None, :]
    tl.store(partial + at, total, mask=high[:, None] & inside[None, :])


@_jit  # type: ignore[untyped-decorator]
def _hear_kernel(
    meet: tl.tensor,
    total: tl.tensor,
    x: tl.tensor,
    down_ptr: tl.tensor,
    down_idx: tl.tensor,
    z: tl.tensor,
    eps: tl.tensor,
    ptr: tl.tensor,
    idx: tl.tensor,
    num_rows: tl.tensor,
    width: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    UNROLL: tl.constexpr,
    ACT: tl.constexpr,
) -> None:
    """(1 + ε) x_σ + Σ_{δ ∈ C(σ)} ( S(δ) − act(P_σ + Q_δ) ), and (1 + ε) x_σ + Σ_{τ ∈ B(σ)} x_τ."""
    plane = num_rows.to(tl.int64) * width
    start, size, at, here = _tile(ptr, num_rows, width, ROWS, COLUMNS)
    own = (1 + eps) * _read(x, at, here)
    member = _read(meet, at, here)
    upper = own
    for first in range(0, tl.max(size), UNROLL):
        for k in tl.static_range(UNROLL):
            there, live = _entry(idx, start, size, first + k, width, COLUMNS)
            hub, of_all = _read(meet + plane, there, live), _read(total, there, live)
            upper += tl.where(live, of_all - _value(member + hub, ACT), 0.0)
    tl.store(z + at, upper, mask=here)
    start, size, at, here = _tile(down_ptr, num_rows, width, ROWS, COLUMNS)
    below = own
    for first in range(0, tl.max(size), UNROLL):
        for k in tl.static_range(UNROLL):
            there, live = _entry(down_idx, start, size, first + k, width, COLUMNS)
            below += _read(x, there, live)
    tl.store(z + plane + at, below, mask=here)


@_jit  # type: ignore[untyped-decorator]
def _hear_gradient_kernel(
    meet: tl.tensor,
    grad: tl.tensor,
    total: tl.tensor,
    of_meet: tl.tensor,
    of_x: tl.tensor,
    eps: tl.tensor,
    ptr: tl.tensor,
    idx: tl.tensor,
    num_rows: tl.tensor,
    width: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    UNROLL: tl.constexpr,
    ACT: tl.constexpr,
) -> None:
    """Grad P_τ = Σ_{δ ∈ C(τ)} act'(P_τ + Q_δ) ( H(δ) − G_τ ), and the part of grad x that is not through M."""
    start, size, at, here = _tile(ptr, num_rows, width, ROWS, COLUMNS)
    plane = num_rows.to(tl.int64) * width
    member, own, below = _read(meet, at, here), _read(grad, at, here), _read(grad + plane, at, here)
    value = tl.zeros([ROWS, COLUMNS], tl.float32)
    straight = (1 + eps) * (own + below)
    for first in range(0, tl.max(size), UNROLL):
        for k in tl.static_range(UNROLL):
            there, live = _entry(idx, start, size, first + k, width, COLUMNS)
            hub, of_all = _read(meet + plane, there, live), _read(total, there, live)
            value += tl.where(live, _slope(member + hub, ACT) * (of_all - own), 0.0)
            straight += _read(grad + plane, there, live)
    tl.store(of_meet + at, value, mask=here)
    tl.store(of_x + at, straight, mask=here)
