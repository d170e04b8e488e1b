"""Theorems about layers as one-line tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from cwnet.complexes import CellComplex, Csr
from cwnet.complexes._csr import offsets, ranges
from cwnet.topology import Oriented, orient, random_flips

__all__ = ["assert_cell_equivariant", "permuted"]

Complex = TypeVar("Complex", bound=CellComplex | Oriented)


def permuted(complex_: Complex, orders: Sequence[Tensor], generator: torch.Generator | None = None) -> Complex:
    """The same complex with its cells in another order: new cell i of dimension d is old cell ``orders[d][i]``.

    The order in which a boundary lists its cells means nothing either, and is changed at random. The signs of an
    oriented complex stay with their incidences.
    """
    places = [torch.argsort(order) for order in orders]
    boundaries, signs = [], []
    for d in range(1, len(complex_.num_cells)):
        csr = complex_.boundary(d)
        sizes = csr.sizes[orders[d]]
        old = ranges(csr.ptr[:-1][orders[d]], sizes)
        rows = torch.repeat_interleave(sizes)
        shuffled = old[torch.argsort(rows + torch.rand(len(old), generator=generator, dtype=torch.float64))]
        boundaries.append(Csr(offsets(sizes), places[d - 1][csr.idx[shuffled]]))
        if isinstance(complex_, Oriented):
            signs.append(complex_.signs[d - 1][shuffled])
    changed: dict[str, Any] = {"signs": tuple(signs)} if isinstance(complex_, Oriented) else {}
    return replace(
        complex_,
        boundaries=tuple(boundaries),
        x=tuple(None if x is None else x[order] for x, order in zip(complex_.x, orders, strict=True)),
        cell_y=tuple(None if y is None else y[order] for y, order in zip(complex_.cell_y, orders, strict=True)),
        **changed,
    )


def assert_cell_equivariant(
    layer: Any,
    complex_: CellComplex | Oriented,
    width: int,
    *,
    orientation: bool = False,
    seed: int = 0,
    tolerance: float = 1e-4,
) -> None:
    """Theorem 'CW Network layers are cell permutation equivariant': permuting cells permutes the output.

    Args:
        layer: called as ``layer(features per dimension, complex)``.
        complex_: the complex to try it on; an oriented one for a layer that needs signs.
        width: features the layer takes.
        orientation: whether turning cells round must change the signs of their outputs and nothing else, too:
            T f(x, B) = f(T x, T B T). The complex is oriented, if it is not yet.
        seed: of the random features, the random order of cells in every dimension, and the cells that are turned.
        tolerance: largest difference allowed, relative to the largest output.

    Raises:
        AssertionError: naming the dimension and the difference.
    """
    generator = torch.Generator().manual_seed(seed)
    complex_ = orient(complex_) if orientation else complex_
    dtype = next((p.dtype for p in layer.parameters()), torch.get_default_dtype())
    x = [torch.randn(n, width, generator=generator, dtype=dtype) for n in complex_.num_cells]
    orders = [torch.randperm(n, generator=generator) for n in complex_.num_cells]
    with torch.no_grad():
        expected = layer(x, complex_)
        other = permuted(complex_, orders, generator)
        found = layer([h[order] for h, order in zip(x, orders, strict=True)], other)
        _compare([h[order] for h, order in zip(expected, orders, strict=False)], found, "", tolerance)
        if isinstance(complex_, Oriented) and orientation:
            turns = random_flips(complex_, generator)
            found = layer([t[:, None] * h for t, h in zip(turns, x, strict=True)], complex_.flipped(turns))
            turned = [t[:, None] * h for t, h in zip(turns, expected, strict=False)]
            _compare(turned, found, "orientation ", tolerance)


def _compare(expected: Sequence[Tensor], found: Sequence[Tensor], what: str, tolerance: float) -> None:
    for d, (a, b) in enumerate(zip(expected, found, strict=True)):
        if a.numel():
            difference = float((a - b).abs().max() / a.abs().max().clamp(min=1e-12))
            if not difference <= tolerance:
                raise AssertionError(
                    f"not {what}equivariant: outputs of dimension {d} differ by {difference:.2e} of their size"
                )
