"""Signed sums over the incidences of oriented complexes: the boundary operators and Laplacians, applied to features.

Matrices are never formed. B_d^T x and B_d x are sums over compressed sparse rows with a sign per incidence, and L_d x
is four of them. Gradients are the transposed sums.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from cwnet.complexes import Csr
from cwnet.complexes._cells import Cells
from cwnet.nn import kernels
from cwnet.nn.functional import activation, segment_sum
from cwnet.topology import Oriented, SignedIncidence, cell_weights

__all__ = [
    "ODD_ACTIVATIONS",
    "boundary_signals",
    "check_odd",
    "coboundary_signals",
    "contracting_weights",
    "hodge_laplacian_of",
    "oriented_cells",
    "signed_adjacent_sum",
    "signed_sum",
]

#: Activations with act(-z) = -act(z): a layer with signs and without biases is orientation equivariant with these.
ODD_ACTIVATIONS = ("identity", "tanh")


def check_odd(act: str) -> None:
    """Refuse an activation that would make a layer see how its cells are oriented."""
    activation(act)
    if act not in ODD_ACTIVATIONS:
        raise ValueError(
            f"the activation {act!r} is not odd, so the layer would not be orientation equivariant: "
            f"choose from {', '.join(ODD_ACTIVATIONS)}"
        )


def oriented_cells(cells: Cells) -> Oriented:
    """Refuse cells without signs."""
    if not isinstance(cells, Oriented):
        raise TypeError(
            f"the layer needs oriented cells, not a {type(cells).__name__}: call it with cwnet.topology.orient(cells)"
        )
    return cells


def signed_sum(x: Tensor, incidence: SignedIncidence) -> Tensor:
    """Σ_{τ ∈ B(σ)} [τ:σ] x_τ for every upper cell σ; `incidence.flipped()` sums over coboundaries.

    Args:
        x: [lower cells, width].
        incidence: between lower and upper cells.

    Returns:
        [upper cells, width].
    """
    if x.dim() != 2 or x.shape[0] != incidence.up.num_rows:
        raise ValueError(f"x must be [{incidence.up.num_rows}, width], one row per cell, not {tuple(x.shape)}")
    if other := kernels.other_way():
        return other.signed_sum(x, incidence)  # type: ignore[no-any-return]
    out: Tensor = _SignedSum.apply(x, incidence)  # type: ignore[no-untyped-call]
    return out


class _SignedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, incidence: SignedIncidence) -> Tensor:
        ctx.incidence = incidence
        return weighted_gather(x, incidence.down, incidence.down_signs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        if torch.is_grad_enabled():
            return _SignedSum.apply(grad, ctx.incidence.flipped()), None  # type: ignore[no-untyped-call]
        return weighted_gather(grad, ctx.incidence.up, ctx.incidence.up_signs), None


def weighted_gather(x: Tensor, rows: Csr, signs: Tensor) -> Tensor:
    """Σ of x over the entries of each row, with signs."""
    if x.shape[1] == 0 or x.shape[0] == 0:
        return x.new_zeros(rows.num_rows, x.shape[1])
    weights = signs.to(x.dtype)
    return F.embedding_bag(
        rows.idx, x.contiguous(), rows.ptr, mode="sum", include_last_offset=True, per_sample_weights=weights
    )


def coboundary_signals(x: Tensor, cells: Oriented, d: int) -> Tensor:
    """B_d^T x: from signals on (d-1)-cells to signals on d-cells, d ≥ 1."""
    return signed_sum(x, cells.signed_incidence(d))


def boundary_signals(x: Tensor, cells: Oriented, d: int) -> Tensor:
    """B_d x: from signals on d-cells to signals on (d-1)-cells, d ≥ 1."""
    return signed_sum(x, cells.signed_incidence(d).flipped())


def hodge_laplacian_of(x: Tensor, cells: Oriented, d: int, weights: list[Tensor] | None = None) -> Tensor:
    """L_d x = B_d^T B_d x + B_{d+1} B_{d+1}^T x, in time linear in the incidences.

    Args:
        x: signals on d-cells, [d-cells, width].
        cells: an oriented complex or batch.
        d: the dimension.
        weights: w^{1/2} of `cwnet.topology.cell_weights`, one column [cells, 1] per dimension, for the normalised
            Laplacian, which takes W_{d-1}^{-1/2} B_d W_d^{1/2} in the place of B_d.
    """
    out = torch.zeros_like(x)
    if d > 0:
        y = boundary_signals(x if weights is None else x * weights[d], cells, d)
        z = coboundary_signals(y if weights is None else y / weights[d - 1].square(), cells, d)
        out = out + (z if weights is None else z * weights[d])
    if cells._count(d + 1):
        y = coboundary_signals(x if weights is None else x / weights[d], cells, d + 1)
        z = boundary_signals(y if weights is None else y * weights[d + 1].square(), cells, d + 1)
        out = out + (z if weights is None else z / weights[d])
    return out


def contracting_weights(cells: Oriented, dtype: torch.dtype) -> list[Tensor]:
    """w^{1/2} as columns: with these, all eigenvalues of the normalised Laplacians lie between 0 and 1."""
    return [w.sqrt().to(dtype)[:, None] for w in cell_weights(cells, contracting=True)]


def signed_adjacent_sum(x: Tensor, shared: Tensor | None, incidence: SignedIncidence, act: str = "identity") -> Tensor:
    """Signed messages from neighbours through a shared upper cell, in time linear in the incidences.

        Σ_{δ ∈ C(σ)} [σ:δ] Σ_{τ ∈ B(δ), τ ≠ σ} m(τ, δ),     m(τ, δ) = act([τ:δ] x_τ + shared_δ)

    for every lower cell σ. With an odd act, m changes its sign with δ and the sum with σ, and with nothing else. As m
    does not look at σ, the inner sum is S(δ) - m(σ, δ) with S(δ) = Σ_{τ ∈ B(δ)} m(τ, δ).

    Args:
        x: features of the lower cells, [lower cells, width].
        shared: features of the upper cells, [upper cells, width], or None for none.
        incidence: between lower and upper cells; `incidence.flipped()` meets in the boundary.
        act: an odd activation.
    """
    down, signs = incidence.down, incidence.down_signs.to(x.dtype)[:, None]
    met = 0 if shared is None else shared.index_select(0, incidence.down_rows)
    m = activation(act).value(signs * x.index_select(0, down.idx) + met)
    total = segment_sum(m, down.ptr)  # S(δ)
    own = x.new_zeros(incidence.up.num_rows, x.shape[1]).index_add(0, down.idx, signs * m)
    return signed_sum(total, incidence.flipped()) - own
