"""Fused kernels, each with a plain twin: Triton for GPUs, C++ for training on a CPU. Loaded when first needed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cwnet.complexes import Csr, Incidence

__all__ = [
    "ADAM_BLOCK",
    "MAX_DIMS",
    "MAX_WIDTH",
    "adam_step",
    "adjacent_sum",
    "adjacent_sum_backward",
    "attention",
    "attention_backward",
    "compile_only",
    "gather_padded",
    "gather_sum",
    "graph_layer",
    "isomorphism_layer",
    "pool",
    "spread",
    "usable",
    "usable_on_cpu",
]

MAX_DIMS, MAX_WIDTH = 4, 512  #: the largest layer that `isomorphism_layer` and `graph_layer` take.

ADAM_BLOCK = 1024  #: numbers that a program of `adam_step` updates.

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@cache
def _installed() -> bool:
    return find_spec("triton") is not None


def usable(x: Tensor) -> bool:
    """Whether the kernels can take this tensor: on a GPU, in 32 or 16 bits, with Triton there.

    CWNET_KERNELS=0 turns them off. CWNET_KERNELS=interpret takes them on the CPU through Triton's interpreter, which
    is slow and for tests.
    """
    wish = os.environ.get("CWNET_KERNELS", "1")
    if wish == "0" or x.dtype not in _DTYPES or not _installed():
        return False
    return x.is_cuda or wish == "interpret"


def usable_on_cpu(x: Tensor) -> bool:
    """Whether the C++ kernels can take this tensor; CWNET_KERNELS=0 turns them off too."""
    return x.dtype == torch.float32 and x.device.type == "cpu" and os.environ.get("CWNET_KERNELS", "1") != "0"


@contextmanager
def compile_only() -> Iterator[None]:
    """Compile the kernels that are launched here, side by side, and run none of them.

    What they would have written holds anything, so nothing may be indexed by it. With the interpreter they run.
    """
    try:
        from triton.runtime._async_compile import AsyncCompileMode, active_mode
        from triton.runtime.jit import JITFunction
    except ImportError:  # an older Triton: they are compiled one by one, when they are launched in earnest
        yield
        return
    run = JITFunction.run
    with ThreadPoolExecutor(os.cpu_count()) as threads, AsyncCompileMode(threads) as mode:

        def compile_it(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
            outer = active_mode.set(mode)  # gradients are computed in another thread, which has a mode of its own
            try:
                return run(self, *args, grid=grid, warmup=True, **options)
            finally:
                active_mode.reset(outer)

        JITFunction.run = compile_it
        try:
            yield
        finally:
            JITFunction.run = run


def gather_sum(x: Tensor, rows: Csr) -> Tensor:
    """Σ of x over the entries of each row."""
    from cwnet.nn.kernels import _sums

    return _sums.gather_sum(x, rows)


def spread(x: Tensor, ptr: Tensor, size: int) -> Tensor:
    """The gradient of sums over consecutive rows: each segment's row of x in all of its rows."""
    from cwnet.nn.kernels import _sums

    return _sums.spread(x, ptr, size)


def adjacent_sum(x: Tensor, shared: Tensor, incidence: Incidence, act: str) -> Tensor:
    """The forward pass of `cwnet.nn.functional.adjacent_sum`."""
    from cwnet.nn.kernels import _sums

    return _sums.adjacent_sum(x, shared, incidence, act)


def adjacent_sum_backward(
    grad: Tensor, x: Tensor, shared: Tensor, incidence: Incidence, act: str
) -> tuple[Tensor, Tensor]:
    """Its gradients with respect to `x` and `shared`."""
    from cwnet.nn.kernels import _sums

    return _sums.adjacent_sum_backward(grad, x, shared, incidence, act)


def attention(q: Tensor, k: Tensor, v: Tensor, incidence: Incidence, heads: int) -> tuple[Tensor, Tensor]:
    """The forward pass of `cwnet.nn.functional.incidence_attention`, and what its backward pass needs."""
    from cwnet.nn.kernels import _attention

    return _attention.attention(q, k, v, incidence, heads)


def attention_backward(grad: Tensor, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Its gradients with respect to `q`, `k` and `v`."""
    from cwnet.nn.kernels import _attention

    return _attention.attention_backward(grad, *arguments)


def isomorphism_layer(x: Sequence[Tensor], *arguments: Any) -> list[Tensor]:
    """A whole layer of `cwnet.nn.CINConv` under a norm, with its gradients; see `_layer`."""
    from cwnet.nn.kernels import _layer

    return _layer.isomorphism_layer(x, *arguments)


def graph_layer(x: Tensor, edges: Tensor | None, **arguments: Any) -> Tensor:
    """A whole layer of `cwnet.nn.GINConv` or, with edges, `GINEConv` under a norm, with its gradients; see `_layer`."""
    from cwnet.nn.kernels import _layer

    return _layer.graph_layer(x, edges, **arguments)


def perceptron(x: Tensor, **arguments: Any) -> Tensor:
    """The whole of a `cwnet.nn.MLP` under a norm, with its gradients; see `_layer`."""
    from cwnet.nn.kernels import _layer

    return _layer.perceptron(x, **arguments)


def pool(x: Sequence[Tensor], ptrs: Sequence[Tensor], total: bool, mean: bool) -> Tensor:
    """Sums over segments, means, or both side by side, of several dimensions at once; see `_pool`."""
    from cwnet.nn.kernels import _pool

    return _pool.pool(x, ptrs, total, mean)


def gather_padded(*arguments: Tensor, **arrays: Tensor) -> None:
    """Fill the arrays of a padded batch with the complexes of the next step; see `_padded`."""
    from cwnet.nn.kernels import _padded

    _padded.gather_padded(*arguments, **arrays)


def adam_step(*arguments: Any) -> None:
    """A step of Adam for all parameters at once; see `_adam`."""
    from cwnet.nn.kernels import _adam

    _adam.adam_step(*arguments)
