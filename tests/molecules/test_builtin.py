"""The models that come with cwnet, from Python and from the command line."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from cwnet.cli import app
from cwnet.molecules import ModelError, MoleculeModel, _builtin, builtin_model, builtin_models, explain


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def shipped(regression, tmp_path, monkeypatch):
    """A model in the place of those that come with cwnet."""
    shutil.copytree(regression.folder, tmp_path / "models" / "zinc", ignore=shutil.ignore_patterns("training"))
    monkeypatch.setattr(_builtin, "_MODELS", tmp_path / "models")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def test_by_name(shipped):
    assert builtin_models() == ["zinc"]
    assert builtin_model().targets.names == MoleculeModel.load("zinc").targets.names == ("logP", "tpsa")
    with pytest.raises(ModelError, match=r"no model 'qm9' comes with cwnet \(there are zinc\)"):
        builtin_model("qm9")


def test_a_folder_comes_before_a_name(shipped, binary):
    shutil.copytree(binary.folder, "zinc", ignore=shutil.ignore_patterns("training"))
    assert MoleculeModel.load("zinc").targets.names == ("nitrogen",)


def test_verbs_take_it_where_no_folder_is_named(shipped):
    found = run("predict", "c1ccccc1")
    assert found.exit_code == 0, found.output
    assert "Using the model zinc that comes with cwnet, which predicts logP, tpsa." in found.stderr
    assert "logP_pred" in found.stdout
    quiet = run("predict", "c1ccccc1", "CCO", "-q", "--json")
    assert (len(json.loads(quiet.stdout)), quiet.stderr) == (2, "")
    assert "logP_pred" in run("predict", "zinc", "CCO").stdout
    assert "Wrote C6H6.svg" in run("explain", "c1ccccc1").stdout
    with open("data.csv", "w") as file:
        file.write("smiles\nCCO\n")
    assert "Wrote data-fingerprints.npz" in run("fingerprint", "data.csv").stdout
    assert run("predict", "data.csv", "-o", "out.csv").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["modle", "CCO"], "'modle' is neither the folder of a model nor a molecule: SMILES 'modle' does not parse"),
        (["modle", "data.csv"], "modle is not the folder of a model: there is no such folder"),
        (["zinc"], "zinc is taken for the model: name a table of molecules, or SMILES, after it"),
    ],
    ids=["no-model-no-molecule", "no-model", "no-molecule"],
)
def test_mistakes_are_one_line(shipped, arguments, message):
    found = run("predict", *arguments)
    assert (found.exit_code, message in found.output, found.output.count("\n")) == (2, True, 1), found.output


def test_none_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(_builtin, "_MODELS", tmp_path)
    found = run("predict", "CCO")
    assert (found.exit_code, "there is none in this installation" in found.output) == (2, True)


def test_the_one_that_is_there():
    """It knows penalised logP, to which large rings are a cost."""
    model = builtin_model()
    hexane, benzene, macrocycle = model.predict(["CCCCCC", "c1ccccc1", "C1CCCCCCCCCCC1"]).mean[:, 0].tolist()
    assert macrocycle < min(hexane, benzene)
    [found] = explain(model, ["CC(=O)Oc1ccccc1C(=O)O"])
    assert abs(found.missing) <= 0.02 * abs(found.value - found.baseline)
    assert model.embed(["CCO"]).shape[0] == 1
