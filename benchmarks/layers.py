"""How fast CIN layers and models are: linear sums next to expanded pairs, TopoModelX's CWN and PyG's GIN-E.

    CWNET_DATA=/path/to/data python benchmarks/layers.py --device cpu
    CWNET_DATA=/path/to/data python benchmarks/layers.py --device cuda
    python benchmarks/layers.py --render

Compares `CINConv`, whose sums are linear in the incidences, with the same equation on expanded pairs (by hand and as a
`CellConv`), and with TopoModelX's CWN and PyG's GIN-E, where these are installed: against the size of rings, the width
and the size of the batch, as a whole model, and by the peak memory of a training step. Stops with an error if the
linear and the expanded layers give different values or gradients.

Molecules are read from ZINC/zinc12k_train.npz in the data folder; without it only rings are measured. Takes less than
six minutes; let nothing else run meanwhile.

Writes benchmarks/results/layers_cpu.json or layers_gpu.json (into the folder $OUT, where that is set). --render makes
docs/benchmarks/layers.md and layers.png of both, or of the one that there is. With --quick everything is small, as a
smoke test, and lies in build/quick/ instead.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # or the memory profiler of PyTorch greets on every start

import numpy as np
import torch
import torch.nn.functional as F
from _common import (
    ROOT,
    Timing,
    describe_run,
    markdown_table,
    read_json,
    relative,
    rounded,
    time_in_turn,
    write_json,
    write_text,
)
from torch import Tensor

from cwnet import ComplexStore, Rings, lift_many
from cwnet.complexes import ComplexBatch
from cwnet.nn import CIN, MLP, CellConv, CINConv, cin
from cwnet.nn.conv.cell_conv import neighbours
from cwnet.nn.functional import boundary_sum, segment_sum, upper_sum
from cwnet.nn.models import molecule_encoder

LINEAR = "CINConv, linear sums"
PAIRS = "the same on expanded pairs"
CELL_CONV = "the same as a CellConv"
GINE = "PyG GIN-E (vertices only)"
CWN = "TopoModelX CWN (edges only)"
NAMES = (LINEAR, PAIRS, CELL_CONV, CWN, GINE)
GATHERED = "CINConv, batches gathered in the step"

FORWARD, BOTH, TRAINING = "forward", "forward + backward", "training step"
UPPER, LAYER = "upper messages of edges", "layer"
RING_SIZES = (6, 12, 24, 48)
RING_WIDTH = 64
LAYERS, WIDTH, BATCH = 4, 128, 128
EPOCH = 10_000
MOST_GROWTH = 9
#: Of values and of gradients. In float32, an argument of ReLU next to zero can fall on either side: about one in a
#: million does, and takes the square root of that out of the norm of the gradients.
TOLERANCE = {torch.float64: (1e-10, 1e-10), torch.float32: (1e-5, 5e-3)}
DEVICES = {"cpu": "CPU", "gpu": "GPU"}
RESULTS = "benchmarks/results"
PAGES = "docs/benchmarks"


class Disagreement(Exception):
    """Two implementations of one equation gave different numbers."""


def say(text: str) -> None:
    print(text, flush=True)


# ------------------------------------------------------------------------------------------------ effort


@dataclass(frozen=True)
class Effort:
    """How much to measure. Vertices are in disjoint rings, and a multiple of 48."""

    rounds: int
    seconds: float  # of one turn
    ring_vertices: int
    memory_vertices: int
    model_batch: int = BATCH
    model_batches: int = 2
    widths: tuple[int, ...] = (32, 64, 128, 256)
    batches: tuple[int, ...] = (32, 128, 512)


EFFORTS = {
    "cpu": Effort(rounds=5, seconds=0.05, ring_vertices=6_144, memory_vertices=3_072),
    "cuda": Effort(rounds=11, seconds=0.03, ring_vertices=196_608, memory_vertices=49_152, model_batches=4),
}


def effort_for(device: str, quick: bool) -> Effort:
    if not quick:
        return EFFORTS[device]
    return Effort(3, 0.01, 768, 384, model_batch=32, model_batches=1, widths=(32, 128), batches=(32, 128))


# -------------------------------------------------------------------------------------------------- data


def read_zinc(data: Path | None) -> ComplexStore | None:
    path = data / "ZINC" / "zinc12k_train.npz" if data else None
    if path is None or not path.exists():
        return None
    a = dict(np.load(path, allow_pickle=False))
    graphs = ComplexStore.from_graphs(
        a["num_nodes"], a["num_edges"], a["edge"], x=a["atom"], edge_x=a["bond"], y=a["y"]
    )
    return lift_many(graphs, Rings(18))


def disjoint_rings(size: int, vertices: int) -> ComplexStore:
    """Cycle graphs of one size with a 2-cell each, with random atoms, bonds and targets."""
    rings = vertices // size
    draw = torch.Generator().manual_seed(0)
    at = np.arange(size)
    ends = np.tile(np.stack([at, (at + 1) % size], 1), (rings, 1)).astype(np.int32)
    graphs = ComplexStore.from_graphs(
        [size] * rings,
        [size] * rings,
        ends,
        x=torch.randint(28, (vertices,), generator=draw),
        edge_x=torch.randint(4, (vertices,), generator=draw),
        y=torch.randn(rings, generator=draw),
    )
    return lift_many(graphs, Rings(size))


def random_batches(store: ComplexStore, size: int, count: int) -> list[Tensor]:
    """The numbers of the complexes of some batches, without repetition; always the same."""
    order = torch.randperm(len(store), generator=torch.Generator().manual_seed(0))
    return [order[i * size : (i + 1) * size].to(store.dims.device) for i in range(count)]


def per_batch(make: Callable[[ComplexBatch], Any]) -> Callable[[ComplexBatch], Any]:
    """Keep what is made of a batch for as long as there is the batch. CINConv's incidences are kept so, too."""
    kept: WeakKeyDictionary[ComplexBatch, Any] = WeakKeyDictionary()

    def get(batch: ComplexBatch) -> Any:
        if batch not in kept:
            kept[batch] = make(batch)
        return kept[batch]

    return get


