"""Losses of networks that say how sure they are: several outputs for every target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["HEAD_LOSSES", "TAUS", "HeadLoss", "heads_of"]

#: What the three outputs of the pinball loss are quantiles of: the prediction itself, then the lower and the upper end.
TAUS = (0.5, 0.05, 0.95)
#: The least variance that a network can claim, in squared units of its targets.
_LEAST = 1e-6


@dataclass(frozen=True)
class HeadLoss:
    """A loss that takes several outputs for every target: the predictions of all targets, then the others in turn.

    Attributes:
        name: as recipes call it.
        heads: outputs for every target.
        each: from outputs, [rows, heads, targets], and targets, [rows, targets], to the loss of every target.
        margins: from outputs to how far below and above its prediction each target is expected, [rows, targets] both.
    """

    name: str
    heads: int
    each: Callable[[Tensor, Tensor], Tensor]
    margins: Callable[[Tensor], tuple[Tensor, Tensor]]

    def parted(self, prediction: Tensor) -> Tensor:
        """Outputs of a network, [rows, heads * targets], as [rows, heads, targets]."""
        return prediction.reshape(len(prediction), self.heads, prediction.shape[1] // self.heads)

    def terms(self, prediction: Tensor, target: Tensor, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The sum of the losses, and how many there are, or how much they weigh where `weight` says it of each target.

        A target that is NaN has no part in either.
        """
        outputs = self.parted(prediction)
        target = target.to(outputs.dtype).reshape(outputs.shape[0], outputs.shape[2])
        there = target == target
        # Both sides are replaced, not the result: the gradient of 0 * NaN would be NaN.
        each = self.each(torch.where(there[:, None], outputs, 0.0), torch.where(there, target, 0.0))
        weigh = there if weight is None else torch.where(there, weight.to(outputs.dtype), 0.0)
        return (each * weigh).sum(), weigh.sum(dtype=outputs.dtype)


def _pinball(outputs: Tensor, y: Tensor) -> Tensor:
    """2 Σ_τ max(τ (y - q_τ), (τ - 1) (y - q_τ)): of the median this is the absolute error (Koenker & Bassett, 1978)."""
    off = y[:, None] - outputs
    each = [torch.maximum(tau * off[:, i], (tau - 1) * off[:, i]) for i, tau in enumerate(TAUS)]
    return 2 * torch.stack(each).sum(0)


def _to_quantiles(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """From the median to the lower and upper quantile; none where these have crossed it."""
    middle, low, high = outputs.unbind(1)
    return (middle - low).clamp(min=0), (high - middle).clamp(min=0)


def _gaussian(outputs: Tensor, y: Tensor) -> Tensor:
    """(log σ² + (y - μ)² / σ²) / 2, the negative log-likelihood but for a constant (Nix & Weigend, 1994)."""
    mean = outputs[:, 0]
    variance = _variance(outputs)
    return (variance.log() + (y - mean).square() / variance) / 2


def _variance(outputs: Tensor) -> Tensor:
    return F.softplus(outputs[:, 1]) + _LEAST


def _deviations(outputs: Tensor) -> tuple[Tensor, Tensor]:
    deviation = _variance(outputs).sqrt()
    return deviation, deviation


HEAD_LOSSES = {
    loss.name: loss
    for loss in (
        HeadLoss("pinball", len(TAUS), _pinball, _to_quantiles),
        HeadLoss("gaussian", 2, _gaussian, _deviations),
    )
}


def heads_of(loss: object) -> int:
    """Outputs that a loss takes for every target."""
    return HEAD_LOSSES[loss].heads if isinstance(loss, str) and loss in HEAD_LOSSES else 1
