"""How fast liftings are: cwnet next to networkx, igraph, TopoNetX and (where installed) graph-tool."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
import typer
from _common import (
    ROOT,
    describe_run,
    markdown_table,
    measured,
    peak_memory,
    relative,
    rounded,
    time_in_turn,
    write_text,
)
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from cwnet import Cliques, ComplexStore, Cycles, Rings, lift, lift_many

LIFTINGS = (Rings(6), Rings(18), Cycles(8), Cliques(4))
REFERENCE = "cwnet, a list of (n, edges), 1 thread"
ONE_BY_ONE = "cwnet, one call per molecule"
PYG_LIST = "cwnet, a list of PyG Data, 1 thread"
NETWORKX_LIST = "cwnet, a list of networkx graphs, 1 thread"
RDKIT_LIST = "cwnet, a list of RDKit molecules, 1 thread"
PACKED = "cwnet, a packed store, 1 thread"
TWO_THREADS = "cwnet, a packed store, 2 threads"
MEMORY_BOUND = 2_000_000_000
RESULTS = "benchmarks/results"
PAGES = "docs/benchmarks"
SR_FILE = "sr351668.g6"
SR_GRAPHS = 3_854

console = Console()
if not console.is_terminal:
    console = Console(width=120)


class Disagreement(Exception):
    """A peer found other cells than cwnet."""


# ------------------------------------------------------------------------------------------------ effort


@dataclass(frozen=True)
class Effort:
    """How much to measure."""

    rounds: int
    seconds: float  # of one turn of the table; the curves take a third
    molecules: tuple[int, ...]
    bounds: tuple[int, ...]
    ring_sizes: tuple[int, ...]
    sr_graphs: int

    @property
    def curve(self) -> tuple[int, float]:
        """Rounds and seconds of a point on a curve."""
        return max(3, self.rounds - 2), self.seconds / 3


FULL = Effort(
    rounds=7,
    seconds=1.0,
    molecules=(1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
    bounds=tuple(range(3, 19)),
    ring_sizes=(6, 10, 30, 64, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000),
    sr_graphs=SR_GRAPHS,
)
QUICK = Effort(
    rounds=3,
    seconds=0.06,
    molecules=(1_000, 3_000, 10_000, 30_000),
    bounds=(3, 4, 6, 8, 12, 18),
    ring_sizes=(6, 30, 100, 1_000, 10_000),
    sr_graphs=200,
)

# -------------------------------------------------------------------------------------------------- data


class Molecule(NamedTuple):
    """One graph, as `cwnet.lift` takes it."""

    num_nodes: int
    edges: NDArray[np.int32]


@dataclass(frozen=True)
class Molecules:
    """A data set in flat arrays."""

    name: str
    num_nodes: NDArray[Any]
    num_edges: NDArray[Any]
    edges: NDArray[Any]
    smiles: Callable[[NDArray[np.int64]], list[str]] | None = None

    def __len__(self) -> int:
        return len(self.num_nodes)

    def pack(self) -> ComplexStore:
        return ComplexStore.from_graphs(self.num_nodes, self.num_edges, self.edges)

    def tiled(self, count: int) -> Molecules:
        """So many molecules: the data set over and over."""
        times, rest = divmod(count, len(self))
        edges = int(self.num_edges[:rest].sum(dtype=np.int64))

        def tile(array: NDArray[Any], last: int) -> NDArray[Any]:
            return np.concatenate([array] * times + [array[:last]])

        return Molecules(self.name, tile(self.num_nodes, rest), tile(self.num_edges, rest), tile(self.edges, edges))

    def spread(self, count: int) -> NDArray[np.int64]:
        """The numbers of so many molecules, evenly spaced over the data set."""
        return np.linspace(0, len(self) - 1, min(count, len(self))).round().astype(np.int64)

    def __getitem__(self, numbers: NDArray[np.int64]) -> list[Molecule]:
        ptr = np.concatenate([[0], np.cumsum(self.num_edges, dtype=np.int64)])
        return [Molecule(int(self.num_nodes[i]), self.edges[ptr[i] : ptr[i + 1]].astype(np.int32)) for i in numbers]


def read_molecules(data: Path | None) -> Molecules:
    path = data / "ZINC" / "zinc12k_train.npz" if data else None
    if path is None or not path.exists():
        return read_nci()
    arrays = dict(np.load(path, allow_pickle=False))
    texts, chosen = path.with_name("smiles_train.txt.gz"), path.with_name("zinc12k_train.index")

    def smiles(numbers: NDArray[np.int64]) -> list[str]:
        rows = [int(n) for n in chosen.read_text().replace(",", " ").split()]
        lines = gzip.decompress(texts.read_bytes()).decode().split()
        return [lines[rows[i]] for i in numbers]

    known = smiles if texts.exists() and chosen.exists() else None
    return Molecules("ZINC 12k, training split", arrays["num_nodes"], arrays["num_edges"], arrays["edge"], known)


def read_nci() -> Molecules:
    """The molecules that come with RDKit."""
    from rdkit import Chem, RDConfig, RDLogger

    RDLogger.DisableLog("rdApp.*")
    smiles = Path(RDConfig.RDDataDir, "NCI", "first_5K.smi").read_text().splitlines()
    parsed = (Chem.MolFromSmiles(line.split()[0]) for line in smiles if line.strip())
    molecules = [m for m in parsed if m is not None and m.GetNumAtoms()]
    ends = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for m in molecules for b in m.GetBonds()]
    return Molecules(
        "NCI, the first 5,000 (part of RDKit)",
        np.array([m.GetNumAtoms() for m in molecules]),
        np.array([m.GetNumBonds() for m in molecules]),
        np.array(ends, dtype=np.int32),
    )


def read_graph6(path: Path, count: int) -> ComplexStore:
    """Graphs of one size, below 63 vertices: a byte for the size, then six bits a byte of the upper triangle."""
    lines = path.read_bytes().split()[:count]
    codes = np.array([np.frombuffer(line, np.uint8) for line in lines]) - 63
    n = int(codes[0, 0])
    bits = np.unpackbits(codes[:, 1:, None], axis=2)[:, :, 2:].reshape(len(lines), -1)[:, : n * (n - 1) // 2]
    column, row = np.tril_indices(n, -1)
    edge = np.nonzero(bits)[1]
    return ComplexStore.from_graphs(
        np.full(len(lines), n), bits.sum(1, dtype=np.int64), np.stack([row[edge], column[edge]], 1).astype(np.int32)
    )


# ------------------------------------------------------------------------------------------------- peers


@dataclass(frozen=True)
class Peer:
    """Another library.

    Attributes:
        name: what the table calls it.
        package: its name among the installed packages.
        how: what was called, by kind of lifting.
        build: makes its own graph of a molecule. Not timed.
        find: lifts one graph. Timed.
        sizes: the sizes of the cells that `find` gave. Not timed.
    """

    name: str
    package: str
    how: dict[str, str]
    build: Callable[[Molecule], Any]
    find: Callable[[Any, Any], Any]
    sizes: Callable[[Any], Iterable[int]]


def cell_lengths(cells: Sequence[Sequence[int]]) -> list[int]:
    return [len(c) for c in cells]


def networkx_graph(molecule: Molecule) -> Any:
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(range(molecule.num_nodes))
    graph.add_edges_from(molecule.edges.tolist())
    return graph


def networkx_peer() -> Peer:
    import networkx as nx

    def find(graph: Any, lifting: Any) -> list[list[int]]:
        if isinstance(lifting, Rings):
            return list(nx.chordless_cycles(graph, lifting.k))
        if isinstance(lifting, Cycles):
            return list(nx.simple_cycles(graph, lifting.k))
        # Cliques come by size, so the first one that is too large ends the search.
        small = takewhile(lambda c: len(c) <= lifting.k, nx.enumerate_all_cliques(graph))
        return [c for c in small if len(c) > 2]

    how = {
        "Rings": "`chordless_cycles(G, k)`",
        "Cycles": "`simple_cycles(G, k)`",
        "Cliques": "`enumerate_all_cliques(G)`, stopped after size k",
    }
    return Peer("networkx", "networkx", how, networkx_graph, find, cell_lengths)


def igraph_peer() -> Peer:
    import igraph

    def build(molecule: Molecule) -> tuple[Any, list[set[int]]]:
        graph = igraph.Graph(n=molecule.num_nodes, edges=molecule.edges.tolist())
        return graph, [set(row) for row in graph.get_adjlist()]

    def find(graph: tuple[Any, list[set[int]]], lifting: Any) -> list[Sequence[int]]:
        g, adjacent = graph
        if isinstance(lifting, Cliques):
            return g.cliques(min=3, max=lifting.k)
        cycles = g.simple_cycles(max=lifting.k, output="vpath")
        if isinstance(lifting, Cycles):
            return cycles
        return [c for c in cycles if len(c) == 3 or is_chordless(c, adjacent)]

    how = {
        "Rings": "`Graph.simple_cycles(max=k)`, then a filter in Python that drops cycles with a chord",
        "Cycles": "`Graph.simple_cycles(max=k)`",
        "Cliques": "`Graph.cliques(min=3, max=k)`",
    }
    return Peer("igraph", "igraph", how, build, find, cell_lengths)


def is_chordless(cycle: Sequence[int], adjacent: list[set[int]]) -> bool:
    on_cycle = set(cycle)
    return all(len(adjacent[v] & on_cycle) == 2 for v in cycle)


def toponetx_peer() -> Peer:
    import toponetx
    from toponetx.transform import graph_to_clique_complex

    networkx = networkx_peer()

    def find(graph: Any, lifting: Any) -> Any:
        if isinstance(lifting, Cliques):
            return graph_to_clique_complex(graph, max_rank=lifting.k - 1)
        complex_ = toponetx.CellComplex(graph)
        complex_.add_cells_from(networkx.find(graph, lifting), rank=2)
        return complex_

    def sizes(complex_: Any) -> list[int]:
        if isinstance(complex_, toponetx.SimplicialComplex):
            return [len(s) for s in complex_.simplices if len(s) > 2]
        return [len(c) for c in complex_.cells]

    how = {
        "Rings": "a `CellComplex` of the cycles from networkx, both timed",
        "Cycles": "a `CellComplex` of the cycles from networkx, both timed",
        "Cliques": "`graph_to_clique_complex(G, max_rank=k - 1)`",
    }
    return Peer("TopoNetX, cells from networkx", "toponetx", how, networkx_graph, find, sizes)


def graph_tool_peer() -> Peer:
    """The search for subgraphs that are cycles or cliques, as the authors of CW Networks use it."""
    import graph_tool
    from graph_tool.topology import subgraph_isomorphism

    def graph_of(num_nodes: int, edges: Any) -> Any:
        graph = graph_tool.Graph(directed=False)
        graph.add_vertex(num_nodes)
        graph.add_edge_list(edges)
        return graph

    @cache
    def pattern(size: int, clique: bool) -> Any:
        cycle = [(i, (i + 1) % size) for i in range(size)]
        return graph_of(size, [(i, j) for j in range(size) for i in range(j)] if clique else cycle)

    def edge_set(vertices: tuple[int, ...]) -> frozenset[frozenset[int]]:
        return frozenset(map(frozenset, pairwise((*vertices, vertices[0]))))

    def find(graph: Any, lifting: Any) -> list[tuple[int, ...]]:
        # A cell is found once for each of its symmetries. Cycles on the same vertices may still be different cells.
        same = edge_set if isinstance(lifting, Cycles) else frozenset
        cells: dict[Any, tuple[int, ...]] = {}
        for size in range(3, min(lifting.k, graph.num_vertices()) + 1):
            sub = pattern(size, isinstance(lifting, Cliques))
            induced = not isinstance(lifting, Cycles)
            for match in subgraph_isomorphism(sub, graph, induced=induced, subgraph=True, generator=True):
                vertices = tuple(match.a.tolist())
                cells.setdefault(same(vertices), vertices)
        return list(cells.values())

    how = dict.fromkeys(
        ("Rings", "Cycles", "Cliques"), "`subgraph_isomorphism(pattern, g)` for each size, then each cell once"
    )
    return Peer("graph-tool", "graph-tool", how, lambda m: graph_of(m.num_nodes, m.edges.tolist()), find, cell_lengths)


def installed_peers() -> tuple[list[Peer], list[str]]:
    """The peers at hand, and the names of those that are not installed."""
    makers = {
        "networkx": networkx_peer,
        "igraph": igraph_peer,
        "TopoNetX": toponetx_peer,
        "graph-tool": graph_tool_peer,
    }
    peers, missing = [], []
    for name, make in makers.items():
        try:
            peers.append(make())
        except ImportError:
            missing.append(name)
    return peers, missing


# ------------------------------------------------------------------------------------------------ checks

CellCounts = Counter[tuple[int, int]]


def counts_of_store(store: ComplexStore) -> CellCounts:
    """How many cells of each size each molecule has. A cell is as large as its boundary: a p-clique has p faces."""
    counts: CellCounts = Counter()
    for ptr, boundary in zip(store.cell_ptr[2:], store.boundaries[1:], strict=True):
        molecule = torch.repeat_interleave(ptr.diff())
        counts.update(zip(molecule.tolist(), boundary.sizes.tolist(), strict=True))
    return counts


def counts_of_peer(peer: Peer, graphs: Sequence[Any], lifting: Any) -> CellCounts:
    return Counter((i, size) for i, graph in enumerate(graphs) for size in peer.sizes(peer.find(graph, lifting)))


def check_equal(name: str, lifting: Any, found: CellCounts, expected: CellCounts) -> None:
    if found == expected:
        return
    molecule, size = min(key for key in found.keys() | expected.keys() if found[key] != expected[key])
    raise Disagreement(
        f"{name} and cwnet differ under {lifting!r}: molecule {molecule} of the subset has {found[molecule, size]} "
        f"cells of size {size} by {name} and {expected[molecule, size]} by cwnet"
    )


# ----------------------------------------------------------------------------------------------- the table


@dataclass(frozen=True)
class Entry:
    """A row of the table before it is timed."""

    name: str
    molecules: int
    cells: int
    call: Callable[[], object]


def measure_table(molecules: Molecules, peers: Sequence[Peer], effort: Effort, step: Callable[..., Any]) -> list[Any]:
    store = molecules.pack()
    rows = []
    for lifting in LIFTINGS:
        step(f"{lifting!r}: checking that all find the same cells")
        entries = [*cwnet_entries(store, molecules, lifting, effort.seconds)]
        entries += [peer_entry(p, store, molecules, lifting, effort.seconds) for p in peers]
        step(f"{lifting!r}: timing")
        times = time_in_turn({e.name: e.call for e in entries}, effort.rounds, effort.seconds, step)
        reference = len(molecules) / times[REFERENCE].median
        for entry in entries:
            rates = times[entry.name].rates(entry.molecules)
            ratio = reference / rates["per_second"]
            rows.append(
                {"lifting": repr(lifting), "name": entry.name, "molecules": entry.molecules, "cells": entry.cells}
                | rates
                | {"cwnet_is_times_faster": ratio}
            )
    return rows


def cwnet_entries(store: ComplexStore, molecules: Molecules, lifting: Any, seconds: float) -> Iterable[Entry]:
    lifted = lift_many(store, lifting, threads=1)
    total, cells = sum(lifted.num_cells[2:]), counts_of_store(lifted)

    def listed(name: str, graphs: Sequence[Any], expected: CellCounts) -> Entry:
        check_equal(name, lifting, counts_of_store(lift_many(graphs, lifting, threads=1)), expected)
        return Entry(name, len(graphs), expected.total(), lambda: lift_many(graphs, lifting, threads=1))

    yield listed(REFERENCE, molecules[molecules.spread(len(molecules))], cells)

    def one_by_one(graphs: Sequence[Molecule]) -> list[Any]:
        return [lift(graph, lifting) for graph in graphs]

    numbers = affordable(molecules, lambda graphs: one_by_one(graphs), lambda m: m, seconds)
    graphs = molecules[numbers]
    expected = counts_of_store(lift_many(store.select(numbers), lifting, threads=1))
    check_equal(ONE_BY_ONE, lifting, counts_of_store(ComplexStore.from_complexes(one_by_one(graphs))), expected)
    yield Entry(ONE_BY_ONE, len(graphs), expected.total(), lambda: one_by_one(graphs))

    if lifting == Rings(18):
        numbers = molecules.spread(2_000)
        some = counts_of_store(lift_many(store.select(numbers), lifting, threads=1))
        for name, build in input_kinds(molecules).items():
            yield listed(name, build(numbers), some)

    check_equal(TWO_THREADS, lifting, counts_of_store(lift_many(store, lifting, threads=2)), cells)
    for name, threads in ((PACKED, 1), (TWO_THREADS, 2)):
        yield Entry(name, len(store), total, lambda threads=threads: lift_many(store, lifting, threads=threads))


def input_kinds(molecules: Molecules) -> dict[str, Callable[[NDArray[np.int64]], list[Any]]]:
    """Molecules as graphs of other libraries, where these are installed."""
    kinds: dict[str, Callable[[NDArray[np.int64]], list[Any]]] = {}
    try:
        from torch_geometric.data import Data
    except ImportError:
        pass
    else:

        def pyg(molecule: Molecule) -> Any:
            both = np.concatenate([molecule.edges, molecule.edges[:, ::-1]]).T.astype(np.int64)
            n = molecule.num_nodes
            x, attributes = (torch.zeros(k, 1, dtype=torch.int64) for k in (n, both.shape[1]))
            return Data(x=x, edge_index=torch.from_numpy(both), edge_attr=attributes, y=torch.zeros(1))

        kinds[PYG_LIST] = lambda numbers: [pyg(m) for m in molecules[numbers]]
    kinds[NETWORKX_LIST] = lambda numbers: [networkx_graph(m) for m in molecules[numbers]]
    if molecules.smiles is not None:
        from rdkit import Chem

        read = molecules.smiles
        kinds[RDKIT_LIST] = lambda numbers: [Chem.MolFromSmiles(text) for text in read(numbers)]
    return kinds


def peer_entry(peer: Peer, store: ComplexStore, molecules: Molecules, lifting: Any, seconds: float) -> Entry:
    def lift_all(graphs: Sequence[Any]) -> list[Any]:
        return [peer.find(graph, lifting) for graph in graphs]

    numbers = affordable(molecules, lift_all, peer.build, seconds)
    graphs = [peer.build(m) for m in molecules[numbers]]
    expected = counts_of_store(lift_many(store.select(numbers), lifting, threads=1))
    check_equal(peer.name, lifting, counts_of_peer(peer, graphs, lifting), expected)
    return Entry(peer.name, len(graphs), expected.total(), lambda: lift_all(graphs))


def affordable(
    molecules: Molecules,
    lift_all: Callable[[Sequence[Any]], object],
    build: Callable[[Molecule], Any],
    seconds: float,
) -> NDArray[np.int64]:
    """Molecules that take about so many seconds, spread over the data set; 64 at least."""
    sample = [build(m) for m in molecules[molecules.spread(64)]]
    lift_all(sample)
    start = time.perf_counter()
    lift_all(sample)
    count = len(sample) * seconds / (time.perf_counter() - start)
    digits = 10 ** max(0, math.floor(math.log10(max(count, 1))) - 1)
    return molecules.spread(max(64, int(count // digits * digits)))


def measure_inputs(molecules: Molecules, peers: Sequence[Peer], effort: Effort) -> list[Any]:
    """What comes before lifting: making the graphs. And TopoNetX's own lifting, which attaches other cells."""
    sample = molecules[molecules.spread(2_000 if effort is FULL else 100)]
    calls: dict[str, Callable[[], object]] = {"cwnet: `ComplexStore.from_graphs`, one call": molecules.pack}
    counts = {"cwnet: `ComplexStore.from_graphs`, one call": len(molecules)}
    for peer in peers:
        if peer.package == "toponetx":
            from toponetx.transform import homology_cycle_cell_complex

            graphs = [peer.build(m) for m in sample]
            name = "TopoNetX: `homology_cycle_cell_complex`, its own lifting (a cycle basis)"
            calls[name] = lambda graphs=graphs: [homology_cycle_cell_complex(g) for g in graphs]
        else:
            name = f"{peer.name}: its graphs"
            calls[name] = lambda peer=peer: [peer.build(m) for m in sample]
        counts[name] = len(sample)
    times = time_in_turn(calls, *effort.curve)
    return [{"name": n, "molecules": counts[n]} | times[n].rates(counts[n]) for n in calls]


