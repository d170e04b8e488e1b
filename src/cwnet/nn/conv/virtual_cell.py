"""A cell that all cells of a complex meet in."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cwnet.complexes import ComplexBatch
from cwnet.complexes._cells import Cells
from cwnet.nn._mlp import MLP
from cwnet.nn._module import Module, reset_parts
from cwnet.nn.conv._inputs import check_inputs
from cwnet.nn.functional import POOLS, pooled, segment_spread

__all__ = ["VirtualCell"]


class VirtualCell(Module):
    r"""One more cell per complex, which hears all others and is heard by all (after Gilmer et al., ICML 2017).

        u_X  = MLP([POOL_{dim σ = 0} h_σ ‖ ... ‖ POOL_{dim σ = D} h_σ])
        h'_σ = h_σ + U_d u_X

    for σ in X, with a U_d for each dimension d. It is a layer of its own, to stand between others: two cells, however
    far apart, hear of each other in one step.

    Args:
        width: features in and out.
        dim: largest dimension D of cells.
        pool: "sum", "mean", "max", "both" sums and means, or "all"; see `Readout`.
        act: activation by name.
        norm: "batch", "robust", "capped", "layer" or "none"; see `make_norm`.

    Shapes:
        x: [cells of dimension d, width] for d = 0, ..., dim → the same; higher dimensions stay as they are.
    """

    def __init__(self, width: int, dim: int = 2, pool: str = "mean", act: str = "relu", norm: str = "batch") -> None:
        super().__init__()
        if pool not in POOLS:
            raise ValueError(f"unknown pooling {pool!r}: choose from {', '.join(POOLS)}")
        self.width, self.dim, self.pool = width, dim, pool
        self.mlp = MLP((dim + 1) * len(POOLS[pool]) * width, width, 2, act, norm)
        self.back = torch.nn.Linear(width, (dim + 1) * width, bias=False)

    def reset_parameters(self) -> None:
        """Draw new weights."""
        reset_parts(self)

    def forward(self, x: Sequence[Tensor], cells: Cells) -> list[Tensor]:
        check_inputs(x, cells, self.dim, self.width, self.mlp.dtype)
        ptrs = _complexes(cells)[: self.dim + 1]
        each = pooled(x[: self.dim + 1], ptrs, self.pool)
        # A complex without vertices is padding.
        whole = self.mlp(each.transpose(0, 1).flatten(1), None if cells.mask(0) is None else ptrs[0].diff() > 0)
        back = self.back(whole).unflatten(1, (self.dim + 1, -1)).unbind(1)
        heard = [h + segment_spread(u, ptr, h.shape[0]) for h, u, ptr in zip(x, back, ptrs, strict=False)]
        return [*heard, *x[self.dim + 1 :]]

    def extra_repr(self) -> str:
        return f"{self.width}, dim={self.dim}, pool={self.pool!r}"


def _complexes(cells: Cells) -> Sequence[Tensor]:
    """Where the cells of each complex begin, per dimension."""
    if isinstance(cells, ComplexBatch):
        return cells.cell_ptr
    return [torch.tensor([0, n], device=cells._device) for n in cells.num_cells]
