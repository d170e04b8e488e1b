"""Normalisation of the features of cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from cwnet.nn import kernels
from cwnet.nn._module import Module
from cwnet.nn.functional import gradients_to_differentiate
from cwnet.nn.kernels import _cpu

__all__ = ["BatchNorm", "Identity", "LayerNorm", "NormName", "make_norm"]

#: What `make_norm` knows.
NormName = Literal["batch", "robust", "capped", "layer", "none"]


class BatchNorm(Module):
    r"""Batch normalisation that is right on padded and on tiny batches, and over several processes.

        y = γ (x − μ) / √(σ² + ε) + β

    In training, μ and σ² are taken over the rows that `mask` keeps, of all processes where `torch.distributed` has
    several. Fewer than two such rows have no variance: they are normalised with the running averages, which then stay
    as they are.

    A bias that the layer before would add cancels in training: its gradient is zero, and what rounding makes of it
    would only send Adam on a walk. So it is given here instead: it is added where running averages are used and enters
    them, and in training it gets no gradient.

    With a `limit`, no single batch can move the running averages far: neither the mean, in standard deviations, nor the
    logarithm of the variance goes further than momentum times limit. A molecule with a cage of nested rings can have
    features a hundred times larger than usual, and the variance of its batch then spoils plain averages for dozens of
    batches. If an epoch ends with one of those, everything is predicted badly. The price is that averages follow later
    where weights change fast: at high learning rates a few epochs are evaluated badly for that reason.

    With a `cap`, y is kept between -cap and cap. A rare cell is bounded in training, by the variance that it adds to
    its own batch, but not under running averages, which have forgotten it: it is then predicted absurdly. The cap
    bounds both.

    Args:
        width: number of features.
        eps: ε.
        momentum: weight of the newest batch in the running averages.
        limit: how far a batch may be from the running averages and still count in full; None for plain averages.
        cap: largest value that comes out, of either sign; None for any.

    Shapes:
        x [cells, width], mask [cells] of bool or None, bias [width] or None → [cells, width]; with `relu`, ReLU of it.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self,
        width: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        limit: float | None = None,
        cap: float | None = None,
    ) -> None:
        super().__init__()
        self.eps, self.momentum, self.limit, self.cap = eps, momentum, limit, cap
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

    def forward(self, x: Tensor, mask: Tensor | None = None, bias: Tensor | None = None, relu: bool = False) -> Tensor:
        whole = self.training and mask is None and processes() == 1 and x.shape[0] > 1
        if relu and whole and kernels.usable_on_cpu(x, as_operator=True):
            return self._capped(self._with_relu(x.contiguous(), bias))
        out = self._capped(self._normalised(x, mask, bias))
        return out.relu_() if relu else out  # no one else has seen it

    def _capped(self, y: Tensor) -> Tensor:
        return y if self.cap is None else y.clamp(-self.cap, self.cap)

    def _with_relu(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """Norm and ReLU in one pass."""
        if torch.compiler.is_compiling():
            from cwnet.nn import _operators

            out, mean, var = _operators.norm_relu(x, self.weight, self.bias, self.eps)
        else:
            out, mean, var = _NormRelu.apply(x, self.weight, self.bias, self.eps)  # type: ignore[no-untyped-call]
        self._follow(mean if bias is None else mean + bias, var * (x.shape[0] / (x.shape[0] - 1)))
        return out

    def _normalised(self, x: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
        if not self.training:
            return self._with_running(x if bias is None else x + bias)
        if mask is not None and mask.shape != x.shape[:1]:
            raise ValueError(f"a mask of shape {tuple(mask.shape)} for {x.shape[0]} cells: it must be [{x.shape[0]}]")
        bias = None if bias is None else bias.detach()
        if mask is not None or processes() > 1:
            return self._masked(x, None if mask is None else mask.bool()[:, None], bias)
        if x.shape[0] < 2:
            return self._with_running(x if bias is None else x + bias)
        if self.limit is not None:
            var, mean = torch.var_mean(x.detach().to(self.weight.dtype), dim=0)
            self._follow(mean if bias is None else mean + bias, var)
            return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)
        out = F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, True, self.momentum, self.eps
        )
        if bias is not None:
            # The backward pass holds on to the running mean, but does not read it.
            self.running_mean.data.add_(bias, alpha=self.momentum)
        return out

    def _with_running(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)

    def _masked(self, x: Tensor, keep: Tensor | None, bias: Tensor | None) -> Tensor:
        # The number of rows lies on the device: no branch on it, but a weight between batch and running averages. Sums
        # are taken in the precision of the weights; what is masked out has no part in them, even if it is NaN.
        count, mean, var = self._statistics(x, keep)
        enough = (count > 1).to(mean.dtype)
        shift = torch.zeros_like(self.running_mean) if bias is None else bias
        self._follow(mean + shift, var * (count / (count - 1).clamp(min=1)), enough)
        mean = enough * mean + (1 - enough) * (self.running_mean - shift)
        var = enough * var + (1 - enough) * self.running_var
        out = (x.to(mean.dtype) - mean) * torch.rsqrt(var + self.eps) * self.weight + self.bias
        return out.to(x.dtype)

    @torch.no_grad()
    def _follow(self, mean: Tensor, var: Tensor, enough: Tensor | float = 1.0) -> None:
        """Move the running averages towards those of a batch, if it has rows enough."""
        step = self.momentum * enough
        if self.limit is not None:
            wide = self.running_var + self.eps
            away = ((mean - self.running_mean) * wide.rsqrt()).clamp(-self.limit, self.limit)
            wider = ((var + self.eps) / wide).log().clamp(-self.limit, self.limit)
            self.running_mean += step * away * wide.sqrt()
            self.running_var += wide * torch.expm1(step * wider)
        else:
            self.running_mean.lerp_(mean, step)
            self.running_var.lerp_(var, step)

    def _statistics(self, x: Tensor, keep: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """The number of rows to keep, their mean and their variance, over all processes."""
        wide = x.to(self.weight.dtype) if keep is None else torch.where(keep, x, 0).to(self.weight.dtype)
        count = wide.new_full((), x.shape[0]) if keep is None else keep.sum().to(wide.dtype)
        mean = wide.sum(0) / count.clamp(min=1)
        away = wide - mean if keep is None else torch.where(keep, wide - mean, 0)
        spread = away.square().sum(0)
        if processes() > 1:
            count, mean, spread = _over_processes(count, mean, spread)
        return count, mean, spread / count.clamp(min=1)

    def extra_repr(self) -> str:
        return str(self.weight.numel())


class _NormRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        out, mean, var, rstd = _cpu.norm_relu(x, weight, bias, eps)
        ctx.save_for_backward(x, out, weight, bias, mean, rstd)
        ctx.mark_non_differentiable(mean, var)
        ctx.eps = eps
        return out, mean, var

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, out, weight, bias, mean, rstd = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated in its turn

            def plain(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
                return F.batch_norm(x, None, None, weight, bias, True, 0.0, ctx.eps).relu()

            return *gradients_to_differentiate(plain, (x, weight, bias), grad), None
        return *_cpu.norm_relu_backward(grad, x, out, weight, mean, rstd), None


def processes() -> int:
    """How many processes share a batch."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def _over_processes(count: Tensor, mean: Tensor, spread: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Count, mean and sum of squares about the mean of all rows, from those of each process (Chan et al., 1979).

    Every process writes its own row of a table, and the tables are added up: one message each way.
    """
    table = torch.zeros(dist.get_world_size(), 2 * mean.numel() + 1, dtype=mean.dtype, device=mean.device)
    table[dist.get_rank()] = torch.cat([count[None], mean, spread])
    summed: Tensor = _Sum.apply(table)  # type: ignore[no-untyped-call]
    counts, means, spreads = torch.split(summed, [1, mean.numel(), mean.numel()], dim=1)
    total = counts.sum().detach()
    joint = (counts * means).sum(0) / total.clamp(min=1)
    return total, joint, (spreads + counts * (means - joint).square()).sum(0)


class _Sum(torch.autograd.Function):
    """The sum over all processes; its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        grad = grad.contiguous().clone()
        dist.all_reduce(grad)
        return grad


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


_NORMS: dict[NormName, Callable[[int], Module]] = {
    "batch": BatchNorm,
    "robust": lambda width: BatchNorm(width, limit=0.3),
    "capped": lambda width: BatchNorm(width, limit=0.3, cap=6.0),
    "layer": LayerNorm,
    "none": Identity,
}


def make_norm(name: NormName | str, width: int) -> Module:
    """A normalisation by name: "batch", "robust" (with a limit), "capped" (and a cap), "layer" or "none"."""
    if name not in _NORMS:
        raise ValueError(f"unknown normalisation {name!r}: choose from {', '.join(_NORMS)}")
    return _NORMS[name](width)
