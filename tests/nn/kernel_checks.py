"""Checks of the Triton kernels against the plain sums, for a GPU or for Triton's interpreter.

The plain sums in float64 are the truth: the kernels do not take float64, so the same function gives both. Run as a
module, with TRITON_INTERPRET=1 and CWNET_KERNELS=interpret, this goes through all checks on the CPU.
"""

import copy
import itertools
import sys
import traceback
from dataclasses import replace
from functools import partial

import networkx as nx
import pytest
import torch

from cwnet import Cliques, Rings, lift, lift_many
from cwnet.complexes import Csr, Incidence
from cwnet.nn import (
    MLP,
    BatchNorm,
    CellEncoder,
    CINConv,
    CINppConv,
    GINConv,
    GINEConv,
    Module,
    cin,
    encoders,
    functional,
    gin,
    kernels,
)
from cwnet.nn._fused import fusable
from cwnet.train._adam import GraphAdam
from cwnet.train._padded import PaddedBatches, Resident

TOLERANCE = {torch.float32: (1e-5, 2e-5), torch.bfloat16: (2**-7, 1e-4), torch.float16: (2**-10, 1e-4)}
ACTIVATIONS = list(functional.ACTIVATIONS)


def random_incidence(device, hubs=30, members=40, longest=6, seed=0):
    """Hubs with 0 to `longest` members. Some hubs and some members have no one."""
    rng = torch.Generator().manual_seed(seed)
    sizes = torch.randint(0, longest + 1, (hubs,), generator=rng)
    return on(device, [torch.randperm(members - 3, generator=rng)[:size].tolist() for size in sizes], members)


def on(device, hubs, members):
    down = Csr.from_lists(hubs)
    return Incidence.of(Csr(down.ptr.to(device), down.idx.to(device)), members)


def features(rows, width, device, dtype=torch.float32, seed=0):
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)).to(device, dtype)


def compare(call, inputs, rtol=None):
    """The values and the gradients of a function with the kernels, against itself in float64."""
    assert kernels.usable(inputs[0]), "the kernels are not in use"
    dtype = inputs[0].dtype
    ours = values_and_gradients(call, inputs, dtype)
    truth = values_and_gradients(call, [t.double() for t in inputs], dtype)
    usual, atol = TOLERANCE[dtype]
    for number, (a, b) in enumerate(zip(ours, truth, strict=True)):
        name = f"gradient {number}" if number else "values"
        assert a.dtype == dtype
        torch.testing.assert_close(
            a.double(), b, rtol=rtol or usual, atol=atol, equal_nan=True, msg=lambda m, n=name: f"{n}: {m}"
        )


def values_and_gradients(call, inputs, dtype):
    """What a function gives, and its gradients for a gradient that `dtype` can hold."""
    inputs = [t.detach().requires_grad_() for t in inputs]
    out = call(*inputs)
    grad = features(*out.shape, out.device, dtype, seed=9).to(out.dtype)
    return [out.detach(), *torch.autograd.grad(out, inputs, grad)]


def compare_adjacent(incidence, width, act, dtype, device, rtol=None):
    x = features(incidence.up.num_rows, width, device, dtype, seed=1)
    shared = features(incidence.down.num_rows, width, device, dtype, seed=2)
    compare(lambda x, shared: functional.adjacent_sum(x, shared, incidence, act), [x, shared], rtol)


# ---------------------------------------------------------------------------------------------------------- the checks


def check_activation(act, dtype, device):
    compare_adjacent(random_incidence(device), 5, act, dtype, device)
    compare_adjacent(random_incidence(device).flipped(), 5, act, dtype, device)


def check_width(width, dtype, device):
    incidence = random_incidence(device, hubs=11, members=13)
    compare_adjacent(incidence, width, "elu", dtype, device)
    compare(lambda x: functional.incidence_sum(x, incidence), [features(13, width, device, dtype)])


