"""From features of cells to one vector per complex."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cwnet.complexes._batch import ComplexBatch
from cwnet.nn._module import Module
from cwnet.nn.functional import activation, per_row, segment_max, segment_mean, segment_sum

__all__ = ["Beside", "CellHead", "Head", "Readout"]


def _both(x: Tensor, ptr: Tensor) -> Tensor:
    total = segment_sum(x, ptr)
    return torch.cat([total, per_row(total, ptr)], dim=1)


def _all(x: Tensor, ptr: Tensor) -> Tensor:
    return torch.cat([_both(x, ptr), segment_max(x, ptr)], dim=1)


#: Poolings by name, and how many vectors each makes of one.
_POOLS = {"sum": (segment_sum, 1), "mean": (segment_mean, 1), "both": (_both, 2), "all": (_all, 3)}


class Readout(Module):
    r"""Pool each dimension, map it, and add the dimensions up.

        h_X = Σ_d act(W_d POOL_{dim σ = d} h_σ + b_d)

    A dimension in which a complex has no cells pools to zero.

    Args:
        width_in: features of cells; with jumping knowledge, of all layers together.
        width: features of the complex.
        dims: the dimensions that take part.
        pool: "sum", "mean", "both" of them side by side, or "all", with maxima too. A sum knows how much there is of
            something, a mean how common it is, and a linear map makes neither of the other.
        act: activation by name.
        bias: whether there are b_d.
        dropout: dropout on each dimension's vector.
    """

    def __init__(
        self,
        width_in: int,
        width: int,
        dims: Sequence[int] = (0, 1, 2),
        pool: str = "sum",
        act: str = "relu",
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if pool not in _POOLS:
            raise ValueError(f"unknown pooling {pool!r}: choose from {', '.join(_POOLS)}")
        if not dims:
            raise ValueError("a readout needs at least one dimension to read")
        self.dims, self.pool = tuple(dims), pool
        self.act = activation(act).value
        self._pooled, many = _POOLS[pool]
        self.linears = torch.nn.ModuleList(torch.nn.Linear(many * width_in, width, bias=bias) for _ in self.dims)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x: Sequence[Tensor], batch: ComplexBatch) -> Tensor:
        if max(self.dims) >= len(x):
            raise ValueError(
                f"the readout pools dimension {max(self.dims)}, but there are features up to {len(x) - 1} only"
            )
        pooled = [self._pooled(x[d], batch.cell_ptr[d]) for d in self.dims]
        return torch.stack(
            [self.dropout(self.act(linear(p))) for linear, p in zip(self.linears, pooled, strict=True)]
        ).sum(0)


class Beside(Module):
    """The sum of several readouts of one width, such as one of features and one of `ColourCounts`.

    Args:
        readouts: each takes (features of cells, batch).
    """

    def __init__(self, readouts: Sequence[Module]) -> None:
        super().__init__()
        self.readouts = torch.nn.ModuleList(readouts)

    def forward(self, x: Sequence[Tensor], batch: ComplexBatch) -> Tensor:
        return torch.stack([readout(x, batch) for readout in self.readouts]).sum(0)


class Head(Module):
    """Dropout and a linear map, from the vector of a complex to its outputs.

    Args:
        width: features in.
        outputs: targets or classes.
        dropout: dropout before the map.
    """

    def __init__(self, width: int, outputs: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = torch.nn.Dropout(dropout)
        self.linear = torch.nn.Linear(width, outputs)

    def forward(self, h: Tensor) -> Tensor:
        out: Tensor = self.linear(self.dropout(h))
        return out


class CellHead(Module):
    """A linear map on the cells of one dimension, for targets of vertices, edges or rings.

    Args:
        width: features in.
        outputs: targets or classes per cell.
        dim: whose cells.
        dropout: dropout before the map.
    """

    def __init__(self, width: int, outputs: int, dim: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        self.dim = dim
        self.dropout = torch.nn.Dropout(dropout)
        self.linear = torch.nn.Linear(width, outputs)

    def forward(self, x: Sequence[Tensor], batch: ComplexBatch) -> Tensor:
        if self.dim >= len(x) or (len(batch) and x[self.dim].shape[0] == 0):
            raise ValueError(f"there are no cells of dimension {self.dim} to predict for in this batch")
        out: Tensor = self.linear(self.dropout(x[self.dim]))
        return out
