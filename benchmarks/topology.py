"""How long do orientation, Laplacians, eigenvectors and homology take on large complexes?

Squares with two holes, cut into triangles and quadrilaterals, of up to several hundred thousand cells. Everything is
sparse; the table says how much memory the process has held at most. TopoNetX does the smallest size side by side.
Writes benchmarks/results/topology.json and docs/benchmarks/topology.md.

    python benchmarks/topology.py            # measure and write the page
    python benchmarks/topology.py --render   # only write the page, from the figures stored
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from _common import ROOT, describe_run, markdown_table, measured, peak_memory, relative, rounded, write_text

from cwnet.complexes import CellComplex, ComplexStore
from cwnet.experiments.flow import make_mesh
from cwnet.topology import (
    betti_numbers,
    boundary_matrix,
    hodge_decomposition,
    hodge_laplacian,
    lowest_eigenpairs,
    orient,
)

STORED = ROOT / "benchmarks" / "results" / "topology.json"
PAGE = ROOT / "docs" / "benchmarks" / "topology.md"
#: Vertices of the grids before holes are cut out; a vertex comes with about four cells.
POINTS = (500, 5_000, 50_000, 150_000)
PAIRS = 6
PEER_LIMIT = 5_000  # cells

TITLES = {
    "orient": "orient all cells",
    "boundary": "B₁ and B₂",
    "laplacian": "L₁",
    "eigenpairs": f"{PAIRS} lowest eigenpairs of L₁",
    "betti_q": "Betti numbers over ℚ, exact",
    "betti_2": "Betti numbers over GF(2), exact",
    "decomposition": "Hodge decomposition of a flow",
}


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """The faster of two calls, or the only one if it takes more than five seconds."""
    start = time.perf_counter()
    result = call()
    first = time.perf_counter() - start
    if first > 5:
        return first, result
    start = time.perf_counter()
    call()
    return min(first, time.perf_counter() - start), result


def measure_one(points: int) -> dict[str, Any]:
    """All steps on one complex; the residual says that the eigenvectors are right."""
    complex_ = make_mesh(points).cells
    seconds: dict[str, float] = {}
    seconds["orient"], oriented = timed(lambda: orient(complex_))
    seconds["boundary"], _ = timed(lambda: [boundary_matrix(oriented, d) for d in (1, 2)])
    seconds["laplacian"], laplacian = timed(lambda: hodge_laplacian(oriented, 1))
    seconds["eigenpairs"], (values, vectors) = timed(lambda: lowest_eigenpairs(laplacian, PAIRS))
    residual = float(abs(laplacian @ vectors.numpy() - vectors.numpy() * values.numpy()).max())
    seconds["betti_q"], betti = timed(lambda: betti_numbers(complex_))
    seconds["betti_2"], _ = timed(lambda: betti_numbers(complex_, 2))
    flow = np.random.default_rng(0).standard_normal(complex_.num_cells[1])
    seconds["decomposition"], _ = timed(lambda: hodge_decomposition(oriented, 1, flow))
    return {
        "num_cells": list(complex_.num_cells),
        "cells": sum(complex_.num_cells),
        "entries_of_l1": laplacian.nnz,
        "betti": list(betti),
        "eigenvalues": values.tolist(),
        "residual": residual,
        "seconds": seconds,
        "peak_memory": peak_memory(),
        "toponetx": peer(complex_) if sum(complex_.num_cells) <= PEER_LIMIT else None,
    }


def peer(complex_: CellComplex) -> dict[str, list[float]]:
    """Matrices by us and by TopoNetX, each from a complex that lies ready and is not oriented."""
    other = complex_.to_toponetx()
    calls = {
        "boundary": (
            lambda: [boundary_matrix(complex_, d) for d in (1, 2)],
            lambda: [other.incidence_matrix(d, signed=True) for d in (1, 2)],
        ),
        "laplacian": (lambda: hodge_laplacian(complex_, 1), lambda: other.hodge_laplacian_matrix(1)),
    }
    return {key: [timed(call)[0] for call in both] for key, both in calls.items()}


def measure_many() -> dict[str, Any]:
    """Ten thousand small complexes at once: orientation and Betti numbers of a whole data set."""
    mesh = make_mesh(20).cells
    store = ComplexStore.from_complexes([mesh]).select([0] * 10_000)
    seconds: dict[str, float] = {}
    seconds["orient"], _ = timed(lambda: orient(store))
    seconds["betti_q"], _ = timed(lambda: betti_numbers(store))
    return {"complexes": len(store), "cells": sum(store.num_cells), "seconds": seconds}


def measure() -> dict[str, Any]:
    torch.set_num_threads(1)
    run = describe_run("python benchmarks/topology.py", ["torch", "numpy", "scipy", "toponetx"])
    # The largest last: memory counts what all before it have held.
    sizes = [measure_one(points) for points in POINTS]
    return {"run": run, "sizes": sizes, "many": measure_many()}


def duration(seconds: float) -> str:
    """With three digits, in the unit that suits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{rounded(seconds / size)} {unit}"
    return f"{rounded(seconds * 1e6)} µs"


