"""A convolution in which cells hear the cells they lie on the boundary of."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cwnet.complexes._cells import Cells
from cwnet.nn._mlp import MLP
from cwnet.nn._module import Module, reset_parts
from cwnet.nn.conv._inputs import check_inputs
from cwnet.nn.functional import coboundary_sum

__all__ = ["CoboundaryConv"]


class CoboundaryConv(Module):
    r"""Messages from cofaces: a vertex hears its edges, an edge its rings (paper, section 4).

        h'_σ = MLP_d((1 + ε) h_σ + Σ_{δ ∈ C(σ)} h_δ)

    with weights of their own for each dimension d. `CINConv` leaves these messages out: with those of the boundary and
    of upper neighbours they add no power to it. Cells of the top dimension have no cofaces and see h_σ alone.

    Args:
        width_in: features in.
        width: features out; as many as in by default.
        dim: largest dimension of cells.
        act: activation by name.
        norm: "batch", "robust", "capped", "layer" or "none"; see `make_norm`.
        eps: ε.

    Shapes:
        x: [cells of dimension d, width_in] for d = 0, ..., dim → the same with width.
    """

    def __init__(
        self,
        width_in: int,
        width: int | None = None,
        dim: int = 2,
        act: str = "relu",
        norm: str = "batch",
        eps: float = 0.0,
    ) -> None:
        super().__init__()
        self.width_in, self.width, self.dim, self.eps = width_in, width or width_in, dim, eps
        self.mlps = torch.nn.ModuleList(MLP(width_in, self.width, 2, act, norm) for _ in range(dim + 1))

    def reset_parameters(self) -> None:
        """Draw new weights."""
        reset_parts(self)

    def forward(self, x: Sequence[Tensor], cells: Cells) -> list[Tensor]:
        check_inputs(x, cells, self.dim, self.width_in, next(self.parameters()).dtype)
        return [mlp(self._heard(x, cells, d), cells.mask(d)) for d, mlp in enumerate(self.mlps)]

    def _heard(self, x: Sequence[Tensor], cells: Cells, d: int) -> Tensor:
        own = (1 + self.eps) * x[d]
        return own + coboundary_sum(x[d + 1], cells, d) if d < self.dim else own

    def extra_repr(self) -> str:
        return f"{self.width_in}, {self.width}, dim={self.dim}"
