"""The C++ kernels equal their plain twins, whatever the number of threads."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cwnet.complexes import Csr, Incidence
from cwnet.nn import MLP, BatchNorm, kernels
from cwnet.nn.functional import adjacent_sum
from cwnet.nn.kernels import _cpu

rows = st.lists(st.lists(st.integers(0, 11), max_size=5, unique=True), max_size=9)


def features(count, width, seed=0, dtype=torch.float32):
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed)).to(dtype)


def values_and_gradients(call, inputs):
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    out = call(*inputs)
    return [out.detach(), *torch.autograd.grad(out, inputs, features(*out.shape, seed=9, dtype=out.dtype))]


@pytest.fixture(params=[1, 2, 5])
def threads(request, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: request.param)
    return request.param


@given(rows=rows, width=st.integers(1, 40))
def test_adjacent_sums(rows, width):
    incidence = Incidence.of(Csr.from_lists(rows), 12)
    inputs = features(12, width, 1), features(len(rows), width, 2)
    assert kernels.usable_on_cpu(inputs[0])
    ours = values_and_gradients(lambda x, s: adjacent_sum(x, s, incidence, "relu"), inputs)
    wide = [t.double() for t in inputs]
    truth = values_and_gradients(lambda x, s: adjacent_sum(x, s, incidence, "relu"), wide)
    for a, b in zip(ours, truth, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-5)


def random_incidence(hubs=700, members=900):
    rng = torch.Generator().manual_seed(0)
    sizes = torch.randint(0, 7, (hubs,), generator=rng).tolist()
    return Incidence.of(Csr.from_lists([torch.randperm(members, generator=rng)[:n].tolist() for n in sizes]), members)


def test_many_rows_and_threads_give_the_same_bits(threads):
    incidence = random_incidence()
    x, shared, grad = features(900, 33, 1), features(700, 33, 2), features(900, 33, 3)
    out = _cpu.adjacent_sum(x, shared, incidence)
    with pytest.MonkeyPatch.context() as alone:
        alone.setattr(torch, "get_num_threads", lambda: 1)
        assert torch.equal(out, _cpu.adjacent_sum(x, shared, incidence))
        expected = _cpu.adjacent_sum_backward(grad, x, shared, incidence)
    for a, b in zip(_cpu.adjacent_sum_backward(grad, x, shared, incidence), expected, strict=True):
        assert torch.equal(a, b)


def test_nan_goes_where_it_goes_in_the_plain_sums(monkeypatch):
    incidence = random_incidence(30, 40)
    x, shared = features(40, 4, 1), features(30, 4, 2)
    x[5, 1], shared[7, 2], shared[9, 0] = float("nan"), float("nan"), float("inf")
    ours = values_and_gradients(lambda x, s: adjacent_sum(x, s, incidence, "relu"), [x, shared])
    monkeypatch.setenv("CWNET_KERNELS", "0")
    plain = values_and_gradients(lambda x, s: adjacent_sum(x, s, incidence, "relu"), [x, shared])
    for a, b in zip(ours, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5, equal_nan=True)


def random_norm(width):
    torch.manual_seed(0)
    norm = BatchNorm(width)
    torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
    torch.nn.init.normal_(norm.bias)
    return norm


@pytest.mark.parametrize("count", [2, 3, 255, 256, 257, 1000])
@pytest.mark.parametrize("width", [1, 5, 64])
def test_norm_with_relu(count, width, threads):
    ours, truth = random_norm(width), random_norm(width).double()
    x, bias = features(count, width) + 3, features(1, width, 5)[0]
    grad = features(count, width, 7)
    found = []
    for norm, h, b in ((ours, x, bias), (truth, x.double(), bias.double())):
        h = h.clone().requires_grad_()
        out = norm(h, None, b, relu=True)
        found.append([out, *torch.autograd.grad(out, [h, norm.weight, norm.bias], grad.to(out.dtype))])
        found[-1] += [norm.running_mean, norm.running_var]
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=2e-4)


def test_norm_with_relu_gives_the_same_bits_on_any_number_of_threads(threads):
    norm, x, grad = random_norm(48), features(1500, 48), features(1500, 48, 1)
    results = []
    for count in (threads, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "get_num_threads", lambda count=count: count)
            out, mean, var, rstd = _cpu.norm_relu(x, norm.weight, norm.bias, norm.eps)
            results.append([out, mean, var, rstd, *_cpu.norm_relu_backward(grad, x, out, norm.weight, mean, rstd)])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_a_mean_far_from_zero_does_no_harm():
    norm, x = random_norm(8), features(500, 8) + 1000
    out = norm(x, relu=True)
    truth = random_norm(8).double()(x.double(), relu=True)
    torch.testing.assert_close(out.double(), truth, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("act", ["relu", "tanh"])
@pytest.mark.parametrize("count", [0, 1, 30])
@pytest.mark.parametrize("training", [True, False])
def test_perceptrons_equal_their_plain_twins(act, count, training, monkeypatch):
    torch.manual_seed(0)
    mlp = MLP(6, 8, 2, act).train(training)
    x = features(count, 6)
    ours = mlp(x)
    buffers = {name: tensor.clone() for name, tensor in mlp.named_buffers()}
    torch.manual_seed(0)
    twin = MLP(6, 8, 2, act).train(training)
    monkeypatch.setenv("CWNET_KERNELS", "0")
    torch.testing.assert_close(ours, twin(x), rtol=1e-5, atol=1e-5)
    for name, tensor in twin.named_buffers():
        torch.testing.assert_close(buffers[name], tensor, rtol=1e-5, atol=1e-5)
