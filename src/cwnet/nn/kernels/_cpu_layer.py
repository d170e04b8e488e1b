"""A whole layer in one call each way, for training on a CPU: see `csrc/layer.hpp`. The callers check the arguments.

Gradients of all inputs are computed, whoever asks for them. Results do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cwnet import _core
from cwnet.complexes import Csr, Incidence
from cwnet.nn.kernels import differentiable_once, multiplies_in_bf16, threads

__all__ = ["Heard", "Meeting", "layer"]

_NONE = (0, 0, 0)  # rows that there are not


class Meeting(NamedTuple):
    """Cells that hear each other through hubs: messages relu(W [h_τ ‖ h_δ] + b)."""

    members: int  # their dimension
    hubs: int
    incidence: Incidence  # between members, which are `up`, and hubs
    linear: Any


class Heard(NamedTuple):
    """What a branch hears in one dimension beside its own cells: a meeting by its number, or cells that are summed."""

    dim: int
    meeting: int | None = None
    below: Incidence | None = None  # the cells to sum are of the dimension before


def layer(
    x: Sequence[Tensor],
    meetings: Sequence[Meeting],
    heard: Sequence[Heard],
    linears: Sequence[Sequence[Any]],
    norms: Sequence[Sequence[Any]],
    own: float,
    training: bool,
) -> list[Tensor]:
    """Messages, and stages of linear map, norm and ReLU that hear them.

    Args:
        x: features, [cells of dimension d, width in] for every dimension that takes part.
        meetings: of cells.
        heard: by the groups of the first stage, branch after branch.
        linears: the maps of every stage, one per branch and dimension. A stage with fewer of them joins the branches.
        norms: that follow them: batch norms or layer norms, all alike.
        own: the weight of a cell's own features.
        training: whether batch norms take the statistics of the batch.

    Returns:
        features, [cells of dimension d, width], of as many dimensions as the last stage has maps.
    """
    call = _Call(meetings, heard, linears, norms, own, training)
    learnt = [t for _, _, _, linear in meetings for t in (linear.weight, linear.bias)]
    for many, after in zip(linears, norms, strict=True):
        for linear, norm in zip(many, after, strict=True):
            learnt += [linear.weight, linear.bias, *_scale(norm)]
    out: tuple[Tensor, ...] = _Layer.apply(call, len(x), *x, *learnt)  # type: ignore[no-untyped-call]
    return list(out)


class _Call(NamedTuple):
    meetings: Sequence[Meeting]
    heard: Sequence[Heard]
    linears: Sequence[Sequence[Any]]
    norms: Sequence[Sequence[Any]]
    own: float
    training: bool

    def start(self, x: Sequence[Tensor], out: Sequence[Tensor]) -> Any:
        """Compute the features, and keep what the way back needs."""
        meetings = [
            (m.members, m.hubs, *_both(m.incidence), m.linear.weight.data_ptr(), m.linear.bias.data_ptr())
            for m in self.meetings
        ]
        heard = [
            (h.dim, -1 if h.meeting is None else h.meeting, -1, _NONE, _NONE)
            if h.below is None
            else (h.dim, -1, h.dim - 1, *_both(h.below))
            for h in self.heard
        ]
        stages = [
            [_addresses(linear, norm) for linear, norm in zip(many, after, strict=True)]
            for many, after in zip(self.linears, self.norms, strict=True)
        ]
        return _core.Layer(
            [h.data_ptr() for h in x], [h.shape[0] for h in x], x[0].shape[1], out[0].shape[1], self.own, meetings,
            heard, stages, self._rule(), multiplies_in_bf16(), threads(), [h.data_ptr() for h in out],
        )  # fmt: skip

    def _rule(self) -> tuple[bool, bool, float, float, float, float]:
        norm = self.norms[0][0]
        if _is_layer_norm(norm):
            return True, self.training, norm.norm.eps, 0.0, 0.0, math.inf
        cap = math.inf if norm.cap is None else norm.cap
        return False, self.training, norm.eps, norm.momentum, norm.limit or 0.0, cap


def _is_layer_norm(norm: Any) -> bool:
    return not hasattr(norm, "running_mean")


def _scale(norm: Any) -> tuple[Tensor, Tensor]:
    """γ and β."""
    inner = norm.norm if _is_layer_norm(norm) else norm
    return inner.weight, inner.bias


def _addresses(linear: Any, norm: Any) -> tuple[int, int, int, int, int, int]:
    gamma, beta = _scale(norm)
    averages = (0, 0) if _is_layer_norm(norm) else (norm.running_mean.data_ptr(), norm.running_var.data_ptr())
    return linear.weight.data_ptr(), linear.bias.data_ptr(), gamma.data_ptr(), beta.data_ptr(), *averages


def _both(incidence: Incidence) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    return _rows(incidence.down), _rows(incidence.up)


def _rows(csr: Csr) -> tuple[int, int, int]:
    return csr.num_rows, csr.ptr.data_ptr(), csr.idx.data_ptr()


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: _Call, dims: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        x = [h.contiguous() for h in tensors[:dims]]
        width = call.linears[-1][0].weight.shape[0]
        out = tuple(h.new_empty(h.shape[0], width) for h in x[: len(call.linears[-1])])
        done = call.start(x, out)
        if any(ctx.needs_input_grad):
            # The tensors are kept as autograd keeps them, which notices if one has changed in between.
            ctx.call, ctx.done, ctx.x, ctx.dims = call, done, x, dims
            ctx.save_for_backward(*tensors)
        return out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        call, tensors = ctx.call, ctx.saved_tensors
        found = [torch.empty_like(t, memory_format=torch.contiguous_format) for t in tensors]
        at = [t.data_ptr() for t in found]
        of_x, rest = at[: ctx.dims], iter(at[ctx.dims :])
        meetings = [(next(rest), next(rest), 0, 0) for _ in call.meetings]
        stages = [[(next(rest), next(rest), next(rest), next(rest)) for _ in many] for many in call.linears]
        grads = tuple(g.contiguous() for g in grads)
        ctx.done.backward([g.data_ptr() for g in grads], of_x, meetings, stages, threads())
        results: list[Tensor | None] = list(found)
        if not _is_layer_norm(call.norms[0][0]):  # a batch norm takes the bias away again
            first = ctx.dims + 2 * len(call.meetings)
            results[first + 1 :: 4] = [None] * len(results[first + 1 :: 4])
        return None, None, *results
