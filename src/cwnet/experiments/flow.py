"""Which way past the obstacles? Trajectories as edge flows on a complex with two holes.

The experiment of message passing simplicial networks (Bodnar, Frasca et al., "Weisfeiler and Lehman Go Topological",
ICML 2021, section on edge flows), on cells: a square without two holes is cut into triangles and quadrilaterals, and a
path through it is a flow of 1 along the orientation of its edges, or -1 against it. Paths run from one corner to the
opposite one, either between the holes or around one of them, and a network has to tell which.

How edges and cells are oriented says nothing about the path. All training flows are written down in one orientation.
The test flows come twice: in that orientation, and each in a random one of its own. A network that respects orientation
does equally well on both.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cwnet.complexes import CellComplex, ComplexStore
from cwnet.complexes._cells import Cells
from cwnet.nn import (
    CIN,
    CINppConv,
    Head,
    HodgeConv,
    InvariantReadout,
    Module,
    OrientedCINConv,
    Readout,
)
from cwnet.topology import Oriented, orient, random_flips

__all__ = ["MODELS", "FlowData", "FlowEncoder", "Mesh", "Settings", "evaluate", "make_data", "make_mesh", "run"]

_HOLES = ((0.33, 0.67), (0.67, 0.33))
_HOLE_SIZE = 0.2
_START, _END = (0.08, 0.08), (0.92, 0.92)
#: Where paths of class 0 and of class 1 pass. Half of the latter go around either hole.
_WAYPOINTS = (((0.5, 0.5),), ((0.08, 0.92), (0.92, 0.08)))


@dataclass(frozen=True)
class Settings:
    """All that decides the outcome of the experiment, but the seed.

    Attributes:
        points: vertices in the square before the holes are cut out.
        num_train, num_test: flows.
        width, layers: of every network.
        epochs, batch, rate: of the training, by Adam with one cycle of the learning rate.
    """

    points: int = 121
    num_train: int = 400
    num_test: int = 200
    width: int = 16
    layers: int = 4
    epochs: int = 20
    batch: int = 20
    rate: float = 1e-3


class Mesh(NamedTuple):
    """A complex in the plane, with the positions [vertices, 2] of its vertices."""

    cells: CellComplex
    positions: NDArray[np.float64]


def make_mesh(points: int, seed: int = 0) -> Mesh:
    """A square with two square holes, cut into triangles and quadrilaterals.

    Points of a grid are moved a little, but those on the rims of the holes, and joined by a Delaunay triangulation.
    Then neighbouring triangles are joined in random order, each once at most. Vertices are numbered from left to right,
    so every edge points to the right.
    """
    from scipy.spatial import Delaunay

    rng = np.random.default_rng(seed)
    side = max(8, round(points**0.5)) - 1
    grid = np.stack(np.meshgrid(*[np.arange(side + 1)] * 2), axis=-1).reshape(-1, 2)
    # No point comes as close to an edge of a rim as its ends are to its middle, so the edge is in the triangulation.
    low = np.rint((np.array(_HOLES) - _HOLE_SIZE / 2) * side)
    high = low + round(_HOLE_SIZE * side)
    rim = np.any([((grid >= a) & (grid <= b)).all(1) for a, b in zip(low, high, strict=True)], axis=0)
    hollow = np.any([((grid > a) & (grid < b)).all(1) for a, b in zip(low, high, strict=True)], axis=0)
    moved = rng.uniform(-0.35, 0.35, grid.shape)
    moved[(grid == 0) | (grid == side)] = 0  # along a side of the square, but not off it
    moved[rim] = 0
    at = (grid + moved)[~hollow]
    at = at[np.lexsort((at[:, 1], at[:, 0]))]
    triangles = Delaunay(at).simplices
    centres = at[triangles].mean(1)
    inside = np.any([((centres > a) & (centres < b)).all(1) for a, b in zip(low, high, strict=True)], axis=0)
    return Mesh(_join_triangles(len(at), triangles[~inside], rng), at / side)


def _join_triangles(num_vertices: int, triangles: NDArray[np.int64], rng: np.random.Generator) -> CellComplex:
    """The complex of a triangulation in which random pairs of neighbours have become one cell."""
    triangles = np.sort(triangles, axis=1)
    sides = triangles[:, [[0, 1], [1, 2], [0, 2]]].reshape(-1, 2)
    edges, edge_of = np.unique(sides, axis=0, return_inverse=True)
    faces = [set(row) for row in edge_of.reshape(-1, 3).tolist()]
    beside: list[list[int]] = [[] for _ in edges]
    for i, face in enumerate(faces):
        for e in face:
            beside[e].append(i)
    free, removed = np.ones(len(faces), dtype=bool), set()
    for e in rng.permutation(len(edges)).tolist():
        if len(beside[e]) == 2 and free[beside[e]].all() and rng.random() < 0.5:
            a, b = beside[e]
            faces[a], faces[b] = faces[a] ^ faces[b], set()
            free[[a, b]] = False
            removed.add(e)
    kept = np.array([e for e in range(len(edges)) if e not in removed])
    number = dict(zip(kept.tolist(), range(len(kept)), strict=True))
    cells = [sorted(number[e] for e in face) for face in faces if face]
    return CellComplex.from_boundaries(num_vertices, [edges[kept].tolist(), cells])


class FlowData(NamedTuple):
    """Flows [samples, edges], in the canonical orientation of the mesh, and their classes [samples]."""

    flows: Tensor
    labels: Tensor


def make_data(mesh: Mesh, count: int, seed: int) -> FlowData:
    """Random paths from corner to corner, every other one between the holes (class 0).

    A path goes from a vertex near the first corner to one near a waypoint of its class and on to one near the opposite
    corner, along shortest paths under random edge lengths.
    """
    rng = np.random.default_rng(seed)
    ends = np.array(mesh.cells.cells(1))
    lengths = np.linalg.norm(np.diff(mesh.positions[ends], axis=1)[:, 0], axis=1)
    flows = np.zeros((count, len(ends)), dtype=np.float32)
    labels = np.arange(count) % 2
    for i, label in enumerate(labels.tolist()):
        way = _WAYPOINTS[label]
        stops = [_near(mesh.positions, place, rng) for place in (_START, way[rng.integers(len(way))], _END)]
        flows[i] = _walk(ends, lengths * rng.uniform(0.5, 1.5, len(ends)), stops, len(mesh.positions))
    return FlowData(torch.from_numpy(flows), torch.from_numpy(labels))


def _near(positions: NDArray[np.float64], place: tuple[float, float], rng: np.random.Generator) -> int:
    """One of the three vertices nearest to a place."""
    return int(rng.choice(np.argsort(np.linalg.norm(positions - place, axis=1))[:3]))


def _walk(ends: NDArray[np.int64], lengths: NDArray[np.float64], stops: Sequence[int], n: int) -> NDArray[np.float32]:
    """The flow of shortest paths from stop to stop; an edge that is walked back and forth has none."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    graph = coo_array((lengths, tuple(ends.T.astype(np.int32))), shape=(n, n))  # older versions of SciPy take no wider
    _, before = dijkstra(graph, directed=False, indices=stops[:-1], return_predecessors=True)
    number = {tuple(sorted(pair)): e for e, pair in enumerate(ends.tolist())}
    flow = np.zeros(len(ends), dtype=np.float32)
    for tree, here in zip(before, stops[1:], strict=True):
        while tree[here] >= 0:
            there = int(tree[here])
            flow[number[min(here, there), max(here, there)]] += 1 if there < here else -1
            here = there
    return flow


