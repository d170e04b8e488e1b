"""The Cell Isomorphism Network as a TopoBench backbone."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from cwnet import ComplexBatch
from cwnet.nn import CINConv


class CIN(torch.nn.Module):
    """Layers of `cwnet.nn.CINConv`: each updates all ranks, by boundary and upper messages with weights per rank.

    Args:
        in_channels: features of cells, of every rank.
        hidden_channels: features that come out.
        n_layers: how many layers.
        norm: "batch", "layer" or "none", as in `CINConv`.
        dropout: between layers.
    """

    def __init__(
        self, in_channels: int, hidden_channels: int, n_layers: int = 4, norm: str = "batch", dropout: float = 0.0
    ) -> None:
        super().__init__()
        widths = [in_channels] + [hidden_channels] * n_layers
        self.layers = torch.nn.ModuleList(CINConv(a, b, norm=norm) for a, b in pairwise(widths))
        self.dropout = torch.nn.Dropout(dropout)
        self.out_channels = hidden_channels

    def forward(self, x: Sequence[Tensor], cells: ComplexBatch) -> list[Tensor]:
        x = list(x)
        for layer in self.layers:
            x = [self.dropout(h) for h in layer(x, cells)]
        return x