# ----------------------------------------------------------------------------------------- expanded pairs


class Pairs(NamedTuple):
    """Ordered pairs of cells on the boundary of a common cell, sorted by receiver."""

    sender: Tensor
    shared: Tensor
    ptr: Tensor


@per_batch
def pairs_of(batch: ComplexBatch) -> list[Pairs]:
    """The pairs of vertices and of edges, found once per batch as in the paper's code."""
    return [Pairs(*neighbours(batch.incidence(d + 1))[1:]) for d in (0, 1)]


def pair_sum(message: torch.nn.Module, own: Tensor, met: Tensor, pairs: Pairs) -> Tensor:
    """Σ_{δ ∈ C(σ)} Σ_{τ ∈ B(δ), τ ≠ σ} ReLU(M([h_τ ‖ h_δ])), one product per pair."""
    both = torch.cat([own.index_select(0, pairs.sender), met.index_select(0, pairs.shared)], 1)
    return segment_sum(torch.relu(message(both)), pairs.ptr)


class Join(torch.nn.Module):
    """The update of CINConv in one dimension, with its weights."""

    def __init__(self, conv: CINConv, d: int) -> None:
        super().__init__()
        self.up, self.bnd, self.join = conv.mlps["upper"][d], conv.mlps["boundary"][d], conv.join[d]

    def forward(self, h: Tensor, upper: Tensor | None, boundary: Tensor | None) -> Tensor:
        up = self.up(h if upper is None else h + upper)
        bnd = self.bnd(h if boundary is None else h + boundary)
        return self.join(torch.cat([up, bnd], 1))


class PairsConv(torch.nn.Module):
    """The equation of CINConv with its weights, upper messages expanded. Gathers only what they read."""

    def __init__(self, conv: CINConv) -> None:
        super().__init__()
        self.messages = conv.upper_message
        self.joins = torch.nn.ModuleList(Join(conv, d) for d in range(3))

    def forward(self, x: Sequence[Tensor], batch: ComplexBatch) -> list[Tensor]:
        pairs = pairs_of(batch)
        uppers = [*(pair_sum(self.messages[d], x[d], x[d + 1], pairs[d]) for d in (0, 1)), None]
        boundaries = [None, *(boundary_sum(x[d - 1], batch, d) for d in (1, 2))]
        return [join(*given) for join, given in zip(self.joins, zip(x, uppers, boundaries, strict=True), strict=True)]


class PairMessage(torch.nn.Module):
    """M([h_τ ‖ h_δ]), as CellConv calls it."""

    def __init__(self, linear: torch.nn.Module) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, h: Tensor, neighbour: Tensor, shared: Tensor) -> Tensor:
        return torch.relu(self.linear(torch.cat([neighbour, shared], 1)))


def cell_conv(conv: CINConv) -> CellConv:
    """The equation of CINConv with its weights, in the general scheme."""
    return CellConv(
        update=[Join(conv, d) for d in range(3)],
        upper=[PairMessage(m) for m in conv.upper_message],
        boundary=lambda h, face: face,
    )


# ------------------------------------------------------------------------------------------------- peers


class Graph(NamedTuple):
    """A batch as PyG has it: each edge in both directions."""

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    batch: Tensor


@per_batch
def graph_of(batch: ComplexBatch) -> Graph:
    ends = batch.boundary(1).idx.view(-1, 2).T
    atoms, bonds = (batch.x[d].reshape(-1).long() for d in (0, 1))
    return Graph(atoms, torch.cat([ends, ends.flip(0)], 1), bonds.repeat(2), batch.complex_of(0))


def gine_conv(width: int) -> torch.nn.Module:
    from torch_geometric.nn import GINEConv

    return GINEConv(MLP(width, width))


class GineModel(torch.nn.Module):
    """GIN-E of PyG, with the encoders, the readout of vertices and the head of the CIN model."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.atoms, self.bonds = torch.nn.Embedding(28, width), torch.nn.Embedding(4, width)
        self.convs = torch.nn.ModuleList(gine_conv(width) for _ in range(layers))
        self.readout, self.head = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, 1)

    def forward(self, batch: ComplexBatch) -> Tensor:
        from torch_geometric.nn import global_add_pool

        graph = graph_of(batch)
        x, e = self.atoms(graph.x), self.bonds(graph.edge_attr)
        for conv in self.convs:
            x = conv(x, graph.edge_index, e)
        return self.head(torch.relu(self.readout(global_add_pool(x, graph.batch, len(batch)))))


@per_batch
def matrices_of(batch: ComplexBatch) -> tuple[Tensor, Tensor, Tensor]:
    """What TopoModelX takes: edges to edges through rings, rings to edges, vertices to edges."""
    vertices, edges, rings = batch.num_cells
    receiver, sender, _, _ = neighbours(batch.incidence(2))

    def matrix(rows: Tensor, columns: Tensor, width: int) -> Tensor:
        ones = torch.ones(rows.numel(), device=rows.device)
        index = torch.stack([rows, columns])
        return torch.sparse_coo_tensor(index, ones, (edges, width), check_invariants=False).coalesce()

    of_rings, of_edges = batch.incidence(2), batch.incidence(1)
    return (
        matrix(receiver, sender, edges),
        matrix(of_rings.down.idx, of_rings.down_rows, rings),
        matrix(of_edges.down_rows, of_edges.down.idx, vertices),
    )


class CwnConv(torch.nn.Module):
    """TopoModelX's layer among lists of features. Vertices and rings stay as they are."""

    def __init__(self, width: int) -> None:
        super().__init__()
        from topomodelx.nn.cell.cwn_layer import CWNLayer

        self.layer = CWNLayer(width, width, width, width)

    def forward(self, x: Sequence[Tensor], batch: ComplexBatch) -> list[Tensor]:
        return [x[0], self.layer(*x, *matrices_of(batch)), x[2]]


