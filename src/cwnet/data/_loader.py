"""Mini-batches out of a store."""

from __future__ import annotations

import queue
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed
from torch import Tensor

from cwnet.complexes import ComplexBatch, ComplexStore
from cwnet.data._sharded import ShardedStore

__all__ = ["ComplexLoader"]


class ComplexLoader:
    """Go through a store in mini-batches, in an order that a seed fixes.

    A batch has `batch_size` complexes, or as many as have `max_cells` cells together, so that a huge complex does not
    fill the memory; one that is larger than the budget comes alone. The order of epoch e depends on (seed, e) and
    nothing else; of a `ShardedStore` a few shards at a time are mixed. Every iteration is a whole epoch, also if the
    last one was left in the middle; to go on in the middle, keep `state_dict()` and give it to `load_state_dict`. Under
    `torch.distributed` every process gets its share of each batch: the same complexes as one process would see, spread
    over all of them.

    Args:
        store: the complexes.
        batch_size: complexes per batch, over all processes.
        max_cells: cells per batch and process, instead of a number of complexes.
        index: which complexes take part, such as a split; all by default.
        shuffle: whether to go through them in random order.
        seed: of the random order.
        drop_last: whether to leave out a last batch that is not full.
        even: whether to make all batches of about the same size, at most `batch_size`, instead of a last one that may
            be very small.
        device: where batches go; where the store is by default.
        resident: whether to put the whole store on the device and gather there.
        prefetch: batches made ahead by a thread while the last one is used; 0 for none. Not needed if resident.
        rank: number of this process; from `torch.distributed` by default.
        world_size: number of processes; from `torch.distributed` by default.

    >>> import cwnet
    >>> from cwnet.data import ComplexLoader
    >>> store = cwnet.lift_many([(3, [(0, 1), (1, 2), (2, 0)])] * 10, cwnet.Rings(6))
    >>> [len(batch) for batch in ComplexLoader(store, batch_size=4)]
    [4, 4, 2]
    """

    def __init__(
        self,
        store: ComplexStore,
        batch_size: int | None = None,
        *,
        max_cells: int | None = None,
        index: Any = None,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        even: bool = False,
        device: torch.device | str | None = None,
        resident: bool = False,
        prefetch: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        if (batch_size is None) == (max_cells is None):
            raise ValueError("give batch_size or max_cells, one of the two")
        if even and drop_last:
            raise ValueError("even=True leaves no small batch to drop_last")
        for name, value in (("batch_size", batch_size), ("max_cells", max_cells)):
            if value is not None and value < 1:
                raise ValueError(f"{name}={value}: it must be at least 1")
        together = torch.distributed.is_available() and torch.distributed.is_initialized()
        self.rank = rank if rank is not None else torch.distributed.get_rank() if together else 0
        self.world_size = (
            world_size if world_size is not None else torch.distributed.get_world_size() if together else 1
        )
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank={self.rank} of world_size={self.world_size}: ranks go from 0 to world_size - 1")
        if batch_size is not None and batch_size % self.world_size:
            raise ValueError(f"batch_size={batch_size} can not be shared evenly by {self.world_size} processes")
        self.device = None if device is None else torch.device(device)
        self.store = store.to(self.device) if resident and self.device is not None else store
        self.index = store._numbers(slice(None) if index is None else index).cpu()
        self.batch_size, self.max_cells = batch_size, max_cells
        self.shuffle, self.seed, self.drop_last, self.even = shuffle, seed, drop_last, even
        self.prefetch = 0 if resident else prefetch
        self.epoch, self.position, self._begun = 0, 0, False
        if max_cells is not None and isinstance(store, ShardedStore):
            raise ValueError("max_cells needs a store in memory, and this one is on disk: give batch_size")
        self._cells = torch.zeros(0) if max_cells is None else sum(ptr.diff() for ptr in store.cell_ptr).cpu()  # type: ignore[union-attr]

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be this epoch; without it, every iteration is the epoch after the last one."""
        self.epoch, self.position, self._begun = epoch, 0, False

    def state_dict(self) -> dict[str, int]:
        """Where it is: the epoch, and the batches of it already given out."""
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Let the next iteration go on from there."""
        self.set_epoch(state["epoch"])
        if state["position"] >= len(self):
            self.set_epoch(state["epoch"] + 1)
        else:
            self.position = state["position"]

    def batches(self, epoch: int) -> list[Tensor]:
        """The complexes of every batch of an epoch that this process gets."""
        order = self.index
        if self.shuffle:
            generator = torch.Generator().manual_seed((self.seed * 1_000_003 + epoch) % 2**63)
            if isinstance(self.store, ShardedStore):
                order = self.store.shuffled(order, generator)
            else:
                order = order[torch.randperm(len(order), generator=generator)]
        if self.batch_size is not None:
            if self.even and len(order):
                pieces = list(torch.tensor_split(order, -(-len(order) // self.batch_size)))
            else:
                pieces = list(torch.split(order, self.batch_size))
            if self.drop_last and pieces and len(pieces[-1]) < self.batch_size:
                pieces.pop()
            return [piece[self.rank :: self.world_size] for piece in pieces]
        pieces = self._by_budget(order)
        whole = len(pieces) - len(pieces) % self.world_size if self.drop_last else len(pieces)
        # Every process must take as many steps: the first batches are seen twice where they do not come out even.
        while whole % self.world_size and pieces:
            pieces.append(pieces[len(pieces) - whole])
            whole += 1
        return pieces[self.rank : whole : self.world_size]

    def _by_budget(self, order: Tensor) -> list[Tensor]:
        assert self.max_cells is not None
        sizes = self._cells[order].tolist()
        cuts, filled = [0], 0
        for i, size in enumerate(sizes):
            if filled and filled + size > self.max_cells:
                cuts.append(i)
                filled = 0
            filled += size
            if size > self.max_cells:
                warnings.warn(
                    f"complex {int(order[i])} has {size:,} cells, more than max_cells={self.max_cells:,}: "
                    "it comes in a batch of its own",
                    stacklevel=3,
                )
        return [order[a:b] for a, b in zip(cuts, [*cuts[1:], len(sizes)], strict=True) if b > a]

    def __len__(self) -> int:
        return len(self.batches(self.epoch))

    def __iter__(self) -> Iterator[ComplexBatch]:
        if self._begun:  # and left: whoever iterates again wants a whole epoch
            self.set_epoch(self.epoch + 1)
        epoch, first, self._begun = self.epoch, self.position, True
        todo = self.batches(epoch)[first:]
        for i, batch in enumerate(self._prefetched(todo) if self.prefetch else map(self._gather, todo), first + 1):
            self.epoch, self.position = epoch, i
            yield batch
        self.set_epoch(epoch + 1)

    def _gather(self, numbers: Tensor) -> ComplexBatch:
        batch = self.store.batch(numbers.to(self.store.dims.device))
        here = self.store.dims.device
        if self.device is None or (self.device.type == here.type and self.device.index in (None, here.index)):
            return batch
        if self.device.type == "cuda":
            batch = batch.pin_memory()
        return batch.to(self.device, non_blocking=True)

    def _prefetched(self, todo: list[Tensor]) -> Iterator[ComplexBatch]:
        """Batches made by a thread. Gathering releases the GIL for most of its time."""
        ready: queue.Queue[ComplexBatch | BaseException | None] = queue.Queue(self.prefetch)
        stop = threading.Event()

        def put(item: ComplexBatch | BaseException | None) -> bool:
            while not stop.is_set():
                try:
                    ready.put(item, timeout=0.1)
                    return True
                except queue.Full:
                    continue
            return False

        def work() -> None:
            try:
                for numbers in todo:
                    if not put(self._gather(numbers)):
                        return
                put(None)
            except BaseException as error:
                put(error)

        thread = threading.Thread(target=work, daemon=True, name="ComplexLoader")
        thread.start()
        try:
            while (item := ready.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stop.set()
            thread.join()
