"""What is minimised and what is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cwnet.complexes import ComplexBatch, ComplexStore
from cwnet.train._heads import HEAD_LOSSES, heads_of
from cwnet.train._recipe import RecipeError

__all__ = ["LOSS_OF_TASK", "METRICS", "Loss", "Metric", "Objective"]

#: A loss of one's own: from predictions [rows, outputs] and targets to a value for every row or every entry.
Loss = Callable[[Tensor, Tensor], Tensor]

#: The loss that fits a task, where the recipe names none.
LOSS_OF_TASK = {
    "regression": "l1",
    "binary": "bce",
    "multilabel": "bce",
    "multiclass": "cross-entropy",
    "cells": "cross-entropy",
}

_ELEMENTWISE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "l1": lambda p, y: (p - y).abs(),
    "mse": lambda p, y: (p - y).square(),
    "bce": lambda p, y: F.binary_cross_entropy_with_logits(p, y, reduction="none"),
}
#: A class that no one has: `cross_entropy` leaves these rows out.
_NO_CLASS = -100


@dataclass(frozen=True)
class Objective:
    """A loss, and the targets it is taken on.

    A target that is missing, NaN among real numbers and negative among classes, has no part in the loss nor in its
    gradient. Nothing here looks at a value: no step waits for the device.

    Args:
        loss: "l1", "mse", "bce" (on logits), "cross-entropy", or one of `HEAD_LOSSES`; or a function, see `Loss`.
        dim: None for targets of complexes, or the dimension of the cells that have targets.
        weights: of classes: [classes] for cross-entropy, [2, outputs] for "bce"; None where all weigh the same.
        weighted: whether the last half of the columns of `y` says how much each target weighs: see `Dataset.weighted`.
    """

    loss: str | Loss
    dim: int | None = None
    weights: Tensor | None = field(default=None, compare=False)
    weighted: bool = False

    def target(self, batch: ComplexBatch | ComplexStore) -> Tensor:
        """The targets of a batch, a row for each row of the prediction."""
        target = batch.y if self.dim is None else batch.cell_y[self.dim]
        if target is None:
            whose = "y, the targets of complexes" if self.dim is None else f"cell_y[{self.dim}]"
            raise RecipeError(f"the data has no {whose}: there is nothing to learn")
        if not self.weighted:
            return target
        own = target[:, : target.shape[1] // 2]
        # Beside weights, which are real numbers, classes are too; a row of padding is NaN.
        return torch.nan_to_num(own[:, 0], nan=-1).long() if self.loss == "cross-entropy" else own

    def weight(self, batch: ComplexBatch | ComplexStore) -> Tensor | None:
        """How much each target of a batch weighs, [rows, columns]; None where all weigh the same."""
        if not self.weighted:
            return None
        assert batch.y is not None
        return batch.y[:, batch.y.shape[1] // 2 :]

    def of(self, prediction: Tensor, batch: ComplexBatch | ComplexStore) -> tuple[Tensor, Tensor]:
        """The `terms` of the predictions for a batch."""
        return self.terms(prediction, self.target(batch), self.weight(batch))

    def rows(self, store: ComplexStore, index: Tensor) -> Tensor:
        """How many rows of prediction each of these complexes has, [complexes]."""
        if self.dim is None:
            return torch.ones(len(index), dtype=torch.int64)
        ptr = store.cell_ptr[self.dim].cpu()
        return ptr[index + 1] - ptr[index]

    def point(self, prediction: Tensor) -> Tensor:
        """Of the outputs of a network, [rows, outputs], those that metrics are taken of."""
        return prediction[:, : prediction.shape[1] // heads_of(self.loss)]

    def terms(self, prediction: Tensor, target: Tensor, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The sum of the losses, and how many there are (or how much they weigh): two scalar tensors.

        Args:
            prediction: [rows, outputs].
            target: [rows, outputs] or [rows]; [rows] of classes for cross-entropy.
            weight: of each target, [rows, outputs]; [rows, 1] for cross-entropy. None where all weigh the same.
        """
        if prediction.dtype != torch.float64:
            prediction = prediction.float()
        if callable(self.loss):
            return self._own_terms(self.loss, prediction, target)
        if self.loss in HEAD_LOSSES:
            return HEAD_LOSSES[self.loss].terms(prediction, target, weight)
        if self.loss == "cross-entropy":
            there = target >= 0
            classes = torch.where(there, target, _NO_CLASS).long()
            weights = None if self.weights is None else self._weights_at(prediction)
            if weight is not None:
                weigh = torch.where(there, weight[:, 0].to(prediction.dtype), 0.0)
                each = F.cross_entropy(prediction, classes, weights, ignore_index=_NO_CLASS, reduction="none")
                of_class = 1.0 if weights is None else weights[target.clamp(min=0)]
                return (each * weigh).sum(), (of_class * weigh).sum()
            total = F.cross_entropy(prediction, classes, weights, ignore_index=_NO_CLASS, reduction="sum")
            if weights is not None:
                return total, torch.where(there, weights[target.clamp(min=0).long()], 0.0).sum()
        else:
            target = target.to(prediction.dtype).reshape(prediction.shape)
            there = target == target  # not NaN
            # Both sides are replaced, not the result: the gradient of 0 * NaN would be NaN.
            each = _ELEMENTWISE[self.loss](torch.where(there, prediction, 0.0), torch.where(there, target, 0.0))
            weigh = there
            if self.weights is not None:
                no, yes = self._weights_at(prediction)
                weigh = torch.where(target > 0.5, yes, no) * there
            if weight is not None:
                weigh = weigh * torch.where(there, weight.to(prediction.dtype), 0.0)
            return (each * weigh).sum(), weigh.sum(dtype=prediction.dtype)
        return total, there.sum(dtype=total.dtype)

    def _own_terms(self, loss: Loss, prediction: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """As `terms`. What is missing is replaced before it is given to the function, and its value left out after."""
        if target.is_floating_point():
            target = target.to(prediction.dtype).reshape(prediction.shape)
            there = target == target
            each = loss(torch.where(there, prediction, 0.0), torch.where(there, target, 0.0))
        else:
            there = target >= 0
            each = loss(prediction, target.clamp(min=0))
        if not isinstance(each, Tensor) or each.dim() == 0 or each.shape[0] != prediction.shape[0]:
            what = tuple(each.shape) if isinstance(each, Tensor) else repr(each)
            raise RecipeError(
                f"the loss gives {what} for {prediction.shape[0]} rows: it must give a value for every row or entry, "
                "as PyTorch's losses do with reduction='none'"
            )
        if each.dim() < there.dim():
            there = there.all(1)
        there = there.reshape(there.shape + (1,) * (each.dim() - there.dim())).expand_as(each)
        return torch.where(there, each, 0.0).sum(), there.sum(dtype=each.dtype)

    def _weights_at(self, prediction: Tensor) -> Tensor:
        """The weights where the prediction is; copied there once, since a recorded step can not wait for a copy."""
        assert self.weights is not None
        if self.weights.device != prediction.device or self.weights.dtype != prediction.dtype:
            object.__setattr__(self, "weights", self.weights.to(prediction.device, prediction.dtype))
        return self.weights

    def balanced(self, store: ComplexStore, outputs: int) -> Objective:
        """The same loss with weights that are inverse to how often each class is there; 1 on average."""
        target = self.target(store)
        if self.loss == "cross-entropy":
            counts = torch.bincount(target[target >= 0].long().cpu(), minlength=outputs).double()
            share = counts * (counts > 0).sum() / counts.sum()
        elif self.loss == "bce":
            column = target.reshape(-1, outputs).double().cpu()
            there = (~column.isnan()).sum(0)
            yes = (column > 0.5).sum(0)
            share = torch.stack([there - yes, yes]) * 2 / there.clamp(min=1)
        else:
            raise RecipeError(f"train.class_weights = 'balanced' is for classes, and the loss is {self.loss!r}")
        return replace(self, weights=torch.where(share > 0, 1 / share.clamp(min=1e-12), 0.0).float())

    def check(self, store: ComplexStore, outputs: int) -> None:
        """Refuse targets that the loss can not take."""
        target = self.target(store)
        if callable(self.loss):
            return
        if self.loss == "cross-entropy":
            if target.is_floating_point() or target.dim() != 1:
                raise RecipeError(
                    f"train.loss = 'cross-entropy' takes one whole number per row, but targets are {target.dtype} of "
                    f"shape {tuple(target.shape)}: take another loss"
                )
            if target.numel() and int(target.max()) >= outputs:
                raise RecipeError(f"there is a target of class {int(target.max())}, but the model gives {outputs}")
            return
        heads = heads_of(self.loss)
        columns = target[0].numel() if len(target) else outputs // heads
        if columns * heads != outputs:
            each = f", and train.loss = {self.loss!r} takes {heads} for each" if heads > 1 else ""
            raise RecipeError(f"the model gives {outputs} numbers, but targets have {columns}{each}: set model.outputs")
        if self.loss == "bce":
            there = target[~target.isnan()] if target.is_floating_point() else target
            if bool(((there < 0) | (there > 1)).any()):
                raise RecipeError("train.loss = 'bce' takes targets from 0 to 1: take 'mse' or 'l1'")


# ------------------------------------------------------------------------------------------------ metrics

Array = NDArray[Any]


@dataclass(frozen=True)
class Metric:
    """A figure over all predictions at once, computed by scikit-learn.

    Args:
        name: one of `METRICS`.
        larger_is_better: which way is up.
        function: of (target, prediction), both [rows, outputs], or [rows] of classes and [rows, outputs].
    """

    name: str
    larger_is_better: bool
    function: Callable[[Array, Array], float]

    @property
    def mode(self) -> str:
        """What to look for: "min" or "max"."""
        return "max" if self.larger_is_better else "min"

    def better(self, a: float, b: float) -> bool:
        """Whether a is better than b."""
        return a > b if self.larger_is_better else a < b

    def __call__(self, prediction: Tensor, target: Tensor) -> float:
        """The metric of predictions (logits for classes); NaN where there is nothing to measure."""
        p = prediction.detach().cpu().double().numpy()
        y = target.detach().cpu().numpy()
        p = p.reshape(len(p), -1)
        return float(self.function(y, p))


def _present(y: Array, p: Array) -> tuple[Array, Array]:
    """The targets that are there, and their predictions, flat."""
    y = y.reshape(p.shape).astype(np.float64)
    there = ~np.isnan(y)
    return y[there], p[there]


def _mae(y: Array, p: Array) -> float:
    from sklearn.metrics import mean_absolute_error

    y, p = _present(y, p)
    return float(mean_absolute_error(y, p)) if len(y) else np.nan


def _mae99(y: Array, p: Array) -> float:
    """Without the largest hundredth of all errors: a few targets that can not be known do not decide."""
    y, p = _present(y, p)
    errors = np.sort(np.abs(y - p))
    return float(errors[: len(errors) - len(errors) // 100].mean()) if len(y) else np.nan


def _rmse(y: Array, p: Array) -> float:
    from sklearn.metrics import root_mean_squared_error

    y, p = _present(y, p)
    return float(root_mean_squared_error(y, p)) if len(y) else np.nan


def _r2(y: Array, p: Array) -> float:
    """The mean over outputs."""
    from sklearn.metrics import r2_score

    return _mean_over_tasks(y, p, r2_score, enough=lambda column: len(column) > 1)


def _rocauc(y: Array, p: Array) -> float:
    from sklearn.metrics import roc_auc_score

    return _mean_over_tasks(y, p, roc_auc_score, enough=_both_classes)


def _ap(y: Array, p: Array) -> float:
    from sklearn.metrics import average_precision_score

    return _mean_over_tasks(y, p, average_precision_score, enough=_both_classes)


def _both_classes(column: Array) -> bool:
    return len(np.unique(column)) > 1


def _mean_over_tasks(
    y: Array, p: Array, score: Callable[[Array, Array], float], enough: Callable[[Array], bool]
) -> float:
    """The mean over the tasks that can be measured, each over the targets it has."""
    columns = [_present(y.reshape(p.shape)[:, i], p[:, i]) for i in range(p.shape[1])]
    scores = [score(a, b) for a, b in columns if enough(a)]
    return float(np.mean(scores)) if scores else np.nan


def _accuracy(y: Array, p: Array) -> float:
    """Of classes, by the largest output; of yes and no, by the sign of each."""
    from sklearn.metrics import accuracy_score

    if y.ndim == 1 and y.dtype.kind in "iu" and p.shape[1] > 1:
        there = y >= 0
        y, guess = y[there], p[there].argmax(1)
    else:
        y, p = _present(y, p)
        guess = p > 0
    return float(accuracy_score(y.astype(np.int64), guess.astype(np.int64))) if len(y) else np.nan


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("mae", False, _mae),
        Metric("mae99", False, _mae99),
        Metric("rmse", False, _rmse),
        Metric("r2", True, _r2),
        Metric("rocauc", True, _rocauc),
        Metric("ap", True, _ap),
        Metric("accuracy", True, _accuracy),
    )
}
