"""Draw what atoms, bonds and rings contribute to a number, on the molecule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cwnet.chem._draw import (
    INK,
    LARGEST_FIGURE,
    POINTS_PER_BOND,
    RIM,
    TITLE_HEIGHT,
    _draw_bonds,
    _frame,
    _save,
    _Sketch,
    _write_labels,
)
from cwnet.chem._read import parse
from cwnet.complexes import CellComplex

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rdkit.Chem import Mol

__all__ = ["draw_contributions"]

#: From what pulls down over nothing to what pushes up.
COLOURS = ("#C0392B", "#FFFFFF", "#1F6FB4")
ATOM, BOND = 0.31, 0.26  # radius and width of what lies behind atoms and bonds
BAR = 0.62  # inches for the scale


def draw_contributions(
    mol: Mol | str,
    complex: CellComplex,
    contributions: Sequence[Any],
    *,
    limit: float | None = None,
    title: str = "",
    label: str = "contribution",
    path: str | Path | None = None,
) -> Figure:
    """Draw a molecule with every atom, bond and ring on a ground of the colour of its contribution.

    Blue pushes the number up and red pulls it down. In an SVG the grounds have the ids ``ring-i``, ``bond-i`` and
    ``atom-i``.

    Args:
        mol: an RDKit molecule, or a SMILES.
        complex: its complex.
        contributions: a number for each cell, one list per dimension.
        limit: the contribution with the full colour; by default the largest.
        title: text above the molecule.
        label: text beside the scale.
        path: file to write, PNG, SVG or PDF by its suffix.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.figure import Figure

    values = [np.asarray(c, dtype=np.float64) for c in contributions]
    for d, found in enumerate(values):
        if len(found) != complex.num_cells[d]:
            raise ValueError(f"{len(found)} contributions of dimension {d}, but {complex.num_cells[d]} cells")
    limit = limit or max((float(np.abs(v).max()) for v in values if len(v)), default=0.0) or 1.0
    colours = ScalarMappable(Normalize(-limit, limit), LinearSegmentedColormap.from_list("contribution", COLOURS))
    sketch = _Sketch.of(parse(mol) if isinstance(mol, str) else mol, complex)
    extent = np.array(sketch.extent)
    span = (extent[2:] - extent[:2]) / 72
    scale = min(1.3 * POINTS_PER_BOND, *(LARGEST_FIGURE / span))
    wide, high = max(span[0] * scale, 3.4, 0.085 * len(title)), max(span[1] * scale, 1.0)
    height = high + TITLE_HEIGHT + BAR
    figure = Figure(figsize=(wide, height), facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, BAR / height, 1, high / height))
    _frame(axes, extent, np.array([wide, high]) * 72 / scale)
    axes.set_title(title, fontsize=10.5, color=INK, pad=4)
    _ground(axes, sketch, values, colours, scale)
    _draw_bonds(axes, sketch, scale)
    _write_labels(axes, sketch)
    _scale(figure, colours, label, wide, height)
    if path is not None:
        _save(figure, Path(path))
    return figure


def _ground(axes: Axes, sketch: _Sketch, values: Sequence[Any], colours: Any, scale: float) -> None:
    """Rings, the large ones lowest; bonds and atoms on them."""
    from matplotlib.collections import LineCollection
    from matplotlib.patches import Circle, Polygon

    levels = sketch.levels
    for i, ring in sorted(enumerate(sketch.rings), key=lambda each: (-len(each[1]), -levels[each[0]])):
        colour = colours.to_rgba(values[2][i])
        rim = 2 * RIM * levels[i] * scale
        axes.add_patch(
            Polygon(
                sketch.xy[list(ring)], facecolor=colour, edgecolor=colour, linewidth=rim, joinstyle="round", zorder=1,
                gid=f"ring-{i}",
            )
        )  # fmt: skip
    for i, (a, b) in enumerate(sketch.complex.cells(1)):
        line = LineCollection([sketch.xy[[a, b]]], colors=[colours.to_rgba(values[1][i])], linewidths=BOND * scale)
        line.set_capstyle("round")
        line.set_zorder(1.5)
        line.set_gid(f"bond-{i}")
        axes.add_collection(line)
    for i, place in enumerate(sketch.xy):
        circle = Circle((float(place[0]), float(place[1])), ATOM, facecolor=colours.to_rgba(values[0][i]), linewidth=0)
        circle.set_zorder(2)
        circle.set_gid(f"atom-{i}")
        axes.add_patch(circle)


def _scale(figure: Figure, colours: Any, label: str, wide: float, height: float) -> None:
    """A bar of colours below the molecule."""
    width = min(2.6, 0.7 * wide)
    axes = figure.add_axes(((wide - width) / 2 / wide, 0.36 / height, width / wide, 0.1 / height))
    bar = figure.colorbar(colours, cax=axes, orientation="horizontal")
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7.5, length=2, colors=INK)
    bar.ax.locator_params(nbins=5)
    bar.set_label(label, fontsize=8, color=INK, labelpad=1)
