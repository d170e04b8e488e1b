"""Which engine trains a model: CUDA graphs where that is shown to be right, one operation at a time elsewhere."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from cwnet.complexes import ComplexBatch, ComplexStore
from cwnet.data import ShardedStore
from cwnet.nn import kernels, to_config
from cwnet.train import _distributed as processes
from cwnet.train._graph import GraphSteps
from cwnet.train._objectives import Objective
from cwnet.train._padded import Capacity, PaddedBatches
from cwnet.train._recipe import TrainRecipe
from cwnet.train._state import OptimiserMaker, gathered
from cwnet.train._steps import EagerSteps, Steps

__all__ = ["best_steps", "padding_matters"]

#: Complexes that are computed padded and unpadded.
_COMPLEXES = 32
#: How far the two may lie apart, as a share of the largest value: rounding is some hundred times less.
_TOLERANCE = 2e-3
#: Further cells of padding in every dimension.
_PADDING = 64

#: What was found out of models before, by what they are made of and how they are trained.
_known: dict[str, str | None] = {}


def best_steps(
    model: torch.nn.Module,
    store: ComplexStore,
    objective: Objective,
    train: TrainRecipe,
    device: torch.device | str = "cpu",
    optimiser: OptimiserMaker | None = None,
) -> Steps:
    """The fastest engine that trains this model as the plain one would. Where it is the plain one, that says why."""
    place = torch.device(device)
    if place.type != "cuda":
        return EagerSteps(model, store, objective, train, place, optimiser)
    why = _obstacle(store, train)
    if why is None:
        why = _tried(model, store, objective, train, place, optimiser)
    if why is None:
        return GraphSteps(model, store, objective, train, place, optimiser)
    return EagerSteps(model, store, objective, train, place, optimiser, why)


def _obstacle(store: ComplexStore, train: TrainRecipe) -> str | None:
    """What keeps any model from being recorded."""
    if processes.together():
        return "several processes share the batches"
    if train.precision == "float64":
        return "train.precision is float64"
    if train.batch_size is None:
        return "batches are counted in cells (train.max_cells)"
    if isinstance(store, ShardedStore):
        return "the data stays on disk"
    return kernels.obstacle()


def _tried(
    model: torch.nn.Module,
    store: ComplexStore,
    objective: Objective,
    train: TrainRecipe,
    device: torch.device,
    optimiser: OptimiserMaker | None,
) -> str | None:
    """Why this model can not be recorded, found out on a copy of it; runs of one model share the answer."""
    key = _key(model, train, objective, optimiser)
    if key is not None and key in _known:
        return _known[key]
    with torch.random.fork_rng([device]):
        found = _find_out(copy.deepcopy(model), store, objective, train, device, optimiser)
    if key is not None:
        _known[key] = found
    return found


def _key(
    model: torch.nn.Module, train: TrainRecipe, objective: Objective, optimiser: OptimiserMaker | None
) -> str | None:
    if optimiser is not None:
        return None
    try:
        return json.dumps(
            [to_config(model), train.precision, train.clip, objective.dim, repr(objective.loss), objective.weighted]
        )
    except TypeError:  # it can not be written down, so it can not be told from others
        return None


def _find_out(
    model: torch.nn.Module,
    store: ComplexStore,
    objective: Objective,
    train: TrainRecipe,
    device: torch.device,
    optimiser: OptimiserMaker | None,
) -> str | None:
    index = torch.arange(min(_COMPLEXES, train.batch_size or 1, len(store)))
    try:
        steps = GraphSteps(model, store, objective, train, device, optimiser)
        rows = int(objective.rows(steps.store, index).sum())
        plain, padded = gathered(steps.store, index, steps.device), _padded(steps, index)
        why = padding_matters(model, objective, plain, padded, rows)
        if why is None:
            with _no_waiting():
                _outcome(model, objective, padded, rows, training=True)
            steps.try_out(index)
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception as error:  # whatever a model of one's own may raise where another engine would not
        first = str(error).strip().partition("\n")[0]
        if "synchroniz" in first or "captur" in first:
            return (
                "its forward pass asks the device for a value, as shapes and branches that depend on data do, and a "
                "CUDA graph can not"
            )
        return f"a padded batch is too much for it ({type(error).__name__}: {first[:200]})"
    return why


# ------------------------------------------------------------------------------------------------ padding


class _Outcome(NamedTuple):
    """What a model makes of a batch, each as a list of tensors."""

    outputs: list[Tensor]
    gradients: list[Tensor]
    averages: list[Tensor]


def _padded(steps: GraphSteps, index: Tensor) -> ComplexBatch:
    """A batch with padding in every dimension, and a complex that is none."""
    exact = steps.resident.exact([index])
    roomy = Capacity(tuple(n + _PADDING for n in exact.cells), exact.incidences + _PADDING)
    batches = PaddedBatches(steps.resident, len(index) + 1, roomy)
    batches.plan([index])
    return batches.gather()


def padding_matters(
    model: torch.nn.Module, objective: Objective, plain: ComplexBatch, padded: ComplexBatch, rows: int
) -> str | None:
    """Compare what a model makes of a batch with and without padding. None if it makes the same, else what differs.

    Args:
        model: left as it was.
        objective: whose gradients are compared.
        plain: a batch.
        padded: the same one with padding.
        rows: of predictions that are real.
    """
    for training in (False, True):
        found = _outcome(model, objective, padded, rows, training)
        expected = _outcome(model, objective, plain, rows, training)
        for field, name in zip(_Outcome._fields, _NAMES, strict=True):
            away = _distance(getattr(found, field), getattr(expected, field))
            if away <= _TOLERANCE:
                continue
            again = _outcome(model, objective, plain, rows, training)
            if _distance(getattr(again, field), getattr(expected, field)) > _TOLERANCE:
                return "it draws random numbers by other means than torch.nn.Dropout, so nothing can be compared"
            mode = "training" if training else "evaluation"
            return (
                f"padding changes {name} in {mode} by {away:.0%} of their size: leave out the cells for which "
                "cells.mask(d) is false"
            )
    return None


_NAMES = ("its outputs", "its gradients", "its running averages")


def _outcome(model: torch.nn.Module, objective: Objective, batch: ComplexBatch, rows: int, training: bool) -> _Outcome:
    """Outputs, gradients of the loss and running averages, without dropout; the model is left as it was."""
    before = {name: tensor.clone() for name, tensor in model.named_buffers()}
    parameters = [p for p in model.parameters() if p.requires_grad]
    with _without_dropout(model, training):
        out = model(batch)
        total, count = objective.of(out, batch)
        gradients = torch.autograd.grad(total / count.clamp(min=1), parameters, allow_unused=True)
    averages = [tensor.detach().clone() for tensor in model.buffers() if tensor.is_floating_point()]
    for name, tensor in model.named_buffers():
        tensor.data.copy_(before[name])
    return _Outcome([out.detach()[:rows]], [g for g in gradients if g is not None], averages)


def _distance(found: list[Tensor], expected: list[Tensor]) -> float:
    """The largest difference, as a share of the largest value; infinite where one is no number."""
    if [t.shape for t in found] != [t.shape for t in expected]:
        return float("inf")
    if not expected:
        return 0.0
    apart = max(float((a - b).abs().max()) if a.numel() else 0.0 for a, b in zip(found, expected, strict=True))
    size = max(float(t.abs().max()) if t.numel() else 0.0 for t in expected)
    return apart / max(size, 1e-12) if apart == apart else float("inf")


@contextmanager
def _without_dropout(model: torch.nn.Module, training: bool) -> Iterator[None]:
    before = {part: part.training for part in model.modules()}
    model.train(training)
    for part in model.modules():
        if isinstance(part, torch.nn.modules.dropout._DropoutNd):
            part.eval()
    try:
        yield
    finally:
        for part, mode in before.items():
            part.training = mode


@contextmanager
def _no_waiting() -> Iterator[None]:
    """Whatever waits for the device raises an error."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
