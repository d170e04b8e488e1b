"""A store on the GPU, and mini-batches gathered from it into arrays of fixed size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from cwnet.complexes import ComplexBatch, ComplexStore, Csr, Incidence

__all__ = ["Capacity", "PaddedBatch", "PaddedBatches", "Resident"]

#: Cells are padded to a multiple of this, the height of a tile in the kernels.
_MULTIPLE = 64
#: Capacities lie these many standard deviations above the mean of random batches.
_DEVIATIONS = (0.5, 2, 5)
#: A capacity is worth its graph if it has at most this share of the cells of the next larger one.
_WORTH = 0.85


class Capacity(NamedTuple):
    """How much a padded batch can hold: cells of each dimension, and incidences of all dimensions together."""

    cells: tuple[int, ...]
    incidences: int


@dataclass(frozen=True, eq=False, repr=False)
class PaddedBatch(ComplexBatch):
    """A batch in arrays of fixed size. Real cells come first in each dimension; `masks` says which they are."""

    def incidence(self, d: int) -> Incidence:
        return self._incidences[d]  # gathered, not computed

    def hasse(self, top: int) -> Incidence:
        if top not in self._hasse:
            # Dimensions come one after another, so fewer of them are fewer rows; the last has no coboundaries then.
            whole = self._hasse[len(self.num_cells) - 1]
            last, stop = sum(self.num_cells[:top]), sum(self.num_cells[: top + 1]) + 1
            up = Csr(torch.minimum(whole.up.ptr[:stop], whole.up.ptr[last]), whole.up.idx)
            self._hasse[top] = Incidence(Csr(whole.down.ptr[:stop], whole.down.idx), up, *whole[2:])
        return self._hasse[top]


class Resident:
    """A store on a device with its coboundaries, local to each complex like the boundaries, so that both are copied."""

    _known: ClassVar[WeakKeyDictionary[ComplexStore, dict[tuple[torch.device, int], Resident]]] = WeakKeyDictionary()

    def __init__(self, store: ComplexStore, device: torch.device) -> None:
        self.store = store.to(device)
        dims = len(store.cell_ptr)
        counts = torch.stack([ptr.diff() for ptr in store.cell_ptr], dim=1).cpu()
        entries = [torch.zeros(len(store), dtype=torch.int64)]
        entries += [csr.ptr.long()[ptr].diff().cpu() for csr, ptr in self._rows(store)]
        self.cells, self.incidences = counts, torch.stack(entries, dim=1)
        empty = [Csr.empty(int(ptr[-1]), device).packed() for ptr in store.cell_ptr]
        down = [empty[0], *self.store.boundaries]
        up = [*(_coboundaries(self.store, d) for d in range(dims - 1)), empty[-1]]
        # The last row is missing: it is the one that -1, for no complex, stands for.
        self.y = None if self.store.y is None else torch.cat([self.store.y, _missing(self.store.y)])
        self._held = (down, up)  # the table holds addresses, which keep nothing alive
        tensors = [self.store.cell_ptr, *([getattr(c, part) for c in s] for s in (down, up) for part in ("ptr", "idx"))]
        self.table = torch.tensor([[t.data_ptr() for t in row] for row in tensors], device=device)

    @staticmethod
    def _rows(store: ComplexStore) -> list[tuple[Csr, Tensor]]:
        return list(zip(store.boundaries, store.cell_ptr[1:], strict=True))

    @classmethod
    def of(cls, store: ComplexStore, device: torch.device, top: int | None = None) -> Resident:
        """The store on the device, up to dimension `top`; runs that share a store share this too."""
        top = len(store.cell_ptr) - 1 if top is None else top
        known = cls._known.setdefault(store, {})
        if (device, top) not in known:
            known[device, top] = cls(store if top == len(store.cell_ptr) - 1 else store.skeleton(top), device)
        return known[device, top]

    def usual(self, index: Tensor, size: int) -> list[Capacity]:
        """Capacities for random batches of some complexes, from small to large; nearly all fit in the largest.

        Where complexes differ much in size, as graphs of people do, most of a batch padded to the largest is padding.
        """
        sums = [_Sum.of(sizes, size) for sizes in (*self.cells[index].unbind(1), self.incidences[index].sum(1))]
        found: list[Capacity] = []
        for deviations in sorted(_DEVIATIONS, reverse=True):
            *cells, entries = (_round_up(one.above(deviations)) for one in sums)
            one = Capacity(tuple(cells), entries)
            if not found or sum(one.cells) <= _WORTH * sum(found[0].cells):
                found.insert(0, one)
        return found

    def exact(self, batches: Sequence[Tensor]) -> Capacity:
        """The smallest capacity that all of these batches fit in."""
        *cells, entries = self._needs(batches).amax(0).tolist()
        return Capacity(tuple(map(_round_up, cells)), _round_up(entries))

    def smallest(self, batches: Sequence[Tensor], capacities: Sequence[Capacity]) -> list[int | None]:
        """The first of some capacities that holds each of these batches; None where none does."""
        needs = self._needs(batches)
        holds = torch.stack([(needs <= torch.tensor([*c.cells, c.incidences])).all(1) for c in capacities], dim=1)
        return [row.index(True) if any(row) else None for row in holds.tolist()]

    def _needs(self, batches: Sequence[Tensor]) -> Tensor:
        """Cells of each dimension, and incidences, of every batch: [batches, D + 1]."""
        sizes = torch.tensor([len(batch) for batch in batches])
        each = torch.cat([self.cells, self.incidences.sum(1, keepdim=True)], dim=1)[torch.cat(list(batches))]
        number = torch.repeat_interleave(torch.arange(len(batches)), sizes)
        return torch.zeros(len(batches), each.shape[1], dtype=each.dtype).index_add_(0, number, each)


class _Sum(NamedTuple):
    """The sum of some sizes drawn at random: its mean, its standard deviation and the most it can be."""

    mean: float
    spread: float
    most: int

    @classmethod
    def of(cls, sizes: Tensor, count: int) -> _Sum:
        wide = sizes.double()
        spread = float(wide.std()) if len(wide) > 1 else 0.0
        most = int(sizes.sort(descending=True).values[:count].sum())
        return cls(float(wide.mean()) * count, spread * count**0.5, most)

    def above(self, deviations: float) -> int:
        """So many standard deviations above the mean, but no more than there can be."""
        return min(int(self.mean + deviations * self.spread) + 1, self.most)


def _round_up(n: int) -> int:
    return max(_MULTIPLE, -(-n // _MULTIPLE) * _MULTIPLE)


def _coboundaries(store: ComplexStore, d: int) -> Csr:
    """The (d+1)-cells around every d-cell, numbered within their complex."""
    sizes = store.cell_ptr[d].diff()
    owner = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)
    up = Incidence.of(store.batch().boundary(d + 1), len(owner)).up
    return Csr(up.ptr, up.idx - store.cell_ptr[d + 1][owner[up.rows]]).packed()


class PaddedBatches:
    """Batches of at most `size` complexes, gathered on the device without asking the host anything.

    `plan` says which complexes come in which step. Each call of `gather` gives the next step's batch, in the same
    memory: this is what a CUDA graph records.

    Args:
        resident: the store.
        size: complexes of a batch.
        capacity: of a batch.
    """

    def __init__(self, resident: Resident, size: int, capacity: Capacity) -> None:
        self.resident, self.size, self.capacity = resident, size, capacity
        device = resident.store.dims.device
        dims = len(capacity.cells)
        self.starts = [sum(capacity.cells[:d]) for d in range(dims + 1)]
        cells = self.starts[-1]

        def whole(*shape: int) -> Tensor:
            return torch.zeros(*shape, dtype=torch.int64, device=device)

        self._starts = torch.tensor(self.starts, device=device)
        self._order, self.step, self.now = whole(0, size), whole(1), whole(1)
        self._arrays = {
            "chosen": whole(size),
            "now": self.now,
            "cell_ptr": whole(dims, size + 1),
            "entries": whole(2, dims, size + 1),
            "source": whole(cells),
            "mask": torch.zeros(cells, dtype=torch.bool, device=device),
            "ptr": whole(2, cells + 1),
            "idx": whole(2, capacity.incidences),
            "local": whole(2, capacity.incidences),
        }
        self._dims = torch.full((size,), dims - 1, dtype=torch.int64, device=device)

    def plan(self, batches: Sequence[Tensor], room: int = 0) -> bool:
        """Lay out the steps to come, with room for so many in later plans.

        Returns whether the memory is still the one that a graph has seen.
        """
        order = torch.nn.utils.rnn.pad_sequence(list(batches), batch_first=True, padding_value=-1)
        order = torch.nn.functional.pad(order, (0, self.size - order.shape[1]), value=-1)
        same = len(batches) <= len(self._order)
        if not same:
            self._order = order.new_full((max(len(batches), room), self.size), -1, device=self.step.device)
        self._order[: len(batches)].copy_(order.pin_memory() if self.step.is_cuda else order, non_blocking=True)
        self.step.zero_()
        return same

    def gather(self) -> PaddedBatch:
        """The batch of the next step."""
        from cwnet.nn import kernels

        kernels.gather_padded(self.resident.table, self._order, self.step, self._starts, **self._arrays)
        found, starts, store = self._arrays, self.starts, self.resident.store
        dims = len(starts) - 1
        spans = [slice(starts[d], starts[d + 1]) for d in range(dims)]
        rows = [slice(starts[d], starts[d + 1] + 1) for d in range(dims)]
        masks = tuple(found["mask"][span] for span in spans)
        none = found["idx"][0, :0]
        down = [Csr(found["ptr"][0, row], found["local"][0]) for row in rows]
        up = [Csr(found["ptr"][1, row], found["local"][1]) for row in rows]
        sources = [found["source"][span] for span in spans]
        batch = PaddedBatch(
            num_cells=self.capacity.cells,
            boundaries=tuple(down[1:]),
            x=tuple(None if x is None else x[rows] for x, rows in zip(store.x, sources, strict=True)),
            y=None if self.resident.y is None else self.resident.y[found["chosen"]],
            cell_y=tuple(_filled(y, *at) for y, *at in zip(store.cell_y, sources, masks, strict=True)),
            cell_ptr=tuple(found["cell_ptr"]),
            dims=self._dims,
            masks=masks,
            complex_x=None if store.complex_x is None else store.complex_x[found["chosen"]],
        )
        batch._incidences.update({d: Incidence(down[d], up[d - 1], *[none] * 4) for d in range(1, dims)})
        batch._hasse[dims - 1] = Incidence(
            Csr(found["ptr"][0], found["idx"][0]), Csr(found["ptr"][1], found["idx"][1]), *[none] * 4
        )
        return batch


def _missing(values: Tensor) -> Tensor:
    """A row of targets that are not there."""
    return values.new_full((1, *values.shape[1:]), math.nan if values.is_floating_point() else -1)


def _filled(values: Tensor | None, rows: Tensor, real: Tensor) -> Tensor | None:
    """Some rows of targets; those of padding are missing."""
    if values is None:
        return None
    return torch.where(real.view(-1, *[1] * (values.dim() - 1)), values[rows], _missing(values))
