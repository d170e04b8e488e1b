"""Numbers for molecules: OGB's features of atoms and bonds, and the penalised logP that ZINC has as its target."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from cwnet import _core
from cwnet.chem._read import (
    OnError,
    check_arguments,
    parse,
    parse_plain,
    quietly,
    rdkit_failure,
    require_rdkit,
    warn_of,
)
from cwnet.complexes import ComplexStore, Features
from cwnet.errors import GraphError

if TYPE_CHECKING:
    from rdkit.Chem import Mol

__all__ = [
    "ATOM_SIZES",
    "BOND_SIZES",
    "CYCLE_PENALTY",
    "longest_basis_cycle",
    "ogb_graphs",
    "penalised_logp",
    "saturated",
]

#: Categories of the nine atom features: atomic number, chirality, degree, formal charge, hydrogens, radical electrons,
#: hybridisation, aromatic, in a ring.
ATOM_SIZES = (119, 5, 12, 12, 10, 6, 6, 2, 2)
#: Categories of the three bond features: type, stereo, conjugated.
BOND_SIZES = (5, 6, 2)

# OGB's tables. A value that is not in one has the last category, except in that of stereo, which has none to spare.
_CHIRALITY = ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER")
_HYBRIDISATION = ("SP", "SP2", "SP3", "SP3D", "SP3D2")
_BOND_TYPE = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
_STEREO = ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY")

#: Molecules that are read from RDKit's binary form at once.
_AT_ONCE = 4096
#: Molecules with everything that the binary form tells of: charges, radicals, isotopes, hydrogens written out,
#: chirality, double bonds turned both ways, all hybridisations, fused and spiro rings, several parts.
_VARIED = (
    "C", "[H][H]", "[CH3]", "[13CH4]", "C#N", "O=C=O", "[Na+].[Cl-]", "C[NH3+]", "[O-][N+](=O)c1ccccc1", "c1ccccc1",
    "C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "C/C=C/C", "C/C=C\\C", "F/C(Cl)=C(/Br)I", "CC=C(C)CC", "S(F)(F)(F)(F)(F)F",
    "FP(F)(F)(F)F", "[Fe+2]", "[Cu]", "CC(=O)Oc1ccccc1C(=O)O", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "C1CC12CC2",
    "C1C2CC3CC1CC(C2)C3",
    "c1ccc2[nH]ccc2c1", "[nH]1cccc1", "C[S@](=O)c1ccccc1", "B(O)O", "[2H]C([2H])([2H])O", "N#[N+][O-]", "OS(=O)(=O)O",
    "C1=CC=CC=CC=C1", "[Pt](Cl)(Cl)(N)N", "[Si](C)(C)(C)C", "CC[N+](CC)(CC)CC", "[CH2]C", "O=[Se]=O", "I(=O)(=O)O",
)  # fmt: skip


def ogb_graphs(
    molecules: Iterable[Mol | str], y: Any = None, *, on_error: OnError = "raise", max_atoms: int | None = None
) -> ComplexStore:
    """Pack molecules with the features of the Open Graph Benchmark (Hu et al., 2020).

    Vertices are atoms with nine columns, edges are bonds with three, both uint8; `ATOM_SIZES` and `BOND_SIZES` say
    how many categories each column has. They depend on RDKit's chemistry and so, for a molecule in some hundred, on
    its version.

    Args:
        molecules: RDKit molecules or SMILES; SMILES are parsed one by one and let go.
        y: targets, [molecules, ...], of those that are packed.
        on_error: what to do with a molecule that can not be packed: an error, or leave it out. Errors of molecules left
            out are in ``store.skipped``, and a warning says how many they are.
        max_atoms: molecules with more atoms can not be packed; no limit by default.

    Raises:
        GraphError: for a molecule that does not parse, has no atoms or too many, with its position.

    >>> store = ogb_graphs(["C=O"])
    >>> store.x[0].tolist()[0], store.x[1].tolist()
    ([5, 0, 3, 5, 2, 0, 1, 0, 0], [[1, 0, 0]])
    """
    return pack_features(molecules, y, on_error=on_error, max_atoms=max_atoms, labels=False)


def pack_features(
    molecules: Iterable[Mol | str], y: Any, *, on_error: OnError, max_atoms: int | None, labels: bool
) -> ComplexStore:
    """Pack molecules with OGB's columns. With `labels`, those of stereochemistry are a function of the molecule.

    OGB takes RDKit's chirality tags, which say how the neighbours of an atom turn in the order in which they were
    written: another SMILES of the same molecule may have other tags. Labels are those of Cahn, Ingold and Prelog, by
    RDKit's implementation of Hanson et al. (2018): 1 is R, 2 is S, 3 and 4 are r and s, of atoms whose neighbours
    differ in their stereochemistry only; double bonds are Z (1) or E (2). Square planes and the like have none.
    """
    check_arguments(molecules, on_error)
    packed = _Packed(labels)
    skipped: list[GraphError] = []
    with quietly():
        for i, molecule in enumerate(molecules):
            try:
                packed.append(_checked(molecule, max_atoms))
            except (ImportError, MemoryError):
                raise
            except Exception as error:
                said = "the molecule can not be packed"
                wrong = error if isinstance(error, GraphError) else rdkit_failure(said, error)
                if on_error == "raise":
                    raise wrong.moved_to(i) from None
                skipped.append(wrong.moved_to(i))
    warn_of(skipped, "store")
    nodes, edges, ends, atoms, bonds = packed.arrays()
    store = ComplexStore.from_graphs(
        nodes, edges, ends.reshape(-1, 2), x=atoms.reshape(-1, 9), edge_x=bonds.reshape(-1, 3), y=y
    )  # fmt: skip
    return replace(store, skipped=tuple(skipped))


class _Packed:
    """Molecules as flat arrays, in pieces.

    RDKit tells of a molecule atom by atom, and every question takes a call: twice as long as to parse it. Its
    binary form has all of it at once, and is read in C++. What is not known there is asked for in the slow way; all is,
    if the binary form of this RDKit is another.
    """

    def __init__(self, labels: bool) -> None:
        self._labels = labels
        self._tables = _tables()
        self._fast = _binary_form_is_known()
        self._waiting: list[bytes] = []
        self._parts: list[Arrays] = []

    def append(self, mol: Any) -> None:
        if not self._fast:
            self._add(_asked(mol, self._tables), [mol.ToBinary(0)])
            return
        self._waiting.append(mol.ToBinary(0))
        if len(self._waiting) == _AT_ONCE:
            self._decode()

    def _decode(self) -> None:
        done = 0
        while done < len(self._waiting):
            found = _core.decode_molecules(self._waiting, done, *_lookup())
            if len(found[0]):
                self._add(found, self._waiting[done : done + len(found[0])])
            done += len(found[0])
            if done < len(self._waiting):
                one = self._waiting[done]
                self._add(_asked(require_rdkit().Mol(one), self._tables), [one])
                done += 1
        self._waiting = []

    def _add(self, found: Arrays, molecules: list[bytes]) -> None:
        self._parts.append(_labelled(found, molecules) if self._labels else found)

    def arrays(self) -> Arrays:
        """Atoms and bonds of each molecule, the ends of bonds, and the categories of atoms and bonds."""
        self._decode()
        kinds = (np.int64, np.int64, np.int32, np.uint8, np.uint8)
        empty = tuple(np.zeros(0, dtype=kind) for kind in kinds)
        nodes, edges, ends, atoms, bonds = (np.concatenate(part) for part in zip(empty, *self._parts, strict=True))
        return nodes, edges, ends, atoms, bonds


def _asked(mol: Any, tables: Tables) -> Arrays:
    """The arrays of a molecule, asked for atom by atom."""
    ends, atoms, bonds = array("i"), bytearray(), bytearray()
    _append_atoms(atoms, mol, tables)
    _append_bonds(ends, bonds, mol, tables)
    return (
        np.array([mol.GetNumAtoms()]),
        np.array([mol.GetNumBonds()]),
        np.asarray(ends, dtype=np.int32),
        np.frombuffer(bytes(atoms), dtype=np.uint8),
        np.frombuffer(bytes(bonds), dtype=np.uint8),
    )


def _labelled(found: Arrays, molecules: list[bytes]) -> Arrays:
    """The same arrays with labels in the place of tags, where a molecule has any of either."""
    chem = require_rdkit()
    nodes, edges, ends, flat_atoms, flat_bonds = found
    atoms, bonds = flat_atoms.reshape(-1, 9).copy(), flat_bonds.reshape(-1, 3).copy()
    first_atom, first_bond = np.cumsum(nodes) - nodes, np.cumsum(edges) - edges
    numbers = np.arange(len(nodes))
    turned = np.concatenate([np.repeat(numbers, nodes)[atoms[:, 1] > 0], np.repeat(numbers, edges)[bonds[:, 1] > 0]])
    for number in np.unique(turned):
        mol = chem.Mol(molecules[number])
        mine = slice(first_atom[number], first_atom[number] + nodes[number])
        ours = slice(first_bond[number], first_bond[number] + edges[number])
        atoms[mine, 1], bonds[ours, 1] = _labels(mol)
    return nodes, edges, ends, atoms.reshape(-1), bonds.reshape(-1)


def _labels(mol: Any) -> tuple[list[int], list[int]]:
    """The labels of atoms and bonds, as categories."""
    from rdkit.Chem import rdCIPLabeler

    def category(cell: Any, known: dict[str, int]) -> int:
        return known.get(cell.GetProp("_CIPCode"), 0) if cell.HasProp("_CIPCode") else 0

    for atom in mol.GetAtoms():
        atom.ClearProp("_CIPCode")  # of RDKit's first implementation, if they are there
    try:
        rdCIPLabeler.AssignCIPLabels(mol, maxRecursiveIterations=_MOST_STEPS)
    except RuntimeError:  # a cage so symmetric that it takes too long; then none of its atoms has a label
        return [0] * mol.GetNumAtoms(), [0] * mol.GetNumBonds()
    atoms = [category(atom, {"R": 1, "S": 2, "r": 3, "s": 4}) for atom in mol.GetAtoms()]
    return atoms, [category(bond, {"Z": 1, "E": 2}) for bond in mol.GetBonds()]


#: Steps of the search for labels: some hundred suffice for nearly all molecules.
_MOST_STEPS = 100_000


@cache
def _binary_form_is_known() -> bool:
    """Whether what C++ reads of RDKit's binary form is what RDKit says itself, on molecules with everything in them."""
    chem = require_rdkit()
    for smiles in _VARIED:
        mol = chem.MolFromSmiles(smiles)
        found: Arrays = _core.decode_molecules([mol.ToBinary(0)], 0, *_lookup())
        if not all(np.array_equal(a, b) for a, b in zip(found, _asked(mol, _tables()), strict=True)):
            return False
    return True


