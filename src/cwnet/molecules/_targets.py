"""What a model of molecules predicts: numbers or classes, and how they are written as a network's targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from cwnet.errors import CwnetError
from cwnet.molecules._levels import LEVELS
from cwnet.train._heads import HEAD_LOSSES, heads_of
from cwnet.train._objectives import LOSS_OF_TASK

__all__ = ["METRICS_OF_TASK", "Targets", "Task"]

Task = Literal["regression", "binary", "multilabel", "multiclass"]

#: What is reported of each task; models are chosen by the first.
METRICS_OF_TASK: dict[str, tuple[str, ...]] = {
    "regression": ("mae", "rmse", "r2"),
    "binary": ("rocauc", "ap", "accuracy"),
    "multilabel": ("rocauc", "ap", "accuracy"),
    "multiclass": ("accuracy",),
}


@dataclass(frozen=True)
class Targets:
    """The columns that are predicted.

    Attributes:
        task: "regression"; "binary" (one column of two classes); "multilabel" (several of them); "multiclass" (one
            column of more classes).
        names: the columns.
        classes: the labels of each column; empty for regression.
        mean, std: of each column over the training part; a network learns (y - mean) / std. Empty for classes.
        level: what has the targets, "molecule", "atom" or "bond"; see `cwnet.molecules._levels`.
        head: the loss of networks that say how sure they are beside what they predict, "pinball" or "gaussian"; None
            for networks that say what they predict and no more.
    """

    task: Task
    names: tuple[str, ...]
    classes: tuple[tuple[str, ...], ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    head: str | None = None
    level: str = "molecule"

    @property
    def outputs(self) -> int:
        """Numbers that are predicted per molecule, or per atom or bond."""
        return len(self.classes[0]) if self.task == "multiclass" else len(self.names)

    @property
    def network_outputs(self) -> int:
        """Numbers a network gives per molecule: what is predicted, and then how sure it is."""
        return self.outputs * heads_of(self.head)

    @property
    def loss(self) -> str | None:
        """What networks are trained by, where it is not what their task alone says."""
        return self.head or (None if self.level == "molecule" else LOSS_OF_TASK[self.task])

    @property
    def metric(self) -> str:
        """What models are chosen by."""
        return METRICS_OF_TASK[self.task][0]

    @classmethod
    def of(
        cls, names: Sequence[str], y: Tensor, classes: Mapping[str, Sequence[str]], where: str, level: str = "molecule"
    ) -> Targets:
        """What the values of the columns are: y is [molecules, columns], NaN where empty, classes numbered.

        Columns without labels that hold nothing but 0 and 1 are classes too.
        """
        named = {name: tuple(classes[name]) for name in names if name in classes}
        if not named and bool(((y == 0) | (y == 1) | y.isnan()).all()):
            named = dict.fromkeys(names, ("0", "1"))
        _check_present(names, y, named, where)
        if not named:
            return cls("regression", tuple(names), level=level)
        if len(named) < len(names):
            numbers = next(name for name in names if name not in named)
            raise CwnetError(
                f"{where}: the column {next(iter(named))!r} has classes and {numbers!r} has numbers: train a model "
                "for each"
            )
        labels = tuple(named[name] for name in names)
        if len(names) == 1:
            return cls("binary" if len(labels[0]) == 2 else "multiclass", tuple(names), labels, level=level)
        for name, known in named.items():
            if len(known) > 2:
                raise CwnetError(
                    f"{where}: the column {name!r} has {len(known)} classes. Several columns may have two each: train "
                    "a model for this one alone"
                )
        return cls("multilabel", tuple(names), labels, level=level)

    def scaled_by(self, y: Tensor) -> Targets:
        """The same targets with mean and std of these values, those of the training part; classes have none."""
        if self.task != "regression":
            return self
        mean = torch.nanmean(y.double(), 0)
        std = torch.nanmean((y.double() - mean).square(), 0).sqrt()
        # A column that is constant in the training part stays as it is.
        std = torch.where(std > 1e-12 * mean.abs().clamp(min=1e-12), std, 1.0)
        return replace(self, mean=tuple(mean.tolist()), std=tuple(std.tolist()))

    def encode(self, y: Tensor) -> Tensor:
        """Values as a network's targets: [molecules, outputs], or [molecules] of class numbers, −1 where empty."""
        if self.task == "multiclass":
            return torch.nan_to_num(y[:, 0], nan=-1).long()
        if self.task != "regression":
            return y.float()
        return ((y.double() - torch.tensor(self.mean)) / torch.tensor(self.std)).float()

    def decode(self, output: Tensor) -> Tensor:
        """A network's outputs as values, or as probabilities of classes (of the second one where there are two)."""
        if self.task == "multiclass":
            return output.double().softmax(1)
        if self.task != "regression":
            return output.double().sigmoid()
        return output[:, : self.outputs].double() * torch.tensor(self.std) + torch.tensor(self.mean)

    def margins(self, outputs: Sequence[Tensor]) -> tuple[Tensor | None, Tensor | None]:
        """How far below and above networks expect the values, the mean over them; None where they do not say."""
        if self.head is None or not outputs:
            return None, None
        loss = HEAD_LOSSES[self.head]
        sides = zip(*(loss.margins(loss.parted(output.double())) for output in outputs), strict=True)
        below, above = (torch.stack(side).mean(0) * torch.tensor(self.std) for side in sides)
        return below, above

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        usual = {"head": None, "level": "molecule"}  # and not written, as before there was another
        return {key: value for key, value in asdict(self).items() if key not in usual or value != usual[key]}

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Targets:
        """What `to_dict` wrote, or JSON made of it.

        Raises:
            ValueError: for what it can not have written.
        """
        classes = tuple(tuple(labels) for labels in table["classes"])
        mean, std = (tuple(map(float, table[name])) for name in ("mean", "std"))
        more = (table.get("head"), table.get("level", "molecule"))
        targets = cls(table["task"], tuple(table["names"]), classes, mean, std, *more)
        texts = (*targets.names, *(label for labels in classes for label in labels))
        scaled = len(targets.names) if targets.task == "regression" else 0
        labelled = 0 if targets.task == "regression" else len(targets.names)
        whole = targets.task in METRICS_OF_TASK and targets.names and all(isinstance(text, str) for text in texts)
        whole = (
            whole
            and targets.level in LEVELS
            and (targets.head is None or (bool(scaled) and targets.head in HEAD_LOSSES))
        )
        if not whole or (len(mean), len(std), len(classes)) != (scaled, scaled, labelled):
            raise ValueError(f"these are no targets: {dict(table)!s:.200}")
        return targets


def _check_present(names: Sequence[str], y: Tensor, classes: Mapping[str, tuple[str, ...]], where: str) -> None:
    """Refuse columns from which there is nothing to learn."""
    for i, name in enumerate(names):
        values = torch.unique(y[~y[:, i].isnan(), i])
        if not len(values):
            raise CwnetError(f"{where}: the column {name!r} is empty: there is nothing to learn")
        if len(values) == 1:
            shown = classes[name][int(values[0])] if name in classes else f"{float(values[0]):g}"
            what = "has one class only" if name in classes else "is the same everywhere"
            raise CwnetError(f"{where}: the column {name!r} {what}, {shown!r}: there is nothing to learn")
