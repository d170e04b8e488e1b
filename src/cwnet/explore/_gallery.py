"""What there is to see where nobody brings anything: molecules, graphs, and pairs that WL can not tell apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cwnet.data import NamedGraph
from cwnet.data._graph_files import from_smiles
from cwnet.explore._exhibit import Exhibit, exhibit
from cwnet.lifting import Graph
from cwnet.wl._layout import Floats

if TYPE_CHECKING:
    from cwnet.molecules import MoleculeModel

__all__ = ["Pair", "gallery"]


class Pair(NamedTuple):
    """Two exhibits worth comparing, by name, and the lifting to begin with."""

    a: str
    b: str
    lifting: str
    about: str


_MOLECULES = (
    ("Aspirin", "CC(=O)Oc1ccccc1C(=O)O"),
    ("Caffeine", "Cn1cnc2c1c(=O)n(C)c(=O)n2C"),
    ("Diazepam", "CN1C(=O)CN=C(c2ccccc2)c2cc(Cl)ccc21"),
    ("Muscone", "CC1CCCCCCCCCCCCC(=O)C1"),
    ("Decalin", "C1CCC2CCCCC2C1"),
    ("Bicyclopentyl", "C1CCC(C1)C1CCCC1"),
)

_PAIRS = (
    Pair("Decalin", "Bicyclopentyl", "rings:6", "Two rings of six, or of five"),
    Pair("Two triangles", "Hexagon", "rings:6", "The smallest pair WL can not see"),
    Pair("Rook 4×4", "Shrikhande", "cliques:4", "3-WL can not tell them apart either"),
    Pair("CSL(11, 2)", "CSL(11, 3)", "rings:6", "All vertices look alike"),
)


def gallery(model: MoleculeModel | None = None) -> tuple[list[Exhibit], list[Pair]]:
    """The exhibits that come with cwnet, and the pairs among them.

    Args:
        model: explains the molecules. Without RDKit there are none.
    """
    shown = [exhibit(_named(name, *graph), "graphs", about=about, points=at) for name, about, graph, at in _graphs()]
    if find_spec("rdkit") is not None:
        molecules = [from_smiles(smiles, name) for name, smiles in _MOLECULES]
        shown = [*(exhibit(molecule, "molecules", model=model) for molecule in molecules), *shown]
    names = {each.name for each in shown}
    return shown, [pair for pair in _PAIRS if {pair.a, pair.b} <= names]


Edges = Sequence[tuple[int, int]]


def _named(name: str, vertices: int, edges: Edges) -> NamedGraph:
    return NamedGraph(name, Graph(vertices, np.array(edges, dtype=np.int64)), 0)


def _graphs() -> list[tuple[str, str, tuple[int, Edges], Floats]]:
    """Name, a few words, the graph, and where its vertices are."""
    return [
        ("Two triangles", "two pieces", (6, _circle(3) + _circle(3, 3)), _side_by_side(_round(3, 3**-0.5))),
        ("Hexagon", "one piece", (6, _circle(6)), _round(6, 1.0, 0.5)),
        ("Rook 4×4", "strongly regular (16, 6, 2, 2)", (16, _rook()), _two_octagons(_ROOK_ORDER)),
        ("Shrikhande", "strongly regular (16, 6, 2, 2)", (16, _shrikhande()), _two_octagons(_SHRIKHANDE_ORDER)),
        ("CSL(11, 2)", "circle with skips of 2", (11, _skips(11, 2)), _round(11, 2.5)),
        ("CSL(11, 3)", "circle with skips of 3", (11, _skips(11, 3)), _round(11, 2.5)),
    ]


def _circle(size: int, start: int = 0) -> list[tuple[int, int]]:
    return [(start + i, start + (i + 1) % size) for i in range(size)]


def _skips(size: int, step: int) -> list[tuple[int, int]]:
    """A circle, and from every vertex an edge to the one some steps on."""
    return _circle(size) + [(i, (i + step) % size) for i in range(size)]


def _rook() -> list[tuple[int, int]]:
    """The moves of a rook on a board of 4 × 4 fields."""
    fields = list(itertools.product(range(4), repeat=2))
    pairs = itertools.combinations(range(16), 2)
    return [(i, j) for i, j in pairs if any(a == b for a, b in zip(fields[i], fields[j], strict=True))]


def _shrikhande() -> list[tuple[int, int]]:
    """The same fields on a torus, each joined to its neighbours in a row, in a column and along one diagonal."""
    steps = {(0, 1), (1, 0), (1, 1), (0, 3), (3, 0), (3, 3)}
    fields = list(itertools.product(range(4), repeat=2))
    pairs = itertools.combinations(range(16), 2)
    return [
        (i, j)
        for i, j in pairs
        if tuple((a - b) % 4 for a, b in zip(fields[i], fields[j], strict=True)) in steps
    ]  # fmt: skip


#: The vertices around the outer octagon, then around the inner one, such that both drawings have eightfold symmetry.
_ROOK_ORDER = (0, 12, 15, 11, 10, 6, 5, 1, 4, 13, 3, 8, 14, 7, 9, 2)
_SHRIKHANDE_ORDER = (0, 12, 15, 11, 10, 6, 5, 1, 13, 3, 8, 14, 7, 9, 2, 4)


def _round(size: int, radius: float, turn: float = 0.0) -> Floats:
    """Points on a circle, the first on top or a part of a step further."""
    angles = math.pi / 2 - 2 * math.pi * (np.arange(size) + turn) / size
    points: Floats = radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return points


def _side_by_side(points: Floats) -> Floats:
    """Twice the same, an edge apart."""
    right = np.array([1.0, 0.0])
    moved: Floats = np.concatenate([points - right, points + right])
    return moved


def _two_octagons(order: Sequence[int]) -> Floats:
    points = np.zeros((16, 2))
    points[list(order)] = np.concatenate([_round(8, 2.2, 0.5), _round(8, 1.15, 0.5)])
    return points