@cache
def _lookup() -> tuple[bytes, bytes, bytes, bytes]:
    """The tables of categories by the number of RDKit's value."""

    def by_number(table: dict[Any, int]) -> bytes:
        known = {int(value): category for value, category in table.items()}
        return bytes(known.get(i, 0) for i in range(256))

    chirality, hybridisation, types, stereo = map(by_number, _tables())
    return chirality, hybridisation, types, stereo


def _checked(molecule: Mol | str, max_atoms: int | None) -> Any:
    """The molecule, if it can be packed."""
    mol: Any = (parse_plain(molecule) or parse(molecule)) if isinstance(molecule, str) else molecule
    if not hasattr(mol, "GetBonds"):
        raise GraphError(f"{mol!r:.60} is not a molecule: give an RDKit Mol or a SMILES")
    count = mol.GetNumAtoms()
    if not count:
        raise GraphError("the molecule has no atoms: a complex needs at least one vertex")
    if max_atoms is not None and count > max_atoms:
        raise GraphError(f"the molecule has {count:,} atoms, and at most {max_atoms:,} are taken")
    return mol


def saturated(store: ComplexStore) -> Features:
    """OGB's columns of the saturated hydrocarbons that have the skeletons of these molecules."""
    atoms, bonds = store.x[:2]
    assert atoms is not None
    assert bonds is not None
    ends = store.boundaries[0].idx.reshape(-1, 2).long()
    ends = ends + torch.repeat_interleave(store.cell_ptr[0][:-1], store.cell_ptr[1].diff())[:, None]
    degree = torch.bincount(ends.flatten(), minlength=len(atoms))
    carbon = torch.zeros_like(atoms)
    carbon[:, 0], carbon[:, 3], carbon[:, 6] = 5, 5, 2  # the element, no charge, sp3
    carbon[:, 2] = degree.clamp(min=4, max=11).to(atoms.dtype)
    carbon[:, 4] = (4 - degree).clamp(min=0).to(atoms.dtype)
    carbon[:, 8] = atoms[:, 8]
    return (carbon, torch.zeros_like(bonds), *store.x[2:])


Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]
Tables = tuple[dict[Any, int], dict[Any, int], dict[Any, int], dict[Any, int]]


