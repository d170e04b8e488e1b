"""Draw a 2-complex and signals on its cells.

All lengths follow from the median length of the edges, so complexes of any size look alike. matplotlib is imported when
a picture is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cwnet.complexes import CellComplex
from cwnet.errors import InvalidComplexError
from cwnet.topology._orientation import Oriented, orient

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot"]

Floats = NDArray[np.float64]

_INK, _PAPER, _CELL, _QUIET = "#20242c", "#ffffff", "#e4e9f2", "#b6bfcc"
#: From nothing to much, for the size of a flow; and from minus to plus, for what has a sign.
_FLOW = ("#c3cbd8", "#6aa5c9", "#1f6fa8", "#0b2f66")
_SIGNED = ("#2166ac", "#92c5de", "#f4f5f7", "#f4a582", "#b2182b")
_ARROW, _VERTEX, _TURN, _BOW = 0.17, 0.07, 0.16, 0.22  # in edges
_MOST_TURNS = 80  # more 2-cells than this are drawn without their arrows


def plot(
    cells: CellComplex | Oriented,
    signal: Sequence[Any] | None = None,
    *,
    positions: Any = None,
    axes: Axes | None = None,
    title: str | None = None,
    scale: bool = True,
    numbers: bool = False,
) -> Axes:
    """Draw a complex of dimension at most 2 with its orientation, and signals as colours.

    An edge has an arrow along its orientation, and a 2-cell one around its centre. An edge with a signal has its arrow
    the way the signal flows, against the orientation where it is negative, in a colour and width that say how much.
    Vertices and 2-cells with a signal are coloured from blue (negative) through white to red.

    Args:
        cells: one complex; an oriented one is drawn in its own orientation.
        signal: one number per cell, for (vertices, edges, 2-cells); None for a dimension without.
        positions: where the vertices are, [vertices, 2]; by default they are laid out by the lengths of paths.
        axes: where to draw; a new figure by default.
        title: above the picture.
        scale: whether to draw a colour bar for each signal.
        numbers: whether to write the numbers of vertices next to them.

    Returns:
        The axes; ``axes.figure.savefig("complex.png")`` writes a file.

    >>> from cwnet import lift, Rings
    >>> square = lift((4, [(0, 1), (1, 2), (2, 3), (3, 0)]), Rings(4))
    >>> plot(square, (None, [1.0, 1.0, 1.0, -1.0], [4.0])).get_aspect()
    1.0
    """
    one, oriented = _drawable(cells)
    values = _signals(one, signal)
    at = _positions(one, positions)
    axes = _new_axes(at) if axes is None else axes
    curves = _curves(one, oriented, at)
    unit = _unit(at, curves)
    bars = [
        _draw_cells(axes, one, oriented, curves, unit, values[2], turns=values[1] is None),
        _draw_edges(axes, curves, unit, values[1]),
        _draw_vertices(axes, at, unit, values[0], numbers),
    ]
    _finish(axes, title)
    if scale:
        _draw_scales(axes, bars)
    return axes


def _drawable(cells: CellComplex | Oriented) -> tuple[CellComplex, Oriented]:
    """The one complex there is to draw, and its orientation."""
    oriented = orient(cells)
    if len(oriented) != 1:
        raise InvalidComplexError(f"{len(oriented)} complexes can not be drawn as one: draw them one by one")
    one = oriented[0]
    if one.dim > 2:
        raise InvalidComplexError(f"a complex of dimension {one.dim} can not be drawn: draw its skeleton(2)")
    return one, oriented


def _finish(axes: Axes, title: str | None) -> None:
    axes.set_aspect("equal")
    axes.axis("off")
    axes.autoscale_view()
    axes.margins(0.04)
    if title:
        axes.set_title(title, color=_INK, fontsize=11)


def _unit(at: Floats, curves: list[Floats]) -> float:
    """The median length of the edges, but no more than a quarter of the picture."""
    extent = float(np.ptp(at, axis=0).max()) if len(at) else 0.0
    lengths = [float(np.linalg.norm(np.diff(c, axis=0), axis=1).sum()) for c in curves]
    return min(float(np.median(lengths or [1.0])), extent / 4 or 1.0)


def _signals(complex_: CellComplex, signal: Sequence[Any] | None) -> list[Floats | None]:
    out: list[Floats | None] = [None, None, None]
    if signal is None:
        return out
    if len(signal) > 3 or not all(s is None or np.ndim(s) >= 1 for s in signal):
        raise InvalidComplexError(
            "the signal must be (of vertices, of edges, of 2-cells), each one number per cell, or None"
        )
    for d, given in enumerate(signal):
        if given is not None:
            values = np.asarray(given, dtype=np.float64)
            values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
            if values.shape != (complex_._count(d),):
                raise InvalidComplexError(
                    f"the signal of dimension {d} is of shape {np.shape(given)}, but there are {complex_._count(d)} "
                    f"cells: it must be [{complex_._count(d)}]"
                )
            out[d] = values
    return out


def _positions(complex_: CellComplex, positions: Any) -> Floats:
    if positions is None:
        from cwnet.wl._layout import layout

        return layout(complex_)
    at = np.asarray(positions, dtype=np.float64)
    if at.shape != (complex_.num_cells[0], 2):
        raise InvalidComplexError(
            f"positions are of shape {at.shape}, they must be [{complex_.num_cells[0]}, 2], one point per vertex"
        )
    return at


def _new_axes(at: Floats) -> Axes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width, height = np.ptp(at, axis=0) if len(at) else (1.0, 1.0)
    ratio = min(max(height / width if width else 1.0, 0.4), 1.6)
    figure = Figure(figsize=(7, 7 * ratio), layout="constrained", facecolor=_PAPER)
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def _curves(complex_: CellComplex, oriented: Oriented, at: Floats) -> list[Floats]:
    """The points along every edge, from tail to head; parallel edges bow away from each other."""
    ends = np.array(complex_.cells(1), dtype=np.int64).reshape(-1, 2)
    turned = oriented.signs[0].reshape(-1, 2)[:, 0].cpu().numpy() > 0 if oriented.signs else np.zeros(0, dtype=bool)
    ends[turned] = ends[turned][:, ::-1]
    together: dict[tuple[int, ...], list[int]] = {}
    for e, pair in enumerate(np.sort(ends, axis=1).tolist()):
        together.setdefault(tuple(pair), []).append(e)
    curves: list[Floats] = [at[pair] for pair in ends]
    t = np.linspace(0, 1, 25)[:, None]
    for pair, edges in together.items():
        for i, e in enumerate(edges if len(edges) > 1 else []):
            a, b = at[list(pair)]
            bow = (i - (len(edges) - 1) / 2) * 2 * _BOW * np.array([a[1] - b[1], b[0] - a[0]])
            curve = a + t * (b - a) + 4 * t * (1 - t) * bow
            curves[e] = curve if ends[e, 0] == pair[0] else curve[::-1]
    return curves


def _outlines(complex_: CellComplex, oriented: Oriented, curves: list[Floats]) -> list[Floats]:
    """The points around every 2-cell, in the direction of its orientation."""
    csr = complex_.boundary(2)
    signs = np.split(oriented.signs[1].cpu().numpy(), csr.ptr[1:-1].cpu().numpy())
    out = []
    for edges, sign in zip(csr.tolist(), signs, strict=True):
        pieces = [curves[e] if s > 0 else curves[e][::-1] for e, s in zip(edges, sign, strict=True)]
        # Every piece ends where another one starts. Points that were copied are equal to the last bit.
        following = {tuple(piece[0].tolist()): piece for piece in pieces}
        walk = [pieces[0]]
        while len(walk) < len(pieces):
            walk.append(following[tuple(walk[-1][-1].tolist())])
        out.append(np.concatenate([piece[:-1] for piece in walk]))
    return out


def _draw_cells(
    axes: Axes,
    complex_: CellComplex,
    oriented: Oriented,
    curves: list[Floats],
    unit: float,
    values: Floats | None,
    turns: bool,
) -> Any:
    from matplotlib.collections import PolyCollection

    if complex_._count(2) == 0:
        return None
    outlines = _outlines(complex_, oriented, curves)
    filled = PolyCollection(outlines, facecolors=_CELL, edgecolors="none", alpha=0.85, zorder=1)
    if values is not None:
        limit = float(np.abs(values).max()) or 1.0
        filled.set(array=values, cmap=_colours("signed", _SIGNED), clim=(-limit, limit))
    axes.add_collection(filled)
    if turns and len(outlines) <= _MOST_TURNS:
        for outline in outlines:
            _draw_turn(axes, outline, unit)
    return None if values is None else (filled, "2-cells")


def _draw_turn(axes: Axes, outline: Floats, unit: float) -> None:
    """A round arrow at the centre of a 2-cell, along its orientation."""
    x, y = outline.T
    cross = x * np.roll(y, -1) - np.roll(x, -1) * y
    area = cross.sum() / 2
    if abs(area) < 1e-12:
        return
    middle = ((outline + np.roll(outline, -1, axis=0)) * cross[:, None]).sum(0) / (6 * area)
    radius = min(_TURN * unit, 0.3 * abs(area) ** 0.5)
    angles = np.radians(90 - np.sign(area) * np.linspace(0, 280, 40)[::-1])
    arc = middle + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    axes.plot(*arc[:-3].T, color=_QUIET, linewidth=1.1, zorder=2, solid_capstyle="round")
    axes.add_collection(_heads([arc[-8:]], [1.0], 0.8 * radius, 0.6, [_QUIET], zorder=2))


def _draw_edges(axes: Axes, curves: list[Floats], unit: float, values: Floats | None) -> Any:
    from matplotlib.collections import LineCollection

    if not curves:
        return None
    if values is None:
        axes.add_collection(LineCollection(curves, colors=_INK, linewidths=1.2, capstyle="round", zorder=3))
        axes.add_collection(_heads(curves, np.ones(len(curves)), _ARROW * unit, 0.58, _INK, zorder=4))
        return None
    size = np.abs(values)
    limit = float(size.max()) or 1.0
    share = size / limit
    order = np.argsort(size, kind="stable")  # the strongest on top
    lines = LineCollection(
        [curves[e] for e in order],
        array=size[order],
        cmap=_colours("flow", _FLOW),
        clim=(0.0, limit),
        linewidths=0.8 + 2.4 * share[order],
        capstyle="round",
        zorder=3,
    )
    axes.add_collection(lines)
    flowing = [int(e) for e in order if share[e] > 0.02]
    heads = _heads(
        [curves[e] for e in flowing],
        values[flowing],
        unit * _ARROW * (0.6 + 1.6 * share[flowing]),
        0.58,
        lines.to_rgba(size[flowing]),
        zorder=4,
    )
    heads.set(edgecolor=_PAPER, linewidth=0.5 * (share[flowing] > 0.3))
    axes.add_collection(heads)
    return lines, "edges"


def _heads(curves: Sequence[Floats], direction: Any, length: Any, where: float, colours: Any, zorder: int) -> Any:
    """Arrowheads on curves, turned round where the direction is negative."""
    from matplotlib.collections import PolyCollection

    shapes: list[Any] = []
    for curve, sign, size in zip(curves, direction, np.broadcast_to(length, len(curves)), strict=True):
        curve = curve if sign > 0 else curve[::-1]
        steps = np.array([np.linalg.norm(b - a) for a, b in pairwise(curve)])
        reached = np.concatenate([[0.0], np.cumsum(steps)])
        place = where * reached[-1]
        i = min(int(np.searchsorted(reached, place, side="right")) - 1, len(steps) - 1)
        along = (curve[i + 1] - curve[i]) / (steps[i] or 1.0)
        tip = curve[i] + along * (place - reached[i]) + along * size / 2
        across = np.array([-along[1], along[0]]) * size * 0.42
        shapes.append([tip, tip - along * size + across, tip - along * 0.72 * size, tip - along * size - across])
    return PolyCollection(shapes, facecolors=colours, edgecolors="none", zorder=zorder)


def _draw_vertices(axes: Axes, at: Floats, unit: float, values: Floats | None, numbers: bool) -> Any:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Circle

    many = len(at) > 60
    radius = unit * (0.6 if many else 1.0) * _VERTEX * (1.0 if values is None else 1.7)
    dots = PatchCollection([Circle((x, y), radius) for x, y in at], zorder=5)
    dots.set(edgecolor=_INK, linewidth=0.9)
    if values is None:
        dots.set_facecolor(_INK if many else _PAPER)
    else:
        limit = float(np.abs(values).max()) or 1.0
        dots.set(array=values, cmap=_colours("signed", _SIGNED), clim=(-limit, limit))
    axes.add_collection(dots)
    if numbers:
        for i, (x, y) in enumerate(at):
            axes.annotate(str(i), (x, y), (4, 4), textcoords="offset points", color=_INK, fontsize=8, zorder=6)
    return None if values is None else (dots, "vertices")


def _draw_scales(axes: Axes, bars: Sequence[Any]) -> None:
    figure = axes.figure
    for mappable, label in filter(None, bars):
        bar = figure.colorbar(mappable, ax=axes, shrink=0.55, aspect=24, pad=0.02)
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0, labelsize=8, labelcolor=_INK)
        bar.set_label(label, color=_INK, fontsize=9)


def _colours(name: str, stops: Sequence[str]) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(f"cwnet {name}", list(stops))
