"""Multi-layer perceptrons on the features of cells."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from cwnet.nn import kernels
from cwnet.nn._fused import fusable, fusable_on_cpu
from cwnet.nn._module import Module, reset_parts
from cwnet.nn._norm import BatchNorm, make_norm
from cwnet.nn.functional import activation
from cwnet.nn.kernels import _cpu_layer

__all__ = ["MLP"]


class MLP(Module):
    """[Linear, Norm, act] once or more: the paper's MLP has two.

    Args:
        width_in: features in.
        width: features of each layer.
        layers: number of layers.
        act: activation by name.
        norm: "batch", "robust", "capped", "layer" or "none"; see `make_norm`.
    """

    def __init__(self, width_in: int, width: int, layers: int = 2, act: str = "relu", norm: str = "batch") -> None:
        super().__init__()
        widths = [width_in, *[width] * layers]
        self.act, self.relu, self.act_name = activation(act).value, act == "relu", act
        self.width, self.norm_width = max(widths), width
        self.linears = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in pairwise(widths))
        self.norms = torch.nn.ModuleList(make_norm(norm, width) for _ in range(layers))
        self._addresses: dict[Any, Any] = {}

    def reset_parameters(self) -> None:
        """Draw new weights."""
        reset_parts(self)

    @property
    def dtype(self) -> torch.dtype:
        """The type of its weights."""
        return next(self.linears.parameters()).dtype

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if x.shape[0] and fusable(x, [self], self.width):
            return kernels.perceptron(
                x, linears=self.linears, norms=self.norms, mask=mask, act=self.act_name, training=self.training,
                addresses=self._addresses,
            )  # fmt: skip
        if mask is None and fusable_on_cpu([x], [self], x.shape[1], self.norm_width):
            return _cpu_layer.layer(
                [x], [], [_cpu_layer.Heard(0)], [[linear] for linear in self.linears], [[norm] for norm in self.norms],
                1.0, self.training,
            )[0]  # fmt: skip
        for linear, norm in zip(self.linears, self.norms, strict=True):
            assert isinstance(linear, torch.nn.Linear)
            if isinstance(norm, BatchNorm):
                # The norm takes the bias away again: it is handed on to its running mean.
                x = norm(F.linear(x, linear.weight), mask, linear.bias, self.relu)
                x = x if self.relu else self.act(x)
            else:
                x = self.act(norm(linear(x), mask))
        return x
