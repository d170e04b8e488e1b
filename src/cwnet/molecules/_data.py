"""From a table of molecules to what is trained on: complexes, targets, a split."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cwnet.chem import Featuriser
from cwnet.chem._featuriser import count_fragmented
from cwnet.complexes import ComplexStore
from cwnet.data import (
    MoleculeTable,
    Split,
    cluster_split,
    column_split,
    kennard_stone_split,
    lift_table,
    load_split,
    random_split,
    scaffold_split,
    time_split,
)
from cwnet.data._similarity_splits import THRESHOLD
from cwnet.errors import CwnetError, LiftingWarning
from cwnet.molecules._levels import LEVELS, Level
from cwnet.molecules._rows import are_reactions, without_gaps
from cwnet.molecules._targets import Targets
from cwnet.molecules._weights import row_weights, without_zero

__all__ = ["FEWEST", "Prepared", "check_count", "divided", "lifted", "prepare", "strata", "stratified_split"]

#: Fewer molecules can not be split into parts to train, choose and test by.
FEWEST = 10
#: With fewer, a test part says little.
FEW = 50


@dataclass(frozen=True, eq=False)
class Prepared:
    """Molecules ready for training.

    Attributes:
        store: their complexes, with values as `y`: [molecules, columns], NaN where empty, classes numbered.
        table: the rows of the file that they are.
        targets: what is predicted; scaled by the training part.
        split: which molecules are for what, by their numbers in `store`.
        positions: the number of each among the rows of the file that could be read as rows, counted from 0.
        notes: what was decided or left out on the way.
        featuriser: made the complexes.
        weights: how much each molecule weighs in training, [molecules]; None where all weigh the same.
    """

    store: ComplexStore
    table: MoleculeTable
    targets: Targets
    split: Split
    positions: Tensor
    notes: tuple[str, ...]
    featuriser: Featuriser
    weights: Tensor | None = None

    @property
    def first_molecules(self) -> list[str]:
        """The first molecule of every row, by which rows of several are split."""
        return [self.featuriser.split(row)[0] for row in self.table.smiles]

    @property
    def values(self) -> Tensor:
        """The targets as they are in the file, [molecules, columns]; a row per atom or bond where these have them."""
        return self.level.targets_of(self.store)

    @property
    def level(self) -> Level:
        """What has the targets."""
        return LEVELS[self.targets.level]

    def values_of(self, molecules: Tensor) -> Tensor:
        """The targets of some of the molecules."""
        return self.values[self.level.rows(self.store, molecules)]


def prepare(
    table: MoleculeTable,
    featuriser: Featuriser,
    split: str = "random",
    seed: int = 0,
    weight_column: str | None = None,
    descriptor_columns: Sequence[str] = (),
) -> Prepared:
    """Lift the molecules of a table and split them.

    Args:
        table: with targets.
        featuriser: makes complexes of them.
        split: "random" (80, 10 and 10 %, classes in equal shares), "scaffold", "cluster" (or with another distance,
            "cluster:0.4"), "kennard-stone" (these three by the first molecule of a row), "time:COLUMN", "column:NAME",
            or "file:PATH" of a ``split.json``, whose numbers count the rows of the table from 0.
        seed: of a random split.
        weight_column: the column that says how much each molecule weighs.
        descriptor_columns: of numbers that the model is to see beside molecules; rows without them are left out.

    Raises:
        CwnetError: for a table from which nothing can be learnt; it says what to change.
    """
    found = lifted(table, featuriser, weight_column, descriptor_columns)
    return divided(found, _split(split, seed, table, found), f"--split {split}")


def lifted(
    table: MoleculeTable,
    featuriser: Featuriser,
    weight_column: str | None = None,
    descriptor_columns: Sequence[str] = (),
) -> Prepared:
    """The molecules of a table as `prepare` makes them, before they are split."""
    if table.y is None or not table.targets:
        why = next((f" ({note})" for note in table.notes if note.startswith("row ")), "")
        raise CwnetError(f"{table.path}: no column of numbers was found{why}: name what to learn with --target-columns")
    where = str(table.path)
    Targets.of(table.targets, table.y, table.classes, where)  # refused before the work is done
    labelled = ~table.y.isnan().all(1)
    check_count(int(labelled.sum()), where)
    numbered = table.select(labelled.numpy())
    if weight_column is not None:
        if weight_column in table.targets:
            raise CwnetError(
                f"{where}: {weight_column!r} is a target and the weight: name what to learn with --target-columns"
            )
        row_weights(numbered, weight_column)  # refused before the work is done
    if descriptor_columns:
        numbered = without_gaps(numbered, descriptor_columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LiftingWarning)  # the notes say it
        store, good = lift_table(
            numbered, featuriser.rule(), pack=featuriser.pack, on_budget="skip", duplicates=not featuriser.parts
        )
    check_count(len(good), where)
    positions = torch.from_numpy(np.flatnonzero(np.isin(table.rows, good.rows)))
    values: Tensor | None = good.y
    assert values is not None
    targets = Targets.of(good.targets, values, good.classes, where)
    weights = None if weight_column is None else row_weights(good, weight_column)
    notes = [*good.notes, *_notes(good, int((~labelled).sum()))]
    return Prepared(store, good, targets, Split([], [], []), positions, tuple(notes), featuriser, weights)  # type: ignore[arg-type]


def divided(found: Prepared, parts: Split, wish: str) -> Prepared:
    """Molecules with a split, if it is one to train with; their targets are scaled by the training part.

    Args:
        found: what `lifted` gave.
        parts: the split.
        wish: what asked for it, for messages.
    """
    notes = list(found.notes)
    if found.weights is not None:
        whole, parts = len(parts), without_zero(parts, found.weights)
        if left_out := whole - len(parts):
            notes.append(f"molecules of weight 0 take no part in training: {left_out:,}")
    values, targets = found.values, found.targets
    _checked(parts, wish)
    _check_training_part(targets, values[parts.train], str(found.table.path))
    notes += _warnings(targets, values, parts, found.table.smiles, found.featuriser)
    return replace(found, targets=targets.scaled_by(values[parts.train]), split=parts, notes=tuple(notes))


def check_count(count: int, where: str) -> None:
    """Refuse a handful of molecules."""
    if count < FEWEST:
        raise CwnetError(f"{where}: there are {count} molecules with targets, and at least {FEWEST} are needed")


def _notes(table: MoleculeTable, unlabelled: int) -> list[str]:
    notes = []
    if unlabelled:
        notes.append(f"rows without any target were left out: {unlabelled:,}")
    if table.rejects:
        first = table.rejects[0]
        notes.append(
            f"rows that could not be read: {len(table.rejects):,}; the first is row {first.row}: {first.reason}"
        )
    if not are_reactions(table) and (parted := count_fragmented(table.smiles)):
        notes.append(f"molecules of several fragments, such as salts, are taken whole: {parted:,}")
    return notes


def _check_training_part(targets: Targets, values: Tensor, where: str) -> None:
    """Refuse a training part that has no value of a column, or nothing but one value of the only one."""
    for i, name in enumerate(targets.names):
        known = values[~values[:, i].isnan(), i]
        if not len(known):
            raise CwnetError(
                f"{where}: no molecule of the training part has a value of {name!r}: choose another --split, or leave "
                "the column out with --target-columns"
            )
        if len(targets.names) == 1 and bool((known == known[0]).all()):
            shown = _shown(targets, i, float(known[0]))
            raise CwnetError(
                f"{where}: all molecules of the training part have the same {name!r}, {shown}, so there is nothing to "
                "learn: choose another --split"
            )


def _shown(targets: Targets, column: int, value: float) -> str:
    return repr(targets.classes[column][int(value)]) if targets.classes else f"{value:g}"


def _warnings(
    targets: Targets, values: Tensor, split: Split, smiles: Sequence[str], featuriser: Featuriser
) -> list[str]:
    """What will make a model worth less than its reader may think."""
    said = []
    if len(values) < FEW:
        said.append(f"{len(values)} molecules are few: figures of one test part say little, --replicates 5 says more")
    if _all_the_same(smiles, featuriser):
        said.append("all rows are one molecule: the model can learn no more than its mean")
    for i, name in enumerate(targets.names):
        column = values[:, i]
        distinct = torch.unique(column[~column.isnan()])
        if targets.task == "regression" and len(distinct) <= 3 and bool((distinct == distinct.round()).all()):
            said.append(
                f"{name!r} has {len(distinct)} values only and is taken for numbers: --task classification takes them "
                "for classes"
            )
        for part, what in (("val", "validation"), ("test", "test")):
            known = column[getattr(split, part)]
            known = known[~known.isnan()]
            if targets.classes and len(known) and bool((known == known[0]).all()):
                said.append(f"the {what} part has one class only of {name!r}, so ROC-AUC has no value there")
    return said


def _all_the_same(smiles: Sequence[str], featuriser: Featuriser) -> bool:
    first = featuriser.canonical(smiles[0])
    return all(text == smiles[0] or featuriser.canonical(text) == first for text in smiles)


# ------------------------------------------------------------------------------------------------ splits


def _split(wish: str, seed: int, whole: MoleculeTable, found: Prepared) -> Split:
    kind, _, name = wish.partition(":")
    table = found.table
    if kind == "random" and not name:
        return stratified_split(found.values, found.targets, seed)
    first = found.first_molecules
    if kind == "scaffold" and not name:
        return scaffold_split(first)
    if kind == "cluster":
        return cluster_split(first, threshold=cluster_threshold(wish))
    if kind == "kennard-stone" and not name:
        return kennard_stone_split(first, seed=seed)
    if kind == "time" and name:
        return time_split(table.column(name), rows=table.rows.tolist())
    if kind == "column" and name:
        return column_split(table.column(name), rows=table.rows.tolist())
    if kind == "file" and name:
        return _only(load_split(Path(name), count=len(whole)), found.positions)
    raise CwnetError(
        f"--split {wish}: write random, scaffold, cluster, kennard-stone, time:COLUMN, column:NAME or file:PATH"
    )


def cluster_threshold(wish: str) -> float:
    """The distance in "cluster:0.4", or the usual one of "cluster"."""
    _, colon, text = wish.partition(":")
    try:
        return float(text) if colon else THRESHOLD
    except ValueError:
        raise CwnetError(f"--split {wish}: {text!r} is not a distance; write cluster, or as in cluster:0.4") from None


def stratified_split(y: Tensor, targets: Targets, seed: int = 0) -> Split:
    """80, 10 and 10 % by chance, of each class alike; of several columns it counts whether any is of the second."""
    if targets.task == "regression":
        return random_split(len(y), seed=seed)
    groups = strata(y, targets)
    parts: dict[str, list[Tensor]] = {"train": [], "val": [], "test": []}
    for group in torch.unique(groups):
        members = (groups == group).nonzero()[:, 0]
        order = members[random_split(len(members), (1.0, 0.0, 0.0), seed=seed).train]
        # At least one of each class to choose and to test by, where there are three.
        held = max(round(0.1 * len(order)), 1) if len(order) > 2 else 0
        for name, part in zip(parts, torch.split(order, [len(order) - 2 * held, held, held]), strict=True):
            parts[name].append(part)
    return Split(*(torch.cat(found).sort().values for found in parts.values()))


def strata(y: Tensor, targets: Targets) -> Tensor:
    """What is to be in all parts alike, [molecules]: the class; of several columns, whether any is of the second."""
    if targets.task == "regression":
        return torch.zeros(len(y))
    return torch.nan_to_num(y[:, 0], nan=-1) if y.shape[1] == 1 else (y == 1).any(1).float()


def _only(split: Split, positions: Tensor) -> Split:
    """A split of all rows as one of those that are left, which get new numbers."""
    number = {int(p): i for i, p in enumerate(positions)}

    def kept(part: Tensor) -> Any:
        return torch.tensor([number[int(p)] for p in part if int(p) in number], dtype=torch.int64)

    return Split(kept(split.train), kept(split.val), kept(split.test))


def _checked(split: Split, wish: str) -> None:
    """Refuse a split that leaves nothing to train on, or to choose by."""
    for name, part in (("train", split.train), ("val", split.val)):
        if not len(part):
            raise CwnetError(f"{wish}: there is no molecule for {name}, and it takes some to train and to choose")


def in_file(split: Split, positions: Tensor) -> Split:
    """A split with the numbers that molecules have among the rows of their file."""
    return replace(split, train=positions[split.train], val=positions[split.val], test=positions[split.test])
