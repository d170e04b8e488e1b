"""What can go wrong while training."""

from __future__ import annotations

from collections.abc import Sequence

from cwnet.errors import CwnetError

__all__ = ["BadLoss", "CheckpointError", "Interrupted", "TrainingError"]


class TrainingError(CwnetError, RuntimeError):
    """Training that can not go on: a loss that is not a number, no memory left, a process that is gone."""


class CheckpointError(CwnetError, ValueError):
    """A checkpoint that is not there, not whole, or not of this run."""


class Interrupted(CwnetError):
    """A run that was asked to stop and can be resumed.

    Attributes:
        signal: the number of the signal that asked.
    """

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal


class BadLoss(Exception):
    """A loss that is NaN or infinite.

    Attributes:
        batch: which batch of the epoch, from 0.
        value: the loss.
        complexes: the complexes of the batch.
        guilty: those of them that give such a loss alone; empty where none or all of them do.
    """

    def __init__(self, batch: int, value: float, complexes: Sequence[int], guilty: Sequence[int] = ()) -> None:
        super().__init__(f"loss {value} in batch {batch}")
        self.batch, self.value = batch, value
        self.complexes, self.guilty = list(complexes), list(guilty)
