"""How much molecules and targets weigh in training: weights read, checked, and put beside the targets."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cwnet.data import MoleculeTable, Split
from cwnet.errors import CwnetError
from cwnet.molecules._targets import Targets

__all__ = [
    "TargetWeights",
    "beside",
    "check_names",
    "entry_weights",
    "read_target_weights",
    "row_weights",
    "without_zero",
]

#: A weight for each of some targets, by name.
TargetWeights = tuple[tuple[str, float], ...]


def row_weights(table: MoleculeTable, column: str) -> Tensor:
    """The weight of each row of a table, [molecules], float32.

    Raises:
        CwnetError: for a weight that is missing, text, negative or not finite, with its row; or if all are 0.
    """
    weights = [
        _weight(value, f"{table.path}: row {row}: the weight in the column {column!r}")
        for value, row in zip(table.column(column), table.rows.tolist(), strict=True)
    ]
    found = torch.tensor(weights, dtype=torch.float32)
    if len(found) and not bool((found > 0).any()):
        raise CwnetError(f"{table.path}: all weights in the column {column!r} are 0: there is nothing to learn")
    return found


def _weight(value: Any, what: str) -> float:
    if value is None or not str(value).strip():
        raise CwnetError(f"{what} is missing: write 1 for a usual one, or 0 to leave the row out")
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise CwnetError(f"{what} is {value!r}, which is not a number")
    if number < 0:
        raise CwnetError(f"{what} is {value}: it must not be negative")
    return number


def read_target_weights(text: str) -> TargetWeights:
    """The weights of targets as they are typed, "a=2,b=1"; a name may have an equals sign in it.

    >>> read_target_weights("logS=2, logP=0.5")
    (('logS', 2.0), ('logP', 0.5))
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, number = (piece.strip() for piece in part.rpartition("="))
        if not equals or not name:
            raise CwnetError(f"--target-weights {text}: {part.strip()!r} is not NAME=WEIGHT; write a=2,b=1")
        if name in found:
            raise CwnetError(f"--target-weights {text}: {name!r} is there twice")
        found[name] = _weight(number, f"--target-weights {text}: the weight of {name!r}")
        if not found[name]:
            raise CwnetError(
                f"--target-weights {text}: a target of weight 0 is not learnt: leave {name!r} out with --target-columns"
            )
    return tuple(found.items())


def check_names(weights: TargetWeights, names: Sequence[str]) -> None:
    """Refuse a weight for a target that is not there."""
    for name, _ in weights:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, names))}"
            raise CwnetError(f"--target-weights: {name!r} is not a target: {hint}")


def without_zero(split: Split, weights: Tensor) -> Split:
    """The split without the molecules of weight 0, but for its test part, whose figures are not weighted."""
    return Split(split.train[weights[split.train] > 0], split.val[weights[split.val] > 0], split.test)


def entry_weights(
    targets: Targets, values: Tensor, train: Tensor, rows: Tensor | None, columns: TargetWeights
) -> Tensor | None:
    """The weight of every target of every molecule, [molecules, columns]; None where all weigh the same.

    It is the product of that of the row and that of the column, such that the targets of the training part have the
    mean 1: what all are multiplied by changes nothing.

    Args:
        targets: what is predicted.
        values: the targets, [molecules, columns], NaN where empty.
        train: the molecules of the training part.
        rows: the weight of each molecule.
        columns: those of targets; 1 for those that are not named.
    """
    if rows is None and not columns:
        return None
    named = dict(columns)
    each = torch.tensor([[named.get(name, 1.0) for name in targets.names]], dtype=torch.float64)
    found = each * (torch.ones(len(values)) if rows is None else rows).double()[:, None]
    usual = found[train][~values[train].isnan()].mean()
    return (found / usual).float()


def beside(encoded: Tensor, weights: Tensor) -> Tensor:
    """Targets as a network takes them, with their weights behind them: see `cwnet.data.Dataset.weighted`."""
    return torch.cat([encoded.float().reshape(len(weights), -1), weights], 1)
