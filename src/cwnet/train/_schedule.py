"""Learning rates over the epochs, and when to stop. Plain state machines: they know no optimiser."""

from __future__ import annotations

import math
from typing import Any

from cwnet.train._recipe import ScheduleRecipe, StopRecipe

__all__ = ["Constant", "Cosine", "Plateau", "Schedule", "Step", "Stopping", "make_schedule"]


class Schedule:
    """The learning rate of every epoch.

    Args:
        lr: at the start.
        recipe: section ``[schedule]``.
        epochs: how many there will be at the most.
        mode: "min" or "max": what is an improvement of what is watched.
    """

    def __init__(self, lr: float, recipe: ScheduleRecipe, epochs: int = 1, mode: str = "min") -> None:
        self.initial, self.recipe, self.epochs, self.mode = lr, recipe, max(epochs, 1), mode
        self.epoch = 0  # epochs done
        self.base = lr

    @property
    def lr(self) -> float:
        """The learning rate of the epoch that comes."""
        return self.base * min(1.0, (self.epoch + 1) / (self.recipe.warmup + 1))

    def step(self, value: float | None = None) -> float:
        """An epoch is done, and what is watched is `value`; returns the next learning rate."""
        self.epoch += 1
        self.base = max(self.next(value), min(self.recipe.min_lr, self.initial))
        return self.lr

    def next(self, value: float | None) -> float:
        """The learning rate of the next epoch, before warm-up and limit."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """All that changes, as plain data."""
        return {key: value for key, value in vars(self).items() if key not in ("recipe", "initial", "epochs", "mode")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        vars(self).update(state)


class Constant(Schedule):
    """The same all the time."""

    def next(self, value: float | None) -> float:
        return self.initial


class Step(Schedule):
    """Times `factor` after every `every` epochs."""

    def next(self, value: float | None) -> float:
        return self.initial * self.recipe.factor ** (self.epoch // self.recipe.every)


class Cosine(Schedule):
    """Down a half cosine, from the initial rate after the warm-up to `min_lr` after the last epoch."""

    def next(self, value: float | None) -> float:
        start, low = self.recipe.warmup, self.recipe.min_lr
        done = (self.epoch - start) / max(self.epochs - start, 1)
        return low + (self.initial - low) * (1 + math.cos(math.pi * min(max(done, 0.0), 1.0))) / 2


class Plateau(Schedule):
    """Times `factor` when more than `patience` epochs brought no improvement: PyTorch's `ReduceLROnPlateau`."""

    def __init__(self, lr: float, recipe: ScheduleRecipe, epochs: int = 1, mode: str = "min") -> None:
        super().__init__(lr, recipe, epochs, mode)
        self.best: float | None = None
        self.bad = 0

    def next(self, value: float | None) -> float:
        if value is None:
            raise ValueError("a plateau schedule needs the value it watches")
        if self._improved(value):
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        if self.bad <= self.recipe.patience:
            return self.base
        self.bad = 0
        lower = max(self.base * self.recipe.factor, self.recipe.min_lr)
        return lower if self.base - lower > 1e-8 else self.base

    def _improved(self, value: float) -> bool:
        if self.best is None:
            return not math.isnan(value)
        if self.mode == "min":
            return value < self.best * (1 - self.recipe.threshold)
        return value > self.best * (1 + self.recipe.threshold)


_KINDS: dict[str, type[Schedule]] = {"constant": Constant, "step": Step, "cosine": Cosine, "plateau": Plateau}


def make_schedule(lr: float, recipe: ScheduleRecipe, epochs: int, mode: str) -> Schedule:
    """The schedule of a recipe."""
    return _KINDS[recipe.kind](lr, recipe, epochs, mode)


class Stopping:
    """When to stop before the last epoch.

    Args:
        recipe: section ``[stop]``.
        mode: "min" or "max": what is an improvement of the validation metric.
    """

    def __init__(self, recipe: StopRecipe, mode: str = "min") -> None:
        self.recipe, self.mode = recipe, mode
        self.best: float | None = None
        self.bad = 0

    def step(self, lr: float, value: float | None = None) -> str | None:
        """Why to stop, at this learning rate (without warm-up) and after an epoch that measured `value`; or None."""
        if value is not None:
            sign = 1 if self.mode == "min" else -1
            improved = not math.isnan(value) and (self.best is None or sign * value < sign * self.best)
            self.best, self.bad = (value, 0) if improved else (self.best, self.bad + 1)
        if self.recipe.min_lr is not None and lr < self.recipe.min_lr:
            return f"the learning rate fell below {self.recipe.min_lr:g}"
        if self.recipe.patience is not None and self.bad >= self.recipe.patience:
            return f"no improvement for {self.bad} epochs"
        return None

    def state_dict(self) -> dict[str, Any]:
        """All that changes, as plain data."""
        return {"best": self.best, "bad": self.bad}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.best, self.bad = state["best"], state["bad"]
