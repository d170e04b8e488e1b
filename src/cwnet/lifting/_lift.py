"""Lift graphs to cell complexes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cwnet import _core
from cwnet._threads import num_threads
from cwnet.complexes import CellComplex, ComplexStore, Csr, Features
from cwnet.complexes._store import describe_bad_edge
from cwnet.errors import CwnetError, GraphError, LiftingBudgetExceeded, LiftingWarning
from cwnet.lifting._custom import attach_custom
from cwnet.lifting._graphs import drop_edges, features_of, kind_of, pack, slowly
from cwnet.lifting._liftings import Lifting, Spec, as_lifting

__all__ = ["lift", "lift_many", "num_threads"]

Liftable = Lifting | Callable[[Any], Any] | str | None

_SLOWLY = slowly(single=True)


def lift(
    graph: Any,
    lifting: Liftable,
    *,
    init: Literal["sum", "mean"] | None = None,
    loops: Literal["raise", "drop"] = "raise",
    repeated: Literal["raise", "drop", "keep"] = "raise",
    on_budget: Literal["raise", "truncate"] = "raise",
) -> CellComplex:
    """Lift one graph to a cell complex.

    A call costs some ten times what the search does: use `lift_many` for more than a few.

    Args:
        graph: networkx graph, PyG Data, RDKit Mol, `Graph`, or (num_nodes, edges [m, 2]).
        lifting: `Rings(k)`, `Cycles(k)`, `Cliques(k)`, a union of them with ``|``, a function (see `Custom`), text
            such as "rings:6", or None for the graph as it is.
        init: features of cells that have none of their own, from the features of their vertices. Default: none.
        loops: as in `lift_many`.
        repeated: as in `lift_many`.
        on_budget: as in `lift_many`, but for "skip".

    >>> import cwnet
    >>> X = cwnet.lift((4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]), cwnet.Rings(6))
    >>> X.num_cells, X.cells(2)
    ((4, 5, 2), [(0, 1, 2), (0, 2, 3)])
    """
    lifting = as_lifting(lifting)
    if init is None and loops == repeated == on_budget == "raise" and not lifting.spec.custom:
        made = _core.lift_one(graph, kind_of, _SLOWLY, lifting.spec.core)
        if made is not None:
            return _complex(*made)
    store = _lift_packed([graph], lifting, 1, init, loops, repeated, "raise", on_budget, single=True)
    return store[0]


def _complex(num_cells: tuple[int, ...], tensors: list[Tensor], *features: Any) -> CellComplex:
    """One complex as the core gives it: ptr and idx of every boundary, and the features of its graph."""
    x, edge_x, y = features_of(*features)
    none: Features = (None,) * len(num_cells)
    return CellComplex(
        num_cells,
        tuple(map(Csr, tensors[::2], tensors[1::2])),
        (x, edge_x, *none[2:]),
        None if y is None else y[0],
        none,
    )


def lift_many(
    graphs: Iterable[Any] | ComplexStore,
    lifting: Liftable,
    threads: int | None = None,
    *,
    init: Literal["sum", "mean"] | None = None,
    loops: Literal["raise", "drop"] = "raise",
    repeated: Literal["raise", "drop", "keep"] = "raise",
    on_error: Literal["raise", "skip"] = "raise",
    on_budget: Literal["raise", "skip", "truncate"] = "raise",
) -> ComplexStore:
    """Lift a whole data set in one call, to one packed store.

    The cells do not depend on the number of threads, and their order only on the numbering of the vertices:
    2-cells by size and then by their vertices, higher cells by their vertices. Ctrl-C stops the search.

    Args:
        graphs: graphs of any kind `lift` takes, or a `ComplexStore`, whose edges are lifted without a copy.
        lifting: as in `lift`.
        threads: worker threads; all cores by default.
        init: features of cells that have none of their own: the sum or mean over their vertices. Default: none.
        loops: what to do with self-loops: an error, or drop them.
        repeated: what to do with repeated edges: an error, drop all but the first, or keep a multigraph.
        on_error: what to do with a graph that can not be lifted: an error, or leave it out. Errors of graphs left
            out are in ``store.skipped``, and a warning says how many they are.
        on_budget: what to do with a graph that exceeds the lifting's `max_cells` or `max_seconds`: an error, leave
            it out, or keep all cells up to the largest size at which the budget holds (which is still a function
            of the isomorphism class when it is `max_cells` that is exceeded). See ``store.truncated``.

    Raises:
        GraphError: for a bad graph, with its position.
        LiftingBudgetExceeded: for a graph with too many cells, with its position and what was reached.

    >>> import cwnet
    >>> cwnet.lift_many([(3, [(0, 1), (1, 2), (2, 0)]), (2, [(0, 1)])], cwnet.Rings(6))
    ComplexStore(2 complexes: 5 vertices, 4 edges, 1 2-cell, Rings(6))
    """
    return _lift_packed(graphs, lifting, threads, init, loops, repeated, on_error, on_budget, single=False)


def _lift_packed(
    graphs: Iterable[Any] | ComplexStore,
    lifting: Liftable,
    threads: int | None,
    init: Literal["sum", "mean"] | None,
    loops: Literal["raise", "drop"],
    repeated: Literal["raise", "drop", "keep"],
    on_error: Literal["raise", "skip"],
    on_budget: Literal["raise", "skip", "truncate"],
    single: bool,
) -> ComplexStore:
    _check_choice("init", init, (None, "sum", "mean"))
    _check_choice("loops", loops, ("raise", "drop"))
    _check_choice("repeated", repeated, ("raise", "drop", "keep"))
    _check_choice("on_error", on_error, ("raise", "skip"))
    _check_choice("on_budget", on_budget, ("raise", "truncate") if single else ("raise", "skip", "truncate"))
    if threads is not None and threads < 1:
        raise ValueError(f"threads={threads}: at least one thread is needed, or None for all cores")
    lifting = as_lifting(lifting)
    try:
        base, positions, errors = pack(graphs, skip=on_error == "skip")
    except GraphError as error:
        raise GraphError(error.reason) if single else error from None
    if "drop" in (loops, repeated):
        base = drop_edges(base, loops, repeated)
    dims, found = _attach(base, lifting.spec, threads, repeated == "keep", on_error == "skip", on_budget)
    skipped: list[CwnetError] = [*errors]
    truncated: list[CwnetError] = []
    left_out: list[int] = []
    for incident in found:
        graph, kept = incident[0], incident[-1]
        problem = _as_error(incident, base, lifting, None if single else int(positions[graph]))
        if kept >= 0:
            truncated.append(problem)
        elif (on_budget if isinstance(problem, LiftingBudgetExceeded) else on_error) == "raise":
            raise problem
        else:
            skipped.append(problem)
            left_out.append(graph)
    store = _assemble(base, dims, lifting)
    if left_out:
        keep = np.ones(len(store), dtype=bool)
        keep[left_out] = False
        store, positions = store.select(keep), positions[keep]
    store, more = attach_custom(store, lifting, None if single else positions, on_error == "skip")
    skipped = sorted([*skipped, *more], key=_position)
    if init is not None:
        store = replace(store, x=_initialised(store, init))
    _warn(skipped, truncated)
    if isinstance(graphs, ComplexStore):  # what was left out on the way here is not forgotten
        skipped = [*graphs.skipped, *skipped]
    return replace(store, lifting=repr(lifting), skipped=tuple(skipped), truncated=tuple(truncated))


def _check_choice(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name}={value!r} is not one of {', '.join(map(repr, allowed))}")


PackedDimension = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]
Incident = tuple[int, int, int, int, int, float, int]


def _attach(
    base: ComplexStore, spec: Spec, threads: int | None, keep_repeated: bool, skip: bool, on_budget: str
) -> tuple[list[PackedDimension], list[Incident]]:
    return _core.lift(
        base.cell_ptr[0].numpy(),
        base.cell_ptr[1].numpy(),
        base.boundaries[0].idx.numpy(),
        rings=spec.rings,
        cycles=spec.cycles,
        cliques=spec.cliques,
        max_cells=spec.max_cells,
        max_seconds=spec.max_seconds,
        threads=num_threads(threads),
        keep_repeated=keep_repeated,
        stop_at_error=not skip,
        on_budget={"raise": 0, "skip": 1, "truncate": 2}[on_budget],
    )


def _as_error(incident: Incident, base: ComplexStore, lifting: Lifting, position: int | None) -> CwnetError:
    """The core's status numbers (csrc/guard.hpp) as exceptions."""
    graph, status, edge, other, cells, seconds, kept = incident
    spec = lifting.spec
    if status in (5, 6):
        budget = f"max_cells={spec.max_cells:,}" if status == 5 else f"max_seconds={spec.max_seconds:g}"
        return LiftingBudgetExceeded(repr(lifting), budget, cells, seconds, position, kept if kept >= 0 else None)
    if status == 4:
        return GraphError("the graph has no vertices: a complex needs at least one", position)
    if status == 7:
        return GraphError("it has parallel edges, and cliques are not defined there: pass repeated='drop'", position)
    n = int(base.cell_ptr[0][graph + 1] - base.cell_ptr[0][graph])
    ends = base.boundaries[0].idx.reshape(-1, 2)
    first = int(base.cell_ptr[1][graph])
    u, v = ends[first + edge].tolist()
    if status == 3:
        a, b = ends[first + other].tolist()
        return GraphError(
            f"edge {edge} ({u}, {v}) repeats edge {other} ({a}, {b}): list each edge once, or lift with "
            "repeated='drop' (keeps the first) or repeated='keep' (a multigraph)",
            position,
        )
    return GraphError(describe_bad_edge(edge, u, v, n), position)