# ---------------------------------------------------------------------------------------------- the curves


def measure_molecules(molecules: Molecules, effort: Effort, step: Callable[..., Any]) -> list[Any]:
    points = []
    for count in effort.molecules:
        step(f"Rings(18): {count:,} molecules")
        store = molecules.tiled(count).pack()
        calls = {t: (lambda t=t, store=store: lift_many(store, Rings(18), threads=t)) for t in (1, 2)}
        times = time_in_turn(calls, *effort.curve)
        points += [{"molecules": count, "threads": t} | times[t].rates(count) for t in calls]
    return points


def measure_bounds(molecules: Molecules, peers: Sequence[Peer], effort: Effort, step: Callable[..., Any]) -> list[Any]:
    store = molecules.pack()
    numbers = molecules.spread(600 if effort is FULL else 60)
    some = store.select(numbers)
    shown = {p.name: (p, [p.build(m) for m in molecules[numbers]]) for p in peers if p.name in ("networkx", "igraph")}
    points = []
    for k in effort.bounds:
        step(f"Rings({k}): all molecules")
        lifting = Rings(k)
        expected = counts_of_store(lift_many(some, lifting, threads=1))
        calls: dict[str, Callable[[], object]] = {"cwnet": lambda lifting=lifting: lift_many(store, lifting, threads=1)}
        for name, (peer, graphs) in shown.items():
            check_equal(name, lifting, counts_of_peer(peer, graphs, lifting), expected)
            calls[name] = lambda peer=peer, graphs=graphs, lifting=lifting: [peer.find(g, lifting) for g in graphs]
        times = time_in_turn(calls, *effort.curve)
        for name in calls:
            count = len(store) if name == "cwnet" else len(some)
            points.append({"k": k, "name": name, "molecules": count} | times[name].rates(count))
    return points