def render(figures: dict[str, Any]) -> None:
    """Write the page from the figures."""
    sizes, many, run = figures["sizes"], figures["many"], figures["run"]
    head = ["", *(f"{s['cells']:,} cells" for s in sizes)]
    rows = [["vertices, edges, 2-cells", *(", ".join(f"{n:,}" for n in s["num_cells"]) for s in sizes)]]
    rows += [[title, *(duration(s["seconds"][key]) for s in sizes)] for key, title in TITLES.items()]
    rows += [
        ["entries of L₁", *(f"{s['entries_of_l1']:,}" for s in sizes)],
        ["Betti numbers", *(str(tuple(s["betti"])) for s in sizes)],
        ["largest residual of an eigenvector", *(f"{s['residual']:.1e}" for s in sizes)],
        ["most memory held so far", *(f"{s['peak_memory'] / 1e6:,.0f} MB" for s in sizes)],
    ]
    small = next(s for s in sizes if s["toponetx"])
    peers = [
        [TITLES[key], duration(ours), duration(theirs), f"{theirs / ours:.1f}x"]
        for key, (ours, theirs) in small["toponetx"].items()
    ]
    machine = run["machine"]
    versions = ", ".join(f"{k} {v}" for k, v in run["versions"].items() if v)
    text = f"""# How fast is the topology?

Squares with two holes, cut into triangles and quadrilaterals. Matrices are those of an oriented complex. No step makes
a dense matrix: a dense L₁ of the largest one would take {8 * sizes[-1]["num_cells"][1] ** 2 / 1e9:,.0f} GB.

{markdown_table(head, rows, "l" + "r" * len(sizes))}

Eigenvectors are found by Lanczos iteration on the factorised matrix (SciPy's `eigsh` with SuperLU). Betti numbers are
ranks by exact elimination over whole numbers or modulo two, in Python. The decomposition solves two sparse
least-squares problems by LSMR to twelve digits.

## Many small complexes

{many["complexes"]:,} complexes with {many["cells"]:,} cells together: {duration(many["seconds"]["orient"])} to orient
them all, {duration(many["seconds"]["betti_q"])} for the Betti numbers over ℚ of each.

## Next to TopoNetX

On {small["cells"]:,} cells. Both complexes lie ready; orientation is part of the time.

{markdown_table(["", "cwnet", "TopoNetX", "ratio"], peers, "lrrr")}

Made by `{run["command"]}` with one thread of {machine["cpu"]} (load {machine["load_before"]} before the run),
{run["date"]}. The faster of two calls; a call of more than five seconds runs once. Versions: {versions}. All figures
are in [{relative(STORED)}](../../{relative(STORED)}).
"""
    write_text(PAGE, text)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--render", action="store_true", help="only write the page, from the figures stored")
    figures = measured(STORED, measure, parser.parse_args().render, OSError)
    render(figures)
    print(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
