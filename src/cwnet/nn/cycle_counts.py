"""How many rings of each size a cell lies on, as features."""

from __future__ import annotations

import torch
from torch import Tensor

from cwnet.complexes._cells import Cells
from cwnet.nn._module import Module, reset_parts
from cwnet.nn.functional import coboundary_sum

__all__ = ["CycleCounts"]


class CycleCounts(Module):
    r"""An encoder of vertices and edges by the rings they lie on (counts as in Bouritsas et al., TPAMI 2022).

        c_σ[k] = #{2-cells of k edges that σ lies on},   k = 3, ..., K
        h_σ    = W log(1 + c_σ)

    The rings are the 2-cells of the complex, so what is counted depends on the lifting: ``Rings(K)`` counts induced
    cycles, ``Cycles(K)`` all of them. A 2-cell lies on itself alone. The features a cell carries are not read; to add
    the two, put both into an `encoders.Sum`.

    Counting takes one sum over incidences for edges and two for vertices: a ring through a vertex has two of its edges
    there.

    Args:
        largest: K, the size of the largest rings that are counted.
        width: features out.

    Shapes:
        as the encoder of dimension d = 0, 1 or 2 in a `CellEncoder`: → [cells of dimension d, width].

    >>> import cwnet
    >>> from cwnet.nn import CycleCounts
    >>> house = cwnet.lift((5, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (4, 1)]), cwnet.Rings(4))
    >>> CycleCounts(4, 8).counts(house, 0).tolist()  # triangles and squares at each vertex
    [[1.0, 1.0], [1.0, 1.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]
    """

    def __init__(self, largest: int, width: int) -> None:
        super().__init__()
        if largest < 3:
            raise ValueError(f"largest={largest}: there are no rings of fewer than 3 edges to count")
        self.largest, self.width = largest, width
        self.linear = torch.nn.Linear(largest - 2, width, bias=False)

    def reset_parameters(self) -> None:
        """Draw new weights."""
        reset_parts(self)

    @torch.no_grad()
    def counts(self, cells: Cells, d: int) -> Tensor:
        """The counts c of all d-cells, [d-cells, K - 2]."""
        if d > 2:
            raise ValueError(f"cells of dimension {d} do not lie on rings: give them another encoder")
        if len(cells.num_cells) < 3:
            raise ValueError("these complexes list no 2-cells to count: lift them with Rings(k)")
        sizes = torch.arange(3, self.largest + 1, device=self.linear.weight.device)
        found = (cells.boundary(2).sizes[:, None] == sizes).to(self.linear.weight.dtype)
        if d < 2:
            found = coboundary_sum(found, cells, 1)
        return coboundary_sum(found, cells, 0) / 2 if d == 0 else found

    def forward(self, x: Tensor | None, vertices: Tensor | None, cells: Cells, d: int) -> Tensor:
        out: Tensor = self.linear(torch.log1p(self.counts(cells, d)))
        return out

    def extra_repr(self) -> str:
        return f"{self.largest}, {self.width}"
