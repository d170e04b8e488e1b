"""Pictures of the test part."""

import numpy as np
import pytest
import torch

from cwnet.molecules import Targets
from cwnet.molecules._plots import _range, plot_test


def test_axes_hold_nearly_all_and_not_what_is_far_away():
    values = np.append(np.linspace(-1, 1, 500), -48.0)
    low, high = _range(values)
    assert -2 < low < -1
    assert 1 < high < 2
    low, high = _range(np.array([3.0, 3.0]))
    assert low < 3 < high


@pytest.mark.parametrize("rows", [0, 1, 300])
def test_parity(tmp_path, rows):
    y = torch.linspace(-1, 1, rows).double()[:, None]
    predicted = y + 0.1
    if rows > 1:
        y[7], y[8] = 90.0, float("nan")
    path = plot_test(tmp_path, Targets("regression", ("y",)), y, predicted)
    assert path.name == "parity.png"
    assert path.stat().st_size > 5_000
