"""Polynomial filters of the Hodge Laplacian."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cwnet.complexes._cells import Cells
from cwnet.nn._module import Module, reset_parts
from cwnet.nn.conv._inputs import check_inputs
from cwnet.nn.functional import activation
from cwnet.nn.signed import hodge_laplacian_of, oriented_cells

__all__ = ["HodgeConv"]


class HodgeConv(Module):
    r"""The cellular convolution of the paper (appendix "Convolutional Operators").

        H'_p = act( Σ_{r=0}^{R} L_p^r H_p W_{p,r} + b_p ),     L_p = B_p^T B_p + B_{p+1} B_{p+1}^T

    on every dimension p, with weights of its own. It needs oriented cells: `cwnet.topology.orient`. With an odd
    activation ("tanh", "identity") and without bias it is orientation equivariant; with ReLU it is not.

    Args:
        width_in: features in.
        width: features out; as many as in by default.
        dim: largest dimension of cells.
        degree: R.
        act: activation by name.
        bias: whether there are b_p.

    Shapes:
        x: [cells of dimension p, width_in] for p = 0, ..., dim → the same with width.
    """

    def __init__(
        self,
        width_in: int,
        width: int | None = None,
        dim: int = 2,
        degree: int = 1,
        act: str = "relu",
        bias: bool = True,
    ) -> None:
        super().__init__()
        if degree < 0:
            raise ValueError(f"degree={degree}: a polynomial has degree 0 or more")
        self.width_in, self.width = width_in, width_in if width is None else width
        self.dim, self.degree = dim, degree
        self.act = activation(act).value
        # W_{p,0}, ..., W_{p,R} side by side are one product.
        self.linears = torch.nn.ModuleList(
            torch.nn.Linear((degree + 1) * width_in, self.width, bias=bias) for _ in range(dim + 1)
        )

    def reset_parameters(self) -> None:
        """Draw new weights."""
        reset_parts(self)

    def forward(self, x: Sequence[Tensor], cells: Cells) -> list[Tensor]:
        check_inputs(x, cells, self.dim, self.width_in, next(self.parameters()).dtype)
        oriented = oriented_cells(cells)
        out = []
        for p, linear in enumerate(self.linears):
            powers = [x[p]]
            for _ in range(self.degree):
                powers.append(hodge_laplacian_of(powers[-1], oriented, p))
            out.append(self.act(linear(torch.cat(powers, dim=1))))
        return out

    def extra_repr(self) -> str:
        return f"{self.width_in}, {self.width}, dim={self.dim}, degree={self.degree}"
