"""A web page that steps through the colours of two complexes, round by round."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwnet.complexes import CellComplex
from cwnet.complexes._cells import describe_cells
from cwnet.wl._layout import Floats, edge_ends, layout, rescaled

__all__ = ["Panel", "TestRun", "render_page"]

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
    parts["policy"] = _policy(parts["style"], parts["script"])
    # One pass, so that a placeholder that stands in a user's text is not filled.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _asset("page.html"))


def _policy(style: str, script: str) -> str:
    """What the page may do: run this script and this style, and ask nobody for anything."""
    allowed = [
        f"{kind}-src 'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for kind, text in (("script", script), ("style", style))
    ]
    return "; ".join(["default-src 'none'", *allowed, "form-action 'none'", "base-uri 'none'"])


def _asset(name: str) -> str:
    return (resources.files("cwnet.wl") / "page_assets" / name).read_text(encoding="utf-8")


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
            return rescaled(np.asarray(panel.positions, dtype=np.float64).reshape(-1, 2), edge_ends(panel.complex))
        key = _graph_of(panel.complex)
        if key not in found:
            found[key] = layout(richest[key])
        return found[key]

    return [[points(panel) for panel in run.panels] for run in runs]


def _graph_of(complex: CellComplex) -> str:
    return f"{complex.num_cells[0]} {complex.cells(1)}"