def measure_ring_sizes(effort: Effort, step: Callable[..., Any]) -> list[Any]:
    """Cycle graphs C_n under Rings(n): one in a call, and many in a call, which hides what a call costs once."""
    points = []
    for n in effort.ring_sizes:
        step(f"Rings({n}): the cycle graph with {n:,} vertices")
        stores = {"one": cycle_graphs(n, 1), "many": cycle_graphs(n, max(10, 100_000 // n))}
        for store in stores.values():
            check_rings(n, store)
        calls = {
            mode: (lambda store=store, n=n: lift_many(store, Rings(n), threads=1)) for mode, store in stores.items()
        }
        for mode, timing in time_in_turn(calls, *effort.curve).items():
            copies = len(stores[mode])
            points.append(
                {
                    "size": n,
                    "mode": mode,
                    "copies": copies,
                    "seconds_per_ring": timing.median / copies,
                    "fastest": timing.fastest / copies,
                    "slowest": timing.slowest / copies,
                    "rounds": timing.rounds,
                }
            )
    return points


def cycle_graphs(n: int, copies: int) -> ComplexStore:
    ends = np.stack([np.arange(n), (np.arange(n) + 1) % n], 1).astype(np.int32)
    return ComplexStore.from_graphs([n] * copies, [n] * copies, np.tile(ends, (copies, 1)))


def check_rings(n: int, store: ComplexStore) -> None:
    lifted = lift_many(store, Rings(n), threads=1)
    if not (lifted.boundaries[1].sizes == n).all() or lifted.num_cells[2] != len(store):
        raise Disagreement(f"Rings({n}) must find one ring of size {n} in each cycle graph C_{n}; found {lifted!r}")


# ---------------------------------------------------------------------------------------------- the memory


def measure_memory(data: Path | None, effort: Effort, step: Callable[..., Any]) -> list[Any]:
    """Lift strongly regular graphs in a process of their own, once per number of threads."""
    path = data / "SR_graphs" / SR_FILE if data else None
    if path is None or not path.exists():
        return []
    results = []
    for threads in (1, 2):
        step(f"memory: {SR_FILE}, Rings(6), {threads_text(threads)}")
        command = [sys.executable, __file__, "--memory-child", f"{effort.sr_graphs},{threads},{path}"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode:
            raise RuntimeError(f"the process that measures memory failed:\n{answer.stderr}")
        results.append(json.loads(answer.stdout))
    return results


def memory_child(task: str) -> None:
    count, threads, path = task.split(",", 2)
    store = read_graph6(Path(path), int(count))
    before = peak_memory()
    start = time.perf_counter()
    lifted = lift_many(store, Rings(6), threads=int(threads))
    seconds = time.perf_counter() - start
    arrays = [lifted.cell_ptr[2], *lifted.boundaries[1]]
    result = {
        "graphs": len(store),
        "lifting": "Rings(6)",
        "threads": int(threads),
        "cells": lifted.num_cells[2],
        "seconds": seconds,
        "peak_bytes": peak_memory(),
        "peak_bytes_before": before,
        "result_bytes": sum(a.numel() * a.element_size() for a in arrays),
    }
    sys.stdout.write(json.dumps(result))


# ---------------------------------------------------------------------------------------------- the targets


def judge(figures: dict[str, Any]) -> list[Any]:
    """The targets that this run can judge."""
    rings = {row["name"]: row for row in figures["table"] if row["lifting"] == "Rings(18)"}
    targets = []
    for name, least in (
        (REFERENCE, 600_000),
        (PYG_LIST, 150_000),
        (NETWORKX_LIST, 60_000),
        (RDKIT_LIST, 60_000),
        (ONE_BY_ONE, 60_000),
        (PACKED, 500_000),
    ):
        if name in rings:
            speed = rings[name]["per_second"]
            targets.append(target(f"Rings(18), {name}: molecules/s", f"≥ {least:,}", speed, speed >= least))
    for ours, name, least in ((REFERENCE, "networkx", 100), (REFERENCE, "igraph", 10), (ONE_BY_ONE, "igraph", 1)):
        if name in rings:
            ratio = rings[ours]["per_second"] / rings[name]["per_second"]
            what = f"Rings(18), {ours}: times faster than {name}"
            targets.append(target(what, f"≥ {least}", ratio, ratio >= least))
    for memory in figures["memory"]:
        if memory["graphs"] == SR_GRAPHS:
            what = f"Rings(6) on all graphs SR(35,16,6,8), {threads_text(memory['threads'])}: peak memory in GB"
            peak = memory["peak_bytes"]
            targets.append(target(what, "≤ 2", peak / 1e9, peak <= MEMORY_BOUND))
    return targets


def target(what: str, bound: str, measured: float, met: bool) -> dict[str, Any]:
    return {"what": what, "target": bound, "measured": measured, "met": met}


def threads_text(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


# ------------------------------------------------------------------------------------------ what is written


def print_table(figures: dict[str, Any]) -> None:
    data = figures["data"]
    table = Table(title=f"Lifting {data['name']}: {data['molecules']:,} molecules", title_justify="left")
    table.add_column("lifting")
    table.add_column("")
    for head in ("molecules/s", "slowest to fastest", "cwnet is faster by", "timed on"):
        table.add_column(head, justify="right")
    last = None
    for row in figures["table"]:
        if last not in (None, row["lifting"]):
            table.add_section()
        lifting = row["lifting"] if row["lifting"] != last else ""
        table.add_row(lifting, *table_cells(row), style="bold" if row["name"] == REFERENCE else None)
        last = row["lifting"]
    console.print(table)


def table_cells(row: dict[str, Any]) -> list[str]:
    ratio = f"{rounded(row['cwnet_is_times_faster'])}x"
    return [row["name"], *speed_cells(row), ratio, f"{row['molecules']:,}"]


def speed_cells(row: dict[str, Any]) -> tuple[str, str]:
    return rounded(row["per_second"]), f"{rounded(row['slowest'])} to {rounded(row['fastest'])}"


def print_rest(figures: dict[str, Any]) -> None:
    for row in figures["inputs"]:
        console.print(f"{row['name'].replace('`', '')}: {rounded(row['per_second'])} molecules/s")
    for memory in figures["memory"]:
        console.print(memory_sentence(memory))
    for target in figures["targets"]:
        verdict = "[green]met[/]" if target["met"] else "[red]missed[/]"
        console.print(f"target {verdict}: {target['what']} {target['target']}, measured {rounded(target['measured'])}")


def memory_sentence(m: dict[str, Any]) -> str:
    return (
        f"{m['graphs']:,} graphs of {SR_FILE}, {m['lifting']}, {threads_text(m['threads'])}: {m['cells']:,} rings in "
        f"{rounded(m['seconds'])} s; peak memory {rounded(m['peak_bytes'] / 1e9)} GB, of which the result is "
        f"{rounded(m['result_bytes'] / 1e9)} GB and {rounded(m['peak_bytes_before'] / 1e9)} GB were there before."
    )


def page(figures: dict[str, Any], picture: str) -> str:
    """The page of the documentation. It holds nothing that is not in the figures."""
    sections = [
        "# How fast are the liftings?",
        "**This is a smoke test (`--quick`). Its figures mean nothing.**" if figures["quick"] else "",
        origin(figures),
        markdown_table(
            ["lifting", "", "molecules/s", "slowest to fastest", "cwnet is faster by", "timed on"],
            [[f"`{row['lifting']}`", *table_cells(row)] for row in figures["table"]],
            "llrrrr",
        ),
        f'"cwnet is faster by" compares with the row "{REFERENCE}" of the same lifting. "timed on" is a number of '
        "molecules."
        + (f" Not installed, so not measured: {', '.join(figures['missing'])}." * bool(figures["missing"])),
        "## How it was measured",
        METHOD.format(seconds=rounded(figures["effort"]["seconds"]), rounds=figures["effort"]["rounds"]),
        "What was called:",
        markdown_table(
            ["", "rings", "cycles", "cliques"],
            [[p["name"], *(p["how"][k] for k in ("Rings", "Cycles", "Cliques"))] for p in figures["peers"]],
        ),
        "## Before lifting",
        "The table above leaves out the time to make the graphs. Here it is. The lifting that TopoNetX itself has is "
        "in this list too. It attaches other cells, so it does not belong in the table: one cycle basis, with cycles "
        "of any size, and which one depends on the numbering of the vertices.",
        markdown_table(
            ["", "molecules/s", "slowest to fastest", "timed on"],
            [[row["name"], *speed_cells(row), f"{row['molecules']:,}"] for row in figures["inputs"]],
            "lrrr",
        ),
        "## Scaling",
        f"![Three curves: number of molecules, bound on the ring size, size of one ring]({picture})",
        "\n".join(scaling_lines(figures)),
        "## Memory",
        "\n".join(memory_lines(figures)),
        "## Targets",
        markdown_table(
            ["", "target", "measured", "met"],
            [[t["what"], t["target"], rounded(t["measured"]), "yes" if t["met"] else "no"] for t in figures["targets"]],
            "lrrl",
        ),
    ]
    return "\n\n".join(section for section in sections if section)


METHOD = """\
- All rows of a lifting ran in one process, in turns. Each round gave every row one turn, so a slow moment of the
  machine hits all of them. A turn repeats its work for about {seconds} s. The table shows the median of {rounds}
  rounds, and the slowest and the fastest of them.
- Everyone starts from graphs of their own kind, made before the clock starts. For cwnet that is what a row says: a
  Python list of `(num_nodes, edges)` with edges in NumPy arrays, of PyG's `Data` with features and targets, of
  networkx graphs or of RDKit molecules, given to `lift_many`; one such pair per call of `lift`; or a
  `ComplexStore`, which is what a data set is kept as.
- A slow row ran on fewer molecules, evenly spaced over the data set, so that a turn stays short.
- The cells were compared before timing: in each molecule of its subset, each row found as many cells of each size as
  cwnet. The benchmark stops if one does not.
- cwnet gives whole complexes: cells with boundaries. So does TopoNetX. The others give lists of vertices.
- PyTorch was held to one thread."""


def origin(figures: dict[str, Any]) -> str:
    """On what data, machine and code the figures were made."""
    data, machine, commit = figures["data"], figures["machine"], figures["commit"]
    code = f"commit `{commit['id'][:12]}`" if commit["id"] else "an unknown commit"
    changed = " with changes that were not committed" if commit["changed_since"] else ""
    versions = ", ".join(f"{name} {version}" for name, version in figures["versions"].items() if version)
    return (
        f"Data: {data['name']}, {data['molecules']:,} molecules, {data['vertices']:,} vertices, "
        f"{data['edges']:,} edges. Made with `{figures['command']}` on {figures['date']}, {code}{changed}, on "
        f"{machine['cores']} cores of {machine['cpu']} ({machine['system']}, {machine['memory_gb']} GB of memory, load "
        f"{machine['load_before']} before the run). Versions: {versions}. All figures are in "
        f"[lifting.json](../../{RESULTS}/lifting.json)."
    )


def memory_lines(figures: dict[str, Any]) -> list[str]:
    if not figures["memory"]:
        return ["Not measured: the graphs were not at hand."]
    return [
        "The strongly regular graphs SR(35,16,6,8) have many rings. They were lifted in a process of their own, and "
        "the system was asked for the most memory that it held (`ru_maxrss`). One GB is 10⁹ bytes.",
        "",
        *(f"- {memory_sentence(m)}" for m in figures["memory"]),
    ]


def scaling_lines(figures: dict[str, Any]) -> list[str]:
    scaling = figures["scaling"]
    one = [p for p in scaling["molecules"] if p["threads"] == 1]
    two = [p for p in scaling["molecules"] if p["threads"] == 2]
    bounds = [p for p in scaling["bounds"] if p["name"] == "cwnet"]
    return [
        f"- Left: `Rings(18)` on more and more molecules; beyond {figures['data']['molecules']:,} the data set is "
        f"repeated. {one[0]['molecules']:,} molecules: {rounded(one[0]['per_second'])} a second with one thread, "
        f"{rounded(two[0]['per_second'])} with two. {one[-1]['molecules']:,} molecules: "
        f"{rounded(one[-1]['per_second'])} and {rounded(two[-1]['per_second'])}. The bands span the slowest and the "
        "fastest round.",
        f"- Middle: the bound k of `Rings(k)`, one thread. From k = {bounds[0]['k']} to {bounds[-1]['k']} cwnet goes "
        f"from {rounded(bounds[0]['per_second'])} to {rounded(bounds[-1]['per_second'])} molecules a second.",
        "- Right: the time for one ring, the cycle graph with n vertices, under `Rings(n)`, one thread. Either one "
        "such graph in a call, or at least ten and 100,000 vertices in all, which shares out what a call costs once. "
        + " ".join(growth(scaling["ring_sizes"], mode) for mode in ("one", "many"))
        + " Graphs of at most 64 vertices are held in bit sets, which is why the lower curve starts below the line.",
    ]


def growth(points: Sequence[dict[str, Any]], mode: str) -> str:
    """How the time of a ring grows, from 1,000 vertices on."""
    large = [p for p in points if p["mode"] == mode and p["size"] >= 1_000]
    first, last = large[0], large[-1]
    per_vertex = [rounded(p["seconds_per_ring"] / p["size"] * 1e9) for p in (first, last)]
    return (
        f"With {mode} in a call, from n = {first['size']:,} to {last['size']:,} the ring grows "
        f"{rounded(last['size'] / first['size'])} times and its time "
        f"{rounded(last['seconds_per_ring'] / first['seconds_per_ring'])} times, from {per_vertex[0]} to "
        f"{per_vertex[1]} ns per vertex."
    )


def draw(figures: dict[str, Any], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    style = {
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "axes.grid": True,
        "grid.alpha": 0.25,
        "legend.frameon": False,
    }
    with plt.rc_context(style):
        figure, axes = plt.subplots(1, 3, figsize=(13, 4.1), layout="constrained")
        draw_molecules(axes[0], figures["scaling"]["molecules"])
        draw_bounds(axes[1], figures["scaling"]["bounds"])
        draw_ring_sizes(axes[2], figures["scaling"]["ring_sizes"])
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
        plt.close(figure)


BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"


def draw_curve(axis: Any, points: Sequence[dict[str, Any]], x: str, y: str, color: str, label: str) -> None:
    xs = [p[x] for p in points]
    axis.fill_between(xs, [p["slowest"] for p in points], [p["fastest"] for p in points], color=color, alpha=0.15, lw=0)
    axis.plot(xs, [p[y] for p in points], "o-", color=color, label=label, markersize=4)


def draw_molecules(axis: Any, points: Sequence[dict[str, Any]]) -> None:
    from matplotlib.ticker import FuncFormatter

    for threads, color, label in ((1, BLUE, "1 thread"), (2, ORANGE, "2 threads")):
        draw_curve(axis, [p for p in points if p["threads"] == threads], "molecules", "per_second", color, label)
    axis.set(xscale="log", xlabel="molecules in one call", title="Rings(18), molecules per second")
    axis.xaxis.set_major_formatter(FuncFormatter(short_number))
    axis.yaxis.set_major_formatter(FuncFormatter(short_number))
    axis.set_ylim(bottom=0)
    axis.legend(loc="lower right")


def draw_bounds(axis: Any, points: Sequence[dict[str, Any]]) -> None:
    from matplotlib.ticker import FuncFormatter

    for name, color in (("cwnet", BLUE), ("igraph", GREEN), ("networkx", ORANGE)):
        chosen = [p for p in points if p["name"] == name]
        if chosen:
            draw_curve(axis, chosen, "k", "per_second", color, name)
    axis.set(yscale="log", xlabel="k, the largest ring", title="Rings(k), 1 thread, molecules per second")
    axis.set_xticks([3, 6, 9, 12, 15, 18])
    axis.yaxis.set_major_formatter(FuncFormatter(short_number))
    low, high = axis.get_ylim()
    axis.set_ylim(low / 1.5, high * 1.5)
    axis.legend(loc="center right")


def draw_ring_sizes(axis: Any, points: Sequence[dict[str, Any]]) -> None:
    from matplotlib.ticker import FuncFormatter

    curves = {mode: [p for p in points if p["mode"] == mode] for mode in ("one", "many")}
    for (mode, curve), color in zip(curves.items(), (ORANGE, BLUE), strict=True):
        draw_curve(axis, curve, "size", "seconds_per_ring", color, f"{mode} in a call")
    anchor = next(p for p in curves["many"] if p["size"] >= 1_000)
    xs = [p["size"] for p in curves["many"]]
    line = [anchor["seconds_per_ring"] * x / anchor["size"] for x in xs]
    axis.plot(xs, line, "--", color=GREY, lw=1, label="proportional to n")
    axis.axvline(64, color=GREY, lw=1, ls=":", label="n = 64: the last with bit sets")
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="n, the vertices of the ring",
        title="Rings(n), 1 thread, time per ring of size n",
    )
    axis.xaxis.set_major_formatter(FuncFormatter(short_number))
    axis.yaxis.set_major_formatter(FuncFormatter(short_time))
    axis.legend(loc="lower right", frameon=True, framealpha=1, edgecolor="none")


def short_number(value: float, _position: int = 0) -> str:
    for scale, letter in ((1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{value / scale:g}{letter}"
    return f"{value:g}"


def short_time(value: float, _position: int = 0) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= 0.999 * scale:
            return f"{value / scale:g} {unit}"
    return f"{value / 1e-9:g} ns"


# ------------------------------------------------------------------------------------------------- the run


def measure(data: Path | None, quick: bool) -> dict[str, Any]:
    effort = QUICK if quick else FULL
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        total = 2 + len(LIFTINGS) * (2 + effort.rounds) + 1
        total += len(effort.molecules) + len(effort.bounds) + len(effort.ring_sizes)
        task = progress.add_task("starting", total=total)

        def step(what: str | None = None) -> None:
            progress.update(task, advance=1, **({"description": what} if what else {}))

        # First, while this process is small: on Linux a child starts with the peak of the process that made it.
        memory = measure_memory(data, effort, step)
        molecules = read_molecules(data)
        peers, missing = installed_peers()
        figures = describe_run(
            "python benchmarks/lifting.py" + " --quick" * quick,
            ["cwnet", "numpy", "torch", *(p.package for p in peers)],
        )
        store = molecules.pack()
        figures |= {
            "quick": quick,
            "data": {
                "name": molecules.name,
                "molecules": len(molecules),
                "vertices": store.num_cells[0],
                "edges": store.num_cells[1],
            },
            "effort": {"rounds": effort.rounds, "seconds": effort.seconds},
            "peers": [{"name": p.name, "how": p.how} for p in peers],
            "missing": missing,
            "table": measure_table(molecules, peers, effort, step),
        }
        step("making graphs")
        figures["inputs"] = measure_inputs(molecules, peers, effort)
        figures["scaling"] = {
            "molecules": measure_molecules(molecules, effort, step),
            "bounds": measure_bounds(molecules, peers, effort, step),
            "ring_sizes": measure_ring_sizes(effort, step),
        }
        figures["memory"] = memory
    return figures | {"targets": judge(figures)}


def main(
    quick: Annotated[
        bool, typer.Option("--quick", help="Everything small, as a smoke test; writes to build/quick/ instead.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(envvar="CWNET_DATA", help="Folder with ZINC/ and SR_graphs/.", show_default=False),
    ] = None,
    render: Annotated[
        bool, typer.Option("--render", help="Measure nothing: print and write anew from the stored figures.")
    ] = False,
    memory_task: Annotated[str, typer.Option("--memory-child", hidden=True)] = "",
) -> None:
    """Measure how fast graphs are lifted, next to other libraries, and write the figures down.

    Lifts molecules with Rings(6), Rings(18), Cycles(8) and Cliques(4): with cwnet (one batch call with one and two
    threads, one call per molecule), networkx, igraph, TopoNetX, and graph-tool where it is installed. Prints one
    table, in molecules per second and as a ratio to cwnet. Stops with an error if two of them find different cells.

    Also measures how cwnet scales with the number of molecules, the bound on rings and the size of a ring, and the
    peak memory of lifting 3,854 strongly regular graphs. Ends with status 1 if that is above 2 GB.

    Molecules are read from ZINC/zinc12k_train.npz in the data folder; without it, the NCI molecules inside RDKit are
    used. Needs the extra `bench` of cwnet. Takes less than ten minutes; let nothing else run meanwhile.

    Writes benchmarks/results/lifting.json (all figures), docs/benchmarks/lifting.md (the page made from them) and
    docs/benchmarks/lifting_scaling.png.
    """
    torch.set_num_threads(1)
    if memory_task:
        memory_child(memory_task)
        return
    out = ROOT / "build" / "quick" if quick else ROOT
    stored = out / RESULTS / "lifting.json"
    picture = out / PAGES / "lifting_scaling.png"
    figures = measured(stored, lambda: measure(data, quick), render, Disagreement)
    write_text(picture.with_name("lifting.md"), page(figures, picture.name))
    draw(figures, picture)
    print_table(figures)
    print_rest(figures)
    console.print("written: " + ", ".join(relative(p) for p in (stored, picture.with_name("lifting.md"), picture)))
    if any(m["peak_bytes"] > MEMORY_BOUND for m in figures["memory"]):
        console.print("[red]The peak memory is above 2 GB.[/]")
        raise typer.Exit(1)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    app.command()(main)
    app()
