"""The orientation-equivariant layer of the Cell Isomorphism Network."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from cwnet.complexes._cells import Cells
from cwnet.nn._module import Module, reset_parts
from cwnet.nn.conv._inputs import check_inputs
from cwnet.nn.functional import activation
from cwnet.nn.signed import check_odd, coboundary_signals, oriented_cells, signed_adjacent_sum
from cwnet.topology import Oriented

__all__ = ["OrientedCINConv"]


class OrientedCINConv(Module):
    r"""CIN++ with signs, odd activations and no biases (paper, appendix "Symmetries").

        up(σ)  = h_σ + Σ_{δ ∈ C(σ)} [σ:δ] Σ_{τ ∈ B(δ), τ ≠ σ} act([τ:δ] U₁ h_τ + U₂ h_δ)
        low(σ) = h_σ + Σ_{δ ∈ B(σ)} [δ:σ] Σ_{τ ∈ C(δ), τ ≠ σ} act([δ:τ] V₁ h_τ + V₂ h_δ)
        bnd(σ) = h_σ + Σ_{τ ∈ B(σ)} [τ:σ] h_τ
        h'_σ   = act(W [act(W↑ up(σ)) ‖ act(W_B bnd(σ)) ‖ act(W↓ low(σ))])

    with weights of their own for each dimension. A cell that is turned round changes the sign of its own output and of
    no other: T f(x, B) = f(T x, T B T). The general recipe is that of message passing simplicial networks (Bodnar,
    Frasca et al., ICML 2021); messages here also read the cell they pass through.

    It needs oriented cells: `cwnet.topology.orient`.

    Args:
        width_in: features in.
        width: features out; as many as in by default.
        dim: largest dimension of cells.
        act: an odd activation by name: "tanh" or "identity".

    Shapes:
        x: [cells of dimension d, width_in] for d = 0, ..., dim → the same with width.
    """

    def __init__(self, width_in: int, width: int | None = None, dim: int = 2, act: str = "tanh") -> None:
        super().__init__()
        check_odd(act)
        self.width_in, self.width, self.dim = width_in, width_in if width is None else width, dim
        self.act_name, self.act = act, activation(act).value

        def maps(count: int, before: int, after: int) -> torch.nn.ModuleList:
            return torch.nn.ModuleList(torch.nn.Linear(before, after, bias=False) for _ in range(count))

        self.upper_message = maps(dim, 2 * width_in, width_in)  # of dimensions 0, ..., dim - 1
        self.lower_message = maps(dim, 2 * width_in, width_in)  # of dimensions 1, ..., dim
        branches = {"upper": dim, "boundary": dim, "lower": dim}
        self.branches = torch.nn.ModuleDict({kind: maps(n, width_in, self.width) for kind, n in branches.items()})
        # Vertices hear from above alone, the top dimension from below alone.
        counts = [(d < dim) + 2 * (d > 0) for d in range(dim + 1)]
        self.join = torch.nn.ModuleList(torch.nn.Linear(n * self.width, self.width, bias=False) for n in counts)

    def reset_parameters(self) -> None:
        """Draw new weights."""
        reset_parts(self)

    def forward(self, x: Sequence[Tensor], cells: Cells) -> list[Tensor]:
        check_inputs(x, cells, self.dim, self.width_in, next(self.parameters()).dtype)
        oriented = oriented_cells(cells)
        out = []
        for d, join in enumerate(self.join):
            parts = []
            if d < self.dim:
                parts.append(self._branch("upper", d)(x[d] + self._upper(x, oriented, d)))
            if d > 0:
                parts.append(self._branch("boundary", d - 1)(x[d] + coboundary_signals(x[d - 1], oriented, d)))
                parts.append(self._branch("lower", d - 1)(x[d] + self._lower(x, oriented, d)))
            out.append(self.act(join(self.act(torch.cat(parts, dim=1)))))
        return out

    def _branch(self, kind: str, i: int) -> torch.nn.Module:
        many = self.branches[kind]
        assert isinstance(many, torch.nn.ModuleList)
        return many[i]

    def _upper(self, x: Sequence[Tensor], cells: Oriented, d: int) -> Tensor:
        own, met = _split(self.upper_message[d], x[d], x[d + 1])
        return signed_adjacent_sum(own, met, cells.signed_incidence(d + 1), self.act_name)

    def _lower(self, x: Sequence[Tensor], cells: Oriented, d: int) -> Tensor:
        own, met = _split(self.lower_message[d - 1], x[d], x[d - 1])
        return signed_adjacent_sum(own, met, cells.signed_incidence(d).flipped(), self.act_name)

    def extra_repr(self) -> str:
        return f"{self.width_in}, {self.width}, dim={self.dim}, act={self.act_name}"


def _split(linear: torch.nn.Module, own: Tensor, met: Tensor) -> tuple[Tensor, Tensor]:
    """W [h_τ ‖ h_δ] as W₁ h_τ and W₂ h_δ: two products per cell instead of one per pair."""
    assert isinstance(linear, torch.nn.Linear)
    width = own.shape[1]
    return F.linear(own, linear.weight[:, :width]), F.linear(met, linear.weight[:, width:])
