"""From molecules to complexes with features: one way for training and prediction, with a name and a version."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from cwnet.chem._features import ATOM_SIZES, BOND_SIZES, pack_features, saturated
from cwnet.chem._read import OnError, parse
from cwnet.complexes import ComplexStore
from cwnet.errors import CwnetError, GraphError, LiftingWarning
from cwnet.lifting import Lifting, as_lifting, lift_many
from cwnet.lifting._liftings import within

if TYPE_CHECKING:
    from rdkit.Chem import Mol

__all__ = ["MAX_RINGS", "Featuriser", "canonical", "count_fragmented"]

#: Version 1 has OGB's columns, whose stereochemistry depends on how a SMILES is written. Models that were trained with
#: it keep it.
_NAME, _VERSIONS = "ogb", (1, 2)

#: Rings of one molecule, at the most, whatever is done with it: cages of a few hundred atoms have millions.
MAX_RINGS = 10_000


@dataclass(frozen=True)
class Featuriser:
    """Molecules as complexes: atoms, bonds and rings, with OGB's columns of categories on atoms and bonds.

    Columns of stereochemistry hold labels (R and S, E and Z), so that all of it is a function of the molecule, however
    its SMILES is written.

    A model keeps the one it was trained with. Name and version say what the columns mean; they change when the columns
    do, so that no model meets features it does not know.

    Args:
        lifting: which rings are cells, as text.
        max_atoms: molecules with more atoms are refused.
        name: of the columns; there is one so far.
        version: of their meaning.

    >>> Featuriser()(["c1ccccc1", "CCO"])
    ComplexStore(2 complexes: 9 vertices, 8 edges, 1 2-cell, Rings(18))
    """

    lifting: str = "rings:18"
    max_atoms: int = 500
    name: str = _NAME
    version: int = _VERSIONS[-1]

    def __post_init__(self) -> None:
        if self.name != _NAME or self.version not in _VERSIONS:
            raise CwnetError(
                f"the featuriser {self.name!r}, version {self.version}, is not of this cwnet, which has {_NAME!r}, "
                f"version {_VERSIONS[-1]}: use the cwnet that the model was trained with, or train it anew"
            )
        if type(self.max_atoms) is not int or self.max_atoms < 1:
            raise CwnetError(f"the featuriser takes molecules of up to {self.max_atoms!r} atoms: it must be at least 1")
        try:
            as_lifting(self.lifting)
        except (ValueError, TypeError) as error:
            raise CwnetError(f"the rings of the featuriser, {self.lifting!r}: {error}") from None

    @property
    def parts(self) -> tuple[str, ...]:
        """What the molecules of a row are called; empty where a row is one molecule."""
        return ()

    @property
    def slots(self) -> int:
        """Parts of a complex that a network reads out one by one: as many as the last column of atoms numbers."""
        return 1

    @property
    def atom_sizes(self) -> tuple[int, ...]:
        """Categories of every column of atoms."""
        return ATOM_SIZES

    @property
    def bond_sizes(self) -> tuple[int, ...]:
        """Categories of every column of bonds."""
        return BOND_SIZES

    @property
    def example(self) -> str:
        """A small row: molecules of two atoms and a bond."""
        return "CC"

    def split(self, row: str) -> tuple[str, ...]:
        """The SMILES of a row.

        Raises:
            GraphError: where there are too few or too many.
        """
        return (row,)

    def parsed(self, row: str) -> Any:
        """The molecule of a row, or the tuple of them if there are several, as `pack` takes them.

        Raises:
            GraphError: for one that does not parse, with its name where there are several.
        """
        return parse(row)

    def canonical(self, row: str) -> str:
        """RDKit's canonical SMILES of all molecules of a row."""
        return ",".join(map(canonical, self.split(row)))

    def pack(self, molecules: Iterable[Mol | str], *, on_error: OnError = "raise") -> ComplexStore:
        """The molecules as graphs with features, in the way of `cwnet.chem.pack_molecules`."""
        return pack_features(molecules, None, on_error=on_error, max_atoms=self.max_atoms, labels=self.version > 1)

    def __call__(self, molecules: Iterable[Mol | str], *, threads: int | None = None) -> ComplexStore:
        """The molecules as complexes; one that can not be is an error, with its position."""
        return replace(lift_many(self.pack(molecules), self.rule(), threads), lifting=repr(as_lifting(self.lifting)))

    def rule(self, max_cells: int = MAX_RINGS) -> Lifting:
        """The lifting with the budget that all molecules have."""
        return within(as_lifting(self.lifting), max_cells)

    def readable(
        self, molecules: Sequence[Mol | str], *, threads: int | None = None, max_cells: int = MAX_RINGS
    ) -> tuple[ComplexStore, dict[int, str]]:
        """The molecules that can be complexes; and of the others, by position, why they can not.

        Those of more rings than `max_cells` can not.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LiftingWarning)  # the caller gets to know
            graphs = self.pack(molecules, on_error="skip")
            store = lift_many(graphs, self.rule(max_cells), threads, on_error="skip", on_budget="skip")
        reasons = {_position(error): _reason(error) for error in graphs.skipped}
        packed = [i for i in range(len(molecules)) if i not in reasons]
        for error in store.skipped[len(graphs.skipped) :]:
            reasons[packed[_position(error)]] = _reason(error)
        return replace(store, lifting=repr(as_lifting(self.lifting))), reasons

    def saturated(self, store: ComplexStore) -> ComplexStore:
        """The same skeletons as saturated hydrocarbons: every atom a carbon of single bonds, whatever it was."""
        return replace(store, x=saturated(store))

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Featuriser:
        """What `to_dict` wrote."""
        known = [f.name for f in fields(cls)]
        for key in table:
            if key not in known:
                raise CwnetError(f"a featuriser has no {key!r}: it was written by another version of cwnet")
        return cls(**table)


def _position(error: CwnetError) -> int:
    return int(getattr(error, "position", None) or 0)


def _reason(error: CwnetError) -> str:
    return error.reason if isinstance(error, GraphError) else str(error).partition(": ")[2]


def canonical(smiles: str) -> str:
    """RDKit's canonical SMILES of a molecule."""
    from cwnet.chem._read import parse, rdkit_failures, require_rdkit

    with rdkit_failures(f"{smiles!r} has no canonical SMILES"):
        return str(require_rdkit().MolToSmiles(parse(smiles)))


def count_fragmented(smiles: Iterable[str]) -> int:
    """How many SMILES have several parts, such as salts. A dot within brackets does not part."""
    return sum("." in re.sub(r"\[[^\]]*\]", "", text) for text in smiles)