def check_complex(device):
    """All four sums of a complex: two fused rings with a tail, and a vertex alone."""
    graph = nx.Graph([*nx.cycle_graph(6).edges, (0, 6), (6, 7), (7, 8), (8, 1), (8, 9)])
    graph.add_node(10)
    cells = lift(graph, Rings(6)).to(device)
    x = [features(n, 7, device, seed=d) for d, n in enumerate(cells.num_cells)]
    for d in (1, 2):
        compare(lambda x, d=d: functional.boundary_sum(x, cells, d), [x[d - 1]])
        compare(lambda x, d=d: functional.coboundary_sum(x, cells, d - 1), [x[d]])
        for act in ("relu", "elu"):
            compare(lambda x, s, d=d, a=act: functional.upper_sum(x, s, cells, d - 1, a), [x[d - 1], x[d]])
            compare(lambda x, s, d=d, a=act: functional.lower_sum(x, s, cells, d, a), [x[d], x[d - 1]])
        compare(lambda x, d=d: functional.upper_sum(x, None, cells, d - 1, "tanh"), [x[d - 1]])


def check_segments(device):
    """Sums over consecutive rows, some of them empty, with rows after the last."""
    for ptr, size, width in [([0, 2, 2, 40, 41], 45, 7), ([0, 3], 3, 130), ([0, 0], 5, 1), ([0], 4, 2)]:
        ends = torch.tensor(ptr, device=device)
        compare(lambda x, e=ends: functional.segment_sum(x, e), [features(size, width, device)])
        compare(lambda x, e=ends: functional.segment_mean(x, e), [features(size, width, device)])


def check_pool(device):
    """All dimensions at once, of several sizes, some segments and a dimension empty, with rows after the last."""
    cases = [
        ([[0, 2, 2, 40, 41], [0, 0, 1, 1, 3], [0, 0, 0, 0, 0]], (45, 3, 2), 7),
        ([[0, 3], [0, 70]], (3, 70), 130),
        ([[0, 1, 5]], (5,), 64),
        ([[0], [0]], (4, 0), 2),
    ]
    for ptrs, sizes, width in cases:
        ends = [torch.tensor(ptr, device=device) for ptr in ptrs]
        x = [features(size, width, device, seed=d) for d, size in enumerate(sizes)]
        for pool in ("sum", "mean", "both"):
            compare(lambda *x, e=ends, p=pool: functional.pooled(x, e, p).flatten(0, 1), x)


def check_big_row(device):
    """One hub with 500 members among small ones; flipped, one member with 500 hubs."""
    incidence = on(device, [[0, 1], [3], list(range(500)), [], [2, 499, 7]], 500)
    for one in (incidence, incidence.flipped()):
        compare_adjacent(one, 3, "relu", torch.float32, device, rtol=5e-5)


def check_nothing(device):
    """No cells, no entries, no columns."""
    for hubs, members, width in [([], 0, 4), ([], 3, 4), ([[], []], 3, 4), ([[], []], 0, 4), ([[0, 1]], 3, 0)]:
        incidence = on(device, hubs, members)
        compare(lambda x, i=incidence: functional.incidence_sum(x, i), [features(members, width, device)])
        for one in (incidence, incidence.flipped()):
            compare_adjacent(one, width, "relu", torch.float32, device)


def check_strides(device):
    """Transposed, cut and expanded tensors."""
    incidence = random_incidence(device)
    x, shared = features(12, 40, device).t(), features(30, 50, device)[:, 7:19]
    compare(lambda x, s: functional.adjacent_sum(x, s, incidence, "elu"), [x, shared])
    compare(lambda x: functional.incidence_sum(x, incidence), [x])
    wide = features(1, 12, device).expand(40, 12)
    compare(lambda x: functional.incidence_sum(x, incidence).sum(0, keepdim=True), [wide])


def check_narrow_indices(device):
    """Indices in 32 bits, and index tensors that start anywhere, give the same bits."""
    incidence = random_incidence(device)
    x, shared = features(40, 12, device), features(30, 12, device)
    grad = features(40, 12, device, seed=3)

    def everything(i):
        return (
            kernels.gather_sum(x, i.down),
            kernels.adjacent_sum(x, shared, i, "relu"),
            *kernels.adjacent_sum_backward(grad, x, shared, i, "relu"),
        )

    narrow = Incidence(incidence.down.packed(), incidence.up.packed(), *incidence[2:])
    shifted = Incidence(*(Csr(shift(c.ptr), shift(c.idx)) for c in incidence[:2]), *incidence[2:])
    for other in (narrow, shifted):
        for a, b in zip(everything(incidence), everything(other), strict=True):
            assert torch.equal(a, b)


