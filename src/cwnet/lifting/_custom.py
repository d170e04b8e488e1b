"""Liftings given as Python functions, and the union of their cells with those of the core."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwnet.complexes import CellComplex, ComplexStore
from cwnet.complexes._csr import is_whole
from cwnet.errors import CwnetError, GraphError, InvalidComplexError
from cwnet.lifting._liftings import Lifting

__all__ = ["attach_custom"]


def attach_custom(
    store: ComplexStore, lifting: Lifting, positions: NDArray[np.int64] | None, skip: bool
) -> tuple[ComplexStore, list[CwnetError]]:
    """Add the cells of a lifting's Python functions to a store that has those of the core.

    One call per graph and function. Returns the new store and the errors of the graphs left out.
    """
    functions = lifting.spec.custom
    if not functions:
        return store, []
    done: list[CellComplex] = []
    errors: list[CwnetError] = []
    for i in range(len(store)):
        complex_ = store[i]
        try:
            for function in functions:
                complex_ = _union(complex_, _call(function, complex_.skeleton(1), lifting.dim), lifting.dim)
            done.append(complex_)
        except GraphError as error:
            placed = error if positions is None else error.moved_to(int(positions[i]))
            if not skip:
                raise placed from error.__cause__
            errors.append(placed)
    return replace(ComplexStore.from_complexes(done), lifting=store.lifting), errors


def _call(function: Callable[[Any], Any], graph: CellComplex, dim: int) -> CellComplex:
    """The function's cells as a complex on the graph, of dimension at most `dim`."""
    name = getattr(function, "__name__", repr(function))
    try:
        result = function(graph)
    except CwnetError:
        raise
    except Exception as error:
        raise GraphError(f"the lifting {name} failed: {type(error).__name__}: {error}") from error
    try:
        if isinstance(result, CellComplex):
            if result.num_cells[:2] != graph.num_cells or result.cells(1) != graph.cells(1):
                raise InvalidComplexError("it must return a complex on the vertices and edges it was given")
            if result.dim > dim:
                raise InvalidComplexError(
                    f"it returned cells of dimension {result.dim}, and the lifting ends at dimension {dim}: "
                    f"give it as Custom({name}, dim={result.dim}), or return result.skeleton({dim})"
                )
            return result
        if not isinstance(result, Iterable):
            raise InvalidComplexError(
                f"it returned {result!r}: return a list of cycles, each a list of vertices (an empty list for none), "
                "or a CellComplex"
            )
        boundaries = _cycle_boundaries(result, graph)
        return CellComplex.from_boundaries(graph.num_cells[0], [graph.boundary(1), boundaries])
    except InvalidComplexError as error:
        raise GraphError(f"the lifting {name} returned cells that do not fit: {error}") from error


def _cycle_boundaries(cycles: Iterable[Iterable[int]], graph: CellComplex) -> list[list[int]]:
    """The edges of each cycle. A cycle given twice, from another vertex or the other way round too, is one cell."""
    edge = {frozenset(ends): i for i, ends in enumerate(graph.cells(1))}
    boundaries: dict[frozenset[int], list[int]] = {}
    for cycle in cycles:
        if not isinstance(cycle, Iterable):
            raise InvalidComplexError(f"{cycle!r} is not a cycle: give each as a list of its vertices, in order")
        walk = list(cycle)
        for v in walk:
            if not is_whole(v):
                raise InvalidComplexError(f"vertices must be whole numbers, not {v!r:.60}")
        walk = [int(v) for v in walk]
        steps = list(zip(walk, walk[1:] + walk[:1], strict=True))
        missing = next((s for s in steps if frozenset(s) not in edge), None)
        if len(walk) < 3 or missing:
            why = f"{missing} is not an edge" if missing else "it has fewer than three vertices"
            raise InvalidComplexError(f"{tuple(walk)} is not a cycle of the graph: {why}")
        around = [edge[frozenset(s)] for s in steps]
        boundaries.setdefault(frozenset(around), around)
    return list(boundaries.values())


def _union(a: CellComplex, b: CellComplex, dim: int) -> CellComplex:
    """Cells of a, then those of b that a lacks. Cells are the same if their boundaries are.

    Where a complex has several cells with one boundary (as a sphere has), the union has as many as the one that
    has more.
    """
    boundaries = [a.boundary(1).tolist()]
    number = {i: i for i in range(len(boundaries[0]))}  # from cells of b to cells of the union
    for d in range(2, dim + 1):
        rows = a.boundary(d).tolist()
        known: dict[frozenset[int], list[int]] = {}
        for i, row in enumerate(rows):
            known.setdefault(frozenset(row), []).append(i)
        used: dict[frozenset[int], int] = {}
        renumbered = {}
        for i, row in enumerate(b.boundary(d).tolist()):
            here = [number[face] for face in row]
            key = frozenset(here)
            nth = used[key] = used.get(key, -1) + 1
            same = known.setdefault(key, [])
            if nth == len(same):
                same.append(len(rows))
                rows.append(here)
            renumbered[i] = same[nth]
        boundaries.append(rows)
        number = renumbered
    x = (a.x[:2] + (None,) * (dim + 1))[: dim + 1]
    return CellComplex.from_boundaries(a.num_cells[0], boundaries, x=x, y=a.y)
