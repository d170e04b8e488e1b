"""Draw the pictures of the tutorials: ``python tools/pictures.py``. Every run draws the same ones, in under a minute.

Needs RDKit. The two charts are made of the figures in ``results/`` and ``benchmarks/results/``, whatever is there.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import cwnet
from cwnet import CellComplex, Rings, lift, lift_many, wl
from cwnet.chem import draw_molecules, read_smiles
from cwnet.chem._draw import _laid_out
from cwnet.experiments._runs import read_runs
from cwnet.experiments.tables import TABLES, Table
from cwnet.experiments.tables import Figure as Found
from cwnet.explore._colours import _lasting
from cwnet.nn import CINConv, GINConv
from cwnet.topology import plot_colours
from cwnet.wl._layout import layout

ROOT = Path(__file__).resolve().parent.parent
INK, QUIET, OURS, PAPER = "#20242c", "#6b7280", "#0072B2", "#D55E00"

DECALIN = (10, [(i, (i + 1) % 10) for i in range(10)] + [(0, 5)])
BICYCLOPENTYL = (10, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (5, 6), (6, 7), (7, 8), (8, 9), (9, 5), (0, 5)])
DIAZEPAM = "CN1C(=O)CN=C(c2ccccc2)c2cc(Cl)ccc21"
MUSCONE = "CC1CCCCCCCCCCCCC(=O)C1"
TESTOSTERONE = "CC12CCC3C(C1CCC2O)CCC1=CC(=O)CCC13C"


def main() -> None:
    """Draw all pictures, or one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images", help="folder (default: docs/images)")
    parser.add_argument("--only", choices=PICTURES, help="draw one of them")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        if given.only in (None, name):
            start = time.perf_counter()
            path = given.out / f"{name}.png"
            draw(path)
            print(f"{path}: {time.perf_counter() - start:.1f} s")


# ------------------------------------------------------------------------------------------------ complexes


def lifted(path: Path) -> None:
    """A molecule as a graph, and as a complex."""
    (mol,) = read_smiles([DIAZEPAM])
    graph, whole = lift(mol, None), lift(mol, Rings(18))
    titles = [
        f"The graph: {graph.num_cells[0]} atoms, {graph.num_cells[1]} bonds",
        f"The complex: {whole.num_cells[2]} rings are cells too",
    ]
    figure = draw_molecules([mol, mol], [graph, whole], titles=titles, columns=2, panel=(4.2, 3.2))
    save(figure, path)


def liftings(path: Path) -> None:
    """One graph under four liftings: a triangle, a square and a pentagon beside one another, and a tail."""
    edges = [(0, 1), (1, 2), (2, 0), (1, 3), (3, 4), (4, 2), (3, 5), (5, 6), (6, 7), (7, 4), (6, 8)]
    at = [(-1.35, 0), (-0.5, 0.5), (-0.5, -0.5), (0.5, 0.5), (0.5, -0.5), (1.4, 0.8), (2.0, 0), (1.4, -0.8), (3.0, 0)]
    figure = new(11, 3.1)
    for axes, lifting in zip(panels(figure, 1, 4), (None, "cliques:3", "rings:4", "rings:5"), strict=True):
        complex_ = lift((9, edges), lifting)
        sizes = [len(ring) for ring in complex_.cells(2)] if len(complex_.num_cells) > 2 else []
        plot_colours(complex_, [None, None, sizes], positions=at, axes=axes)
        name = {None: "None", "cliques:3": "Cliques(3)", "rings:4": "Rings(4)", "rings:5": "Rings(5)"}[lifting]
        axes.set_title(f"{name}\n{' + '.join(map(str, complex_.num_cells))} cells", color=INK, fontsize=12)
    save(figure, path)


