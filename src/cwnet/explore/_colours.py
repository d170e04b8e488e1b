"""The colours of all exhibits, refined together, so that the page can compare any two of them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwnet.complexes import CellComplex
from cwnet.explore._exhibit import Exhibit
from cwnet.wl import refine

__all__ = ["colours"]

Ints = NDArray[np.int64]


def colours(shown: Sequence[Exhibit], lifting: str) -> list[dict[str, Any] | None]:
    """The colours of the cells of every exhibit in every round, as plain data; None where there is no complex.

    ``uniform`` starts from one colour for all cells, ``labels`` from the labels of vertices and edges, if there are
    any. Equal numbers are equal colours in one round of all exhibits (with ``labels``: of those with labels of the same
    kind), because all are refined together. A cell's colour after round t is ``rounds[t][classes[cell]]``, where cells
    are numbered through all dimensions; after the last round listed, numbers stay as they are.
    """
    found: list[dict[str, Any] | None] = [
        {} if isinstance(each.complexes[lifting], CellComplex) else None for each in shown
    ]
    kinds: dict[str | None, list[int]] = {None: []}
    for i, each in enumerate(shown):
        if found[i] is not None:
            kinds[None].append(i)
            if each.label_kind is not None:
                kinds.setdefault(each.label_kind, []).append(i)
    for kind, members in kinds.items():
        tables = _refined([shown[i] for i in members], lifting, labelled=kind is not None)
        for i, table in zip(members, tables, strict=True):
            of = found[i]
            assert of is not None
            of["uniform" if kind is None else "labels"] = table
    return found


def _refined(shown: Sequence[Exhibit], lifting: str, labelled: bool) -> list[Mapping[str, Any]]:
    if not shown:
        return []
    complexes = [each.complexes[lifting] for each in shown]
    initial: Any = "uniform"
    if labelled:
        graphs = [each.source.graph for each in shown]
        initial = [
            None if rows[0] is None else np.concatenate([np.asarray(row) for row in rows])
            for rows in ([graph.x for graph in graphs], [graph.edge_x for graph in graphs])
        ]
    result = refine([c for c in complexes if isinstance(c, CellComplex)], initial=initial, mode="exact")
    rounds = range(len(result.colours))
    flat = [[list(itertools.chain(*result.of(i, t))) for t in rounds] for i in range(len(shown))]
    ends = np.cumsum([len(one[0]) for one in flat])
    lasting = _lasting([np.array(list(itertools.chain(*(one[t] for one in flat))), dtype=np.int64) for t in rounds])
    return [_packed(one) for one in np.split(np.stack(lasting), ends[:-1], axis=1)]


def _lasting(rounds: Sequence[Ints]) -> list[Ints]:
    """Numbers that a class keeps from round to round; when it splits, its largest piece keeps it."""
    shown = [np.zeros_like(rounds[0])]
    fresh = 0
    for colours in rounds:
        _, first, inverse, sizes = np.unique(colours, return_index=True, return_inverse=True, return_counts=True)
        before = shown[-1][first]  # of every class, as cells of one class had one number before
        number = np.empty_like(before)
        taken: set[int] = set()
        for k in np.lexsort((first, -sizes)).tolist():
            old = int(before[k])
            if old in taken:
                fresh += 1
                old = fresh
            taken.add(old)
            number[k] = old
        shown.append(number[inverse.reshape(-1)])
    return shown[1:]


def _packed(rounds: Ints) -> Mapping[str, Any]:
    """[rounds, cells] as the classes of the last round and a colour for each: they are fewer than the cells."""
    _, first, inverse = np.unique(rounds[-1], return_index=True, return_inverse=True)
    rows = rounds[:, first].tolist()
    while len(rows) > 1 and rows[-1] == rows[-2]:
        rows.pop()
    return {"classes": inverse.reshape(-1).tolist(), "rounds": rows}
