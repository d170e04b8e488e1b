"""Learning rates: PyTorch's where it has them."""

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cwnet.train._recipe import ScheduleRecipe, StopRecipe
from cwnet.train._schedule import Stopping, make_schedule

values = st.lists(st.floats(0, 3, width=16), min_size=1, max_size=60)


def optimiser(lr):
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr)


def rates(recipe, lr, given, epochs=None, mode="min"):
    schedule = make_schedule(lr, recipe, epochs or len(given), mode)
    out = [schedule.lr]
    out += [schedule.step(value) for value in given]
    return out


@given(values, st.integers(0, 5), st.sampled_from([0.1, 0.5, 0.9]), st.sampled_from(["min", "max"]), st.booleans())
def test_plateau_is_pytorchs(given, patience, factor, mode, floor):
    low = 1e-3 if floor else 0.0
    theirs = optimiser(0.01)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        theirs, mode=mode, factor=factor, patience=patience, min_lr=low
    )
    expected = [0.01]
    for value in given:
        scheduler.step(value)
        expected.append(theirs.param_groups[0]["lr"])
    recipe = ScheduleRecipe(kind="plateau", patience=patience, factor=factor, min_lr=low)
    assert rates(recipe, 0.01, given, mode=mode) == expected


@pytest.mark.parametrize(("every", "factor"), [(1, 0.5), (20, 0.5), (50, 0.9)])
def test_step_is_pytorchs(every, factor):
    theirs = optimiser(0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(theirs, every, factor)
    expected = [0.01]
    for _ in range(120):
        theirs.step()
        scheduler.step()
        expected.append(theirs.param_groups[0]["lr"])
    found = rates(ScheduleRecipe(kind="step", every=every, factor=factor), 0.01, [None] * 120)
    assert found == pytest.approx(expected, rel=1e-12)


def test_cosine_is_pytorchs():
    theirs = optimiser(0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(theirs, 50, eta_min=1e-4)
    expected = [0.01]
    for _ in range(50):
        theirs.step()
        scheduler.step()
        expected.append(theirs.param_groups[0]["lr"])
    found = rates(ScheduleRecipe(kind="cosine", min_lr=1e-4), 0.01, [None] * 50)
    assert found == pytest.approx(expected, rel=1e-9)


def test_constant_and_warmup():
    assert rates(ScheduleRecipe(), 0.5, [None] * 3) == [0.5] * 4
    assert rates(ScheduleRecipe(warmup=3), 0.8, [None] * 5) == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8, 0.8])
    warm = rates(ScheduleRecipe(kind="cosine", warmup=2), 0.9, [None] * 10)
    assert warm[:3] == pytest.approx([0.3, 0.6, 0.9])
    assert warm[2:] == sorted(warm[2:], reverse=True)
    assert warm[-1] == pytest.approx(0, abs=1e-12)


@given(values, st.integers(0, 60), st.sampled_from(["constant", "step", "plateau", "cosine"]))
def test_going_on_from_a_state(given, cut, kind):
    recipe = ScheduleRecipe(kind=kind, patience=2, every=3, warmup=2)
    expected = rates(recipe, 0.1, given)
    first = make_schedule(0.1, recipe, len(given), "min")
    for value in given[:cut]:
        first.step(value)
    second = make_schedule(0.1, recipe, len(given), "min")
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert [second.lr] + [second.step(value) for value in given[cut:]] == expected[min(cut, len(given)) :]


def test_a_plateau_needs_a_value():
    with pytest.raises(ValueError, match="needs the value"):
        make_schedule(0.1, ScheduleRecipe(kind="plateau"), 1, "min").step(None)


class TestStopping:
    def test_on_the_learning_rate(self):
        stopping = Stopping(StopRecipe(min_lr=1e-5))
        assert stopping.step(1e-5) is None
        assert "below 1e-05" in stopping.step(9.9e-6)

    @pytest.mark.parametrize(("mode", "sign"), [("min", 1), ("max", -1)])
    def test_on_patience(self, mode, sign):
        stopping = Stopping(StopRecipe(patience=2), mode)
        assert [stopping.step(1, sign * v) for v in (3.0, 2.0, 2.0)] == [None] * 3
        assert stopping.step(1, sign * 5.0) == "no improvement for 2 epochs"

    def test_nan_is_no_improvement(self):
        stopping = Stopping(StopRecipe(patience=2))
        assert stopping.step(1, math.nan) is None
        assert stopping.step(1, math.nan) is not None

    def test_never(self):
        stopping = Stopping(StopRecipe())
        assert all(stopping.step(0.0, 1.0) is None for _ in range(99))

    def test_going_on_from_a_state(self):
        first = Stopping(StopRecipe(patience=2))
        first.step(1, 1.0)
        first.step(1, 1.0)
        second = Stopping(StopRecipe(patience=2))
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert second.step(1, 1.0) is not None
