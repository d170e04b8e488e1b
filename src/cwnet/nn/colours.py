"""The cellular Weisfeiler–Lehman test inside a network: colours of cells, and how often each occurs.

Colours are whole numbers that are refined as in the test, by sums of pseudo-random codes over boundaries and upper
neighbours. Codes are small whole numbers, so sums of them in float32 are exact: the same kernels compute them that sum
features, on any device, in any order, and the colours of isomorphic complexes are the same numbers everywhere.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cwnet.complexes._batch import ComplexBatch
from cwnet.complexes._cells import Cells
from cwnet.nn._module import Module
from cwnet.nn.functional import activation, boundary_sum, segment_of, upper_sum

__all__ = ["ColourCounts", "refined_colours"]

#: Columns of a code, and the bits of each: sums over fewer than 2¹² cells are exact.
_COLUMNS, _BITS = 16, 12
#: Odd numbers of 64 bits with about as many ones as zeros, to multiply with (modulo 2⁶⁴).
_SPREAD, _MIX = -7046029254386353131, -4417276706812531889
_POSITIVE = 2**62 - 1


def _mixed(h: Tensor) -> Tensor:
    """Whole numbers, scattered over 64 bits."""
    h = (h ^ (h >> 31)) * _SPREAD
    h = (h ^ (h >> 29)) * _MIX
    return h ^ (h >> 32)


def _joined(h: Tensor, columns: Tensor) -> Tensor:
    """A hash of a number and the columns of whole numbers beside it, in their order."""
    for column in columns.unbind(1):
        h = _mixed(h * _SPREAD + column)
    return h


def _code(colours: Tensor, salt: int) -> Tensor:
    """Small whole numbers, about as many below zero as above, that stand for colours: [cells, columns]."""
    keys = torch.arange(salt * _COLUMNS, (salt + 1) * _COLUMNS, device=colours.device)
    bits = _mixed(colours[:, None] + keys * _MIX) & (2**_BITS - 1)
    code: Tensor = bits - 2 ** (_BITS - 1)
    return code.float()


def refined_colours(cells: Cells, rounds: int, dim: int | None = None) -> list[list[Tensor]]:
    """The colours of all cells before refinement and after every round.

    Cells begin with their dimension and the whole numbers they carry, and hear of their boundary and of their upper
    neighbours together with the cell they meet in: the two adjacencies that the paper proves to be enough.

    Args:
        cells: a complex or a batch of them, with whole numbers for features, or none.
        rounds: how often to refine.
        dim: largest dimension of cells that takes part; all by default.

    Returns:
        For each round one tensor of colours per dimension, int64.

    Raises:
        TypeError: where features are no whole numbers.

    >>> from cwnet import Rings, lift
    >>> hexagon = lift((6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)]), Rings(6))
    >>> [len(set(c.tolist())) for c in refined_colours(hexagon, 2)[2]]
    [1, 1, 1]
    """
    top = len(cells.num_cells) - 1 if dim is None else min(dim, len(cells.num_cells) - 1)
    colours = [_initial(cells, d) for d in range(top + 1)]
    seen = [colours]
    for _ in range(rounds):
        old, colours = colours, []
        for d, colour in enumerate(old):
            h = _mixed(colour)
            if d > 0:
                h = _joined(h, boundary_sum(_code(old[d - 1], 0), cells, d).long())
            if d < top:
                # relu(a + b) depends on the pair, where a + b would fall apart into two sums.
                h = _joined(h, upper_sum(_code(colour, 1), _code(old[d + 1], 2), cells, d, "relu").long())
            colours.append(h & _POSITIVE)
        seen.append(colours)
    return seen


def _initial(cells: Cells, d: int) -> Tensor:
    x = cells.x[d] if d < len(cells.x) else None
    first = torch.full((cells.num_cells[d],), d + 1, dtype=torch.int64, device=cells._device)
    if x is None:
        return _mixed(first) & _POSITIVE
    if x.is_floating_point():
        raise TypeError(f"x[{d}] is {x.dtype}: colours are made of whole numbers only")
    return _joined(first, x.reshape(len(x), -1).long()) & _POSITIVE


class ColourCounts(Module):
    r"""How often each colour of the cellular WL test occurs in a complex, mapped to a vector: a part of a readout.

        h_X = act(W log(1 + c_X) + b),   c_X[i] = #{(σ, t) : colour of σ after round t ≡ i}

    Nothing that leads to the counts is learnt; `CWLFingerprint` counts the same colours under other numbers.

    Args:
        size: columns of the fingerprint; the column of a colour is what it leaves modulo the size.
        width: features of the complex.
        rounds: rounds of refinement; the colours of all rounds are counted.
        dim: largest dimension of cells that takes part.
        act: activation by name.
        dropout: dropout on the vector.
    """

    def __init__(
        self, size: int, width: int, rounds: int = 2, dim: int = 2, act: str = "relu", dropout: float = 0.0
    ) -> None:
        super().__init__()
        if size < 1 or rounds < 0:
            raise ValueError(f"size={size}, rounds={rounds}: there must be a column, and no fewer than 0 rounds")
        self.size, self.rounds, self.dim = size, rounds, dim
        self.linear = torch.nn.Linear(size, width)
        self.act = activation(act).value
        self.dropout = torch.nn.Dropout(dropout)

    def counts(self, batch: ComplexBatch) -> Tensor:
        """The fingerprints, [complexes, size]."""
        complexes = batch.cell_ptr[0].shape[0] - 1
        # Ones are added up, which is exact in any order. Cells of padding come after the last complex.
        found = self.linear.weight.new_zeros((complexes + 1) * self.size)
        with torch.no_grad():
            seen = refined_colours(batch, self.rounds, self.dim)
            for d in range(len(seen[0])):
                first = self.size * segment_of(batch.cell_ptr[d], batch.num_cells[d])
                for colours in seen:
                    found.scatter_add_(0, first + colours[d] % self.size, found.new_ones(len(first)))
        return found.view(-1, self.size)[:complexes]

    def forward(self, x: object, batch: ComplexBatch) -> Tensor:
        out: Tensor = self.dropout(self.act(self.linear(torch.log1p(self.counts(batch)))))
        return out
