"""A web page that steps through the colours of two complexes, round by round."""

from __future__ import annotations

import html
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse import csgraph

from cwnet.complexes import CellComplex
from cwnet.complexes._cells import describe_cells

__all__ = ["Panel", "TestRun", "layout", "render_page"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Colours = Sequence[Sequence[Sequence[int]]]
Edges = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Panel:
    """One of the two complexes of a test, with the colours of its cells in every round.

    Attributes:
        name: what to call the complex on the page.
        complex: the complex.
        rounds: ``rounds[t][d][i]`` is the colour of the i-th d-cell after round t; ``rounds[0]`` are the initial
            colours. Within a round equal numbers are equal colours, in both panels and in all dimensions. The
            numbers of different rounds need not have to do with one another.
        labels: a short text per vertex, such as the element of an atom.
        positions: a point of the plane per vertex, with y upwards; `layout` finds them by default.
    """

    name: str
    complex: CellComplex
    rounds: Colours
    labels: Sequence[str] | None = None
    positions: Sequence[tuple[float, float]] | Floats | None = None


@dataclass(frozen=True)
class TestRun:
    """One test on a pair of complexes, and how it ended.

    Attributes:
        test: what to call the test, such as "WL" or "CWL on Rings(6)".
        panels: the two complexes.
        distinguished: whether the test tells them apart.
        decided_at: the first round in which their colour histograms differ; None where they never do.
        looks_at: what a cell looks at in a round, in words that continue "every cell looks at".
    """

    test: str
    panels: tuple[Panel, Panel]
    distinguished: bool
    decided_at: int | None
    looks_at: str = "its boundary and at the cells it shares a larger cell with"

    __test__ = False  # pytest takes every class whose name starts with Test for tests, unless told so


def render_page(runs: Sequence[TestRun], title: str) -> str:
    """A page that shows how tests colour two complexes, as one HTML text that needs nothing else.

    The page draws both complexes with their vertices, edges and 2-cells, and the colour histograms of all
    dimensions. It asks for nothing from the network, so it also works as a file on a memory stick. The part of
    its address after ``#`` says what it shows first: ``#run=1&round=2`` is the second test after round 2.

    Args:
        runs: the tests; the reader switches between them. Runs on the same graph share one drawing.
        title: the heading of the page.

    Raises:
        ValueError: where colours, labels or positions do not fit their complex, or the verdict does not fit
            the colours. The message names the place.
    """
    if not runs:
        raise ValueError("runs is empty: a page needs at least one test to show")
    for r, run in enumerate(runs):
        _check_run(f"runs[{r}]", run)
    drawings = _shared_layouts(runs)
    data = {"runs": [_run_data(run, points) for run, points in zip(runs, drawings, strict=True)]}
    parts = {
        "title": html.escape(title),
        "style": _asset("page.css"),
        "script": _asset("page.js"),
        "data": _script_json(data),
    }
    # One pass, so that a placeholder that stands in a user's text is not filled.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _asset("page.html"))


def _asset(name: str) -> str:
    return (resources.files("cwnet.wl") / "_page" / name).read_text(encoding="utf-8")


def _script_json(data: Any) -> str:
    """JSON that can stand inside a script element: nothing in it ends the element or opens a comment."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# Checks


def _check_run(place: str, run: TestRun) -> None:
    if len(run.panels) != 2:
        raise ValueError(f"{place}.panels has {len(run.panels)} panels: a test compares two complexes")
    for p, panel in enumerate(run.panels):
        _check_panel(f"{place}.panels[{p}]", panel)
    a, b = run.panels
    if len(a.rounds) != len(b.rounds):
        raise ValueError(f"{place}: its panels have {len(a.rounds)} and {len(b.rounds)} rounds: give both the same")
    if run.distinguished != (run.decided_at is not None):
        raise ValueError(f"{place}: distinguished={run.distinguished} contradicts decided_at={run.decided_at}")
    # A test may count the colours of all dimensions together; the page counts each by itself.
    first = [_first_difference(a, b, apart) for apart in (True, False)]
    if run.decided_at not in first:
        when = "never differ" if first[0] is None else f"first differ in round {first[0]}"
        raise ValueError(f"{place}: decided_at={run.decided_at}, but the colour histograms {when}")


def _check_panel(place: str, panel: Panel) -> None:
    num_cells = panel.complex.num_cells
    if not len(panel.rounds):
        raise ValueError(f"{place}.rounds is empty: it needs at least the initial colours")
    for t, colours in enumerate(panel.rounds):
        if len(colours) != len(num_cells):
            raise ValueError(
                f"{place}.rounds[{t}] has colours for {len(colours)} dimensions, but the complex lists "
                f"{len(num_cells)}: {describe_cells(num_cells)}"
            )
        for d, (row, count) in enumerate(zip(colours, num_cells, strict=True)):
            if len(row) != count:
                raise ValueError(f"{place}.rounds[{t}][{d}] has {len(row)} colours for {count} cells")
    for name, given in (("labels", panel.labels), ("positions", panel.positions)):
        if given is not None and len(given) != num_cells[0]:
            raise ValueError(f"{place}.{name} has {len(given)} entries for {num_cells[0]} vertices")
    for i, point in enumerate(() if panel.positions is None else panel.positions):
        if len(point) != 2 or not all(math.isfinite(x) for x in point):
            raise ValueError(f"{place}.positions[{i}] is {point!r}: it must be two finite numbers")


def _first_difference(a: Panel, b: Panel, apart: bool) -> int | None:
    """The first round in which the histograms differ, with the dimensions apart or together."""
    rounds = range(len(a.rounds))
    return next((t for t in rounds if _histogram(a.rounds[t], apart) != _histogram(b.rounds[t], apart)), None)


def _histogram(colours: Sequence[Sequence[int]], apart: bool) -> Counter[tuple[int, int]]:
    return Counter((d if apart else 0, int(colour)) for d, row in enumerate(colours) for colour in row)


# What the script gets


def _run_data(run: TestRun, points: Sequence[Floats]) -> dict[str, Any]:
    shown = _lasting_colours(run.panels)
    return {
        "test": run.test,
        "decidedAt": run.decided_at,
        "looksAt": run.looks_at,
        "panels": [_panel_data(*args) for args in zip(run.panels, points, shown, strict=True)],
    }


def _panel_data(panel: Panel, points: Floats, shown: list[list[list[int]]]) -> dict[str, Any]:
    edges = panel.complex.cells(1)
    bends = _bends(edges)
    return {
        "name": panel.name,
        "about": describe_cells(panel.complex.num_cells),
        "labels": None if panel.labels is None else [str(label) for label in panel.labels],
        "points": points.round(3).tolist(),
        "edges": [[u, v, bend] for (u, v), bend in zip(edges, bends, strict=True)],
        "cells": list(_outlines(panel.complex, bends)),
        "rounds": shown,
    }


def _lasting_colours(panels: tuple[Panel, Panel]) -> list[list[list[list[int]]]]:
    """The colours renumbered so that a class keeps its number from round to round.

    When a class splits, its largest piece keeps the number and the others get new ones. The result is indexed
    by panel, round, dimension and cell.
    """
    shown: list[list[list[list[int]]]] = [[], []]
    before: list[int] | None = None
    fresh = 0
    for t in range(len(panels[0].rounds)):
        flat = [int(colour) for panel in panels for row in panel.rounds[t] for colour in row]
        classes: dict[int, list[int]] = {}
        for cell, colour in enumerate(flat):
            classes.setdefault(colour, []).append(cell)
        number: dict[int, int] = {}
        taken: set[int] = set()
        # The sort is stable: pieces of one size come in the order of their first cells.
        for colour, cells in sorted(classes.items(), key=lambda item: -len(item[1])):
            old = None if before is None else Counter(before[cell] for cell in cells).most_common(1)[0][0]
            if old is None or old in taken:
                old, fresh = fresh, fresh + 1
            taken.add(old)
            number[colour] = old
        before = [number[colour] for colour in flat]
        rest = iter(before)
        for panel, rounds in zip(panels, shown, strict=True):
            rounds.append([[next(rest) for _ in row] for row in panel.rounds[t]])
    return shown


def _bends(edges: Edges) -> list[float]:
    """How far each edge bows to the left of the way from its smaller to its larger end; 0 unless it has a parallel."""
    count = Counter((min(e), max(e)) for e in edges)
    seen: Counter[tuple[int, int]] = Counter()
    bends = []
    for e in edges:
        ends = (min(e), max(e))
        bends.append(0.6 * (seen[ends] - (count[ends] - 1) / 2))
        seen[ends] += 1
    return bends


def _outlines(complex: CellComplex, bends: list[float]) -> Iterator[list[list[float]]]:
    """The steps [vertex, bend of the edge to the next vertex] around every 2-cell."""
    edges = complex.cells(1)
    for walk, boundary in zip(complex.cells(2), complex.boundary(2).tolist(), strict=True):
        left = {(min(edges[e]), max(edges[e]), e) for e in boundary}
        steps = []
        for u, v in zip(walk, (*walk[1:], walk[0]), strict=True):
            step = min(s for s in left if s[:2] == (min(u, v), max(u, v)))
            left.remove(step)
            steps.append([u, bends[step[2]]])
        yield steps


# Drawing


def _shared_layouts(runs: Sequence[TestRun]) -> list[list[Floats]]:
    """Points for the vertices of every panel of every run, at a typical edge length of 1.

    Panels on one graph get the same points, so that a complex stays where it is when the test is switched. The
    one with the most 2-cells decides, because they say which cycles to draw round.
    """
    richest: dict[str, CellComplex] = {}
    for panel in (panel for run in runs for panel in run.panels):
        known = richest.setdefault(_graph_of(panel.complex), panel.complex)
        if len(panel.complex.cells(2)) > len(known.cells(2)):
            richest[_graph_of(panel.complex)] = panel.complex
    found: dict[str, Floats] = {}

    def points(panel: Panel) -> Floats:
        if panel.positions is not None:
            return _rescaled(np.asarray(panel.positions, dtype=np.float64).reshape(-1, 2), _ends(panel.complex))
        key = _graph_of(panel.complex)
        if key not in found:
            found[key] = layout(richest[key])
        return found[key]

    return [[points(panel) for panel in run.panels] for run in runs]


def _graph_of(complex: CellComplex) -> str:
    return f"{complex.num_cells[0]} {complex.cells(1)}"


def _ends(complex: CellComplex) -> Ints:
    return np.asarray(complex.cells(1), dtype=np.int64).reshape(-1, 2)


def _rescaled(points: Floats, ends: Ints) -> Floats:
    """The same drawing at a median edge length of 1."""
    lengths = np.linalg.norm(points[ends[:, 0]] - points[ends[:, 1]], axis=1)
    unit = float(np.median(lengths)) if len(lengths) else 0.0
    return points / (unit or 1.0)


def layout(complex: CellComplex) -> Floats:
    """Points of the plane for the vertices of a complex, [vertices, 2], such that edges have length about 1.

    Stress majorisation (Gansner, Koren and North, 2004): distances in the plane follow distances in the graph.
    Departures: two vertices of a 2-cell are wanted as far apart as in a regular polygon, so that rings come out
    round, and two edges that meet are wanted at 120 degrees, so that chains zigzag; near pairs count more than
    in the paper; and a drawing through a face (Tutte, 1963) wins where it has less clutter. Components lie next
    to each other. One complex always gets one drawing. Cubic in the vertices of a component.

    >>> layout(CellComplex.from_boundaries(2, [[(0, 1)]]))[:, 0].round(2).tolist()
    [-0.5, 0.5]
    """
    n = complex.num_cells[0]
    wanted = _wanted_distances(complex)
    ends = _ends(complex)
    graph = scipy.sparse.coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n, n))
    _, component = csgraph.connected_components(graph, directed=False)
    parts = [np.flatnonzero(component == c) for c in range(component.max(initial=-1) + 1)]
    parts.sort(key=len, reverse=True)
    cells = [np.asarray(walk, dtype=np.int64) for walk in sorted(complex.cells(2), key=len, reverse=True)]
    drawn = [
        _draw_component(
            wanted[np.ix_(part, part)],
            np.searchsorted(part, ends[np.isin(ends[:, 0], part)]),
            [np.searchsorted(part, walk) for walk in cells if component[walk[0]] == component[part[0]]],
        )
        for part in parts
    ]
    points = np.zeros((n, 2))
    for part, at, offset in zip(parts, drawn, _shelves(drawn), strict=True):
        points[part] = at + offset
    if n:
        points -= (points.min(axis=0) + points.max(axis=0)) / 2
    return points


def _wanted_distances(complex: CellComplex) -> Floats:
    """Shortest paths along edges of length 1, chords of 2-cells and the third sides of 120 degree angles."""
    n = complex.num_cells[0]
    ends = _ends(complex)
    adjacent = np.zeros((n, n), dtype=bool)
    adjacent[ends[:, 0], ends[:, 1]] = adjacent[ends[:, 1], ends[:, 0]] = True
    # As numbers, because numpy multiplies matrices of truth values without BLAS.
    short = np.where(adjacent.astype(np.float32) @ adjacent.astype(np.float32) > 0, math.sqrt(3), np.inf)
    ring = np.full((n, n), np.inf)
    for walk in complex.cells(2):
        k, at = len(walk), np.asarray(walk)
        for step in range(1, k // 2 + 1):
            chord = math.sin(math.pi * step / k) / math.sin(math.pi / k)
            u, v = at, np.roll(at, step)
            ring[u, v] = np.minimum(ring[u, v], chord)
            ring[v, u] = ring[u, v]
    short = np.where(np.isfinite(ring), ring, short)
    short[adjacent] = 1.0
    np.fill_diagonal(short, 0.0)
    return np.asarray(csgraph.shortest_path(short, directed=False), dtype=np.float64).reshape(n, n)


def _draw_component(wanted: Floats, ends: Ints, cells: Sequence[Ints]) -> Floats:
    """The best of several drawings: the least clutter, then the least stress."""
    n = len(wanted)
    if n == 1:
        return np.zeros((1, 2))
    tries, steps = (9, 300) if n <= 80 else (2, 150) if n <= 300 else (1, 40)
    starts = itertools.islice(_starts(wanted), tries)
    # Far pairs first, to find the shape; then the near ones, to get the angles right.
    drawings = [_majorise(wanted, _majorise(wanted, start, 2, steps), 4, steps) for start in starts]
    if len(ends) > 400:
        return _upright(min(drawings, key=lambda at: _stress(wanted, at)), ends)
    # Polyhedra are best seen through one of their faces. Far pairs would fold such a drawing again.
    planar = [_through(cell, n, ends) for cell in (*cells[:1], *cells[-1:]) if len(cell) > 2]
    drawings += planar + [_majorise(wanted, start, 4, steps) for start in planar]
    return _upright(min(drawings, key=lambda at: (_clutter(at, ends), round(_stress(wanted, at), 6))), ends)


def _through(cell: Ints, n: int, ends: Ints) -> Floats:
    """Tutte's drawing: a cell as a regular polygon, every other vertex amid its neighbours."""
    weight = np.zeros((n, n))
    weight[ends[:, 0], ends[:, 1]] = weight[ends[:, 1], ends[:, 0]] = 1.0
    laplacian = np.diag(weight.sum(axis=1)) - weight
    angles = 2 * np.pi * np.arange(len(cell)) / len(cell)
    points = np.zeros((n, 2))
    points[cell] = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    inner = np.setdiff1d(np.arange(n), cell)
    points[inner] = np.linalg.solve(laplacian[np.ix_(inner, inner)], (weight @ points)[inner])
    return _rescaled(points - points.mean(axis=0), ends)


def _starts(wanted: Floats) -> Iterator[Floats]:
    """Classical scaling, flat and in perspective; a circle; then random points, always the same.

    Flat is good for most graphs. Perspective keeps the ends of a prism or a tube apart, one inside the other.
    """
    n = len(wanted)
    centring = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centring @ wanted**2 @ centring)
    rng = np.random.default_rng(0)
    # A path or a star has rank one here: without the noise it could never leave the line.
    flat = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0)) + 1e-3 * rng.standard_normal((n, 2))
    yield flat
    if n > 2:
        depth = vectors[:, -3:-2]
        yield flat * (1 + 0.5 * depth / np.abs(depth).max())
    angles = 2 * np.pi * np.arange(n) / n
    yield np.stack([np.cos(angles), np.sin(angles)], axis=1) * n / 6
    while True:
        yield rng.standard_normal((n, 2)) * wanted.max() / 2


