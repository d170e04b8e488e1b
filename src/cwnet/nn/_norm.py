"""Normalisation of the features of cells."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from cwnet.nn._module import Module

__all__ = ["BatchNorm", "Identity", "LayerNorm", "make_norm"]


class BatchNorm(Module):
    r"""Batch normalisation that is right on padded and on tiny batches.

        y = γ (x − μ) / √(σ² + ε) + β

    In training, μ and σ² are taken over the rows that `mask` keeps. Fewer than two such rows have no variance: they are
    normalised with the running averages, which then stay as they are.

    Args:
        width: number of features.
        eps: ε.
        momentum: weight of the newest batch in the running averages.

    Shapes:
        x [cells, width], mask [cells] of bool or None → [cells, width].
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, width: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.bias = torch.nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def reset_parameters(self) -> None:
        """Start anew."""
        torch.nn.init.ones_(self.weight)
        torch.nn.init.zeros_(self.bias)
        self.running_mean.zero_()
        self.running_var.fill_(1)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if not self.training or (mask is None and x.shape[0] < 2):
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        if mask is None:
            return F.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias, True, self.momentum, self.eps
            )
        if mask.shape != x.shape[:1]:
            raise ValueError(f"a mask of shape {tuple(mask.shape)} for {x.shape[0]} cells: it must be [{x.shape[0]}]")
        return self._masked(x, mask.bool()[:, None])

    def _masked(self, x: Tensor, keep: Tensor) -> Tensor:
        # The number of rows lies on the device: no branch on it, but a weight between batch and running averages. Sums
        # are taken in the precision of the weights; what is masked out has no part in them, even if it is NaN.
        wide = torch.where(keep, x, 0).to(self.weight.dtype)
        count = keep.sum().to(wide.dtype)
        enough = (count > 1).to(wide.dtype)
        safe = count.clamp(min=1)
        mean = wide.sum(0) / safe
        var = torch.where(keep, wide - mean, 0).square().sum(0) / safe
        with torch.no_grad():
            step = self.momentum * enough
            self.running_mean += step * (mean.detach() - self.running_mean)
            unbiased = var.detach() * (count / (count - 1).clamp(min=1))
            self.running_var += step * (unbiased - self.running_var)
        mean = enough * mean + (1 - enough) * self.running_mean
        var = enough * var + (1 - enough) * self.running_var
        out = (x.to(wide.dtype) - mean) * torch.rsqrt(var + self.eps) * self.weight + self.bias
        return out.to(x.dtype)

    def extra_repr(self) -> str:
        return str(self.weight.numel())


class LayerNorm(Module):
    """Layer normalisation: over the features of each cell by itself."""

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width, eps=eps)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        out: Tensor = self.norm(x)
        return out


class Identity(Module):
    """No normalisation."""

    def __init__(self, width: int = 0) -> None:
        super().__init__()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return x


_NORMS: dict[str, type[Module]] = {"batch": BatchNorm, "layer": LayerNorm, "none": Identity}


def make_norm(name: str, width: int) -> Module:
    """A normalisation by name: "batch", "layer" or "none"."""
    if name not in _NORMS:
        raise ValueError(f"unknown normalisation {name!r}: choose from {', '.join(_NORMS)}")
    return _NORMS[name](width)
