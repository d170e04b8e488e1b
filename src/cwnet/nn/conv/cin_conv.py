"""The convolution of the Cell Isomorphism Network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from cwnet.complexes._cells import Cells
from cwnet.nn import kernels
from cwnet.nn._fused import fusable, fusable_on_cpu
from cwnet.nn._mlp import MLP
from cwnet.nn._module import Module, reset_parts
from cwnet.nn.conv._inputs import check_inputs
from cwnet.nn.functional import boundary_sum, lower_sum, upper_sum
from cwnet.nn.kernels._cpu_layer import Heard, Meeting, layer

__all__ = ["CINConv", "CINppConv"]


class _Isomorphism(Module):
    """What CIN and CIN++ share: per dimension, one branch for each kind of message, and a layer that joins them."""

    def __init__(
        self,
        width_in: int,
        width: int | None = None,
        dim: int = 2,
        *,
        branches: Sequence[str],
        act: str,
        norm: str,
        shared: bool,
        eps: float,
        train_eps: bool,
        top: int | None,
    ) -> None:
        super().__init__()
        width = width_in if width is None else width
        self.width_in, self.width, self.dim = width_in, width, dim
        self.top = dim if top is None else top
        if not 0 <= self.top <= dim:
            raise ValueError(f"top={top}: it must lie between 0 and dim={dim}")
        self.act, self.shared = act, shared
        dims = range(self.top + 1)
        # One M per dimension and kind, only where there are cells to meet in.
        self.upper_message = _messages(width_in, [shared and "upper" in branches and d < dim for d in dims])
        self.lower_message = _messages(width_in, [shared and "lower" in branches and d > 0 for d in dims])
        self.mlps = torch.nn.ModuleDict(
            {kind: torch.nn.ModuleList(MLP(width_in, width, 2, act, norm) for _ in dims) for kind in branches}
        )
        self.join = torch.nn.ModuleList(MLP(len(branches) * width, width, 1, act, norm) for _ in dims)
        values = torch.full((len(branches), self.top + 1), float(eps))
        self.eps = torch.nn.Parameter(values) if train_eps else None
        self.fixed_eps = eps
        self._addresses: dict[Any, Any] = {}

    def reset_parameters(self) -> None:
        """Draw new weights."""
        reset_parts(self)
        if self.eps is not None:
            torch.nn.init.constant_(self.eps, self.fixed_eps)

    def forward(self, x: Sequence[Tensor], cells: Cells) -> list[Tensor]:
        check_inputs(x, cells, min(self.top + 1, self.dim), self.width_in, next(self.join.parameters()).dtype)
        if self._fusable(x[0]):
            return self._fused(x, cells)
        if self._fusable_on_cpu(x, cells):
            return self._fused_on_cpu(x, cells)
        out = []
        for d in range(self.top + 1):
            mask = cells.mask(d)
            branches = [self._mlp(kind, d)(self._heard(kind, x, cells, d), mask) for kind in self.mlps]
            out.append(self.join[d](torch.cat(branches, dim=1), mask))
        return out

    def _fusable(self, x: Tensor) -> bool:
        """Whether the kernels know this layer as a whole: that of CIN or CIN++, under a norm, on a GPU."""
        return (
            fusable(x, list(self.join), self.width_in, self.width)
            and list(self.mlps)[:2] == ["upper", "boundary"]
            and self.shared
            and self.eps is None
            and 1 <= self.dim == self.top < kernels.MAX_DIMS
        )

    def _fused(self, x: Sequence[Tensor], cells: Cells) -> list[Tensor]:
        """All dimensions and branches at once; see `cwnet.nn.kernels`. Lower messages are summed beforehand."""
        dims = range(self.dim + 1)
        mlps: list[Any] = [self._mlp(kind, d) for kind in self.mlps for d in dims]
        join: list[Any] = list(self.join)
        linears = [[mlp.linears[i] for mlp in many] for many, i in ((mlps, 0), (mlps, 1), (join, 0))]
        norms = [[mlp.norms[i] for mlp in many] for many, i in ((mlps, 0), (mlps, 1), (join, 0))]
        heard = [torch.cat([self._heard(kind, x, cells, d) for d in dims]) for kind in list(self.mlps)[2:]]
        return kernels.isomorphism_layer(
            list(x[: self.dim + 1]), cells.hasse(self.dim), list(self.upper_message)[: self.dim], linears, norms,
            None if cells.mask(0) is None else [cells.mask(d) for d in dims], self.act, self.fixed_eps, self.training,
            self._addresses, heard,
        )  # fmt: skip

    def _fusable_on_cpu(self, x: Sequence[Tensor], cells: Cells) -> bool:
        """Whether the C++ kernels know this layer as a whole."""
        used = range(min(self.top + 1, self.dim) + 1)
        mlps: list[Any] = [self._mlp(kind, d) for kind in self.mlps for d in range(self.top + 1)] + list(self.join)
        return (
            self.shared
            and self.eps is None
            and all(cells.mask(d) is None for d in used)
            and fusable_on_cpu([x[d] for d in used], mlps, self.width_in, self.width)
        )

    def _fused_on_cpu(self, x: Sequence[Tensor], cells: Cells) -> list[Tensor]:
        """All dimensions and branches in one call; see `cwnet.nn.kernels`."""
        dims = range(self.top + 1)
        meetings: list[Meeting] = []
        heard: list[Heard] = []
        for kind in self.mlps:
            for d in dims:
                if kind == "boundary":
                    heard.append(Heard(d, below=cells.incidence(d) if d > 0 else None))
                elif kind == "upper" and d < self.dim:
                    heard.append(Heard(d, len(meetings)))
                    meetings.append(Meeting(d, d + 1, cells.incidence(d + 1), self.upper_message[d]))
                elif kind == "lower" and d > 0:
                    heard.append(Heard(d, len(meetings)))
                    meetings.append(Meeting(d, d - 1, cells.incidence(d).flipped(), self.lower_message[d]))
                else:
                    heard.append(Heard(d))
        mlps: list[Any] = [self._mlp(kind, d) for kind in self.mlps for d in dims]
        join: list[Any] = list(self.join)
        stages = (mlps, 0), (mlps, 1), (join, 0)
        return layer(
            list(x[: min(self.top + 1, self.dim) + 1]), meetings, heard,
            [[mlp.linears[i] for mlp in many] for many, i in stages],
            [[mlp.norms[i] for mlp in many] for many, i in stages],
            1 + self.fixed_eps, self.training,
        )  # fmt: skip

    def _heard(self, kind: str, x: Sequence[Tensor], cells: Cells, d: int) -> Tensor:
        """What a branch of one dimension reads: (1 + ε) h_σ and the messages."""
        eps = self.fixed_eps if self.eps is None else self.eps[list(self.mlps).index(kind), d]
        own = x[d] if isinstance(eps, float) and eps == 0 else (1 + eps) * x[d]
        messages = self._messages(kind, x, cells, d)
        return own if messages is None else own + messages

    def _messages(self, kind: str, x: Sequence[Tensor], cells: Cells, d: int) -> Tensor | None:
        """The sum of messages of one kind, or None where there can not be any."""
        if kind == "boundary":
            return boundary_sum(x[d - 1], cells, d) if d > 0 else None
        if kind == "upper":
            if d == self.dim:
                return None
            own, met = _split(self.upper_message[d], x[d], x[d + 1]) if self.shared else (x[d], None)
            return upper_sum(own, met, cells, d, self.act if self.shared else "identity")
        if d == 0:
            return None
        own, met = _split(self.lower_message[d], x[d], x[d - 1]) if self.shared else (x[d], None)
        return lower_sum(own, met, cells, d, self.act if self.shared else "identity")

    def _mlp(self, kind: str, d: int) -> torch.nn.Module:
        many = self.mlps[kind]
        assert isinstance(many, torch.nn.ModuleList)
        return many[d]

    def extra_repr(self) -> str:
        return f"{self.width_in}, {self.width}, dim={self.dim}"


def _messages(width: int, wanted: Sequence[bool]) -> torch.nn.ModuleList:
    return torch.nn.ModuleList(torch.nn.Linear(2 * width, width) if w else torch.nn.Identity() for w in wanted)


def _split(linear: torch.nn.Module, own: Tensor, met: Tensor) -> tuple[Tensor, Tensor]:
    """W [h_τ ‖ h_δ] + b as W₁ h_τ and W₂ h_δ + b: two products per cell instead of one per pair."""
    assert isinstance(linear, torch.nn.Linear)
    width = own.shape[1]
    return F.linear(own, linear.weight[:, :width]), F.linear(met, linear.weight[:, width:], linear.bias)


class CINConv(_Isomorphism):
    r"""The layer of the Cell Isomorphism Network (paper, section 4 and appendix).

        up(σ)  = (1 + ε↑) h_σ + Σ_{δ ∈ C(σ)} Σ_{τ ∈ B(δ), τ ≠ σ} M_p([h_τ ‖ h_δ])
        bnd(σ) = (1 + ε_B) h_σ + Σ_{τ ∈ B(σ)} h_τ
        h'_σ   = act(Norm(W [MLP↑_p(up(σ)) ‖ MLP_B,p(bnd(σ))] + b))

    with M_p = act ∘ Linear, MLP = [Linear, Norm, act] twice, and weights of their own for each dimension p. Vertices
    have no boundary and the top dimension no upper neighbours; their branches see h_σ alone.

    Args:
        width_in: features in.
        width: features out; as many as in by default.
        dim: largest dimension of cells; 2 for rings, 1 for "no rings", more for cliques.
        act: activation by name.
        norm: "batch", "robust", "capped", "layer" or "none"; see `make_norm`.
        shared: whether messages read the cell they pass through; if not, M_p([h_τ ‖ h_δ]) is h_τ.
        eps: ε of both branches.
        train_eps: whether ε is learnt, one per branch and dimension.
        top: largest dimension that is computed; all by default. The last layers of a model that reads vertices alone
            need not compute rings.

    Shapes:
        x: [cells of dimension d, width_in] for d = 0, ..., dim → the same with width.
    """

    def __init__(
        self,
        width_in: int,
        width: int | None = None,
        dim: int = 2,
        act: str = "relu",
        norm: str = "batch",
        shared: bool = True,
        eps: float = 0.0,
        train_eps: bool = False,
        top: int | None = None,
    ) -> None:
        super().__init__(
            width_in, width, dim, branches=("upper", "boundary"),
            act=act, norm=norm, shared=shared, eps=eps, train_eps=train_eps, top=top,
        )  # fmt: skip


class CINppConv(_Isomorphism):
    r"""CIN with lower messages that flow (the layer of CIN++; Giusti et al., arXiv:2306.03561).

        low(σ) = (1 + ε↓) h_σ + Σ_{δ ∈ B(σ)} Σ_{τ ∈ C(δ), τ ≠ σ} M↓_p([h_τ ‖ h_δ])
        h'_σ   = act(Norm(W [MLP↑_p(up(σ)) ‖ MLP_B,p(bnd(σ)) ‖ MLP↓_p(low(σ))] + b))

    with up and bnd as in `CINConv`. Rings that share a bond, and bonds that share an atom, talk to each other.

    Args:
        width_in: features in.
        width: features out; as many as in by default.
        dim: largest dimension of cells.
        act: activation by name.
        norm: "batch", "robust", "capped", "layer" or "none"; see `make_norm`.
        shared: whether messages read the cell they pass through.
        eps: ε of all branches.
        train_eps: whether ε is learnt.
        top: largest dimension that is computed; all by default.
    """

    def __init__(
        self,
        width_in: int,
        width: int | None = None,
        dim: int = 2,
        act: str = "relu",
        norm: str = "batch",
        shared: bool = True,
        eps: float = 0.0,
        train_eps: bool = False,
        top: int | None = None,
    ) -> None:
        super().__init__(
            width_in, width, dim, branches=("upper", "boundary", "lower"),
            act=act, norm=norm, shared=shared, eps=eps, train_eps=train_eps, top=top,
        )  # fmt: skip
