"""A whole layer in few kernels each way: all dimensions and branches at once.

Small batches are bound by the number of kernels and not by their work, so everything that does not wait for one another
is one launch here. Branches hear messages (`_messages`), and what they hear goes through stages: grouped products
(`_products`), each followed by a norm (`_norms`) and the activation. A layer of CIN has two stages with all branches
side by side and one that joins them; a layer of GIN has one dimension, one branch and nothing to join.

Nothing is added up atomically, so results are the same bits in every run. Names of shapes are in `_tiles`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cwnet.complexes import Incidence
from cwnet.nn._norm import LayerNorm
from cwnet.nn.kernels import differentiable_once
from cwnet.nn.kernels._messages import CellMessages, GraphMessages, Messages, NoMessages
from cwnet.nn.kernels._norm_gradients import GradientSums, grad_norm, gradient_sums
from cwnet.nn.kernels._norms import Normed, Norms, apply_norm, batch_norm, layer_norm
from cwnet.nn.kernels._product_gradients import WeightGradients, grad_weights, product_backward
from cwnet.nn.kernels._products import product
from cwnet.nn.kernels._tiles import Plan, multiply_in, packed

__all__ = ["graph_layer", "isomorphism_layer", "perceptron"]


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
    """`CINConv` with a norm, and layers with more branches than its two: features of all dimensions in and out.

    Args:
        x: [cells of dimension d, K] for d = 0, ..., D - 1.
        hasse: the incidences of all these dimensions, cells numbered through.
        messages: the linear maps of M, for d = 0, ..., D - 2.
        linears: of the three stages; the first two have one per branch and dimension, the last one per dimension.
        norms: the batch norms or layer norms that follow them.
        masks: the cells of each dimension that are no padding; None if all are.
        act: the activation by name.
        eps: the weight of a cell's own features is 1 + eps.
        training: whether to take the statistics of the batch.
        addresses: where the layer keeps the addresses of its parameters between calls.
        heard: what branches beyond the upper and the boundary one hear, each [N, K], dimension after dimension.
    """
    maps = [linear.weight for linear in messages], [linear.bias for linear in messages]
    stages = [Stage.of(*modules) for modules in zip(linears, norms, strict=True)]
    tables = _tables(stages, *maps, len(x), addresses)
    passing = CellMessages(hasse, *maps, tables.maps, tables.map_biases, eps)
    return _run(passing, stages, tables, x, heard, masks, act, training)


def graph_layer(
    x: Tensor,
    edges: Tensor | None,
    incidence: Incidence,
    linears: Sequence[Any],
    norms: Sequence[Any],
    mask: Tensor | None,
    act: str,
    eps: float,
    training: bool,
    addresses: dict[Any, Any],
) -> Tensor:
    """`GINConv`, or `GINEConv` with edges, with a norm: features of vertices in and out.

    Args:
        x: [vertices, K].
        edges: [edges, K], added to the features of a neighbour, with ReLU after; None for none.
        incidence: between edges and vertices.
        linears: of the MLP.
        norms: the batch norms or layer norms that follow them.
        mask: the vertices that are no padding; None if all are.
        act: the activation of the MLP by name.
        eps: the weight of a vertex's own features is 1 + eps.
        training: whether to take the statistics of the batch.
        addresses: where the layer keeps the addresses of its parameters between calls.
    """
    stages = [Stage.of([linear], [norm]) for linear, norm in zip(linears, norms, strict=True)]
    passing = GraphMessages(incidence, "identity" if edges is None else "relu", eps)
    others = () if edges is None else (edges,)
    masks = None if mask is None else [mask]
    return _run(passing, stages, _tables(stages, [], [], 1, addresses), [x], others, masks, act, training)[0]


def perceptron(
    x: Tensor,
    linears: Sequence[Any],
    norms: Sequence[Any],
    mask: Tensor | None,
    act: str,
    training: bool,
    addresses: dict[Any, Any],
) -> Tensor:
    """`MLP` with a norm: rows in and out.

    Args:
        x: [rows, K].
        linears: in their order.
        norms: the batch norms or layer norms that follow them.
        mask: the rows that are no padding; None if all are.
        act: the activation by name.
        training: whether to take the statistics of the batch.
        addresses: where the perceptron keeps the addresses of its parameters between calls.
    """
    stages = [Stage.of([linear], [norm]) for linear, norm in zip(linears, norms, strict=True)]
    tables, masks = _tables(stages, [], [], 1, addresses), None if mask is None else [mask]
    return _run(NoMessages(), stages, tables, [x], (), masks, act, training)[0]


# ---------------------------------------------------------------------------------------------------------- parameters


class Stage(NamedTuple):
    """Products that happen at once, each followed by a norm and the activation.

    There is one entry per group: per branch and dimension, branch after branch, or per dimension where branches join.
    """

    kind: str  # of norm: "batch" or "layer"
    weights: list[Tensor]
    biases: list[Tensor]
    gammas: list[Tensor]
    betas: list[Tensor]
    means: list[Tensor]  # running averages; none under layer norm
    variances: list[Tensor]
    eps: float
    momentum: float = 0.0
    limit: float | None = None
    cap: float | None = None

    @classmethod
    def of(cls, linears: Sequence[Any], norms: Sequence[Any]) -> Stage:
        """From the modules."""
        weights, biases = [linear.weight for linear in linears], [linear.bias for linear in linears]
        if isinstance(norms[0], LayerNorm):
            inner = [norm.norm for norm in norms]
            gammas, betas = [norm.weight for norm in inner], [norm.bias for norm in inner]
            return cls("layer", weights, biases, gammas, betas, [], [], inner[0].eps)
        one = norms[0]
        gammas, betas = [norm.weight for norm in norms], [norm.bias for norm in norms]
        averages = [norm.running_mean for norm in norms], [norm.running_var for norm in norms]
        return cls("batch", weights, biases, gammas, betas, *averages, one.eps, one.momentum, one.limit, one.cap)

    def learnt(self) -> list[Tensor]:
        """Those with a gradient, in the order in which the backward pass returns them."""
        return [*self.weights, *self.biases, *self.gammas, *self.betas]

    def summed(self) -> list[list[Tensor]]:
        """Those whose gradients are sums over cells of the gradient of the product: under batch norm no biases."""
        return [self.weights, self.biases] if self.kind == "layer" else [self.weights]


class _Tables(NamedTuple):
    """Addresses, as the kernels want them."""

    maps: Tensor  # of both halves of M, [2, D]; 0 where there is none
    map_biases: Tensor  # [2, D], likewise
    weights: list[Tensor]  # per stage, [blocks of its input, D]
    norms: list[Tensor]  # per stage, [3 or 5, B · D]; see `Norms`


def _tables(
    stages: Sequence[Stage], maps: Sequence[Tensor], biases: Sequence[Tensor], dims: int, kept: dict[Any, Any]
) -> _Tables:
    """The addresses of the parameters, looked up anew when one has moved. Old ones stay: a CUDA graph may read them."""
    tensors = [*maps, *biases]
    for stage in stages:
        tensors += [*stage.learnt(), *stage.means, *stage.variances]
    key = tuple(t.data_ptr() for t in tensors)
    if key not in kept:
        kept[key] = _Tables(
            *_map_addresses(maps, biases, dims, stages[0].weights[0].device),
            [_weight_addresses(stage, before, dims) for stage, before in zip(stages, (None, *stages), strict=False)],
            [_addresses([s.gammas, s.betas, s.biases, s.means, s.variances]) for s in stages],
        )
    found: _Tables = kept[key]
    return found


def _map_addresses(
    maps: Sequence[Tensor], biases: Sequence[Tensor], dims: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    # M [h_τ ‖ h_δ]: the first half of its columns is for τ, of dimension d; the second for δ, of dimension d + 1.
    table = torch.zeros(2, 2, dims, dtype=torch.int64)
    for d, (weight, bias) in enumerate(zip(maps, biases, strict=True)):
        table[0, 0, d] = weight.data_ptr()
        table[0, 1, d + 1] = weight.data_ptr() + weight.shape[1] // 2 * weight.element_size()
        table[1, 1, d + 1] = bias.data_ptr()
    of_maps, of_biases = table.to(device).unbind(0)
    return of_maps, of_biases


def _weight_addresses(stage: Stage, before: Stage | None, dims: int) -> Tensor:
    """One per block of the input and dimension: where branches join, a weight has a part for each, side by side."""
    blocks = len(stage.weights) if before is None else len(before.weights)
    parts = blocks // len(stage.weights)
    table = [
        [w.data_ptr() + part * (w.shape[1] // parts) * w.element_size() for w in stage.weights] for part in range(parts)
    ]
    return torch.tensor(table, dtype=torch.int64, device=stage.weights[0].device).view(-1, dims)


def _addresses(many: Sequence[Sequence[Tensor]]) -> Tensor:
    """Those of some lists of tensors, all as long, or empty."""
    table = [[t.data_ptr() for t in tensors] for tensors in many if tensors]
    return torch.tensor(table, dtype=torch.int64, device=many[0][0].device)


# ------------------------------------------------------------------------------------------------------ the two passes


@dataclass(frozen=True)
class _Call:
    """All that the two passes over a batch share, beside tensors with gradients."""

    plan: Plan
    messages: Messages
    stages: list[Stage]
    tables: _Tables
    training: bool
    others: int  # inputs beside the features


def _run(
    messages: Messages,
    stages: list[Stage],
    tables: _Tables,
    x: Sequence[Tensor],
    others: Sequence[Tensor],
    masks: Sequence[Tensor | None] | None,
    act: str,
    training: bool,
) -> list[Tensor]:
    weights = [w for many in (*messages.learnt[:1], *(stage.weights for stage in stages)) for w in many]
    plan = Plan(
        counts=tuple(h.shape[0] for h in x),
        mask=_mask(x, masks),
        act=act,
        cap=stages[-1].cap or 0.0,
        precision=multiply_in(),
        # Weights that start at a multiple of 16 bytes are read 16 bytes at a time.
        alignment=16 if all(w.shape[0] % 4 == w.shape[1] % 4 == 0 for w in weights) else 4,
    )
    call = _Call(plan, messages, stages, tables, training, len(others))
    learnt = [t for many in (*messages.learnt, *(stage.learnt() for stage in stages)) for t in many]
    out: tuple[Tensor, ...] = _Layer.apply(call, *x, *others, *learnt)  # type: ignore[no-untyped-call]
    return list(out)


def _mask(x: Sequence[Tensor], masks: Sequence[Tensor | None] | None) -> Tensor | None:
    """The cells of all dimensions that are no padding, [N]; None if all are."""
    if masks is None or all(mask is None for mask in masks[: len(x)]):
        return None
    each = zip(x, masks, strict=False)
    return packed([h.new_ones(h.shape[0], dtype=torch.bool) if mask is None else mask for h, mask in each])


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        plan = call.plan
        x = packed([t.contiguous() for t in tensors[: plan.dims]])
        z, kept = call.messages.hear(plan, x, tensors[plan.dims : plan.dims + call.others])
        results: list[Normed] = []
        for i in range(len(call.stages)):
            results.append(_stage(call, i, results[-1] if results else None, z))
        out = apply_norm(plan, results[-1])
        if any(ctx.needs_input_grad):
            ctx.call, ctx.kept, ctx.z, ctx.results = call, kept, z, results
        return torch.split(out, list(plan.counts))

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        call: _Call = ctx.call
        plan, results = call.plan, ctx.results
        grad = packed([g.contiguous() for g in grads])[None]
        summed = [stage.summed() for stage in call.stages]
        gradients = WeightGradients(plan, [*call.messages.learnt, *(many for of in summed for many in of)], grad)
        sums: GradientSums | None = gradient_sums(plan, grad, results[-1])
        of_norms: list[list[Tensor]] = []
        for i in reversed(range(len(call.stages))):
            before = results[i - 1] if i else None
            grad, more, sums = _stage_backward(call, i, grad, results[i], sums, before, ctx.z, gradients, summed[i])
            of_norms.insert(0, more)
        grad_x, of_others = call.messages.backward(plan, grad, ctx.kept, gradients)
        found = iter(gradients.added_up())
        of_parameters = [g for _ in call.messages.learnt for g in next(found)]
        for of, more in zip(summed, of_norms, strict=True):
            of_parameters += [g for _ in of for g in next(found)] + more
        return None, *torch.split(grad_x, list(plan.counts)), *of_others, *of_parameters


def _stage(call: _Call, i: int, before: Normed | None, z: Tensor) -> Normed:
    """A product, and its norm, which is yet to be applied. It reads the stage before, or z."""
    plan, stage, norms = call.plan, call.stages[i], _norms_of(call, i)
    a = z if before is None else before.y
    branches = len(stage.weights) // plan.dims
    layer = stage.kind == "layer"
    y, statistics = product(
        plan,
        a,
        call.tables.weights[i],
        branches,
        stage.weights[0],
        normed=before,
        sources=a.shape[0] // branches,
        biases=norms.table[2] if layer else None,  # a batch norm would take them away again
        statistics="layer" if layer else "batch" if call.training else "none",
    )
    if layer:
        assert statistics is not None
        return layer_norm(y, statistics, norms)
    return batch_norm(plan, y, statistics, norms)


def _stage_backward(
    call: _Call,
    i: int,
    grad: Tensor,
    normed: Normed,
    sums: GradientSums | None,
    before: Normed | None,
    z: Tensor,
    gradients: WeightGradients,
    summed: Sequence[Sequence[Tensor]],
) -> tuple[Tensor, list[Tensor], GradientSums | None]:
    """From the gradient of a stage's output to that of its input, of γ, β and maybe biases, and the next sums."""
    assert sums is not None
    plan, stage = call.plan, call.stages[i]
    a = z if before is None else before.y
    norm = grad_norm(plan, normed, sums)
    table, like = call.tables.weights[i], stage.weights[0]
    grad_y, grad_a, earlier = product_backward(plan, grad, normed, norm, a, before, table, like)
    grad_weights(plan, grad_y, a, before, gradients, *summed)
    of_bias = [] if norm.of_bias is None else list(norm.of_bias)
    return grad_a, [*of_bias, *norm.of_gamma, *norm.of_beta], earlier


def _norms_of(call: _Call, i: int) -> Norms:
    stage = call.stages[i]
    return Norms(stage.kind, call.tables.norms[i], stage.eps, stage.momentum, stage.limit)
