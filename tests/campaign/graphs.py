"""Graphs in arrays of every kind: their cells against networkx's, and a refusal where there is nothing to lift."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch

import cwnet
from cwnet.errors import CwnetError, GraphError, LiftingBudgetExceeded
from cwnet.wl import certificates
from tests.campaign.surface import OK, REFUSED, Surface, Wrong
from tests.reference import cells as reference

KINDS = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", ">i2", ">i4", ">i8", ">u2", ">u8")


def attack(chance: random.Random, _: Any) -> str:
    """A graph that is one, or one that is not; mostly the former."""
    return good(chance) if chance.random() < 0.6 else bad(chance)


def random_graph(chance: random.Random) -> tuple[int, list[tuple[int, int]]]:
    """Few vertices, and any edges between them, in any order and direction."""
    n = chance.choice([1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 20, 65, 70])
    pairs = [(i, j) for i in range(n) for j in range(i)] if n <= 9 else []
    if pairs:
        edges = chance.sample(pairs, chance.randint(0, len(pairs)))
    else:
        near = {(i, i + d) for i in range(n) for d in (1, 2, 5) if i + d < n}
        edges = sorted(pair for pair in near if chance.random() < 0.4)
        if n > 2 and chance.random() < 0.3:
            edges = sorted({*edges, *((i, i + 1) for i in range(n - 1)), (0, n - 1)})
    order = chance.sample(range(n), n)
    edges = [(order[u], order[v])[:: chance.choice([1, -1])] for u, v in edges]
    chance.shuffle(edges)
    return n, edges


def in_some_array(chance: random.Random, edges: list[tuple[int, int]]) -> Any:
    """The same edges in one of the ways in which they can be given."""
    plain = np.array(edges, dtype=np.int64).reshape(-1, 2)
    array = plain.astype(chance.choice(KINDS))
    ways = [
        lambda: edges,
        lambda: [list(edge) for edge in edges],
        lambda: array,
        lambda: np.asfortranarray(array),
        lambda: np.repeat(array, 2, axis=0)[::2],
        lambda: np.ascontiguousarray(array[::-1])[::-1],
        lambda: np.ascontiguousarray(array[:, ::-1])[:, ::-1],
        lambda: np.frombuffer(array.tobytes(), dtype=array.dtype).reshape(-1, 2),
        lambda: torch.from_numpy(plain),
        lambda: torch.from_numpy(plain).to(chance.choice([torch.uint8, torch.int16, torch.int32])),
        lambda: torch.from_numpy(plain).t().contiguous().t(),
        lambda: memoryview(np.ascontiguousarray(plain)) if len(edges) else edges,
        lambda: tuple(edges),
    ]
    return chance.choice(ways)()


def good(chance: random.Random) -> str:
    """Cells and certificates of a graph must not depend on how it is given, and must be the right ones."""
    n, edges = random_graph(chance)
    given: Any = (n, in_some_array(chance, edges))
    if chance.random() < 0.15:
        given = nx.Graph()
        given.add_nodes_from(range(n))
        given.add_edges_from(edges)
    kind, k = chance.choice(["rings", "cycles", "cliques"]), chance.choice([3, 4, 5, 6, 7])
    text = f"{kind}:{k}"
    if chance.random() < 0.5:
        X = cwnet.lift(given, text)
    else:
        X = cwnet.lift_many([(2, [(0, 1)]), given, (1, [])], text, threads=chance.choice([1, 2]))[1]
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(edges)
    if not isinstance(given, nx.Graph) and X.cells(1) != edges:
        raise Wrong(f"edges {edges} became {X.cells(1)}")
    if kind == "cliques":
        expected = reference.cliques(graph, k)
        for size in range(4, k + 1):
            if sorted(X.cells(size - 1) if len(X.num_cells) >= size else []) != expected[size]:
                raise Wrong(f"{n} {edges} {text}: cliques of {size}")
        found, right = sorted(map(tuple, map(sorted, X.cells(2)))), expected[3]
    else:
        found, right = sorted(X.cells(2)), getattr(reference, kind)(graph, k)
    if found != right:
        raise Wrong(f"{n} {edges} {text}: {found} instead of {right}")
    order = chance.sample(range(n), n)
    moved = [(order[v], order[u]) for u, v in chance.sample(edges, len(edges))]
    if cwnet.certificate(given, text) != cwnet.certificate((n, moved), text):
        raise Wrong(f"{n} {edges} {text}: another certificate when renumbered as {moved}")
    return OK


def bad(chance: random.Random) -> str:
    """A graph that has no complex, or more cells than its budget, must be refused, and cost itself only."""
    n, edges = random_graph(chance)
    edges = edges or [(0, 0)]
    at = chance.randrange(len(edges))
    u, v = edges[at]
    array = np.array(edges, dtype=np.int64)

    def put(value: Any) -> Any:
        return [*edges[:at], value, *edges[at + 1 :]]

    far = chance.choice(
        [n, n + 1, 2**31 - 1, 2**31, 2**32, 2**32 + u, 2**63 - 1, 2**64, 2**80, -1, -n, -(2**31), -(2**70)]
    )
    ways = [
        lambda: (n, put((u, far))),
        lambda: (n, put((far, v))),
        lambda: (n, put((u, u))),
        lambda: (n, [*edges, chance.choice([(u, v), (v, u)])]),
        lambda: (n, put(chance.choice([(u,), (), (u, v, u), u, None, "ab", ("a", "b"), (u, 0.5), (True, False)]))),
        lambda: (n, [*put((u, v)), (0, chance.choice([float("nan"), float("inf"), 1.5, "1", None, 1j]))]),
        lambda: (n, array.astype(chance.choice([float, complex, bool, "U3", "S3", "datetime64[s]", "timedelta64[s]"]))),
        lambda: (n, array.reshape(-1)),
        lambda: (n, array[None]),
        lambda: (n, np.ma.array(array, mask=np.ones_like(array))),
        lambda: (
            n,
            torch.from_numpy(array).to(chance.choice([torch.float32, torch.bfloat16, torch.bool, torch.complex64])),
        ),
        lambda: (n, torch.from_numpy(array).to("meta")),
        lambda: (n, torch.from_numpy(array).float().to_sparse()),
        lambda: (
            n,
            chance.choice([None, 7, "edges", b"edges", {1: 2}, {(0, 1)}, object(), (i for i in range(3)), np.array(3)]),
        ),
        lambda: (chance.choice([-1, 1.5, float(n), "3", None, True, 2**31, 2**70, [n], np.nan, b"2"]), edges),
        lambda: (0, chance.choice([[], edges])),
        lambda: chance.choice(
            [None, "CCO", 5, (), (n,), (n, edges, 1, 2, 3, 4), [], [n, edges], object(), {}, nx.DiGraph(edges)]
        ),
        lambda: (
            n,
            edges,
            chance.choice([np.zeros(n + 1), [[0]] * (n + 1), "x", np.full(n, np.nan), 3, [[1], [1, 2]], ["a"] * n]),
        ),
        lambda: (n, edges, None, chance.choice([np.zeros(len(edges) + 1), "x", 3, {}, np.full(len(edges), np.nan)])),
        lambda: (n, edges, None, None, chance.choice(["y", object(), [[1], [1, 2]], {1: 1}, "2.5"])),
    ]
    given = chance.choice(ways)()
    try:
        X = cwnet.lift(given, "rings:6")
    except (GraphError, LiftingBudgetExceeded):
        pass
    else:
        if not harmless(given):
            raise Wrong(f"{given!r:.300} was lifted to {X}")
        return OK
    triangle = (3, [(0, 1), (1, 2), (2, 0)])
    with warnings.catch_warnings(action="ignore"):
        store = cwnet.lift_many([triangle, given, triangle], "rings:6", on_error="skip")
    if len(store) != 2 or [error.position for error in store.skipped] != [1] or store.num_cells != (6, 6, 2):
        raise Wrong(f"{given!r:.300} cost others: {store}, {store.skipped}")
    try:
        certificates([given], "rings:6")
    except CwnetError:
        return REFUSED
    raise Wrong(f"{given!r:.300} has a certificate, and no complex")


def harmless(given: Any) -> bool:
    """What was drawn as bad and is none: a repeated edge that was replaced, or an array of no size."""
    try:
        n, edges = given[0], [(int(u), int(v)) for u, v in np.asarray(given[1]).tolist()]
        kind = np.asarray(given[1]).dtype.kind
    except Exception:
        return False
    simple = len({frozenset(edge) for edge in edges}) == len(edges) and all(u != v for u, v in edges)
    inside = all(0 <= w < n for edge in edges for w in edge)
    return len(given) == 2 and type(n) is int and kind in "iu" and simple and inside and not np.ma.is_masked(given[1])


def prepare(_: Path) -> None:
    """Nothing."""


SURFACE = Surface(
    "graphs", "a graph in an array, list or tensor of some kind, right or wrong", attack, prepare, 20, 320_000
)