def _majorise(wanted: Floats, points: Floats, power: int, steps: int) -> Floats:
    """SMACOF: every step solves for the minimum of a quadratic that lies above the stress and touches it."""
    n = len(wanted)
    weight = 1 / (wanted + np.eye(n)) ** power - np.eye(n)
    laplacian = np.diag(weight.sum(axis=1)) - weight
    # Only differences of points matter. Point 0 stays put, which makes the system regular.
    factor = scipy.linalg.cho_factor(laplacian[1:, 1:])
    for _ in range(steps):
        pull = -weight * wanted / np.maximum(_distances(points), 1e-9)
        np.fill_diagonal(pull, 0.0)
        np.fill_diagonal(pull, -pull.sum(axis=1))
        moved = np.zeros_like(points)
        moved[1:] = scipy.linalg.cho_solve(factor, (pull @ points)[1:])
        shift = float(np.abs((moved - moved[0]) - (points - points[0])).max())
        points = moved
        if shift < 1e-4:
            break
    centred: Floats = points - points.mean(axis=0)
    return centred


def _distances(points: Floats) -> Floats:
    x, y = points.T
    distances: Floats = np.sqrt((x[:, None] - x) ** 2 + (y[:, None] - y) ** 2)
    return distances


def _stress(wanted: Floats, points: Floats) -> float:
    ratio = (_distances(points) - wanted) / (wanted + np.eye(len(wanted)))
    return float((ratio**2).sum())


