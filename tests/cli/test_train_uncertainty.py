"""`cwnet train --uncertainty`, and what predict and explain make of it."""

import csv
import json

import pytest
from typer.testing import CliRunner

pytest.importorskip("rdkit")

from cwnet.chem import nci_smiles
from cwnet.cli import app

TINY = ("--epochs", "1", "--ensemble", "1", "--set", "model.width=8", "--set", "trees.count=5", "--device", "cpu", "-q")


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def table(tmp_path):
    lines = [f"{s},{len(s)},{'yes' if 'N' in s else 'no'}" for s in nci_smiles()[:150]]
    path = tmp_path / "data.csv"
    path.write_text("\n".join(["smiles,length,has_n", *lines]) + "\n")
    return path


@pytest.mark.parametrize("kind", ["quantile", "mve"])
def test_from_a_table_to_intervals(kind, table, tmp_path):
    out = tmp_path / "model"
    found = run("train", table, "--target-columns", "length", "--uncertainty", kind, "--out", out, *TINY)
    assert found.exit_code == 0, found.output
    assert "intervals of 80% held" in found.output
    assert json.loads((out / "metrics.json").read_text())["coverage"]["80%"]["length"]["width"] > 0
    said = run("predict", out, table, "-o", tmp_path / "out.csv", "--interval", "0.8")
    assert said.exit_code == 0, said.output
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert all(
        float(r["length_low"]) < float(r["length_pred"]) < float(r["length_high"]) for r in rows if not r["error"]
    )
    [one] = json.loads(run("explain", out, "CCO", "-o", tmp_path / "x.svg", "--json").stdout)["molecules"]
    assert one["target"] == "length"


def test_what_is_refused(table, tmp_path):
    def refused(*given):
        found = run("train", table, "--out", tmp_path / "m", *TINY, *given)
        assert found.exit_code == 2
        assert not (tmp_path / "m").exists()
        return " ".join(found.output.split())

    numbers = ("--target-columns", "length")
    assert "write one of conformal, ensemble, quantile, mve" in refused(*numbers, "--uncertainty", "bayes")
    assert "leave out --no-network" in refused(*numbers, "--uncertainty", "mve", "--no-network")
    classes = refused("--target-columns", "has_n", "--uncertainty", "conformal")
    assert "is for numbers: the probabilities of classes are calibrated already" in classes
    recipe = run("train", "zinc-cin-small", "--uncertainty", "mve", "--out", tmp_path / "m")
    assert "--uncertainty goes with a table" in " ".join(recipe.output.split())
