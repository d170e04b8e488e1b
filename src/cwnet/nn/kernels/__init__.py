"""Fused kernels, each with a plain twin: Triton for GPUs, C++ for training on a CPU. Loaded when first needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cwnet import _torch

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
    "differentiable_once",
    "gather_padded",
    "gather_sum",
    "graph_layer",
    "isomorphism_layer",
    "multiplies_in_bf16",
    "multiplying_in_bf16",
    "obstacle",
    "other_way",
    "pool",
    "spread",
    "threads",
    "torch_on_one_thread",
    "traced",
    "usable",
    "usable_on_cpu",
    "whole",
]

MAX_DIMS, MAX_WIDTH = 4, 512  #: the largest layer that `isomorphism_layer` and `graph_layer` take.

ADAM_BLOCK = 1024  #: numbers that a program of `adam_step` updates.

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def obstacle() -> str | None:
    """What keeps the kernels for GPUs from being taken at all; None where nothing does."""
    if os.environ.get("CWNET_KERNELS", "1") == "0":
        return "the kernels for GPUs are turned off: CWNET_KERNELS is 0 in the environment"
    return _torch.NO_KERNELS


def usable(x: Tensor) -> bool:
    """Whether the kernels can take this tensor: on a GPU, in 32 or 16 bits, where there is no `obstacle`.

    CWNET_KERNELS=0 turns them off. CWNET_KERNELS=interpret takes them on the CPU through Triton's interpreter, which
    is slow and for tests.
    """
    if x.dtype not in _DTYPES or not (x.is_cuda or os.environ.get("CWNET_KERNELS") == "interpret"):
        return False
    return obstacle() is None


def traced() -> bool:
    """Whether PyTorch looks at what is called instead of calling it: in torch.compile, torch.export and torch.func.

    Kernels read addresses, which tensors that are traced do not have.
    """
    return torch.compiler.is_compiling() or _transformed()


def _transformed() -> bool:
    return torch._C._are_functorch_transforms_active()


def other_way() -> Any:
    """The module to take the sums of message passing from while PyTorch traces; None while it does not."""
    if torch.compiler.is_compiling():
        from cwnet.nn import _operators

        return _operators
    if _transformed():
        from cwnet.nn import _plain

        return _plain
    return None


def whole() -> bool:
    """Whether whole layers can be launched. torch.compile stops for them; torch.export and torch.func can not."""
    return not (_torch.exporting() or _transformed())


def usable_on_cpu(x: Tensor, as_operator: bool = False) -> bool:
    """Whether the C++ kernels can take this tensor; CWNET_KERNELS=0 turns them off too.

    While PyTorch traces, only those can that are operators.
    """
    if _transformed() or (torch.compiler.is_compiling() and not as_operator):
        return False
    return x.dtype == torch.float32 and x.device.type == "cpu" and os.environ.get("CWNET_KERNELS", "1") != "0"


def differentiable_once(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse to give a gradient that is to be differentiated in its turn. For the backward pass of a whole layer."""

    @wraps(backward)
    def checked(ctx: Any, *grads: Any) -> Any:
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "create_graph=True asks for a gradient of the gradient, which fused layers do not have: "
                "set CWNET_KERNELS=0 in the environment to compute it without them"
            )
        return backward(ctx, *grads)

    return checked


_threads: ContextVar[int | None] = ContextVar("_threads", default=None)


def threads() -> int:
    """How many threads the C++ kernels use: as many as PyTorch, or as it did before `torch_on_one_thread`."""
    return _threads.get() or torch.get_num_threads()


@contextmanager
def torch_on_one_thread() -> Iterator[None]:
    """Leave all threads but one to the C++ kernels.

    PyTorch's own wait for each other by spinning. Where most of the work is in the kernels, they would only stand in
    the way, and where another process takes a core, every small operation would wait for a thread that has none.
    """
    count = torch.get_num_threads()
    before = _threads.set(threads())
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(count)
        _threads.reset(before)


_bf16: ContextVar[bool] = ContextVar("_bf16", default=False)


@contextmanager
def multiplying_in_bf16() -> Iterator[None]:
    """Round the factors of products to bf16 in the C++ kernels, and add up in float32."""
    before = _bf16.set(True)
    try:
        yield
    finally:
        _bf16.reset(before)


def multiplies_in_bf16() -> bool:
    """Whether they do."""
    return _bf16.get()


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


def _layers(name: str = "_layer") -> Any:
    """The module of this name, or the one whose launches torch.compile leaves alone."""
    if torch.compiler.is_compiling():
        from cwnet.nn.kernels import _untraced

        return _untraced
    from cwnet.nn.kernels import _layer, _pool

    return _layer if name == "_layer" else _pool


def isomorphism_layer(x: Sequence[Tensor], *arguments: Any) -> list[Tensor]:
    """A whole layer of `cwnet.nn.CINConv` under a norm, with its gradients; see `_layer`."""
    return _layers().isomorphism_layer(x, *arguments)  # type: ignore[no-any-return]


def graph_layer(x: Tensor, edges: Tensor | None, **arguments: Any) -> Tensor:
    """A whole layer of `cwnet.nn.GINConv` or, with edges, `GINEConv` under a norm, with its gradients; see `_layer`."""
    return _layers().graph_layer(x, edges, **arguments)  # type: ignore[no-any-return]


def perceptron(x: Tensor, **arguments: Any) -> Tensor:
    """The whole of a `cwnet.nn.MLP` under a norm, with its gradients; see `_layer`."""
    return _layers().perceptron(x, **arguments)  # type: ignore[no-any-return]


def pool(x: Sequence[Tensor], ptrs: Sequence[Tensor], total: bool, mean: bool) -> Tensor:
    """Sums over segments, means, or both side by side, of several dimensions at once; see `_pool`."""
    return _layers("_pool").pool(x, ptrs, total, mean)  # type: ignore[no-any-return]


def gather_padded(*arguments: Tensor, **arrays: Tensor) -> None:
    """Fill the arrays of a padded batch with the complexes of the next step; see `_padded`."""
    from cwnet.nn.kernels import _padded

    _padded.gather_padded(*arguments, **arrays)


def adam_step(*arguments: Any) -> None:
    """A step of Adam for all parameters at once; see `_adam`."""
    from cwnet.nn.kernels import _adam

    _adam.adam_step(*arguments)
