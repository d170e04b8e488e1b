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

from cwnet.chem._read import OnError, check_arguments, parse, require_rdkit, warn_of
from cwnet.complexes import ComplexStore, Features
from cwnet.errors import GraphError

if TYPE_CHECKING:
    from rdkit.Chem import Mol

__all__ = ["ATOM_SIZES", "BOND_SIZES", "longest_basis_cycle", "ogb_graphs", "penalised_logp", "saturated"]

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
    check_arguments(molecules, on_error)
    tables = _tables()
    nodes, edges = array("q"), array("q")
    ends, atoms, bonds = array("i"), bytearray(), bytearray()
    skipped: list[GraphError] = []
    for i, molecule in enumerate(molecules):
        try:
            mol: Any = _checked(molecule, max_atoms)
        except GraphError as error:
            if on_error == "raise":
                raise error.moved_to(i) from None
            skipped.append(error.moved_to(i))
            continue
        nodes.append(mol.GetNumAtoms())
        edges.append(mol.GetNumBonds())
        # Calls into RDKit take the time, most of all those that make an enumeration: a SMILES tells which to spare.
        known = isinstance(molecule, str)
        _append_atoms(atoms, mol, tables, not known or "@" in molecule)
        _append_bonds(ends, bonds, mol, tables, not known or "/" in molecule or "\\" in molecule)
    warn_of(skipped, "store")
    store = ComplexStore.from_graphs(
        np.asarray(nodes),
        np.asarray(edges),
        np.asarray(ends).reshape(-1, 2),
        x=np.frombuffer(bytes(atoms), dtype=np.uint8).reshape(-1, 9).copy(),
        edge_x=np.frombuffer(bytes(bonds), dtype=np.uint8).reshape(-1, 3).copy(),
        y=y,
    )
    return replace(store, skipped=tuple(skipped))


def _checked(molecule: Mol | str, max_atoms: int | None) -> Any:
    """The molecule, if it can be packed."""
    mol: Any = parse(molecule) if isinstance(molecule, str) else molecule
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


def _append_atoms(atoms: bytearray, mol: Any, tables: Tables, chiral: bool) -> None:
    chirality, hybridisation, _, _ = tables
    for atom in mol.GetAtoms():
        number, charge, hydrogens = atom.GetAtomicNum(), atom.GetFormalCharge(), atom.GetTotalNumHs()
        atoms += bytes(
            (
                number - 1 if number else 118,
                chirality[atom.GetChiralTag()] if chiral else 0,
                min(atom.GetDegree() + hydrogens, 11),
                charge + 5 if -5 <= charge <= 5 else 11,
                min(hydrogens, 9),
                min(atom.GetNumRadicalElectrons(), 5),
                hybridisation[atom.GetHybridization()],
                atom.GetIsAromatic(),
                atom.IsInRing(),
            )
        )


def _append_bonds(ends: array[int], bonds: bytearray, mol: Any, tables: Tables, directed: bool) -> None:
    _, _, types, stereo = tables
    for bond in mol.GetBonds():
        ends.append(bond.GetBeginAtomIdx())
        ends.append(bond.GetEndAtomIdx())
        turned = stereo[bond.GetStereo()] if directed else 0
        bonds += bytes((types[bond.GetBondType()], turned, bond.GetIsConjugated()))


def penalised_logp(mol: Mol) -> float:
    """The penalised logP of a molecule, standardised as in ZINC.

    y = 0.69763180 logP - 1.19816760 SA - 3.47513914 cycle + 2.11182998

    logP is Crippen's, SA the synthetic accessibility score of Ertl and Schuffenhauer, and cycle the number of atoms by
    which the longest cycle of a cycle basis exceeds six. The coefficients standardise each term over the 220,011
    training molecules of ZINC (Jin, Barzilay and Jaakkola, "Junction Tree Variational Autoencoder", 2018).
    """
    from rdkit.Chem.rdMolDescriptors import CalcCrippenDescriptors

    cycle = max(0, longest_basis_cycle(mol.GetNumAtoms(), _ends(mol)) - 6)
    logp, _ = CalcCrippenDescriptors(mol)
    score = _sa_scorer().calculateScore(mol)
    return float(0.69763180 * logp - 1.19816760 * score - 3.47513914 * cycle + 2.11182998)


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