def missing_peers() -> dict[str, str]:
    """The peers that can not be had here, and why."""
    makers = {CWN: CwnConv, GINE: gine_conv}
    missing = {}
    for name, make in makers.items():
        try:
            make(2)
        except ImportError as error:
            missing[name] = str(error)
    return missing


# ---------------------------------------------------------------------------------------------- the cases


@dataclass(frozen=True)
class Case:
    """Something to time: a call, and what to differentiate it by."""

    call: Callable[[], list[Tensor]]
    leaves: list[Tensor]
    module: torch.nn.Module

    def forward(self) -> list[Tensor]:
        with torch.no_grad():
            return self.call()

    def forward_backward(self) -> tuple[list[Tensor], list[Tensor]]:
        out = self.call()
        grads = torch.autograd.grad(out, self.leaves, self.cotangents, allow_unused=True, materialize_grads=True)
        return out, list(grads)

    @cached_property
    def cotangents(self) -> list[Tensor]:
        # Not ones: a batch norm is blind to the sum of its output.
        torch.manual_seed(1)
        return [torch.randn_like(out) for out in self.forward()]


def random_features(batch: ComplexBatch, width: int, dtype: torch.dtype) -> list[Tensor]:
    torch.manual_seed(0)
    device = batch.dims.device
    return [torch.randn(n, width, device=device, dtype=dtype, requires_grad=True) for n in batch.num_cells]


def upper_cases(batch: ComplexBatch, width: int, dtype: torch.dtype = torch.float32) -> dict[str, Case]:
    """The messages that edges send each other through rings, with their products, and nothing else."""
    _, edges, rings = random_features(batch, width, dtype)
    message = torch.nn.Linear(2 * width, width).to(edges)
    weight, bias = message.weight, message.bias
    leaves = [edges, rings, weight, bias]

    def linear() -> list[Tensor]:
        own, met = F.linear(edges, weight[:, :width]), F.linear(rings, weight[:, width:], bias)
        return [upper_sum(own, met, batch, 1, "relu")]

    def pairs() -> list[Tensor]:
        return [pair_sum(message, edges, rings, pairs_of(batch)[1])]

    return {LINEAR: Case(linear, leaves, message), PAIRS: Case(pairs, leaves, message)}


def layer_cases(
    batch: ComplexBatch, width: int, dtype: torch.dtype = torch.float32, peers: Iterable[str] = ()
) -> dict[str, Case]:
    """One layer. The first three share their weights."""
    x = random_features(batch, width, dtype)
    conv = CINConv(width).to(x[0])
    ours = {LINEAR: conv, PAIRS: PairsConv(conv), CELL_CONV: cell_conv(conv)}
    leaves = [*x, *conv.parameters()]
    cases = {name: Case(lambda m=m: m(x, batch), leaves, m) for name, m in ours.items()}
    if CWN in peers:
        cwn = CwnConv(width).to(x[0])
        cases[CWN] = Case(lambda: cwn(x, batch)[1:2], [*x, *cwn.parameters()], cwn)
    if GINE in peers:
        gine, graph = gine_conv(width).to(x[0]), graph_of(batch)
        e = torch.randn(graph.edge_attr.numel(), width).to(x[0]).requires_grad_()
        cases[GINE] = Case(lambda: [gine(x[0], graph.edge_index, e)], [x[0], e, *gine.parameters()], gine)
    return cases


def make_models(width: int, peers: Iterable[str]) -> dict[str, torch.nn.Module]:
    """The CIN of the ZINC experiment, with other convolutions too. The first three share their weights."""
    torch.manual_seed(0)
    model = cin(molecule_encoder(width), width, LAYERS)

    def with_convs(make: Callable[[Any], torch.nn.Module]) -> CIN:
        return CIN(model.encoder, [make(c) for c in model.convs], model.readout, model.head)

    models: dict[str, torch.nn.Module] = {LINEAR: model, PAIRS: with_convs(PairsConv), CELL_CONV: with_convs(cell_conv)}
    if CWN in peers:
        models[CWN] = with_convs(lambda _: CwnConv(width))
    if GINE in peers:
        models[GINE] = GineModel(width, LAYERS)
    return models


def model_cases(batch: ComplexBatch, width: int, dtype: torch.dtype) -> dict[str, Case]:
    """Whole models with the same weights, for comparison."""
    models = {name: m.to(batch.dims.device, dtype) for name, m in make_models(width, ()).items()}
    leaves = list(models[LINEAR].parameters())
    return {name: Case(lambda m=m: [m(batch)], leaves, m) for name, m in models.items()}


# ------------------------------------------------------------------------------------------------ checks


def check(what: str, cases: Mapping[str, Case], dtype: torch.dtype) -> list[Any]:
    """Compare the expanded versions with the linear one, values and gradients; stop where they differ."""
    reference = cases[LINEAR].forward_backward()
    found = []
    for name in (PAIRS, CELL_CONV):
        if name not in cases:
            continue
        out, grads = (difference(*both) for both in zip(cases[name].forward_backward(), reference, strict=True))
        bounds = TOLERANCE[dtype]
        if not (out <= bounds[0] and grads <= bounds[1]):
            raise Disagreement(
                f"{what}, {dtype}: {name!r} differs from {LINEAR!r} by {out:.1e} in values and {grads:.1e} in "
                f"gradients, relative to their norm; {bounds[0]:.0e} and {bounds[1]:.0e} are allowed"
            )
        found.append(
            {"what": what, "name": name, "dtype": str(dtype).removeprefix("torch."), "values": out, "gradients": grads}
        )
    return found


