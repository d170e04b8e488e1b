"""Tables from which little or nothing can be learnt, through the command."""

import csv

import pytest
from typer.testing import CliRunner

pytest.importorskip("rdkit")

from cwnet.chem import nci_smiles
from cwnet.cli import app

SMILES = [s for s in nci_smiles()[:60] if "." not in s][:40]
PARTS = ["train", "train", "train", "val", "test"] * 8


def train(folder, rows, *options):
    path = folder / "t.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([("smiles", "y", "part"), *rows])
    arguments = ["train", str(path), "--target-columns", "y", "--no-network", "--set", "trees.count=5", "-q"]
    return CliRunner().invoke(app, [*arguments, "--out", str(folder / "m"), *options])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([5] * 40, "is the same everywhere, '5'"),
        ([int(part != "train") for part in PARTS], "all molecules of the training part have the same 'y', '0'"),
        ([7 if part == "train" else i for i, part in enumerate(PARTS)], "have the same 'y', 7"),
        (
            ["" if part == "train" else i for i, part in enumerate(PARTS)],
            "there is no molecule for train",
        ),
    ],
    ids=["constant", "one-class", "one-value", "no-value"],
)
def test_nothing_to_learn_is_one_sentence(tmp_path, values, message):
    found = train(tmp_path, zip(SMILES, values, PARTS, strict=True), "--split", "column:part")
    assert found.exit_code != 0
    assert message in " ".join(found.output.split())


@pytest.mark.parametrize(
    ("rows", "options", "note"),
    [
        ([(s, i % 3, "") for i, s in enumerate(SMILES)], (), "has 3 values only"),
        ([(s, i / 2, "") for i, s in enumerate(SMILES[:10])], (), "10 molecules are few"),
        ([("CCO", i / 2, "") for i in range(30)], (), "all rows are one molecule"),
        (
            [(s, int(p != "val" and i % 2), p) for i, (s, p) in enumerate(zip(SMILES, PARTS, strict=True))],
            ("--split", "column:part"),
            "the validation part has one class only of 'y'",
        ),
    ],
    ids=["three-values", "ten", "duplicates", "one-class-to-choose-by"],
)
def test_a_model_where_one_is_possible(tmp_path, rows, options, note):
    found = train(tmp_path, rows, *options)
    assert found.exit_code == 0, found.output
    assert note in " ".join(found.output.split())
    assert (tmp_path / "m" / "report.html").is_file()
    assert CliRunner().invoke(app, ["predict", str(tmp_path / "m"), "CCO"]).exit_code == 0
