"""Attention over incidences as Triton kernels. Nothing here checks its arguments: the callers do.

A program owns a tile of rows and one head. It walks the entries of its rows side by side, with a softmax that is
corrected as it goes along, and adds in float32. With the logarithm of a row's sum of exponentials at hand, a weight can
be computed from either side: the gradients of queries are sums over the rows of `down`, those of keys and values over
the rows of `up`. There are no atomics, so results are the same bits in every run.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from cwnet.complexes import Csr, Incidence
from cwnet.nn.kernels._sums import NARROWEST, THREAD_BYTES
from cwnet.nn.kernels._tiles import WARPS

__all__ = ["attention", "attention_backward"]


def attention(q: Tensor, k: Tensor, v: Tensor, incidence: Incidence, heads: int) -> tuple[Tensor, Tensor]:
    """Σ_{τ ∈ row σ} α_στ v_τ, and log Σ_τ exp(q_σ · k_τ / √w) for every σ and head."""
    out, norm = torch.empty_like(q, memory_format=torch.contiguous_format), _per_head(q, heads)
    _launch(_attention_kernel, incidence.down, heads, q, k, v, out=(out, norm))
    return out, norm


def attention_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, norm: Tensor, incidence: Incidence, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v, given the gradient G of the result.

    With s_στ = q_σ · k_τ / √w and D_σ = Σ_τ α_στ G_σ · v_τ, the gradient of s_στ is α_στ (G_σ · v_τ − D_σ).
    """
    of_q, of_k, of_v = (torch.empty_like(t, memory_format=torch.contiguous_format) for t in (q, k, v))
    mean = torch.empty_like(norm)  # D
    _launch(_query_gradient_kernel, incidence.down, heads, grad, q, k, v, norm, out=(of_q, mean))
    _launch(_key_gradient_kernel, incidence.up, heads, grad, q, k, v, norm, mean, out=(of_k, of_v))
    return of_q, of_k, of_v


def _per_head(x: Tensor, heads: int) -> Tensor:
    return torch.empty(x.shape[0], heads, dtype=torch.float32, device=x.device)


