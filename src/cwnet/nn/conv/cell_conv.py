"""The general message passing scheme of the paper, for layers of one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from cwnet.complexes import Incidence
from cwnet.complexes._cells import Cells
from cwnet.complexes._csr import offsets, ranges
from cwnet.nn.conv._inputs import check_inputs
from cwnet.nn.functional import gather, segment_max, segment_mean, segment_spread, segment_sum

__all__ = ["AGGREGATES", "Aggregate", "CellConv", "neighbours"]

#: From messages [n, width], sorted by receiver, and pointers [receivers + 1] to [receivers, width].
Aggregate = Callable[[Tensor, Tensor], Tensor]
Message = Callable[..., Tensor]


#: Aggregates by name.
AGGREGATES: dict[str, Aggregate] = {"sum": segment_sum, "mean": segment_mean, "max": segment_max}


def neighbours(incidence: Incidence) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Every neighbour through every shared upper cell, expanded and sorted by receiver.

    Returns (receiver, sender, shared, pointers of the receivers).
    """
    down, up = incidence.down, incidence.up
    sizes = down.sizes[up.idx]
    receiver = torch.repeat_interleave(incidence.up_rows, sizes)
    shared = torch.repeat_interleave(up.idx, sizes)
    sender = down.idx[ranges(down.ptr[:-1][up.idx], sizes)]
    distinct = sender != receiver
    receiver, sender, shared = receiver[distinct], sender[distinct], shared[distinct]
    return receiver, sender, shared, offsets(torch.bincount(receiver, minlength=up.num_rows))


class CellConv(torch.nn.Module):
    r"""Message passing with functions of one's own (paper, section 4 and appendix A.3).

        m_B(σ) = AGG_{τ ∈ B(σ)} M_B(h_σ, h_τ)
        m_C(σ) = AGG_{τ ∈ C(σ)} M_C(h_σ, h_τ)
        m_↓(σ) = AGG_{τ ∈ N↓(σ), δ ∈ B(σ, τ)} M_↓(h_σ, h_τ, h_δ)
        m_↑(σ) = AGG_{τ ∈ N↑(σ), δ ∈ C(σ, τ)} M_↑(h_σ, h_τ, h_δ)
        h'_σ   = U(h_σ, m_B(σ), m_C(σ), m_↓(σ), m_↑(σ))

    Give the functions you want; U is called with the messages of those, by name. Where cells have no neighbours of a
    kind, such as vertices on the boundary side, the aggregate is that of nothing: zero. Each function may be one for
    all dimensions or a list with one per dimension; modules among them are registered.

    All pairs are expanded: a cell with a boundary of size k costs k(k-1) messages. Where a message does not look at the
    receiver and is summed, `cwnet.nn.functional.adjacent_sum` does the same in 2k.

    Args:
        update: U(h, boundary=..., coboundary=..., lower=..., upper=...).
        boundary: M_B(h_σ, h_τ).
        coboundary: M_C(h_σ, h_τ).
        lower: M_↓(h_σ, h_τ, h_δ).
        upper: M_↑(h_σ, h_τ, h_δ).
        aggregate: "sum", "mean", "max", or a function of (messages sorted by receiver, pointers).
        width: width of the messages, needed only where a dimension has no neighbours of a kind to tell it.
        dim: largest dimension of cells.

    A mean-aggregating layer in a few lines:

    >>> import torch, cwnet
    >>> from cwnet.nn import CellConv
    >>> message = torch.nn.Linear(3 * 8, 8)
    >>> conv = CellConv(
    ...     upper=lambda h, neighbour, shared: message(torch.cat([h, neighbour, shared], 1)),
    ...     update=lambda h, upper: torch.relu(h + upper),
    ...     aggregate="mean",
    ...     width=8,
    ... )
    >>> X = cwnet.lift((4, [(0, 1), (1, 2), (2, 3), (3, 0)]), cwnet.Rings(4))
    >>> [h.shape[0] for h in conv([torch.rand(n, 8) for n in X.num_cells], X)]
    [4, 4, 1]
    """

    def __init__(
        self,
        update: Callable[..., Tensor] | Sequence[Callable[..., Tensor]],
        *,
        boundary: Message | Sequence[Message] | None = None,
        coboundary: Message | Sequence[Message] | None = None,
        lower: Message | Sequence[Message] | None = None,
        upper: Message | Sequence[Message] | None = None,
        aggregate: str | Aggregate = "sum",
        width: int | None = None,
        dim: int = 2,
    ) -> None:
        super().__init__()
        if isinstance(aggregate, str) and aggregate not in AGGREGATES:
            raise ValueError(
                f"unknown aggregate {aggregate!r}: choose from {', '.join(AGGREGATES)}, or give a function"
            )
        self.aggregate = AGGREGATES[aggregate] if isinstance(aggregate, str) else aggregate
        self.dim, self.width = dim, width
        self.update = self._per_dimension(update)
        given = {"boundary": boundary, "coboundary": coboundary, "lower": lower, "upper": upper}
        self.messages = {kind: self._per_dimension(m) for kind, m in given.items() if m is not None}
        functions = [f for many in (self.update, *self.messages.values()) for f in many]
        self.parts = torch.nn.ModuleList(dict.fromkeys(f for f in functions if isinstance(f, torch.nn.Module)))

    def _per_dimension(self, functions: Any) -> list[Callable[..., Tensor]]:
        if callable(functions) and not isinstance(functions, (torch.nn.ModuleList, list, tuple)):
            return [functions] * (self.dim + 1)
        many = list(functions)
        if len(many) != self.dim + 1:
            raise ValueError(f"{len(many)} functions for dimensions 0 to {self.dim}: give one, or {self.dim + 1}")
        return many

    def forward(self, x: Sequence[Tensor], cells: Cells) -> list[Tensor]:
        check_inputs(x, cells, self.dim)
        return [
            self.update[d](x[d], **{kind: self._aggregated(kind, x, cells, d) for kind in self.messages})
            for d in range(self.dim + 1)
        ]

    def _aggregated(self, kind: str, x: Sequence[Tensor], cells: Cells, d: int) -> Tensor:
        message = self.messages[kind][d]
        needs_above = kind in ("coboundary", "upper")
        if (needs_above and d == self.dim) or (not needs_above and d == 0):
            return x[d].new_zeros(x[d].shape[0], self.width or x[d].shape[1])
        incidence = cells.incidence(d + 1) if needs_above else cells.incidence(d).flipped()
        met = x[d + 1] if needs_above else x[d - 1]
        if kind in ("boundary", "coboundary"):
            # Seen from a cell, its (co)boundary cells are what the incidence calls upper.
            sender, ptr = incidence.up.idx, incidence.up.ptr
            return self.aggregate(message(segment_spread(x[d], ptr, len(sender)), gather(met, sender)), ptr)
        _, sender, shared, ptr = neighbours(incidence)
        receivers = segment_spread(x[d], ptr, len(sender))
        return self.aggregate(message(receivers, gather(x[d], sender), gather(met, shared)), ptr)