# ------------------------------------------------------------------------------------------------------------- networks


class FlowEncoder(Module):
    """The flow on edges to features; vertices and 2-cells begin with zeros.

    Args:
        width: features out.
        dim: largest dimension of cells.
        absolute: whether to take |flow|, which does not depend on the orientation.
        bias: whether there is a bias.
    """

    def __init__(self, width: int, dim: int = 2, absolute: bool = False, bias: bool = True) -> None:
        super().__init__()
        self.dim, self.absolute = dim, absolute
        self.linear = torch.nn.Linear(1, width, bias=bias)

    def forward(self, cells: Cells) -> list[Tensor]:
        flow = cells.x[1]
        if flow is None:
            raise ValueError("the edges have no flow (x[1] is None)")
        edges = self.linear(flow.abs() if self.absolute else flow)
        zeros = [edges.new_zeros(cells.num_cells[d], edges.shape[1]) for d in range(self.dim + 1)]
        return [zeros[0], edges, *zeros[2:]]


def _equivariant(settings: Settings, dim: int = 2) -> CIN:
    w = settings.width
    return CIN(
        FlowEncoder(w, dim, bias=False),
        [OrientedCINConv(w, w, dim) for _ in range(settings.layers)],
        InvariantReadout(w, w, [1], "sum"),
        Head(w, 2),
    )


def _cin(settings: Settings, absolute: bool) -> CIN:
    w = settings.width
    convs = [CINppConv(w, w, act="tanh", norm="none", shared=False) for _ in range(settings.layers)]
    return CIN(FlowEncoder(w, absolute=absolute), convs, Readout(w, w, [1], "sum"), Head(w, 2))


def _biased(settings: Settings) -> CIN:
    w = settings.width
    convs = [HodgeConv(w, w) for _ in range(settings.layers)]
    return CIN(FlowEncoder(w), convs, Readout(w, w, [1], "sum"), Head(w, 2))


class Model(NamedTuple):
    """A row of the table: what it is, how it is made, and whether it is trained on random orientations."""

    title: str
    make: Callable[[Settings], CIN]
    augment: bool = False


MODELS: dict[str, Model] = {
    "equivariant": Model("equivariant: `OrientedCINConv`, tanh, absolute readout", _equivariant),
    "equivariant-graph": Model("the same without 2-cells", lambda s: _equivariant(s, dim=1)),
    "invariant": Model("invariant: `CINppConv` on absolute flows", lambda s: _cin(s, absolute=True)),
    "plain": Model("plain: `CINppConv` on flows", lambda s: _cin(s, absolute=False)),
    "plain-turned": Model("plain, trained on random orientations", lambda s: _cin(s, absolute=False), True),
    "biased": Model("signed, with ReLU and biases: `HodgeConv`", _biased),
}


