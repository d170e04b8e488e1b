"""The C++ kernels for training on a CPU. Nothing here checks its arguments: the callers do.

They are in float32, run on as many threads as PyTorch, and sum in a fixed order, whatever the number of threads.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cwnet import _core
from cwnet.complexes import Csr, Incidence
from cwnet.nn.kernels import threads

__all__ = ["adjacent_sum", "adjacent_sum_backward", "norm_relu", "norm_relu_backward"]


def _rows(csr: Csr) -> tuple[int, int, int]:
    return csr.num_rows, csr.ptr.data_ptr(), csr.idx.data_ptr()


def adjacent_sum(x: Tensor, shared: Tensor, incidence: Incidence) -> Tensor:
    """Σ_{δ ∈ up(σ)} ( S(δ) − m(σ, δ) ) with m(τ, δ) = relu(x_τ + shared_δ) and S(δ) = Σ_{τ ∈ down(δ)} m(τ, δ)."""
    x, shared = x.contiguous(), shared.contiguous()
    total, out = torch.empty_like(shared), torch.empty_like(x)
    _core.adjacent_sum(
        _rows(incidence.down), _rows(incidence.up), x.data_ptr(), shared.data_ptr(), x.shape[1],
        total.data_ptr(), out.data_ptr(), threads(),
    )  # fmt: skip
    return out


def adjacent_sum_backward(grad: Tensor, x: Tensor, shared: Tensor, incidence: Incidence) -> tuple[Tensor, Tensor]:
    """The gradients of `x` and `shared`, given that of the result."""
    grad, x, shared = grad.contiguous(), x.contiguous(), shared.contiguous()
    total, grad_x, grad_shared = torch.empty_like(shared), torch.empty_like(x), torch.empty_like(shared)
    _core.adjacent_sum_backward(
        _rows(incidence.down), _rows(incidence.up), grad.data_ptr(), x.data_ptr(), shared.data_ptr(), x.shape[1],
        total.data_ptr(), grad_x.data_ptr(), grad_shared.data_ptr(), threads(),
    )  # fmt: skip
    return grad_x, grad_shared


def norm_relu(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """relu(γ (x − μ) / √(σ² + ε) + β), and μ, σ² and 1 / √(σ² + ε) of every column. `x` is contiguous."""
    rows, width = x.shape
    out = torch.empty_like(x)
    mean, var, rstd = x.new_empty(3, width).unbind(0)
    _core.norm_relu(
        rows, width, gamma.data_ptr(), beta.data_ptr(), eps, x.data_ptr(), out.data_ptr(),
        mean.data_ptr(), var.data_ptr(), rstd.data_ptr(), threads(),
    )  # fmt: skip
    return out, mean, var, rstd


def norm_relu_backward(
    grad: Tensor, x: Tensor, out: Tensor, gamma: Tensor, mean: Tensor, rstd: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, γ and β."""
    grad = grad.contiguous()
    rows, width = x.shape
    grad_x = torch.empty_like(x)
    grad_gamma, grad_beta = x.new_empty(2, width).unbind(0)
    _core.norm_relu_backward(
        rows, width, gamma.data_ptr(), grad.data_ptr(), x.data_ptr(), out.data_ptr(), mean.data_ptr(), rstd.data_ptr(),
        grad_x.data_ptr(), grad_gamma.data_ptr(), grad_beta.data_ptr(), threads(),
    )  # fmt: skip
    return grad_x, grad_gamma, grad_beta
