"""One graph on the page: its drawing, its complexes, and what a model says of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cwnet.complexes import CellComplex
from cwnet.data import NamedGraph
from cwnet.errors import CwnetError, LiftingBudgetExceeded
from cwnet.lifting import Cliques, Graph, Lifting, Rings, lift
from cwnet.wl._layout import Floats, edge_ends, layout, rescaled

if TYPE_CHECKING:
    from cwnet.molecules import MoleculeModel

__all__ = ["LIFTINGS", "MAX_CELLS", "MAX_EDGES", "MAX_VERTICES", "Exhibit", "exhibit"]

#: The most that can be drawn so that one still sees something, and moves it without a stutter.
MAX_VERTICES, MAX_EDGES, MAX_CELLS = 300, 1500, 1000

#: The liftings to choose from, by the names that the command line has for them.
LIFTINGS: Mapping[str, Lifting | None] = {
    "none": None,
    "rings:6": Rings(6, max_cells=MAX_CELLS, max_seconds=5.0),
    "rings:18": Rings(18, max_cells=MAX_CELLS, max_seconds=5.0),
    "cliques:4": Cliques(4, max_cells=MAX_CELLS, max_seconds=5.0),
}

#: How likely the interval around a prediction holds the value.
LEVEL = 0.9

Group = Literal["yours", "molecules", "graphs"]
Lines = list[list[list[float]]]


@dataclass(frozen=True)
class Exhibit:
    """A graph with all that the page shows of it.

    Attributes:
        source: the graph, its name and its labels.
        about: a few words below its name.
        group: the part of the gallery it stands in.
        points: where its vertices are, [vertices, 2], a typical edge long each; y goes up.
        lines: of molecules, the lines [x, y, x, y] that draw each bond.
        complexes: by the name of the lifting, the complex, or else why there is none.
        prediction: of molecules, what a model predicts, as plain data; None without one.
    """

    source: NamedGraph
    about: str
    group: Group
    points: Floats
    lines: Lines | None
    complexes: Mapping[str, CellComplex | str]
    prediction: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """What it is called on the page."""
        return self.source.name

    @property
    def label_kind(self) -> str | None:
        """What its labels are; colours that start from labels of two kinds can not be compared. None without labels."""
        graph = self.source.graph
        if graph.x is None and graph.edge_x is None:
            return None
        if self.source.smiles is not None:
            return "molecule"
        return f"labels of {'vertices' * (graph.x is not None)} {'edges' * (graph.edge_x is not None)}"


def exhibit(
    source: NamedGraph,
    group: Group = "yours",
    *,
    about: str = "",
    points: Floats | None = None,
    model: MoleculeModel | None = None,
) -> Exhibit:
    """Draw a graph and lift it in all the ways the page offers.

    Args:
        source: the graph. If it was read from a SMILES it is drawn as a molecule.
        group: the part of the gallery it stands in.
        about: a few words; by default the formula of a molecule, or nothing.
        points: where the vertices are; found here by default.
        model: explains the molecule.

    Raises:
        CwnetError: for a graph that is too large to draw.
    """
    check_drawable(source)
    bare = Graph(source.graph.num_nodes, source.graph.edges)
    complexes = {key: _lifted(bare, lifting) for key, lifting in LIFTINGS.items()}
    if source.smiles is not None:
        found, lines, formula = _molecule(source)
        prediction = None if model is None else _prediction(model, source.smiles, complexes)
        return Exhibit(source, about or formula, group, found, lines, complexes, prediction)
    if points is None:
        complex = _to_lay_out(complexes)
        points = rescaled(layout(complex), edge_ends(complex))
    return Exhibit(source, about, group, points, None, complexes)


def check_drawable(source: NamedGraph) -> None:
    """Refuse a graph that is too large to draw."""
    graph = source.graph
    for count, limit, what in (
        (graph.num_nodes, MAX_VERTICES, "vertices"),
        (len(graph.edges), MAX_EDGES, "edges"),
    ):
        if count > limit:
            raise CwnetError(
                f"{source.name} has {count:,} {what}, too many to draw: the explorer takes up to {limit:,}. "
                "To compare larger graphs, use cwnet wl"
            )


def _lifted(graph: Graph, lifting: Lifting | None) -> CellComplex | str:
    try:
        return lift(graph, lifting)
    except LiftingBudgetExceeded:
        name = f"{type(lifting).__name__}({lifting.k})" if isinstance(lifting, Rings | Cliques) else str(lifting)
        return f"{name} attaches more than {MAX_CELLS:,} cells, too many to draw"


def _to_lay_out(complexes: Mapping[str, CellComplex | str]) -> CellComplex:
    """The complex whose rings are drawn round: that of small rings, unless they are many."""
    small, bare = complexes["rings:6"], complexes["none"]
    assert isinstance(bare, CellComplex)  # nothing is attached, so no budget is exceeded
    few = isinstance(small, CellComplex) and small.num_cells[2] <= 60
    return small if few and isinstance(small, CellComplex) else bare


def _molecule(source: NamedGraph) -> tuple[Floats, Lines, str]:
    """Where the atoms are, the lines of the bonds in the order of the edges, and the formula."""
    from rdkit.Chem.rdMolDescriptors import CalcMolFormula

    from cwnet.chem._draw import _bond_lines, _laid_out, _Sketch
    from cwnet.chem._read import parse

    mol = parse(source.smiles or "")
    kekule, xy = _laid_out(mol)
    sketch = _Sketch(kekule, lift(Graph(source.graph.num_nodes, source.graph.edges), None), xy)
    ends = np.asarray(source.graph.edges).reshape(-1, 2).tolist()
    bonds = [kekule.GetBondBetweenAtoms(*pair) for pair in ends]
    lines = [[line.reshape(-1).round(3).tolist() for line in _bond_lines(sketch, bond)] for bond in bonds]
    subscripts = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
    formula = re.sub(r"(?<=[A-Za-z])\d+", lambda match: match[0].translate(subscripts), CalcMolFormula(mol))
    return xy, lines, formula


def _prediction(
    model: MoleculeModel, smiles: str, complexes: Mapping[str, CellComplex | str]
) -> Mapping[str, Any] | None:
    """What the model predicts, and the contributions of the cells; or why it does not."""
    from cwnet.molecules import explain
    from cwnet.molecules._model import ModelError

    key = str(model.featuriser.lifting)
    seen = complexes.get(key)
    if not isinstance(seen, CellComplex):
        return {"refused": f"the model looks at {key}, and {seen or 'the page does not offer that'}"}
    try:
        found = explain(model, [smiles])[0]
    except CwnetError as error:
        return {"refused": str(error)}
    if found.complex.num_cells != seen.num_cells:
        return {"refused": "the model sees other cells than those drawn here"}
    try:
        half = None if found.unit else model.half_width(LEVEL)[0]
    except ModelError:
        half = None
    return {
        "target": found.target,
        "unit": found.unit,
        "value": found.value,
        "baseline": found.baseline,
        "missing": found.missing,
        "half": half,
        "level": LEVEL,
        "lifting": key,
        "contributions": [[round(c, 5) for c in values.tolist()] for values in found.contributions],
    }
