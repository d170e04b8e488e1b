"""Boundaries that are given by hand: regular complexes are taken, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cwnet
from cwnet.complexes import CellComplex, ComplexStore, Csr
from cwnet.errors import CwnetError
from tests.campaign.surface import OK, REFUSED, Surface, Wrong
from tests.reference import spaces


def prepare(_: Path) -> list[tuple[int, list[list[list[int]]]]]:
    """Complexes of many shapes, as lists."""
    rings = [
        cwnet.lift((6, [(i, j) for i in range(6) for j in range(i) if (i + j) % 4]), f"{k}:4")
        for k in ("rings", "cliques")
    ]
    known = [X for X, *_ in spaces.SPACES.values() if sum(X.num_cells) < 200]
    return [(X.num_cells[0], [X.boundary(d).tolist() for d in range(1, len(X.num_cells))]) for X in [*known, *rings]]


def attack(chance: random.Random, known: list[tuple[int, list[list[list[int]]]]]) -> str:
    """One number of a complex changed, or a store, a batch or a selection of nonsense."""
    return chance.choice([changed, changed, packed, selected])(chance, known)


def changed(chance: random.Random, known: Any) -> str:
    """A complex with one change is refused, unless it is still one."""
    n, boundaries = chance.choice(known)
    copy = [[list(row) for row in rows] for rows in boundaries]
    d = chance.randrange(len(copy))
    if not copy[d]:
        return OK
    row = chance.randrange(len(copy[d]))
    number = chance.choice(
        [-1, 0, 1, 5, n, 2**31, 2**63, -(2**70), 0.5, 1.0, True, None, "0", float("nan"), chance.randrange(30)]
    )
    ways = [
        lambda: copy[d][row].__setitem__(chance.randrange(len(copy[d][row])), number),
        lambda: copy[d][row].append(number),
        lambda: copy[d][row].pop(),
        lambda: copy[d].pop(row),
        lambda: copy[d].append(copy[d][row]),
        lambda: copy[d].__setitem__(row, number),
        lambda: copy.__setitem__(d, number),
        lambda: copy.append([[number]]),
        lambda: chance.shuffle(copy[d][row]),
    ]
    chance.choice(ways)()
    count = n if chance.random() < 0.9 else chance.choice([0, -1, n - 1, n + 1, 1.5, "3", None, True, 2**40])
    try:
        X = CellComplex.from_boundaries(count, copy)
    except CwnetError:
        return REFUSED
    if [X.boundary(k).tolist() for k in range(1, len(X.num_cells))] != copy or not regular(count, copy):
        raise Wrong(f"{count} {copy} became {X}")
    return OK


def regular(n: int, boundaries: list[list[list[int]]]) -> bool:
    """Whether lists are those of a regular complex, slowly: faces there and once, ridges on two faces each."""
    counts = [n, *map(len, boundaries)]
    for d, rows in enumerate(boundaries, start=1):
        for row in rows:
            if len(set(row)) != len(row) or any(type(face) is not int or not 0 <= face < counts[d - 1] for face in row):
                return False
            if d == 1 and len(row) != 2:
                return False
            if d > 1:
                ridges = [ridge for face in row for ridge in boundaries[d - 2][face]]
                if not row or any(ridges.count(ridge) != 2 for ridge in ridges):
                    return False
    return True


def packed(chance: random.Random, _: Any) -> str:
    """Graphs in flat arrays."""
    nodes = [chance.randint(1, 4) for _ in range(3)]
    edges = [(0, k) for n in nodes for k in range(1, n)]
    counts = [n - 1 for n in nodes]
    right = (nodes, counts, edges)
    given: list[Any] = [list(part) for part in right]
    part = chance.randrange(3)
    at = chance.randrange(len(given[part]) or 1)
    value = chance.choice(
        [-1, 0, 1, 2**31, 2**32, 2**40, 2**64, 0.5, "1", None, True, [1], (0, 2**32), (0.5, 1), float("nan")]
    )
    given[part][at : at + 1] = [value]
    try:
        store = ComplexStore.from_graphs(*given)
    except CwnetError:
        return REFUSED
    flat = [tuple(edge) for X in store for edge in X.cells(1)]
    if [X.num_cells[0] for X in store] != given[0] or flat != [tuple(edge) for edge in given[2]]:
        raise Wrong(f"{given} became {store}")
    return OK


def selected(chance: random.Random, _: Any) -> str:
    """Selections of a store, and pointers that lie."""
    store = cwnet.lift_many([(3, [(0, 1), (1, 2), (2, 0)], None, None, float(i)) for i in range(4)], "rings:6")
    if chance.random() < 0.5:
        index = [
            chance.choice([-5, -4, -1, 0, 1, 3, 4, 2**40, 2**70, 0.5, None, "1", True])
            for _ in range(chance.randint(0, 4))
        ]
        given = chance.choice([list, tuple, np.array, lambda i: torch.tensor(i), lambda i: np.array(i)[::-1][::-1]])
        try:
            given = given(index)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            return REFUSED
        try:
            found = store.select(given).y.tolist()
        except (IndexError, TypeError) as error:
            if "torch" in str(error) or "numpy" in str(error):
                raise Wrong(f"{given!r}: in the words of others: {error}") from None
            return REFUSED
        plain = np.asarray(given).tolist()
        right = [i for i, yes in enumerate(plain) if yes] if all(type(i) is bool for i in plain) and plain else plain
        if any(type(i) not in (int, bool) for i in plain) or found != [float(int(i) % 4) for i in right]:
            raise Wrong(f"{given!r} selected {found}")
        return OK
    rows = [[0, 1], [1, 2], [2, 0]]
    csr = Csr.from_lists(rows)
    ptr, idx = csr.ptr.clone(), csr.idx.clone()
    (ptr if chance.random() < 0.6 else idx)[chance.randrange(3)] = chance.choice(
        [-1, 0, 1, 2, 5, 6, 7, 2**40, -(2**40)]
    )
    kind = chance.choice([torch.int64, torch.int64, torch.int32, torch.float32, torch.bool])
    if kind == torch.int32 and max(ptr.abs().max(), idx.abs().max()) > 2**31:
        kind = torch.int64
    try:
        X = CellComplex.from_boundaries(3, [Csr(ptr.to(kind), idx.to(kind))])
    except CwnetError:
        return REFUSED
    if not regular(3, [X.boundary(1).tolist()]) or X.boundary(1).tolist() != Csr(ptr, idx).tolist():
        raise Wrong(f"{ptr} {idx} became {X}")
    return OK


SURFACE = Surface(
    "complexes", "boundaries, flat arrays or a selection with one thing wrong", attack, prepare, 20, 120_000
)