def wl_rounds(path: Path) -> None:
    """The colours of two molecules, round by round: on the graph, and with rings."""
    whole = lift_many([DECALIN, BICYCLOPENTYL], Rings(6))
    places = [layout(complex_) for complex_ in whole]
    figure = new(10.4, 6.2)
    rows = {
        "WL, on the graph": whole.skeleton(1),
        "Cellular WL, with rings": whole,
    }
    grid = panels(figure, len(rows), 3)
    for (name, store), axes_of_row in zip(rows.items(), np.array_split(np.array(grid), len(rows)), strict=True):
        found = wl.refine(store)
        shown = lasting(found)
        for t, axes in enumerate(axes_of_row):
            same = found.histogram(0, t) == found.histogram(1, t)
            draw_pair(axes, store, places, shown[t])
            said = "no difference" if same else "told apart"
            axes.set_title(f"Round {t}: {said}", color=INK if same else PAPER, fontsize=12, pad=4)
            if t == 0:
                axes.text(-0.04, 0.5, name, rotation=90, va="center", ha="center", transform=axes.transAxes,
                          fontsize=12, color=INK, fontweight="bold")  # fmt: skip
    save(figure, path)


def lasting(found: wl.Refinement) -> list[list[list[list[int]]]]:
    """The colours by round, complex and dimension; a class keeps its number where it does not split."""
    count = len(found.store)
    flat = [np.array([n for i in range(count) for row in found.of(i, t) for n in row]) for t in range(found.rounds + 1)]
    shown = []
    for numbers in _lasting(flat):
        rest = iter(numbers.tolist())
        shown.append([[[next(rest) for _ in row] for row in found.of(i, 0)] for i in range(count)])
    return shown


def draw_pair(axes: Any, store: cwnet.ComplexStore, places: Sequence[Any], colours: Sequence[Any]) -> None:
    """Two complexes in one panel, one above the other."""
    down = 0.0
    for complex_, at, numbers in zip(store, places, colours, strict=True):
        moved = at - [0, at[:, 1].max() + down]
        plot_colours(complex_, numbers, positions=moved, axes=axes)
        down += np.ptp(at[:, 1]) + 0.75


def receptive_field(path: Path) -> None:
    """What a vertex hears of in three layers of GIN and of CIN: on a long ring and in two molecules."""
    shown = {"a ring of 20": (lift((20, [(i, (i + 1) % 20) for i in range(20)]), Rings(20)), circle(20), 0)}
    for name, (smiles, listener) in {"muscone": (MUSCONE, 7), "testosterone": (TESTOSTERONE, 14)}.items():
        (mol,) = read_smiles([smiles])
        shown[name] = (lift(mol, Rings(18)), _laid_out(mol)[1], listener)
    figure = new(11.5, 7.4)
    grid = np.array(panels(figure, 2, len(shown))).reshape(2, -1)
    for column, (name, (complex_, at, target)) in zip(grid.T, shown.items(), strict=True):
        for axes, kind in zip(column, ("GIN", "CIN"), strict=True):
            layers = first_heard(complex_, kind, target)
            heard, count = sum(n >= 0 for n in layers[0]), complex_.num_cells[0]
            drawn = complex_ if kind == "CIN" else complex_.skeleton(1)
            plot_colours(drawn, layers[: len(drawn.num_cells)], positions=at, axes=axes, palette=LAYERS)
            axes.set_title(f"{kind} on {name}:\n{heard} of {count} vertices heard", color=INK, fontsize=13)
    marks = [Line2D([], [], marker="o", linestyle="", markersize=11, color=c) for c in (*LAYERS, "#b6bfcc")]
    words = ["the vertex that listens", "heard after 1 layer", "after 2", "after 3", "not heard"]
    figure.legend(marks, words, loc="outside lower center", ncols=5, frameon=False, fontsize=13, labelcolor=INK)
    save(figure, path)


LAYERS = ("#D55E00", "#08519C", "#4A98D0", "#B5D8F0")


def circle(n: int) -> np.ndarray:
    """Corners of a regular polygon with sides of length 1, the first at the left."""
    angles = math.pi + 2 * math.pi * np.arange(n) / n
    return np.stack([np.cos(angles), np.sin(angles)], 1) / (2 * math.sin(math.pi / n))