def shift(t):
    return torch.cat([t[:1], t])[1:]


def check_same_bits(dtype, device):
    """Two runs give the same bits."""
    incidence = random_incidence(device, *((30, 40) if device == "cpu" else (20_000, 30_000)))
    x = features(incidence.up.num_rows, 33, device, dtype, seed=1)
    shared = features(incidence.down.num_rows, 33, device, dtype, seed=2)
    runs = [
        values_and_gradients(lambda x, s: functional.adjacent_sum(x, s, incidence, "silu"), [x, shared], dtype)
        for _ in range(2)
    ]
    for a, b in zip(*runs, strict=True):
        assert torch.equal(a, b)


def check_nan(act, device):
    """NaN and infinity go where they go in the plain sums, and nowhere else."""
    incidence = random_incidence(device)
    x, shared = features(40, 4, device, seed=1), features(30, 4, device, seed=2)
    x[5, 1], shared[7, 2], shared[9, 0] = float("nan"), float("nan"), float("inf")
    compare(lambda x, s: functional.adjacent_sum(x, s, incidence, act), [x, shared])


# --------------------------------------------------------------------------------------------------- the whole layer


def random_store(lifting, count=6, density=0.35):
    return lift_many([nx.gnp_random_graph(9, density, seed=s) for s in range(count)], lifting)


def random_layer(device, *arguments, kind=CINConv, **options):
    """A layer that is not as it was made: with other scales, shifts and running averages."""
    torch.manual_seed(0)
    conv = kind(*arguments, **options)
    for part in conv.modules():
        if isinstance(part, BatchNorm | torch.nn.LayerNorm):
            torch.nn.init.uniform_(part.weight, 0.5, 1.5)
            torch.nn.init.normal_(part.bias)
        if isinstance(part, BatchNorm):
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2)
    return conv.to(device)


def close(ours, truth, what, tolerance=5e-5):
    if truth.numel():
        off = float((ours.double() - truth).abs().max() / truth.abs().max().clamp(min=1))
        assert off < tolerance, f"{what} is off by {off}"


def check_layer(
    device, widths, dim, act, *, masked, training=True, lifting=None, count=6, density=0.35, eps=0.0, kind=CINConv,
    norm="batch", cap=None,
):  # fmt: skip
    """A layer on cells."""
    batch = random_store(lifting or Rings(6), count, density).batch().to(device)
    conv = random_layer(device, *widths, dim, act=act, eps=eps, kind=kind, norm=norm).train(training)
    x = [features(n, widths[0], device, seed=d) for d, n in enumerate(batch.num_cells[: dim + 1])]
    compare_layer(conv, x, batch, masked, cap)


def check_graph_layer(
    device, widths, act, *, kind, masked=False, training=True, count=6, eps=0.0, norm="batch", cap=None
):  # fmt: skip
    """A layer on graphs; the third width, where there is one, is that of edges."""
    batch = random_store(Rings(6), count).batch().to(device)
    conv = random_layer(device, *widths, act=act, eps=eps, kind=kind, norm=norm).train(training)
    sizes = zip(batch.num_cells, (widths[0], widths[-1] if len(widths) > 2 else widths[0]), strict=False)
    compare_layer(conv, [features(n, w, device, seed=w) for n, w in sizes], batch, masked, cap)


class Rows(Module):
    """A perceptron as a layer of vertices, so that it is compared like one."""

    def __init__(self, width_in, width, layers=2, act="relu", norm="batch"):
        super().__init__()
        self.mlp = MLP(width_in, width, layers, act, norm)

    def forward(self, x, cells):
        return [self.mlp(x[0], cells.mask(0))]

    def _fusable(self, x):
        return fusable(x, [self.mlp], self.mlp.width)


def check_perceptron(device, widths, act="relu", *, layers=2, masked=False, training=True, norm="batch", cap=None):
    """Rows by themselves: no one else is heard."""
    batch = random_store(Rings(6), 6).batch().to(device)
    layer = random_layer(device, *widths, layers, act, norm, kind=Rows).train(training)
    compare_layer(layer, [features(batch.num_cells[0], widths[0], device)], batch, masked, cap)


