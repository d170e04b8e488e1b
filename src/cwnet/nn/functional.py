"""Sums over the incidences of a complex. All of message passing that does not look at the receiver is made of these.

Each sum has a plain PyTorch form, which runs anywhere and is the reference, and a fused Triton kernel that is taken on
a GPU (`cwnet.nn.kernels`). Both sum over compressed sparse rows in a fixed order, so results do not change from run to
run; gradients are sums over the transposed rows and not atomic scatters. Gradients can be differentiated in their turn:
where PyTorch asks for that (``create_graph=True``), they are made of operations that it can differentiate.

What is called here step by step is an `autograd.Function`, the cheapest way through PyTorch. Under `torch.compile`,
`torch.export` the same sums are operators of PyTorch (`cwnet.nn._operators`), and under `torch.func` they are made of
PyTorch's own (`cwnet.nn._plain`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from cwnet.complexes import Csr, Incidence
from cwnet.complexes._cells import Cells
from cwnet.nn import kernels
from cwnet.nn.kernels import _cpu

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "adjacent_sum",
    "boundary_sum",
    "coboundary_sum",
    "gather",
    "incidence_attention",
    "incidence_sum",
    "lower_sum",
    "pooled",
    "segment_max",
    "segment_mean",
    "segment_softmax",
    "segment_spread",
    "segment_sum",
    "upper_sum",
]


class Activation(NamedTuple):
    """A function of one number, and how a gradient goes back through it: (gradient, argument) → gradient."""

    value: Callable[[Tensor], Tensor]
    backward: Callable[[Tensor, Tensor], Tensor]


#: The activations the fused sums know, by name.
ACTIVATIONS: dict[str, Activation] = {
    "identity": Activation(lambda z: z, lambda g, z: g),
    "relu": Activation(torch.relu, lambda g, z: torch.ops.aten.threshold_backward(g, z, 0)),
    "elu": Activation(F.elu, lambda g, z: g * torch.where(z > 0, 1, torch.exp(z))),
    "tanh": Activation(torch.tanh, lambda g, z: g * (1 - torch.tanh(z).square())),
    "silu": Activation(F.silu, lambda g, z: g * torch.sigmoid(z) * (1 + z * (1 - torch.sigmoid(z)))),
}


#: Ways of pooling by name, and the parts of each.
POOLS = {
    "sum": ("sum",),
    "mean": ("mean",),
    "max": ("max",),
    "both": ("sum", "mean"),
    "all": ("sum", "mean", "max"),
}


def activation(name: str) -> Activation:
    """Look an activation up by name."""
    if name not in ACTIVATIONS:
        raise ValueError(f"unknown activation {name!r}: choose from {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


# ------------------------------------------------------------------------------------------------ over one incidence


def incidence_sum(x: Tensor, incidence: Incidence) -> Tensor:
    """Σ_{τ ∈ B(σ)} x_τ for every upper cell σ: the boundary matrix, without signs, times x.

    Args:
        x: [lower cells, width].
        incidence: between lower and upper cells; `incidence.flipped()` sums over coboundaries.

    Returns:
        [upper cells, width].
    """
    _check(x, incidence.up.num_rows, "x")
    if other := kernels.other_way():
        return other.incidence_sum(x, incidence)  # type: ignore[no-any-return]
    out: Tensor = _IncidenceSum.apply(x, incidence.down, incidence.up)  # type: ignore[no-untyped-call]
    return out


def gather(x: Tensor, index: Tensor) -> Tensor:
    """x_i for every i of an index; the gradient is summed in a fixed order, where that of x[index] is a race."""
    rows = Csr(torch.arange(index.numel() + 1, device=index.device), index)
    return incidence_sum(x, Incidence.of(rows, x.shape[0]))


def boundary_sum(x: Tensor, cells: Cells, d: int) -> Tensor:
    """Σ_{τ ∈ B(σ)} x_τ for every d-cell σ, from features of (d-1)-cells."""
    return incidence_sum(x, cells.incidence(d))


def coboundary_sum(x: Tensor, cells: Cells, d: int) -> Tensor:
    """Σ_{δ ∈ C(σ)} x_δ for every d-cell σ, from features of (d+1)-cells."""
    return incidence_sum(x, cells.incidence(d + 1).flipped())


class _IncidenceSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Csr, columns: Csr) -> Tensor:
        ctx.rows, ctx.columns = rows, columns
        return gather_sum(x, rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        if torch.is_grad_enabled():
            return _IncidenceSum.apply(grad, ctx.columns, ctx.rows), None, None  # type: ignore[no-untyped-call]
        return gather_sum(grad, ctx.columns), None, None


def gather_sum(x: Tensor, rows: Csr) -> Tensor:
    """Σ of x over the entries of each row."""
    if x.shape[1] == 0:
        return x.new_zeros(rows.num_rows, 0)
    if kernels.usable(x):
        return kernels.gather_sum(x, rows)
    rows = _only(rows)
    # An embedding bag is a gather and a segment sum in one, without an intermediate of the size of the incidences.
    return F.embedding_bag(rows.idx, x.contiguous(), rows.ptr, mode="sum", include_last_offset=True)


def _only(rows: Csr) -> Csr:
    """Rows without the entries before the first and after the last, which padded batches have."""
    if rows.ptr.is_cuda:  # there, looking would mean waiting, and an embedding bag reads what the pointers say
        return rows
    whole = int(rows.ptr[0]) == 0 and int(rows.ptr[-1]) == rows.idx.numel()
    return rows if whole else rows.slice(0, rows.num_rows)


def segment_sum(x: Tensor, ptr: Tensor) -> Tensor:
    """Σ of x over consecutive rows ``ptr[i]:ptr[i + 1]``; an empty segment gives zero.

    Rows after the last segment have no part: padded batches have some.
    """
    _check(x, x.shape[0], "x")
    if other := kernels.other_way():
        return other.segment_sum(x, ptr)  # type: ignore[no-any-return]
    check_segments(x, ptr)
    out: Tensor = _SegmentSum.apply(x, ptr)  # type: ignore[no-untyped-call]
    return out


def check_segments(x: Tensor, ptr: Tensor) -> None:
    """Segments must end within x."""
    if not ptr.is_cuda and int(ptr[-1]) > x.shape[0]:  # on a GPU, looking would mean waiting for it
        raise ValueError(f"the segments end at row {int(ptr[-1])}, but x has {x.shape[0]} rows")


def segment_mean(x: Tensor, ptr: Tensor) -> Tensor:
    """The mean over consecutive rows; an empty segment gives zero."""
    return per_row(segment_sum(x, ptr), ptr)


def per_row(total: Tensor, ptr: Tensor) -> Tensor:
    """Sums over segments, divided by the rows of each."""
    return total / ptr.diff().clamp(min=1)[:, None].to(total.dtype)


def segment_max(x: Tensor, ptr: Tensor) -> Tensor:
    """The largest of consecutive rows in each feature; an empty segment gives zero, and later rows have no part."""
    owner = segment_of(ptr, x.shape[0])[:, None].expand_as(x)
    return x.new_zeros(ptr.numel(), x.shape[1]).scatter_reduce(0, owner, x, "amax", include_self=False)[:-1]


def segment_of(ptr: Tensor, size: int) -> Tensor:
    """The segment of each of so many rows; those of none are in one of their own, after the last."""
    found = torch.searchsorted(ptr, torch.arange(size, device=ptr.device), right=True) - 1
    return found.remainder(ptr.numel())  # -1, before the first segment, is after the last as well


def segment_spread(x: Tensor, ptr: Tensor, size: int) -> Tensor:
    """x_i in each of the rows ``ptr[i]:ptr[i + 1]``, zero in rows of no segment: the transpose of `segment_sum`.

    Args:
        x: [segments, width].
        ptr: [segments + 1].
        size: number of rows.

    Returns:
        [size, width].
    """
    _check(x, ptr.numel() - 1, "x")
    if other := kernels.other_way():
        return other.segment_spread(x, ptr, size)  # type: ignore[no-any-return]
    out: Tensor = _SegmentSpread.apply(x, ptr, size)  # type: ignore[no-untyped-call]
    return out


def segment_softmax(scores: Tensor, ptr: Tensor) -> Tensor:
    r"""Softmax over consecutive rows, in every column by itself.

        α_e = exp(s_e) / Σ_{f in the segment of e} exp(s_f)

    The largest score of a segment is taken off first, so nothing overflows. Rows of no segment get zero, whatever is
    in them, and a gradient of zero: the incidences of padded batches have such rows before the first segment and after
    the last.

    Args:
        scores: [rows, heads].
        ptr: [segments + 1]; segment i is ``scores[ptr[i]:ptr[i + 1]]``.

    Returns:
        [rows, heads].
    """
    _check(scores, scores.shape[0], "scores")
    if other := kernels.other_way():
        return other.segment_softmax(scores, ptr)  # type: ignore[no-any-return]
    out: Tensor = _SegmentSoftmax.apply(scores, ptr)  # type: ignore[no-untyped-call]
    return out


def pooled(x: Sequence[Tensor], ptrs: Sequence[Tensor], pool: str) -> Tensor:
    """Sums over segments, means and maxima in several dimensions: [dimensions, segments, features].

    Args:
        x: [rows, width] in each dimension.
        ptrs: the segments of each dimension, as in `segment_sum`.
        pool: a name in `POOLS`; where it has several parts, they lie side by side.
    """
    parts = POOLS[pool]
    first = x[0]
    found: list[Tensor] = []
    if "sum" in parts or "mean" in parts:
        if kernels.usable(first) and kernels.whole() and first.dtype == torch.float32 and len(x) <= kernels.MAX_DIMS:
            found = [kernels.pool(x, ptrs, "sum" in parts, "mean" in parts)]
        else:
            total = [segment_sum(h, ptr) for h, ptr in zip(x, ptrs, strict=True)]
            found = [torch.stack(total)] if "sum" in parts else []
            if "mean" in parts:
                found.append(torch.stack([per_row(t, ptr) for t, ptr in zip(total, ptrs, strict=True)]))
    if "max" in parts:
        found.append(torch.stack([segment_max(h, ptr) for h, ptr in zip(x, ptrs, strict=True)]))
    return found[0] if len(found) == 1 else torch.cat(found, dim=2)


class _SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ptr: Tensor) -> Tensor:
        ctx.ptr, ctx.size = ptr, x.shape[0]
        return sum_segments(x, ptr)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        if torch.is_grad_enabled():
            return _SegmentSpread.apply(grad, ctx.ptr, ctx.size), None  # type: ignore[no-untyped-call]
        return spread(grad, ctx.ptr, ctx.size), None


class _SegmentSpread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ptr: Tensor, size: int) -> Tensor:
        ctx.ptr = ptr
        return spread(x, ptr, size)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        if torch.is_grad_enabled():
            return _SegmentSum.apply(grad, ctx.ptr), None, None  # type: ignore[no-untyped-call]
        return sum_segments(grad, ctx.ptr), None, None


def spread(x: Tensor, ptr: Tensor, size: int) -> Tensor:
    """x_i in each of the rows of segment i."""
    if kernels.usable(x):
        return kernels.spread(x, ptr, size)
    return F.pad(x, (0, 0, 0, 1))[segment_of(ptr, size)]  # rows of no segment find zeros


class _SegmentSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, ptr: Tensor) -> Tensor:
        weights = softmax(scores, ptr)
        ctx.ptr = ptr
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        return softmax_backward(grad, weights, ctx.ptr), None


def softmax_backward(grad: Tensor, weights: Tensor, ptr: Tensor) -> Tensor:
    """The gradient of the scores; PyTorch can differentiate it."""
    mean = segment_spread(segment_sum(weights * grad, ptr), ptr, weights.shape[0])
    return torch.where(weights == 0, 0, weights * (grad - mean))  # also where the gradient is anything


def softmax(scores: Tensor, ptr: Tensor) -> Tensor:
    """Softmax over consecutive rows."""
    owner = segment_of(ptr, scores.shape[0])
    largest = F.pad(segment_max(scores, ptr), (0, 0, 0, 1))[owner]
    weights = torch.where((owner < ptr.numel() - 1)[:, None], torch.exp(scores - largest), 0)
    return weights / F.pad(sum_segments(weights, ptr), (0, 0, 0, 1), value=1.0)[owner]


# ------------------------------------------------------------------------------------------- attention over incidences


def incidence_attention(q: Tensor, k: Tensor, v: Tensor, incidence: Incidence, heads: int = 1) -> Tensor:
    r"""Every upper cell σ attends to the cells on its boundary, in time linear in the incidences.

        Σ_{τ ∈ B(σ)} α_στ v_τ,     α_στ = softmax_{τ ∈ B(σ)}(q_σ · k_τ / √w)

    for each head, whose features are w consecutive columns. A cell without boundary gets zero.

    α_στ depends on q_σ, k_τ and log Σ_τ exp(q_σ · k_τ / √w) alone. So on a GPU it is computed anew in every pass, from
    either side, and nothing of the size of the incidences is kept. Gradients are sums over rows, without atomics.

    Args:
        q: queries, [upper cells, width].
        k: keys, [lower cells, width].
        v: values, [lower cells, width].
        incidence: between lower and upper cells; with `incidence.flipped()` cells attend to their coboundary.
        heads: number of heads; it divides the width.

    Returns:
        [upper cells, width].
    """
    _check(q, incidence.down.num_rows, "q")
    _check(k, incidence.up.num_rows, "k", q)
    _check(v, incidence.up.num_rows, "v", q)
    if heads < 1 or q.shape[1] % heads:
        raise ValueError(f"{heads} heads can not share {q.shape[1]} features")
    if other := kernels.other_way():
        return other.incidence_attention(q, k, v, incidence, heads)  # type: ignore[no-any-return]
    out: Tensor = _IncidenceAttention.apply(q, k, v, incidence, heads)  # type: ignore[no-untyped-call]
    return out


class _IncidenceAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, incidence: Incidence, heads: int) -> Tensor:
        ctx.incidence, ctx.heads = incidence, heads
        out, norm = attention(q, k, v, incidence, heads)
        ctx.save_for_backward(q, k, v, norm)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, norm = ctx.saved_tensors
        if torch.is_grad_enabled():
            plain = partial(plain_attention, incidence=ctx.incidence, heads=ctx.heads)
            return *gradients_to_differentiate(plain, (q, k, v), grad), None, None
        return *attention_backward(grad, q, k, v, norm, ctx.incidence, ctx.heads), None, None


def attention(q: Tensor, k: Tensor, v: Tensor, incidence: Incidence, heads: int) -> tuple[Tensor, Tensor]:
    """The result, and what the kernels' backward pass needs beside the arguments."""
    if kernels.usable(q):
        return kernels.attention(q, k, v, incidence, heads)
    rows = expanded(incidence)
    weights = _attention_weights(q, k, rows, heads)
    return sum_segments(_times(weights, v.index_select(0, rows.down.idx)), rows.down.ptr), q.new_empty(0)


