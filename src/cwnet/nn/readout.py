"""From features of cells to one vector per complex."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cwnet.complexes._batch import ComplexBatch
from cwnet.nn._module import Module
from cwnet.nn.functional import POOLS, activation, pooled

__all__ = ["Beside", "CellHead", "Head", "Readout"]


class Readout(Module):
    r"""Pool each dimension, map it, and add the dimensions up.

        h_X = Σ_d act(W_d POOL_{dim σ = d} h_σ + b_d)

    A dimension in which a complex has no cells pools to zero.

    Args:
        width_in: features of cells; with jumping knowledge, of all layers together.
        width: features of the complex.
        dims: the dimensions that take part.
        pool: "sum", "mean", "max", "both" sums and means side by side, or "all" three. A sum knows how much there is of
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
        if pool not in POOLS:
            raise ValueError(f"unknown pooling {pool!r}: choose from {', '.join(POOLS)}")
        if not dims:
            raise ValueError("a readout needs at least one dimension to read")
        self.dims, self.pool, self.bias = tuple(dims), pool, bias
        self.act = activation(act).value
        pools = len(POOLS[pool])
        self.linears = torch.nn.ModuleList(torch.nn.Linear(pools * width_in, width, bias=bias) for _ in self.dims)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x: Sequence[Tensor], batch: ComplexBatch) -> Tensor:
        if max(self.dims) >= len(x):
            raise ValueError(
                f"the readout pools dimension {max(self.dims)}, but there are features up to {len(x) - 1} only"
            )
        each = pooled([x[d] for d in self.dims], [batch.cell_ptr[d] for d in self.dims], self.pool)
        # The maps of all dimensions are one product of stacked matrices.
        weights = torch.stack([linear.weight for linear in self.linears]).mT  # type: ignore[misc]
        if self.bias:
            biases = torch.stack([linear.bias for linear in self.linears])  # type: ignore[misc]
            mapped = torch.baddbmm(biases[:, None], each, weights)
        else:
            mapped = torch.bmm(each, weights)
        out: Tensor = self.dropout(self.act(mapped)).sum(0)
        return out


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
