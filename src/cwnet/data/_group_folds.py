"""Folds of whole groups, such as scaffolds or clusters."""

from __future__ import annotations

import numpy as np
import torch

from cwnet.data._splits import Ints, Split, SplitError, shuffled

__all__ = ["group_kfold_split"]


def group_kfold_split(groups: Ints, k: int = 5, *, val: float = 0.1, seed: int = 0, what: str = "group") -> list[Split]:
    """Split into k folds, each the test set of one split, such that no group is in two parts.

    The largest groups come first, and each goes to the fold that has the fewest graphs by then. Of the groups that are
    not tested on, some are for validation: by chance, up to the share asked for, and at least one.

    Args:
        groups: the number of the group of each graph, [graphs].
        k: number of folds.
        val: share of all graphs to choose models by.
        seed: of the order of groups of one size, and of those for validation.
        what: a group is called in messages.

    Raises:
        SplitError: with too few groups: every split needs one to train on, to choose by and to test on.

    >>> group_kfold_split(np.array([0, 0, 1, 1, 2, 3]), k=2)[0]
    Split(2 train, 1 val, 3 test)
    """
    if k < 2:
        raise SplitError(f"{k} folds: there must be at least 2")
    numbers, group = np.unique(groups, return_inverse=True)
    sizes = np.bincount(group, minlength=len(numbers))
    if len(numbers) < max(k, 3):
        raise SplitError(f"there are {len(numbers)} {what}s for {k} folds, and none is cut: take fewer folds")
    by_chance = shuffled(len(numbers), seed)
    fold, filled = np.zeros(len(numbers), dtype=np.int64), np.zeros(k, dtype=np.int64)
    for one in by_chance[np.argsort(-sizes[by_chance], kind="stable")].tolist():
        fold[one] = filled.argmin()
        filled[fold[one]] += sizes[one]
    splits = []
    for i in range(k):
        rest = by_chance[fold[by_chance] != i]
        if len(rest) < 2:
            raise SplitError(f"fold {i + 1} leaves one {what} to train on and to choose by: take more folds")
        held = _held_back(rest, sizes, val * len(group))
        chosen, tested = np.isin(group, held), fold[group] == i
        splits.append(Split(*(torch.from_numpy(np.flatnonzero(part)) for part in (~tested & ~chosen, chosen, tested))))
    return splits


def _held_back(rest: Ints, sizes: Ints, room: float) -> Ints:
    """Groups in their order as long as there is room for them; the smallest where there is room for none."""
    held: list[int] = []
    for one in rest[:-1].tolist():
        if sizes[one] <= room:
            held.append(one)
            room -= sizes[one]
    return np.array(held or [rest[sizes[rest].argmin()]], dtype=np.int64)
