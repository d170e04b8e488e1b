"""Pictures of the test part."""

import numpy as np
import pytest
import torch

from cwnet.data import read_table
from cwnet.molecules import MoleculeModel, Settings, Targets, train_table
from cwnet.molecules._plots import _range, plot_test
from tests.molecules.conftest import TINY


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


EVIL = ["$\\foo$", "$", "$$", "\\", "a_{b", "\x1b[2J", "漢字", "x" * 5_000]


@pytest.mark.parametrize("name", EVIL)
def test_names_are_text_and_not_formulas(tmp_path, name):
    y = torch.tensor([[0.0], [1.0], [0.0], [1.0]])
    assert plot_test(tmp_path, Targets("regression", (name,)), y, y).exists()
    assert plot_test(tmp_path, Targets("binary", (name,), ((name, "b"),)), y, y).exists()
    assert plot_test(tmp_path, Targets("multiclass", (name,), ((name, "b", "c"),)), y, torch.rand(4, 3)).exists()


def test_a_plot_that_fails_costs_the_plot_only(numbers, tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("no ink")

    monkeypatch.setattr("cwnet.molecules._plots.plot_test", fail)
    with pytest.warns(UserWarning, match=r"the test part was not drawn \(RuntimeError: no ink\)"):
        train_table(
            read_table(numbers, "smiles", "logP"), tmp_path / "m", Settings(epochs=1, changes=TINY), progress=False
        )
    assert MoleculeModel.load(tmp_path / "m").targets.names == ("logP",)
