"""Losses of networks that say how sure they are, against loops over single numbers."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cwnet.train import RecipeError, fit
from cwnet.train._heads import HEAD_LOSSES, TAUS
from cwnet.train._objectives import Objective
from tests.train import tiny

NAN = float("nan")
losses = pytest.mark.parametrize("loss", list(HEAD_LOSSES))


def slow(loss, prediction, target):
    """The sum of the losses and their number: one target after another, gaps passed over."""
    total, count, columns = 0.0, 0, len(target[0])
    for outputs, row in zip(prediction, target, strict=True):
        for c, y in enumerate(row):
            if math.isnan(y):
                continue
            count += 1
            mine = outputs[c::columns]
            if loss == "pinball":
                total += 2 * sum(t * (y - q) if y > q else (1 - t) * (q - y) for t, q in zip(TAUS, mine, strict=True))
            else:
                variance = math.log1p(math.exp(mine[1])) + 1e-6
                total += (math.log(variance) + (y - mine[0]) ** 2 / variance) / 2
    return total, count


numbers = st.floats(-5, 5)


@losses
@given(st.data())
def test_is_the_slow_one(loss, data):
    rows, columns = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    wide = columns * HEAD_LOSSES[loss].heads
    prediction = data.draw(st.lists(st.lists(numbers, min_size=wide, max_size=wide), min_size=rows, max_size=rows))
    known = numbers | st.just(NAN)
    target = data.draw(st.lists(st.lists(known, min_size=columns, max_size=columns), min_size=rows, max_size=rows))
    outputs = torch.tensor(prediction, dtype=torch.float64, requires_grad=True)
    total, count = Objective(loss).terms(outputs, torch.tensor(target, dtype=torch.float64))
    expected, there = slow(loss, prediction, target)
    assert float(total.detach()) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert int(count) == there
    (gradient,) = torch.autograd.grad(total, outputs)
    gaps = torch.tensor(target).isnan().repeat(1, HEAD_LOSSES[loss].heads)
    assert bool(gradient.isfinite().all())
    assert not gradient[gaps].any()


@losses
def test_a_prediction_that_is_no_number_does_no_harm_where_the_target_is_missing(loss):
    wide = HEAD_LOSSES[loss].heads
    prediction = torch.tensor([[0.5] * wide, [NAN] * wide], requires_grad=True)
    total, count = Objective(loss).terms(prediction, torch.tensor([[1.0], [NAN]]))
    (gradient,) = torch.autograd.grad(total, prediction)
    assert (int(count), bool(total.isfinite()), bool(gradient.isfinite().all())) == (1, True, True)


def test_the_pinball_loss_is_least_at_the_quantiles():
    y = torch.arange(1, 100.0)[:, None]
    loss = HEAD_LOSSES["pinball"]

    def mean(*quantiles):
        return float(loss.terms(torch.tensor([quantiles]).expand(99, 3), y)[0])

    best = mean(50.0, 5.0, 95.0)
    assert all(
        best <= mean(*at) for at in ((52, 5, 95), (48, 5, 95), (50, 9, 95), (50, 1, 95), (50, 5, 99), (50, 5, 91))
    )


def test_margins():
    below, above = HEAD_LOSSES["pinball"].margins(torch.tensor([[[2.0], [1.0], [5.0]], [[2.0], [3.0], [1.0]]]))
    assert below.tolist() == [[1.0], [0.0]]
    assert above.tolist() == [[3.0], [0.0]]
    below, above = HEAD_LOSSES["gaussian"].margins(torch.tensor([[[2.0], [50.0]]]))
    assert torch.allclose(below, torch.tensor([[50.0]]).sqrt())
    assert below is above


@losses
def test_a_recipe_by_name_gives_what_the_loss_takes_and_is_measured_by_its_predictions(loss):
    heads = HEAD_LOSSES[loss].heads
    recipe = tiny.recipe(train={"loss": loss, "epochs": 2})
    data = tiny.dataset()
    [result] = fit(recipe, dataset=data, progress=False, device="cpu")
    assert result.predictions.shape == (10, heads)
    wrong = (result.predictions[:, :1] - data.store.y[list(tiny.TEST)]).abs().mean()
    assert result.test_at_stop == pytest.approx(float(wrong), rel=1e-5)


@losses
def test_outputs_that_do_not_fit(loss):
    recipe = tiny.recipe(train={"loss": loss, "epochs": 1}, model={"outputs": 1})
    with pytest.raises(RecipeError, match=rf"gives 1 numbers, but targets have 1, and train.loss = '{loss}' takes"):
        fit(recipe, dataset=tiny.dataset(), progress=False, device="cpu")


@losses
def test_weights_multiply_the_loss_of_their_target(loss):
    prediction = torch.randn(4, 2 * HEAD_LOSSES[loss].heads, generator=torch.Generator().manual_seed(1)).double()
    target = torch.tensor([[1.0, NAN], [0.5, 2.0], [NAN, -1.0], [0.0, 0.3]], dtype=torch.float64)
    weight = torch.tensor([[2.0, 1.0], [0.0, 0.5], [3.0, 1.0], [1.0, 4.0]])
    total, weighed = Objective(loss, weighted=True).terms(prediction, target, weight)
    expected, amount = 0.0, 0.0
    for row, column in ((~target.isnan()).nonzero()).tolist():
        alone = [
            [y if (r, c) == (row, column) else NAN for c, y in enumerate(ys)] for r, ys in enumerate(target.tolist())
        ]
        each, _ = slow(loss, prediction.tolist(), alone)
        expected += float(weight[row, column]) * each
        amount += float(weight[row, column])
    assert float(total) == pytest.approx(expected)
    assert float(weighed) == pytest.approx(amount)
