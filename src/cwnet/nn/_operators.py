"""The sums of message passing as operators of PyTorch: what `torch.compile` and `torch.export` see.

An operator says which shapes come out and what its gradient is, and is opaque otherwise: tracing does not look inside,
and what runs in the end is the same kernel as without tracing. A call costs some ten microseconds more than that of an
`autograd.Function`, so these are taken while PyTorch traces and not otherwise (`kernels.traced`).

An incidence goes in as the list of its tensors, because operators take nothing but tensors, numbers and text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from cwnet._torch import NO_OPERATORS
from cwnet.complexes import Csr, Incidence
from cwnet.nn import functional, kernels
from cwnet.nn.kernels import _cpu

__all__ = [
    "adjacent_sum",
    "incidence_attention",
    "incidence_sum",
    "norm_relu",
    "segment_softmax",
    "segment_spread",
    "segment_sum",
    "signed_sum",
]


if NO_OPERATORS is not None:
    raise NotImplementedError(NO_OPERATORS)


def _operator(function: Callable[..., Any]) -> Any:
    """The function as the operator ``cwnet::name``."""
    return torch.library.custom_op(f"cwnet::{function.__name__.strip('_')}", function, mutates_args=())


def _tensors(incidence: Incidence) -> list[Tensor]:
    return [*incidence.down, *incidence.up, *incidence[2:]]


def _incidence(tensors: Sequence[Tensor]) -> Incidence:
    down_ptr, down_idx, up_ptr, up_idx, *others = tensors
    return Incidence(Csr(down_ptr, down_idx), Csr(up_ptr, up_idx), *others)


# ------------------------------------------------------------------------------------------------ sums over incidences


@_operator
def _incidence_sum(x: Tensor, ptr: Tensor, idx: Tensor, other_ptr: Tensor, other_idx: Tensor) -> Tensor:
    """Σ of x over the entries of each row; the other rows are the transpose."""
    return functional.gather_sum(x, Csr(ptr, idx))


def _incidence_sum_shape(x: Tensor, ptr: Tensor, *_: Tensor) -> Tensor:
    return x.new_empty(ptr.shape[0] - 1, x.shape[1])


_incidence_sum.register_fake(_incidence_sum_shape)


def _keep_rows(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[1:])


def _incidence_sum_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    ptr, idx, other_ptr, other_idx = ctx.saved_tensors
    return _incidence_sum(grad, other_ptr, other_idx, ptr, idx), None, None, None, None


_incidence_sum.register_autograd(_incidence_sum_backward, setup_context=_keep_rows)


def incidence_sum(x: Tensor, incidence: Incidence) -> Tensor:
    """Σ of x over the boundary of each upper cell."""
    out: Tensor = _incidence_sum(x, *incidence.down, *incidence.up)
    return out


@_operator
def _signed_sum(
    x: Tensor, ptr: Tensor, idx: Tensor, signs: Tensor, other_ptr: Tensor, other_idx: Tensor, other_signs: Tensor
) -> Tensor:
    from cwnet.nn.signed import weighted_gather

    return weighted_gather(x, Csr(ptr, idx), signs)


def _signed_sum_shape(x: Tensor, ptr: Tensor, *_: Tensor) -> Tensor:
    return x.new_empty(ptr.shape[0] - 1, x.shape[1])


_signed_sum.register_fake(_signed_sum_shape)


def _signed_sum_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    rows = ctx.saved_tensors
    return _signed_sum(grad, *rows[3:], *rows[:3]), *(None,) * 6


_signed_sum.register_autograd(_signed_sum_backward, setup_context=_keep_rows)


def signed_sum(x: Tensor, incidence: Any) -> Tensor:
    """Σ of [τ:σ] x_τ over the boundary of each upper cell σ."""
    down, up = incidence.down, incidence.up
    out: Tensor = _signed_sum(x, *down, incidence.down_signs, *up, incidence.up_signs)
    return out


# -------------------------------------------------------------------------------------------------- sums over segments


@_operator
def segment_sum(x: Tensor, ptr: Tensor) -> Tensor:
    """Σ of x over consecutive rows."""
    functional.check_segments(x, ptr)
    return functional.sum_segments(x, ptr)


def _segment_sum_shape(x: Tensor, ptr: Tensor) -> Tensor:
    return x.new_empty(ptr.shape[0] - 1, x.shape[1])


segment_sum.register_fake(_segment_sum_shape)


def _keep_segments(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.size = inputs[0].shape[0]
    ctx.save_for_backward(inputs[1])


def _segment_sum_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return segment_spread(grad, *ctx.saved_tensors, ctx.size), None


segment_sum.register_autograd(_segment_sum_backward, setup_context=_keep_segments)


@_operator
def segment_spread(x: Tensor, ptr: Tensor, size: int) -> Tensor:
    """x_i in each of the rows of segment i."""
    return functional.spread(x, ptr, size)


def _segment_spread_shape(x: Tensor, ptr: Tensor, size: int) -> Tensor:
    return x.new_empty(size, x.shape[1])


segment_spread.register_fake(_segment_spread_shape)


def _segment_spread_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return segment_sum(grad, *ctx.saved_tensors), None, None


segment_spread.register_autograd(_segment_spread_backward, setup_context=_keep_segments)


@_operator
def segment_softmax(scores: Tensor, ptr: Tensor) -> Tensor:
    """Softmax over consecutive rows."""
    return functional.softmax(scores, ptr)


def _segment_softmax_shape(scores: Tensor, ptr: Tensor) -> Tensor:
    return torch.empty_like(scores, memory_format=torch.contiguous_format)


segment_softmax.register_fake(_segment_softmax_shape)


def _keep_weights(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(output, inputs[1])


def _softmax_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return functional.softmax_backward(grad, *ctx.saved_tensors), None


segment_softmax.register_autograd(_softmax_backward, setup_context=_keep_weights)


# ------------------------------------------------------------------------------------------ sums over adjacent cells


@_operator
def _adjacent_sum(x: Tensor, shared: Tensor, incidence: Sequence[Tensor], act: str) -> Tensor:
    return functional.sum_adjacent(x, shared, _incidence(incidence), act)


def _adjacent_sum_shape(x: Tensor, shared: Tensor, incidence: Sequence[Tensor], act: str) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


_adjacent_sum.register_fake(_adjacent_sum_shape)


@_operator
def _adjacent_sum_backward(
    grad: Tensor, x: Tensor, shared: Tensor, incidence: Sequence[Tensor], act: str
) -> tuple[Tensor, Tensor]:
    return functional.sum_adjacent_backward(grad, x, shared, _incidence(incidence), act)


def _adjacent_sum_backward_shape(
    grad: Tensor, x: Tensor, shared: Tensor, incidence: Sequence[Tensor], act: str
) -> tuple[Tensor, Tensor]:
    contiguous = torch.contiguous_format
    return torch.empty_like(x, memory_format=contiguous), torch.empty_like(shared, memory_format=contiguous)


_adjacent_sum_backward.register_fake(_adjacent_sum_backward_shape)


def _keep_adjacent(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, shared, incidence, ctx.act = inputs
    ctx.save_for_backward(x, shared, *incidence)


def _adjacent_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    x, shared, *incidence = ctx.saved_tensors
    return *_adjacent_sum_backward(grad, x, shared, incidence, ctx.act), [None] * len(incidence), None


_adjacent_sum.register_autograd(_adjacent_backward, setup_context=_keep_adjacent)


def adjacent_sum(x: Tensor, shared: Tensor, incidence: Incidence, act: str) -> Tensor:
    """`cwnet.nn.functional.adjacent_sum`."""
    out: Tensor = _adjacent_sum(x, shared, _tensors(incidence), act)
    return out


# ---------------------------------------------------------------------------------------------------------- attention


@_operator
def _attention(q: Tensor, k: Tensor, v: Tensor, incidence: Sequence[Tensor], heads: int) -> tuple[Tensor, Tensor]:
    return functional.attention(q, k, v, _incidence(incidence), heads)


def _attention_shape(q: Tensor, k: Tensor, v: Tensor, incidence: Sequence[Tensor], heads: int) -> tuple[Tensor, Tensor]:
    norm = q.new_empty(q.shape[0], heads, dtype=torch.float32) if kernels.usable(q) else q.new_empty(0)
    return torch.empty_like(q, memory_format=torch.contiguous_format), norm


_attention.register_fake(_attention_shape)


@_operator
def _attention_gradients(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, norm: Tensor, incidence: Sequence[Tensor], heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    return functional.attention_backward(grad, q, k, v, norm, _incidence(incidence), heads)


def _attention_gradients_shape(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, norm: Tensor, incidence: Sequence[Tensor], heads: int
) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(t, memory_format=torch.contiguous_format) for t in (q, k, v))


_attention_gradients.register_fake(_attention_gradients_shape)


def _keep_attention(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, incidence, ctx.heads = inputs
    ctx.save_for_backward(q, k, v, output[1], *incidence)


def _attention_backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Any, ...]:
    q, k, v, norm, *incidence = ctx.saved_tensors
    return *_attention_gradients(grad, q, k, v, norm, incidence, ctx.heads), [None] * len(incidence), None


_attention.register_autograd(_attention_backward, setup_context=_keep_attention)


def incidence_attention(q: Tensor, k: Tensor, v: Tensor, incidence: Incidence, heads: int) -> Tensor:
    """`cwnet.nn.functional.incidence_attention`."""
    out: Tensor = _attention(q, k, v, _tensors(incidence), heads)[0]
    return out


# --------------------------------------------------------------------------------------------------------------- norm


@_operator
def _norm_relu(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    out, mean, var, rstd = _cpu.norm_relu(x.contiguous(), weight, bias, eps)
    return out, mean.clone(), var.clone(), rstd.clone()  # the three are rows of one tensor, which no operator may give


def _norm_relu_shape(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, ...]:
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    return out, *(torch.empty_like(weight) for _ in range(3))


_norm_relu.register_fake(_norm_relu_shape)


@_operator
def _norm_relu_gradients(
    grad: Tensor, x: Tensor, out: Tensor, weight: Tensor, mean: Tensor, rstd: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    of_x, of_weight, of_bias = _cpu.norm_relu_backward(grad, x.contiguous(), out, weight, mean, rstd)
    return of_x, of_weight.clone(), of_bias.clone()


def _norm_relu_gradients_shape(
    grad: Tensor, x: Tensor, out: Tensor, weight: Tensor, mean: Tensor, rstd: Tensor
) -> tuple[Tensor, ...]:
    return torch.empty_like(out), torch.empty_like(weight), torch.empty_like(weight)


_norm_relu_gradients.register_fake(_norm_relu_gradients_shape)


def _keep_norm(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, weight, _, _ = inputs
    out, mean, _, rstd = output
    ctx.save_for_backward(x, out, weight, mean, rstd)


def _norm_relu_backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Any, ...]:
    return *_norm_relu_gradients(grad, *ctx.saved_tensors), None


_norm_relu.register_autograd(_norm_relu_backward, setup_context=_keep_norm)


def norm_relu(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """ReLU of a batch norm, and the mean and the variance of every column, through which no gradient goes."""
    out, mean, var, _ = _norm_relu(x, weight, bias, eps)
    return out, mean.detach(), var.detach()
