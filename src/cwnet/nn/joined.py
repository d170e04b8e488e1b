"""A readout that sees more than cells: numbers that complexes have as wholes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cwnet.complexes._batch import ComplexBatch
from cwnet.nn._module import Module
from cwnet.nn.functional import activation

__all__ = ["Joined"]


class Joined(Module):
    r"""The vector of a readout and the numbers of the complex, joined and mixed.

        h_X = act(W [readout(h, X) ‖ z_X] + b),   z_X = ``batch.complex_x``

    The map stands before the head, which is linear: without it, what a number does could not depend on the complex.

    Args:
        readout: from features of cells to a vector per complex.
        width_in: features that the readout gives.
        numbers: columns of ``complex_x``; 0 where complexes have none.
        width: features of the complex.
        act: activation by name.

    Shapes:
        x: [cells of dimension d, ...] for every d, and a batch with complex_x, [complexes, numbers] →
            [complexes, width].
    """

    def __init__(self, readout: Module, width_in: int, numbers: int, width: int, act: str = "relu") -> None:
        super().__init__()
        self.readout = readout
        self.numbers = numbers
        self.linear = torch.nn.Linear(width_in + numbers, width)
        self.act = activation(act).value

    def forward(self, x: Sequence[Tensor], batch: ComplexBatch) -> Tensor:
        h: Tensor = self.readout(x, batch)
        if self.numbers:
            h = torch.cat([h, self._given(batch).to(h.dtype)], dim=1)
        out: Tensor = self.act(self.linear(h))
        return out

    def _given(self, batch: ComplexBatch) -> Tensor:
        z = batch.complex_x
        if z is None:
            raise ValueError(
                f"the model joins {self.numbers} numbers of each complex, and these complexes have none: set complex_x"
            )
        if z.dim() != 2 or z.shape[1] != self.numbers:
            raise ValueError(f"complex_x is {tuple(z.shape)}, and the model joins {self.numbers} numbers of a complex")
        return z