@cache
def _tables() -> Tables:
    """From RDKit's values to OGB's categories."""
    chem = require_rdkit()

    def table(kind: Any, known: tuple[str, ...], other: int) -> dict[Any, int]:
        return {value: known.index(name) if name in known else other for name, value in kind.names.items()}

    return (
        table(chem.ChiralType, _CHIRALITY, 4),
        table(chem.HybridizationType, _HYBRIDISATION, 5),
        table(chem.BondType, _BOND_TYPE, 4),
        table(chem.BondStereo, _STEREO, 5),
    )


def _append_atoms(atoms: bytearray, mol: Any, tables: Tables) -> None:
    chirality, hybridisation, _, _ = tables
    for atom in mol.GetAtoms():
        number, charge, hydrogens = atom.GetAtomicNum(), atom.GetFormalCharge(), atom.GetTotalNumHs()
        atoms += bytes(
            (
                number - 1 if number else 118,
                chirality[atom.GetChiralTag()],
                min(atom.GetDegree() + hydrogens, 11),
                charge + 5 if -5 <= charge <= 5 else 11,
                min(hydrogens, 9),
                min(atom.GetNumRadicalElectrons(), 5),
                hybridisation[atom.GetHybridization()],
                atom.GetIsAromatic(),
                atom.IsInRing(),
            )
        )


