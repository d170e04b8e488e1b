"""Strongly regular graphs: which pairs does an untrained CIN tell apart? The paper's SR experiment.

Graphs of one family can not be told apart by 3-WL. Each is lifted with rings up to k = 4, 5, 6 and mapped to 16 numbers
by a CIN with random weights in double precision. Vertices start with 1, edges with 2, rings with their length. Two
graphs are told apart when their vectors are more than 0.01 apart. The baseline maps every cell by itself and adds up:
it sees how many rings there are of each length and no more. Beside both stands the test that bounds CIN, cellular WL.

A randomly relabelled copy of every graph, lifted anew, must come out within 0.01 of the graph itself.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import ModuleList

from cwnet.complexes import ComplexBatch, ComplexStore
from cwnet.data import load
from cwnet.lifting import Rings, lift_many
from cwnet.nn import CIN, CellEncoder, CellMLP, CINConv, Readout, cin, mlp
from cwnet.nn.conv.cin_conv import _split
from cwnet.nn.encoders import Constant, FromVertices
from cwnet.nn.functional import boundary_sum, upper_sum
from cwnet.train._fit import _keep_memory
from cwnet.wl import certificates, classes, share_not_told_apart

__all__ = [
    "FAMILIES",
    "Settings",
    "embed_by_counts",
    "embed_by_size",
    "family_title",
    "mlp_baseline",
    "nearest",
    "relabelled",
    "run",
    "share_within",
    "sr_network",
]

#: The nine families, as the data names them: vertices, degree, and common neighbours of adjacent and other pairs.
FAMILIES = (
    "sr16622",
    "sr251256",
    "sr261034",
    "sr281264",
    "sr291467",
    "sr351668",
    "sr351899",
    "sr361446",
    "sr401224",
)
#: Graphs that are lifted at once, and rings that are embedded at once: both keep memory far below 2 GiB.
_GRAPHS, _RINGS = 32, 40_000
#: Rows of a table of distances that are there at once.
_BLOCK = 512


@dataclass(frozen=True)
class Settings:
    """All that decides the outcome, but the seeds.

    Attributes:
        families: which of `FAMILIES`.
        sizes: the largest ring sizes k.
        max_graphs: the first so many graphs of a family; None for all.
        relabelled_seeds: how many of the seeds see the relabelled copies.
        threshold: graphs whose vectors are farther apart than this are told apart.
        width, layers, outputs: of the CIN.
        baseline_width: of the baseline.
    """

    families: tuple[str, ...] = FAMILIES
    sizes: tuple[int, ...] = (4, 5, 6)
    max_graphs: int | None = None
    relabelled_seeds: int = 1
    threshold: float = 0.01
    width: int = 16
    layers: int = 3
    outputs: int = 16
    baseline_width: int = 256

    @classmethod
    def small(cls) -> Settings:
        """The first 15 graphs of every family."""
        return cls(max_graphs=15)


def family_title(name: str) -> str:
    """A family as the paper writes it.

    >>> family_title("sr351668"), family_title("sr16622")
    ('SR(35,16,6,8)', 'SR(16,6,2,2)')
    """
    digits = name.removeprefix("sr")
    return f"SR({digits[:2]},{digits[2:-2]},{digits[-2]},{digits[-1]})"


def run(
    settings: Settings | None = None,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    device: str = "cpu",
    tick: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Embed all graphs with all seeds and count the pairs that are not told apart.

    Args:
        settings: see `Settings`; ``Settings.small()`` takes half a minute.
        seeds: each draws the weights of a CIN and of a baseline.
        device: where the networks run.
        tick: called after every family and k with a few words on it.

    Returns:
        The settings and, per family and k, the shares of pairs; all plain data.
    """
    settings = settings or Settings()
    _keep_memory()
    rows = []
    for name in settings.families:
        graphs = load("sr", None, family=name).store
        graphs = graphs.select(slice(settings.max_graphs))
        three_wl = share_not_told_apart(classes(graphs, test="3-wl"))
        for k in settings.sizes:
            row: dict[str, Any] = {"family": family_title(name), "graphs": len(graphs), "k": k, "3-wl": three_wl}
            row |= _measure(graphs, k, settings, seeds, device)
            rows.append(row)
            tick(f"{row['family']}, k = {k}: {100 * statistics.fmean(row['cin']):.3g} %")
    return {"settings": asdict(settings), "seeds": list(seeds), "device": device, "rows": rows}


