"""Normalisation: PyTorch's where it is defined, and no crash where it is not."""

import pytest
import torch

from cwnet.nn import MLP, BatchNorm, LayerNorm
from tests.reference.layers import assert_close, layer_norm, normalise, perceptron, randomise, statistics

WIDTH = 4


def pair(seed=0, **options):
    """Ours and PyTorch's, with the same weights and running averages."""
    ours = randomise(BatchNorm(WIDTH, **options), seed).double()
    theirs = torch.nn.BatchNorm1d(WIDTH, **{k: v for k, v in options.items() if k not in ("limit", "cap")}).double()
    theirs.load_state_dict({**ours.state_dict(), "num_batches_tracked": torch.tensor(0)})
    return ours, theirs


def rows(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(count, WIDTH, generator=generator, dtype=torch.float64) + 1


def gradients(out, weights, x, norm):
    return torch.autograd.grad((out * weights).sum(), [x, norm.weight, norm.bias])


def same_averages(a, b):
    assert_close(a.running_mean, b.running_mean, 1e-12)
    assert_close(a.running_var, b.running_var, 1e-12)


class TestWithoutMask:
    @pytest.mark.parametrize("count", [2, 3, 50])
    @pytest.mark.parametrize("options", [{}, {"eps": 1e-3, "momentum": 0.4}], ids=["default", "other"])
    @pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
    def test_equals_pytorch(self, count, options, training):
        ours, theirs = (norm.train(training) for norm in pair(**options))
        for step in range(3):
            x, weights = rows(count, step).requires_grad_(), rows(count, 9)
            a, b = ours(x), theirs(x)
            assert_close(a, b, 1e-12)
            for f, e in zip(gradients(a, weights, x, ours), gradients(b, weights, x, theirs), strict=True):
                assert_close(f, e, 1e-12)
            same_averages(ours, theirs)

    def test_equals_the_equation(self):
        ours, _ = pair()
        x = rows(7)
        assert_close(ours(x), torch.stack(normalise(ours, list(x))), 1e-12)

    @pytest.mark.parametrize("count", [0, 1])
    def test_too_few_rows_for_a_variance(self, count):
        """The running averages are used, and stay."""
        ours, theirs = pair()
        x, weights = rows(count).requires_grad_(), rows(count, 9)
        a, b = ours(x), theirs.eval()(x)
        assert_close(a, b, 1e-12)
        for f, e in zip(gradients(a, weights, x, ours), gradients(b, weights, x, theirs), strict=True):
            assert_close(f, e, 1e-12)
        same_averages(ours, theirs)


class TestWithALimit:
    """Outputs and gradients are those of batch norm; running averages go no further than momentum times limit."""

    @pytest.mark.parametrize("masked", [False, True])
    @pytest.mark.parametrize("relu", [False, True])
    def test_outputs_are_those_of_batch_norm(self, masked, relu):
        ours, plain = pair(limit=0.3)[0], pair()[0]
        keep = masks(30)[0] if masked else None
        x, weights = rows(30).requires_grad_(), rows(30, 9)
        a, b = ours(x, keep, relu=relu), plain(x, keep, relu=relu)
        assert_close(a, b, 1e-12)
        for f, e in zip(gradients(a, weights, x, ours), gradients(b, weights, x, plain), strict=True):
            assert_close(f, e, 1e-12)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("masked", [False, True])
    @pytest.mark.parametrize("relu", [False, True])
    def test_running_averages_by_hand(self, masked, relu, dtype):
        ours = pair(limit=0.3, momentum=0.2)[0].to(dtype)
        x = rows(40).to(dtype) * torch.tensor([1.0, 1.02, 50, 0.001], dtype=dtype)
        keep = masks(40)[1] if masked else None
        mean, var = statistics(list(x.double()[keep] if masked else x.double()))
        count = int(keep.sum()) if masked else 40
        old_mean, old_var = ours.running_mean.double().clone(), ours.running_var.double() + ours.eps
        away = ((mean - old_mean) / old_var.sqrt()).clamp(-0.3, 0.3)
        wider = ((var * count / (count - 1) + ours.eps) / old_var).log().clamp(-0.3, 0.3)
        ours(x, keep, relu=relu)
        assert_close(ours.running_mean.double(), old_mean + 0.2 * away * old_var.sqrt(), 1e-5)
        assert_close(ours.running_var.double(), old_var * (0.2 * wider).exp() - ours.eps, 1e-5)

    def test_one_odd_batch_spoils_plain_averages_but_not_these(self):
        ours, plain = BatchNorm(WIDTH, limit=0.3).double(), BatchNorm(WIDTH).double()
        for step in range(300):
            for norm in (ours, plain):
                norm(rows(50, step))
        odd = rows(50, 300)
        odd[7] *= 1000
        before = ours.running_var.clone()
        for norm in (ours, plain):
            norm(odd)
        assert (plain.running_var > 100 * before).all()
        assert_close(ours.running_var, before, 0.04)

    def test_they_catch_up(self):
        ours = BatchNorm(WIDTH, limit=0.3).double()
        for step in range(400):
            ours(100 * rows(200, step))
        assert_close(ours.running_mean.log(), torch.full((WIDTH,), 100.0, dtype=torch.float64).log(), 0.2)
        assert_close(ours.running_var.log(), torch.full((WIDTH,), 90_000.0, dtype=torch.float64).log(), 0.2)

    @pytest.mark.parametrize("count", [0, 1])
    def test_too_few_rows_leave_them_as_they_are(self, count):
        for keep in (None, torch.ones(count, dtype=torch.bool)):
            ours = pair(limit=0.3)[0]
            before = ours.running_mean.clone(), ours.running_var.clone()
            ours(rows(count), keep)
            assert torch.equal(ours.running_mean, before[0])
            assert torch.equal(ours.running_var, before[1])


class TestWithACap:
    """What comes out is what batch norm gives, cut off; running averages are those of batch norm."""

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("training", [False, True])
    @pytest.mark.parametrize("masked", [False, True])
    @pytest.mark.parametrize("relu", [False, True])
    def test_outputs_and_gradients(self, masked, relu, training, dtype):
        ours, plain = (pair(**options)[0].to(dtype).train(training) for options in ({"cap": 0.8}, {}))
        keep = masks(30)[0] if masked else None
        x, weights = rows(30).to(dtype).requires_grad_(), rows(30, 9).to(dtype)
        a, b = ours(x, keep, relu=relu), plain(x, keep).clamp(-0.8, 0.8)
        b = b.relu() if relu else b
        assert 0 < int((a == 0.8).sum()) < a.numel()
        assert_close(a, b, 1e-6)
        for f, e in zip(gradients(a, weights, x, ours), gradients(b, weights, x, plain), strict=True):
            assert_close(f, e, 1e-5)
        assert_close(ours.running_mean, plain.running_mean, 1e-6)
        assert_close(ours.running_var, plain.running_var, 1e-6)

    def test_a_rare_cell_is_bounded_under_running_averages_too(self):
        """It is bounded in training, where it is part of the variance of its batch. That is not so afterwards."""
        ours, plain = (BatchNorm(WIDTH, **options).double() for options in ({"cap": 6.0}, {}))
        for step in range(300):
            for norm in (ours, plain):
                norm(rows(50, step))
        odd = rows(50, 300)
        odd[7] *= 1000
        with torch.no_grad():
            assert float(BatchNorm(WIDTH).double()(odd).abs().max()) < 50**0.5
            assert float(plain.eval()(odd).abs().max()) > 100
            assert float(BatchNorm(WIDTH, cap=6.0).double()(odd).abs().max()) == 6
            assert float(ours.eval()(odd).abs().max()) == 6


def masks(count):
    generator = torch.Generator().manual_seed(count)
    return [torch.rand(count, generator=generator) < share for share in (0.5, 0.8)] + [torch.ones(count) > 0]


class TestWithMask:
    @pytest.mark.parametrize("count", [4, 30])
    def test_equals_pytorch_on_the_rows_kept(self, count):
        for keep in masks(count):
            assert keep.sum() > 1
            ours, theirs = pair()
            x, weights = rows(count).requires_grad_(), rows(count, 9)
            a, b = ours(x, keep)[keep], theirs(x[keep])
            assert_close(a, b, 1e-12)
            found, expected = (gradients(o, weights[keep], x, n) for o, n in ((a, ours), (b, theirs)))
            for f, e in zip(found, expected, strict=True):
                assert_close(f, e, 1e-12)
            same_averages(ours, theirs)

    def test_equals_the_equation(self):
        """Rows that are not kept are normalised with the statistics of those that are."""
        x = rows(8)
        for keep in masks(8):
            ours, _ = pair()
            assert_close(ours(x, keep), torch.stack(normalise(ours, list(x), keep.tolist())), 1e-12)

    def test_running_averages_by_hand(self):
        ours, _ = pair(momentum=0.25)
        before = ours.running_mean.clone(), ours.running_var.clone()
        x, keep = rows(6), torch.tensor([True, False, True, True, False, True])
        ours(x, keep)
        mean, var = statistics([v for v, k in zip(x, keep, strict=True) if k])
        assert_close(ours.running_mean, 0.75 * before[0] + 0.25 * mean, 1e-12)
        assert_close(ours.running_var, 0.75 * before[1] + 0.25 * var * 4 / 3, 1e-12)

    @pytest.mark.parametrize(("count", "kept"), [(0, 0), (1, 0), (1, 1), (5, 0), (5, 1)])
    def test_too_few_rows_for_a_variance(self, count, kept):
        ours, theirs = pair()
        x, weights = rows(count).requires_grad_(), rows(count, 9)
        keep = torch.arange(count) < kept
        a, b = ours(x, keep), theirs.eval()(x)
        assert_close(a, b, 1e-12)
        for f, e in zip(gradients(a, weights, x, ours), gradients(b, weights, x, theirs), strict=True):
            assert_close(f, e, 1e-12)
        same_averages(ours, theirs)

    def test_evaluation_does_not_look_at_the_mask(self):
        ours, theirs = (norm.eval() for norm in pair())
        x = rows(5)
        assert_close(ours(x, torch.tensor([True, False, True, False, True])), theirs(x), 1e-12)
        same_averages(ours, theirs)

    def test_in_single_precision(self):
        ours, theirs = (norm.float() for norm in pair())
        x, keep = rows(30).float(), masks(30)[0]
        assert_close(ours(x, keep)[keep], theirs(x[keep]), 1e-5)

    def test_values_of_padding_do_not_matter(self):
        a, b = pair()[0], pair()[0]
        x, keep = rows(6), torch.tensor([True] * 4 + [False] * 2)
        padded = torch.where(keep[:, None], x, torch.full_like(x, 1e6))
        assert_close(a(x, keep)[keep], b(padded, keep)[keep], 1e-12)
        same_averages(a, b)

    def test_padding_may_be_nan(self):
        ours, _ = pair()
        x, keep = rows(6), torch.tensor([True] * 4 + [False] * 2)
        x[4:] = float("nan")
        assert torch.isfinite(ours(x, keep)[keep]).all()

    def test_a_mask_of_the_wrong_length(self):
        ours, _ = pair()
        with pytest.raises(ValueError, match="mask"):
            ours(rows(6), torch.tensor([True]))

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
    def test_half_precision(self, dtype):
        """3000 rows of 30 add up to more than float16 can hold; statistics are kept in 32 bits, as PyTorch does."""
        masked, plain = BatchNorm(2), BatchNorm(2)
        x = (torch.randn(3000, 2, generator=torch.Generator().manual_seed(0)) + 30).to(dtype)
        a, b = masked(x, torch.ones(3000, dtype=torch.bool)), plain(x)
        assert a.dtype == b.dtype == dtype
        assert_close(a.float(), b.float(), 1e-2)
        assert_close(masked.running_mean, plain.running_mean, 1e-5)
        assert_close(masked.running_var, plain.running_var, 1e-5)


class TestBias:
    """A bias given to the norm does what it would do if the layer before had added it, but for its gradient."""

    BIAS = torch.tensor([0.5, -2.0, 0.0, 7.0], dtype=torch.float64)

    @pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
    @pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
    @pytest.mark.parametrize("count", [0, 1, 2, 9])
    def test_is_added(self, count, training, masked):
        given, added = (pair()[0].train(training) for _ in range(2))
        keep = torch.ones(count, dtype=torch.bool) if masked else None
        for step in range(3):
            x, weights = rows(count, step).requires_grad_(), rows(count, 9)
            a, b = given(x, keep, self.BIAS), added(x + self.BIAS, keep)
            assert_close(a, b, 1e-10)
            for f, e in zip(gradients(a, weights, x, given), gradients(b, weights, x, added), strict=True):
                assert_close(f, e, 1e-10)
            same_averages(given, added)

    @pytest.mark.parametrize("count", [1, 6])
    @pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
    def test_has_no_gradient_in_training(self, count, masked):
        mlp = randomise(MLP(WIDTH, WIDTH, 2).double())
        keep = torch.ones(count, dtype=torch.bool) if masked else None
        mlp(rows(count), keep).sum().backward()
        assert all(linear.bias.grad is None for linear in mlp.linears)
        mlp.eval()(rows(count), keep).sum().backward()
        assert all(linear.bias.grad is not None for linear in mlp.linears)

    def test_two_passes_before_a_backward_pass(self):
        norm = pair()[0]
        x = rows(5).requires_grad_()
        out = norm(x, None, self.BIAS) + norm(2 * x, None, self.BIAS)
        out.square().sum().backward()
        assert torch.isfinite(x.grad).all()


def test_layer_norm_equals_the_equation():
    norm = randomise(LayerNorm(WIDTH).double())
    x = rows(5)
    assert_close(norm(x), torch.stack(layer_norm(norm, list(x))), 1e-12)
    assert torch.equal(norm(x), norm(x, torch.tensor([True, False, True, True, False])))
    assert norm(rows(0)).shape == (0, WIDTH)


@pytest.mark.parametrize("norm", ["batch", "layer", "none"])
@pytest.mark.parametrize("count", [0, 1, 6])
def test_mlp(norm, count):
    mlp = randomise(MLP(WIDTH, 3, 2, "elu", norm).double())
    out = mlp(rows(count))
    assert out.shape == (count, 3)
    if count:
        assert_close(out, torch.stack(perceptron(mlp, list(rows(count)))), 1e-12)


def test_reset():
    norm, fresh = pair()[0], BatchNorm(WIDTH)
    norm.reset_parameters()
    assert all(torch.equal(a, b) for a, b in zip(norm.state_dict().values(), fresh.state_dict().values(), strict=True))
    assert repr(norm) == "BatchNorm(4)"
