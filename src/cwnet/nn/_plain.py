"""The sums of message passing in PyTorch's own operations, which `torch.func` can transform in any way it knows.

They keep tensors of the size of the incidences and add with `index_add`, so they are neither lean nor, on a GPU, the
same from run to run: they are taken where nothing else works.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from cwnet.complexes import Incidence
from cwnet.nn import functional
from cwnet.nn.functional import plain_adjacent as adjacent_sum
from cwnet.nn.functional import plain_attention as incidence_attention

__all__ = [
    "adjacent_sum",
    "incidence_attention",
    "incidence_sum",
    "segment_softmax",
    "segment_spread",
    "segment_sum",
    "signed_sum",
]


def incidence_sum(x: Tensor, incidence: Incidence) -> Tensor:
    """Σ of x over the boundary of each upper cell."""
    rows = functional.expanded(incidence)
    return _added(x.index_select(0, rows.down.idx), rows.down_rows, rows.down.num_rows)


def signed_sum(x: Tensor, incidence: Any) -> Tensor:
    """Σ of [τ:σ] x_τ over the boundary of each upper cell σ."""
    signed = incidence.down_signs.to(x.dtype)[:, None] * x.index_select(0, incidence.down.idx)
    return _added(signed, incidence.down_rows, incidence.down.num_rows)


def segment_sum(x: Tensor, ptr: Tensor) -> Tensor:
    """Σ of x over consecutive rows."""
    return _added(x, functional.segment_of(ptr, x.shape[0]), ptr.numel())[:-1]


def segment_spread(x: Tensor, ptr: Tensor, size: int) -> Tensor:
    """x_i in each of the rows of segment i."""
    return F.pad(x, (0, 0, 0, 1)).index_select(0, functional.segment_of(ptr, size))


def segment_softmax(scores: Tensor, ptr: Tensor) -> Tensor:
    """Softmax over consecutive rows."""
    largest = segment_spread(functional.segment_max(scores.detach(), ptr), ptr, scores.shape[0])
    weights = (scores - largest).exp()
    return weights / segment_spread(segment_sum(weights, ptr), ptr, scores.shape[0])


def _added(x: Tensor, rows: Tensor, count: int) -> Tensor:
    return x.new_zeros(count, x.shape[1]).index_add(0, rows, x)
