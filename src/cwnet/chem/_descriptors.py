"""Molecules as columns of numbers: counted Morgan fingerprints, and the descriptors of RDKit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwnet.chem._read import quietly, require_rdkit
from cwnet.errors import CwnetError

if TYPE_CHECKING:
    from rdkit.Chem import Mol

__all__ = ["Counts", "descriptor_names", "descriptors", "morgan_atoms", "morgan_counts"]

#: Left out of RDKit's list. The first two take half a minute for a chain of 500 atoms; QED is made of others and takes
#: as long as a hundred of them; and charges depend, for some salts, on the order in which atoms are written.
_LEFT_OUT = frozenset(
    {"Ipc", "AvgIpc", "qed", "MaxPartialCharge", "MinPartialCharge", "MaxAbsPartialCharge", "MinAbsPartialCharge"}
)
#: Numbers beyond this say no more, and do not fit where they are kept.
_LARGEST = 1e9


class Counts(NamedTuple):
    """Counted fingerprints as compressed sparse rows: columns rise within a row, and none of the counts is 0."""

    ptr: NDArray[np.int64]
    column: NDArray[np.uint16]
    times: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def dense(self, size: int) -> NDArray[np.float32]:
        """As a table, [molecules, size]."""
        table = np.zeros((len(self), size), dtype=np.float32)
        table[np.repeat(np.arange(len(self)), np.diff(self.ptr)), self.column] = self.times
        return table

    def select(self, rows: NDArray[np.int64]) -> Counts:
        """Some of the rows, in the order asked for."""
        lengths = np.diff(self.ptr)[rows]
        ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        at = np.arange(ptr[-1]) + np.repeat(self.ptr[rows] - ptr[:-1], lengths)
        return Counts(ptr, self.column[at], self.times[at])

    def between(self, start: int, stop: int) -> Counts:
        """Some of the columns, numbered from 0."""
        kept = (self.column >= start) & (self.column < stop)
        ptr = np.concatenate([[0], np.cumsum(kept)])[self.ptr].astype(np.int64)
        return Counts(ptr, (self.column[kept] - start).astype(np.uint16), self.times[kept])


def morgan_counts(molecules: Sequence[Mol], radius: int, size: int) -> Counts:
    """How often every circle of bonds occurs, counted up to 255; circles share columns by their hash modulo `size`."""
    make = _generator(radius, size)
    found = [np.asarray(make.GetCountFingerprintAsNumPy(mol)) for mol in molecules]
    columns = [np.flatnonzero(row) for row in found]
    ptr = np.concatenate([[0], np.cumsum([len(row) for row in columns])]).astype(np.int64)
    times = [np.minimum(row[there], 255) for row, there in zip(found, columns, strict=True)]
    empty: list[Any] = [np.zeros(0, dtype=np.uint16)]
    return Counts(
        ptr, np.concatenate(columns or empty).astype(np.uint16), np.concatenate(times or empty).astype(np.uint8)
    )


def morgan_atoms(molecule: Mol, radius: int, size: int) -> dict[int, list[tuple[int, ...]]]:
    """The circles behind each column of a molecule's counts: the atoms of every one."""
    from rdkit.Chem import rdFingerprintGenerator

    chem = require_rdkit()
    extra = rdFingerprintGenerator.AdditionalOutput()
    extra.AllocateBitInfoMap()
    _generator(radius, size).GetCountFingerprint(molecule, additionalOutput=extra)
    circles: dict[int, list[tuple[int, ...]]] = {}
    for column, places in extra.GetBitInfoMap().items():
        for centre, reach in places:
            atoms = {centre}
            for bond in chem.FindAtomEnvironmentOfRadiusN(molecule, reach, centre) if reach else ():
                ends = molecule.GetBondWithIdx(bond)
                atoms |= {ends.GetBeginAtomIdx(), ends.GetEndAtomIdx()}
            circles.setdefault(column, []).append(tuple(sorted(atoms)))
    return circles


def descriptor_names() -> list[str]:
    """The descriptors of this RDKit, in its order, without a few that are slow or depend on how a SMILES is written."""
    return [name for name, _ in _catalogue() if name not in _LEFT_OUT]


