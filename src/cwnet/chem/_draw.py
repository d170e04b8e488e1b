"""Draw molecules with the 2-cells of their complexes.

Lengths are in bonds: coordinates are scaled so that the median bond is one long, and line widths and letters follow
from the number of points per bond. So pictures of different molecules look alike.
"""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from cwnet._files import write_whole
from cwnet.chem._read import pack_molecules, parse, require_rdkit
from cwnet.complexes import CellComplex
from cwnet.errors import GraphError
from cwnet.lifting import Lifting, Rings, lift, lift_many

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.path import Path as Outline
    from rdkit.Chem import Bond, Mol

__all__ = ["draw_molecule", "draw_molecules"]

Points = NDArray[np.float64]
Box = tuple[float, float, float, float]

# One colour per ring size, from 3 to 18, and again from the start; neighbours in size differ in hue.
RING_COLOURS = (
    "#D1495B", "#F08A4B", "#F2B632", "#3F88C5", "#2FA58E", "#8E63B8", "#A8763E", "#D65DB1",
    "#4FA34A", "#5B6FD6", "#1FB5C5", "#B0413E", "#7A8B99", "#B7A99A", "#4C7A5A", "#B8C41F",
)  # fmt: skip
ELEMENT_COLOURS = {
    1: "#6B7280", 5: "#C8743A", 7: "#2747C7", 8: "#D6202B", 9: "#2E9E4F", 14: "#B07A4A", 15: "#D9730D",
    16: "#B08900", 17: "#2E9E4F", 34: "#C77700", 35: "#9A3324", 53: "#7B1FA2",
}  # fmt: skip
RINGS = Rings(18)
INK = "#1C1F24"
FILL = 0.46  # strength of a 2-cell's colour
RIM = 0.13  # how far a 2-cell that others cover reaches beyond them
STROKE = 0.05  # width of a bond's line
GAP = 0.17  # between the lines of a double bond
LETTER = 0.54  # size of an element's letters
SPACE = 0.03  # between letters
CLEAR = 0.09  # between letters and bonds
MARGIN = 0.4  # around the molecule

LINES = {"SINGLE": 1, "DOUBLE": 2, "TRIPLE": 3, "QUADRUPLE": 4}  # others are drawn dashed

POINTS_PER_BOND = 30.0
LARGEST_FIGURE = 12.0  # inches
TITLE_HEIGHT, LEGEND_ROW, LEGEND_ENTRY = 0.36, 0.27, 1.2  # inches


def draw_molecule(
    mol: Mol | str,
    complex: CellComplex | None = None,
    *,
    lifting: Lifting | str = RINGS,
    title: str | None = None,
    legend: bool = True,
    path: str | Path | None = None,
) -> Figure:
    """Draw a molecule with every 2-cell of its complex filled, coloured by size; large ones lie below small ones.

    The drawing is a Kekulé structure in two dimensions, as chemists draw it, in RDKit's layout or that of the
    molecule if it has one of its own. Stereochemistry is not drawn: the complex does not know it. In an SVG,
    2-cell i has the id ``cell-i``.

    Args:
        mol: an RDKit molecule, which is left as it is, or a SMILES.
        complex: its complex, if there is one already; otherwise the molecule is lifted here.
        lifting: how to lift it.
        title: text above the molecule.
        legend: whether to list the sizes of the 2-cells and how many there are of each.
        path: file to write, PNG, SVG or PDF by its suffix.

    Raises:
        GraphError: where the SMILES does not parse, or the complex is not one of this molecule.
    """
    mol = parse(mol) if isinstance(mol, str) else mol
    complex = lift(mol, lifting) if complex is None else complex
    return _draw([_Sketch.of(mol, complex)], [title or ""], 1, (LARGEST_FIGURE, LARGEST_FIGURE), legend, path)


