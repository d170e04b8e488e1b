"""Rows of a table as a model reads them: SMILES, and the numbers of other columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwnet.data import MoleculeTable
from cwnet.data._tables import Reject, _is_string, _is_target, _not_a_number, _numbers
from cwnet.errors import CwnetError

__all__ = ["Rows", "are_reactions", "rows_of", "with_molecules", "without_gaps"]


@dataclass(frozen=True, eq=False)
class Rows:
    """Molecules with the numbers that stand beside them.

    Attributes:
        smiles: the molecules.
        given: the numbers, [molecules, columns]; None where a model asks for none.
        reasons: of rows that cannot be used, by position, why.
    """

    smiles: Sequence[str]
    given: NDArray[np.float32] | None = None
    reasons: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.smiles)

    def part(self, start: int, stop: int) -> Rows:
        """Some of them, one after another."""
        reasons = {i - start: reason for i, reason in self.reasons.items() if start <= i < stop}
        return Rows(self.smiles[start:stop], None if self.given is None else self.given[start:stop], reasons)


def are_reactions(table: MoleculeTable) -> bool:
    """Whether the first row is a reaction: no SMILES of a molecule has an arrow."""
    return bool(table.smiles) and ">>" in table.smiles[0]


def with_molecules(table: MoleculeTable, columns: Sequence[str]) -> MoleculeTable:
    """The table with the SMILES of several columns in each row, written with commas; as it is for fewer than two.

    Raises:
        CwnetError: for a column that is not there, or that is no text.
    """
    if len(columns) < 2:
        return table
    texts = []
    for name in columns:
        column = _column(table, name, "of SMILES")
        if not _is_string(column.type):
            raise CwnetError(f"{table.path}: the column {name!r} is of type {column.type}, and SMILES are text")
        texts.append(["" if text is None else text.strip() for text in column.to_pylist()])
    return replace(table, smiles=[",".join(row) for row in zip(*texts, strict=True)])


def _column(table: MoleculeTable, name: str, what: str) -> Any:
    """A column that a model needs."""
    names = list(table.columns.column_names)
    if name not in names:
        raise CwnetError(
            f"{table.path}: the model needs a column {name!r} {what}, and the columns are "
            f"{', '.join(map(repr, names[:20]))}"
        )
    return table.columns.column(name)


def rows_of(table: MoleculeTable, columns: Sequence[str] = ()) -> Rows:
    """The rows of a table with the numbers of some columns.

    Raises:
        CwnetError: for a column that is not there, or that has no numbers by its type.
    """
    if not columns:
        return Rows(table.smiles)
    reasons: dict[int, str] = {}
    found = []
    for name in columns:
        values, wrong = _read(table, name)
        found.append(values)
        for i, reason in wrong.items():
            reasons.setdefault(i, reason)
    return Rows(table.smiles, np.stack(found, axis=1).astype(np.float32), reasons)


def _read(table: MoleculeTable, name: str) -> tuple[NDArray[np.float64], dict[int, str]]:
    """The numbers of a column; and where there is none, why."""
    column = _column(table, name, "of numbers")
    if not _is_target(column.type):
        raise CwnetError(f"{table.path}: the column {name!r} is of type {column.type}, and descriptors are numbers")
    values, bad = _numbers(column)
    reasons = {int(i): f"the column {name!r} is empty" for i in np.flatnonzero(np.isnan(values) & ~bad)}
    reasons |= {int(i): _not_a_number(name, str(column[int(i)].as_py()).strip()) for i in np.flatnonzero(bad)}
    return values, reasons


def without_gaps(table: MoleculeTable, columns: Sequence[str]) -> MoleculeTable:
    """The rows of a table that have all of these numbers; the others are among its rejects.

    Raises:
        CwnetError: where there is none.
    """
    rows = rows_of(table, columns)
    rejects = [Reject(int(table.rows[i]), table.smiles[i], why) for i, why in sorted(rows.reasons.items())]
    if rejects and len(rejects) == len(table):
        raise CwnetError(f"{table.path}: no row has all descriptors; row {rejects[0].row}: {rejects[0].reason}")
    kept = [i for i in range(len(table)) if i not in rows.reasons]
    everything = sorted([*table.rejects, *rejects], key=lambda reject: reject.row)
    return replace(table.select(kept), rejects=tuple(everything))
