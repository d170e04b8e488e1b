"""When the fused kernels take a whole layer, and how a layer on graphs is handed to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cwnet.complexes._cells import Cells
from cwnet.nn import kernels
from cwnet.nn._norm import BatchNorm, LayerNorm, processes

__all__ = ["fusable", "graph_layer"]


def fusable(x: Tensor, mlps: Sequence[Any], *widths: int) -> bool:
    """Whether the kernels know layers of these perceptrons: under batch or layer norm, on a GPU, in float32."""
    return (
        kernels.usable(x)
        and processes() == 1  # over several, norms take the statistics of all of them
        and max(widths) <= kernels.MAX_WIDTH
        and all(x.dtype == torch.float32 == mlp.dtype for mlp in mlps)
        and any(all(isinstance(n, kind) for mlp in mlps for n in mlp.norms) for kind in (BatchNorm, LayerNorm))
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
