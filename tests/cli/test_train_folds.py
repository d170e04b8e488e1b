"""`cwnet train` with folds, splits and weights."""

import csv
import json

import pytest
from typer.testing import CliRunner

pytest.importorskip("rdkit")

from cwnet.chem import nci_smiles
from cwnet.cli import app
from cwnet.data import load_split

TINY = ("--epochs", "1", "--ensemble", "1", "--set", "model.width=8", "--set", "trees.count=5", "--set",
        "trees.descriptors=false", "--device", "cpu")  # fmt: skip
SMILES = [s for s in nci_smiles()[:60] if "." not in s]


@pytest.fixture(autouse=True)
def no_report(monkeypatch):
    """It takes longer than all else here."""
    monkeypatch.setattr("cwnet.molecules._report.write_report", lambda *given: None)


def cwnet(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def table(tmp_path):
    lines = [f"{s},{len(s)},{s.count('O')},{1990 + i % 30},{1 + i % 3}" for i, s in enumerate(SMILES)]
    path = tmp_path / "data.csv"
    path.write_text("\n".join(["smiles,length,oxygens,year,trust", *lines]) + "\n")
    return path


def test_folds_become_one_model(table, tmp_path):
    out = tmp_path / "model"
    found = cwnet("train", table, "--target-columns", "length", "--folds", "2", "--out", out, "-q", *TINY)
    assert found.exit_code == 0, found.output
    figures = json.loads((out / "metrics.json").read_text())["test"]["length"]["mae"]
    assert f"{figures['mean']:.4f} ± {figures['std']:.4f}" in found.output
    assert f"The model of all folds is {out}" in found.output
    said = cwnet("predict", out, table, "-o", tmp_path / "p.csv", "-q")
    assert said.exit_code == 0, said.output
    rows = list(csv.DictReader((tmp_path / "p.csv").open()))
    assert {"length_pred", "length_std", "length_low", "length_high", "novelty", "outside"} <= set(rows[0])
    assert len(rows) == len(SMILES)
    each = [json.loads(cwnet("predict", out / f"fold-{i}", "CCO", "--json").stdout)[0] for i in (1, 2)]
    [mean] = json.loads(cwnet("predict", out, "CCO", "--json").stdout)
    assert mean["length_pred"] == pytest.approx(sum(row["length_pred"] for row in each) / 2)
    for verb in (["explain", out, "CCO"], ["fingerprint", out, table, "-o", tmp_path / "f.npz"]):
        refused = cwnet(*verb)
        assert refused.exit_code == 2
        assert f"here, take one of them: {out / 'fold-1'}" in refused.output
    given = ["train", table, "--target-columns", "length", "--folds", "2", "--out", out, "--json", *TINY]
    again = cwnet(*given, "--resume")
    assert json.loads(again.stdout)["test"]["length"]["mae"] == figures
    assert (cwnet(*given).exit_code, "holds a model already" in cwnet(*given).output) == (2, True)


@pytest.mark.parametrize("split", ["cluster:0.6", "kennard-stone", "time:year"])
def test_splits(table, tmp_path, split):
    out = tmp_path / "m"
    found = cwnet("train", table, "--no-network", "--split", split, "--out", out, "-q", *TINY)
    assert found.exit_code == 0, found.output
    body = json.loads((out / "metrics.json").read_text())
    median = body["similarity"]["median"]
    assert f"median similarity of test molecules to the nearest training molecule: {median:.2f}" in found.output
    assert (out / "similarity.png").is_file()
    saved = load_split(out / "split.json", count=len(SMILES))
    assert body["split"] == {"train": len(saved.train), "val": len(saved.val), "test": len(saved.test)}
    if split == "time:year":
        assert "year" not in body["test"]
        years = [1990 + i % 30 for i in range(len(SMILES))]
        assert max(years[i] for i in saved.train) <= min(years[i] for i in saved.test)


def test_weights(table, tmp_path):
    given = ["train", table, "--weight-column", "trust", "--target-weights", "length=2", "-q", *TINY]
    found = cwnet(*given, "--target-columns", "length,oxygens", "--out", tmp_path / "m")
    assert found.exit_code == 0, found.output
    settings = json.loads((tmp_path / "m" / "model.json").read_text())["about"]["settings"]
    assert (settings["weight_column"], settings["target_weights"]) == ("trust", [["length", 2.0]])
    guessed = cwnet(
        "train", table, "--weight-column", "trust", "--no-network", "--json", "--out", tmp_path / "g", *TINY
    )
    assert set(json.loads(guessed.stdout)["test"]) == {"length", "oxygens", "year", "mean"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--folds", "1"], "--folds 1: give at least 2"),
        (["--folds", "99"], f"--folds 99: there are {len(SMILES)} molecules, and each fold needs at least one"),
        (["--folds", "3", "--replicates", "3"], "two ways to train several models: give one of them"),
        (["--folds", "3", "--split", "time:year"], "--folds 3 goes with --split random, scaffold or cluster"),
        (["--split", "cluster:near"], "--split cluster:near: 'near' is not a distance; write cluster"),
        (["--split", "cluster:2"], "a threshold of 2: it is a Tanimoto distance"),
        (["--split", "time:month"], "there is no column 'month'"),
        (["--split", "time:smiles"], f"row 2: the time is {SMILES[0]!r}: write a number, or a date"),
        (["--weight-column", "smiles"], "row 2: the weight in the column 'smiles' is"),
        (["--target-weights", "width=2"], "'width' is not a target: there are 'length'"),
        (["--target-weights", "lenght=2"], "'lenght' is not a target: did you mean 'length'?"),
        (["--target-weights", "length"], "'length' is not NAME=WEIGHT; write a=2,b=1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_one_line(table, tmp_path, arguments, message):
    found = cwnet("train", table, "-q", "--target-columns", "length", "--out", tmp_path / "m", *arguments)
    assert found.exit_code == 2
    assert message in found.output
    assert found.output.count("\n") == 1


def test_options_of_tables_do_not_go_with_a_recipe():
    for option in (["--folds", "3"], ["--weight-column", "w"], ["--target-weights", "a=1"]):
        found = cwnet("train", "zinc-cin", *option)
        assert (found.exit_code, f"{option[0]} goes with a table of molecules" in found.output) == (2, True)
