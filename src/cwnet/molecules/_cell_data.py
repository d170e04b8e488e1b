"""From a table of molecules with lists of numbers to what is trained on: targets of atoms or bonds."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cwnet.chem import Featuriser
from cwnet.chem._read import require_rdkit
from cwnet.data import MoleculeTable, Split, TableError, lift_table, random_split
from cwnet.data._cell_lists import Numbers, cell_lists
from cwnet.errors import LiftingWarning
from cwnet.molecules._data import Prepared, _check_training_part, _checked, _notes, _split, check_count
from cwnet.molecules._levels import Level
from cwnet.molecules._targets import Targets

__all__ = ["prepare_cells"]


def prepare_cells(
    table: MoleculeTable, featuriser: Featuriser, level: Level, split: str = "random", seed: int = 0
) -> Prepared:
    """Lift the molecules of a table whose targets are lists, and split them; as `prepare` does for other tables.

    Lists are in the order of RDKit's atoms or bonds; that of atoms is the SMILES'. Hydrogens that a SMILES writes as
    atoms, ``[H]``, become part of their neighbours, as RDKit has it, and have no number.

    Raises:
        CwnetError: for a table from which nothing can be learnt; for a list that is too long or too short, with its
            row.
    """
    where = str(table.path)
    lists = {name: cell_lists(table, name) for name in table.targets}
    known = np.array([_has_number([each[i] for each in lists.values()]) for i in range(len(table))], dtype=bool)
    check_count(int(known.sum()), where)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LiftingWarning)  # the notes say it
        store, good = lift_table(table.select(known), featuriser.rule(), pack=featuriser.pack, on_budget="skip")
    check_count(len(good), where)
    positions = np.flatnonzero(np.isin(table.rows, good.rows))
    columns = [_joined(good, name, [lists[name][i] for i in positions], level, level.counts(store)) for name in lists]
    values = torch.from_numpy(np.stack(columns, axis=1).astype(np.float32))
    targets = Targets.of(good.targets, values, {}, where, level.name)
    notes = [
        *good.notes,
        *_notes(good, int((~known).sum())),
        f"{level.name}s are predicted by the network alone: trees see whole molecules",
    ]
    none = Split([], [], [])  # type: ignore[arg-type]
    numbers = torch.from_numpy(positions)
    found = Prepared(level.with_targets(store, values), good, targets, none, numbers, tuple(notes), featuriser)
    # A split by chance does not look at classes: every molecule has atoms of several.
    parts = random_split(len(good), seed=seed) if split == "random" else _split(split, seed, table, found)
    _checked(parts, f"--split {split}")
    trained = found.values_of(parts.train)
    _check_training_part(targets, trained, where)
    return replace(found, targets=targets.scaled_by(trained), split=parts)


def _has_number(lists: Sequence[Numbers | None]) -> bool:
    return any(each is not None and bool((~np.isnan(each)).any()) for each in lists)


def _joined(
    table: MoleculeTable, name: str, lists: Sequence[Numbers | None], level: Level, counts: Tensor
) -> NDArray[np.float64]:
    """The lists one after another, NaN where a molecule has none; refused where one is not as long as its molecule."""
    found = []
    for i, (numbers, count) in enumerate(zip(lists, counts.tolist(), strict=True)):
        if numbers is not None and len(numbers) != count:
            raise TableError(
                _mismatch(table.smiles[i], name, len(numbers), count, level), table.path, int(table.rows[i])
            )
        found.append(np.full(count, np.nan) if numbers is None else numbers)
    return np.concatenate(found)


def _mismatch(smiles: str, name: str, found: int, count: int, level: Level) -> str:
    """What is wrong with the length of a list, and what to do."""
    shown = smiles if len(smiles) <= 60 else f"{smiles[:60]}…"
    whole = require_rdkit().MolFromSmiles(smiles, sanitize=False)
    written = 0 if whole is None else whole.GetNumAtoms() if level.dim == 0 else whole.GetNumBonds()
    way = "write one for each, in the order of the SMILES, and null where none is known"
    if found == written > count:
        hydrogens = "hydrogens written as [H]" if level.dim == 0 else "bonds to hydrogens written as [H]"
        way = f"the {written - count} {hydrogens} are not counted, so leave out their numbers"
    return f"{name!r} has {found} numbers, and {shown!r} has {count} {level.name}s: {way}"
