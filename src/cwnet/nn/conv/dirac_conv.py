"""Convolution within and across dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cwnet.complexes._cells import Cells
from cwnet.nn._module import Module, reset_parts
from cwnet.nn.conv._inputs import check_inputs
from cwnet.nn.functional import activation
from cwnet.nn.signed import (
    boundary_signals,
    coboundary_signals,
    contracting_weights,
    hodge_laplacian_of,
    oriented_cells,
)

__all__ = ["DiracConv"]


class DiracConv(Module):
    r"""Smoothing within a dimension and signals from the neighbouring ones.

        H'_p = act( (I - L̂_p) H_p W_p + B̂_p^T H_{p-1} W↑_p + B̂_{p+1} H_{p+1} W↓_p + b_p )

    with B̂_p = W_{p-1}^{-1/2} B_p W_p^{1/2} and L̂_p = B̂_p^T B̂_p + B̂_{p+1} B̂_{p+1}^T as in `HodgeGCNConv`. This extends
    the simplicial complex convolution of Bunch et al., "Simplicial 2-complex convolutional neural nets", 2020, to
    cells. All three operators are entries of the Dirac operator and its square, whence the name.

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

        def maps(count: int, bias: bool) -> torch.nn.ModuleList:
            return torch.nn.ModuleList(torch.nn.Linear(width_in, self.width, bias=bias) for _ in range(count))

        self.own = maps(dim + 1, bias)
        self.from_faces = maps(dim, False)  # of dimensions 1, ..., dim
        self.from_cofaces = maps(dim, False)  # of dimensions 0, ..., dim - 1

    def reset_parameters(self) -> None:
        """Draw new weights."""
        reset_parts(self)

    def forward(self, x: Sequence[Tensor], cells: Cells) -> list[Tensor]:
        check_inputs(x, cells, self.dim, self.width_in, next(self.parameters()).dtype)
        oriented = oriented_cells(cells)
        w = contracting_weights(oriented, x[0].dtype)
        out = []
        for p, own in enumerate(self.own):
            h = own(x[p] - hodge_laplacian_of(x[p], oriented, p, w))
            if p > 0:
                h = h + self.from_faces[p - 1](w[p] * coboundary_signals(x[p - 1] / w[p - 1], oriented, p))
            if p < self.dim:
                h = h + self.from_cofaces[p](boundary_signals(w[p + 1] * x[p + 1], oriented, p + 1) / w[p])
            out.append(self.act(h))
        return out

    def extra_repr(self) -> str:
        return f"{self.width_in}, {self.width}, dim={self.dim}"