def _assemble(base: ComplexStore, dims: list[PackedDimension], lifting: Lifting) -> ComplexStore:
    """Put the new cells on top of the graphs."""
    arrays = [tuple(torch.from_numpy(a) for a in packed) for packed in dims]
    # The core lists no dimension in which it was not asked for cells; a custom lifting may fill them.
    while len(arrays) < lifting.dim - 1:
        arrays.append((torch.zeros(len(base) + 1, dtype=torch.int64), *Csr.empty(0).packed()))
    none: Features = (None,) * len(arrays)
    return ComplexStore(
        cell_ptr=(*base.cell_ptr, *(a[0] for a in arrays)),
        boundaries=(*base.boundaries, *(Csr(a[1], a[2]) for a in arrays)),
        x=(*base.x, *none),
        y=base.y,
        cell_y=(*base.cell_y, *none),
        dims=torch.full((len(base),), lifting.dim, dtype=torch.int64),
        complex_x=base.complex_x,
    )


def _initialised(store: ComplexStore, init: Literal["sum", "mean"]) -> Features:
    x = store.x[0]
    if x is None:
        raise GraphError(f"init={init!r} needs vertex features, and these graphs have none")
    return (x, *(f if f is not None else _over_vertices(store, d, init) for d, f in enumerate(store.x) if d))


def _over_vertices(store: ComplexStore, d: int, init: str) -> Tensor:
    """Sum or mean of the vertex features over the vertices of every d-cell."""
    x = store.x[0]
    assert x is not None
    csr = store.skeleton(d).batch().vertices(d)
    total = torch.zeros((csr.num_rows, *x.shape[1:]), dtype=x.dtype if x.is_floating_point() else torch.int64)
    total.index_add_(0, csr.rows, x.to(total.dtype)[csr.idx])
    if init == "sum":
        return total
    sizes = csr.sizes.reshape(-1, *(1,) * (x.dim() - 1))
    return total / sizes if x.is_floating_point() else total.to(torch.get_default_dtype()) / sizes


def _position(error: CwnetError) -> int:
    return getattr(error, "position", None) or 0


def _warn(skipped: list[CwnetError], truncated: list[CwnetError]) -> None:
    for errors, what, where in ((skipped, "left out", "skipped"), (truncated, "lifted in part", "truncated")):
        if errors:
            many = "1 graph was" if len(errors) == 1 else f"{len(errors):,} graphs were"
            warnings.warn(f"{many} {what} (see store.{where}); the first: {errors[0]}", LiftingWarning, stacklevel=4)