def check_perceptron_of_few(device):
    """One row is normalised by running averages, and none is none."""
    for rows, norm in itertools.product((0, 1, 2), ("batch", "layer")):
        ours = random_layer(device, 8, 5, 2, "relu", norm, kind=Rows).mlp
        twin, x = copy.deepcopy(ours).double(), features(rows, 8, device)
        close(ours(x), twin(x.double()), f"{rows} rows")
        for (name, p), (_, q) in zip(ours.named_buffers(), twin.named_buffers(), strict=True):
            close(p, q, name)


def check_compiled_layer(device):
    """torch.compile calls the fused layer, and the gradient is that of the fused layer."""
    batch = random_store(Rings(6), 4).batch().to(device)
    conv = random_layer(device, 6, 5, 2)
    compiled = torch.compile(copy.deepcopy(conv), backend="aot_eager")
    for layer, results in ((conv, eager := []), (compiled, traced := [])):
        x = [features(n, 6, device, seed=d).requires_grad_() for d, n in enumerate(batch.num_cells)]
        out = layer([h.sin() for h in x], batch)
        results += [*out, *torch.autograd.grad([h.square().sum() for h in out], x)]
    for a, b in zip(eager, traced, strict=True):
        close(a, b, "compiled")


def check_no_gradient_of_a_gradient(device):
    """A fused layer says that it can not be differentiated twice."""
    batch = random_store(Rings(6), 4).batch().to(device)
    x = [features(n, 6, device, seed=d).requires_grad_() for d, n in enumerate(batch.num_cells)]
    out = random_layer(device, 6, 5, 2)(x, batch)
    with pytest.raises(NotImplementedError, match="CWNET_KERNELS=0"):
        torch.autograd.grad(out[0].sum(), x[0], create_graph=True)


def compare_layer(conv, x, batch, masked, cap=None):
    """Values, all gradients and running averages, against the general layer in float64."""
    device = x[0].device
    for part in conv.modules():
        if cap is not None and isinstance(part, BatchNorm):
            part.cap = cap
    twin = copy.deepcopy(conv).double()
    masks = [torch.rand(len(h), device=device) < 0.8 for h in x] if masked else None
    ours = [h.clone().requires_grad_() for h in x]
    truth = [h.double().requires_grad_() for h in x]
    assert conv._fusable(ours[0])
    assert not twin._fusable(truth[0])
    batch = replace(batch, masks=tuple(masks)) if masked else batch
    a, b = conv(ours, batch), twin(truth, batch)
    real = masks if masked else [torch.ones(len(h), dtype=torch.bool, device=device) for h in x]
    grads = [features(*h.shape, device, seed=9) * r[:, None] for h, r in zip(a, real, strict=True)]
    names = [*(f"x[{d}]" for d in range(len(x))), *(name for name, _ in conv.named_parameters())]
    of_ours = torch.autograd.grad(a, [*ours, *conv.parameters()], grads)
    of_truth = torch.autograd.grad(b, [*truth, *twin.parameters()], [g.double() for g in grads], allow_unused=True)
    for d, r in enumerate(real):
        close(a[d][r], b[d][r], f"output {d}")
    for name, g, h in zip(names, of_ours, of_truth, strict=True):
        close(g, torch.zeros_like(g).double() if h is None else h, f"the gradient of {name}")
    for (name, p), (_, q) in zip(conv.named_buffers(), twin.named_buffers(), strict=True):
        close(p, q, name)


def check_layer_of_few(device):
    """A dimension with one cell, and one with none, are normalised by running averages."""
    cases = [(nx.cycle_graph(5), (8, 8, 2), CINConv), (nx.path_graph(3), (8, 8, 2), CINConv)]
    cases += [(nx.empty_graph(n), (8, 8), kind) for n in (1, 3) for kind in (GINConv, GINEConv)]
    for (graph, widths, kind), norm in itertools.product(cases, ("batch", "layer")):
        batch = lift_many([graph], Rings(6)).batch().to(device)
        conv = random_layer(device, *widths, kind=kind, norm=norm)
        assert conv._fusable(features(1, 8, device))
        twin = copy.deepcopy(conv).double()
        x = [features(n, 8, device, seed=d) for d, n in enumerate(batch.num_cells)]
        for d, (a, b) in enumerate(zip(conv(x, batch), twin([h.double() for h in x], batch), strict=True)):
            close(a, b, f"output {d}")
        for (name, p), (_, q) in zip(conv.named_buffers(), twin.named_buffers(), strict=True):
            close(p, q, name)


