"""The property every lifting must have, as a one-line test."""

from __future__ import annotations

from typing import Any

import torch

from cwnet.complexes import CellComplex
from cwnet.lifting._graphs import Graph, as_graph
from cwnet.lifting._lift import Liftable, lift

__all__ = ["assert_invariant", "relabelled"]


def relabelled(graph: Any, seed: int) -> tuple[Graph, list[int]]:
    """A copy of a graph with its vertices renumbered and its edges shuffled, and the new number of each vertex."""
    given = as_graph(graph)
    generator = torch.Generator().manual_seed(seed)
    new = torch.randperm(given.num_nodes, generator=generator)
    order = torch.randperm(len(given.edges), generator=generator)
    x = None if given.x is None else given.x[torch.argsort(new)]
    edge_x = None if given.edge_x is None else given.edge_x[order]
    return Graph(given.num_nodes, new[given.edges.long()][order], x, edge_x, given.y), new.tolist()


def assert_invariant(lifting: Liftable, graph: Any, seeds: int = 5) -> None:
    """Check that relabelling the graph relabels the complex and changes nothing else.

    Args:
        lifting: any lifting, or a function.
        graph: any graph.
        seeds: how many random relabellings to try.

    Raises:
        AssertionError: naming a cell that is there under one numbering of the vertices and not under another.
    """
    expected = _closures(lift(graph, lifting))
    for seed in range(seeds):
        other, new = relabelled(graph, seed)
        old = {v: u for u, v in enumerate(new)}
        found = _closures(lift(other, lifting), old)
        if found != expected:
            cell = next(iter((set(found) ^ set(expected)) or (k for k in found if found[k] != expected[k])))
            raise AssertionError(
                f"the lifting depends on the numbering of the vertices: cell {_show(cell)} (seed {seed})"
            )


def _closures(complex_: CellComplex, rename: dict[int, int] | None = None) -> dict[Any, int]:
    """How often each cell occurs, a cell being written as the set of its boundary cells, down to vertices."""
    below: list[Any] = [v if rename is None else rename[v] for v in range(complex_.num_cells[0])]
    counts: dict[Any, int] = {}
    for d in range(1, len(complex_.num_cells)):
        below = [frozenset(below[i] for i in row) for row in complex_.boundary(d).tolist()]
        for cell in below:
            counts[cell] = counts.get(cell, 0) + 1
    return counts


def _show(cell: Any) -> Any:
    return sorted((_show(c) for c in cell), key=str) if isinstance(cell, frozenset) else cell
