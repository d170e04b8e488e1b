"""Diffusion along a sheaf that is learnt. Experimental."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cwnet.complexes._cells import Cells
from cwnet.nn._module import Module, reset_parts
from cwnet.nn.conv._inputs import check_inputs
from cwnet.nn.functional import activation
from cwnet.nn.signed import check_odd, oriented_cells
from cwnet.topology import Oriented

__all__ = ["SheafConv"]


class SheafConv(Module):
    r"""Experimental: a step of diffusion along a sheaf whose maps are learnt from the features.

        H'_p = H_p - act( Δ_p (I ⊗ W₁) H_p W₂ ),     p = 0, ..., dim - 1

    Features of a cell are a stalk of dimension s with width / s channels. Δ_p is the up part of a sheaf Laplacian,

        (Δ_p x)_σ = n_σ^{-1/2} Σ_{δ ∈ C(σ)} [σ:δ] F_{σ≤δ}^T Σ_{τ ∈ B(δ)} [τ:δ] F_{τ≤δ} n_τ^{-1/2} x_τ

    with F_{σ≤δ} = tanh(Φ_p([|h_σ| ‖ |h_δ|])), s × s, and n_σ = 1 + Σ_δ |F_{σ≤δ}|², which bounds its eigenvalues by the
    number of faces of a cell. The up part needs maps between two dimensions alone, so no condition ties them together.
    The top dimension passes unchanged. For p = 0 this is the neural sheaf diffusion of Bodnar et al., NeurIPS 2022.

    Maps look at absolute values, activations are odd and there is no bias outside of Φ, so the layer is orientation
    equivariant. It needs oriented cells. Its form may change in any release.

    Args:
        width: features in and out; a multiple of the stalk.
        stalk: s.
        dim: largest dimension of cells.
        act: an odd activation by name.

    Shapes:
        x: [cells of dimension p, width] for p = 0, ..., dim → the same.
    """

    def __init__(self, width: int, stalk: int = 2, dim: int = 2, act: str = "tanh") -> None:
        super().__init__()
        check_odd(act)
        if width % stalk:
            raise ValueError(f"width={width} is not a multiple of stalk={stalk}")
        self.width, self.stalk, self.dim = width, stalk, dim
        self.act = activation(act).value

        def maps(before: int, after: int, bias: bool) -> torch.nn.ModuleList:
            return torch.nn.ModuleList(torch.nn.Linear(before, after, bias=bias) for _ in range(dim))

        self.restriction = maps(2 * width, stalk * stalk, True)
        self.mix_stalks = maps(stalk, stalk, False)
        self.mix_channels = maps(width // stalk, width // stalk, False)

    def reset_parameters(self) -> None:
        """Draw new weights."""
        reset_parts(self)

    def forward(self, x: Sequence[Tensor], cells: Cells) -> list[Tensor]:
        check_inputs(x, cells, self.dim, self.width, next(self.parameters()).dtype)
        oriented = oriented_cells(cells)
        return [*(x[p] - self.act(self._diffuse(x, oriented, p)) for p in range(self.dim)), *x[self.dim :]]

    def _diffuse(self, x: Sequence[Tensor], cells: Oriented, p: int) -> Tensor:
        incidence = cells.incidence(p + 1)
        cell, face = incidence.down_rows, incidence.down.idx
        read = torch.cat([x[p][face].abs(), x[p + 1][cell].abs()], dim=1)
        maps = torch.tanh(self.restriction[p](read)).reshape(-1, self.stalk, self.stalk)
        signed = maps * cells.signs[p].to(maps.dtype)[:, None, None]
        scale = (1 + maps.new_zeros(len(x[p])).index_add(0, face, maps.square().sum((1, 2)))).rsqrt()[:, None, None]
        h = x[p].reshape(len(x[p]), self.stalk, self.width // self.stalk)
        h = scale * self.mix_channels[p](self.mix_stalks[p](h.mT).mT)
        along = h.new_zeros(len(x[p + 1]), *h.shape[1:]).index_add(0, cell, signed @ h[face])
        back = torch.zeros_like(h).index_add(0, face, signed.mT @ along[cell])
        return (scale * back).reshape(x[p].shape)

    def extra_repr(self) -> str:
        return f"{self.width}, stalk={self.stalk}, dim={self.dim}"
