"""Which strongly regular graphs does the cellular WL test tell apart? The exact counterpart of the paper's SR figure.

For each of nine families and each largest ring size k = 4, 5, 6 it finds the share of pairs of graphs that are not
told apart by three tests: CWL on Rings(k), the mere counts of cells by dimension and boundary size, and folklore 2-WL,
which is as powerful as the paper's 3-WL. Writes docs/results/strongly_regular.{json,md,png}.

    CWNET_DATA=/path/to/data python benchmarks/strongly_regular.py
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _common import ROOT, describe_run, markdown_table, read_json, write_json, write_text
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.progress import track

import cwnet
from cwnet.wl import classes, share_not_told_apart

FAMILIES = ["16622", "251256", "261034", "281264", "291467", "351668", "351899", "361446", "401224"]
SIZES = (4, 5, 6)
OUT = ROOT / "docs" / "results"


def family_name(digits: str) -> str:
    """For example "351668" → "SR(35,16,6,8)"."""
    n, degree, rest = re.fullmatch(r"(\d\d)(\d\d?)(\d\d)", digits).groups()
    return f"SR({n},{degree},{rest[0]},{rest[1]})"


def read_family(folder: Path, digits: str) -> cwnet.ComplexStore:
    """The graphs of one family, packed."""
    from cwnet.data import read_graphs

    return cwnet.lift_many([g.graph for g in read_graphs(folder / f"sr{digits}.g6")], None)


def count_classes(store: cwnet.ComplexStore) -> torch.Tensor:
    """Graphs with as many cells of each dimension and boundary size are in one class."""
    keys = []
    for d, csr in enumerate(store.boundaries, start=1):
        owner = torch.repeat_interleave(store.cell_ptr[d].diff())
        sizes = csr.sizes.long()
        width = int(sizes.max()) + 1 if sizes.numel() else 1
        counts = torch.bincount(owner * width + sizes, minlength=len(store) * width)
        keys.append(counts.reshape(len(store), width))
    return torch.unique(torch.cat(keys, 1), dim=0, return_inverse=True)[1]


def measure(folder: Path) -> dict[str, Any]:
    """All shares, as fractions."""
    rows = []
    for digits in track(FAMILIES, description="families"):
        graphs = read_family(folder, digits)
        row: dict[str, Any] = {"family": family_name(digits), "graphs": len(graphs), "cwl": {}, "counts": {}}
        start = time.perf_counter()
        row["2-fwl"] = share_not_told_apart(classes(graphs, test="2-fwl"))
        for k in SIZES:
            store = cwnet.lift_many(graphs, cwnet.Rings(k))
            row["cwl"][str(k)] = share_not_told_apart(classes(store))
            row["counts"][str(k)] = share_not_told_apart(count_classes(store))
        row["seconds"] = time.perf_counter() - start
        rows.append(row)
    return {"rows": rows}


def percent(share: float) -> str:
    """A share in percent; a zero is an exact zero."""
    return "0" if share == 0 else f"{100 * share:.3g}"


def render(figures: dict[str, Any]) -> None:
    """Write the page and the picture from the figures."""
    rows = figures["rows"]
    head = ["family", "graphs", *(f"CWL, k={k}" for k in SIZES), *(f"counts, k={k}" for k in SIZES), "2-FWL", "seconds"]
    body = [
        [
            r["family"],
            f"{r['graphs']:,}",
            *(percent(r["cwl"][str(k)]) for k in SIZES),
            *(percent(r["counts"][str(k)]) for k in SIZES),
            percent(r["2-fwl"]),
            f"{r['seconds']:.1f}",
        ]
        for r in rows
    ]
    machine = figures["run"]["machine"]
    text = f"""# Strongly regular graphs

The share of pairs of graphs, in percent, that a test does **not** tell apart. Graphs of one family are all alike to
folklore 2-WL (the paper's 3-WL). CWL is run to stability on Rings(k), with all cells of one colour at first. "Counts"
compares no more than how many cells there are of each dimension and boundary size, and shows what refinement adds.
The paper's figure shows the same for an untrained network; this is the test itself, without rounding.

{markdown_table(head, body, "lr" + "r" * 8)}

![Share of pairs not told apart](strongly_regular.png)

A bar that is not there is a share of exactly zero. Made by `{figures["run"]["command"]}` on {machine["cpu"]},
{machine["cores"]} cores, {figures["run"]["date"]}; seconds are for all seven tests of a family, liftings included.
"""
    write_text(OUT / "strongly_regular.md", text)
    draw(rows)


def draw(rows: list[dict[str, Any]]) -> None:
    """Bars per family, in the form of the paper's figure."""
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    tests = [("2-FWL (= 3-WL)", lambda r: r["2-fwl"], "#9aa0a6")]
    for k, colour in zip(SIZES, ("#f3c78a", "#e9a24a", "#c97a1d"), strict=True):
        tests.append((f"counts ({k})", lambda r, k=k: r["counts"][str(k)], colour))
    for k, colour in zip(SIZES, ("#9cc4e4", "#4d94c9", "#1f5f94"), strict=True):
        tests.append((f"CWL ({k})", lambda r, k=k: r["cwl"][str(k)], colour))
    places = np.arange(len(rows))
    width = 0.84 / len(tests)
    for i, (label, share, colour) in enumerate(tests):
        heights = [100 * share(r) for r in rows]
        axes.bar(places + (i - len(tests) / 2 + 0.5) * width, heights, width, label=label, color=colour)
    axes.set_yscale("log")
    axes.set_ylim(1e-5, 200)
    axes.set_yticks([1e-4, 1e-2, 1, 100], ["0.0001", "0.01", "1", "100"])
    axes.set_ylabel("pairs not told apart (%)")
    axes.set_xticks(places, [f"{r['family']}\n{r['graphs']:,} graphs" for r in rows], fontsize=8)
    axes.tick_params(axis="x", length=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)
    figure.legend(ncols=7, loc="outside upper center", frameon=False, fontsize=9)
    figure.savefig(OUT / "strongly_regular.png", dpi=150)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--render", action="store_true", help="only draw the page anew from the stored figures")
    arguments = parser.parse_args()
    path = OUT / "strongly_regular.json"
    if not arguments.render:
        folder = Path(os.environ.get("CWNET_DATA", "")) / "SR_graphs"
        if not folder.is_dir():
            print("The graphs are not there: set CWNET_DATA to a folder that has SR_graphs/*.g6.", file=sys.stderr)
            return 2
        run = describe_run("python benchmarks/strongly_regular.py", ["torch", "numpy"])
        write_json(path, {"run": run, **measure(folder)})
    render(read_json(path))
    print((OUT / "strongly_regular.md").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
