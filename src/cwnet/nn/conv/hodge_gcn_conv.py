"""A graph convolutional layer for cell complexes, by the normalised Hodge Laplacian."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cwnet.complexes._cells import Cells
from cwnet.nn._module import Module, reset_parts
from cwnet.nn.conv._inputs import check_inputs
from cwnet.nn.functional import activation
from cwnet.nn.signed import contracting_weights, hodge_laplacian_of, oriented_cells

__all__ = ["HodgeGCNConv"]


class HodgeGCNConv(Module):
    r"""A smoothing layer in the spirit of GCN (Kipf and Welling, ICLR 2017) on every dimension p.

        H'_p = act( (I - L̂_p) H_p W_p + b_p )

    L̂_p is the Laplacian of the constant sheaf with the inner products of `cell_weights(contracting=True)`, so its
    eigenvalues lie between 0 and 1: I - L̂_p keeps harmonic signals as they are and damps all others, whatever the sizes
    of cells. On the vertices of a graph it is ½ (I + D^{-1/2} A D^{-1/2}), half of GCN's first-order filter.

    It needs oriented cells. With an odd activation and without bias it is orientation equivariant.

    Args:
        width_in: features in.
        width: features out; as many as in by default.
        dim: largest dimension of cells.
        act: activation by name.
        bias: whether there are b_p.

    Shapes:
        x: [cells of dimension p, width_in] for p = 0, ..., dim → the same with width.
    """

    def __init__(
        self, width_in: int, width: int | None = None, dim: int = 2, act: str = "relu", bias: bool = True
    ) -> None:
        super().__init__()
        self.width_in, self.width, self.dim = width_in, width_in if width is None else width, dim
        self.act = activation(act).value
        self.linears = torch.nn.ModuleList(torch.nn.Linear(width_in, self.width, bias=bias) for _ in range(dim + 1))

    def reset_parameters(self) -> None:
        """Draw new weights."""
        reset_parts(self)

    def forward(self, x: Sequence[Tensor], cells: Cells) -> list[Tensor]:
        check_inputs(x, cells, self.dim, self.width_in, next(self.parameters()).dtype)
        oriented = oriented_cells(cells)
        weights = contracting_weights(oriented, x[0].dtype)
        return [
            self.act(linear(x[p] - hodge_laplacian_of(x[p], oriented, p, weights)))
            for p, linear in enumerate(self.linears)
        ]

    def extra_repr(self) -> str:
        return f"{self.width_in}, {self.width}, dim={self.dim}"
