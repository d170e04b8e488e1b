"""Targets of atoms and bonds: columns of a table that hold a list of numbers for every molecule."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwnet.data._tables import _NO_NUMBER, MoleculeTable, TableError, _known, _number, _short, read_table

__all__ = ["cell_lists", "read_cell_table"]

Numbers = NDArray[np.float64]


def read_cell_table(
    path: str | os.PathLike[str], smiles_column: str | None = None, target_columns: Sequence[str] | None = None
) -> MoleculeTable:
    """Read a table whose targets are lists, a number for every atom or bond, as in ``[0.1, -0.2, null]``.

    The table has the names of the columns in `targets` and no `y`: the lists are in its columns, and `cell_lists` reads
    them, since how long they must be is known of molecules only.

    Args:
        path: as in `read_table`.
        smiles_column: as there.
        target_columns: the columns; by default all that hold nothing but lists.

    Raises:
        TableError: as there, and where no column holds lists.
    """
    table = read_table(path, smiles_column, ())
    names = list(table.columns.column_names)
    if target_columns is not None:
        return replace(table, targets=tuple(_known(name, names, table.path) for name in dict.fromkeys(target_columns)))
    found = tuple(name for name in names if _holds_lists(table.columns.column(name).to_pylist()))
    if not found:
        raise TableError(
            "no column holds lists, such as [0.1, -0.2, null] with a number for every atom or bond: name one with "
            "--target-columns, or leave out --target-level for targets of molecules",
            table.path,
        )
    named = ", ".join(map(repr, found))
    return replace(table, targets=found, notes=(*table.notes, f"no target columns were named; lists are in {named}"))


def _holds_lists(values: Sequence[Any]) -> bool:
    there = [value for value in values if value is not None and str(value).strip().lower() not in _NO_NUMBER]
    return bool(there) and all(isinstance(value, list) or str(value).lstrip().startswith("[") for value in there)


def cell_lists(table: MoleculeTable, name: str) -> list[Numbers | None]:
    """The lists of a column, NaN for entries that are empty, "null", "NaN" or the like; None where the cell is empty.

    Raises:
        TableError: for what is no list of numbers, with its row.
    """
    values = table.columns.column(name).to_pylist()
    return [_numbers(value, name, table, int(row)) for value, row in zip(values, table.rows, strict=True)]


def _numbers(value: Any, name: str, table: MoleculeTable, row: int) -> Numbers | None:
    if isinstance(value, list):  # of Parquet
        entries = ["" if entry is None else str(entry) for entry in value]
    else:
        text = "" if value is None else str(value).strip()
        if text.lower() in _NO_NUMBER:
            return None
        if not (text.startswith("[") and text.endswith("]")):
            what = "a number" if _number(text) is not None else "no list"
            raise TableError(
                f"{_short(text)} in the column {name!r} is {what}, and a list is needed with a number for every atom "
                "or bond, such as [0.1, -0.2, null]: correct it, or leave out --target-level for targets of molecules",
                table.path,
                row,
            )
        entries = text[1:-1].split(",") if text[1:-1].strip() else []
    return np.array([_entry(entry.strip(), name, table, row) for entry in entries], dtype=np.float64)


def _entry(text: str, name: str, table: MoleculeTable, row: int) -> float:
    if text.lower() in _NO_NUMBER:
        return float("nan")
    value = _number(text)
    if value is None:
        raise TableError(
            f"{_short(text)} in a list of the column {name!r} is not a finite number: correct it, or write null where "
            "none is known",
            table.path,
            row,
        )
    return value
