"""Graph convolutions, on the 1-skeleton of a complex: the baselines."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cwnet.complexes._cells import Cells
from cwnet.nn._fused import fusable, graph_layer
from cwnet.nn._mlp import MLP
from cwnet.nn._module import Module, reset_parts
from cwnet.nn.conv._inputs import check_inputs
from cwnet.nn.functional import upper_sum

__all__ = ["GINConv", "GINEConv"]


class GINConv(Module):
    r"""Graph isomorphism layer on vertices (Xu et al., ICLR 2019).

        h'_v = MLP((1 + ε) h_v + Σ_{u ∈ N(v)} h_u)

    Args:
        width_in: features in.
        width: features out; as many as in by default.
        act: activation by name.
        norm: "batch", "robust", "layer" or "none"; see `make_norm`.
        eps: ε.
    """

    dim = 0

    def __init__(
        self, width_in: int, width: int | None = None, act: str = "relu", norm: str = "batch", eps: float = 0.0
    ) -> None:
        super().__init__()
        self.width_in, self.width, self.eps = width_in, width or width_in, eps
        self.mlp = MLP(width_in, self.width, 2, act, norm)

    def reset_parameters(self) -> None:
        """Draw new weights."""
        reset_parts(self)

    def forward(self, x: Sequence[Tensor], cells: Cells) -> list[Tensor]:
        check_inputs(x, cells, 0, self.width_in, self.mlp.dtype)
        if self._fusable(x[0]):
            return [graph_layer(self.mlp, x[0], None, cells, self.eps), *x[1:]]
        h: Tensor = self.mlp((1 + self.eps) * x[0] + upper_sum(x[0], None, cells, 0), cells.mask(0))
        return [h, *x[1:]]

    def _fusable(self, x: Tensor) -> bool:
        return fusable(x, [self.mlp], self.width_in, self.width)

    def extra_repr(self) -> str:
        return f"{self.width_in}, {self.width}"


class GINEConv(Module):
    r"""Graph isomorphism layer that reads edge features (Hu et al., ICLR 2020).

        h'_v = MLP((1 + ε) h_v + Σ_{u ∈ N(v)} ReLU(h_u + W e_{uv}))

    Edge features pass unchanged to the next layer; W makes them as wide as the vertices', where they are not.

    Args:
        width_in: vertex features in.
        width: vertex features out; as many as in by default.
        edge_width: edge features; as many as vertex features by default.
        act: activation of the MLP by name.
        norm: "batch", "robust", "layer" or "none"; see `make_norm`.
        eps: ε.
    """

    dim = 1

    def __init__(
        self,
        width_in: int,
        width: int | None = None,
        edge_width: int | None = None,
        act: str = "relu",
        norm: str = "batch",
        eps: float = 0.0,
    ) -> None:
        super().__init__()
        self.width_in, self.width, self.eps = width_in, width or width_in, eps
        self.edge_width = width_in if edge_width is None else edge_width
        same = self.edge_width == width_in
        self.edge = torch.nn.Identity() if same else torch.nn.Linear(self.edge_width, width_in)
        self.mlp = MLP(width_in, self.width, 2, act, norm)

    def reset_parameters(self) -> None:
        """Draw new weights."""
        reset_parts(self)

    def forward(self, x: Sequence[Tensor], cells: Cells) -> list[Tensor]:
        check_inputs(x, cells, 0, self.width_in, self.mlp.dtype)
        check_inputs(x, cells, 1, dtype=self.mlp.dtype)
        if x[1].shape[1] != self.edge_width:
            raise ValueError(
                f"x[1] has width {x[1].shape[1]}, the layer takes edge features of width {self.edge_width}"
            )
        if self._fusable(x[0]):
            return [graph_layer(self.mlp, x[0], self.edge(x[1]), cells, self.eps), *x[1:]]
        messages = upper_sum(x[0], self.edge(x[1]), cells, 0, "relu")
        h: Tensor = self.mlp((1 + self.eps) * x[0] + messages, cells.mask(0))
        return [h, *x[1:]]

    def _fusable(self, x: Tensor) -> bool:
        return fusable(x, [self.mlp], self.width_in, self.width)

    def extra_repr(self) -> str:
        return f"{self.width_in}, {self.width}"