def difference(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> float:
    """The norm of all differences over the norm of all values."""
    a, b = (torch.cat([t.detach().flatten().double() for t in many]) for many in (ours, theirs))
    return float((a - b).norm() / b.norm())


def check_small(zinc: ComplexStore | None, device: str) -> list[Any]:
    """In float64, where there is no room for excuses."""
    stores = {f"rings of {size}": disjoint_rings(size, 384) for size in RING_SIZES}
    if zinc is not None:
        stores["ZINC molecules"] = zinc
    found = []
    for name, store in stores.items():
        batch = store.batch(torch.arange(min(32, len(store)))).to(device)
        for part, cases in ((UPPER, upper_cases), (LAYER, layer_cases), (f"model of {LAYERS} layers", model_cases)):
            found += check(f"{name}, {part}", cases(batch, 32, torch.float64), torch.float64)
    return found


# ------------------------------------------------------------------------------------------------ timing


def time_calls(calls: Mapping[Any, Callable[[], object]], effort: Effort, device: str) -> dict[Any, Timing]:
    if device == "cpu":
        return time_in_turn(calls, effort.rounds, effort.seconds)
    return time_on_gpu(calls, effort.rounds, effort.seconds)


def time_on_gpu(calls: Mapping[Any, Callable[[], object]], rounds: int, seconds: float) -> dict[Any, Timing]:
    """`time_in_turn` with CUDA events. The first calls of all are for compilers and caches."""
    repeats = {}
    for name, call in calls.items():
        gpu_seconds(call, 5)
        repeats[name] = max(1, round(seconds / gpu_seconds(call, 5)))
    samples: dict[Any, list[float]] = {name: [] for name in calls}
    gc.collect()
    gc.freeze()
    try:
        for _ in range(rounds):
            for name, call in calls.items():
                samples[name].append(gpu_seconds(call, repeats[name]))
    finally:
        gc.unfreeze()
    return {name: Timing(statistics.median(s), min(s), max(s), len(s)) for name, s in samples.items()}


def gpu_seconds(call: Callable[[], object], repeats: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(repeats):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1_000 / repeats


def time_cases(cases: Mapping[Any, Case], effort: Effort, device: str) -> list[tuple[Any, dict[str, Any]]]:
    """Each case twice: forward in evaluation mode, and forward + backward in training mode."""
    rows = []
    for which in (FORWARD, BOTH):
        for case in cases.values():
            case.module.train(which == BOTH)
        calls = {key: case.forward if which == FORWARD else case.forward_backward for key, case in cases.items()}
        for key, t in time_calls(calls, effort, device).items():
            seconds = {"seconds": t.median, "fastest": t.fastest, "slowest": t.slowest, "rounds": t.rounds}
            rows.append((key, {"pass": which} | seconds))
    return rows


def measure_rings(effort: Effort, device: str, peers: Sequence[str]) -> tuple[list[Any], list[Any]]:
    """Cost against the size of rings, all sizes in turns. The vertices are as many, so larger rings are fewer."""
    stores = {size: disjoint_rings(size, effort.ring_vertices).to(device) for size in RING_SIZES}
    batches = {size: store.batch(torch.arange(len(store), device=device)) for size, store in stores.items()}
    rows, checks = [], []
    for part, make in ((UPPER, upper_cases), (LAYER, partial(layer_cases, peers=[p for p in peers if p == CWN]))):
        say(f"{part}: {effort.ring_vertices:,} vertices in rings of {', '.join(map(str, RING_SIZES))}")
        by_size = {size: make(batch, RING_WIDTH) for size, batch in batches.items()}
        for size, cases in by_size.items():
            checks += check(f"rings of {size}, {part}, as timed", cases, torch.float32)
        all_cases = {(size, name): case for size, cases in by_size.items() for name, case in cases.items()}
        for (size, name), row in time_cases(all_cases, effort, device):
            count = len(stores[size])
            key = {"part": part, "size": size, "rings": count, "pairs_per_ring": size * (size - 1), "name": name}
            rows.append(key | row | {"seconds_per_ring": row["seconds"] / count})
    return rows, checks


def measure_layers(store: ComplexStore, effort: Effort, device: str, peers: Sequence[str]) -> tuple[Any, ...]:
    """One layer against width at one size of batch, and against the size of the batch at one width."""
    rows: dict[tuple[int, int], list[Any]] = {}
    checks = []
    for width, size in [*((w, BATCH) for w in effort.widths), *((WIDTH, b) for b in effort.batches)]:
        if (width, size) in rows:
            continue
        say(f"a layer of width {width} on {size} molecules")
        batch = store.batch(random_batches(store, size, 1)[0])
        cases = layer_cases(batch, width, peers=peers)
        checks += check(f"{size} ZINC molecules, layer of width {width}, as timed", cases, torch.float32)
        timed = time_cases(cases, effort, device)
        rows[width, size] = [{"width": width, "batch": size, "name": name} | row for name, row in timed]
    widths = [row for w in effort.widths for row in rows[w, BATCH]]
    batches = [row for b in effort.batches for row in rows[WIDTH, b]]
    return widths, batches, checks


# ------------------------------------------------------------------------------------------------ models


def loss_of(model: torch.nn.Module, batch: ComplexBatch) -> Tensor:
    return F.l1_loss(model(batch).flatten(), batch.y.flatten().float())


def make_step(model: torch.nn.Module) -> Callable[[ComplexBatch], None]:
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(batch: ComplexBatch) -> None:
        optimiser.zero_grad()
        loss_of(model, batch).backward()
        optimiser.step()

    return step


def forward_only(model: torch.nn.Module, batch: ComplexBatch) -> Tensor:
    with torch.no_grad():
        return model(batch)


def gradients_only(model: torch.nn.Module, batch: ComplexBatch) -> None:
    model.zero_grad()
    loss_of(model, batch).backward()


def for_each(function: Callable[[ComplexBatch], Any], batches: Iterable[ComplexBatch]) -> None:
    for batch in batches:
        function(batch)


def measure_models(store: ComplexStore, effort: Effort, device: str, peers: Sequence[str]) -> list[Any]:
    """Molecules per second of whole models, on batches that lie ready; ours also with the gathering of batches."""
    say(f"models of {LAYERS} layers, width {WIDTH}, batches of {effort.model_batch} molecules")
    numbers = random_batches(store, effort.model_batch, effort.model_batches)
    batches = [store.batch(n) for n in numbers]
    models = {n: copy.deepcopy(m).to(device) for n, m in make_models(WIDTH, peers).items()}
    parameters = {n: sum(p.numel() for p in m.parameters()) for n, m in models.items()}

    def over(function: Callable[[ComplexBatch], Any]) -> Callable[[], None]:
        return lambda: for_each(function, batches)

    rows = []
    for which in (FORWARD, BOTH, TRAINING):
        for model in models.values():
            model.train(which != FORWARD)
        if which == TRAINING:
            calls = {n: over(make_step(m)) for n, m in models.items()}
            step = make_step(models[LINEAR])
            calls[GATHERED] = lambda step=step: for_each(step, map(store.batch, numbers))
        else:
            function = forward_only if which == FORWARD else gradients_only
            calls = {n: over(partial(function, m)) for n, m in models.items()}
        for name, timing in time_calls(calls, effort, device).items():
            count = parameters[LINEAR if name == GATHERED else name]
            rates = timing.rates(effort.model_batch * len(batches))
            rows.append({"name": name, "pass": which, "parameters": count} | rates)
    return rows


# ------------------------------------------------------------------------------------------------ memory


def measure_memory(zinc: ComplexStore | None, effort: Effort, device: str) -> list[Any]:
    """The peak memory of a training step of the whole model."""
    stores = {} if zinc is None else {f"{size} ZINC molecules": (zinc, size) for size in effort.batches[1:]}
    for size in (RING_SIZES[0], RING_SIZES[-1]):
        store = disjoint_rings(size, effort.memory_vertices).to(device)
        stores[f"rings of {size}"] = (store, len(store))
    rows = []
    for what, (store, size) in stores.items():
        say(f"memory: {what}")
        numbers = random_batches(store, size, 1)[0]
        for name in (LINEAR, PAIRS, CELL_CONV):
            prepare = partial(prepared_step, name, store, numbers)
            held, peak = peak_on_cpu(prepare) if device == "cpu" else peak_on_gpu(prepare)
            rows.append({"what": what, "name": name, "held_bytes": held, "peak_bytes": peak})
    return rows


def prepared_step(name: str, store: ComplexStore, numbers: Tensor) -> Callable[[], None]:
    """A model, its optimiser and a batch, all made anew, and the step that they take."""
    step, batch = make_step(make_models(WIDTH, ())[name].to(numbers.device)), store.batch(numbers)
    return lambda: step(batch)


def peak_on_gpu(prepare: Callable[[], Callable[[], None]]) -> tuple[int, int]:
    """What the allocator held before the second step, and at most during it; without what others hold."""
    gc.collect()
    torch.cuda.synchronize()
    others = torch.cuda.memory_allocated()
    step = prepare()
    step()
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated() - others
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return held, torch.cuda.max_memory_allocated() - others


def peak_on_cpu(prepare: Callable[[], Callable[[], None]]) -> tuple[int, int]:
    """The same from PyTorch's memory profiler, which writes every allocation into a trace."""
    from torch.profiler import ProfilerActivity, profile, record_function

    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step = prepare()
        step()
        with record_function("the second step"):
            step()
    del step
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    start = next(e["ts"] for e in events if e.get("name") == "the second step")
    changes = sorted((e["ts"], e["args"]["Bytes"]) for e in events if e.get("name") == "[memory]")
    totals = [(ts, total) for (ts, _), total in zip(changes, accumulate(b for _, b in changes), strict=True)]
    return [total for ts, total in totals if ts < start][-1], max(total for ts, total in totals if ts >= start)


# ------------------------------------------------------------------------------------------------ targets


def growth(rows: Iterable[dict[str, Any]], part: str, name: str, which: str) -> float:
    """How many times the cost per ring grows from the smallest to the largest ring."""
    cost = {r["size"]: r["seconds_per_ring"] for r in rows if (r["part"], r["name"], r["pass"]) == (part, name, which)}
    return cost[RING_SIZES[-1]] / cost[RING_SIZES[0]]


def judge(figures: dict[str, Any]) -> list[Any]:
    """The targets that this run can judge."""
    targets = []
    for part in (UPPER, LAYER):
        for which in (FORWARD, BOTH):
            measured = growth(figures["rings"], part, LINEAR, which)
            what = f"{part}, {which}: growth of the cost per ring from size {RING_SIZES[0]} to {RING_SIZES[-1]}"
            targets.append(target(what, f"≤ {MOST_GROWTH}", measured, measured <= MOST_GROWTH))
    peaks = {(r["what"], r["name"]): r["peak_bytes"] for r in figures["memory"]}
    for what in dict.fromkeys(r["what"] for r in figures["memory"]):
        share = peaks[what, LINEAR] / min(peaks[what, PAIRS], peaks[what, CELL_CONV])
        targets.append(target(f"peak memory, {what}: share of what expanded pairs take", "< 1", share, share < 1))
    return targets


def target(what: str, bound: str, measured: float, met: bool) -> dict[str, Any]:
    return {"what": what, "target": bound, "measured": measured, "met": met}


# ------------------------------------------------------------------------------------------------ tables

Figures = Mapping[str, dict[str, Any]]  # by device, the CPU first
Found = list[dict[str, Any]]


class Grid(NamedTuple):
    """A table, CPU and GPU side by side, the first `left` columns flush left."""

    left: int
    head: list[str]
    body: list[list[str]]

    def markdown(self) -> str:
        return markdown_table(self.head, self.body, "l" * self.left + "r" * (len(self.head) - self.left))

    def text(self) -> str:
        """The same for the eye: columns padded to their width."""
        rows = [self.head, *self.body]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for row in rows:
            cells = [
                c.ljust(w) if i < self.left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)


def make_grid(
    figures: Figures,
    section: str,
    keys: Mapping[str, str],
    columns: Sequence[str],
    cells: Callable[[Found, Found], Sequence[str]],
) -> Grid:
    """One row for each value of the keys in a section of the figures.

    Args:
        figures: of one device or two.
        section: whose rows to show.
        keys: what tells rows apart, with the heading of each.
        columns: headings, for each device.
        cells: makes the texts of a device from what was found for the key, and for CINConv in its place.
    """
    found: dict[str, dict[tuple[Any, ...], Found]] = {device: {} for device in figures}
    for device, its in figures.items():
        for row in its[section]:
            found[device].setdefault(tuple(row[k] for k in keys), []).append(row)
    body = []
    for key in dict.fromkeys(key for its in found.values() for key in its):
        ours = tuple(LINEAR if k == "name" else value for k, value in zip(keys, key, strict=True))
        texts = [f"{k:,}" if isinstance(k, int) else k for k in key]
        for its in found.values():
            texts += cells(its[key], its.get(ours, [])) if key in its else ["–"] * len(columns)
        body.append(texts)
    head = [*keys.values(), *(f"{DEVICES[device]}: {column}" for device in figures for column in columns)]
    return Grid(len(keys) - ("parameters" in keys), head, without_repeats(body, len(keys) - 1))


def without_repeats(rows: list[list[str]], columns: int) -> list[list[str]]:
    """Leave the first columns empty where they say what the row above says."""
    above = [[""], *rows]
    return [
        ["" if row[: i + 1] == last[: i + 1] and i < columns else text for i, text in enumerate(row)]
        for last, row in zip(above, rows, strict=False)
    ]


def ring_grid(figures: Figures) -> Grid:
    def cells(rows: Found, _: Found) -> list[str]:
        small, large = rows[0]["seconds_per_ring"], rows[-1]["seconds_per_ring"]
        return [duration(small), duration(large), f"{rounded(large / small)}x"]

    columns = [f"size {RING_SIZES[0]}", f"size {RING_SIZES[-1]}", "grows"]
    return make_grid(figures, "rings", {"part": "", "pass": "", "name": "time per ring"}, columns, cells)


def layer_grid(figures: Figures, section: str, key: str) -> Grid:
    def cells(rows: Found, ours: Found) -> list[str]:
        texts = [duration(row["seconds"]) for row in rows]
        if rows is ours:
            return texts
        ratios = [rounded(a["seconds"] / b["seconds"], 2) for a, b in zip(rows, ours, strict=True)]
        return [f"{text} ({ratio}x)" for text, ratio in zip(texts, ratios, strict=True)]

    return make_grid(figures, section, {key: key, "name": ""}, [FORWARD, BOTH], cells)


def model_grid(figures: Figures) -> Grid:
    def cells(rows: Found, _: Found) -> list[str]:
        speed = {row["pass"]: row["per_second"] for row in rows}
        texts = [rounded(speed[which]) if which in speed else "–" for which in (FORWARD, BOTH, TRAINING)]
        return [*texts, duration(EPOCH / speed[TRAINING])]

    columns = [FORWARD, BOTH, TRAINING, f"epoch of {EPOCH:,}"]
    return make_grid(figures, "models", {"name": "molecules/s", "parameters": "parameters"}, columns, cells)


def memory_grid(figures: Figures) -> Grid:
    def cells(rows: Found, ours: Found) -> list[str]:
        (row,), (best,) = rows, ours
        ratio = row["peak_bytes"] / best["peak_bytes"]
        return [size_text(row["held_bytes"]), size_text(row["peak_bytes"]), f"{rounded(ratio)}x"]

    columns = ["before the step", "peak", "to CINConv"]
    return make_grid(figures, "memory", {"what": "", "name": ""}, columns, cells)


def target_grid(figures: Figures) -> Grid:
    def cells(rows: Found, _: Found) -> list[str]:
        return [rounded(rows[0]["measured"]), "yes" if rows[0]["met"] else "no"]

    return make_grid(figures, "targets", {"what": "", "target": "target"}, ["measured", "met"], cells)


def duration(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= 0.9995 * scale:
            return f"{rounded(seconds / scale)} {unit}"
    return f"{rounded(seconds * 1e9)} ns"


def size_text(count: float) -> str:
    return f"{rounded(count / 1e9)} GB" if count >= 1e9 else f"{rounded(count / 1e6)} MB"


def all_grids(figures: Figures) -> dict[str, Grid]:
    """By the heading that each stands under; one without rows is left out."""
    grids = {
        "Ring size": ring_grid(figures),
        "Width": layer_grid(figures, "widths", "width"),
        "Batch size": layer_grid(figures, "batches", "batch"),
        "Whole models": model_grid(figures),
        "Memory": memory_grid(figures),
        "Targets": target_grid(figures),
    }
    return {title: grid for title, grid in grids.items() if grid.body}


def print_all(figures: dict[str, Any]) -> None:
    for title, grid in all_grids({figures["device"]: figures}).items():
        print(f"\n{title}\n{grid.text()}")
    print(f"\n{len(figures['checks'])} comparisons of linear and expanded: {worst_difference(figures)}")
    for name, reason in figures["missing"].items():
        print(f"skipped: {name}: {reason}")


def worst_difference(figures: dict[str, Any]) -> str:
    texts = []
    for dtype in dict.fromkeys(row["dtype"] for row in figures["checks"]):
        rows = [row for row in figures["checks"] if row["dtype"] == dtype]
        values, gradients = (max(row[k] for row in rows) for k in ("values", "gradients"))
        texts.append(f"{values:.0e} in values and {gradients:.0e} in gradients in {dtype}")
    return "at most " + ", ".join(texts)


# --------------------------------------------------------------------------------------------------- page


def page(figures: Figures, picture: str) -> str:
    """The page of the documentation. It holds nothing that is not in the figures."""
    sections = [
        "# How fast are CIN layers?",
        "**This is a smoke test (`--quick`). Its figures mean nothing.**" * any(f["quick"] for f in figures.values()),
        "Messages in CIN do not look at their receiver. So `CINConv` sums them over incidences, and a ring of size k "
        "costs 2k messages and not k(k − 1). This page measures what that saves.",
        f"![Time per ring against the size of the ring, linear and expanded]({picture})",
        f"Disjoint rings, width {RING_WIDTH}. The numbers at the ends say how the time per ring grows from size "
        f"{RING_SIZES[0]} to size {RING_SIZES[-1]}.",
        "\n".join(summary(device, found) for device, found in figures.items()),
    ]
    notes = explain(figures)
    for title, grid in all_grids(figures).items():
        sections += [f"## {title}", notes.get(title, ""), grid.markdown()]
    lines = [*METHOD, *(origin(device, found) for device, found in figures.items())]
    sections += ["## How it was measured", "\n".join(f"- {line}" for line in lines)]
    return "\n\n".join(section for section in sections if section)


def summary(device: str, figures: dict[str, Any]) -> str:
    first, last = RING_SIZES[0], RING_SIZES[-1]

    def grown(part: str, name: str) -> str:
        return rounded(growth(figures["rings"], part, name, BOTH), 2)

    peaks = {r["name"]: r["peak_bytes"] for r in figures["memory"] if r["what"] == f"rings of {last}"}
    return (
        f"- {DEVICES[device]}, {BOTH}: from rings of {first} to rings of {last}, the cost of a layer per ring grows "
        f"{grown(LAYER, LINEAR)} times, and {grown(LAYER, PAIRS)} times with expanded pairs. Upper messages of edges "
        f"alone grow {grown(UPPER, LINEAR)} and {grown(UPPER, PAIRS)} times. A training step on rings of {last} takes "
        f"{rounded(peaks[PAIRS] / peaks[LINEAR], 2)} times the memory with expanded pairs."
    )


def explain(figures: Figures) -> dict[str, str]:
    """A few words before each table."""
    few, many = (size * (size - 1) for size in (RING_SIZES[0], RING_SIZES[-1]))
    effort = next(iter(figures.values()))["effort"]
    brackets = "In brackets: the ratio to CINConv."
    return {
        "Ring size": f"Disjoint rings of one size, width {RING_WIDTH}; in all {listed(figures, 'ring_vertices')}, "
        f"whatever their size. A ring of size k has k(k − 1) ordered pairs of edges: {few} at size {RING_SIZES[0]}, "
        f"{many:,} at size {RING_SIZES[-1]}, which is {rounded(many / few)} times as many. The first rows are the sum "
        "over these alone, with its products. A layer does more, and the rest of it is linear in k.",
        "Width": f"One layer on {BATCH} ZINC molecules with rings up to 18. {brackets}",
        "Batch size": f"One layer of width {WIDTH} on so many ZINC molecules. {brackets}",
        "Whole models": f"The CIN of the ZINC experiment: {LAYERS} layers, width {WIDTH}, batches of "
        f"{effort['model_batch']} molecules. A training step is forward, backward and a step of Adam. Batches lie "
        "ready, and their incidences, pairs or matrices with them. Only the row about gathered batches makes all that "
        "in the step, out of a store on the device. Nothing is compiled and no CUDA graphs are used.",
        "Memory": f"The second training step of the same model. The rings have {listed(figures, 'memory_vertices')}. "
        "Before the step there are the weights, Adam's averages, the gradients, the batch, and its incidences or "
        "pairs; the peak counts them too. One MB is 10⁶ bytes.",
    }


def listed(figures: Figures, key: str) -> str:
    """A number of vertices that depends on the device."""
    return " and ".join(f"{f['effort'][key]:,} vertices on the {DEVICES[d]}" for d, f in figures.items())


METHOD = (
    f"\"{PAIRS}\": CINConv's equation with one message per pair, as in the paper's code. The lists of "
    "pairs are kept with the batch, and only what a message reads is gathered.",
    f'"{CELL_CONV}": the equation written for `cwnet.nn.CellConv`, which takes messages of any kind. It '
    "finds the pairs in every call, and gathers the receivers too, which these messages ignore.",
    "Both have the weights of CINConv. Values and gradients were compared before timing: in float64 on small batches "
    "(relative difference at most 1e-10) and in float32 on the batches that were timed (1e-5 in values; 5e-3 in "
    "gradients, since rounding moves a few arguments of ReLU across zero). The benchmark stops if they differ.",
    f'"{CWN}": `CWNLayer` with its defaults. It is another and smaller layer. It updates edges only, has one linear '
    "map per kind of message and no norms, and its messages do not combine neighbour and ring. Its matrix between "
    "edges has one entry per pair.",
    f'"{GINE}": `torch_geometric.nn.GINEConv` around the perceptron of CIN, of the same width and depth. It updates '
    "vertices only.",
    f"{FORWARD.capitalize()}: evaluation mode, no gradients. {BOTH.capitalize()}: training mode, gradients of all "
    "inputs and weights. All in float32, without TF32.",
    "What stands together in a table ran in turns, so a slow moment of the machine hits all of it. Figures are medians "
    "over rounds. On the GPU they come from CUDA events, after a warm-up.",
    "Memory on the GPU is `torch.cuda.max_memory_allocated`. On the CPU it is the running sum of all allocations in a "
    "trace of PyTorch's profiler, which means the same. The peak of the process (`ru_maxrss`) would also count what "
    "the C library keeps.",
)


def origin(device: str, figures: dict[str, Any]) -> str:
    """On what machine and code the figures of a device were made."""
    machine, commit = figures["machine"], figures["commit"]
    code = f"commit `{commit['id'][:12]}`" if commit["id"] else "an unknown commit"
    changed = " with changes that were not committed" if commit["changed_since"] else ""
    versions = ", ".join(f"{name} {version}" for name, version in figures["versions"].items() if version)
    gpu = f"{machine['gpu']} with " if machine["gpu"] else ""
    skipped = "".join(f" Not measured: {name} ({reason})." for name, reason in figures["missing"].items())
    no_data = "" if figures["models"] else " ZINC was not at hand, so only rings were measured."
    return (
        f"{DEVICES[device]}: `{figures['command']}` on {figures['date']}, {code}{changed}, on {gpu}{machine['cores']} "
        f"cores of {machine['cpu']} ({threads_text(figures['threads'])}, load {machine['load_before']} before). "
        f"Versions: {versions}. {figures['effort']['rounds']} rounds. Linear and expanded differed by "
        f"{worst_difference(figures)}.{skipped}{no_data} All figures are in "
        f"[layers_{device}.json](../../{RESULTS}/layers_{device}.json)."
    )


# --------------------------------------------------------------------------------------------------- plot

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"


def draw(figures: Figures, path: Path) -> None:
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
        shape = {"figsize": (5.6 * len(figures), 4.4), "layout": "constrained", "squeeze": False}
        figure, axes = plt.subplots(1, len(figures), **shape)
        for axis, found in zip(axes[0], figures.values(), strict=True):
            draw_growth(axis, found["rings"], found["machine"]["gpu"] or threads_text(found["threads"]))
        axes[0, 0].set_ylabel("time per ring, forward + backward")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(figures))
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
        plt.close(figure)


def threads_text(threads: int) -> str:
    return "1 CPU thread" if threads == 1 else f"{threads} CPU threads"


def draw_growth(axis: Any, rows: Sequence[dict[str, Any]], where: str) -> None:
    """Time per ring, with its growth written beside the last point."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    for name, color, label in ((PAIRS, ORANGE, "expanded pairs"), (LINEAR, BLUE, "linear (CINConv)")):
        for part, line, below in ((LAYER, "o-", False), (UPPER, "s--", True)):
            chosen = [r for r in rows if (r["name"], r["part"], r["pass"]) == (name, part, BOTH)]
            xs, ys = [r["size"] for r in chosen], [r["seconds_per_ring"] for r in chosen]
            axis.plot(xs, ys, line, markersize=4, color=color, label=f"{part}, {label}")
            axis.annotate(
                f"{rounded(ys[-1] / ys[0], 2)}x",
                (xs[-1], ys[-1]),
                (6, -1 if below else 1),
                textcoords="offset points",
                va="top" if below else "bottom",
                color=color,
            )
    axis.set(xscale="log", yscale="log", xlabel="vertices of the ring", title=where)
    axis.set_xlim(RING_SIZES[0] / 1.15, RING_SIZES[-1] * 1.35)
    axis.set_xticks(RING_SIZES, [str(s) for s in RING_SIZES])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: duration(y)))


# ------------------------------------------------------------------------------------------------- the run


def measure(data: Path | None, device: str, quick: bool) -> dict[str, Any]:
    effort = effort_for(device, quick)
    missing = missing_peers()
    peers = [name for name in (CWN, GINE) if name not in missing]
    for name, reason in missing.items():
        say(f"skipped: {name}: {reason}")
    figures = describe_run(
        f"python benchmarks/layers.py --device {device}" + " --quick" * quick,
        ["cwnet", "torch", "triton", "torch-geometric", "topomodelx"],
    )
    figures["machine"]["gpu"] = torch.cuda.get_device_name() if device == "cuda" else None
    say("comparing linear and expanded layers")
    zinc = read_zinc(data)
    if zinc is None:
        say("skipped: ZINC is not at hand; name its folder in CWNET_DATA")
    checks = check_small(zinc, device)
    zinc = None if zinc is None else zinc.to(device)
    rings, more = measure_rings(effort, device, peers)
    widths, batches, models = [], [], []
    if zinc is not None:
        widths, batches, checked = measure_layers(zinc, effort, device, peers)
        models = measure_models(zinc, effort, device, peers)
        more += checked
    figures |= {
        "device": "cpu" if device == "cpu" else "gpu",
        "quick": quick,
        "threads": torch.get_num_threads(),
        "effort": asdict(effort),
        "missing": missing,
        "checks": checks + more,
        "rings": rings,
        "widths": widths,
        "batches": batches,
        "models": models,
        "memory": measure_memory(zinc, effort, device),
    }
    return figures | {"targets": judge(figures)}


def render_page(out: Path) -> None:
    stored = {d: out / RESULTS / f"layers_{d}.json" for d in DEVICES}
    figures = {d: read_json(path) for d, path in stored.items() if path.exists()}
    if not figures:
        sys.exit(f"There are no figures in {relative(out / RESULTS)} yet: run without --render first.")
    picture = out / PAGES / "layers.png"
    write_text(picture.with_suffix(".md"), page(figures, picture.name))
    draw(figures, picture)
    print("written: " + ", ".join(relative(p) for p in (picture.with_suffix(".md"), picture)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=list(EFFORTS), default="cpu")
    parser.add_argument("--quick", action="store_true", help="everything small, as a smoke test")
    parser.add_argument("--render", action="store_true", help="measure nothing, write the page and the plot")
    given = parser.parse_args()
    out = ROOT / "build" / "quick" if given.quick else ROOT
    if given.render:
        render_page(out)
        return 0
    if given.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch sees no GPU here")
    data = os.environ.get("CWNET_DATA")
    try:
        figures = measure(Path(data) if data else None, given.device, given.quick)
    except Disagreement as error:
        sys.exit(str(error))
    stored = Path(os.environ.get("OUT", out / RESULTS)) / f"layers_{figures['device']}.json"
    write_json(stored, figures)
    print_all(figures)
    print(f"written: {stored.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
