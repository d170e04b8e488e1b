"""Batches padded by hand, as `cwnet.train._padded` lays them out, and what must not change by it.

Real cells come first in each dimension. Incidences of all dimensions share one array, of which the pointers of a
dimension mean a part. Everything else is wrong on purpose: entries that no pointer means name no cell there is, and
features of padding are large.
"""

import copy

import torch

from cwnet.complexes import Csr, Incidence
from cwnet.train._padded import PaddedBatch
from tests.reference.layers import assert_close

NOWHERE = 10**9


def padded(batch, extra=(5, 3, 4, 2, 1), complexes=2):
    """A batch with `extra` cells of padding in each dimension, and some complexes of no cells."""
    dims = len(batch.num_cells)
    counts = [n + m for n, m in zip(batch.num_cells, extra, strict=False)]
    starts = [sum(counts[:d]) for d in range(dims + 1)]
    none = torch.zeros(0, dtype=torch.int64)
    sides = ([batch.boundary(d) for d in range(dims)], [batch.coboundary(d) for d in range(dims)])
    local, whole = _entries(sides, [0] * (dims + 1)), _entries(sides, starts)
    ptrs = [_pointers(side, counts) for side in sides]
    spans = [slice(starts[d], starts[d + 1] + 1) for d in range(dims)]
    down, up = ([Csr(ptr[span], idx) for span in spans] for ptr, idx in zip(ptrs, local, strict=True))
    made = PaddedBatch(
        num_cells=tuple(counts),
        boundaries=tuple(down[1:]),
        x=tuple(None if x is None else x[_sources(len(x), n)] for x, n in zip(batch.x, counts, strict=True)),
        y=batch.y,
        cell_y=(None,) * dims,
        complex_x=None if batch.complex_x is None else batch.complex_x[_sources(len(batch), len(batch) + complexes)],
        cell_ptr=tuple(torch.cat([ptr, ptr[-1:].expand(complexes)]) for ptr in batch.cell_ptr),
        dims=torch.full((len(batch) + complexes,), dims - 1),
        masks=tuple(torch.arange(m) < n for n, m in zip(batch.num_cells, counts, strict=True)),
    )
    made._incidences.update({d: Incidence(down[d], up[d - 1], *[none] * 4) for d in range(1, dims)})
    made._hasse[dims - 1] = Incidence(*(Csr(p, i) for p, i in zip(ptrs, whole, strict=True)), *[none] * 4)
    return made


def _sources(real, count):
    """Padding has the features of the first cell, if there is one."""
    return torch.where(torch.arange(count) < real, torch.arange(count), 0)


def _pointers(side, counts):
    sizes = [torch.cat([csr.sizes, csr.sizes.new_zeros(n - csr.num_rows)]) for csr, n in zip(side, counts, strict=True)]
    return torch.cat([torch.zeros(1, dtype=torch.int64), torch.cat(sizes).cumsum(0)])


def _entries(sides, first):
    """The entries of both sides, all dimensions in a row; `first` is the number of the first cell of a dimension."""
    found = []
    for side, step in zip(sides, (-1, 1), strict=True):
        parts = [csr.idx + first[d + step] for d, csr in enumerate(side)]
        found.append(torch.cat([*parts, torch.full((7,), NOWHERE)]))
    return found


def with_padding(x, cells):
    """Features with those of padding, which are large."""
    generator = torch.Generator().manual_seed(1)
    return [
        torch.cat([h.detach(), 50 * torch.randn(n - len(h), h.shape[1], generator=generator, dtype=h.dtype)])
        for h, n in zip(x, cells.num_cells, strict=True)
    ]


def assert_padding_safe(module, call, batch, x=(), tolerance=1e-10):
    """Outputs for what is real, gradients of weights and features, and running averages are those without padding.

    Args:
        module: what is tested, in training.
        call: (module, features, cells) → tensors with a row per cell or complex.
        batch: without padding.
        x: features of its cells.
    """
    with_it = padded(batch)
    plain, other = module, copy.deepcopy(module)
    own = [h.detach().requires_grad_() for h in x]
    wide = [h.requires_grad_() for h in with_padding(x, with_it)] if x else []
    expected, found = call(plain, own, batch), call(other, wide, with_it)
    loss = _loss(expected, expected), _loss(found, expected)
    assert len(expected) == len(found)
    for d, (e, f) in enumerate(zip(expected, found, strict=True)):
        assert_close(f[: len(e)], e, tolerance, f"output {d}")
    for total, some, leaves in zip(loss, (plain, other), (own, wide), strict=True):
        total.backward()
        assert all(torch.isfinite(p.grad).all() for p in [*some.parameters(), *leaves] if p.grad is not None)
    for (name, p), q in zip(plain.named_parameters(), other.parameters(), strict=True):
        # No gradient is one of zeros: a batch norm hides the bias before it.
        assert_close(*(torch.zeros_like(t) if t.grad is None else t.grad for t in (q, p)), tolerance, name)
    for d, (h, g) in enumerate(zip(own, wide, strict=True)):
        if h.grad is not None:
            assert_close(g.grad[: len(h)], h.grad, tolerance, f"gradient of x[{d}]")
    for (name, a), b in zip(plain.named_buffers(), other.buffers(), strict=True):
        assert_close(b, a, tolerance, name)


def _loss(outputs, like):
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(h.shape, generator=generator, dtype=h.dtype) for h in like]
    return sum((w * h[: len(w)]).sum() for w, h in zip(weights, outputs, strict=True))
