"""One regular cell complex."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cwnet.complexes import _interop
from cwnet.complexes._cells import Cells, Features, as_features, describe_cells
from cwnet.complexes._csr import Csr, is_whole
from cwnet.complexes._pytree import register
from cwnet.complexes._validate import validate
from cwnet.errors import InvalidComplexError

__all__ = ["CellComplex"]


@register
@dataclass(frozen=True, eq=False, repr=False)
class CellComplex(Cells):
    """A regular cell complex, held as its boundary incidences (paper, section 2).

    Cells of each dimension are numbered from 0; a d-cell is the list of the (d-1)-cells on its boundary.
    Make one with `cwnet.lift` or `CellComplex.from_boundaries`.

    Attributes:
        num_cells: number of cells in each dimension: (vertices, edges, 2-cells, ...). The lifting that made the
            complex decides how many dimensions are listed, so a tree under `Rings(6)` has (n, n-1, 0); `dim` is
            the largest dimension that has a cell.
        x: features, a tuple with one tensor [cells, ...] (or None) per dimension.
        y: the target of the complex as a whole, any shape, or None.
        cell_y: targets of cells, like `x`.
        complex_x: features of the complex as a whole, any shape, or None.

    >>> sphere = CellComplex.from_boundaries(2, [[(0, 1), (0, 1)], [(0, 1), (0, 1)]])
    >>> sphere
    CellComplex(2 vertices, 2 edges, 2 2-cells)
    >>> sphere.coboundary(1).tolist()  # both hemispheres lie on either edge of the equator
    [[0, 1], [0, 1]]
    """

    @classmethod
    def from_boundaries(
        cls,
        num_vertices: int,
        boundaries: Sequence[Csr | Iterable[Sequence[int]]],
        *,
        x: Sequence[Any] | None = None,
        y: Any = None,
        cell_y: Sequence[Any] | None = None,
    ) -> CellComplex:
        """Build a complex from the boundaries of its edges, its 2-cells, and so on.

        Args:
            num_vertices: number of 0-cells.
            boundaries: for d = 1, 2, ... the boundary of every d-cell, as lists of (d-1)-cell numbers or `Csr`.
            x: features per dimension, [cells, ...] or None.
            y: target of the complex.
            cell_y: targets per dimension.

        Raises:
            InvalidComplexError: where the incidences are not those of a regular cell complex; see `validate`
                for what is checked.
        """
        if not is_whole(num_vertices) or not 0 <= num_vertices < 2**31:
            raise InvalidComplexError(f"a complex can not have {num_vertices!r:.60} vertices")
        if not isinstance(boundaries, Iterable):
            raise InvalidComplexError(f"boundaries must be one list per dimension, not {boundaries!r:.60}")
        packed = tuple(_as_csr(b, d) for d, b in enumerate(boundaries, start=1))
        validate(num_vertices, packed)
        num_cells = (num_vertices, *(b.num_rows for b in packed))
        return cls(
            num_cells=num_cells,
            boundaries=packed,
            x=as_features(x, num_cells, "x"),
            y=None if y is None else torch.as_tensor(y),
            cell_y=as_features(cell_y, num_cells, "cell_y"),
        )

    def cells(self, d: int) -> list[tuple[int, ...]]:
        """The vertices of every d-cell.

        An edge's are its two ends as stored; a 2-cell's are in cyclic order, from the smallest towards the
        smaller of its two neighbours; those of higher cells are increasing.
        """
        if d == 1:
            return [(u, v) for u, v in self.boundary(1).tolist()]
        if d == 2:
            ends = self.boundary(1).tolist()
            return [_trace([ends[e] for e in boundary]) for boundary in self.boundary(2).tolist()]
        return [tuple(row) for row in self.vertices(d).tolist()]

    def skeleton(self, k: int) -> CellComplex:
        """X^(k), the subcomplex of all cells of dimension at most k; features and targets stay."""
        if k < 0:
            raise ValueError(f"there is no {k}-skeleton: the smallest is the 0-skeleton, the vertices alone")
        return CellComplex(
            num_cells=self.num_cells[: k + 1],
            boundaries=self.boundaries[:k],
            x=self.x[: k + 1],
            y=self.y,
            cell_y=self.cell_y[: k + 1],
            complex_x=self.complex_x,
        )

    def to_networkx(self) -> Any:
        """The 1-skeleton as a networkx graph; see `cwnet.complexes.to_networkx`."""
        return _interop.to_networkx(self)

    def to_pyg(self) -> Any:
        """A `torch_geometric` Data that PyG's DataLoader batches rightly; see `cwnet.complexes.to_pyg`."""
        return _interop.to_pyg(self)

    def to_toponetx(self) -> Any:
        """A TopoNetX CellComplex; see `cwnet.complexes.to_toponetx`."""
        return _interop.to_toponetx(self)

    def __eq__(self, other: object) -> bool:
        """Same cells with the same numbers, boundaries, features and targets. Not isomorphism."""
        if not isinstance(other, CellComplex):
            return NotImplemented
        return (
            self.num_cells == other.num_cells
            and all(
                torch.equal(a.ptr, b.ptr) and torch.equal(a.idx, b.idx)
                for a, b in zip(self.boundaries, other.boundaries, strict=True)
            )
            and _same(self.x, other.x)
            and _same((self.y, self.complex_x), (other.y, other.complex_x))
            and _same(self.cell_y, other.cell_y)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"CellComplex({describe_cells(self.num_cells)})"


def _as_csr(boundaries: Csr | Iterable[Sequence[int]], d: int) -> Csr:
    """The boundaries of d-cells as a user gives them: whole numbers, and nothing that would have to be cut off."""
    if isinstance(boundaries, Csr):
        for part in boundaries:
            if part.is_floating_point() or part.is_complex() or part.dtype == torch.bool:
                raise InvalidComplexError(f"the boundaries of {d}-cells must be whole numbers, not {part.dtype}")
        return Csr(boundaries.ptr.long().cpu(), boundaries.idx.long().cpu())
    if not isinstance(boundaries, Iterable):
        raise InvalidComplexError(f"the boundaries of {d}-cells must be one list per cell, not {boundaries!r:.60}")
    rows = []
    for i, row in enumerate(boundaries):
        faces = row.tolist() if hasattr(row, "tolist") else row
        if not isinstance(faces, Iterable):
            raise InvalidComplexError(f"the boundary of {d}-cell {i} must be a list of {d - 1}-cells, not {row!r:.60}")
        rows.append(list(faces))
        odd = next((face for face in rows[-1] if not is_whole(face) or not -(2**63) <= face < 2**63), None)
        if odd is not None or None in rows[-1]:
            raise InvalidComplexError(f"the boundary of {d}-cell {i} must be numbers of {d - 1}-cells, not {odd!r:.60}")
    return Csr.from_lists(rows)


def _same(a: Features, b: Features) -> bool:
    return all(
        (s is None) == (t is None) and (s is None or t is None or _equal_nan(s, t)) for s, t in zip(a, b, strict=True)
    )


def _equal_nan(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool(torch.all((a == b) | ((a != a) & (b != b))))


def _trace(edges: list[list[int]]) -> tuple[int, ...]:
    """The vertices along a closed cycle of edges given in any order."""
    around: dict[int, list[int]] = {}
    for u, v in edges:
        around.setdefault(u, []).append(v)
        around.setdefault(v, []).append(u)
    first = min(around)
    walk, here = [first], min(around[first])
    while here != first:
        walk.append(here)
        a, b = around[here]
        here = b if a == walk[-2] else a
    return tuple(walk)
