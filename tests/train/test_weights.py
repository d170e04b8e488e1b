"""Weights of targets in the loss: twice as much is as if it were there twice, and nothing as if it were not."""

from dataclasses import replace

import pytest
import torch

from cwnet.complexes import ComplexStore
from cwnet.train import RecipeError, fit
from cwnet.train._engine import padding_matters
from cwnet.train._objectives import Objective
from cwnet.train._padded import _missing
from cwnet.train._run import Run
from tests.nn.padding import padded
from tests.train import tiny
from tests.train.test_objectives import NAN, case, losses


def stored(target, weight):
    """A store whose targets have weights behind them."""
    y = torch.cat([target.float().reshape(len(weight), -1), weight], 1)
    return ComplexStore.from_graphs([1] * len(y), [0] * len(y), torch.zeros(0, 2), y=y)


def weights(target, of_rows):
    return of_rows[:, None].expand(len(target), target[0].numel()).clone()


def chosen(loss, balanced):
    """The objective without weights of targets, and the same with them."""
    plain = Objective(loss)
    if balanced:
        like = torch.tensor([0, 1, 1, 2]) if loss == "cross-entropy" else torch.tensor([[0.0, 1, 0]] * 3 + [[1, 0, 1]])
        plain = plain.balanced(ComplexStore.from_graphs([1] * 4, [0] * 4, torch.zeros(0, 2), y=like), 3)
    return plain, replace(plain, weighted=True)


@losses
@pytest.mark.parametrize("balanced", [False, True])
def test_twice_as_much_is_twice_there(loss, balanced):
    if balanced and loss in ("l1", "mse"):
        return
    prediction, target = case(loss)
    times = torch.tensor([1, 2, 1, 0, 3, 1, 0, 2, 1])
    plain, weighted = chosen(loss, balanced)
    store = stored(target, weights(target, times.float()))
    if loss != "cross-entropy":
        target = store.y[:, :3].double()  # as they are rounded
    total, count = weighted.of(prediction, store)
    expected = plain.terms(prediction.repeat_interleave(times, 0), target.repeat_interleave(times, 0))
    torch.testing.assert_close((total, count), expected)
    (found,) = torch.autograd.grad(total / count, prediction)
    (by_hand,) = torch.autograd.grad(expected[0] / expected[1], prediction)
    torch.testing.assert_close(found, by_hand)
    assert not found[times == 0].any()


@losses
def test_weights_of_one_are_none(loss):
    prediction, target = case(loss)
    plain, weighted = chosen(loss, False)
    store = stored(target, torch.ones(len(target), 1 if loss == "cross-entropy" else 3))
    again = plain.terms(prediction, weighted.target(store))
    assert all(torch.equal(a, b) for a, b in zip(weighted.of(prediction, store), again, strict=True))


@losses
def test_columns_weigh_apart_and_gaps_and_padding_weigh_nothing(loss):
    prediction, target = case(loss)
    wide = 1 if loss == "cross-entropy" else 3
    each = torch.rand(len(target), wide, generator=torch.Generator().manual_seed(2))
    gaps = target.clone()
    gaps[::3] = -1 if wide == 1 else NAN
    store = stored(gaps, each)
    with_padding = replace(store, y=torch.cat([store.y, _missing(store.y)]), dims=torch.ones(len(target) + 1))
    more = torch.cat([prediction, torch.full((1, 3), 7.0)])
    there = torch.arange(len(target)) % 3 != 0
    weighted = Objective(loss, weighted=True)
    total, count = weighted.of(more, with_padding)
    kept = weighted.of(prediction[there], stored(target[there], each[there]))
    torch.testing.assert_close((total, count), kept)
    torch.testing.assert_close(float(count), float(each[there].sum()), rtol=1e-6, atol=0)
    (grad,) = torch.autograd.grad(total, more)
    assert torch.isfinite(grad).all()
    assert not grad[-1].any()


def weighted(dataset, of_rows):
    y = dataset.store.y
    return replace(dataset, store=replace(dataset.store, y=torch.cat([y, weights(y, of_rows)], 1)), weighted=True)


def trained(dataset, **how):
    [result] = fit(tiny.recipe(train={"epochs": 2, "batch_size": 8}), dataset=dataset, device="cpu", progress=False)
    return result


def test_training_with_weights_of_one_is_training_without():
    plain, ones = trained(tiny.dataset()), trained(weighted(tiny.dataset(), torch.ones(60)))
    assert tiny.same_weights(plain.model, ones.model)
    assert tiny.without_times(plain.history) == tiny.without_times(ones.history)


def test_weights_change_what_is_learnt_and_not_what_is_measured():
    dataset = tiny.dataset()
    heavy = torch.where(dataset.store.y[:, 0] > 4, 5.0, 0.2)
    found, plain = trained(weighted(dataset, heavy)), trained(dataset)
    assert not tiny.same_weights(found.model, plain.model)
    truth = dataset.store.y[list(tiny.TEST)]
    assert found.test == pytest.approx(float((truth - found.predictions).abs().mean()), rel=1e-5)


def test_padding_changes_nothing_where_there_are_weights():
    dataset = weighted(tiny.dataset(), torch.rand(60, generator=torch.Generator().manual_seed(0)))
    run = Run(tiny.recipe(), dataset)
    plain = dataset.store.batch(range(9))
    with_it = padded(plain, complexes=3)
    with_it = replace(with_it, y=torch.cat([plain.y, _missing(plain.y).expand(3, -1)]))
    with_it._incidences.update(padded(plain, complexes=3)._incidences)
    with_it._hasse.update(padded(plain, complexes=3)._hasse)
    model = run.steps.model.double()
    assert padding_matters(model, run.objective, plain, with_it, 9) is None


def test_a_loss_of_ones_own_takes_no_weights():
    with pytest.raises(RecipeError, match=r"has weights of targets, which go with .* a loss by name"):
        Run(tiny.recipe(), weighted(tiny.dataset(), torch.ones(60)), own=_own())


def _own():
    from cwnet.train._own import Own

    return Own(loss=lambda p, y: (p - y).abs())
