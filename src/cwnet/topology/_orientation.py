"""Orientation: a sign for every incidence, so that the boundary of a boundary is zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

import torch
from torch import Tensor

from cwnet.complexes import CellComplex, ComplexBatch, ComplexStore, Csr, collate
from cwnet.complexes._cells import describe_cells
from cwnet.complexes._components import connected_components
from cwnet.complexes._csr import ranges
from cwnet.complexes._pytree import register
from cwnet.errors import InvalidComplexError

__all__ = ["AnyCells", "Oriented", "SignedIncidence", "as_batch", "diamonds", "orient", "random_flips"]

#: What the functions of this room take: one complex, or many of them.
AnyCells = CellComplex | ComplexStore | ComplexBatch


class SignedIncidence(NamedTuple):
    """The incidences between the cells of two neighbouring dimensions, with their signs, from both sides.

    Attributes:
        down: the boundary of every upper cell.
        up: the coboundary of every lower cell, increasing.
        down_rows: the upper cell of every entry of `down`.
        up_rows: the lower cell of every entry of `up`.
        down_signs: [τ:σ] of every entry of `down`, ±1, int8.
        up_signs: the same for every entry of `up`.
    """

    down: Csr
    up: Csr
    down_rows: Tensor
    up_rows: Tensor
    down_signs: Tensor
    up_signs: Tensor

    def flipped(self) -> SignedIncidence:
        """The same with upper and lower exchanged."""
        down, up, down_rows, up_rows, down_signs, up_signs = self
        return SignedIncidence(up, down, up_rows, down_rows, up_signs, down_signs)


@register
@dataclass(frozen=True, eq=False, repr=False)
class Oriented(ComplexBatch):
    """One or more complexes with a signed incidence relation (paper, appendix "Symmetries"). Made by `orient`.

    It is a batch, so all that takes a batch takes it. ``oriented[i]`` is complex i without its signs.

    Attributes:
        signs: for d = 1, 2, ... the signs [τ:σ] of the incidences in ``boundary(d)``, ±1, int8.
    """

    signs: tuple[Tensor, ...]
    _signed: dict[int, SignedIncidence] = field(default_factory=dict, init=False)
    _weights: dict[bool, list[Tensor]] = field(default_factory=dict, init=False)

    def signed_incidence(self, d: int) -> SignedIncidence:
        """The incidences between d-cells and (d-1)-cells, d ≥ 1, with their signs. It is kept."""
        if d not in self._signed:
            incidence = self.incidence(d)
            down_signs = self.signs[d - 1] if d <= len(self.signs) else incidence.down.idx.to(torch.int8)
            self._signed[d] = SignedIncidence(*incidence[:4], down_signs, down_signs[incidence.in_down])
        return self._signed[d]

    def with_features(self, x: Sequence[Tensor | None]) -> Oriented:
        """The same cells with other features; what has been derived of the cells is shared, not computed again."""
        other = replace(self, x=tuple(x))
        for name in ("_incidences", "_signed", "_weights"):
            getattr(other, name).update(getattr(self, name))
        return other

    def flipped(self, flips: Sequence[Tensor | None], signals: Sequence[int] = ()) -> Oriented:
        """Turn some cells round: T_{d-1} B_d T_d in place of B_d.

        Args:
            flips: per dimension d the diagonal of T_d, ±1, [d-cells]; None turns nothing. Vertices can not be turned
                (the paper's T_0 = I).
            signals: the dimensions whose features `x` are signals, which change their sign with their cell: flows are,
                types are not.

        >>> import torch
        >>> from cwnet import lift, Rings
        >>> triangle = orient(lift((3, [(0, 1), (1, 2), (0, 2)]), Rings(3)))
        >>> triangle.signs[1].tolist()
        [1, 1, -1]
        >>> triangle.flipped([None, torch.tensor([-1, 1, 1]), None]).signs[1].tolist()
        [-1, 1, -1]
        """
        turns = self._checked(flips)
        signs = list(self.signs)
        for d in range(1, len(self.num_cells)):
            incidence = self.incidence(d)
            for turn, cell in ((turns[d], incidence.down_rows), (turns[d - 1], incidence.down.idx)):
                if turn is not None:
                    signs[d - 1] = signs[d - 1] * turn[cell]
        x = list(self.x)
        for d in signals:
            turn, h = turns[d], x[d]
            if turn is not None and h is not None:
                x[d] = h * turn.to(h.dtype).reshape(-1, *[1] * (h.dim() - 1))
        return replace(self, signs=tuple(signs), x=tuple(x))

    def __repr__(self) -> str:
        many = "complex" if len(self) == 1 else "complexes"
        return f"Oriented({len(self):,} {many}: {describe_cells(self.num_cells)})"

    def _checked(self, flips: Sequence[Tensor | None]) -> list[Tensor | None]:
        if len(flips) > len(self.num_cells):
            raise InvalidComplexError(f"flips for {len(flips)} dimensions, but there are {len(self.num_cells)}")
        turns: list[Tensor | None] = []
        for d, flip in enumerate(flips):
            if flip is None:
                turns.append(None)
                continue
            if flip.shape != (self.num_cells[d],):
                raise InvalidComplexError(
                    f"flips[{d}] is of shape {tuple(flip.shape)}, but there are {self.num_cells[d]} cells of "
                    f"dimension {d}: it must be [{self.num_cells[d]}]"
                )
            wrong = (flip != 1) if d == 0 else (flip.abs() != 1)
            if bool(wrong.any()):
                at = int(wrong.nonzero()[0])
                why = "a vertex can not be turned round" if d == 0 else "it must be 1 or -1"
                raise InvalidComplexError(f"flips[{d}] is {flip[at].item()} at cell {at}: {why}")
            turns.append(flip.to(self._device, torch.int8))
        return turns + [None] * (len(self.num_cells) - len(turns))


def as_batch(cells: AnyCells) -> ComplexBatch:
    """One complex, a store or a batch as a batch."""
    if isinstance(cells, CellComplex):
        return collate([cells])
    return cells.batch() if isinstance(cells, ComplexStore) else cells


def orient(cells: AnyCells) -> Oriented:
    """Orient the cells of regular complexes. What is oriented already stays as it is.

    An edge points from the smaller to the larger number of its ends. A 2-cell runs along its cycle as `cells(2)` lists
    it: from its smallest vertex towards the smaller of that one's neighbours. In higher cells the face with the
    smallest number has the sign 1, and ∂∂ = 0 determines the others.

    All cells of a dimension are done at once. The faces of a cell lie on a sphere; two that share a ridge ρ must cancel
    there, which ties their signs together. So each face gets two nodes of a graph, one for either sign, with edges
    between signs that agree; the connected components are the two orientations of the sphere. O(E) for E incidences
    in boundaries of boundaries.

    Raises:
        InvalidComplexError: if the boundary of a cell can not be oriented: then it is not a sphere.

    >>> from cwnet import lift, Rings
    >>> square = orient(lift((4, [(0, 1), (1, 2), (2, 3), (3, 0)]), Rings(4)))
    >>> square.signs[0].tolist(), square.signs[1].tolist()  # the last edge is stored as 3, 0; it points from 0 to 3
    ([-1, 1, -1, 1, -1, 1, 1, -1], [1, 1, 1, -1])
    """
    if isinstance(cells, Oriented):
        return cells
    batch = as_batch(cells)
    signs: list[Tensor] = []
    for d in range(1, len(batch.num_cells)):
        signs.append(_edge_signs(batch) if d == 1 else _sphere_signs(batch, d, signs[-1]))
    given = {f.name: getattr(batch, f.name) for f in fields(ComplexBatch) if f.init}
    return Oriented(**given, signs=tuple(signs))


def random_flips(cells: AnyCells, generator: torch.Generator | None = None) -> list[Tensor]:
    """A random ±1 for every cell but the vertices, for `Oriented.flipped`."""
    flips = [2 * torch.randint(2, (n,), generator=generator, dtype=torch.int8) - 1 for n in cells.num_cells]
    flips[0] = torch.ones_like(flips[0])
    return flips


class Diamonds(NamedTuple):
    """Every pair of faces of a cell that meet in a ridge: cell ⊃ first, second ⊃ ridge.

    Attributes:
        first, second: positions in ``boundary(d).idx``: a cell and one of its faces.
        below_first, below_second: positions in ``boundary(d - 1).idx``: that face and the ridge.
    """

    first: Tensor
    second: Tensor
    below_first: Tensor
    below_second: Tensor


def diamonds(cells: ComplexBatch, d: int) -> Diamonds:
    """All pairs of faces of d-cells, d ≥ 2, that share a ridge. In a regular complex, a ridge of a cell is in one."""
    csr, faces = cells.boundary(d), cells.boundary(d - 1)
    sizes = faces.sizes[csr.idx]
    entry = torch.repeat_interleave(sizes)
    below = ranges(faces.ptr[:-1][csr.idx], sizes)
    key = csr.rows[entry] * max(cells.num_cells[d - 2], 1) + faces.idx[below]
    key, order = torch.sort(key, stable=True)
    if key.numel() % 2 or bool((key[::2] != key[1::2]).any()) or bool((key[1:-1:2] == key[2::2]).any()):
        _, counts = torch.unique(key, return_counts=True)
        at = torch.unique(key)[counts != 2][0]
        cell, ridge = divmod(int(at), max(cells.num_cells[d - 2], 1))
        raise InvalidComplexError(
            f"{d}-cell {cell} can not be oriented: {d - 2}-cell {ridge} does not lie on two of its {d - 1}-cells. "
            "Build complexes with CellComplex.from_boundaries, which checks them"
        )
    a, b = order[::2], order[1::2]
    return Diamonds(entry[a], entry[b], below[a], below[b])


def _edge_signs(cells: ComplexBatch) -> Tensor:
    """-1 at the end with the smaller number, 1 at the other."""
    ends = cells.boundary(1).idx.reshape(-1, 2)
    heads = ends == ends.max(1, keepdim=True).values
    return (2 * heads.to(torch.int8) - 1).flatten()


def _sphere_signs(cells: ComplexBatch, d: int, below: Tensor) -> Tensor:
    """The signs of the faces of d-cells, d ≥ 2, given the signs of these faces' own boundaries."""
    csr = cells.boundary(d)
    n, device = csr.idx.numel(), csr.idx.device
    if n == 0:
        return torch.zeros(0, dtype=torch.int8, device=device)
    first, second, below_first, below_second = diamonds(cells, d)
    # Two faces cancel in a ridge if their signs agree and the ridge's signs in them do not, or the other way round.
    crossed = torch.where(below[below_first] == below[below_second], n, 0)
    rows = torch.cat([first, first + n]).cpu().numpy()
    columns = torch.cat([second + crossed, second + n - crossed]).cpu().numpy()
    labels = torch.from_numpy(connected_components(2 * n, rows, columns)[1]).to(device)
    plus, minus = labels[:n], labels[n:]
    anchor = _anchors(cells, d)[csr.rows]
    bad = (plus == minus) | ((plus != plus[anchor]) & (plus != minus[anchor]))
    if bool(bad.any()):
        cell = int(csr.rows[bad][0])
        raise InvalidComplexError(f"{d}-cell {cell} can not be oriented: its boundary is not a {d - 1}-sphere")
    return 2 * (plus == plus[anchor]).to(torch.int8) - 1


def _anchors(cells: ComplexBatch, d: int) -> Tensor:
    """For every d-cell the position in ``boundary(d).idx`` of the face whose sign is 1."""
    csr = cells.boundary(d)
    rank = torch.arange(cells.num_cells[d - 1], device=csr.idx.device)
    if d == 2:  # edges by their smaller end, then by their larger
        ends = cells.boundary(1).idx.reshape(-1, 2)
        by_larger = torch.argsort(ends.max(1).values, stable=True)
        rank[by_larger[torch.argsort(ends.min(1).values[by_larger], stable=True)]] = rank.clone()
    order = torch.argsort(csr.rows * max(rank.numel(), 1) + rank[csr.idx])
    return order[csr.ptr[:-1]]
