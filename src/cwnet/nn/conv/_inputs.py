"""Checks that all convolutions make of what they are given."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cwnet._torch import autocasting
from cwnet.complexes._cells import Cells

__all__ = ["check_inputs"]


def check_inputs(
    x: Sequence[Tensor], cells: Cells, dim: int, width: int | None = None, dtype: torch.dtype | None = None
) -> None:
    """Features must be there for every dimension a layer uses, one row per cell, of the layer's width."""
    if len(cells.num_cells) <= dim:
        raise ValueError(
            f"the layer works on cells of dimension 0 to {dim}, but these complexes list cells up to dimension "
            f"{len(cells.num_cells) - 1} only: lift them with Rings(k), or build a model of lower dimension"
        )
    if len(x) <= dim:
        raise ValueError(f"features of {len(x)} dimensions for a layer that works on dimensions 0 to {dim}")
    for d in range(dim + 1):
        if not isinstance(x[d], Tensor):
            raise TypeError(f"x[{d}] is {x[d]!r}: a layer needs features in every dimension; encode the cells first")
        if x[d].dim() != 2 or x[d].shape[0] != cells.num_cells[d]:
            raise ValueError(
                f"x[{d}] is of shape {tuple(x[d].shape)}, but there are {cells.num_cells[d]} cells of dimension {d}: "
                f"it must be [{cells.num_cells[d]}, width]"
            )
        if width is not None and x[d].shape[1] != width:
            raise ValueError(f"x[{d}] has width {x[d].shape[1]}, the layer takes width {width}")
        if not x[d].is_floating_point():
            raise TypeError(
                f"x[{d}] is {x[d].dtype}: a layer takes floating point features; encode whole numbers first"
            )
        if dtype is not None and x[d].dtype != dtype and not autocasting(x[d].device.type):
            raise TypeError(f"x[{d}] is {x[d].dtype}, the layer's weights are {dtype}: convert the one or the other")
