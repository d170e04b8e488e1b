"""The layer without messages."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cwnet.complexes._cells import Cells
from cwnet.nn._mlp import MLP
from cwnet.nn._module import Module
from cwnet.nn.conv._inputs import check_inputs

__all__ = ["CellMLP"]


class CellMLP(Module):
    """A perceptron on every cell by itself, in the place of a convolution: no messages pass."""

    def __init__(
        self, width_in: int, width: int, dim: int = 2, layers: int = 1, act: str = "relu", norm: str = "none"
    ) -> None:
        super().__init__()
        self.dim, self.width_in = dim, width_in
        self.mlps = torch.nn.ModuleList(MLP(width_in, width, layers, act, norm) for _ in range(dim + 1))

    def forward(self, x: Sequence[Tensor], cells: Cells) -> list[Tensor]:
        check_inputs(x, cells, self.dim, self.width_in)
        return [mlp(h, cells.mask(d)) for d, (mlp, h) in enumerate(zip(self.mlps, x, strict=False))]
