"""How much the networks weigh against the trees."""

from __future__ import annotations

import torch
from torch import Tensor

from cwnet.molecules._targets import Targets

__all__ = ["blend"]

_HALF = 0.5
#: Weights that are tried for classes.
_GRID = torch.linspace(0, 1, 21, dtype=torch.float64)


def blend(
    targets: Targets,
    values: Tensor,
    network: Tensor,
    trees: Tensor,
    shrink: float | None,
    rows: Tensor | None = None,
) -> tuple[float, ...]:
    """The weight of the networks for each column: the best on these molecules, shrunk towards one half.

    With w* the best weight on the n molecules that have a value, it is (n w* + m / 2) / (n + m), m being `shrink`; one
    half where that is None. The best has the least squared error, or for classes the least log loss.

    Args:
        targets: what is predicted.
        values: the truth, [molecules, columns], NaN where empty.
        network: what the networks say, [molecules, outputs].
        trees: what the trees say.
        shrink: how many molecules one half counts as.
        rows: how much each molecule weighs, [molecules]; None where all weigh the same.
    """
    weights = []
    for i in range(len(targets.names)):
        there = ~values[:, i].isnan()
        count = int(there.sum())
        if shrink is None or not count:
            weights.append(_HALF)
            continue
        y = values[there, i].double()
        w = torch.ones_like(y) if rows is None else rows[there].double()
        if targets.task == "multiclass":
            a, b = (said[there].gather(1, y.long()[:, None])[:, 0] for said in (network, trees))
            best = _least_log_loss(a, b, w)
        elif targets.task == "regression":
            best = _least_squares(y, network[there, i], trees[there, i], w)
        else:
            a, b = (torch.where(y > 0.5, said[there, i], 1 - said[there, i]) for said in (network, trees))
            best = _least_log_loss(a, b, w)
        weights.append((count * best + shrink * _HALF) / (count + shrink))
    return tuple(weights)


def _least_squares(y: Tensor, a: Tensor, b: Tensor, rows: Tensor) -> float:
    """The w in [0, 1] with the least Σ r (y - w a - (1 - w) b)², r being the weights of rows."""
    apart = (rows * (a - b).square()).sum()
    return float((rows * (y - b) * (a - b)).sum().div(apart).clamp(0, 1)) if apart > 0 else _HALF


def _least_log_loss(a: Tensor, b: Tensor, rows: Tensor) -> float:
    """The w of the grid for which w a + (1 - w) b, probabilities of what is true, have the least log loss."""
    mixed = _GRID[:, None] * a + (1 - _GRID[:, None]) * b
    return float(_GRID[(rows * mixed.clamp(min=1e-6).log()).mean(1).argmax()])