# ------------------------------------------------------------------------------------------------------------- training


def _batch_of(mesh: Mesh, size: int, device: torch.device) -> Oriented:
    """So many copies of the mesh, oriented, with all that layers derive of them."""
    batch = orient(ComplexStore.from_complexes([mesh.cells]).select([0] * size)).to(device)
    for d in (1, 2):
        batch.incidence(d), batch.signed_incidence(d)
    return batch


def _with_flows(batch: Oriented, flows: Tensor, generator: torch.Generator | None) -> Oriented:
    """A batch with flows on its edges; in a random orientation, if there is a generator."""
    edges = flows.reshape(-1, 1).to(batch.dims.device)
    batch = batch.with_features([None, edges, None])
    return batch if generator is None else batch.flipped(random_flips(batch, generator), signals=[1])


def _fit(model: CIN, batch: Oriented, data: FlowData, settings: Settings, seed: int, augment: bool) -> list[float]:
    """Train, and give the mean loss of every epoch."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), settings.rate)
    steps = len(data.labels) // settings.batch
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.rate, settings.epochs * steps)
    losses = []
    for _ in range(settings.epochs):
        total = 0.0
        order = torch.randperm(len(data.labels), generator=generator)
        for some in order[: steps * settings.batch].reshape(steps, settings.batch):
            scores = model(_with_flows(batch, data.flows[some], generator if augment else None))
            loss = torch.nn.functional.cross_entropy(scores, data.labels[some].to(scores.device))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += float(loss.detach())
        losses.append(total / steps)
    return losses


@torch.no_grad()
def evaluate(model: CIN, batch: Oriented, data: FlowData, seed: int | None = None) -> float:
    """The share of flows that a network classifies rightly; with a seed, each in a random orientation."""
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    model.eval()
    right = 0
    for start in range(0, len(data.labels), len(batch)):
        flows, labels = (part[start : start + len(batch)] for part in data)
        idle = flows.new_zeros(len(batch) - len(flows), flows.shape[1])  # fill the last batch up
        scores = model(_with_flows(batch, torch.cat([flows, idle]), generator))
        right += int((scores[: len(flows)].argmax(1).cpu() == labels).sum())
    return right / len(data.labels)


def run(
    settings: Settings | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    device: str = "cpu",
    models: Sequence[str] | None = None,
    workers: int = 1,
    tick: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Train and test all models with all seeds. A seed draws the mesh, the flows and the weights.

    Args:
        settings: see `Settings`.
        seeds: one run of every model each.
        device: where to run.
        models: names out of `MODELS`; all by default.
        workers: processes, with one thread each; the results are the same whatever their number.
        tick: called after every run with a few words on it.

    Returns:
        The settings and, per model and seed, accuracies, losses and seconds; all plain data.
    """
    settings = settings or Settings()
    names = list(MODELS) if models is None else list(models)
    tasks = [(name, settings, seed, device) for seed in seeds for name in names]
    rows = []
    for row in _in_turn(tasks) if workers == 1 else _side_by_side(tasks, workers):
        rows.append(row)
        tick(f"{row['model']}, seed {row['seed']}: {100 * row['test_turned']:.1f} %")
    return {"settings": asdict(settings), "seeds": list(seeds), "device": device, "rows": rows}


Task = tuple[str, Settings, int, str]


def _in_turn(tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
    """Each task with one thread: batches are too small for more, and sums come out the same everywhere."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for task in tasks:
            yield _run_one(*task)
    finally:
        torch.set_num_threads(threads)


def _side_by_side(tasks: Sequence[Task], workers: int) -> Iterator[dict[str, Any]]:
    """Tasks in processes of their own, their results in order."""
    context = multiprocessing.get_context("spawn")  # a forked process may not use CUDA
    with ProcessPoolExecutor(workers, context, torch.set_num_threads, (1,)) as pool:
        yield from pool.map(_run_one, *zip(*tasks, strict=True))


def _run_one(name: str, settings: Settings, seed: int, device: str) -> dict[str, Any]:
    start = time.perf_counter()
    mesh = make_mesh(settings.points, seed)
    train, test = make_data(mesh, settings.num_train, 2 * seed), make_data(mesh, settings.num_test, 2 * seed + 1)
    batch = _batch_of(mesh, settings.batch, torch.device(device))
    torch.manual_seed(seed)
    model = MODELS[name].make(settings).to(batch.dims.device)
    losses = _fit(model, batch, train, settings, seed, MODELS[name].augment)
    return {
        "model": name,
        "seed": seed,
        "parameters": model.num_parameters(),
        "train": evaluate(model, batch, train),
        "test": evaluate(model, batch, test),
        "test_turned": evaluate(model, batch, test, seed=1000 + seed),
        "losses": losses,
        "seconds": time.perf_counter() - start,
    }