def _measure(graphs: ComplexStore, k: int, settings: Settings, seeds: Sequence[int], device: str) -> dict[str, Any]:
    """All figures of one family and one k."""
    start = time.perf_counter()
    cins = [_drawn(seed, sr_network, settings.width, settings.layers, settings.outputs).to(device) for seed in seeds]
    mlps = [_drawn(seed, mlp_baseline, 1, settings.baseline_width, settings.outputs) for seed in seeds]
    some, outputs = settings.relabelled_seeds, settings.outputs
    found = _embed(graphs, k, cins, mlps, outputs, device)
    copies = _embed(relabelled(graphs), k, cins[:some], mlps[:some], outputs, device)
    colours = torch.from_numpy(np.unique(found.certificates, return_inverse=True)[1].reshape(-1))
    figures: dict[str, Any] = {"cwl": share_not_told_apart(colours)}
    for name, vectors, of_copies in (("cin", found.cin, copies.cin), ("mlp", found.mlp, copies.mlp)):
        figures[name] = [share_within(v, settings.threshold) for v in vectors]
        moved = [float((a - b).norm(dim=1).max()) for a, b in zip(vectors, of_copies, strict=False)]
        figures[f"{name}_relabelled"] = max(moved, default=None)
        figures[f"{name}_length"] = statistics.fmean(float(v.norm(dim=1).mean()) for v in vectors)
    figures["cin_nearest"] = [nearest(v, colours) for v in found.cin]
    figures["cwl_relabelled"] = sum(a != b for a, b in zip(found.certificates, copies.certificates, strict=True))
    return figures | {"seconds": time.perf_counter() - start}


def _drawn(seed: int, make: Callable[..., CIN], *sizes: int) -> CIN:
    torch.manual_seed(seed)
    return make(*sizes).double().eval()


@dataclass
class _Found:
    """The vectors of each network, [networks, graphs, outputs], and the CWL certificate of every graph."""

    cin: Tensor
    mlp: Tensor
    certificates: list[str]


@torch.no_grad()
def _embed(graphs: ComplexStore, k: int, cins: Sequence[CIN], mlps: Sequence[CIN], outputs: int, device: str) -> _Found:
    # One table from the start: small tensors that stay between large ones that go would scatter the memory.
    cin, mlp = (torch.zeros(len(models), len(graphs), outputs, dtype=torch.float64) for models in (cins, mlps))
    names: list[str] = []
    for start in range(0, len(graphs), _GRAPHS):
        store = lift_many(graphs.select(slice(start, start + _GRAPHS)), Rings(k))
        names += certificates(store)
        for i, model in enumerate(mlps):
            mlp[i, start : start + len(store)] = embed_by_counts(model, store)
        at = start
        for batch in _batches(store):
            sums, end = _Sums(batch.to(device)), at + len(batch)
            for i, model in enumerate(cins):
                cin[i, at:end] = embed_by_size(model, sums).cpu()
            at = end
    return _Found(cin, mlp, names)


