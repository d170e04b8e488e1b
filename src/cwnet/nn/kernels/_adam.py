"""A step of Adam for all parameters at once. They are found through a table of addresses, in blocks of equal size."""

from __future__ import annotations

import math

import triton
import triton.language as tl
from torch import Tensor

from cwnet.nn.kernels import ADAM_BLOCK

__all__ = ["adam_step"]


def adam_step(
    table: Tensor,
    blocks: Tensor,
    lr: Tensor,
    step: Tensor,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
) -> None:
    """Take the step m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²,  p ← p − lr m̂ / (√v̂ + ε) with unbiased m̂ and v̂.

    Args:
        table: addresses of parameters, gradients, m and v, [4, tensors].
        blocks: the tensor of each block, where in it the block starts, and the size of the tensor, [blocks, 3].
        lr: learning rate, a scalar on the device.
        step: the number of this step, from 1 on, a scalar on the device.
        betas: β₁ and β₂.
        eps: ε.
        weight_decay: times p is added to g.
    """
    _adam_kernel[(blocks.shape[0],)](
        table, blocks, lr, step, table.shape[1],
        betas[0], betas[1], math.log(betas[0]), math.log(betas[1]), eps, weight_decay,
        BLOCK=ADAM_BLOCK, num_warps=4,
    )  # fmt: skip


@triton.jit  # type: ignore[untyped-decorator]
def _adam_kernel(
    table: tl.tensor,
    blocks: tl.tensor,
    lr: tl.tensor,
    step: tl.tensor,
    tensors: tl.tensor,
    beta1: tl.tensor,
    beta2: tl.tensor,
    log_beta1: tl.tensor,
    log_beta2: tl.tensor,
    eps: tl.tensor,
    weight_decay: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    tensor = tl.load(blocks + 3 * tl.program_id(0))
    at = tl.load(blocks + 3 * tl.program_id(0) + 1) + tl.arange(0, BLOCK)
    inside = at < tl.load(blocks + 3 * tl.program_id(0) + 2)
    p_at = tl.load(table + tensor).to(tl.pointer_type(tl.float32)) + at
    g_at = tl.load(table + tensors + tensor).to(tl.pointer_type(tl.float32)) + at
    m_at = tl.load(table + 2 * tensors + tensor).to(tl.pointer_type(tl.float32)) + at
    v_at = tl.load(table + 3 * tensors + tensor).to(tl.pointer_type(tl.float32)) + at
    p = tl.load(p_at, mask=inside, other=0.0)
    g = tl.load(g_at, mask=inside, other=0.0) + weight_decay * p
    m = tl.load(m_at, mask=inside, other=0.0)
    v = tl.load(v_at, mask=inside, other=0.0)
    m += (1 - beta1) * (g - m)
    v = beta2 * v + (1 - beta2) * g * g
    # 1 - β^t loses most of its digits in 32 bits while t is small.
    t = tl.load(step).to(tl.float64)
    bias1 = (1 - tl.exp(t * log_beta1)).to(tl.float32)
    bias2 = (1 - tl.exp(t * log_beta2)).to(tl.float32)
    p -= tl.load(lr) / bias1 * m / (tl.sqrt(v) / tl.sqrt(bias2) + eps)
    tl.store(p_at, p, mask=inside)
    tl.store(m_at, m, mask=inside)
    tl.store(v_at, v, mask=inside)
