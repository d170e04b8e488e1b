"""What the branches of a layer hear: sums of messages, a cell's own features added, and their gradients.

Cells meet in others, as in `_sums`: members in hubs. A layer on cells takes the incidences of all dimensions at once
(`Cells.hasse`), so its hubs are members too; a layer on graphs takes vertices as members and edges as hubs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import triton
import triton.language as tl
from torch import Tensor

from cwnet.complexes import Csr, Incidence
from cwnet.nn.kernels._product_gradients import WeightGradients, grad_weights
from cwnet.nn.kernels._products import product
from cwnet.nn.kernels._sums import (
    entry,
    gather_sum,
    hub_gradient_kernel,
    hub_sum_kernel,
    launch,
    over_rows,
    read,
    row_tile,
)
from cwnet.nn.kernels._tiles import WARPS, Plan, blocks, in_use, slope, value

__all__ = ["CellMessages", "GraphMessages", "Messages", "NoMessages"]


class Messages(Protocol):
    """How a layer passes messages."""

    #: Parameters whose gradients are sums over cells, lists of one shape each.
    learnt: Sequence[Sequence[Tensor]]

    def hear(self, plan: Plan, x: Tensor, others: Sequence[Tensor]) -> tuple[Tensor, Any]:
        """What each branch hears, [B, N, K], from the features [N, K] and other inputs; and what `backward` needs."""

    def backward(
        self, plan: Plan, grad: Tensor, kept: Any, gradients: WeightGradients
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """The gradients of the features and of the other inputs; those of parameters are left with the others."""


@dataclass
class CellMessages:
    """Of CIN: act(M [h_τ ‖ h_δ]) from above in the first branch, h_τ from the boundary in the second.

    M is split: P = W₁ h and Q = W₂ h + b, of which a message is act(P_τ + Q_δ). Inputs beside the features are what
    further branches hear, each [N, K].
    """

    hasse: Incidence
    weights: list[Tensor]  # of M in dimension d, [K, 2 K], d = 0, ..., D - 2
    biases: list[Tensor]  # [K]
    table: Tensor  # addresses of W₁ and W₂, [2, D]; 0 where there is none
    bias_table: Tensor  # addresses of b, [2, D]
    eps: float

    def __post_init__(self) -> None:
        self.learnt: Sequence[Sequence[Tensor]] = (self.weights, self.biases)

    def hear(self, plan: Plan, x: Tensor, others: Sequence[Tensor]) -> tuple[Tensor, Any]:
        meet, _ = product(plan, x[None], self.table, 2, self.weights[0], biases=self.bias_table)
        down, up = self.hasse[:2]
        total = torch.empty_like(x)
        z = x.new_empty(2 + len(others), *x.shape)
        for i, other in enumerate(others):
            z[2 + i] = other
        launch(hub_sum_kernel, down, *meet, out=(total,), act=plan.act)
        _hear(x, meet[0], meet[1], total, up, z, self.eps, plan.act, below=down)
        return z, (x, meet)

    def backward(
        self, plan: Plan, grad: Tensor, kept: Any, gradients: WeightGradients
    ) -> tuple[Tensor, Sequence[Tensor]]:
        x, meet = kept
        down, up = self.hasse[:2]
        total, of_x, of_meet = torch.empty_like(x), torch.empty_like(x), torch.empty_like(meet)
        launch(hub_gradient_kernel, down, grad[0], *meet, out=(total, of_meet[1]), act=plan.act)
        _hear_gradient(grad, meet[0], meet[1], total, up, of_x, self.eps, plan.act, of_member=of_meet[0])
        out, _ = product(
            plan, of_meet, self.table, 1, self.weights[0], sources=2, transposed=True, width=x.shape[1], add=of_x
        )
        grad_weights(plan, of_meet, x[None], None, gradients, self.weights, self.biases, meeting=True)
        return out[0], list(grad[2:])


@dataclass
class GraphMessages:
    """Of GIN and GIN-E: h_u, or act(h_u + e) with the features e of the edge, which are the input beside h."""

    incidence: Incidence  # between edges and vertices
    act: str  # "identity" without e
    eps: float

    def __post_init__(self) -> None:
        self.learnt: Sequence[Sequence[Tensor]] = ()

    def hear(self, plan: Plan, x: Tensor, others: Sequence[Tensor]) -> tuple[Tensor, Any]:
        down, up = self.incidence[:2]
        edges = others[0].contiguous() if others else None
        if edges is None:
            total = gather_sum(x, down)
        else:
            total = torch.empty_like(edges)
            launch(hub_sum_kernel, down, x, edges, out=(total,), act=self.act)
        z = x.new_empty(1, *x.shape)
        _hear(x, x, edges, total, up, z, self.eps, self.act)
        return z, (x, edges)

    def backward(
        self, plan: Plan, grad: Tensor, kept: Any, gradients: WeightGradients
    ) -> tuple[Tensor, Sequence[Tensor]]:
        x, edges = kept
        down, up = self.incidence[:2]
        of_x, of_edges = torch.empty_like(x), []
        if edges is None:
            total = gather_sum(grad[0], down)
        else:
            total, of_edges = torch.empty_like(edges), [torch.empty_like(edges)]
            launch(hub_gradient_kernel, down, grad[0], x, edges, out=(total, *of_edges), act=self.act)
        _hear_gradient(grad, x, edges, total, up, of_x, self.eps, self.act)
        return of_x, of_edges


class NoMessages:
    """Of a perceptron: every row hears itself."""

    learnt: Sequence[Sequence[Tensor]] = ()

    def hear(self, plan: Plan, x: Tensor, others: Sequence[Tensor]) -> tuple[Tensor, Any]:
        return x[None], None

    def backward(
        self, plan: Plan, grad: Tensor, kept: Any, gradients: WeightGradients
    ) -> tuple[Tensor, Sequence[Tensor]]:
        return grad[0], ()


# ------------------------------------------------------------------------------------------------------------ launches


def _hear(
    x: Tensor,
    member: Tensor,
    hub: Tensor | None,
    total: Tensor,
    up: Csr,
    z: Tensor,
    eps: float,
    act: str,
    below: Csr | None = None,
) -> None:
    """Fill z with what the upper branch hears and, given boundaries `below`, what the boundary branch does."""
    grid, constants = _row_tiles(x)
    _hear_kernel[grid](
        x=x,
        member=member,
        hub=in_use(hub, x),
        total=total,
        ptr=up.ptr,
        idx=up.idx,
        down_ptr=up.ptr if below is None else below.ptr,
        down_idx=up.idx if below is None else below.idx,
        z=z,
        eps=eps,
        num_rows=x.shape[0],
        width=x.shape[1],
        ACT=act,
        HUBS=hub is not None,
        BOUNDARY=below is not None,
        **constants,
    )


def _hear_gradient(
    grad: Tensor,
    member: Tensor,
    hub: Tensor | None,
    total: Tensor,
    up: Csr,
    of_x: Tensor,
    eps: float,
    act: str,
    of_member: Tensor | None = None,
) -> None:
    """Fill `of_x` with the gradient of x; of what does not go through M alone, if that of M goes to `of_member`."""
    grid, constants = _row_tiles(of_x)
    _hear_gradient_kernel[grid](
        grad=grad,
        member=member,
        hub=in_use(hub, member),
        total=total,
        ptr=up.ptr,
        idx=up.idx,
        of_member=in_use(of_member, of_x),
        of_x=of_x,
        eps=eps,
        num_rows=of_x.shape[0],
        width=of_x.shape[1],
        ACT=act,
        HUBS=hub is not None,
        CELLS=of_member is not None,
        **constants,
    )


def _row_tiles(x: Tensor) -> tuple[tuple[int, int], dict[str, int]]:
    """One program per tile of cells and columns: the grid, and the sizes of tiles."""
    columns = blocks(x.shape[1], 128)
    rows = max(1, 32 * WARPS * 4 // columns)
    grid = (triton.cdiv(x.shape[0], rows), triton.cdiv(x.shape[1], columns))
    return grid, {"ROWS": rows, "COLUMNS": columns, "UNROLL": 2, "num_warps": WARPS}


# ------------------------------------------------------------------------------------------------------------- kernels


@over_rows  # type: ignore[untyped-decorator]
def _hear_kernel(
    x: tl.tensor,  # [N, K]
    member: tl.tensor,  # P, [N, K]
    hub: tl.tensor,  # Q, [hubs, K]
    total: tl.tensor,  # S, [hubs, K]
    ptr: tl.tensor,  # the hubs of each cell: [N + 1]
    idx: tl.tensor,  # [incidences]
    down_ptr: tl.tensor,  # its boundary: [N + 1]
    down_idx: tl.tensor,  # [incidences]
    z: tl.tensor,  # out, [B, N, K]
    eps: tl.tensor,
    num_rows: tl.tensor,
    width: tl.tensor,
    ACT: tl.constexpr,
    HUBS: tl.constexpr,
    BOUNDARY: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    UNROLL: tl.constexpr,
) -> None:
    """(1 + ε) x_σ + Σ_{δ ∈ C(σ)} ( S(δ) − act(P_σ + Q_δ) ), and (1 + ε) x_σ + Σ_{τ ∈ B(σ)} x_τ."""
    start, size, at, here = row_tile(ptr, num_rows, width, ROWS, COLUMNS)
    own = (1 + eps) * read(x, at, here)
    of_member = read(member, at, here)
    upper = own
    for first in range(0, tl.max(size), UNROLL):
        for k in tl.static_range(UNROLL):
            there, live = entry(idx, start, size, first + k, width, COLUMNS)
            meeting = of_member
            if HUBS:
                meeting = of_member + read(hub, there, live)
            upper += tl.where(live, read(total, there, live) - value(meeting, ACT), 0.0)
    tl.store(z + at, upper, mask=here)
    if BOUNDARY:
        start, size, at, here = row_tile(down_ptr, num_rows, width, ROWS, COLUMNS)
        below = own
        for first in range(0, tl.max(size), UNROLL):
            for k in tl.static_range(UNROLL):
                there, live = entry(down_idx, start, size, first + k, width, COLUMNS)
                below += read(x, there, live)
        tl.store(z + num_rows.to(tl.int64) * width + at, below, mask=here)


@over_rows  # type: ignore[untyped-decorator]
def _hear_gradient_kernel(
    grad: tl.tensor,  # G, [B, N, K]
    member: tl.tensor,  # P, [N, K]
    hub: tl.tensor,  # Q, [hubs, K]
    total: tl.tensor,  # H, [hubs, K]
    ptr: tl.tensor,  # the hubs of each cell: [N + 1]
    idx: tl.tensor,  # [incidences]
    of_member: tl.tensor,  # out for cells, [N, K]
    of_x: tl.tensor,  # out, [N, K]
    eps: tl.tensor,
    num_rows: tl.tensor,
    width: tl.tensor,
    ACT: tl.constexpr,
    HUBS: tl.constexpr,
    CELLS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    UNROLL: tl.constexpr,
) -> None:
    """Grad P_τ = Σ_{δ ∈ C(τ)} act'(P_τ + Q_δ) ( H(δ) − G_τ ), and the part of grad x that is not through M.

    On cells, the second is (1 + ε) times the gradients of both branches, and what the boundary branch sends back. On
    graphs there is one branch, and P is x: both are one sum.
    """
    start, size, at, here = row_tile(ptr, num_rows, width, ROWS, COLUMNS)
    plane = num_rows.to(tl.int64) * width
    at_member, own = read(member, at, here), read(grad, at, here)
    through = tl.zeros([ROWS, COLUMNS], tl.float32)
    straight = own
    if CELLS:
        straight = own + read(grad + plane, at, here)
    straight = (1 + eps) * straight
    for first in range(0, tl.max(size), UNROLL):
        for k in tl.static_range(UNROLL):
            there, live = entry(idx, start, size, first + k, width, COLUMNS)
            meeting = at_member
            if HUBS:
                meeting = at_member + read(hub, there, live)
            through += tl.where(live, slope(meeting, ACT) * (read(total, there, live) - own), 0.0)
            if CELLS:
                straight += read(grad + plane, there, live)
    if CELLS:
        tl.store(of_member + at, through, mask=here)
        tl.store(of_x + at, straight, mask=here)
    else:
        tl.store(of_x + at, straight + through, mask=here)
