"""One run: a seed and a fold of a recipe, from its first batch to its figures."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cwnet.complexes._csr import ranges
from cwnet.data import ComplexLoader, Dataset
from cwnet.nn import from_config, to_config
from cwnet.train import _checkpoint
from cwnet.train import _distributed as processes
from cwnet.train._about import versions
from cwnet.train._build import build_model, cells_of, make_metric, make_objective, outputs_of, resolve
from cwnet.train._data import split_of
from cwnet.train._errors import BadLoss, TrainingError
from cwnet.train._own import Own, check_outputs, written
from cwnet.train._recipe import ModelRecipe, Recipe, RecipeError
from cwnet.train._schedule import Stopping, make_schedule
from cwnet.train._steps import EagerSteps, Steps, find_guilty

__all__ = ["Progress", "Run", "RunResult"]

#: Ranks draw dropout apart from each other.
_APART = 7_919
#: What may differ between a recipe and the one a checkpoint was made with.
_FREE = {"train": ("seeds", "checkpoint_every", "keep", "epochs"), "": ("name", "notes")}
_PARTS = ("val", "test")
_ALL_DONE = "all epochs are done"


@dataclass
class Progress:
    """Where a run is.

    Attributes:
        name: which run, as in "seed 3".
        epoch, epochs: epochs done, and how many there will be at the most.
        batch, batches: the same for the batches of the epoch.
        loss, val, test: of the last epoch; None before it.
        best: the best `val` so far.
        lr: learning rate.
        metric: what `val` and `test` are.
        rate: complexes per second in training.
        seconds: spent so far.
        stopped: why it ended; None while it goes on.
    """

    name: str
    epochs: int
    metric: str
    epoch: int = 0
    batch: int = 0
    batches: int = 0
    loss: float | None = None
    val: float | None = None
    test: float | None = None
    best: float | None = None
    lr: float = 0.0
    rate: float = 0.0
    seconds: float = 0.0
    stopped: str | None = None

    @property
    def left(self) -> float | None:
        """Seconds left if all epochs are taken; None before the first is done."""
        done = self.epoch + self.batch / max(self.batches, 1)
        return None if not self.epoch else self.seconds / done * (self.epochs - done)


@dataclass(frozen=True, eq=False)
class RunResult:
    """What came of a run.

    Attributes:
        name: of the recipe.
        seed, fold: which run of it.
        metric: what `val` and `test` are.
        test: the figure to report: at the stop or at the best validation epoch, as the recipe says.
        best_epoch, val_at_best, test_at_best: None where there is nothing to validate on.
        epochs, val_at_stop, test_at_stop: of the last epoch.
        stopped: why it ended.
        seconds: in all, and per epoch (the median).
        parameters: numbers that were learnt.
        history: per epoch: epoch, lr, loss, val, test, seconds.
        predictions: of the test part, for the figure reported.
        model: with the weights of the figure reported, in evaluation mode, on the CPU.
        out: its folder, if it has one.
    """

    name: str
    seed: int
    fold: int
    metric: str
    test: float | None
    best_epoch: int | None
    val_at_best: float | None
    test_at_best: float | None
    epochs: int
    val_at_stop: float | None
    test_at_stop: float | None
    stopped: str
    seconds: float
    seconds_per_epoch: float
    parameters: int
    history: list[dict[str, Any]] = field(repr=False)
    predictions: Tensor = field(repr=False)
    model: torch.nn.Module = field(repr=False)
    out: Path | None = None


@dataclass
class _Best:
    """The best validation epoch so far."""

    epoch: int
    val: float
    test: float | None
    weights: Callable[[], dict[str, Tensor]]
    predictions: Tensor


class Run:
    """One seed and fold of a recipe. `epochs` does the work, in pieces.

    Args:
        recipe: what to do; `resolve` fills in what follows from the data.
        dataset: what to do it on.
        seed: of the weights, the order of batches and dropout.
        fold: which split.
        out: folder for checkpoints; none are written without one.
        device: where to compute.
        steps: the engine; `EagerSteps` by default.
        name: how progress calls it.
        own: what is given instead of what the recipe names.
    """

    def __init__(
        self,
        recipe: Recipe,
        dataset: Dataset,
        *,
        seed: int = 0,
        fold: int = 0,
        out: Path | None = None,
        device: torch.device | str = "cpu",
        steps: Callable[..., Steps] | None = None,
        name: str | None = None,
        own: Own | None = None,
    ) -> None:
        self.own = own = own or Own()
        self.recipe = recipe = own.told(resolve(recipe, dataset), dataset)
        self.dataset, self.seed, self.fold, self.out = dataset, seed, fold, out
        self.device = torch.device(device)
        self.split = split_of(recipe.data, dataset, fold)
        self.metric = own.metric or make_metric(recipe)
        self.objective = make_objective(recipe, dataset, own.loss)
        self._known: dict[str, Tensor] = {}
        self._check_metric()
        train = recipe.train
        self.loader = ComplexLoader(
            dataset.store, train.batch_size, max_cells=train.max_cells, index=self.split.train, shuffle=True, seed=seed,
            even=train.even_batches,
        )  # fmt: skip
        self.schedule = make_schedule(train.lr, recipe.schedule, train.epochs, self._mode())
        self.stopping = Stopping(recipe.stop, self.metric.mode)
        make: Any = EagerSteps if steps is None else steps
        with self._seeded():
            built = self._built()
            self.config, self.parameters = written(built), sum(p.numel() for p in built.parameters())
            if self.config is None and out is not None:
                raise RecipeError(
                    f"a {type(built).__name__} can not be written down, so no checkpoint of it could be read: let it "
                    "inherit from cwnet.nn.Module, with plain data and such modules as arguments, or leave out `out`"
                )
            torch.manual_seed(seed + _APART * processes.rank())
            self.steps: Steps = make(built, dataset.store, self.objective, train, self.device, own.optimiser)
        # Without epochs the model is measured as it is.
        self.total = max(train.epochs, 1)
        self.history: list[dict[str, Any]] = []
        self.best: _Best | None = None
        self.last = torch.zeros(0, 0)
        self.losses: list[float] = []
        self.batches = 0
        self.stopped: str | None = None
        self._spent, self._since = 0.0, time.perf_counter()
        self.progress = Progress(name or f"seed {seed}", self.total, self.metric.name, lr=self.schedule.lr)

    def _built(self) -> torch.nn.Module:
        """The model with fresh weights."""
        recipe, dataset = self.recipe, self.dataset
        make = self.own.model
        built = build_model(recipe.model, dataset, recipe.folder) if make is None else make(dataset)
        if not isinstance(recipe.model, ModelRecipe):
            check_outputs(built, dataset, cells_of(dataset), outputs_of(recipe, dataset))
        return built

    def _check_metric(self) -> None:
        """Refuse a validation part that can not be measured, such as one of a single class."""
        if self._has("val"):
            target = self.targets("val")
            outputs = outputs_of(self.recipe, self.dataset)
            if math.isnan(self.metric(self.objective.point(torch.zeros(len(target), outputs)), target)):
                raise RecipeError(
                    f"train.metric = {self.metric.name!r} can not be measured on the validation part of "
                    f"{self.dataset.name}: it has too few targets, or of one class only"
                )

    def _mode(self) -> str:
        return self.metric.mode if self.recipe.schedule.watch == "val" else "min"

    @contextmanager
    def _seeded(self) -> Iterator[None]:
        """A random state of our own, so that a run does not depend on what came before it."""
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(self.seed)
            yield

    # -------------------------------------------------------------------------------------------- epochs

    def epochs(self) -> Iterator[Progress]:
        """Train to the end. Yields after every step that is enqueued, so that others can enqueue theirs meanwhile.

        Raises:
            TrainingError: for a loss that is no number, or where memory runs out.
        """
        try:
            while self.stopped is None:
                yield from self._epoch()
        except BadLoss as error:
            raise TrainingError(self._explain(error)) from None
        except (torch.cuda.OutOfMemoryError, MemoryError) as error:
            raise TrainingError(self._out_of_memory()) from error

    def _epoch(self) -> Iterator[Progress]:
        self._since = time.perf_counter()
        batches = self.loader.batches(len(self.history)) if self.recipe.train.epochs else []
        self.steps.set_lr(self.schedule.lr)
        self._show(len(batches))
        before = self.losses
        for done in self.steps.train(batches, self.batches):
            self.batches = done
            self._show(len(batches))
            yield self.progress
        read = [self.steps.predict(getattr(self.split, part)) if self._has(part) else None for part in _PARTS]
        yield self.progress
        while not self.steps.idle():  # others go on meanwhile: waiting here would let the device run out of work
            yield self.progress
        self.losses = before + self.steps.losses().tolist()
        self._check_losses(batches)
        self._end_epoch([None if result is None else result() for result in read])
        yield self.progress

    def _has(self, part: str) -> bool:
        return len(getattr(self.split, part)) > 0

    def _end_epoch(self, predictions: Sequence[Tensor | None]) -> None:
        """Measure, choose, step the schedule, and keep what is needed to go on."""
        val, test = self._measure(predictions)
        loss = math.fsum(self.losses) / len(self.losses) if self.losses else None
        epoch = len(self.history) + 1
        self.last = predictions[1] if predictions[1] is not None else torch.zeros(0, 0)
        if val is not None and (self.best is None or self.metric.better(val, self.best.val)):
            self.best = _Best(epoch, val, test, self.steps.evaluated(), self.last.clone())
        lr = self.schedule.lr
        self.schedule.step(val if self.recipe.schedule.watch == "val" else loss)
        self.stopped = self.stopping.step(self.schedule.base, val)
        if epoch >= self.total and self.stopped is None:
            self.stopped = _ALL_DONE
        now = time.perf_counter()
        seconds, self._spent, self._since = now - self._since, self._spent + now - self._since, now
        self.history.append({"epoch": epoch, "lr": lr, "loss": loss, "val": val, "test": test, "seconds": seconds})
        self.losses, self.batches = [], 0
        self._show_epoch(len(self.split.train))
        every = self.recipe.train.checkpoint_every
        if self.stopped or (every and epoch % every == 0):
            self.save()

    def _measure(self, predictions: Sequence[Tensor | None]) -> list[float | None]:
        """The metric of the validation and the test part; the same in all processes."""
        found: list[float | None] = []
        for part, prediction in zip(_PARTS, predictions, strict=True):
            if prediction is None:
                found.append(None)
                continue
            if not bool(torch.isfinite(prediction).all()):
                raise BadLoss(len(self.losses) - 1, math.nan, [])
            value = self.metric(self.objective.point(prediction), self.targets(part))
            found.append(None if math.isnan(value) else processes.from_writer(value, self.device))
        return found

    def targets(self, part: str) -> Tensor:
        """The targets of a part, a row for each prediction, on the CPU."""
        if part not in self._known:
            self._known[part] = self._find_targets(part)
        return self._known[part]

    def _find_targets(self, part: str) -> Tensor:
        target, index = self.objective.target(self.dataset.store).cpu(), getattr(self.split, part)
        if self.objective.dim is None:
            return target[index]
        ptr = self.dataset.store.cell_ptr[self.objective.dim].cpu()
        return target[ranges(ptr[index], ptr[index + 1] - ptr[index])]

    # -------------------------------------------------------------------------------------------- what went wrong

    def _check_losses(self, batches: Sequence[Tensor]) -> None:
        for number, loss in enumerate(self.losses):
            if not math.isfinite(loss):
                index = batches[number]
                # The weights are spoilt by now; those of the best epoch, if there is one, tell more.
                model = copy.deepcopy(self.steps.model)
                if self.best is not None:
                    model.load_state_dict(self.best.weights())
                raise BadLoss(
                    number, loss, index.tolist(), find_guilty(model, self.dataset.store, self.objective, index)
                )

    def _explain(self, error: BadLoss) -> str:
        epoch = len(self.history) + 1
        where = f"epoch {epoch}, batch {error.batch + 1}" if error.complexes else f"the predictions after epoch {epoch}"
        if not error.complexes:
            text = f"{where} are not finite: the weights have diverged."
        else:
            some = ", ".join(map(str, error.complexes[:12])) + (", ..." if len(error.complexes) > 12 else "")
            text = f"the loss is {error.value} at {where}, of the complexes {some} ({len(error.complexes)} in all)."
        if error.guilty:
            text += (
                f" Complex {', '.join(map(str, error.guilty[:5]))} gives it alone: look at its features and targets."
            )
        else:
            text += f" Lower train.lr ({self.recipe.train.lr:g}), or set train.clip."
        kept = _checkpoint.newest(self.out) if self.out is not None else None
        return text + (f" The last good checkpoint is {kept}" if kept else " There is no checkpoint yet")

    def _out_of_memory(self) -> str:
        train = self.recipe.train
        size = f"train.batch_size ({train.batch_size})" if train.batch_size else f"train.max_cells ({train.max_cells})"
        return (
            f"{self.device} is out of memory in epoch {len(self.history) + 1}: lower {size}, the width of the model or "
            "the number of runs --side-by-side"
        )

    # -------------------------------------------------------------------------------------------- checkpoints

    def _identity(self) -> dict[str, Any]:
        """What a checkpoint must share with a run to be one of its own."""
        store = self.dataset.store
        return {
            "model": self.config,
            "settings": _settings(self.recipe),
            "seed": self.seed,
            "fold": self.fold,
            "data": {"complexes": len(store), "cells": list(store.num_cells), "lifting": store.lifting},
            "own": {key: name for key, name in self.own.names().items() if key != "model"},
        }

    def save(self) -> Path | None:
        """Write a checkpoint of this moment, between two steps. All processes must call it."""
        state = self.steps.state()
        if self.out is None or not processes.is_writer():
            return None
        # What has been read of this epoch before it was resumed, and what has been trained since.
        losses = self.losses + self.steps.losses().tolist() if self.batches else []
        if not all(bool(torch.isfinite(t).all()) for t in state.values() if t.is_floating_point()):
            raise BadLoss(self.batches - 1, math.nan, [])
        tensors = {**state, "last": self.last}
        if self.best is not None:
            tensors |= {f"best.{name}": tensor for name, tensor in self.best.weights().items()}
            tensors["best_predictions"] = self.best.predictions
        body = {
            "epoch": len(self.history),
            "batches": self.batches,
            "losses": losses,
            "history": self.history,
            "best": None if self.best is None else [self.best.epoch, self.best.val, self.best.test],
            "schedule": self.schedule.state_dict(),
            "stopping": self.stopping.state_dict(),
            "stopped": self.stopped,
            "seconds": self._spent + (time.perf_counter() - self._since if self.batches else 0.0),
            "recipe": self.recipe.to_dict(),
            "versions": versions(),
            **self._identity(),
        }
        return _checkpoint.write(self.out, tensors, body, self.recipe.train.keep)

    def restore(self) -> bool:
        """Go on from the newest checkpoint that is whole, if there is one.

        Raises:
            CheckpointError: where it is of another run, or none is whole.
        """
        checkpoint = None if self.out is None else _checkpoint.latest(self.out)
        if checkpoint is None:
            return False
        # What is new since it was written has its default there.
        before = Recipe.from_dict(checkpoint.body["recipe"])
        made_of = {
            "settings": _settings(self.own.told(resolve(before, self.dataset), self.dataset)),
            "model": _completed(checkpoint.body["model"]),
            "own": checkpoint.body.get("own", {}),
        }
        _checkpoint.check_same(checkpoint, {**checkpoint.body, **made_of}, self._identity())
        if processes.is_writer():
            _checkpoint.discard_after(checkpoint)
        body = checkpoint.body
        self.steps.load_state(checkpoint.tensors)
        self.schedule.load_state_dict(body["schedule"])
        self.stopping.load_state_dict(body["stopping"])
        self.history, self.losses, self.batches = body["history"], body["losses"], body["batches"]
        self.last, self._spent, self.stopped = checkpoint.tensors["last"], body["seconds"], body["stopped"]
        if body["best"] is not None:
            epoch, val, test = body["best"]
            weights, predictions = checkpoint.below("best."), checkpoint.tensors["best_predictions"]
            self.best = _Best(epoch, val, test, lambda: weights, predictions)
        if self.stopped == _ALL_DONE and len(self.history) < self.total:
            self.stopped = None
        self._show_epoch(len(self.split.train))
        return True

    # -------------------------------------------------------------------------------------------- figures

    def _show(self, batches: int) -> None:
        shown = self.progress
        shown.batch, shown.batches, shown.lr = self.batches, batches, self.schedule.lr
        shown.seconds = self._spent + time.perf_counter() - self._since

    def _show_epoch(self, complexes: int) -> None:
        if not self.history:
            return
        row, shown = self.history[-1], self.progress
        shown.epoch, shown.batch, shown.lr, shown.stopped = row["epoch"], 0, self.schedule.lr, self.stopped
        shown.loss, shown.val, shown.test, shown.seconds = row["loss"], row["val"], row["test"], self._spent
        shown.best = None if self.best is None else self.best.val
        shown.rate = complexes / max(row["seconds"], 1e-9)

    def result(self) -> RunResult:
        """The figures of a run that has ended."""
        assert self.stopped is not None, "the run has not ended"
        best, last = self.best, self.history[-1]
        chosen = best if self.recipe.train.report == "best" else None
        model = copy.deepcopy(self.steps.model).cpu().eval()
        model.load_state_dict(self.steps.evaluated()() if chosen is None else chosen.weights())
        times = sorted(row["seconds"] for row in self.history)
        return RunResult(
            name=self.recipe.name,
            seed=self.seed,
            fold=self.fold,
            metric=self.metric.name,
            test=last["test"] if chosen is None else chosen.test,
            best_epoch=None if best is None else best.epoch,
            val_at_best=None if best is None else best.val,
            test_at_best=None if best is None else best.test,
            epochs=last["epoch"] if self.recipe.train.epochs else 0,
            val_at_stop=last["val"],
            test_at_stop=last["test"],
            stopped=self.stopped,
            seconds=self._spent,
            seconds_per_epoch=times[len(times) // 2],
            parameters=self.parameters,
            history=self.history,
            predictions=self.last if chosen is None else chosen.predictions,
            model=model,
            out=self.out,
        )


def _settings(recipe: Recipe) -> dict[str, Any]:
    """All of a recipe that a run may not change when it goes on."""
    settings = recipe.to_dict()
    free = dict(_FREE)
    if recipe.schedule.kind == "cosine":  # whose rates depend on the number of epochs
        free["train"] = tuple(key for key in free["train"] if key != "epochs")
    for section, keys in free.items():
        for key in keys:
            (settings[section] if section else settings).pop(key, None)
    return settings


def _completed(config: Any) -> Any:
    """What a model was made of, with the arguments its parts have got since."""
    try:
        with torch.random.fork_rng(devices=[]):
            return to_config(from_config(config))
    except (ValueError, TypeError):  # of parts that are no more, which is another model
        return config
