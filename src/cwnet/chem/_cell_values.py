"""Draw numbers of atoms or bonds on their molecules, such as measured and predicted ones side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cwnet.chem._contributions import ATOM, BAR, BOND, COLOURS, _scale
from cwnet.chem._draw import (
    INK,
    POINTS_PER_BOND,
    TITLE_HEIGHT,
    _draw_bonds,
    _frame,
    _save,
    _Sketch,
    _write_labels,
    write_in_ink,
)
from cwnet.chem._read import parse
from cwnet.complexes import CellComplex

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rdkit.Chem import Mol

__all__ = ["draw_cell_values", "limits_of"]

#: Inches for one molecule, at the most.
PANEL = (3.0, 2.6)


def limits_of(values: Any) -> tuple[float, float]:
    """The ends of a scale of colours for nearly all of these numbers: on both sides of 0 alike, where they are."""
    known = np.asarray(values, dtype=np.float64).ravel()
    known = known[~np.isnan(known)]
    low, high = np.quantile(known, [0.02, 0.98]) if len(known) else (0.0, 1.0)
    if low < 0 < high:
        low, high = -max(-low, high), max(-low, high)
    return float(low), float(high if high > low else low + 1.0)


def draw_cell_values(
    mols: Sequence[Mol | str],
    complexes: Sequence[CellComplex],
    values: Mapping[str, Sequence[Any]],
    dim: int,
    *,
    limits: tuple[float, float] | None = None,
    label: str = "",
    path: str | Path | None = None,
) -> Figure:
    """Draw molecules, a row each, with their atoms or bonds on a ground of the colour of their number.

    All share one scale: from red over white to blue where there are numbers on both sides of 0, else from white to
    blue. A number that is NaN has no ground. In an SVG the grounds have the ids ``NAME-MOLECULE-CELL``.

    Args:
        mols: RDKit molecules or SMILES.
        complexes: their complexes.
        values: the columns of the picture by name, each with a list of numbers for every molecule.
        dim: 0 for numbers of atoms, 1 for those of bonds.
        limits: the numbers with the colours at both ends; by default by `limits_of`.
        label: text beside the scale.
        path: file to write, PNG, SVG or PDF by its suffix.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.figure import Figure

    sketches = [
        _Sketch.of(parse(mol) if isinstance(mol, str) else mol, complex)
        for mol, complex in zip(mols, complexes, strict=True)
    ]
    numbers = {
        name: [_checked(v, s, dim) for v, s in zip(lists, sketches, strict=True)] for name, lists in values.items()
    }
    low, high = limits or limits_of(np.concatenate([v for lists in numbers.values() for v in lists]))
    stops = COLOURS if low < 0 < high else COLOURS[1:]
    colours = ScalarMappable(Normalize(low, high), LinearSegmentedColormap.from_list("values", stops))

    extents = np.array([sketch.extent for sketch in sketches])
    spans = (extents[:, 2:] - extents[:, :2]) / 72
    scale = min(POINTS_PER_BOND, *(PANEL / spans.max(0)))
    wide, rows = max(spans[:, 0].max() * scale, 2.0), [max(span * scale, 0.8) for span in spans[:, 1]]
    width, height = wide * len(numbers), sum(rows) + TITLE_HEIGHT + BAR
    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    for i, sketch in enumerate(sketches):
        bottom = height - TITLE_HEIGHT - sum(rows[: i + 1])
        for column, (name, lists) in enumerate(numbers.items()):
            axes = figure.add_axes((column / len(numbers), bottom / height, 1 / len(numbers), rows[i] / height))
            _frame(axes, extents[i], np.array([wide, rows[i]]) * 72 / scale)
            if not i:
                axes.set_title(name, fontsize=10.5, color=INK, pad=4)
            _ground(axes, sketch, lists[i], colours, dim, scale, f"{name}-{i}")
            _draw_bonds(axes, sketch, scale)
            _write_labels(axes, sketch)
            write_in_ink(axes)
    _scale(figure, colours, label, width, height)
    if path is not None:
        _save(figure, Path(path))
    return figure


def _checked(values: Any, sketch: _Sketch, dim: int) -> NDArray[np.float64]:
    found = np.asarray(values, dtype=np.float64)
    if found.shape != (sketch.complex.num_cells[dim],):
        raise ValueError(f"{found.shape} numbers of {sketch.complex.num_cells[dim]} cells of dimension {dim}")
    return found


def _ground(
    axes: Axes, sketch: _Sketch, values: NDArray[np.float64], colours: Any, dim: int, scale: float, name: str
) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.patches import Circle

    ends = sketch.complex.cells(1) if dim == 1 else []
    for i in np.flatnonzero(~np.isnan(values)):
        colour = colours.to_rgba(values[i])
        if dim == 0:
            x, y = map(float, sketch.xy[i])
            axes.add_patch(Circle((x, y), ATOM, facecolor=colour, linewidth=0, zorder=2, gid=f"{name}-{i}"))
        else:
            line = LineCollection([sketch.xy[list(ends[i])]], colors=[colour], linewidths=BOND * scale, zorder=2)
            line.set_capstyle("round")
            line.set_gid(f"{name}-{i}")
            axes.add_collection(line)
