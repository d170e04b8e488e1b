"""torch.compile, torch.export, torch.func, and gradients of gradients, against PyTorch's eager mode."""

import copy
import shutil
import sys
from dataclasses import replace

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import cwnet
from cwnet import nn
from cwnet._torch import NO_OPERATORS
from cwnet.complexes import Csr, Incidence
from cwnet.nn import functional
from cwnet.topology import orient

operators = pytest.mark.skipif(NO_OPERATORS is not None, reason=str(NO_OPERATORS))


@pytest.fixture(autouse=True)
def fresh_compiler():
    """PyTorch gives up on a function that it has compiled eight times, by whatever test."""
    yield
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()


def batch(*sizes, dtype=torch.float32):
    """Rings of these sizes, each with a tail, and with features in every dimension."""
    graphs = [(n + 1, [*((i, (i + 1) % n) for i in range(n)), (0, n)]) for n in sizes]
    complexes = cwnet.lift_many(graphs, cwnet.Rings(8)).batch()
    rng = torch.Generator().manual_seed(len(sizes))
    x = tuple(torch.randn(n, 4, generator=rng).to(dtype) for n in complexes.num_cells)
    return replace(complexes, x=x)


def network(conv, layers=1):
    torch.manual_seed(0)
    convs = [conv() for _ in range(layers)]
    encoder = nn.CellEncoder([nn.encoders.Linear(4, 6) for _ in range(3)])
    return nn.CIN(encoder, convs, nn.Readout(6, 8, pool="both"), nn.readout.Head(8, 1))


CONVS = {
    "CIN": lambda: nn.CINConv(6),
    "CIN++": lambda: nn.CINppConv(6, act="elu", norm="layer"),
    "attention": lambda: nn.AttentionConv(6, heads=2),
    "virtual cell": lambda: nn.VirtualCell(6),
    "own": lambda: nn.CellConv(
        upper=lambda h, neighbour, shared: h * neighbour + shared, update=lambda h, upper: h + upper, width=6
    ),
}


def step(model, of, batch):
    """The output, the gradients and the buffers after a step from the same state."""
    state = copy.deepcopy(model.state_dict())
    model.zero_grad(set_to_none=True)
    out = of(batch)
    out.square().sum().backward()
    grads = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    buffers = {name: b.clone() for name, b in model.named_buffers()}
    model.load_state_dict(state)
    return out.detach(), grads, buffers


def assert_same_step(a, b):
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@operators
@pytest.mark.parametrize("name", CONVS)
def test_compiled_models_are_the_eager_ones(name):
    model = network(CONVS[name])
    compiled = torch.compile(model, backend="aot_eager", fullgraph=name != "own")
    for sizes in [(3, 4, 5), (6, 3)]:
        assert_same_step(step(model, compiled, batch(*sizes)), step(model, model, batch(*sizes)))


@operators
@pytest.mark.skipif(not shutil.which("g++"), reason="PyTorch's compiler for CPUs needs a C++ compiler")
def test_compiled_to_machine_code():
    cells, compiled = batch(3, 4, 5), torch.compile(sums)
    x = [h.clone().requires_grad_() for h in cells.x]
    torch.testing.assert_close(compiled(*x, cells), sums(*x, cells))
    ours, eager = (torch.autograd.grad(f(*x, cells).square().sum(), x) for f in (compiled, sums))
    torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-5)


def sums(vertices, edges, rings, cells):
    up = functional.upper_sum(vertices.sin(), edges, cells, 0, "relu") + functional.coboundary_sum(edges, cells, 0)
    ends = functional.boundary_sum(up.relu(), cells, 1)
    return functional.segment_mean(torch.cat([ends, rings]), torch.tensor([0, 5, len(ends)]))


@operators
def test_the_same_batch_again():
    model, cells = network(CONVS["CIN"]), batch(3, 6)
    compiled = torch.compile(model, backend="aot_eager")
    first, second = (step(model, compiled, cells) for _ in range(2))
    assert_same_step(first, second)


