"""Reactions as complexes: both sides on one another, matched by the numbers of their atoms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cwnet.chem._features import ATOM_SIZES, BOND_SIZES
from cwnet.chem._featuriser import Featuriser
from cwnet.chem._read import OnError, check_arguments, parse, warn_of
from cwnet.complexes import ComplexStore
from cwnet.errors import CwnetError, GraphError

if TYPE_CHECKING:
    from rdkit.Chem import Mol

__all__ = ["ReactionFeaturiser"]

_SIDES = ("reactants", "products")


@dataclass(frozen=True)
class ReactionFeaturiser(Featuriser):
    """Reactions, written "reactants>>products", as complexes: the condensed graph of the reaction and its rings.

    What stands above the arrow, as in "reactants>agents>products", is on the side of the reactants.

    An atom of the products that has the map number of an atom of the reactants is the same vertex; two vertices are
    joined by an edge if they are bonded on either side. Vertices and edges have the columns of the reactants, then
    those of the products; where an atom or bond is not there on a side, a category of its own says so. Rings are those
    of this graph, so that a ring of bonds that break and form is a cell. Without map numbers nothing is matched, and
    the complex is the disjoint union of both sides.

    Args:
        reactions: True; it tells this featuriser from others where they are kept.

    >>> dienes = "[CH2:1]=[CH:2][CH:3]=[CH2:4].[CH2:5]=[CH2:6]"
    >>> ReactionFeaturiser()([dienes + ">>[CH2:1]1[CH:2]=[CH:3][CH2:4][CH2:5][CH2:6]1"])
    ComplexStore(1 complex: 6 vertices, 6 edges, 1 2-cell, Rings(18))
    """

    reactions: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reactions is not True:
            raise CwnetError(f"reactions={self.reactions!r}: a featuriser of reactions takes nothing else")

    @property
    def parts(self) -> tuple[str, ...]:
        return _SIDES

    @property
    def atom_sizes(self) -> tuple[int, ...]:
        return tuple(size + 1 for size in ATOM_SIZES) * 2

    @property
    def bond_sizes(self) -> tuple[int, ...]:
        return tuple(size + 1 for size in BOND_SIZES) * 2

    @property
    def example(self) -> str:
        return "[CH4:1]>>[CH4:1]"

    def split(self, row: str) -> tuple[str, ...]:
        found = tuple(text.strip() for text in row.split(">"))
        if len(found) != 3:
            raise GraphError(f"{row!r:.300} is not a reaction: write reactants>>products")
        return ".".join(text for text in found[:2] if text), found[2]

    def parsed(self, row: str) -> tuple[Mol, ...]:
        found = []
        for name, text in zip(_SIDES, self.split(row), strict=True):
            try:
                found.append(parse(text))
            except GraphError as error:
                raise GraphError(f"{name}: {error.reason}") from None
        return tuple(found)

    def pack(self, molecules: Iterable[Any], *, on_error: OnError = "raise") -> ComplexStore:
        check_arguments(molecules, on_error)
        graphs: list[_Condensed] = []
        skipped: list[GraphError] = []
        for i, row in enumerate(molecules):
            try:
                graphs.append(self._condensed(self.parsed(row) if isinstance(row, str) else row))
            except GraphError as error:
                if on_error == "raise":
                    raise error.moved_to(i) from None
                skipped.append(error.moved_to(i))
        warn_of(skipped, "store")
        widths = (2, len(self.atom_sizes), len(self.bond_sizes))
        ends, atoms, bonds = (
            np.concatenate([np.zeros((0, width), dtype=np.uint8), *(getattr(graph, name) for graph in graphs)])
            for name, width in zip(("ends", "atoms", "bonds"), widths, strict=True)
        )
        store = ComplexStore.from_graphs(
            [len(graph.atoms) for graph in graphs], [len(graph.bonds) for graph in graphs], ends.astype(np.int32),
            x=atoms.astype(np.uint8), edge_x=bonds.astype(np.uint8),
        )  # fmt: skip
        return replace(store, skipped=tuple(skipped))

    def _condensed(self, sides: tuple[Mol, ...]) -> _Condensed:
        packed = []
        for name, mol in zip(_SIDES, sides, strict=True):
            try:
                packed.append(super().pack([mol]))
            except GraphError as error:
                raise GraphError(f"{name}: {error.reason}") from None
        return _condense(packed, _vertices(*sides))


@dataclass(frozen=True, eq=False)
class _Condensed:
    """One reaction as a graph: ends of edges, [edges, 2], and the columns of vertices and edges."""

    ends: NDArray[Any]
    atoms: NDArray[Any]
    bonds: NDArray[Any]


def _vertices(reactants: Mol, products: Mol) -> list[list[int]]:
    """The vertex of every atom of either side."""
    known = _mapped(reactants, "reactants")
    elements = {number: reactants.GetAtomWithIdx(i).GetSymbol() for number, i in known.items()}
    for number, i in _mapped(products, "products").items():
        symbol = products.GetAtomWithIdx(i).GetSymbol()
        if elements.get(number, symbol) != symbol:
            raise GraphError(f"the map number {number} is on {elements[number]} and on {symbol}: correct the numbers")
    count = reactants.GetNumAtoms()
    after = []
    for atom in products.GetAtoms():
        same = known.get(atom.GetAtomMapNum())
        after.append(count if same is None else same)
        count += same is None
    return [list(range(reactants.GetNumAtoms())), after]


def _mapped(side: Mol, name: str) -> dict[int, int]:
    """The atom of each map number."""
    found: dict[int, int] = {}
    for atom in side.GetAtoms():
        number = atom.GetAtomMapNum()
        if number and number in found:
            raise GraphError(f"{name}: two atoms have the map number {number}")
        if number:
            found[number] = atom.GetIdx()
    return found


def _condense(sides: list[ComplexStore], vertices: list[list[int]]) -> _Condensed:
    """Both sides on one another."""
    count = max(max(found) for found in vertices) + 1
    atoms = np.tile(np.array(ATOM_SIZES), (count, 2))
    edges: dict[frozenset[int], int] = {}
    rows: list[list[tuple[int, Any]]] = []
    for side, (store, found) in enumerate(zip(sides, vertices, strict=True)):
        x, edge_x = (np.asarray(features) for features in store.x[:2])
        atoms[found, side * len(ATOM_SIZES) : (side + 1) * len(ATOM_SIZES)] = x
        ends = np.array(found)[store.boundaries[0].idx.reshape(-1, 2).numpy()]
        numbers = [edges.setdefault(frozenset(pair), len(edges)) for pair in ends.tolist()]
        rows.append(list(zip(numbers, edge_x, strict=True)))
    bonds = np.tile(np.array(BOND_SIZES), (len(edges), 2))
    for side, some in enumerate(rows):
        for number, columns in some:
            bonds[number, side * len(BOND_SIZES) : (side + 1) * len(BOND_SIZES)] = columns
    return _Condensed(np.array([sorted(e) for e in edges], dtype=np.int64).reshape(-1, 2), atoms, bonds)