def _clutter(points: Floats, ends: Ints) -> int:
    """How many edges cross, and how many vertices lie on another vertex or on an edge, which looks worse."""
    shares = (ends[:, None, :, None] == ends[None, :, None, :]).any(axis=(2, 3))
    a, b = points[ends[:, 0]], points[ends[:, 1]]
    apart = _side(a, b, a) * _side(a, b, b)
    crossings = int(((apart < 0) & (apart.T < 0) & ~shares).sum()) // 2
    along = b - a
    share = ((points[:, None] - a) * along).sum(axis=2) / np.maximum((along**2).sum(axis=1), 1e-9)
    foot = a + np.clip(share, 0, 1)[:, :, None] * along
    off = np.linalg.norm(points[:, None] - foot, axis=2)
    off[ends.T, np.arange(len(ends))] = np.inf
    close = int((_distances(points) < 0.35).sum() - len(points)) // 2
    return crossings + 3 * int((off < 0.12).sum()) + 10 * close


def _side(a: Floats, b: Floats, points: Floats) -> Floats:
    """On which side of the line through a and b each point is, [lines, points]."""
    along, to = b - a, points[None] - a[:, None]
    return np.sign(along[:, :1] * to[:, :, 1] - along[:, 1:] * to[:, :, 0])


def _upright(points: Floats, ends: Ints) -> Floats:
    """Turn a long drawing level, and another one so that it is the same on its left and on its right.

    Where most edges of a long drawing agree up to multiples of 30 degrees, they are turned to those.
    """
    _, (long, short), axes = np.linalg.svd(points, full_matrices=False)
    if short > 0.9 * long:
        return _mirrored(points, ends)
    points = _turned(points, -math.atan2(axes[0, 1], axes[0, 0]))
    along = points[ends[:, 1]] - points[ends[:, 0]]
    # Angles that differ by 30 degrees agree in their 12th multiple.
    mean = np.exp(12j * np.arctan2(along[:, 1], along[:, 0])).sum()
    agree = bool(np.abs(mean) > 0.35 * len(along))
    return _turned(points, -float(np.angle(mean)) / 12) if agree else points


