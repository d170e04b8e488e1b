"""Numbers beside molecules: scaled, kept with the model, seen by network and trees, explained."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from cwnet.chem import Featuriser
from cwnet.data import read_table
from cwnet.errors import CwnetError
from cwnet.molecules import MoleculeModel, Settings, explain, train_table
from cwnet.molecules._descriptors import Descriptors
from cwnet.molecules._inputs import Inputs
from cwnet.nn import Joined
from tests.molecules.conftest import TINY, write


def inputs(given=None, numbers=None):
    rows = len(given if given is not None else numbers)
    as_array = lambda values: None if values is None else np.array(values, dtype=np.float32)  # noqa: E731
    return Inputs(Featuriser()(["C"] * rows), None, as_array(numbers), as_array(given))


def test_scaled_numbers_have_mean_zero_and_width_one():
    values = np.random.default_rng(0).normal(50, 7, (500, 1))
    found = Descriptors(("t",), ()).scaled_by(inputs(values))
    z = found(inputs(values))
    assert abs(float(z.mean())) < 0.02
    assert abs(float(z.std()) - 1) < 0.05


def test_an_odd_number_neither_spoils_the_scale_nor_gets_far():
    values = np.concatenate([np.linspace(0, 1, 999), [1e30]])[:, None]
    found = Descriptors(("t",), ()).scaled_by(inputs(values))
    z = found(inputs(values))
    assert float(z[:-1].std()) > 0.9
    assert float(z[-1]) == 5.0
    assert float(found(inputs([[-1e30]]))) == -5.0


def test_a_rare_value_still_counts():
    values = np.zeros((1000, 1))
    values[0] = 1
    found = Descriptors(("t",), ()).scaled_by(inputs(values))
    assert float(found(inputs([[1.0]]))) == 5.0


def test_a_constant_column_says_nothing_whatever_comes_later():
    found = Descriptors(("t", "u"), ()).scaled_by(inputs([[3, 0], [3, 1]]))
    assert found.constant == ["t"]
    assert found(inputs([[77, 0.5]])).tolist() == [[0.0, 0.0]]


def test_where_rdkit_has_no_number_the_mean_stands():
    found = Descriptors((), ("MolWt", "Never")).scaled_by(inputs(numbers=[[1, np.nan], [3, np.nan], [np.nan, np.nan]]))
    assert found(inputs(numbers=[[np.nan, 4.0], [3.0, np.nan]])).tolist()[0] == [0.0, 0.0]


def test_plain_data_and_back():
    found = Descriptors(("t",), ("MolWt",)).scaled_by(inputs([[1], [2]], [[3], [5]]))
    table = json.loads(json.dumps(found.to_dict()))
    assert Descriptors.from_dict(table) == found
    for bad in ({"mean": [1.0]}, {"scale": [float("nan")] * 2}, {"columns": [1]}, {"columns": [], "names": []}):
        with pytest.raises(ValueError, match="no descriptors"):
            Descriptors.from_dict({**table, **bad})


@pytest.fixture(scope="module")
def table(molecules, tmp_path_factory):
    """A target that is a number beside the molecule, with a hint of the molecule."""
    draw = np.random.default_rng(0)
    rows = [(s, t := round(draw.normal(300, 20), 2), round(t / 20 + 0.01 * len(s), 3)) for s, _ in molecules[:90]]
    return write(tmp_path_factory.mktemp("beside") / "beside.csv", ("smiles", "t", "y"), rows)


@pytest.fixture(scope="module")
def trained(table, tmp_path_factory):
    settings = Settings(
        ensemble=1, epochs=40, changes=(*TINY, "train.lr=0.02", "trees.count=5"), descriptor_columns=("t",)
    )
    out = tmp_path_factory.mktemp("descriptors") / "model"
    return train_table(read_table(table, "smiles", "y"), out, settings, device="cpu", progress=False)


def test_network_and_trees_learn_from_the_column(trained, molecules):
    assert isinstance(trained.model.members[0].readout, Joined)
    assert trained.model.trees.columns.given == ("t",)
    smiles = [s for s, _ in molecules[:20]]
    cold, warm = (trained.model.predict(trained.model.inputs(smiles, [[t]] * 20)).parts for t in (260, 340))
    assert float((warm["network"] - cold["network"]).mean()) > 0.5
    assert float((warm["trees"] - cold["trees"]).mean()) > 0


def test_a_saved_model_predicts_the_same_bits(trained, molecules):
    smiles, numbers = [s for s, _ in molecules[:20]], [[280 + i] for i in range(20)]
    again = MoleculeModel.load(trained.folder)
    assert again.descriptors == trained.model.descriptors
    assert torch.equal(*(m.predict(m.inputs(smiles, numbers)).mean for m in (again, trained.model)))
    other = again.predict(again.inputs(smiles, [[n + 15] for [n] in numbers])).mean
    assert bool((other > again.predict(again.inputs(smiles, numbers)).mean).double().mean() > 0.9)


def test_numbers_that_are_missing_are_asked_for(trained):
    for call in (trained.model.predict, lambda smiles: explain(trained.model, smiles)):
        with pytest.raises(CwnetError, match="a table that has the columns t"):
            call(["CCO"])
    with pytest.raises(CwnetError, match="must be finite"):
        trained.model.inputs(["CCO"], [[np.nan]])
    with pytest.raises(CwnetError, match="gives no fingerprints"):
        trained.model.embed(["CCO"])


def test_contributions_of_cells_and_descriptors_add_up(trained):
    [found] = explain(trained.model, ["Cc1ccccc1O"], numbers=[[340.0]])
    assert found.total == pytest.approx(found.value - found.baseline, rel=0.02)
    network = replace(trained.model, trees=None, reference=None)
    said = network.predict(network.inputs(["Cc1ccccc1O"], [[340.0]])).mean
    assert found.value == pytest.approx(float(said), rel=1e-4)
    assert found.descriptors["t"] > 0.1
    assert found.sums["descriptors"] == pytest.approx(sum(found.descriptors.values()))
    assert len(found.descriptors) == len(trained.model.descriptors.labels)


def test_at_the_mean_a_descriptor_contributes_nothing(trained):
    mean = trained.model.descriptors.mean[0]
    [found] = explain(trained.model, ["CCO"], numbers=[[mean]])
    assert abs(found.descriptors["t"]) < 1e-4


def test_a_model_without_descriptors_is_written_as_before(regression):
    body = json.loads((regression.folder / "model.json").read_text())
    assert (body["version"], "descriptors" in body, "given" in body["trees"]) == (3, False, False)


def test_descriptors_that_are_not_the_networks_are_refused(trained, tmp_path):
    ours = trained.model.descriptors
    more = replace(ours, columns=("t", "u"), mean=ours.mean * 2, scale=ours.scale * 2)
    replace(trained.model, descriptors=more).save(tmp_path / "broken")
    with pytest.raises(CwnetError, match="complex_x is"):
        MoleculeModel.load(tmp_path / "broken")
