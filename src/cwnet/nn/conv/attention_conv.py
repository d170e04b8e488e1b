"""A convolution by attention over incidences."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cwnet.complexes._cells import Cells
from cwnet.nn._mlp import MLP
from cwnet.nn._module import Module, reset_parts
from cwnet.nn.conv._inputs import check_inputs
from cwnet.nn.functional import incidence_attention

__all__ = ["AttentionConv"]


class AttentionConv(Module):
    r"""Every cell attends to its boundary and to its coboundary, with several heads.

        m_B(σ) = Σ_{τ ∈ B(σ)} softmax_{τ ∈ B(σ)}(q_σ · k_τ / √w) v_τ
        m_C(σ) = Σ_{δ ∈ C(σ)} softmax_{δ ∈ C(σ)}(q_σ · k_δ / √w) v_δ
        h'_σ   = act(Norm(W_d [h_σ ‖ m_B(σ) ‖ m_C(σ)] + b_d))

    in each head, of width w, side by side (Vaswani et al., NeurIPS 2017). Queries q, keys k and values v are linear in
    h, with weights of their own for each dimension d, as W_d and b_d are. Vertices have no m_B and the top dimension no
    m_C. Weights add up to one, so m does not tell how many cells there are; h_σ has to know if it matters.

    It takes time linear in the incidences, and all dimensions are one launch of a kernel on a GPU.

    Args:
        width_in: features in.
        width: features out; as many as in by default.
        dim: largest dimension of cells, at least 1.
        heads: number of heads; it divides the width.
        act: activation by name.
        norm: "batch", "robust", "capped", "layer" or "none"; see `make_norm`.

    Shapes:
        x: [cells of dimension d, width_in] for d = 0, ..., dim → the same with width.
    """

    def __init__(
        self,
        width_in: int,
        width: int | None = None,
        dim: int = 2,
        heads: int = 4,
        act: str = "relu",
        norm: str = "batch",
    ) -> None:
        super().__init__()
        self.width_in, self.width, self.dim, self.heads = width_in, width or width_in, dim, heads
        if dim < 1:
            raise ValueError(f"dim={dim}: vertices alone have no one to attend to")
        if heads < 1 or self.width % heads:
            raise ValueError(f"{heads} heads can not share {self.width} features")
        self.maps = torch.nn.ModuleList(torch.nn.Linear(width_in, 3 * self.width) for _ in range(dim + 1))
        parts = [1 if d in (0, dim) else 2 for d in range(dim + 1)]  # of m_B and m_C, those that there are
        self.join = torch.nn.ModuleList(MLP(width_in + n * self.width, self.width, 1, act, norm) for n in parts)

    def reset_parameters(self) -> None:
        """Draw new weights."""
        reset_parts(self)

    def forward(self, x: Sequence[Tensor], cells: Cells) -> list[Tensor]:
        check_inputs(x, cells, self.dim, self.width_in, next(self.parameters()).dtype)
        below, above = self._messages(x, cells)
        out = []
        for d, join in enumerate(self.join):
            parts = [x[d], *[below[d]] * (d > 0), *[above[d]] * (d < self.dim)]
            out.append(join(torch.cat(parts, dim=1), cells.mask(d)))
        return out

    def _messages(self, x: Sequence[Tensor], cells: Cells) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """m_B and m_C of all cells, per dimension; incidences of all dimensions are taken as one."""
        incidence, counts = cells.hasse(self.dim), list(cells.num_cells[: self.dim + 1])
        mapped = torch.cat([linear(h) for linear, h in zip(self.maps, x, strict=False)])
        q, k, v = mapped.view(sum(counts), 3, self.width).transpose(0, 1).contiguous()
        below, above = (incidence_attention(q, k, v, side, self.heads) for side in (incidence, incidence.flipped()))
        return torch.split(below, counts), torch.split(above, counts)

    def extra_repr(self) -> str:
        return f"{self.width_in}, {self.width}, dim={self.dim}, heads={self.heads}"
