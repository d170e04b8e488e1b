"""From what cells carry to features of one width: one encoder per dimension."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cwnet.complexes import Incidence
from cwnet.complexes._cells import Cells
from cwnet.nn import kernels
from cwnet.nn._module import Module
from cwnet.nn.functional import boundary_sum, incidence_sum

__all__ = ["Categories", "CellEncoder", "Constant", "FromVertices", "Linear", "Raw", "Sum", "Zeros"]


class CellEncoder(Module):
    """One encoder per dimension, vertices first, so that higher cells can be made of encoded vertices.

    Args:
        encoders: for dimensions 0, 1, ...; each takes (raw features or None, encoded vertices or None, cells, d).
        dropout: dropout on the result.
    """

    def __init__(self, encoders: Sequence[Module], dropout: float = 0.0) -> None:
        super().__init__()
        self.encoders = torch.nn.ModuleList(encoders)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, cells: Cells) -> list[Tensor]:
        if len(cells.num_cells) < len(self.encoders):
            raise ValueError(
                f"the model encodes cells of dimension 0 to {len(self.encoders) - 1}, but these complexes list cells "
                f"up to dimension {len(cells.num_cells) - 1} only: lift them as the training data was"
            )
        out: list[Tensor] = []
        for d, encoder in enumerate(self.encoders):
            out.append(self.dropout(encoder(cells.x[d], out[0] if out else None, cells, d)))
        return out


def _given(x: Tensor | None, cells: Cells, d: int, empty: Tensor) -> Tensor:
    """Features as [cells, columns]. Where there are no cells there may be no features either: then it is `empty`."""
    if x is None:
        if cells.num_cells[d] == 0:
            return empty
        raise ValueError(f"the cells of dimension {d} have no features (x[{d}] is None), and their encoder needs some")
    return x[:, None] if x.dim() == 1 else x.flatten(1)


class Categories(Module):
    """The sum of one embedding per column of whole numbers: atom and bond types, or OGB's features.

    Args:
        sizes: number of categories of each column.
        width: features out.
    """

    first: Tensor

    def __init__(self, sizes: Sequence[int], width: int) -> None:
        super().__init__()
        self.sizes = tuple(sizes)
        self.tables = torch.nn.ModuleList(torch.nn.Embedding(n, width) for n in sizes)
        firsts = [sum(self.sizes[:i]) for i in range(len(self.sizes))]
        self.register_buffer("first", torch.tensor(firsts, dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor | None, vertices: Tensor | None, cells: Cells, d: int) -> Tensor:
        columns = _given(x, cells, d, torch.zeros(0, len(self.sizes), dtype=torch.int64, device=self._device))
        if columns.is_floating_point():
            raise TypeError(f"x[{d}] is {columns.dtype}, but its encoder takes whole numbers")
        if columns.shape[1] != len(self.sizes):
            raise ValueError(f"x[{d}] has {columns.shape[1]} columns, but its encoder takes {len(self.sizes)}")
        if not (columns.is_cuda or kernels.traced()) and columns.numel():  # while traced, there are no numbers yet
            self._check_range(columns, d)
        if columns.is_cuda:
            return self._product(columns)
        parts = [table(columns[:, i].long()) for i, table in enumerate(self.tables)]
        return torch.stack(parts).sum(0) if len(parts) > 1 else parts[0]

    def _product(self, columns: Tensor) -> Tensor:
        """All columns at once, as a product with ones and zeros: its gradient needs neither sorting nor atomics."""
        tables: list[Tensor] = [table.weight for table in self.tables]  # type: ignore[misc]
        rows, weights = columns.long(), tables[0]
        if len(tables) > 1:
            rows, weights = rows + self.first, torch.cat(tables)
        hot = weights.new_zeros(columns.shape[0], weights.shape[0])
        return hot.scatter_(1, rows, 1) @ weights

    @property
    def _device(self) -> torch.device:
        return next(self.parameters()).device

    def _check_range(self, columns: Tensor, d: int) -> None:
        low, high = columns.amin(0).tolist(), columns.amax(0).tolist()
        for i, (a, b, size) in enumerate(zip(low, high, self.sizes, strict=True)):
            if a < 0 or b >= size:
                raise ValueError(
                    f"x[{d}] has category {a if a < 0 else b} in column {i}; the encoder knows 0 to {size - 1}"
                )


class Linear(Module):
    """A linear map of floating point features."""

    def __init__(self, width_in: int, width: int, bias: bool = True) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(width_in, width, bias=bias)

    def forward(self, x: Tensor | None, vertices: Tensor | None, cells: Cells, d: int) -> Tensor:
        weight = self.linear.weight
        given = _given(x, cells, d, weight.new_zeros(0, self.linear.in_features)).to(weight.dtype)
        if given.shape[1] != self.linear.in_features:
            raise ValueError(f"x[{d}] has width {given.shape[1]}, but its encoder takes {self.linear.in_features}")
        out: Tensor = self.linear(given)
        return out


class Raw(Module):
    """The features as they are, as floating point numbers."""

    def forward(self, x: Tensor | None, vertices: Tensor | None, cells: Cells, d: int) -> Tensor:
        width = 1 if vertices is None else vertices.shape[1]
        given = _given(x, cells, d, torch.zeros(0, width, device=cells.boundary(0).ptr.device))
        return given if given.is_floating_point() else given.to(torch.get_default_dtype())


class Constant(Module):
    """One learnt vector for all cells of a dimension, or a fixed one of ones."""

    def __init__(self, width: int, learnt: bool = True) -> None:
        super().__init__()
        self.width = width
        if learnt:
            self.value = torch.nn.Parameter(torch.randn(width))
        else:
            self.register_buffer("value", torch.ones(width), persistent=False)

    def reset_parameters(self) -> None:
        """Draw a new vector."""
        if isinstance(self.value, torch.nn.Parameter):
            torch.nn.init.normal_(self.value)

    def forward(self, x: Tensor | None, vertices: Tensor | None, cells: Cells, d: int) -> Tensor:
        value: Tensor = self.value
        return value.expand(cells.num_cells[d], -1)


class Zeros(Module):
    """Nothing: zeros as wide as the encoded vertices."""

    def forward(self, x: Tensor | None, vertices: Tensor | None, cells: Cells, d: int) -> Tensor:
        assert vertices is not None
        return vertices.new_zeros(cells.num_cells[d], vertices.shape[1])


class Sum(Module):
    """The sum of several encoders of one width, such as `Categories` and `cwnet.nn.CycleCounts`.

    Args:
        encoders: each takes (raw features or None, encoded vertices or None, cells, d).
    """

    def __init__(self, encoders: Sequence[Module]) -> None:
        super().__init__()
        self.encoders = torch.nn.ModuleList(encoders)

    def forward(self, x: Tensor | None, vertices: Tensor | None, cells: Cells, d: int) -> Tensor:
        return torch.stack([encoder(x, vertices, cells, d) for encoder in self.encoders]).sum(0)


class FromVertices(Module):
    """The sum or mean of the encoded vertices of a cell.

    An edge's are its two ends. Every vertex of a 2-cell lies on two of its edges, so the sum over its vertices is half
    the sum over its edges of the sum over their ends: two boundary sums, and no list of vertices.

    Args:
        reduce: "sum" or "mean".
    """

    def __init__(self, reduce: str = "sum") -> None:
        super().__init__()
        if reduce not in ("sum", "mean"):
            raise ValueError(f"reduce={reduce!r} is not 'sum' or 'mean'")
        self.reduce = reduce

    def forward(self, x: Tensor | None, vertices: Tensor | None, cells: Cells, d: int) -> Tensor:
        if vertices is None:
            raise ValueError("vertices can not be made of vertices: give dimension 0 an encoder of its own")
        if d <= 2:
            total = boundary_sum(vertices, cells, 1)
            if d == 2:
                total = boundary_sum(total, cells, 2) / 2
            rows = cells.boundary(d)
        else:
            rows = cells.vertices(d)
            total = incidence_sum(vertices, Incidence.of(rows, cells.num_cells[0]))
        return total if self.reduce == "sum" else total / rows.sizes.clamp(min=1)[:, None].to(total.dtype)
