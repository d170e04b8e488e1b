"""Adam in one kernel, for steps that a CUDA graph records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from cwnet.nn import kernels

__all__ = ["GraphAdam"]


class GraphAdam(torch.optim.Adam):
    """`torch.optim.Adam` on a GPU, with one launch instead of one for every few dozen parameters.

    Parameters, gradients and averages are found by their addresses. While a graph is recorded the gradients are given
    the addresses that they will have in every replay; `recorded` writes these down when the recording is over. The
    table they go to must not lie in the graph's own memory, which every replay writes to.

    Args:
        parameters: what to learn, in float32.
        lr: learning rate.
        betas, eps, weight_decay: as in PyTorch.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        parameters = list(parameters)
        rate = torch.tensor(lr, device=parameters[0].device)
        super().__init__(parameters, rate, betas, eps, weight_decay, capturable=parameters[0].is_cuda)
        self._blocks: dict[tuple[int, ...], Tensor] = {}
        self._table: Tensor | None = None
        self._held: list[Tensor] = []
        self._unwritten: list[list[int]] | None = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update all parameters that have a gradient."""
        (group,) = self.param_groups
        parameters = [p for p in group["params"] if p.grad is not None]
        count = self._prepare(parameters)
        count += 1
        states = [self.state[p] for p in parameters]
        gradients = [p.grad if p.grad.is_contiguous() else p.grad.contiguous() for p in parameters]
        averages = [[s[name] for s in states] for name in ("exp_avg", "exp_avg_sq")]
        addresses = [[t.data_ptr() for t in row] for row in (parameters, gradients, *averages)]
        device = parameters[0].device
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            assert self._table is not None, "a step must be tried out before it is recorded"
            table, self._unwritten = self._table, addresses
        else:
            table = torch.tensor(addresses, device=device)
            if self._table is None:
                self._table = torch.empty_like(table)  # for the next recording
        kernels.adam_step(
            table, self._cut(parameters), group["lr"], count, group["betas"], group["eps"], group["weight_decay"]
        )

    def recorded(self) -> None:
        """Write down the addresses of the graph that was just recorded."""
        if self._unwritten is not None and self._table is not None:
            self._table.copy_(torch.tensor(self._unwritten))
            self._held.append(self._table)
            self._unwritten = self._table = None

    def _prepare(self, parameters: list[Tensor]) -> Tensor:
        """Averages for parameters that have none yet, and the count of steps, which all of them share."""
        known = [self.state[p]["step"] for p in parameters if self.state[p]]
        count: Tensor = known[0] if known else torch.zeros((), device=parameters[0].device)
        for p in parameters:
            state = self.state[p]
            if not state:
                state["exp_avg"] = torch.zeros_like(p, memory_format=torch.contiguous_format)
                state["exp_avg_sq"] = torch.zeros_like(p, memory_format=torch.contiguous_format)
            state["step"] = count
        return count

    def _cut(self, parameters: list[Tensor]) -> Tensor:
        """Blocks of equal size that cover all parameters."""
        sizes = tuple(p.numel() for p in parameters)
        if sizes not in self._blocks:
            cuts = [(i, first, n) for i, n in enumerate(sizes) for first in range(0, n, kernels.ADAM_BLOCK)]
            self._blocks[sizes] = torch.tensor(cuts, device=parameters[0].device)
        return self._blocks[sizes]