@operators
def test_exported_programs_take_batches_of_other_sizes():
    if not hasattr(torch.export.Dim, "DYNAMIC"):
        pytest.skip("sizes are left open since PyTorch 2.6")
    model = network(CONVS["CIN"]).eval()
    example, sizes = batch(3, 4, 5), torch.export.ShapesCollection()
    for tensor in filter(torch.is_tensor, torch.utils._pytree.tree_leaves(example)):
        sizes[tensor] = {0: torch.export.Dim.DYNAMIC}
    program = torch.export.export(model, (example,), dynamic_shapes=sizes).module()
    for sizes in [(3, 4, 5), (6, 3), (8, 4, 4, 5)]:
        torch.testing.assert_close(program(batch(*sizes)), model(batch(*sizes)))


def loss(model, parameters, cells):
    return torch.func.functional_call(model, parameters, (cells,)).square().sum()


@pytest.mark.parametrize("name", ["CIN", "attention"])
def test_functional_gradients(name):
    model, cells = network(CONVS[name]).eval(), batch(3, 4, 5)
    found = torch.func.grad(loss, argnums=1)(model, dict(model.named_parameters()), cells)
    loss(model, dict(model.named_parameters()), cells).backward()
    for key, p in model.named_parameters():
        torch.testing.assert_close(found[key], p.grad, msg=key)


def test_a_batch_is_a_tree_of_tensors():
    for cells in (batch(3, 4), batch(3, 4)[0], orient(batch(3, 4))):
        leaves, spec = torch.utils._pytree.tree_flatten(cells)
        again = torch.utils._pytree.tree_unflatten(leaves, spec)
        assert type(again) is type(cells)
        assert again.num_cells == cells.num_cells
        assert all(a is b for a, b in zip(leaves, torch.utils._pytree.tree_leaves(again), strict=True))
    doubled = torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t * 2, batch(3))
    assert torch.equal(doubled.x[0], batch(3).x[0] * 2)
    bare = replace(batch(3), x=(None, None, None))
    assert torch.utils._pytree.tree_map(lambda leaf: leaf, bare).num_cells == bare.num_cells


INCIDENCE = Incidence.of(Csr.from_lists([[0, 1, 2], [2, 3], [], [0, 4]]), 5)
PTR = torch.tensor([0, 2, 2, 5])


def numbers(*shape):
    rng = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=rng, dtype=torch.float64).requires_grad_()


TWICE = {
    "incidence_sum": (lambda x: functional.incidence_sum(x, INCIDENCE), [(5, 2)]),
    "adjacent_sum": (lambda x, s: functional.adjacent_sum(x, s, INCIDENCE, "elu"), [(5, 2), (4, 2)]),
    "adjacent_sum, flipped": (
        lambda x, s: functional.adjacent_sum(x, s, INCIDENCE.flipped(), "silu"), [(4, 2), (5, 2)]
    ),
    "segment_sum": (lambda x: functional.segment_sum(x, PTR).square(), [(5, 2)]),
    "segment_spread": (lambda x: functional.segment_spread(x, PTR, 6).square(), [(3, 2)]),
    "segment_softmax": (lambda x: functional.segment_softmax(x, PTR), [(5, 2)]),
    "incidence_attention": (
        lambda q, k, v: functional.incidence_attention(q, k, v, INCIDENCE, 2), [(4, 4), (5, 4), (5, 4)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TWICE)
def test_gradients_of_gradients(name):
    function, shapes = TWICE[name]
    inputs = [numbers(*shape) for shape in shapes]
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


def test_gradients_of_gradients_of_signed_sums():
    oriented = orient(batch(3, 4))
    x = numbers(oriented.num_cells[0], 2)
    assert gradgradcheck(lambda x: nn.signed.coboundary_signals(x, oriented, 1).square(), [x])


def test_a_gradient_penalty_through_the_kernels(monkeypatch):
    """In float32 the C++ kernels take the first gradient; the gradient of that is the one without them."""

    def penalty():
        model, cells = network(CONVS["CIN"]), batch(3, 4, 5)
        x = cells.x[0].clone().requires_grad_()
        out = model(replace(cells, x=(x, *cells.x[1:])))
        (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        slope.square().sum().backward()
        return [p.grad for p in model.parameters() if p.grad is not None]

    ours = penalty()
    monkeypatch.setenv("CWNET_KERNELS", "0")
    for a, b in zip(ours, penalty(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
