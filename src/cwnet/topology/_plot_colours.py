"""Draw a 2-complex with a class for each of its cells, such as the colours of the cellular WL test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cwnet.complexes import CellComplex
from cwnet.errors import InvalidComplexError
from cwnet.topology._orientation import Oriented
from cwnet.topology._plot import (
    _INK,
    _PAPER,
    _QUIET,
    Floats,
    _curves,
    _drawable,
    _finish,
    _new_axes,
    _outlines,
    _positions,
    _unit,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLOURS", "plot_colours"]

#: Okabe and Ito's colours, which people with any kind of colour vision tell apart, and lighter or darker ones.
COLOURS = (
    "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7", "#999999",
    "#8C5A00", "#A6DDF7", "#7FD6B8", "#5D3A9B", "#7FB3D9", "#F2A97E", "#8F3A6B", "#4D4D4D",
)  # fmt: skip
_VERTEX, _EDGE = 0.21, 0.13  # radius and width, in edges


def plot_colours(
    cells: CellComplex | Oriented,
    colours: Sequence[Any],
    *,
    positions: Any = None,
    axes: Axes | None = None,
    title: str | None = None,
    palette: Sequence[str] = COLOURS,
    numbers: bool = True,
) -> Axes:
    """Draw a complex of dimension at most 2 with its cells coloured by class.

    Args:
        cells: one complex.
        colours: a whole number per cell, for (vertices, edges, 2-cells), as `cwnet.wl.Refinement.of` gives them. Cells
            with a negative number, and dimensions that are None or left out, are grey.
        positions: where the vertices are, [vertices, 2]; by default they are laid out by the lengths of paths.
        axes: where to draw; a new figure by default.
        title: above the picture.
        palette: the colours of 0, 1, 2, ..., and from the start again.
        numbers: whether to write the numbers on the cells, so that colours need not be told apart.

    Returns:
        The axes; ``axes.figure.savefig("colours.png")`` writes a file.

    >>> from cwnet import lift, Rings, wl
    >>> square = lift((5, [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)]), Rings(4))
    >>> plot_colours(square, wl.refine(square).of(0), title="stable colours").get_title()
    'stable colours'
    """
    one, oriented = _drawable(cells)
    classes = _classes(one, colours)
    at = _positions(one, positions)
    axes = _new_axes(at) if axes is None else axes
    curves = _curves(one, oriented, at)
    outlines = _outlines(one, oriented, curves) if one._count(2) else []
    unit = _unit(at, curves)
    shown = [[_colour(n, palette) for n in many] for many in classes]
    _draw(axes, at, curves, outlines, unit, shown)
    if numbers:
        middles = [list(at), [_middle(curve) for curve in curves], [outline.mean(0) for outline in outlines]]
        on_vertices: list[str | None] = [_ink_on(colour) for colour in shown[0]]
        _write(axes, middles, classes, [on_vertices, [None] * len(curves), [None] * len(outlines)], unit)
    _finish(axes, title)
    return axes


def _classes(one: CellComplex, colours: Sequence[Any]) -> list[list[int]]:
    found = []
    for d in range(3):
        count = one._count(d)
        given = None if d >= len(colours) or colours[d] is None else [int(n) for n in colours[d]]
        if given is not None and len(given) != count:
            raise InvalidComplexError(f"{len(given)} colours for {count} cells of dimension {d}: give one for each")
        found.append([-1] * count if given is None else given)
    return found


def _colour(number: int, palette: Sequence[str]) -> str:
    return _QUIET if number < 0 else palette[number % len(palette)]


def _draw(
    axes: Axes, at: Floats, curves: list[Floats], outlines: list[Floats], unit: float, shown: list[list[str]]
) -> None:
    from matplotlib.collections import PatchCollection, PolyCollection
    from matplotlib.patches import Circle

    large = sorted(range(len(outlines)), key=lambda i: -len(outlines[i]))  # small 2-cells lie on large ones
    axes.add_collection(
        PolyCollection([outlines[i] for i in large], facecolors=[shown[2][i] for i in large], alpha=0.45, zorder=1)
    )
    for width, colours, zorder in ((1.5 * _EDGE, [_PAPER] * len(curves), 2), (_EDGE, shown[1], 3)):
        ribbons = [_ribbon(curve, width * unit) for curve in curves]
        axes.add_collection(PolyCollection(ribbons, facecolors=colours, edgecolors="none", zorder=zorder))
    dots = PatchCollection([Circle((x, y), _VERTEX * unit) for x, y in at], zorder=4)
    dots.set(facecolor=shown[0], edgecolor=_PAPER, linewidth=1.2)
    axes.add_collection(dots)


def _ribbon(curve: Floats, width: float) -> Floats:
    """A line as an area, so that its width grows with the picture."""
    along = np.gradient(curve, axis=0)
    across = np.stack([-along[:, 1], along[:, 0]], axis=1)
    across *= width / 2 / np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-12)
    return np.concatenate([curve + across, (curve - across)[::-1]])


def _middle(curve: Floats) -> Floats:
    at = (len(curve) - 1) / 2
    middle: Floats = (curve[int(at)] + curve[int(at + 0.5)]) / 2
    return middle


def _write(
    axes: Axes, middles: list[list[Floats]], classes: list[list[int]], inks: list[list[str | None]], unit: float
) -> None:
    """The numbers as outlines, which grow with the picture too; dark on a pale halo where no ink is given."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path
    from matplotlib.textpath import TextPath

    font = FontProperties(family="DejaVu Sans", weight="bold")
    for d, size in enumerate((0.25, 0.2, 0.34)):
        for place, number, ink in zip(middles[d], classes[d], inks[d], strict=True):
            if number < 0:
                continue
            text = str(number)
            path = TextPath((0, 0), text, size=size * unit * (1.0 if len(text) < 2 else 0.82), prop=font)
            box = path.get_extents()
            middle = np.array([(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2])
            moved = Path(np.asarray(path.vertices) - middle + place, path.codes)
            if ink is None:
                axes.add_patch(PathPatch(moved, facecolor=_PAPER, edgecolor=_PAPER, linewidth=2.5, zorder=5))
            axes.add_patch(PathPatch(moved, facecolor=ink or _INK, edgecolor="none", zorder=6))


def _ink_on(colour: str) -> str:
    """Dark or pale, whichever can be read on a colour."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(colour)
    return _INK if 0.3 * red + 0.59 * green + 0.11 * blue > 0.45 else _PAPER