def check_layer_same_bits(device, widths=(20, 20, 2), kind=CINConv, norm="batch"):
    """Two runs give the same bits, and features that lie one after another the same as those that do not."""
    batch = random_store(Rings(6), 10).batch().to(device)
    x = [features(n, 20, device, seed=d) for d, n in enumerate(batch.num_cells)]
    together = torch.cat(x)
    runs = []
    for h in (x, x, list(together.split(batch.num_cells))):
        conv = random_layer(device, *widths, kind=kind, norm=norm)
        out = conv([t.requires_grad_() for t in h], batch)
        runs.append([*out, *torch.autograd.grad(sum(t.sum() for t in out), list(conv.parameters()))])
    for a, b, c in zip(*runs, strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, c)


# ------------------------------------------------------------------------------------------------ padding, optimiser


def check_padded(device):
    """A padded batch holds what the plain batch holds, and nothing else; a model gives the same on both."""
    device = torch.device(device, 0) if device == "cuda" else torch.device(device)
    store = random_store(Rings(6), 40, 0.3)
    numbers = tuple(torch.arange(int(ptr[-1]))[:, None] for ptr in store.cell_ptr)
    store = replace(store, x=numbers, y=torch.arange(40.0)[:, None])
    resident = Resident.of(store, device)
    assert Resident.of(store, device) is resident
    plan = [torch.tensor(b, dtype=torch.int64) for b in ([3, 5, 1, 0], [7, 39], [], [12, 12, 13, 39])]
    padded = PaddedBatches(resident, 4, resident.exact(plan))
    padded.plan(plan)
    for index in plan:
        same_cells(padded.gather(), store.batch(index).to(device), len(index))
    torch.manual_seed(0)
    encoder = CellEncoder([encoders.Constant(8), encoders.FromVertices("sum"), encoders.FromVertices("mean")])
    padded.plan(plan)
    batch, plain = padded.gather(), store.batch(plan[0]).to(device)
    for model in (
        cin(encoder, 8, 2, pool="all", counts=32),
        gin(encoder, 8, 2),
        gin(encoder, 8, 2, edges=True, norm="layer"),
    ):
        same_model(model.to(device), batch, plain)


def same_model(model, padded, plain):
    outputs = [model(padded), model(plain)]
    grads = [torch.autograd.grad(out.sum(), list(model.parameters())) for out in outputs]
    close(outputs[0], outputs[1].double(), "the output")
    for (name, _), a, b in zip(model.named_parameters(), *grads, strict=True):
        close(a, b.double(), f"the gradient of {name}")


def same_cells(got, want, count):
    for d, n in enumerate(want.num_cells):
        assert got.masks[d].tolist() == [True] * n + [False] * (got.num_cells[d] - n)
        assert torch.equal(got.x[d][:n], want.x[d])
        assert torch.equal(got.cell_ptr[d][: count + 1], want.cell_ptr[d])
        if d:
            for mine, plain in zip(got.incidence(d)[:2], want.incidence(d)[:2], strict=True):
                assert rows(mine) == plain.tolist() + [[]] * (mine.num_rows - plain.num_rows)
    mine, plain = got.hasse(2), want.hasse(2)
    moved = [sum(got.num_cells[:d]) + i for d, n in enumerate(want.num_cells) for i in range(n)]
    for side in (0, 1):
        found = rows(mine[side])
        assert [found[row] for row in moved] == [[moved[i] for i in row] for row in plain[side].tolist()]
        assert sum(map(len, found)) == plain[side].idx.numel()
    assert torch.equal(got.y[:count], want.y)
    assert bool(got.y[count:].isnan().all())


def rows(csr):
    return [csr.idx[a:b].tolist() for a, b in zip(csr.ptr.tolist(), csr.ptr.tolist()[1:], strict=False)]