def attention_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, norm: Tensor, incidence: Incidence, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v."""
    if kernels.usable(q):
        return kernels.attention_backward(grad, q, k, v, norm, incidence, heads)
    rows = expanded(incidence)
    (ptr, idx), columns = rows.down, Csr(rows.up.ptr, rows.in_down)
    weights, each = _attention_weights(q, k, rows, heads), grad.index_select(0, rows.down_rows)
    slope = weights * _by_head(each, v.index_select(0, idx), heads)
    slope -= weights * sum_segments(slope, ptr).index_select(0, rows.down_rows)
    slope /= math.sqrt(q.shape[1] / heads)
    of_q = sum_segments(_times(slope, k.index_select(0, idx)), ptr)
    of_k = gather_sum(_times(slope, q.index_select(0, rows.down_rows)), columns)
    return of_q, of_k, gather_sum(_times(weights, each), columns)


def plain_attention(q: Tensor, k: Tensor, v: Tensor, incidence: Incidence, heads: int) -> Tensor:
    """The same in operations that PyTorch can differentiate any number of times."""
    rows = expanded(incidence)
    scores = _by_head(q.index_select(0, rows.down_rows), k.index_select(0, rows.down.idx), heads)
    weights = segment_softmax(scores / math.sqrt(q.shape[1] / heads), rows.down.ptr)
    return segment_sum(_times(weights, v.index_select(0, rows.down.idx)), rows.down.ptr)


def gradients_to_differentiate(
    function: Callable[..., Tensor], inputs: tuple[Tensor, ...], grad: Tensor
) -> list[Tensor | None]:
    """The gradients of a function as PyTorch finds them, so that it can differentiate them in their turn."""
    wanted = [t for t in inputs if t.requires_grad]
    found = iter(torch.autograd.grad(function(*inputs), wanted, grad, create_graph=True))
    return [next(found) if t.requires_grad else None for t in inputs]


def _attention_weights(q: Tensor, k: Tensor, incidence: Incidence, heads: int) -> Tensor:
    """α for every entry of `incidence.down` and head."""
    scores = _by_head(q.index_select(0, incidence.down_rows), k.index_select(0, incidence.down.idx), heads)
    return softmax(scores / math.sqrt(q.shape[1] / heads), incidence.down.ptr)


def _by_head(a: Tensor, b: Tensor, heads: int) -> Tensor:
    """The products a_i · b_i of each head: [n, width] → [n, heads]."""
    return (a * b).reshape(a.shape[0], heads, a.shape[1] // heads).sum(2)


def _times(weights: Tensor, x: Tensor) -> Tensor:
    """Features times the weight of their head: [n, heads] and [n, width] → [n, width]."""
    return (weights[:, :, None] * x.reshape(*weights.shape, x.shape[1] // weights.shape[1])).flatten(1)


# ------------------------------------------------------------------------------------- over neighbours through a cell


def upper_sum(x: Tensor, shared: Tensor | None, cells: Cells, d: int, act: str = "identity") -> Tensor:
    """Σ_{δ ∈ C(σ)} Σ_{τ ∈ B(δ), τ ≠ σ} act(x_τ + shared_δ) for every d-cell σ.

    Args:
        x: features of the d-cells, [d-cells, width].
        shared: features of the (d+1)-cells they meet in, [(d+1)-cells, width]; None for none.
        cells: a complex or a batch.
        d: the dimension.
        act: the name of an activation; see `ACTIVATIONS`.
    """
    return adjacent_sum(x, shared, cells.incidence(d + 1), act)


def lower_sum(x: Tensor, shared: Tensor | None, cells: Cells, d: int, act: str = "identity") -> Tensor:
    """Σ_{δ ∈ B(σ)} Σ_{τ ∈ C(δ), τ ≠ σ} act(x_τ + shared_δ) for every d-cell σ, d ≥ 1; `shared` are (d-1)-cells."""
    return adjacent_sum(x, shared, cells.incidence(d).flipped(), act)


def adjacent_sum(x: Tensor, shared: Tensor | None, incidence: Incidence, act: str = "identity") -> Tensor:
    """Sum over neighbours through a shared upper cell, in time linear in the incidences.

    With m(τ, δ) = act(x_τ + shared_δ), which does not look at the receiver σ,

        Σ_{δ ∈ C(σ)} Σ_{τ ∈ B(δ), τ ≠ σ} m(τ, δ)  =  Σ_{δ ∈ C(σ)} ( S(δ) − m(σ, δ) ),     S(δ) = Σ_{τ ∈ B(δ)} m(τ, δ)

    so a cell with a boundary of size k costs 2k messages and not k(k-1). With G the gradient of the result and
    H(δ) = Σ_{σ ∈ B(δ)} G_σ, the gradient of m(τ, δ) is H(δ) − G_τ: the same two passes. Messages are computed anew in
    each pass, so nothing of the size of the incidences is kept for the backward pass.
    """
    value = activation(act).value
    _check(x, incidence.up.num_rows, "x")
    if shared is None:
        m = value(x)
        total = incidence_sum(incidence_sum(m, incidence), incidence.flipped())
        return total - incidence.up.sizes[:, None].to(x.dtype) * m
    _check(shared, incidence.down.num_rows, "shared", x)
    if other := kernels.other_way():
        return other.adjacent_sum(x, shared, incidence, act)  # type: ignore[no-any-return]
    out: Tensor = _AdjacentSum.apply(x, shared, incidence, act)  # type: ignore[no-untyped-call]
    return out


class _AdjacentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, shared: Tensor, incidence: Incidence, act: str) -> Tensor:
        ctx.save_for_backward(x, shared)
        ctx.incidence, ctx.act = incidence, act
        return sum_adjacent(x, shared, incidence, act)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, shared = ctx.saved_tensors
        if torch.is_grad_enabled():
            plain = partial(plain_adjacent, incidence=ctx.incidence, act=ctx.act)
            return *gradients_to_differentiate(plain, (x, shared), grad), None, None
        return *sum_adjacent_backward(grad, x, shared, ctx.incidence, ctx.act), None, None


def sum_adjacent(x: Tensor, shared: Tensor, incidence: Incidence, act: str) -> Tensor:
    """The forward pass of `adjacent_sum`, by whatever kernel there is."""
    if kernels.usable(x):
        return kernels.adjacent_sum(x, shared, incidence, act)
    if act == "relu" and kernels.usable_on_cpu(x):
        return _cpu.adjacent_sum(x, shared, incidence)
    incidence = expanded(incidence)
    m = activation(act).value(_meet(x, shared, incidence))
    total = sum_segments(m, incidence.down.ptr)  # S(δ)
    return gather_sum(total, incidence.up).sub_(gather_sum(m, Csr(incidence.up.ptr, incidence.in_down)))


def sum_adjacent_backward(
    grad: Tensor, x: Tensor, shared: Tensor, incidence: Incidence, act: str
) -> tuple[Tensor, Tensor]:
    """The gradients of `x` and `shared`."""
    if kernels.usable(x):
        return kernels.adjacent_sum_backward(grad, x, shared, incidence, act)
    if act == "relu" and kernels.usable_on_cpu(x):
        return _cpu.adjacent_sum_backward(grad, x, shared, incidence)
    incidence = expanded(incidence)
    total = gather_sum(grad, incidence.down)  # H(δ)
    of_m = total.index_select(0, incidence.down_rows).sub_(grad.index_select(0, incidence.down.idx))
    of_m = activation(act).backward(of_m, _meet(x, shared, incidence))
    of_x = gather_sum(of_m, Csr(incidence.up.ptr, incidence.in_down))
    return of_x, sum_segments(of_m, incidence.down.ptr)


def plain_adjacent(x: Tensor, shared: Tensor, incidence: Incidence, act: str) -> Tensor:
    """The same in operations that PyTorch can differentiate any number of times."""
    rows = expanded(incidence)
    m = activation(act).value(x.index_select(0, rows.down.idx) + shared.index_select(0, rows.down_rows))
    total = segment_sum(m, rows.down.ptr)
    own = segment_sum(m.index_select(0, rows.in_down), rows.up.ptr)
    return incidence_sum(total, rows.flipped()) - own


def _meet(x: Tensor, shared: Tensor, incidence: Incidence) -> Tensor:
    """x_τ + shared_δ for every incidence, in the order of `down`."""
    return x.index_select(0, incidence.down.idx).add_(shared.index_select(0, incidence.down_rows))


def sum_segments(x: Tensor, ptr: Tensor) -> Tensor:
    """Σ of x over consecutive rows."""
    first, stop = 0, x.shape[0]
    if not kernels.usable(x):
        # An embedding bag may take what comes before the first segment or after the last for a part of it.
        first, stop = ptr[[0, -1]].tolist()
    return gather_sum(x, Csr(ptr - first if first else ptr, torch.arange(first, stop, device=x.device)))


def expanded(incidence: Incidence) -> Incidence:
    """An incidence with what it knows of every entry; that of a padded batch knows its rows alone."""
    if incidence.down_rows.numel() == incidence.down.idx.numel():
        return incidence
    return Incidence.of(incidence.down.slice(0, incidence.down.num_rows), incidence.up.num_rows)


def _check(x: Tensor, rows: int, name: str, like: Tensor | None = None) -> None:
    if x.dim() != 2 or x.shape[0] != rows:
        raise ValueError(f"{name} must be [{rows}, width], one row per cell, not of shape {tuple(x.shape)}")
    if not x.is_floating_point():
        raise TypeError(f"{name} must be floating point, not {x.dtype}: encode whole numbers first")
    if like is not None and (x.shape[1] != like.shape[1] or x.dtype != like.dtype):
        raise ValueError(
            f"{name} is {x.dtype} of width {x.shape[1]}, x is {like.dtype} of width {like.shape[1]}: they must agree"
        )