def _batches(store: ComplexStore) -> Iterator[ComplexBatch]:
    """The complexes in order, in batches of about so many rings."""
    rings = int(store.cell_ptr[2][-1])
    size = max(1, len(store) * _RINGS // max(1, rings))
    return (store.batch(slice(start, start + size)) for start in range(0, len(store), size))


# ------------------------------------------------------------------------------------------------------------- pairs


def share_within(vectors: Tensor, threshold: float) -> float:
    """Of all pairs of rows, the share that is no farther apart than a threshold; exact."""
    n = len(vectors)
    near = sum(int((distances <= threshold).sum()) for distances in _distances(vectors)) - n  # a row is near itself
    return near / (n * (n - 1)) if n > 1 else 0.0


def nearest(vectors: Tensor, colours: Tensor) -> float | None:
    """The smallest distance of two rows of different colours; None where all have one."""
    blocks = zip(_distances(vectors), torch.split(colours, _BLOCK), strict=True)
    found = [float(d[own[:, None] != colours].min()) for d, own in blocks if bool((own[:, None] != colours).any())]
    return min(found, default=None)


def _distances(vectors: Tensor) -> Iterator[Tensor]:
    """The distances of all pairs of rows, a block of rows at a time.

    They are summed up from differences: by products, vectors of length 10⁶ would lose what is asked for.
    """
    mode = "donot_use_mm_for_euclid_dist"
    return (torch.cdist(block, vectors, compute_mode=mode) for block in torch.split(vectors, _BLOCK))


def sr_network(width: int = 16, layers: int = 3, outputs: int = 16, dim: int = 2) -> CIN:
    """The untrained CIN of the experiment: ELU, no norm."""
    return cin(_sizes(dim), width, layers, outputs, width_in=1, dim=dim, act="elu", norm="none")


def mlp_baseline(width_in: int = 1, width: int = 256, outputs: int = 16, dim: int = 2) -> CIN:
    """Its baseline: a perceptron per cell and a sum over all of them; no messages pass."""
    return mlp(_sizes(dim, width_in), width, 2, outputs, width_in=width_in, dim=dim, act="elu", norm="none")


def _sizes(dim: int, width: int = 1) -> CellEncoder:
    """Vertices start with ones, so edges start with 2 and rings with their length."""
    return CellEncoder([Constant(width, learnt=False), *[FromVertices("sum") for _ in range(dim)]])


def relabelled(graphs: ComplexStore, seed: int = 0) -> ComplexStore:
    """The same graphs with their vertices renumbered at random."""
    generator = torch.Generator().manual_seed(seed)
    num_nodes, num_edges = (ptr.diff() for ptr in graphs.cell_ptr[:2])
    orders = torch.cat([torch.randperm(int(n), generator=generator) for n in num_nodes])
    shift = torch.repeat_interleave(graphs.cell_ptr[0][:-1], 2 * num_edges)
    ends = orders[graphs.boundaries[0].idx.long() + shift].reshape(-1, 2)
    return ComplexStore.from_graphs(num_nodes, num_edges, ends)


# ---------------------------------------------------------------------------------------------------------- networks
#
# Both functions give what the model gives, to rounding, in less than half of the time: rings of one length are alike
# until the second layer is done.


def embed_by_counts(model: CIN, store: ComplexStore) -> Tensor:
    """What the baseline makes of complexes: cells of one size are all alike, so it is enough to count them."""
    conv, readout = model.convs[0], model.readout
    assert isinstance(conv, CellMLP)
    assert isinstance(readout, Readout)
    sizes = [torch.ones(store.num_cells[0], dtype=torch.int64), *(csr.sizes.long() for csr in store.boundaries)]
    vectors = []
    for d, (perceptron, linear) in enumerate(zip(conv.mlps, readout.linears, strict=True)):
        top = int(sizes[d].max()) + 1 if len(sizes[d]) else 1
        owner = torch.repeat_interleave(store.cell_ptr[d].diff())
        counts = torch.bincount(owner * top + sizes[d], minlength=len(store) * top).reshape(-1, top).double()
        vectors.append(readout.act(linear(counts @ perceptron(torch.arange(top).double()[:, None]))))
    assert model.head is not None
    out: Tensor = model.head(torch.stack(vectors).sum(0))
    return out


class _Sums:
    """The sums over edges and rings of a batch, as products of sparse matrices: in double precision they are faster.

    Attributes:
        batch: the batch.
        sizes, size_of: the sizes of rings there are, [sizes, 1], and which of them each ring has, [rings].
        edge, ring: of each incidence, [incidences].
        over_edges: [rings, edges].
        over_sized_edges: [rings, edges * sizes], as if an edge had one copy for every size of ring.
        over_incidences: [rings, incidences].
        of_rings, of_incidences: [edges, rings] and [edges, incidences].
        counts: rings of every size at every edge, [edges * sizes, 1].
    """

    def __init__(self, batch: ComplexBatch) -> None:
        incidence = batch.incidence(2)
        down, up = incidence.down, incidence.up
        self.batch = batch
        sizes, self.size_of = torch.unique(down.sizes, return_inverse=True)
        self.sizes = sizes.double()[:, None]
        self.edge, self.ring = down.idx, down.rows
        sized = self.edge * len(sizes) + self.size_of[self.ring]
        _, edges, rings = batch.num_cells
        self.over_edges = _ones(down.ptr, self.edge, edges)
        self.over_sized_edges = _ones(down.ptr, sized, edges * len(sizes))
        self.over_incidences = _ones(down.ptr, torch.arange(len(self.edge), device=sized.device), len(self.edge))
        self.of_rings = _ones(up.ptr, up.idx, rings)
        self.of_incidences = _ones(up.ptr, incidence.in_down, len(self.edge))
        self.counts = torch.bincount(sized, minlength=edges * len(sizes)).double()[:, None]


def _ones(ptr: Tensor, columns: Tensor, width: int) -> Tensor:
    """A sparse matrix of ones."""
    ones = torch.ones(len(columns), dtype=torch.float64, device=ptr.device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the layout is in beta
        return torch.sparse_csr_tensor(ptr, columns, ones, (len(ptr) - 1, width), check_invariants=False)


def embed_by_size(model: CIN, sums: _Sums) -> Tensor:
    """What a CIN on constant inputs makes of a batch."""
    vertices, edges, _ = sums.batch.num_cells
    v, e, r = sums.sizes.new_ones(vertices, 1), sums.sizes.new_full((edges, 1), 2), sums.sizes
    for i, conv in enumerate(model.convs):
        assert isinstance(conv, CINConv)
        v, e, r = _layer(conv, sums, v, e, r, i)
    if len(model.convs) == 1:
        r = r[sums.size_of]
    assert model.readout is not None
    assert model.head is not None
    out: Tensor = model.head(model.readout([v, e, r], sums.batch))
    return out


def _layer(conv: CINConv, sums: _Sums, v: Tensor, e: Tensor, r: Tensor, number: int) -> tuple[Tensor, Tensor, Tensor]:
    """One layer. In the first two `r` has a row for every size of ring, in the others one for every ring."""
    batch, upper, lower = sums.batch, *(cast("ModuleList", conv.mlps[kind]) for kind in ("upper", "boundary"))
    up = v + upper_sum(*_split(conv.upper_message[0], v, e), batch, 0, conv.act)
    new_v = conv.join[0](torch.cat([upper[0](up), lower[0](v)], dim=1))
    up = e + _through_rings(sums, *_split(conv.upper_message[1], e, r), number)
    new_e = conv.join[1](torch.cat([upper[1](up), lower[1](e + boundary_sum(v, batch, 1))], dim=1))
    own = upper[2](r)
    if number == 0:  # edges are all alike
        below = sums.sizes * e[:1]
    else:
        below = sums.over_edges @ e
        own, r = (own[sums.size_of], r[sums.size_of]) if number == 1 else (own, r)
    return new_v, new_e, conv.join[2](torch.cat([own, lower[2](r + below)], dim=1))


def _through_rings(sums: _Sums, own: Tensor, met: Tensor, number: int) -> Tensor:
    """`upper_sum` of edges: each ring adds up its messages, and an edge hears all but its own."""
    if number < 2:
        m = F.elu(own[:, None] + met).reshape(-1, own.shape[1])
        mine = (sums.counts * m).reshape(len(own), -1, own.shape[1]).sum(1)
        return sums.of_rings @ (sums.over_sized_edges @ m) - mine
    m = F.elu_(own.index_select(0, sums.edge).add_(met.index_select(0, sums.ring)))
    return sums.of_rings @ (sums.over_incidences @ m) - sums.of_incidences @ m
