"""Losses and metrics, against what they are by hand."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from cwnet.train import RecipeError
from cwnet.train._objectives import METRICS, Objective
from tests.train import tiny

NAN = float("nan")


def case(loss, rows=9, outputs=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    prediction = torch.randn(rows, outputs, generator=generator, dtype=torch.float64, requires_grad=True)
    if loss == "cross-entropy":
        return prediction, torch.randint(outputs, (rows,), generator=generator)
    if loss == "bce":
        return prediction, torch.randint(2, (rows, outputs), generator=generator).double()
    return prediction, torch.randn(rows, outputs, generator=generator, dtype=torch.float64)


PLAIN = {
    "l1": F.l1_loss,
    "mse": F.mse_loss,
    "bce": F.binary_cross_entropy_with_logits,
    "cross-entropy": F.cross_entropy,
}
losses = pytest.mark.parametrize("loss", list(PLAIN))


@losses
def test_is_pytorchs(loss):
    prediction, target = case(loss)
    total, count = Objective(loss).terms(prediction, target)
    assert total.shape == count.shape == ()
    torch.testing.assert_close(total / count, PLAIN[loss](prediction, target))


@losses
def test_missing_targets_have_no_part(loss):
    prediction, target = case(loss)
    if loss == "cross-entropy":
        there = torch.arange(len(target)) % 3 != 0
        holed = torch.where(there, target, -1)
        kept = prediction[there], target[there]
    else:
        there = torch.rand(target.shape, generator=torch.Generator().manual_seed(1)) < 0.6
        holed = torch.where(there, target, NAN)
        kept = prediction[there], target[there]
    total, count = Objective(loss).terms(prediction, holed)
    expected = PLAIN[loss](*kept)
    assert int(count) == len(kept[1])
    torch.testing.assert_close(total / count, expected)
    (found,) = torch.autograd.grad(total / count, prediction)
    (by_hand,) = torch.autograd.grad(expected, prediction)
    torch.testing.assert_close(found, by_hand)


@pytest.mark.parametrize("loss", ["l1", "mse", "bce"])
@pytest.mark.parametrize("absurd", [math.inf, NAN])
def test_a_prediction_that_is_no_number_does_no_harm_where_the_target_is_missing(loss, absurd):
    prediction = torch.tensor([[0.5], [absurd]], requires_grad=True)
    total, count = Objective(loss).terms(prediction, torch.tensor([[1.0], [NAN]]))
    (grad,) = torch.autograd.grad(total, prediction)
    assert (int(count), bool(total.isfinite())) == (1, True)
    assert grad[1].item() == 0
    assert bool(grad[0].isfinite())


@losses
def test_nothing_there(loss):
    prediction, target = case(loss)
    target = torch.full_like(target, -1) if loss == "cross-entropy" else torch.full_like(target, NAN)
    total, count = Objective(loss).terms(prediction, target)
    assert float(total.detach()) == float(count) == 0
    (grad,) = torch.autograd.grad(total / count.clamp(min=1), prediction)
    assert not grad.any()


def test_columns_and_half_precision():
    prediction, target = torch.ones(4, 1, dtype=torch.bfloat16), torch.zeros(4)
    total, count = Objective("l1").terms(prediction, target)
    assert (float(total), float(count), total.dtype) == (4.0, 4.0, torch.float32)


@pytest.mark.parametrize(
    ("loss", "y", "outputs", "message"),
    [
        ("cross-entropy", [[0.5]] * 60, 2, "takes one whole number"),
        ("cross-entropy", [3] * 60, 2, "class 3, but the model gives 2"),
        ("l1", [[0.5, 1.0]] * 60, 1, "targets have 2"),
        ("bce", [[2.0]] * 60, 1, "from 0 to 1"),
    ],
    ids=["not classes", "too many classes", "columns", "not yes or no"],
)
def test_targets_that_do_not_fit(loss, y, outputs, message):
    with pytest.raises(RecipeError, match=message):
        Objective(loss).check(tiny.dataset(y=y).store, outputs)


def test_no_targets():
    from dataclasses import replace

    store = replace(tiny.dataset().store, y=None)
    with pytest.raises(RecipeError, match="nothing to learn"):
        Objective("l1").check(store, 1)
    with pytest.raises(RecipeError, match=r"cell_y\[0\]"):
        Objective("cross-entropy", 0).check(store, 1)


# ------------------------------------------------------------------------------------------------ metrics


def measure(name, prediction, target):
    return METRICS[name](torch.tensor(prediction), torch.tensor(target))


def test_errors_by_hand():
    prediction, target = [[1.0], [2.0], [4.0]], [[1.0], [4.0], [3.0]]
    assert measure("mae", prediction, target) == pytest.approx(1.0)
    assert measure("rmse", prediction, target) == pytest.approx((5 / 3) ** 0.5)
    assert measure("r2", prediction, target) == pytest.approx(1 - 5 / (14 / 3))


def test_the_largest_hundredth_of_errors_is_left_out():
    target = [[0.0]] * 200
    assert measure("mae99", [[1.0]] * 198 + [[50.0], [-70.0]], target) == pytest.approx(1.0)
    assert measure("mae99", [[1.0]] * 197 + [[3.0], [50.0], [-70.0]], target) == pytest.approx((197 + 3) / 198)
    assert measure("mae99", [[1.0], [3.0]], [[0.0], [0.0]]) == pytest.approx(2.0)  # of fewer than a hundred, none
    assert math.isnan(measure("mae99", [[1.0]], [[NAN]]))


def test_missing_targets_are_not_measured():
    prediction, target = [[1.0, 9.0], [2.0, 0.0]], [[0.0, NAN], [NAN, 4.0]]
    assert measure("mae", prediction, target) == pytest.approx((1 + 4) / 2)


def auc(scores, labels):
    """The share of pairs in the right order; ties count half."""
    pairs = [
        (p, n) for p, a in zip(scores, labels, strict=True) if a for n, b in zip(scores, labels, strict=True) if not b
    ]
    return sum((p > n) + 0.5 * (p == n) for p, n in pairs) / len(pairs)


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=20))
def test_rocauc_by_hand(pairs):
    scores, labels = zip(*pairs, strict=True)
    found = measure("rocauc", [[float(s)] for s in scores], [[float(a)] for a in labels])
    if len(set(labels)) < 2:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(auc(scores, labels))


def test_rocauc_is_the_mean_over_tasks_that_have_both_classes():
    scores = [[0.1, 0.9, 0.3], [0.8, 0.2, 0.5], [0.4, 0.6, 0.1]]
    labels = [[0.0, 1.0, 1.0], [1.0, NAN, 1.0], [0.0, 0.0, NAN]]
    expected = (auc([0.1, 0.8, 0.4], [0, 1, 0]) + auc([0.9, 0.6], [1, 0])) / 2
    assert measure("rocauc", scores, labels) == pytest.approx(expected)


def test_ap_by_hand():
    """Recall rises at the first and the third place: 1/1 and 2/3."""
    assert measure("ap", [[0.9], [0.8], [0.7], [0.1]], [[1.0], [0.0], [1.0], [0.0]]) == pytest.approx((1 + 2 / 3) / 2)


def test_accuracy_by_hand():
    assert measure("accuracy", [[1.0, 2.0], [3.0, 0.0], [0.0, 1.0]], [1, 1, 1]) == pytest.approx(2 / 3)
    assert measure("accuracy", [[1.0, 2.0], [3.0, 0.0], [0.0, 1.0]], [1, -1, 1]) == 1.0
    assert measure("accuracy", [[2.0], [-2.0], [2.0]], [[1.0], [1.0], [NAN]]) == 0.5


def test_nothing_to_measure():
    for name in METRICS:
        assert np.isnan(measure(name, [[1.0]], [[NAN]]))


def test_directions():
    assert [name for name, metric in METRICS.items() if metric.larger_is_better] == ["r2", "rocauc", "ap", "accuracy"]
    assert METRICS["mae"].better(1, 2)
    assert METRICS["ap"].better(2, 1)
    assert [METRICS["mae"].mode, METRICS["ap"].mode] == ["min", "max"]
