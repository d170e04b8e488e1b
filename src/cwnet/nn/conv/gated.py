"""A convolution with a gate that decides how much of it to take."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cwnet.complexes._cells import Cells
from cwnet.nn._module import Module, reset_parts
from cwnet.nn.conv._inputs import check_inputs
from cwnet.nn.conv.residual import joined

__all__ = ["Gated"]


class Gated(Module):
    r"""Any convolution, mixed with what was there before, in shares that are learnt (as in a highway network).

        g_σ  = sigmoid(W_d [h_σ ‖ conv(h)_σ] + b_d)
        h'_σ = g_σ ⊙ conv(h)_σ + (1 − g_σ) ⊙ h_σ

    with weights of their own for each dimension d. Where the convolution passes features on as they are, or does not
    compute a dimension, they stay as they are.

    Args:
        conv: a convolution that gives features as wide as it takes.
        width: features in and out.
        dim: largest dimension that the convolution computes; 0 for `GINConv`.

    Shapes:
        x: [cells of dimension d, width] for every d → the same.
    """

    def __init__(self, conv: torch.nn.Module, width: int, dim: int = 2) -> None:
        super().__init__()
        self.conv, self.width, self.dim = conv, width, dim
        self.gates = torch.nn.ModuleList(torch.nn.Linear(2 * width, width) for _ in range(dim + 1))

    def reset_parameters(self) -> None:
        """Draw new weights."""
        reset_parts(self)

    def forward(self, x: Sequence[Tensor], cells: Cells) -> list[Tensor]:
        check_inputs(x, cells, self.dim, self.width)
        return joined(x, self.conv(x, cells), self._mixed)

    def _mixed(self, d: int, before: Tensor, after: Tensor) -> Tensor:
        if d > self.dim:
            raise ValueError(f"the convolution computes dimension {d}, but there are gates up to {self.dim} only")
        gate = torch.sigmoid(self.gates[d](torch.cat([before, after], dim=1)))
        return gate * after + (1 - gate) * before

    def extra_repr(self) -> str:
        return f"{self.width}, dim={self.dim}"
