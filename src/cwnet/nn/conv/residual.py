"""A convolution and what was there before it, added up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cwnet.complexes._cells import Cells
from cwnet.nn._module import Module, reset_parts

__all__ = ["Residual", "joined"]


def joined(x: Sequence[Tensor], heard: Sequence[Tensor], join: Callable[[int, Tensor, Tensor], Tensor]) -> list[Tensor]:
    """join(d, before, after) in every dimension d that a convolution computes; others stay as they are."""
    out = list(x)
    for d, (before, after) in enumerate(zip(x, heard, strict=False)):
        if after is not before:
            if after.shape != before.shape:
                raise ValueError(
                    f"the convolution makes features of width {after.shape[1]} of width {before.shape[1]} in dimension "
                    f"{d}: they must be as wide as before to be joined"
                )
            out[d] = join(d, before, after)
    return out


class Residual(Module):
    r"""Any convolution, added to what was there before (He et al., CVPR 2016).

        h'_σ = h_σ + conv(h)_σ

    Where the convolution passes features on as they are, or does not compute a dimension, they stay as they are.

    Args:
        conv: a convolution that gives features as wide as it takes.

    Shapes:
        x: [cells of dimension d, width] for every d → the same.

    >>> import torch, cwnet
    >>> from cwnet.nn import GINConv, Residual
    >>> X = cwnet.lift((4, [(0, 1), (1, 2), (2, 3), (3, 0)]), cwnet.Rings(4))
    >>> [tuple(h.shape) for h in Residual(GINConv(8))([torch.rand(n, 8) for n in X.num_cells], X)]
    [(4, 8), (4, 8), (1, 8)]
    """

    def __init__(self, conv: torch.nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def reset_parameters(self) -> None:
        """Draw new weights."""
        reset_parts(self)

    def forward(self, x: Sequence[Tensor], cells: Cells) -> list[Tensor]:
        return joined(x, self.conv(x, cells), lambda d, before, after: before + after)
