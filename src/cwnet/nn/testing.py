"""Theorems about layers as one-line tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cwnet.complexes import CellComplex, Csr
from cwnet.complexes._csr import offsets, ranges

__all__ = ["assert_cell_equivariant", "permuted"]


def permuted(complex_: CellComplex, orders: Sequence[Tensor], generator: torch.Generator | None = None) -> CellComplex:
    """The same complex with its cells in another order: new cell i of dimension d is old cell ``orders[d][i]``.

    The order in which a boundary lists its cells means nothing either, and is changed at random.
    """
    places = [torch.argsort(order) for order in orders]
    boundaries = []
    for d in range(1, len(complex_.num_cells)):
        csr = complex_.boundary(d)
        sizes = csr.sizes[orders[d]]
        old = csr.idx[ranges(csr.ptr[:-1][orders[d]], sizes)]
        ptr, faces = offsets(sizes), places[d - 1][old]
        rows = torch.repeat_interleave(sizes)
        shuffled = torch.argsort(rows + torch.rand(len(faces), generator=generator, dtype=torch.float64))
        boundaries.append(Csr(ptr, faces[shuffled]))
    return CellComplex(
        num_cells=complex_.num_cells,
        boundaries=tuple(boundaries),
        x=tuple(None if x is None else x[order] for x, order in zip(complex_.x, orders, strict=True)),
        y=complex_.y,
        cell_y=tuple(None if y is None else y[order] for y, order in zip(complex_.cell_y, orders, strict=True)),
    )


def assert_cell_equivariant(
    layer: Any, complex_: CellComplex, width: int, *, seed: int = 0, tolerance: float = 1e-4
) -> None:
    """Theorem 'CW Network layers are cell permutation equivariant': permuting cells permutes the output.

    Args:
        layer: called as ``layer(features per dimension, complex)``.
        complex_: the complex to try it on.
        width: features the layer takes.
        seed: of the random features and the random order of cells in every dimension.
        tolerance: largest difference allowed, relative to the largest output.

    Raises:
        AssertionError: naming the dimension and the difference.
    """
    generator = torch.Generator().manual_seed(seed)
    dtype = next((p.dtype for p in layer.parameters()), torch.get_default_dtype())
    x = [torch.randn(n, width, generator=generator, dtype=dtype) for n in complex_.num_cells]
    orders = [torch.randperm(n, generator=generator) for n in complex_.num_cells]
    with torch.no_grad():
        expected = layer(x, complex_)
        other = permuted(complex_, orders, generator)
        found = layer([h[order] for h, order in zip(x, orders, strict=True)], other)
    for d, (a, b) in enumerate(zip(expected, found, strict=True)):
        if a.numel():
            difference = float((a[orders[d]] - b).abs().max() / a.abs().max().clamp(min=1e-12))
            if not difference <= tolerance:
                raise AssertionError(
                    f"not equivariant: outputs of dimension {d} differ by {difference:.2e} of their size"
                )