def check_adam(device):
    """Twenty steps next to PyTorch's Adam, with a parameter that has no gradient."""
    torch.manual_seed(0)
    ours = [torch.nn.Parameter(torch.randn(s, device=device)) for s in ((3,), (40, 50), (1,), (2048,))]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    options = {"lr": 1e-2, "betas": (0.9, 0.99), "weight_decay": 0.1}
    a, b = GraphAdam(ours, **options), torch.optim.Adam(theirs, **options)
    for _ in range(20):
        for i, (p, q) in enumerate(zip(ours, theirs, strict=True)):
            p.grad = None if i == 2 else torch.randn_like(p)
            q.grad = None if i == 2 else p.grad.clone()
        a.step()
        b.step()
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)


def check_attention(width, heads, dtype, device):
    incidence = random_incidence(device)
    rows, columns = incidence.down.num_rows, incidence.up.num_rows
    q, k, v = (features(n, width, device, dtype, seed=i) for i, n in enumerate((rows, columns, columns)))
    compare(lambda q, k, v: functional.incidence_attention(q, k, v, incidence, heads), [q, k, v])
    compare(lambda q, k, v: functional.incidence_attention(q, k, v, incidence.flipped(), heads), [k, q, q])


def check_attention_of_few(device):
    """No entries, no rows, one long row, scores that would overflow."""
    for hubs in ([[], []], [], [[], list(range(40))]):
        incidence = on(device, hubs, 40)
        q, k = features(len(hubs), 8, device), features(40, 8, device, seed=1)
        for scale in (1, 100):
            compare(lambda q, k, i=incidence: functional.incidence_attention(q, k, k, i, 2), [scale * q, k], 1e-3)


def check_attention_same_bits(device):
    incidence = random_incidence(device)
    inputs = [features(n, 24, device) for n in (incidence.down.num_rows, incidence.up.num_rows)]

    def run():
        return values_and_gradients(
            lambda q, k: functional.incidence_attention(q, k, k, incidence, 3), inputs, torch.float32
        )

    assert all(torch.equal(a, b) for a, b in zip(run(), run(), strict=True))


def check_spread(device):
    """Rows before the first segment and after the last are zero."""
    ptr = torch.tensor([20, 20, 23, 60], device=device)
    compare(lambda x: functional.segment_spread(x, ptr, 70), [features(3, 5, device)])
    compare(lambda x: functional.segment_sum(x, ptr), [features(70, 5, device)])
    compare(lambda x: functional.segment_softmax(x, ptr), [features(70, 5, device)])


LAYERS = {
    "as in the paper": ((16, 16), 2, "relu", {"masked": False}),
    "padded": ((16, 16), 2, "relu", {"masked": True}),
    "evaluation": ((16, 16), 2, "relu", {"masked": False, "training": False}),
    "odd widths": ((7, 20), 2, "silu", {"masked": True, "eps": 0.5}),
    "no rings, wide": ((130, 48), 1, "tanh", {"masked": True}),
    "dimension 3": ((20, 20), 3, "elu", {"masked": False, "lifting": Cliques(4), "density": 0.8}),
    "many tiles": ((16, 16), 2, "relu", {"masked": True, "count": 30}),
    "robust": ((12, 20), 2, "relu", {"masked": True, "norm": "robust"}),
    "capped": ((12, 20), 2, "relu", {"masked": True, "norm": "capped", "cap": 0.7}),
    "capped, evaluation": ((16, 16), 2, "tanh", {"masked": False, "norm": "capped", "cap": 0.4, "training": False}),
    "lower messages": ((12, 20), 2, "relu", {"masked": True, "kind": CINppConv, "eps": 0.1}),
    "lower messages, evaluation": ((16, 16), 2, "elu", {"masked": False, "training": False, "kind": CINppConv}),
    "lower messages, cliques": (
        (8, 40),
        3,
        "relu",
        {"masked": False, "lifting": Cliques(4), "density": 0.6, "kind": CINppConv},
    ),
    "layer norm": ((16, 16), 2, "relu", {"masked": False, "norm": "layer"}),
    "layer norm, odd widths": ((7, 20), 2, "silu", {"masked": True, "norm": "layer", "eps": 0.5}),
    "layer norm, wide": ((130, 72), 1, "tanh", {"masked": True, "norm": "layer"}),
    "layer norm, lower messages": ((12, 20), 2, "relu", {"masked": True, "norm": "layer", "kind": CINppConv}),
    "layer norm, evaluation": ((16, 16), 2, "relu", {"masked": False, "norm": "layer", "training": False}),
}