def descriptors(molecules: Sequence[Mol], names: Sequence[str]) -> NDArray[np.float32]:
    """Descriptors of molecules, [molecules, names]; NaN where RDKit has no number.

    Raises:
        CwnetError: for a name that this RDKit does not have.
    """
    plan = _plan(tuple(names))
    table = np.full((len(molecules), len(names)), np.nan)
    with quietly():
        for row, mol in zip(table, molecules, strict=True):
            for columns, picks, ask in plan:
                try:
                    row[columns] = np.asarray(ask(mol), dtype=np.float64)[picks]
                except Exception:  # RDKit fails in many ways, and what it fails on has no number
                    continue
    table[~np.isfinite(table)] = np.nan
    found: NDArray[np.float32] = np.clip(table, -_LARGEST, _LARGEST).astype(np.float32)
    return found


Ask = Callable[[Any], Any]


@cache
def _generator(radius: int, size: int) -> Any:
    require_rdkit()
    from rdkit.Chem import rdFingerprintGenerator

    return rdFingerprintGenerator.GetMorganGenerator(radius=radius, fpSize=size)


@cache
def _catalogue() -> list[tuple[str, Any]]:
    require_rdkit()
    from rdkit.Chem import Descriptors

    return list(Descriptors.descList)


def _families() -> list[tuple[tuple[str, ...], Ask]]:
    """Descriptors that RDKit computes together, and would compute again for each name."""
    from rdkit.Chem import rdMolDescriptors as of

    def numbered(stem: str, count: int) -> tuple[str, ...]:
        return tuple(f"{stem}{i}" for i in range(1, count + 1))

    bcut = tuple(f"BCUT2D_{name}" for name in ("MWHI", "MWLOW", "CHGHI", "CHGLO", "LOGPHI", "LOGPLOW", "MRHI", "MRLOW"))
    return [
        (("MolLogP", "MolMR"), of.CalcCrippenDescriptors),
        (numbered("SlogP_VSA", 12), of.SlogP_VSA_),
        (numbered("SMR_VSA", 10), of.SMR_VSA_),
        (numbered("PEOE_VSA", 14), of.PEOE_VSA_),
        (_INDICES + numbered("EState_VSA", 11) + numbered("VSA_EState", 10), _electrotopology),
        (bcut, of.BCUT2D),
    ]


_INDICES = ("MaxEStateIndex", "MinEStateIndex", "MaxAbsEStateIndex", "MinAbsEStateIndex")


def _electrotopology(mol: Any) -> NDArray[np.float64]:
    """All that is made of the electrotopological states of the atoms, which take longest.

    Their extremes; the surface of the atoms whose state is in each bin; and the states of the atoms whose surface is.
    """
    from rdkit.Chem import rdMolDescriptors
    from rdkit.Chem.EState import EState_VSA, EStateIndices

    states = np.asarray(EStateIndices(mol), dtype=np.float64)  # type: ignore[no-untyped-call]
    surface = np.asarray(rdMolDescriptors._CalcLabuteASAContribs(mol)[0], dtype=np.float64)
    sizes = [_in_bins(states, surface, EState_VSA.estateBins), _in_bins(surface, states, EState_VSA.vsaBins)]
    extremes = [states.max(), states.min(), np.abs(states).max(), np.abs(states).min()]
    return np.concatenate([extremes, *sizes])


def _in_bins(values: NDArray[np.float64], weights: NDArray[np.float64], ends: Sequence[float]) -> NDArray[np.float64]:
    """The sum of the weights of the values in each bin; a value at an end is in the bin above."""
    sums: Any = np.bincount(np.searchsorted(ends, values, side="right"), weights, len(ends) + 1)
    return np.asarray(sums, dtype=np.float64)


@cache
def _plan(names: tuple[str, ...]) -> list[tuple[list[int], list[int], Ask]]:
    """For every question to RDKit: the columns it fills, which of its answers they are, and the question."""
    alone = dict(_catalogue())
    place = {name: i for i, name in enumerate(names)}
    for name in names:
        if name not in alone:
            raise CwnetError(f"this RDKit has no descriptor {name!r}: use the RDKit that the model was trained with")
    plan: list[tuple[list[int], list[int], Ask]] = []
    for family, ask in _families():
        wanted = [(place.pop(name), i) for i, name in enumerate(family) if name in place]
        if wanted:
            plan.append(([column for column, _ in wanted], [i for _, i in wanted], ask))
    plan += [([column], [0], _alone(alone[name])) for name, column in place.items()]
    return plan


def _alone(function: Any) -> Ask:
    return lambda mol: (function(mol),)
