"""A readout of each of several parts of a complex."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from cwnet.complexes._batch import ComplexBatch
from cwnet.nn._module import Module
from cwnet.nn.functional import boundary_sum, segment_of

__all__ = ["PerSlot"]


class PerSlot(Module):
    r"""The vectors of the parts of a complex that is a disjoint union, side by side.

        h_X = [readout(h, X_0) ‖ ... ‖ readout(h, X_{S-1})],   X = X_0 ⊔ ... ⊔ X_{S-1}

    A vertex says in the last column of its features in which part it is, its slot; a higher cell is where its boundary
    is. The layers before, and the readout, are the same for all slots; what comes after sees which vector is whose. The
    order of cells does not matter.

    Args:
        readout: from features of cells to a vector per complex.
        slots: how many parts there are.

    Shapes:
        x: [cells of dimension d, ...] for every d, and a batch → [complexes, slots · width of the readout].
    """

    def __init__(self, readout: Module, slots: int) -> None:
        super().__init__()
        self.readout = readout
        self.slots = slots

    def forward(self, x: Sequence[Tensor], batch: ComplexBatch) -> Tensor:
        complexes = len(batch)
        sorted_x, ptrs = [], []
        for d, slot in enumerate(self._slots(batch, len(x))):
            key = segment_of(batch.cell_ptr[d], len(slot)) * self.slots + slot
            key, order = torch.sort(key, stable=True)  # cells of padding come last
            ends = torch.arange(complexes * self.slots + 1, device=key.device)
            ptrs.append(torch.searchsorted(key, ends))
            sorted_x.append(x[d][order])
        out: Tensor = self.readout(sorted_x, replace(batch, cell_ptr=tuple(ptrs)))
        return out.reshape(complexes, -1)

    @torch.no_grad()
    def _slots(self, batch: ComplexBatch, dims: int) -> list[Tensor]:
        """The slot of every cell, dimension by dimension."""
        given = batch.x[0]
        if given is None or given.dim() != 2 or given.is_floating_point():
            raise ValueError(
                "the slot of a vertex is the last column of its features x[0], and there is no such column"
            )
        found = [given[:, -1].float()]
        for d in range(1, dims):
            sizes = batch.boundary(d).sizes.clamp(min=1)
            found.append(boundary_sum(found[-1][:, None], batch, d)[:, 0] / sizes)
        return [slot.round().long().clamp(0, self.slots - 1) for slot in found]
