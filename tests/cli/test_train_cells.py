"""`cwnet train --target-level`, and what the other verbs make of it."""

import csv
import json

import pytest
from typer.testing import CliRunner

pytest.importorskip("rdkit")

from cwnet.chem import nci_smiles
from cwnet.chem._read import parse
from cwnet.cli import app

TINY = ("--epochs", "1", "--ensemble", "1", "--set", "model.width=8", "--set", "trees.count=5", "--device", "cpu", "-q")
SMILES = [s for s in nci_smiles()[:90] if "." not in s]


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "data.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("smiles", "mass", "order", "size"))
        for text in SMILES:
            mol = parse(text)
            mass = [atom.GetMass() for atom in mol.GetAtoms()]
            order = [bond.GetBondTypeAsDouble() for bond in mol.GetBonds()]
            writer.writerow((text, json.dumps(mass), json.dumps(order), mol.GetNumAtoms()))
    return path


@pytest.mark.parametrize(("level", "column"), [("atom", "mass"), ("bond", "order")])
def test_lists_in_and_lists_out(level, column, table, tmp_path):
    out = tmp_path / "model"
    found = run("train", table, "--target-level", level, "--target-columns", column, "--out", out, *TINY)
    assert found.exit_code == 0, found.output
    assert f"note: {level}s are predicted by the network alone" in found.output
    assert {"mae", "rmse", "r2"} <= json.loads((out / "metrics.json").read_text())["test"][column].keys()
    said = run("predict", out, table, "-o", tmp_path / "out.csv")
    assert said.exit_code == 0, said.output
    for row in csv.DictReader((tmp_path / "out.csv").open()):
        lengths = {len(json.loads(row[name])) for name in (column, f"{column}_pred", f"{column}_low", f"{column}_high")}
        assert len(lengths) == 1
    [one] = json.loads(run("predict", out, "CCO", "--json").stdout)
    assert len(one[f"{column}_pred"]) == {"atom": 3, "bond": 2}[level]
    numbers = ", ".join(f"{number:.6g}" for number in one[f"{column}_pred"])
    assert f"CCO\n  {column}_pred  [{numbers}]\n" in run("predict", out, "CCO").stdout
    refused = run("explain", out, "CCO", "-o", tmp_path / "x.svg")
    assert (refused.exit_code, "one by one" in refused.output) == (2, True)
    assert run("fingerprint", out, "CCO").exit_code == 2


def test_what_is_refused(table, tmp_path):
    def refused(*given):
        found = run("train", table, "--out", tmp_path / "m", *TINY, *given)
        assert found.exit_code == 2, found.output
        return " ".join(found.output.split())

    assert "write one of molecule, atom, bond" in refused("--target-level", "ring")
    assert "leave out --no-network" in refused("--target-level", "atom", "--no-network")
    assert "--task regression is for molecules" in refused("--target-level", "atom", "--task", "regression")
    size = parse(SMILES[0]).GetNumAtoms()
    assert f"row 2: '{size}' in the column 'size' is a number" in refused(
        "--target-level", "atom", "--target-columns", "size"
    )
    assert "bonds: write one for each" in refused("--target-level", "bond", "--target-columns", "mass")
    assert "--target-level that these are numbers of atoms or bonds" in refused("--target-columns", "mass")
    lone = run("train", "--target-level", "atom", "--out", tmp_path / "n")
    assert "--target-level goes with a table: name one" in " ".join(lone.output.split())