def draw_molecules(
    mols: Iterable[Mol | str],
    complexes: Iterable[CellComplex] | None = None,
    *,
    lifting: Lifting | str = RINGS,
    titles: Sequence[str] | None = None,
    columns: int = 3,
    panel: tuple[float, float] = (3.0, 2.6),
    legend: bool = True,
    path: str | Path | None = None,
) -> Figure:
    """Draw molecules side by side in one figure, all to the same scale; see `draw_molecule`.

    Args:
        mols: RDKit molecules or SMILES.
        complexes: their complexes, if there are some already.
        lifting: how to lift the molecules otherwise.
        titles: text above each molecule.
        columns: molecules in a row.
        panel: width and height for one molecule, in inches.
        legend: whether to list the sizes of the 2-cells and how many there are of each, in all molecules together.
        path: file to write, PNG, SVG or PDF by its suffix.
    """
    parsed = [parse(mol) if isinstance(mol, str) else mol for mol in mols]
    lifted = list(lift_many(pack_molecules(parsed), lifting) if complexes is None else complexes)
    titles = [""] * len(parsed) if titles is None else list(titles)
    if not parsed or not len(parsed) == len(lifted) == len(titles):
        raise ValueError(f"{len(parsed)} molecules, {len(lifted)} complexes and {len(titles)} titles do not match")
    if columns < 1:
        raise ValueError(f"columns={columns}: at least one is needed")
    sketches = [_Sketch.of(mol, complex) for mol, complex in zip(parsed, lifted, strict=True)]
    return _draw(sketches, titles, min(columns, len(parsed)), panel, legend, path)


@dataclass(frozen=True)
class _Label:
    """The letters of an atom, as outlines around its place, and the boxes that bonds keep out of."""

    outlines: list[Outline]
    boxes: list[Box]
    colour: str


@dataclass(frozen=True)
class _Sketch:
    """A molecule as geometry."""

    mol: Mol
    complex: CellComplex
    xy: Points
    labels: dict[int, _Label] = field(default_factory=dict)

    @classmethod
    def of(cls, mol: Mol, complex: CellComplex) -> _Sketch:
        _check_belongs(mol, complex)
        mol, xy = _laid_out(mol)
        labels = {a.GetIdx(): _label(a, xy) for a in mol.GetAtoms() if _is_labelled(a)}
        return cls(mol, complex, xy, labels)

    @property
    def rings(self) -> list[tuple[int, ...]]:
        """The atoms around every 2-cell."""
        return self.complex.cells(2) if len(self.complex.num_cells) > 2 else []

    @property
    def levels(self) -> list[int]:
        """How many rings lie in one another below each 2-cell: 0 unless it shares a path with a smaller one.

        Compares all pairs of 2-cells: quadratic, and no picture shows so many that it matters.
        """
        edges = [set(boundary) for boundary in self.complex.boundary(2).tolist()]
        levels = [0] * len(edges)
        order = sorted(range(len(edges)), key=lambda i: len(edges[i]))
        for at, i in enumerate(order):
            inner = [levels[j] for j in order[:at] if len(edges[j]) < len(edges[i]) and len(edges[j] & edges[i]) > 1]
            levels[i] = 1 + max(inner) if inner else 0
        return levels

    @property
    def extent(self) -> Box:
        """Left, bottom, right and top of all that is drawn, with a margin."""
        letters = [np.reshape(box, (2, 2)) for label in self.labels.values() for box in label.boxes]
        rims = [(self.xy[list(r)], RIM * level) for r, level in zip(self.rings, self.levels, strict=True)]
        corners = np.concatenate([self.xy, *letters, *(at + sign * rim for at, rim in rims for sign in (-1, 1))])
        (left, bottom), (right, top) = corners.min(0) - MARGIN, corners.max(0) + MARGIN
        return float(left), float(bottom), float(right), float(top)


