"""A whole layer in C++ equals the plain operations in float64, whatever the norm, the branches and the threads."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cwnet
from cwnet import _core
from cwnet.nn import MLP, kernels
from cwnet.nn.conv import CINConv, CINppConv, cin_conv

graphs = st.lists(st.tuples(st.integers(4, 9), st.integers(0, 2**16)), min_size=1, max_size=12)


def batch_of(described):
    """A ring with some chords for every (number of vertices, which chords)."""
    made = []
    for n, bits in described:
        chords = [(i, j) for i in range(n) for j in range(i + 2, n) if (i, j) != (0, n - 1)]
        ring = [(i, i + 1) for i in range(n - 1)] + [(0, n - 1)]
        made.append((n, ring + [pair for k, pair in enumerate(chords) if bits >> k % 16 & 1 and k % 3 == 0]))
    return cwnet.lift_many(made, cwnet.Rings(6)).batch()


MANY = [(4 + i % 6, 7919 * i) for i in range(60)]  # some hundred cells of each dimension: several slabs


@pytest.fixture
def wide_enough(monkeypatch):
    """Fail where the plain operations are taken instead."""
    monkeypatch.setattr(cin_conv, "boundary_sum", None)


def layer(kind, norm, width_in=32, width=16, **options):
    torch.manual_seed(0)
    made = kind(width_in, width, norm=norm, **options)
    for parameter in made.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, 0.3, 0.5)
    return made


def results(conv, batch, dtype=torch.float32):
    """Features, gradients of everything by name, and running averages."""
    conv = copy.deepcopy(conv).to(dtype)
    rng = torch.Generator().manual_seed(1)
    x = [torch.randn(n, conv.width_in, generator=rng).to(dtype).requires_grad_() for n in batch.num_cells]
    out = conv(x, batch)
    loss = sum((h * torch.randn(h.shape, generator=rng).to(dtype)).sum() for h in out)
    named = {**{f"x{d}": h for d, h in enumerate(x)}, **dict(conv.named_parameters())}
    gradients = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    found = {f"out{d}": h for d, h in enumerate(out)}
    found = found | dict(zip(named, gradients, strict=True)) | dict(conv.named_buffers())
    return {name: None if tensor is None else tensor.detach() for name, tensor in found.items()}


def assert_alike(found, truth, tolerance=2e-4):
    assert found.keys() == truth.keys()
    for name, expected in truth.items():
        if expected is None:
            assert found[name] is None or not found[name].any(), name
            continue
        scale = float(expected.abs().max()) if expected.numel() else 0.0
        torch.testing.assert_close(
            found[name].double(),
            expected,
            rtol=tolerance,
            atol=tolerance * (scale + 0.1),
            msg=lambda m, n=name: f"{n}: {m}",
        )


@pytest.mark.parametrize("norm", ["batch", "robust", "capped", "layer"])
@pytest.mark.parametrize("kind", [CINConv, CINppConv])
@pytest.mark.parametrize(("top", "eps"), [(2, 0.0), (1, 0.25), (0, 0.0)])
def test_values_gradients_and_averages(kind, norm, top, eps, wide_enough, monkeypatch):
    batch, conv = batch_of(MANY), layer(kind, norm, top=top, eps=eps)
    found = results(conv, batch)
    monkeypatch.undo()
    assert_alike(found, results(conv, batch, torch.float64))


@settings(max_examples=25, deadline=None)
@given(described=graphs, norm=st.sampled_from(["capped", "layer"]), width=st.sampled_from([16, 48]))
def test_any_batch(described, norm, width):
    batch, conv = batch_of(described), layer(CINConv, norm, 16, width)
    found, truth = results(conv, batch), results(conv, batch, torch.float64)
    for name in [name for name in truth if not name.startswith("out")]:
        # A batch norm over a few cells may divide by next to nothing; features are compared, gradients roughly.
        if norm == "capped":
            found.pop(name), truth.pop(name)
    assert_alike(found, truth, 1e-3)


@pytest.mark.parametrize("norm", ["capped", "layer"])
@pytest.mark.parametrize("bf16", [False, True])
def test_threads_do_not_change_a_bit(norm, bf16, monkeypatch):
    if bf16 and not _core.multiplies_bf16():
        pytest.skip("this processor has no products in bf16")
    batch, conv = batch_of(MANY), layer(CINConv, norm)
    found = []
    for threads in (1, 2, 2, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        with kernels.multiplying_in_bf16() if bf16 else monkeypatch.context():
            found.append(results(conv, batch))
    for other in found[1:]:
        assert all(a is b is None or torch.equal(a, b) for a, b in zip(found[0].values(), other.values(), strict=True))


def test_machines_without_vector_units():
    batch, conv = batch_of(MANY), layer(CINConv, "capped")
    _core.use_portable_blocks(True)
    try:
        found = results(conv, batch)
    finally:
        _core.use_portable_blocks(False)
    assert_alike(found, results(conv, batch, torch.float64))


@pytest.mark.skipif(not _core.multiplies_bf16(), reason="this processor has no products in bf16")
@pytest.mark.parametrize("norm", ["capped", "layer"])
def test_products_in_bf16_are_near_those_in_float32(norm):
    batch, conv = batch_of(MANY), layer(CINConv, norm, 64, 64)
    with kernels.multiplying_in_bf16():
        found = results(conv, batch)
    truth = results(conv, batch, torch.float64)
    near = results(conv, batch)
    for name, expected in truth.items():
        if expected is None or name.endswith("running_var"):
            continue
        gap = float((found[name].double() - expected).norm() / expected.norm().clamp(min=1e-6))
        # Rounding to 8 bits flips a ReLU here and there, so gradients are off by more than features.
        assert gap < (0.02 if name.startswith("out") else 0.3), name
    assert not torch.equal(found["out0"], near["out0"])


@pytest.mark.parametrize("count", [0, 1, 2, 95, 96, 97, 700])
@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_perceptrons(count, norm):
    torch.manual_seed(0)
    mlp, rng = MLP(16, 32, 3, norm=norm), torch.Generator().manual_seed(2)
    x, weights = torch.randn(count, 16, generator=rng), torch.randn(count, 32, generator=rng)
    found = []
    for dtype in (torch.float32, torch.float64):
        one, h = copy.deepcopy(mlp).to(dtype), x.detach().to(dtype).clone().requires_grad_()
        out = one(h)
        (out * weights.to(dtype)).sum().backward()
        found.append([out.detach(), h.grad, *[p.grad for p in one.parameters()], *one.buffers()])
    for a, b in zip(*found, strict=True):
        if b is not None:
            torch.testing.assert_close(
                a.double(), b, rtol=1e-3, atol=1e-3 * (float(b.abs().max()) + 0.1 if b.numel() else 1)
            )


def test_evaluation_takes_running_averages_and_leaves_them():
    batch, conv = batch_of(MANY), layer(CINConv, "capped")
    results_before = results(conv, batch)
    conv.load_state_dict({**conv.state_dict(), **{k: v for k, v in results_before.items() if "running" in k}})
    conv.eval()
    x = [torch.randn(n, 32) for n in batch.num_cells]
    with torch.no_grad():
        ours = conv(x, batch)
    plain = conv([h.requires_grad_() for h in x], batch)  # with gradients: the plain operations
    for a, b in zip(ours, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    for name, tensor in conv.named_buffers():
        assert torch.equal(tensor, results_before[name])


def test_changed_weights_are_noticed_on_the_way_back():
    batch, conv = batch_of(MANY), layer(CINConv, "layer")
    out = conv([torch.randn(n, 32) for n in batch.num_cells], batch)
    with torch.no_grad():
        conv.join[0].linears[0].weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        sum(h.sum() for h in out).backward()
