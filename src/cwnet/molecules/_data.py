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
from cwnet.chem._featuriser import canonical, count_fragmented
from cwnet.complexes import ComplexStore
from cwnet.data import MoleculeTable, Split, column_split, lift_table, load_split, random_split, scaffold_split
from cwnet.errors import CwnetError, LiftingWarning
from cwnet.molecules._levels import LEVELS, Level
from cwnet.molecules._targets import Targets

__all__ = ["FEWEST", "Prepared", "check_count", "prepare", "stratified_split"]

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
    """

    store: ComplexStore
    table: MoleculeTable
    targets: Targets
    split: Split
    positions: Tensor
    notes: tuple[str, ...]

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


def prepare(table: MoleculeTable, featuriser: Featuriser, split: str = "random", seed: int = 0) -> Prepared:
    """Lift the molecules of a table and split them.

    Args:
        table: with targets.
        featuriser: makes complexes of them.
        split: "random" (80, 10 and 10 %, classes in equal shares), "scaffold", "column:NAME", or "file:PATH" of a
            ``split.json``, whose numbers count the rows of the table from 0.
        seed: of a random split.

    Raises:
        CwnetError: for a table from which nothing can be learnt; it says what to change.
    """
    if table.y is None or not table.targets:
        why = next((f" ({note})" for note in table.notes if note.startswith("row ")), "")
        raise CwnetError(f"{table.path}: no column of numbers was found{why}: name what to learn with --target-columns")
    where = str(table.path)
    Targets.of(table.targets, table.y, table.classes, where)  # refused before the work is done
    labelled = ~table.y.isnan().all(1)
    check_count(int(labelled.sum()), where)
    numbered = table.select(labelled.numpy())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LiftingWarning)  # the notes say it
        store, good = lift_table(numbered, featuriser.rule(), pack=featuriser.pack, on_budget="skip")
    check_count(len(good), where)
    positions = torch.from_numpy(np.flatnonzero(np.isin(table.rows, good.rows)))
    values: Tensor | None = good.y
    assert values is not None
    targets = Targets.of(good.targets, values, good.classes, where)
    parts = _split(split, seed, table, good, positions, targets)
    _checked(parts, split)
    _check_training_part(targets, values[parts.train], where)
    notes = [*good.notes, *_notes(good, int((~labelled).sum())), *_warnings(targets, values, parts, good.smiles)]
    return Prepared(store, good, targets.scaled_by(values[parts.train]), parts, positions, tuple(notes))


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
    if parted := count_fragmented(table.smiles):
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


def _warnings(targets: Targets, values: Tensor, split: Split, smiles: Sequence[str]) -> list[str]:
    """What will make a model worth less than its reader may think."""
    said = []
    if len(values) < FEW:
        said.append(f"{len(values)} molecules are few: figures of one test part say little, --replicates 5 says more")
    if _all_the_same(smiles):
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


def _all_the_same(smiles: Sequence[str]) -> bool:
    first = canonical(smiles[0])
    return all(text == smiles[0] or canonical(text) == first for text in smiles)


# ------------------------------------------------------------------------------------------------ splits


def _split(
    wish: str, seed: int, whole: MoleculeTable, table: MoleculeTable, positions: Tensor, targets: Targets
) -> Split:
    kind, _, name = wish.partition(":")
    if kind == "random" and not name:
        assert table.y is not None
        return stratified_split(table.y, targets, seed)
    if kind == "scaffold" and not name:
        return scaffold_split(table.smiles)
    if kind == "column" and name:
        return column_split(table.column(name), rows=table.rows.tolist())
    if kind == "file" and name:
        return _only(load_split(Path(name), count=len(whole)), positions)
    raise CwnetError(f"--split {wish}: write random, scaffold, column:NAME or file:PATH")


def stratified_split(y: Tensor, targets: Targets, seed: int = 0) -> Split:
    """80, 10 and 10 % by chance, of each class alike; of several columns it counts whether any is of the second."""
    if targets.task == "regression":
        return random_split(len(y), seed=seed)
    groups = torch.nan_to_num(y[:, 0], nan=-1) if y.shape[1] == 1 else (y == 1).any(1).float()
    parts: dict[str, list[Tensor]] = {"train": [], "val": [], "test": []}
    for group in torch.unique(groups):
        members = (groups == group).nonzero()[:, 0]
        order = members[random_split(len(members), (1.0, 0.0, 0.0), seed=seed).train]
        # At least one of each class to choose and to test by, where there are three.
        held = max(round(0.1 * len(order)), 1) if len(order) > 2 else 0
        for name, part in zip(parts, torch.split(order, [len(order) - 2 * held, held, held]), strict=True):
            parts[name].append(part)
    return Split(*(torch.cat(found).sort().values for found in parts.values()))


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
            raise CwnetError(
                f"--split {wish}: there is no molecule for {name}, and it takes some to train and to choose"
            )


def in_file(split: Split, positions: Tensor) -> Split:
    """A split with the numbers that molecules have among the rows of their file."""
    return replace(split, train=positions[split.train], val=positions[split.val], test=positions[split.test])
