"""Molecules as the parts of a model see them: complexes, counted fingerprints, descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cwnet.chem import Featuriser
from cwnet.chem._descriptors import Counts, descriptors, morgan_counts
from cwnet.chem._read import parse
from cwnet.complexes import ComplexStore
from cwnet.errors import CwnetError, GraphError
from cwnet.lifting._lift import num_threads
from cwnet.molecules._rows import Rows

__all__ = ["Inputs", "Wanted", "describe", "read_inputs"]

#: Molecules from which on it pays to start more processes, and how many a task has.
_MANY, _TASK = 2_000, 128


@dataclass(frozen=True)
class Wanted:
    """What is computed of molecules beside their complexes.

    Attributes:
        radius, size: of counted Morgan fingerprints; `size` is 0 for none.
        names: of descriptors.
        columns: of the table, whose numbers are taken as they are.
    """

    radius: int = 2
    size: int = 0
    names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is to be computed, for which molecules have to be there."""
        return bool(self.size or self.names)


@dataclass(frozen=True, eq=False)
class Inputs:
    """Molecules as the parts of a model see them.

    Attributes:
        store: their complexes.
        counts: their counted fingerprints, if these were wanted.
        numbers: their descriptors, [molecules, names], NaN where there is none.
        given: the numbers that stand beside them in a table, [molecules, columns].

    Where a row has several molecules, all of this is of rows: fingerprints and descriptors of the molecules lie side by
    side, in the order of `Featuriser.parts`.
    """

    store: ComplexStore
    counts: Counts | None = None
    numbers: NDArray[np.float32] | None = None
    given: NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.store)

    def select(self, rows: Tensor) -> Inputs:
        """Some of the molecules."""
        at = rows.numpy()
        return Inputs(
            self.store.select(rows),
            None if self.counts is None else self.counts.select(at),
            None if self.numbers is None else self.numbers[at],
            None if self.given is None else self.given[at],
        )


def describe(rows: Sequence[str], store: ComplexStore, wanted: Wanted, featuriser: Featuriser | None = None) -> Inputs:
    """What is wanted of molecules whose complexes are there already, by all cores where there are many."""
    if not wanted:
        return Inputs(store)
    parts = len(featuriser.parts) if featuriser is not None else 0
    smiles = [text for row in rows for text in featuriser.split(row)] if featuriser is not None else list(rows)
    tasks = [smiles[i : i + _TASK] for i in range(0, len(smiles), _TASK)]
    if len(smiles) < _MANY or num_threads(None) == 1:
        found = [_described(task, wanted) for task in tasks]
    else:
        from joblib import Parallel, delayed  # type: ignore[import-untyped]

        found = Parallel(num_threads(None))(delayed(_described)(task, wanted) for task in tasks)
    return _side_by_side(_joined(store, found, wanted), parts, wanted)


def _side_by_side(found: Inputs, parts: int, wanted: Wanted) -> Inputs:
    """What is known of molecules one after another as what is known of rows."""
    if parts < 2:
        return found
    check_size(wanted.size, parts)
    counts, numbers = found.counts, found.numbers
    if counts is not None:
        slot = np.repeat(np.arange(len(counts)) % parts, np.diff(counts.ptr))
        column = (counts.column + slot * wanted.size).astype(np.uint16)
        counts = Counts(counts.ptr[::parts].copy(), column, counts.times)
    if numbers is not None:
        numbers = numbers.reshape(-1, parts * len(wanted.names))
    return replace(found, counts=counts, numbers=numbers)


def check_size(size: int, parts: int) -> None:
    """Refuse fingerprints whose columns have no room side by side."""
    if size * parts > 65_536:
        raise CwnetError(f"trees.size={size}: of {parts} molecules in a row, the most is {65_536 // parts}")


def _described(smiles: Sequence[str], wanted: Wanted) -> tuple[Counts, NDArray[np.float32]]:
    return _columns([parse(text) for text in smiles], wanted)


def _columns(molecules: Sequence[Any], wanted: Wanted) -> tuple[Counts, NDArray[np.float32]]:
    counts = morgan_counts(molecules if wanted.size else [], wanted.radius, wanted.size or 1)
    return counts, descriptors(molecules, wanted.names)


def _joined(store: ComplexStore, found: Sequence[tuple[Counts, NDArray[np.float32]]], wanted: Wanted) -> Inputs:
    counts = None
    if wanted.size:
        lengths = [np.diff(each.ptr) for each, _ in found]
        ptr = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
        counts = Counts(ptr, np.concatenate([c.column for c, _ in found]), np.concatenate([c.times for c, _ in found]))
    return Inputs(store, counts, np.concatenate([numbers for _, numbers in found]) if wanted.names else None)


def read_inputs(
    featuriser: Featuriser, rows: Sequence[str] | Rows, wanted: Wanted, *, threads: int | None = None
) -> tuple[Inputs, dict[int, str]]:
    """What can be read of some SMILES, or of rows of a table; and of the others, by position, why they can not."""
    rows = rows if isinstance(rows, Rows) else Rows(rows)
    places = [i for i in range(len(rows)) if i not in rows.reasons]
    inputs, more = _read_inputs(featuriser, [rows.smiles[i] for i in places], wanted, threads)
    reasons = {**rows.reasons, **{places[i]: reason for i, reason in more.items()}}
    good = [i for i in range(len(rows)) if i not in reasons]
    return replace(inputs, given=None if rows.given is None else rows.given[good]), reasons


def _read_inputs(
    featuriser: Featuriser, smiles: Sequence[str], wanted: Wanted, threads: int | None
) -> tuple[Inputs, dict[int, str]]:
    if not wanted:
        store, reasons = featuriser.readable(smiles, threads=threads)
        return Inputs(store), reasons
    reasons, molecules, places = {}, [], []
    for i, text in enumerate(smiles):
        try:
            molecules.append(featuriser.parsed(text) if isinstance(text, str) else text)
            places.append(i)
        except GraphError as error:
            reasons[i] = error.reason
    store, more = featuriser.readable(molecules, threads=threads)
    reasons |= {places[i]: reason for i, reason in more.items()}
    good = [mol for i, mol in enumerate(molecules) if i not in more]
    if featuriser.parts:
        good = [mol for row in good for mol in row]
    counts, numbers = _columns(good, wanted)
    found = Inputs(store, counts if wanted.size else None, numbers if wanted.names else None)
    return _side_by_side(found, len(featuriser.parts), wanted), reasons


def check_wanted(inputs: Inputs, wanted: Wanted) -> None:
    """Refuse molecules of which something is missing that a model asks for."""
    if (wanted.size and inputs.counts is None) or (wanted.names and inputs.numbers is None):
        raise CwnetError("this model sees more of molecules than their complexes: give SMILES")
    if wanted.columns and (inputs.given is None or inputs.given.shape[1:] != (len(wanted.columns),)):
        raise CwnetError(
            f"this model sees numbers beside molecules: give a table that has the columns {', '.join(wanted.columns)}"
        )
