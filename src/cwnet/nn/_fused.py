"""When the fused kernels take a whole layer, and how a layer on graphs is handed to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cwnet._core import LANES, MAX_WIDTH
from cwnet.complexes._cells import Cells
from cwnet.nn import kernels
from cwnet.nn._norm import BatchNorm, LayerNorm, processes

__all__ = ["fusable", "fusable_on_cpu", "graph_layer"]


def fusable(x: Tensor, mlps: Sequence[Any], *widths: int) -> bool:
    """Whether the kernels know layers of these perceptrons: under batch or layer norm, on a GPU, in float32."""
    return (
        kernels.usable(x)
        and kernels.whole()
        and processes() == 1  # over several, norms take the statistics of all of them
        and max(widths) <= kernels.MAX_WIDTH
        and all(x.dtype == torch.float32 == mlp.dtype for mlp in mlps)
        and any(all(isinstance(n, kind) for mlp in mlps for n in mlp.norms) for kind in (BatchNorm, LayerNorm))
    )


def fusable_on_cpu(x: Sequence[Tensor], mlps: Sequence[Any], *widths: int) -> bool:
    """Whether the C++ kernels know layers of these perceptrons: under one kind of norm, with ReLU, in float32.

    Gradients in evaluation, and batches of a cell or none under a batch norm, are left to the plain operations.
    """
    return (
        all(kernels.usable_on_cpu(h) for h in x)
        and not torch.compiler.is_compiling()
        and processes() == 1
        and all(width % LANES == 0 and 0 < width <= MAX_WIDTH for width in widths)
        and all(mlp.relu and mlp.dtype == torch.float32 for mlp in mlps)
        and _alike([norm for mlp in mlps for norm in mlp.norms], min(h.shape[0] for h in x))
    )


def _alike(norms: Sequence[Any], rows: int) -> bool:
    """Whether norms share all but their weights, and these rows have what they need."""
    if all(isinstance(norm, LayerNorm) for norm in norms):
        return len({norm.norm.eps for norm in norms}) == 1
    return (
        all(isinstance(norm, BatchNorm) for norm in norms)
        and len({(norm.eps, norm.momentum, norm.limit, norm.cap) for norm in norms}) == 1
        and len({norm.training for norm in norms}) == 1
        and (rows > 1 if norms[0].training else not torch.is_grad_enabled())
    )


def graph_layer(mlp: Any, x: Tensor, edges: Tensor | None, cells: Cells, eps: float) -> Tensor:
    """MLP((1 + ε) h_v + Σ_u h_u), or with edges MLP((1 + ε) h_v + Σ_u ReLU(h_u + e_{uv})), in a few kernels."""
    return kernels.graph_layer(
        x,
        None if edges is None else edges.to(x.dtype),
        incidence=cells.incidence(1),
        linears=list(mlp.linears),
        norms=list(mlp.norms),
        mask=cells.mask(0),
        act=mlp.act_name,
        eps=eps,
        training=mlp.training,
        addresses=mlp._addresses,
    )
