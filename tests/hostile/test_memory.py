"""Molecules of thousands of rings: refused beyond one budget, and batched by their cells within it."""

import warnings

import pytest
import torch

from cwnet.chem import Featuriser
from cwnet.data import read_table
from cwnet.errors import LiftingBudgetExceeded
from cwnet.molecules import CWLFingerprint, MoleculeModel, fingerprint_table, predict_table
from cwnet.molecules import _model as model_file
from cwnet.molecules._data import prepare
from cwnet.scale import lift_files
from tests.scale.test_lift import grid


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("smiles,y\n" + "".join(f"{'C' * n}O,{n}\n" for n in range(1, 13)) + grid(9) + ",13\n")
    return path


def test_all_verbs_have_one_budget(table, tmp_path):
    model = MoleculeModel.load("zinc")
    assert predict_table(model, table, tmp_path / "p.csv").unread == 1
    assert fingerprint_table(CWLFingerprint(size=8), table, tmp_path / "f.csv").unread == 1
    assert lift_files([table], tmp_path / "s").rejected == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(prepare(read_table(table, "smiles", "y"), Featuriser()).store) == 12
    with pytest.raises(LiftingBudgetExceeded, match="max_cells=10,000"):
        Featuriser()([grid(9)])
    assert "max_cells=10,000" in (tmp_path / "p.csv").read_text()


def test_batches_hold_a_bounded_number_of_cells(monkeypatch):
    monkeypatch.setattr(model_file, "_CELLS", 1_500)
    model = MoleculeModel.load("zinc")
    store = Featuriser()([grid(4)] * 40 + ["CCO"] * 300)
    batches = list(model.batches(store))
    sizes = [sum(batch.num_cells) for batch in batches]
    assert sum(map(len, batches)) == 340
    assert max(sizes) <= model_file._CELLS
    assert max(map(len, batches)) <= 256
    assert torch.allclose(model.predict(store).mean[0], model.predict(store.select([0])).mean[0], atol=1e-4)
    assert len(list(model.batches(Featuriser()(["CCO"] * 300)))) == 2


def test_an_explanation_in_parts_is_the_same(monkeypatch):
    from cwnet.molecules import MoleculeModel, _explain

    model = MoleculeModel.load("zinc")
    (whole,) = _explain.explain(model, ["c1ccc2ccccc2c1"])
    monkeypatch.setattr(_explain, "_CELLS", 64)
    (parts,) = _explain.explain(model, ["c1ccc2ccccc2c1"])
    for a, b in zip(whole.contributions, parts.contributions, strict=True):
        assert torch.allclose(a, b, atol=1e-5)