def first_heard(complex_: CellComplex, kind: str, target: int, most: int = 3) -> list[list[int]]:
    """For every cell, after how many layers the features of a vertex depend on what the cell started with, else -1.

    Asked of networks with random weights, by their gradients.
    """
    found = [[-1] * n for n in complex_.num_cells]
    found[0][target] = 0
    for layers in range(1, most + 1):
        generator = torch.Generator().manual_seed(layers)
        torch.manual_seed(layers)
        convs = [CINConv(8, act="tanh", norm="none") if kind == "CIN" else GINConv(8, act="tanh", norm="none")
                 for _ in range(layers)]  # fmt: skip
        start = [torch.randn(n, 8, generator=generator, requires_grad=True) for n in complex_.num_cells]
        x: Sequence[torch.Tensor] = start
        for conv in convs:
            x = conv(x, complex_)
        given = torch.autograd.grad(x[0][target].sum(), start, allow_unused=True)
        for d, gradient in enumerate(given):
            for i in [] if gradient is None else gradient.abs().amax(1).nonzero().flatten().tolist():
                if found[d][i] < 0:
                    found[d][i] = layers
    return found


# ------------------------------------------------------------------------------------------------ charts


def against_the_paper(path: Path) -> None:
    """The figures of all rows that were run, next to the paper's."""
    found: dict[str, list[tuple[str, Found, tuple[float, float | None]]]] = {}
    for name, table in TABLES.items():
        for key, runs in read_runs(ROOT / "results", name).items():
            row = table.rows[key]
            if row.paper is not None:
                first = next(iter(table.figures(runs).values()))
                found.setdefault(name, []).append((row.label, first, row.paper))
    if not found:
        print(f"{path.name}: there are no results yet")
        return
    counts = [len(rows) for rows in found.values()]
    figure = new(8.6, 0.9 + sum(0.46 * n + 0.85 for n in counts))
    figure.get_layout_engine().set(hspace=0.09)
    all_axes = figure.subplots(len(found), 1, squeeze=False, gridspec_kw={"height_ratios": [n + 0.6 for n in counts]})
    for axes, (name, rows) in zip(all_axes[:, 0], found.items(), strict=True):
        draw_rows(axes, TABLES[name], rows)
    marks = [Line2D([], [], color=c, marker=m, markersize=8) for c, m in ((OURS, "o"), (PAPER, "D"))]
    words = ["cwnet, mean ± standard deviation", "paper"]
    figure.legend(marks, words, loc="outside lower center", ncols=2, frameon=False, fontsize=11, labelcolor=INK)
    save(figure, path)


def draw_rows(axes: Any, table: Table, rows: Sequence[tuple[str, Found, tuple[float, float | None]]]) -> None:
    """The rows of one table, with the paper's below ours."""
    scale = 100 if table.percent else 1
    for place, (_, ours, (mean, spread)) in enumerate(rows):
        for value, std, shift, colour, mark in (
            (ours.mean, ours.std, -0.14, OURS, "o"),
            (mean, spread, 0.14, PAPER, "D"),
        ):
            axes.errorbar(
                [scale * value], [place + shift], xerr=[scale * (std or 0)], fmt=mark, color=colour, markersize=7,
                capsize=3, linewidth=1.8,
            )  # fmt: skip
    axes.set_yticks(range(len(rows)), [label for label, *_ in rows], fontsize=11)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    better = "lower is better" if table.lower else "higher is better"
    axes.set_title(f"{table.title}: {table.measure}, {better}", loc="left", fontsize=11.5, color=INK)
    plain(axes)


class Ratio(NamedTuple):
    """How many times as fast as something else, and where that was measured."""

    what: str
    than: str
    times: float
    where: str


def speed_ups(path: Path) -> None:
    """How many times as fast as others, of all benchmarks that were run."""
    # Both sides of a row do the same work, or the other one less, and were timed in one run of a benchmark.
    ratios = [ratio for read in (of_lifting, of_wl, of_data, of_topology, of_training) for ratio in read()]
    if not ratios:
        print(f"{path.name}: there are no benchmarks yet")
        return
    figure = new(9.6, 1.0 + 0.45 * len(ratios))
    axes = figure.subplots()
    for place, ratio in enumerate(ratios):
        colour = OURS if ratio.where == "CPU" else "#E69F00"
        axes.barh(place, ratio.times - 1, left=1, color=colour, height=0.62)
        axes.text(ratio.times * 1.07, place, f"{ratio.times:,.3g}", va="center", fontsize=11, color=INK)
    axes.set_yticks(range(len(ratios)), [f"{r.what}\nnext to {r.than}" for r in ratios], fontsize=10)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(1, 2.2 * max(r.times for r in ratios))
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.set_title("How many times as fast cwnet is", loc="left", color=INK, fontsize=12.5)
    plain(axes)
    marks = [Line2D([], [], marker="s", linestyle="", markersize=10, color=c) for c in (OURS, "#E69F00")]
    where = [k for k in ("CPU", "GPU") if any(r.where == k for r in ratios)]
    axes.legend(marks[: len(where)], [f"on a {k}" for k in where], frameon=False, loc="lower right", fontsize=11)
    save(figure, path)


