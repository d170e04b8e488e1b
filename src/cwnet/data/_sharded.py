"""A store of many shards, read as it is used: training on more than fits into memory."""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from cwnet.complexes import CellComplex, ComplexBatch, ComplexStore, Csr

__all__ = ["ShardedStore", "open_sharded"]

#: Shards that are kept open. Open shards are mapped, not read: each takes some 30 bytes of memory per complex.
_OPEN = 64
#: Complexes that are shuffled together, at the least: batches come from a few shards at a time, so that what is read
#: lies together on disk and is used up before it has to make way.
_WINDOW = 262_144


@dataclass(frozen=True, eq=False)
class _Some:
    """Some shards, put together; `shift` is what the number of a complex of each differs by."""

    shards: frozenset[int]
    store: ComplexStore
    shift: Tensor


@dataclass(frozen=True, eq=False, repr=False)
class ShardedStore(ComplexStore):
    """Complexes that lie on disk. Targets are in memory, everything else is read when a batch is made.

    It stands in for a `ComplexStore` where complexes are asked for by number: ``store[i]``, `batch`, `select` and the
    loader. Its arrays are empty, but for `y`.

    Attributes:
        path: folder of the store.
        starts: number of the first complex of every shard, and their number at the end.
        cells: of all complexes, per dimension.
        device: where batches go.
    """

    path: Path = field(default=Path())
    starts: tuple[int, ...] = (0,)
    cells: tuple[int, ...] = ()
    device: torch.device = field(default=torch.device("cpu"))
    _opened: OrderedDict[int, ComplexStore] = field(default_factory=OrderedDict)
    _kept: dict[str, _Some] = field(default_factory=dict)
    _verified: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return self.starts[-1]

    @property
    def num_cells(self) -> tuple[int, ...]:
        return self.cells

    def __getitem__(self, i: int) -> CellComplex:
        if not -len(self) <= i < len(self):
            raise IndexError(f"complex {i} was asked for, but there are {len(self)} (numbered 0 to {len(self) - 1})")
        found = self.select([i % len(self)])[0]
        return found if self.device.type == "cpu" else found.to(self.device)

    def to(self, device: Any = None, *args: Any, **options: Any) -> Self:
        """The same complexes, in batches on another device."""
        place = torch.device(device)
        y = None if self.y is None else self.y.to(place)
        return replace(self, device=place, dims=self.dims.to(place), y=y)

    def shard(self, number: int) -> ComplexStore:
        """A shard, mapped. The first time, it is compared with its hash."""
        from cwnet.data._store_file import open_store

        if number in self._opened:
            self._opened.move_to_end(number)
        else:
            self._opened[number] = open_store(self.path, shard=number, verify=number not in self._verified)
            self._verified.add(number)
            if len(self._opened) > _OPEN:
                self._opened.popitem(last=False)
        return self._opened[number]

    def select(self, index: Any) -> ComplexStore:
        numbers = self._numbers(index).cpu()
        of = torch.bucketize(numbers, torch.tensor(self.starts), right=True) - 1
        shards = torch.unique(of).tolist()
        if len(shards) <= 1:
            number = shards[0] if shards else 0
            found = self.shard(number).select(numbers - self.starts[number])
        elif self._count(shards) > 2 * max(_WINDOW, *map(self._count, ([number] for number in shards))):
            found = self._gathered(numbers, of, shards)
        else:
            some = self._together(shards)
            found = some.store.select(numbers + some.shift[of])
        return replace(found, lifting=self.lifting)

    def _count(self, shards: list[int]) -> int:
        """Complexes of some shards."""
        return sum(self.starts[number + 1] - self.starts[number] for number in shards)

    def _together(self, shards: list[int]) -> _Some:
        """Some shards as one store in memory. It is kept: the batches to come are of the same ones, mostly."""
        from cwnet.data._store_file import concatenate

        kept = self._kept.get("some")
        if kept is not None and set(shards) <= kept.shards:
            return kept
        self._kept.clear()  # before memory is taken for the next
        shift, start = torch.zeros(len(self.starts), dtype=torch.int64), 0
        for number in shards:
            shift[number] = start - self.starts[number]
            start += self._count([number])
        self._kept["some"] = _Some(frozenset(shards), concatenate([self.shard(n) for n in shards]), shift)
        return self._kept["some"]

    def _gathered(self, numbers: Tensor, of: Tensor, shards: list[int]) -> ComplexStore:
        """Complexes of very many shards, such as those of a batch between two windows."""
        from cwnet.data._store_file import concatenate

        parts = [self.shard(number).select(numbers[of == number] - self.starts[number]) for number in shards]
        return concatenate(parts).select(torch.argsort(torch.argsort(of, stable=True)))

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

    >>> import cwnet
    >>> from cwnet.data import open_sharded, save_store
    >>> folder = getfixture("tmp_path")
    >>> manifest = save_store(cwnet.lift_many([(3, [(0, 1), (1, 2), (2, 0)])] * 10, "rings:6"), folder, shard_size=4)
    >>> open_sharded(folder)
    ShardedStore(10 complexes in 3 shards, Rings(6))
    """
    from cwnet.data._store_file import DamagedStoreError, open_targets, read_manifest

    manifest = read_manifest(path)
    starts = np.cumsum([0, *(shard["count"] for shard in manifest.shards)])
    shards = open_targets(path)
    like = max(shards, key=lambda shard: len(shard.cell_ptr))  # some may have no cells of the top dimension
    ys = [shard.y for shard in shards if shard.y is not None]
    if ys and len(ys) < len(shards):
        at = next(i for i, shard in enumerate(shards) if shard.y is None)
        raise DamagedStoreError(
            f"{Path(path) / manifest.shards[at]['file']} has no targets, and other shards have some"
        )
    return ShardedStore(
        cell_ptr=tuple(torch.zeros(1, dtype=torch.int64) for _ in like.cell_ptr),
        boundaries=tuple(Csr.empty(0, torch.device("cpu")) for _ in like.boundaries),
        x=like.x,
        y=torch.cat(ys) if ys else None,
        cell_y=like.cell_y,
        dims=torch.zeros(0, dtype=torch.int64),
        lifting=manifest.lifting,
        path=Path(path),
        starts=tuple(starts.tolist()),
        cells=tuple(manifest.num_cells),
    )