PERCEPTRONS = {
    "two layers": ((16, 16), {}),
    "padded": ((24, 20), {"masked": True, "act": "elu"}),
    "one layer, wide": ((130, 7), {"masked": True, "layers": 1}),
    "three layers": ((9, 16), {"masked": True, "layers": 3, "norm": "capped", "cap": 0.5}),
    "evaluation": ((16, 12), {"training": False}),
    "layer norm": ((16, 70), {"masked": True, "norm": "layer", "act": "silu"}),
}
#: Each with GINConv and GINEConv. The third width is that of edges.
GRAPH_LAYERS = {
    "as in the paper": ((16, 16), "relu", {}),
    "padded": ((7, 20), "silu", {"masked": True, "eps": 0.5}),
    "evaluation": ((16, 16), "relu", {"training": False}),
    "wide": ((130, 72), "tanh", {"masked": True}),
    "many tiles": ((16, 16), "relu", {"masked": True, "count": 30}),
    "capped": ((12, 20), "relu", {"masked": True, "norm": "capped", "cap": 0.7}),
    "layer norm": ((16, 16), "relu", {"norm": "layer"}),
    "layer norm, padded": ((7, 20), "silu", {"masked": True, "norm": "layer", "eps": 0.5}),
    "layer norm, wide": ((130, 72), "elu", {"masked": True, "norm": "layer"}),
    "layer norm, many tiles": ((16, 16), "relu", {"masked": True, "norm": "layer", "count": 30}),
    "layer norm, evaluation": ((16, 16), "relu", {"norm": "layer", "training": False}),
}

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

#: Every check by name. Each takes a device.
CHECKS = {
    **{f"{a}, {n}": partial(check_activation, a, t) for a in ACTIVATIONS for n, t in DTYPES.items()},
    **{f"width {w}, {n}": partial(check_width, w, t) for w in (1, 5, 48, 64, 130) for n, t in DTYPES.items()},
    "width 48, float16": partial(check_width, 48, torch.float16),
    "complex": check_complex,
    "segments": check_segments,
    "pooling": check_pool,
    **{
        f"attention, {h} of width {w}, {n}": partial(check_attention, w * h, h, t)
        for w, h in ((5, 1), (16, 4), (130, 1))
        for n, t in DTYPES.items()
    },
    **{f"perceptron, {n}": partial(check_perceptron, widths=w, **options) for n, (w, options) in PERCEPTRONS.items()},
    "perceptron, few rows": check_perceptron_of_few,
    "attention, few cells": check_attention_of_few,
    "attention, same bits": check_attention_same_bits,
    "rows of no segment": check_spread,
    "one big row": check_big_row,
    "compiled layer": check_compiled_layer,
    "no gradient of a gradient": check_no_gradient_of_a_gradient,
    "nothing": check_nothing,
    "strides": check_strides,
    "indices in 32 bits": check_narrow_indices,
    **{f"same bits, {n}": partial(check_same_bits, t) for n, t in DTYPES.items()},
    **{f"NaN, {a}": partial(check_nan, a) for a in ACTIVATIONS},
    **{f"layer, {n}": partial(check_layer, widths=w, dim=d, act=a, **o) for n, (w, d, a, o) in LAYERS.items()},
    **{
        f"{k.__name__}, {n}": partial(check_graph_layer, widths=w, act=a, kind=k, **o)
        for n, (w, a, o) in GRAPH_LAYERS.items()
        for k in (GINConv, GINEConv)
    },
    "GINEConv, edges of another width": partial(
        check_graph_layer, widths=(16, 20, 9), act="relu", kind=GINEConv, masked=True, eps=0.1
    ),
    "layer, few cells": check_layer_of_few,
    "layer, same bits": check_layer_same_bits,
    "GINEConv, layer norm, same bits": partial(check_layer_same_bits, widths=(20, 20), kind=GINEConv, norm="layer"),
    "padded batches": check_padded,
    "Adam": check_adam,
}


def main() -> int:
    torch.set_num_threads(1)
    failed = 0
    for name, check in CHECKS.items():
        try:
            check("cpu")
        except Exception:
            failed += 1
            print(f"--- {name}\n{traceback.format_exc()}")
    print(f"{len(CHECKS) - failed} of {len(CHECKS)} checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