def _mirrored(points: Floats, ends: Ints) -> Floats:
    """Turn a vertex or the middle of an edge straight down, whichever makes the drawing most symmetric.

    Among those it prefers to stand on many vertices: a polygon on a side.
    """
    middles = (points[ends[:, 0]] + points[ends[:, 1]]) / 2
    down = np.concatenate([middles[:60], points[:60]])

    def unrest(points: Floats) -> tuple[float, int]:
        gaps = np.linalg.norm(points[:, None] * (-1, 1) - points[None], axis=2)
        # Rounded, so that drawings that are symmetric but for a hair tie.
        return round(float(gaps.min(axis=1).mean()), 1), -int((points[:, 1] < points[:, 1].min() + 0.05).sum())

    return min((_turned(points, -math.pi / 2 - math.atan2(y, x)) for x, y in down), key=unrest)


def _turned(points: Floats, angle: float) -> Floats:
    c, s = math.cos(angle), math.sin(angle)
    turned: Floats = points @ np.array([[c, s], [-s, c]])
    return turned


def _shelves(drawn: Sequence[Floats], gap: float = 0.8) -> list[Floats]:
    """Offsets that put drawings next to each other, left to right in rows of about one width."""
    sizes = [at.max(axis=0) - at.min(axis=0) + gap for at in drawn]
    total = sum(float(size[0] * size[1]) for size in sizes)
    limit = max([1.5 * math.sqrt(total), *(float(size[0]) for size in sizes)])
    offsets, x, y, tallest = [], 0.0, 0.0, 0.0
    for at, (width, height) in zip(drawn, sizes, strict=True):
        if x + width > limit + 1e-9:
            x, y, tallest = 0.0, y - tallest, 0.0
        low = at.min(axis=0)
        # Drawings of one row are aligned by their tops.
        offsets.append(np.array([x - low[0], y - (low[1] + height - gap)]))
        x, tallest = x + float(width), max(tallest, float(height))
    return offsets