def of_lifting() -> Iterator[Ratio]:
    """Lifting, one batch on one thread."""
    for row in figures("lifting").get("table", []):
        if row["lifting"] == "Rings(18)" and not row["name"].startswith("cwnet"):
            than = row["name"].split(",")[0]
            yield Ratio("Lifting ZINC with Rings(18)", than, row["cwnet_is_times_faster"], "CPU")


def of_wl() -> Iterator[Ratio]:
    """Tests, one batch on one thread."""
    short = {
        "WL, a hash per molecule": "WL hashes of ZINC",
        "WL, the colours after 3 rounds": "Three rounds of WL on ZINC",
        "WL kernel, the counts of colours in 3 rounds": "Counts for the WL kernel on ZINC",
    }
    for row in figures("wl").get("table", []):
        if not row["name"].startswith("cwnet") and row["section"] in short and "one call" not in row["name"]:
            than = row["name"].split(",")[0]
            yield Ratio(short[row["section"]], than, row["first_row_is_times_faster"], "CPU")


def of_data() -> Iterator[Ratio]:
    """Mini-batches."""
    seconds = figures("gather").get("milliseconds_per_batch", {})
    if {"cpu, 128", "PyG collate on the cpu, 128"} <= seconds.keys():
        times = seconds["PyG collate on the cpu, 128"] / seconds["cpu, 128"]
        yield Ratio("A batch of 128 complexes", "PyG's collate", times, "CPU")


def of_topology() -> Iterator[Ratio]:
    """Matrices, on the largest complex that TopoNetX was given."""
    compared = [size for size in figures("topology").get("sizes", []) if size["toponetx"]]
    for size in compared[-1:]:
        ours, theirs = size["toponetx"]["laplacian"]
        yield Ratio(f"Hodge Laplacian of {size['num_cells'][1]:,} edges", "TopoNetX", theirs / ours, "CPU")


def of_training() -> Iterator[Ratio]:
    """Epochs of the paper's model."""
    for kind, where in (("cpu", "CPU"), ("gpu", "GPU")):
        found = figures(f"training_{kind}")
        if "plain" in found:
            times = found["plain"]["median"] / found["engine"]["median"]
            yield Ratio("An epoch of CIN on ZINC", "plain code with PyG", times, where)


def figures(name: str) -> dict[str, Any]:
    """What a benchmark measured; nothing where it was not run."""
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return found


# ------------------------------------------------------------------------------------------------ figures


def new(width: float, height: float) -> Figure:
    """An empty figure, drawn without a screen."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def panels(figure: Figure, rows: int, columns: int) -> list[Any]:
    """Axes, row by row."""
    return list(figure.subplots(rows, columns, squeeze=False).flat)


def plain(axes: Any) -> None:
    """A chart without frame."""
    axes.grid(axis="x", alpha=0.3, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.tick_params(axis="x", labelcolor=QUIET)


def save(figure: Figure, path: Path) -> None:
    """Write a picture that depends on nothing but what is drawn."""
    figure.savefig(path, dpi=150, bbox_inches="tight", metadata={"Software": None})


PICTURES: dict[str, Callable[[Path], None]] = {
    "lifted": lifted,
    "liftings": liftings,
    "wl-rounds": wl_rounds,
    "receptive-field": receptive_field,
    "against-the-paper": against_the_paper,
    "speed-ups": speed_ups,
}

if __name__ == "__main__":
    main()
