"""Where to draw the vertices of a complex in the plane."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import csgraph

from cwnet.complexes import CellComplex
from cwnet.complexes._components import connected_components

__all__ = ["Floats", "edge_ends", "layout", "rescaled"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
    ends = edge_ends(complex)
    _, component = connected_components(n, ends[:, 0], ends[:, 1])
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
    ends = edge_ends(complex)
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
    return rescaled(points - points.mean(axis=0), ends)


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


def rescaled(points: Floats, ends: Ints) -> Floats:
    """The same drawing at a median edge length of 1."""
    lengths = np.linalg.norm(points[ends[:, 0]] - points[ends[:, 1]], axis=1)
    unit = float(np.median(lengths)) if len(lengths) else 0.0
    return points / (unit or 1.0)


def edge_ends(complex: CellComplex) -> Ints:
    return np.asarray(complex.cells(1), dtype=np.int64).reshape(-1, 2)