def _check_belongs(mol: Mol, complex: CellComplex) -> None:
    atoms, bonds = mol.GetNumAtoms(), [(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()]
    if not atoms:
        raise GraphError("the molecule has no atoms: there is nothing to draw")
    if complex.num_cells[0] != atoms or {frozenset(e) for e in complex.cells(1)} != {frozenset(b) for b in bonds}:
        raise GraphError(
            f"the complex has {complex.num_cells[:2]} vertices and edges, and they are not the {atoms} atoms and "
            f"{len(bonds)} bonds of the molecule: lift this molecule, with its atoms in this order"
        )


def _laid_out(mol: Mol) -> tuple[Mol, Points]:
    """A Kekulé copy of the molecule, and the places of its atoms, a bond apart."""
    chem = require_rdkit()
    from rdkit import rdBase
    from rdkit.Chem import rdDepictor

    copy = chem.Mol(mol)
    copy.UpdatePropertyCache(strict=False)  # molecules that were not sanitised know neither hydrogens nor rings
    chem.GetSymmSSSR(copy)
    if not copy.GetNumConformers() or copy.GetConformer().Is3D():
        # Templates draw cages and bridged rings as chemists do.
        rdDepictor.Compute2DCoords(copy, useRingTemplates=True)
        rdDepictor.StraightenDepiction(copy)
    kekule = chem.Mol(copy)
    try:
        with rdBase.BlockLogs():
            chem.Kekulize(kekule, clearAromaticFlags=True)
    except chem.KekulizeException:  # not sanitised either; its aromatic bonds are drawn dashed
        kekule = copy
    xy = np.asarray(copy.GetConformer().GetPositions(), dtype=np.float64)[:, :2]
    lengths = [float(np.hypot(*(xy[b.GetBeginAtomIdx()] - xy[b.GetEndAtomIdx()]))) for b in copy.GetBonds()]
    return kekule, xy / (float(np.median(lengths)) or 1.0 if lengths else 1.0)


def _is_labelled(atom: Any) -> bool:
    """Carbon goes without letters, unless nothing else would show that it is there, or there is more to say."""
    if atom.GetAtomicNum() != 6 or atom.GetFormalCharge() or atom.GetIsotope() or atom.GetNumRadicalElectrons():
        return True
    orders = [bond.GetBondTypeAsDouble() for bond in atom.GetBonds()]
    return orders in ([], [2.0, 2.0])


def _label(atom: Any, xy: Points) -> _Label:
    """The element in the middle, its hydrogens where there is room, its charge at the end."""
    here = xy[atom.GetIdx()]
    symbol = _letters(atom.GetSymbol())
    row, apart = [_moved(symbol, -_centre(symbol), 0.0)], []
    if hydrogens := atom.GetTotalNumHs():
        group = [_letters("H")]
        if hydrogens > 1:
            group.append(_after(group, _letters(str(hydrogens), 0.68, -0.3)))
        side = _free_side([xy[n.GetIdx()] - here for n in atom.GetNeighbors()])
        if side in ("right", "left"):
            start = _right(row) + SPACE if side == "right" else _left(row) - SPACE - _right(group)
            row = row + [_moved(piece, start, 0.0) for piece in group]
        else:
            up = (LETTER if side == "above" else -LETTER) * 0.92
            apart = [_moved(piece, -_centre(group[0]), up) for piece in group]
    if charge := _charge(atom.GetFormalCharge(), atom.GetNumRadicalElectrons()):
        row = [*row, _after(row, _letters(charge, 0.7, 0.42))]
    if isotope := atom.GetIsotope():
        text = _letters(str(isotope), 0.68, 0.42)
        row = [*row, _moved(text, _left(row) - SPACE - _right([text]), 0.0)]
    outlines = [_moved(piece, *here) for piece in (*row, *apart)]
    return _Label(outlines, [_box(o) for o in outlines], ELEMENT_COLOURS.get(atom.GetAtomicNum(), INK))


def _letters(text: str, size: float = 1.0, raised: float = 0.0) -> Outline:
    """Outlines of a text whose first letter begins at 0; `size` and `raised` are relative to an element's letters."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    # DejaVu comes with matplotlib, so pictures are the same everywhere. Its capitals are 0.73 em high.
    font = FontProperties(family="DejaVu Sans")
    outline = TextPath((0.0, (raised - 0.73 / 2) * LETTER), text, size=size * LETTER, prop=font)
    return _moved(outline, -_left([outline]), 0.0)


def _moved(outline: Outline, x: float, y: float) -> Outline:
    from matplotlib.path import Path as Outline

    return Outline(np.asarray(outline.vertices) + np.array([x, y]), outline.codes)


def _after(row: list[Outline], outline: Outline) -> Outline:
    return _moved(outline, _right(row) + SPACE, 0.0)


def _left(row: list[Outline]) -> float:
    return min(_box(outline)[0] for outline in row)


def _right(row: list[Outline]) -> float:
    return max(_box(outline)[2] for outline in row)


def _centre(outline: Outline) -> float:
    left, _, right, _ = _box(outline)
    return (left + right) / 2


def _box(outline: Outline) -> Box:
    vertices = np.asarray(outline.vertices)
    if outline.codes is not None:
        vertices = vertices[np.asarray(outline.codes) != outline.CLOSEPOLY]  # the vertex of those means nothing
    (left, bottom), (right, top) = vertices.min(0), vertices.max(0)
    return float(left), float(bottom), float(right), float(top)


def _free_side(around: list[Points]) -> Literal["right", "left", "above", "below"]:
    """Where hydrogens get in the way of no bond; beside the element if at all possible, as one reads."""
    sides: dict[Literal["right", "left", "above", "below"], tuple[int, int]] = {
        "right": (1, 0),
        "left": (-1, 0),
        "above": (0, 1),
        "below": (0, -1),
    }
    crowd = {
        side: max((float(np.dot(d, way) / (np.hypot(*d) or 1.0)) for d in around), default=-1.0)
        for side, way in sides.items()
    }
    return min(crowd, key=lambda side: crowd[side] - (1.2 if side in ("right", "left") else 0.0))


def _charge(charge: int, radicals: int) -> str:
    sign = "+" if charge > 0 else "−"
    return (str(abs(charge)) if abs(charge) > 1 else "") + (sign if charge else "") + "•" * radicals


def _bond_lines(sketch: _Sketch, bond: Bond) -> list[Points]:
    """The lines of a bond, [2, 2] each: one, two or three, that stop short of letters."""
    a, b = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
    line = sketch.xy[[a, b]]
    along = line[1] - line[0]
    normal = np.array([-along[1], along[0]]) / (np.hypot(*along) or 1.0)
    order = LINES.get(str(bond.GetBondType()), 1)
    if order == 2 and (side := _inner_side(sketch, bond, normal)):
        lines = [line, line + side * GAP * normal + 0.6 * GAP * np.array([along, -along])]
    else:
        # Beside a branching atom the two lines reach back to the bonds that leave at 120°.
        back = [-0.29 * GAP * (order == 2 and end.GetDegree() > 2) for end in (bond.GetBeginAtom(), bond.GetEndAtom())]
        whole = line + np.array([back[0] * along, -back[1] * along])
        lines = [whole + (i - (order - 1) / 2) * GAP * normal for i in range(order)]
    boxes = [sketch.labels[i].boxes if i in sketch.labels else [] for i in (a, b)]
    return [_trimmed(_trimmed(one, boxes[0])[::-1], boxes[1])[::-1] for one in lines]


def _inner_side(sketch: _Sketch, bond: Bond, normal: Points) -> int:
    """On which side of a double bond its second line lies: 1, -1, or 0 for one line on either side."""
    a, b = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
    middle = sketch.xy[[a, b]].mean(0)
    rings = [ring for ring in sketch.mol.GetRingInfo().AtomRings() if a in ring and b in ring]
    if rings:
        # In a fused system the line lies in the ring with more double bonds, then in the smaller one.
        ring = max(rings, key=lambda ring: (_double_bonds(sketch.mol, ring), -len(ring)))
        return 1 if np.dot(sketch.xy[list(ring)].mean(0) - middle, normal) >= 0 else -1
    ends = [bond.GetBeginAtom(), bond.GetEndAtom()]
    if min(end.GetDegree() for end in ends) == 1:
        return 0
    others = [n.GetIdx() for end in ends for n in end.GetNeighbors() if n.GetIdx() not in (a, b)]
    heights = [float(np.dot(sketch.xy[i] - middle, normal)) for i in others]
    signs = [int(math.copysign(1, h)) for h in heights if abs(h) > 0.1]
    return 0 if not signs else 1 if sum(signs) >= 0 else -1


def _double_bonds(mol: Mol, ring: Sequence[int]) -> int:
    pairs = zip(ring, (*ring[1:], ring[0]), strict=True)
    return sum(mol.GetBondBetweenAtoms(a, b).GetBondTypeAsDouble() > 1.2 for a, b in pairs)


def _trimmed(line: Points, boxes: list[Box]) -> Points:
    """The line without what lies within the boxes around its beginning."""
    start, along = line[0], line[1] - line[0]
    begin = 0.0
    for left, bottom, right, top in boxes:
        low = np.array([left, bottom]) - CLEAR
        high = np.array([right, top]) + CLEAR
        with np.errstate(divide="ignore", invalid="ignore"):
            crossings = np.sort(np.stack([(low - start) / along, (high - start) / along]), axis=0)
        enter, leave = float(np.nanmax(crossings[0])), float(np.nanmin(crossings[1]))
        if enter < leave and enter < 0.5:
            begin = max(begin, min(leave, 0.9))
    return np.stack([start + begin * along, line[1]])


def _paint(axes: Axes, sketch: _Sketch, scale: float, name: str) -> None:
    """Draw cells, then bonds, then letters; `scale` is the number of points per bond."""
    _fill_rings(axes, sketch, scale, name)
    _draw_bonds(axes, sketch, scale)
    _write_labels(axes, sketch)


def _fill_rings(axes: Axes, sketch: _Sketch, scale: float, name: str) -> None:
    """Large rings first. One that smaller rings cover shows as a rim around them, like the lines on a map."""
    from matplotlib.patches import Polygon

    levels = sketch.levels
    for i, ring in sorted(enumerate(sketch.rings), key=lambda numbered: (-len(numbered[1]), -levels[numbered[0]])):
        axes.add_patch(
            Polygon(
                sketch.xy[list(ring)],
                facecolor=ring_colour(len(ring)),
                edgecolor=ring_colour(len(ring)),
                linewidth=2 * RIM * levels[i] * scale,
                joinstyle="round",
                zorder=1,
                gid=f"{name}cell-{i}",
            )
        )


def _draw_bonds(axes: Axes, sketch: _Sketch, scale: float) -> None:
    from matplotlib.collections import LineCollection

    lines: dict[str, list[Points]] = {"solid": [], "dashed": []}
    for bond in sketch.mol.GetBonds():
        lines["solid" if str(bond.GetBondType()) in LINES else "dashed"].extend(_bond_lines(sketch, bond))
    for style, segments in lines.items():
        axes.add_collection(
            LineCollection(
                segments, colors=INK, linewidths=STROKE * scale, linestyles=style, capstyle="round", zorder=3
            )
        )


def _write_labels(axes: Axes, sketch: _Sketch) -> None:
    from matplotlib.patches import FancyBboxPatch, PathPatch
    from matplotlib.path import Path as Outline

    for label in sketch.labels.values():
        for left, bottom, right, top in label.boxes:
            axes.add_patch(
                FancyBboxPatch(
                    (left, bottom),
                    right - left,
                    top - bottom,
                    boxstyle="round,pad=0.06,rounding_size=0.14",
                    facecolor="white",
                    linewidth=0,
                    alpha=0.6,
                    zorder=4,
                )
            )
        outline = Outline.make_compound_path(*label.outlines)
        axes.add_patch(PathPatch(outline, facecolor=label.colour, linewidth=0, zorder=5))


def write_in_ink(axes: Axes) -> None:
    """Letters in ink and without boxes: the colours of elements would be lost on a ground that has one of its own."""
    from matplotlib.patches import FancyBboxPatch, PathPatch

    for patch in axes.patches:
        if isinstance(patch, FancyBboxPatch):
            patch.set_visible(False)
        elif isinstance(patch, PathPatch):
            patch.set_facecolor(INK)


def ring_colour(size: int) -> tuple[float, float, float]:
    """The colour of 2-cells with so many vertices."""
    from matplotlib.colors import to_rgb

    red, green, blue = (1 - FILL + FILL * c for c in to_rgb(RING_COLOURS[(size - 3) % len(RING_COLOURS)]))
    return red, green, blue


def _draw(
    sketches: list[_Sketch],
    titles: Sequence[str],
    columns: int,
    panel: tuple[float, float],
    legend: bool,
    path: str | Path | None,
) -> Figure:
    """Lay out panels, each `panel` inches at most, with titles above them and one legend below all."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    extents = np.array([sketch.extent for sketch in sketches])
    spans = (extents[:, 2:] - extents[:, :2]) / 72  # times the scale: inches
    scale = min(POINTS_PER_BOND, *(panel / spans.max(0)))
    heading = TITLE_HEIGHT if any(titles) else 0.0
    wide = max(spans[:, 0].max() * scale, 2.4, *(0.1 * len(title) for title in titles))
    high = [max(spans[i : i + columns, 1].max() * scale, 1.0) for i in range(0, len(sketches), columns)]
    sizes = Counter(len(ring) for sketch in sketches for ring in sketch.rings) if legend else Counter()
    entries = min(len(sizes), int(columns * wide / LEGEND_ENTRY))
    footer = LEGEND_ROW * math.ceil(len(sizes) / entries) + 0.15 if sizes else 0.0
    width, height = columns * wide, sum(high) + heading * len(high) + footer

    # Not pyplot: it would keep the figure alive, and may ask for a display.
    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    for i, (sketch, title) in enumerate(zip(sketches, titles, strict=True)):
        row, column = divmod(i, columns)
        bottom = height - sum(high[: row + 1]) - heading * (row + 1)
        axes = figure.add_axes((column * wide / width, bottom / height, wide / width, high[row] / height))
        _frame(axes, extents[i], np.array([wide, high[row]]) * 72 / scale)
        axes.set_title(title, fontsize=11, color=INK, pad=5)
        _paint(axes, sketch, scale, f"molecule-{i}-" if len(sketches) > 1 else "")
    if sizes:
        _list_sizes(figure, sizes, entries)
    if path is not None:
        _save(figure, Path(path))
    return figure


def _frame(axes: Axes, extent: Points, room: Points) -> None:
    """Put the molecule in the middle of its panel, which is `room` bonds wide and high."""
    centre = (extent[:2] + extent[2:]) / 2
    axes.set_xlim(centre[0] - room[0] / 2, centre[0] + room[0] / 2)
    axes.set_ylim(centre[1] - room[1] / 2, centre[1] + room[1] / 2)
    axes.set_aspect("equal")
    axes.set_axis_off()


def _list_sizes(figure: Figure, sizes: Counter[int], columns: int) -> None:
    from matplotlib.patches import Patch

    # Legends are filled column by column, and read row by row.
    ordered = [size for column in range(columns) for size in sorted(sizes)[column::columns]]
    handles = [Patch(facecolor=ring_colour(size), linewidth=0) for size in ordered]
    names = [f"{size}-ring × {sizes[size]}" for size in ordered]
    figure.legend(
        handles,
        names,
        loc="lower center",
        ncols=columns,
        frameon=False,
        fontsize=9.5,
        labelcolor=INK,
        handlelength=1.1,
        handleheight=1.1,
        handletextpad=0.5,
        columnspacing=1.4,
    )


def _save(figure: Figure, path: Path) -> None:
    kind = path.suffix.lower()
    if kind not in (".png", ".svg", ".pdf"):
        raise ValueError(f"{path}: pictures are written as .png, .svg or .pdf")
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind[1:], dpi=200)
    write_whole(path, buffer.getvalue())