def _launch(kernel: Any, rows: Csr, heads: int, *inputs: Tensor, out: tuple[Tensor, ...]) -> None:
    """Run a kernel over rows and heads. Tile sizes follow from shapes alone: nothing waits for the GPU."""
    num_rows, width = out[0].shape[0], out[0].shape[1] // heads
    if not num_rows or not width:
        return
    columns = max(triton.next_power_of_2(width), NARROWEST)
    tile_rows = max(32 * WARPS * THREAD_BYTES // (columns * 4), 1)
    with torch.cuda.device_of(out[0]):  # type: ignore[no-untyped-call]  # Triton launches on the current device
        kernel[(triton.cdiv(num_rows, tile_rows), heads)](
            *[t.contiguous() for t in inputs], rows.ptr, rows.idx, *out, num_rows, width, 1 / math.sqrt(width),
            ROWS=tile_rows, COLUMNS=columns, num_warps=WARPS,
        )  # fmt: skip


_jit = triton.jit(do_not_specialize=["num_rows"], do_not_specialize_on_alignment=["ptr", "idx"])


@_jit  # type: ignore[untyped-decorator]
def _attention_kernel(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    ptr: tl.tensor,
    idx: tl.tensor,
    out: tl.tensor,
    norm: tl.tensor,
    num_rows: tl.tensor,
    width: tl.tensor,
    scale: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """out_σ = Σ_τ α_στ v_τ and norm_σ = log Σ_τ exp(s_στ), over τ ∈ down(σ)."""
    row, start, size, here = _tile(ptr, num_rows, width, ROWS, COLUMNS)
    query = _read(q, row, width, COLUMNS, here) * scale
    largest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    value = tl.zeros([ROWS, COLUMNS], tl.float32)
    for j in range(0, tl.max(size)):
        cell, live = _entry(idx, start, size, j, here)
        score = tl.sum(query * _read(k, cell, width, COLUMNS, live), 1)
        score = tl.where(j < size, score, float("-inf"))
        larger = tl.maximum(largest, score)
        base = tl.where(larger == float("-inf"), 0.0, larger)  # of rows without entries
        shrink, weight = tl.exp(largest - base), tl.exp(score - base)
        total = total * shrink + weight
        value = value * shrink[:, None] + weight[:, None] * _read(v, cell, width, COLUMNS, live)
        largest = larger
    none = size == 0
    _write(out, row, width, COLUMNS, value / tl.where(none, 1.0, total)[:, None], here)
    logarithm = tl.where(none, 0.0, largest + tl.log(tl.where(none, 1.0, total)))
    tl.store(norm + row * tl.num_programs(1) + tl.program_id(1), logarithm, mask=row < num_rows)


@_jit  # type: ignore[untyped-decorator]
def _query_gradient_kernel(
    grad: tl.tensor,
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    norm: tl.tensor,
    ptr: tl.tensor,
    idx: tl.tensor,
    of_q: tl.tensor,
    mean: tl.tensor,
    num_rows: tl.tensor,
    width: tl.tensor,
    scale: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """D_σ = Σ_τ α_στ G_σ · v_τ and of_q_σ = Σ_τ α_στ (G_σ · v_τ) k_τ / √w − D_σ Σ_τ α_στ k_τ / √w, over τ ∈ down(σ)."""
    row, start, size, here = _tile(ptr, num_rows, width, ROWS, COLUMNS)
    at = row * tl.num_programs(1) + tl.program_id(1)
    query, own = _read(q, row, width, COLUMNS, here) * scale, _read(grad, row, width, COLUMNS, here)
    of_all = tl.load(norm + at, mask=row < num_rows, other=0.0)
    usual = tl.zeros([ROWS], tl.float32)
    keys = tl.zeros([ROWS, COLUMNS], tl.float32)
    value = tl.zeros([ROWS, COLUMNS], tl.float32)
    for j in range(0, tl.max(size)):
        cell, live = _entry(idx, start, size, j, here)
        key = _read(k, cell, width, COLUMNS, live)
        weight = tl.where(j < size, tl.exp(tl.sum(query * key, 1) - of_all), 0.0)
        slope = tl.where(j < size, weight * tl.sum(own * _read(v, cell, width, COLUMNS, live), 1), 0.0)
        usual += slope
        keys += weight[:, None] * key
        value += slope[:, None] * key
    tl.store(mean + at, usual, mask=row < num_rows)
    _write(of_q, row, width, COLUMNS, (value - usual[:, None] * keys) * scale, here)


@_jit  # type: ignore[untyped-decorator]
def _key_gradient_kernel(
    grad: tl.tensor,
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    norm: tl.tensor,
    mean: tl.tensor,
    ptr: tl.tensor,
    idx: tl.tensor,
    of_k: tl.tensor,
    of_v: tl.tensor,
    num_rows: tl.tensor,
    width: tl.tensor,
    scale: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """of_v_τ = Σ_σ α_στ G_σ and of_k_τ = Σ_σ α_στ (G_σ · v_τ − D_σ) q_σ / √w, over σ ∈ up(τ)."""
    row, start, size, here = _tile(ptr, num_rows, width, ROWS, COLUMNS)
    key, value = _read(k, row, width, COLUMNS, here) * scale, _read(v, row, width, COLUMNS, here)
    to_key = tl.zeros([ROWS, COLUMNS], tl.float32)
    to_value = tl.zeros([ROWS, COLUMNS], tl.float32)
    for j in range(0, tl.max(size)):
        cell, live = _entry(idx, start, size, j, here)
        at = cell * tl.num_programs(1) + tl.program_id(1)
        of_all = tl.load(norm + at, mask=j < size, other=0.0)
        usual = tl.load(mean + at, mask=j < size, other=0.0)
        query, own = _read(q, cell, width, COLUMNS, live), _read(grad, cell, width, COLUMNS, live)
        weight = tl.where(j < size, tl.exp(tl.sum(query * key, 1) - of_all), 0.0)
        slope = weight * (tl.sum(own * value, 1) - usual)
        to_key += tl.where(live, slope[:, None] * query, 0.0)
        to_value += tl.where(live, weight[:, None] * own, 0.0)
    _write(of_k, row, width, COLUMNS, to_key * scale, here)
    _write(of_v, row, width, COLUMNS, to_value, here)


# ----------------------------------------------------------------------------------------- what the kernels are made of


@triton.jit  # type: ignore[untyped-decorator]
def _tile(ptr: tl.tensor, num_rows: tl.tensor, width: tl.tensor, ROWS: tl.constexpr, COLUMNS: tl.constexpr) -> tl.tuple:
    """The rows of this program, where they start in idx, their sizes, and the mask of its tile."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    start = tl.load(ptr + row, mask=row < num_rows, other=0)
    stop = tl.load(ptr + row + 1, mask=row < num_rows, other=0)
    here = (row < num_rows)[:, None] & (tl.arange(0, COLUMNS) < width)[None, :]
    return row, start, (stop - start).to(tl.int32), here


@triton.jit  # type: ignore[untyped-decorator]
def _entry(idx: tl.tensor, start: tl.tensor, size: tl.tensor, j: tl.tensor, here: tl.tensor) -> tl.tuple:
    """The cell that the j-th entry of every row names, and a mask without the rows that have no j-th."""
    place = start + j
    # The same as j < size, which is used elsewhere in another layout: Triton 3.6 would mix the two up.
    cell = tl.load(idx + place, mask=place < start + size, other=0).to(tl.int64)
    return cell, (j < size)[:, None] & here


@triton.jit  # type: ignore[untyped-decorator]
def _read(x: tl.tensor, cell: tl.tensor, width: tl.tensor, COLUMNS: tl.constexpr, mask: tl.tensor) -> tl.tensor:
    """The features of some cells in this program's head."""
    return tl.load(x + _at(cell, width, COLUMNS), mask=mask, other=0.0).to(tl.float32)


@triton.jit  # type: ignore[untyped-decorator]
def _write(
    x: tl.tensor, cell: tl.tensor, width: tl.tensor, COLUMNS: tl.constexpr, value: tl.tensor, mask: tl.tensor
) -> None:
    tl.store(x + _at(cell, width, COLUMNS), value, mask=mask)


@triton.jit  # type: ignore[untyped-decorator]
def _at(cell: tl.tensor, width: tl.tensor, COLUMNS: tl.constexpr) -> tl.tensor:
    head = tl.program_id(1) * width + tl.arange(0, COLUMNS)
    return cell[:, None] * (tl.num_programs(1) * width) + head[None, :]
