"""Several molecules per row, such as a solute and its solvent, as one complex."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from cwnet.chem._features import ATOM_SIZES
from cwnet.chem._featuriser import Featuriser
from cwnet.chem._read import OnError, check_arguments, parse, warn_of
from cwnet.complexes import ComplexStore
from cwnet.complexes._union import disjoint_unions
from cwnet.errors import CwnetError, GraphError, LiftingWarning

if TYPE_CHECKING:
    from rdkit.Chem import Mol

__all__ = ["RowFeaturiser"]

#: Molecules of a row, at the most.
_MOST = 8


@dataclass(frozen=True)
class RowFeaturiser(Featuriser):
    """Rows of several molecules as complexes: the disjoint union of theirs. Atoms have one more column, their slot.

    A row is written with commas, as in "CCO,O", or given as a tuple of molecules. Slots are numbered from 0 in the
    order of `columns`.

    Args:
        columns: what the molecules are called.

    >>> RowFeaturiser(columns=("solute", "solvent"))(["c1ccccc1,O"])
    ComplexStore(1 complex: 7 vertices, 6 edges, 1 2-cell, Rings(18))
    """

    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(isinstance(name, str) for name in self.columns):
            raise CwnetError(f"the columns of molecules are named by texts, not by {self.columns!r:.100}")
        if not 2 <= len(self.columns) <= _MOST or len(set(self.columns)) < len(self.columns):
            raise CwnetError(f"the molecules of a row are in 2 to {_MOST} columns, not in {', '.join(self.columns)}")

    @property
    def parts(self) -> tuple[str, ...]:
        return self.columns

    @property
    def slots(self) -> int:
        return len(self.columns)

    @property
    def atom_sizes(self) -> tuple[int, ...]:
        return (*ATOM_SIZES, len(self.columns))

    @property
    def example(self) -> str:
        return ",".join("C" for _ in self.columns)

    def split(self, row: str) -> tuple[str, ...]:
        found = tuple(text.strip() for text in row.split(","))
        if len(found) != len(self.columns):
            raise GraphError(
                f"{row!r:.300} has {len(found)} SMILES, and {len(self.columns)} are needed, separated by commas: "
                f"{', '.join(self.columns)}"
            )
        return found

    def parsed(self, row: str) -> tuple[Mol, ...]:
        return tuple(self._parsed(name, text) for name, text in zip(self.columns, self.split(row), strict=True))

    def _parsed(self, name: str, text: str) -> Mol:
        try:
            return parse(text)
        except GraphError as error:
            raise GraphError(f"{name}: {error.reason}") from None

    def pack(self, molecules: Iterable[Any], *, on_error: OnError = "raise") -> ComplexStore:
        check_arguments(molecules, on_error)
        flat: list[Any] = []
        owners: list[int] = []
        errors: dict[int, GraphError] = {}
        for i, row in enumerate(molecules):
            try:
                flat += self.split(row) if isinstance(row, str) else row
                owners.append(i)
            except GraphError as error:
                errors[i] = error
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LiftingWarning)  # there is one for rows below
            store = super().pack(flat, on_error="skip")
        unread = {error.position or 0: error.reason for error in store.skipped if isinstance(error, GraphError)}
        for position, reason in unread.items():
            owner, slot = divmod(position, self.slots)
            errors.setdefault(owners[owner], GraphError(f"{self.columns[slot]}: {reason}"))
        skipped = [errors[i].moved_to(i) for i in sorted(errors)]
        if skipped and on_error == "raise":
            raise skipped[0]
        warn_of(skipped, "store")
        packed = [i for i in range(len(flat)) if i not in unread]
        whole = [at for at, i in enumerate(packed) if owners[i // self.slots] not in errors]
        return replace(self._united(store.select(whole)), skipped=tuple(skipped))

    def _united(self, store: ComplexStore) -> ComplexStore:
        """Molecules one after another as rows; the slot of an atom is its last column."""
        x = store.x[0]
        assert x is not None
        slots = torch.arange(len(store)) % self.slots
        column = torch.repeat_interleave(slots, store.cell_ptr[0].diff()).to(x.dtype)
        return disjoint_unions(replace(store, x=(torch.cat([x, column[:, None]], 1), *store.x[1:])), self.slots)

    def saturated(self, store: ComplexStore) -> ComplexStore:
        x = store.x[0]
        assert x is not None
        plain = super().saturated(store)
        carbon = plain.x[0]
        assert carbon is not None
        return replace(plain, x=(torch.cat([carbon[:, :-1], x[:, -1:]], 1), *plain.x[1:]))
