"""A store of many shards, read as it is used: training on more than fits into memory."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from cwnet.complexes import ComplexBatch, ComplexStore, Csr

__all__ = ["ShardedStore", "open_sharded"]

#: Shards that are kept open. Open shards are mapped, not read: each takes some 30 bytes of memory per complex.
_OPEN = 64
#: Complexes that are shuffled together, at the least: batches come from a few shards at a time, so that what is read
#: lies together on disk and is used up before it has to make way.
_WINDOW = 262_144


@dataclass(frozen=True, eq=False, repr=False)
class ShardedStore(ComplexStore):
    """Complexes that lie on disk. Targets are in memory, everything else is read when a batch is made.

    It stands in for a `ComplexStore` where complexes are asked for by number: `batch`, `select` and the loader. Its
    arrays are empty, but for `y`.

    Attributes:
        path: folder of the store.
        starts: number of the first complex of every shard, and their number at the end.
        device: where batches go.
    """

    path: Path = field(default=Path())
    starts: tuple[int, ...] = (0,)
    cells: tuple[int, ...] = ()
    device: torch.device = field(default=torch.device("cpu"))
    _opened: OrderedDict[int, ComplexStore] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return self.starts[-1]

    @property
    def num_cells(self) -> tuple[int, ...]:
        return self.cells

    def to(self, device: Any = None, *args: Any, **options: Any) -> Self:
        """The same complexes, in batches on another device."""
        place = torch.device(device)
        y = None if self.y is None else self.y.to(place)
        return replace(self, device=place, dims=self.dims.to(place), y=y, _opened=self._opened)

    def shard(self, number: int) -> ComplexStore:
        """A shard, mapped."""
        from cwnet.data._store_file import open_store

        if number in self._opened:
            self._opened.move_to_end(number)
        else:
            self._opened[number] = open_store(self.path, shard=number, verify=False)
            if len(self._opened) > _OPEN:
                self._opened.popitem(last=False)
        return self._opened[number]

    def select(self, index: Any) -> ComplexStore:
        from cwnet.data._store_file import concatenate

        numbers = self._numbers(index).cpu()
        starts = torch.tensor(self.starts)
        of = torch.bucketize(numbers, starts, right=True) - 1
        order = torch.argsort(of, stable=True)
        sorted_already = bool((of[1:] >= of[:-1]).all())
        parts: list[ComplexStore] = []
        for number, count in zip(*(t.tolist() for t in torch.unique(of, return_counts=True)), strict=True):
            first = sum(len(part) for part in parts)
            parts.append(self.shard(number).select(numbers[order[first : first + count]] - self.starts[number]))
        if not parts:
            return self.shard(0).select([])
        whole = parts[0] if len(parts) == 1 else concatenate(parts)
        if not sorted_already:
            whole = whole.select(torch.argsort(order))
        return replace(whole, lifting=self.lifting)

    def batch(self, index: Any = None) -> ComplexBatch:
        found = self.select(slice(None) if index is None else index).batch()
        return found if self.device.type == "cpu" else found.to(self.device)

    def largest(self, d: int) -> Tensor:
        """The largest value in each column of the features of dimension d; reads all of them once."""
        found: Tensor | None = None
        for number in range(len(self.starts) - 1):
            some = self.shard(number).x
            if d < len(some) and (x := some[d]) is not None and len(x):
                most = x.reshape(len(x), -1).amax(0)
                found = most if found is None else torch.maximum(found, most)
        if found is None:
            raise ValueError(f"{self.path} has no features in dimension {d}")
        return found

    def shuffled(self, index: Tensor, generator: torch.Generator) -> Tensor:
        """Complexes in random order: shards in random order, and those of a few shards at a time all mixed."""
        index = index.sort().values
        cuts = torch.searchsorted(index, torch.tensor(self.starts))
        parts: list[Tensor] = [index[a:b] for a, b in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True) if b > a]
        order = torch.randperm(len(parts), generator=generator).tolist()
        found, window, size = [], [], 0
        for place, number in enumerate(order):
            window.append(parts[number])
            size += len(parts[number])
            if size >= _WINDOW or place == len(order) - 1:
                mixed = torch.cat(window)
                found.append(mixed[torch.randperm(size, generator=generator)])
                window, size = [], 0
        return torch.cat(found) if found else index

    def __repr__(self) -> str:
        return f"ShardedStore({len(self):,} complexes in {len(self.starts) - 1} shards, {self.lifting})"


def open_sharded(path: str | os.PathLike[str]) -> ShardedStore:
    """Open a store without reading it, however large it is.

    >>> from cwnet.data import open_sharded, save_store
    >>> folder = getfixture("tmp_path")
    >>> manifest = save_store(cwnet.lift_many([(3, [(0, 1), (1, 2), (2, 0)])] * 10, "rings:6"), folder, shard_size=4)
    >>> open_sharded(folder)
    ShardedStore(10 complexes in 3 shards, Rings(6))
    """
    from cwnet.data._store_file import open_store, read_manifest

    manifest = read_manifest(path)
    starts = np.cumsum([0, *(shard["count"] for shard in manifest.shards)])
    like, ys = open_store(path, shard=0, verify=False), []
    for number in range(len(manifest.shards)):
        shard = open_store(path, shard=number, verify=False)
        if len(shard.cell_ptr) > len(like.cell_ptr):  # the first ones may have no cells of the top dimension
            like = shard
        if shard.y is not None:
            ys.append(shard.y.clone())
    return ShardedStore(
        cell_ptr=tuple(torch.zeros(1, dtype=torch.int64) for _ in like.cell_ptr),
        boundaries=tuple(Csr.empty(0, torch.device("cpu")) for _ in like.boundaries),
        x=_none_of(like.x),
        y=torch.cat(ys) if ys else None,
        cell_y=_none_of(like.cell_y),
        dims=torch.zeros(0, dtype=torch.int64),
        lifting=manifest.lifting,
        path=Path(path),
        starts=tuple(starts.tolist()),
        cells=tuple(manifest.num_cells),
    )


def _none_of(features: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """Features of the same kind, of no cells."""
    return tuple(None if x is None else x[:0].clone() for x in features)