def _append_bonds(ends: array[int], bonds: bytearray, mol: Any, tables: Tables) -> None:
    _, _, types, stereo = tables
    for bond in mol.GetBonds():
        ends.append(bond.GetBeginAtomIdx())
        ends.append(bond.GetEndAtomIdx())
        bonds += bytes((types[bond.GetBondType()], stereo[bond.GetStereo()], bond.GetIsConjugated()))


#: What every atom beyond six in the longest cycle takes off ZINC's target.
CYCLE_PENALTY = 3.47513914


def penalised_logp(mol: Mol) -> float:
    """The penalised logP of a molecule, standardised as in ZINC.

    y = 0.69763180 logP - 1.19816760 SA - 3.47513914 cycle + 2.11182998

    logP is Crippen's, SA the synthetic accessibility score of Ertl and Schuffenhauer, and cycle the number of atoms by
    which the longest cycle of a cycle basis exceeds six. The coefficients standardise each term over the 220,011
    training molecules of ZINC (Jin, Barzilay and Jaakkola, "Junction Tree Variational Autoencoder", 2018).
    """
    from rdkit.Chem.rdMolDescriptors import CalcCrippenDescriptors

    cycle = CYCLE_PENALTY * max(0, longest_basis_cycle(mol.GetNumAtoms(), _ends(mol)) - 6)
    logp, _ = CalcCrippenDescriptors(mol)
    score = _sa_scorer().calculateScore(mol)
    return float(0.69763180 * logp - 1.19816760 * score - cycle + 2.11182998)


@cache
def _sa_scorer() -> Any:
    """RDKit's script for the score. It comes with RDKit, but is not a part of its package everywhere."""
    try:
        from rdkit.Contrib.SA_Score import sascorer
    except ImportError:
        import importlib.util
        from pathlib import Path

        from rdkit import RDConfig

        path = Path(RDConfig.RDContribDir) / "SA_Score" / "sascorer.py"
        spec = importlib.util.spec_from_file_location("sascorer", path)
        if spec is None or spec.loader is None or not path.exists():
            raise ImportError(f"this build of RDKit comes without its Contrib folder: there is no {path}") from None
        sascorer = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sascorer)
    return sascorer


def _ends(mol: Any) -> NDArray[np.int64]:
    pairs = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in mol.GetBonds()]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def longest_basis_cycle(num_nodes: int, edges: NDArray[np.int64]) -> int:
    """The length of the longest cycle in the cycle basis that networkx finds; 0 where there is no cycle.

    A basis is not a function of the molecule alone: another numbering of the atoms may give another one. It is used
    because ZINC's target is defined by it. The largest ring of RDKit's smallest set of rings is another number for
    about 0.4 % of the molecules of ZINC, such as bridged ones.

    Paton's algorithm (CACM 12, 1969), in linear time and memory per cycle found; vertices and neighbours in the order
    of their numbers, the first of each component as its root.
    """
    around: list[list[int]] = [[] for _ in range(num_nodes)]
    for u, v in edges.tolist():
        around[u].append(v)
        around[v].append(u)
    longest = 0
    parent: dict[int, int] = {}
    for root in range(num_nodes):
        if root in parent:
            continue
        parent[root] = root
        used: dict[int, set[int]] = {root: set()}
        stack = [root]
        while stack:
            z = stack.pop()
            for near in sorted(around[z]):
                if near not in used:
                    parent[near] = z
                    used[near] = {z}
                    stack.append(near)
                elif near != z and near not in used[z]:
                    longest = max(longest, _close(z, near, parent, used[near]))
                    used[near].add(z)
    return longest


def _close(z: int, near: int, parent: dict[int, int], ends: set[int]) -> int:
    """The length of the cycle that an edge from z to near closes: back from z until a vertex known to touch near."""
    length, here = 2, parent[z]
    while here not in ends:
        length, here = length + 1, parent[here]
    return length + 1
