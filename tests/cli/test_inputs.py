"""`cwnet train`, `predict` and `explain` with more than one molecule per row: descriptors."""

import csv
import json

import pytest
from typer.testing import CliRunner

pytest.importorskip("rdkit")

from cwnet.chem import nci_smiles
from cwnet.cli import app

TINY = ("--epochs", "1", "--ensemble", "1", "--set", "model.width=8", "--set", "model.layers=1", "--set",
        "trees.count=5", "--device", "cpu", "-q")  # fmt: skip
SMILES = [s for s in nci_smiles()[:80] if "." not in s and "[" not in s]


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def write(path, head, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    return path


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


# ------------------------------------------------------------------------------------------------ descriptors


@pytest.fixture(scope="module")
def beside(tmp_path_factory):
    """A table with a column of numbers, two of whose rows have none, and the model of it."""
    folder = tmp_path_factory.mktemp("beside")
    rows = [[s, 300 + i, len(s) + i / 10] for i, s in enumerate(SMILES)]
    rows[3][1], rows[5][1] = "", "warm"
    table = write(folder / "data.csv", ("smiles", "t", "y"), rows)
    found = run("train", table, "--descriptor-columns", "t", "--descriptors", "rdkit", "--out", folder / "m", *TINY)
    assert found.exit_code == 0, found.output
    return table, folder / "m", found.output


def test_a_column_beside_the_molecule_is_no_target_and_rows_without_it_are_left_out(beside):
    _, model, said = beside
    body = json.loads((model / "model.json").read_text())
    assert (body["targets"]["names"], body["descriptors"]["columns"]) == (["y"], ["t"])
    assert "MolWt" in body["descriptors"]["names"]
    reasons = {int(row["row"]): row["reason"] for row in read(model / "rejects.csv")}
    assert reasons[5] == "the column 't' is empty"
    assert reasons[7] == "'warm' in the column 't' is not a number: correct it or leave it empty"
    assert "rows that could not be read: 2; the first is row 5: the column 't' is empty" in said


def test_predict_asks_for_the_column(beside, tmp_path):
    table, model, _ = beside
    found = run("predict", model, table, "-o", tmp_path / "out.csv")
    assert found.exit_code == 0, found.output
    rows = read(tmp_path / "out.csv")
    assert [row["error"] for row in rows[3:6]] == [
        "the column 't' is empty", "", "'warm' in the column 't' is not a number: correct it or leave it empty"
    ]  # fmt: skip
    assert (rows[3]["y_pred"], bool(rows[4]["y_pred"])) == ("", True)
    without = write(tmp_path / "without.csv", ("smiles",), [["CCO"]])
    found = run("predict", model, without)
    assert (found.exit_code, "needs a column 't' of numbers" in found.output) == (2, True)
    found = run("predict", model, "CCO")
    assert (found.exit_code, "a table that has the columns t" in found.output) == (2, True)


def test_explain_shows_descriptors(beside, tmp_path):
    table, model, _ = beside
    found = run("explain", model, table, "--most", "3", "-o", tmp_path / "page.html", "--json")
    assert found.exit_code == 0, found.output
    body = json.loads(found.stdout)["molecules"][0]
    assert "t" in body["contributions_of_descriptors"]
    total = sum(body[name] for name in ("atoms", "bonds", "rings", "descriptors"))
    assert total + body["baseline"] + body["missing"] == pytest.approx(body["prediction"])
    assert "<td>descriptor</td>" in (tmp_path / "page.html").read_text()
    said = run("explain", model, table, "--most", "1", "-o", tmp_path / "page.html")
    assert "descriptor" in said.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--descriptor-columns", "T"], "there is no column 'T'; the nearest is 't'"),
        (["--descriptor-columns", "y", "--target-columns", "y"], "'y' is one that the model sees"),
        (["--descriptor-columns", "name"], "no row has all descriptors; row 2: 'a' in the column 'name' is not a number"),
        (["--descriptors", "mordred"], "write rdkit"),
        (["--descriptors", "rdkit", "--no-network"], "trees see them anyway"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_mistakes_with_descriptors(tmp_path, arguments, message):
    table = write(tmp_path / "data.csv", ("smiles", "t", "y", "name"), [[s, 1, len(s), "a"] for s in SMILES])
    found = run("train", table, "--smiles-column", "smiles", "--out", tmp_path / "m", *arguments, *TINY)
    assert (found.exit_code, message in found.output) == (2, True), found.output


def test_a_recipe_has_no_descriptor_columns():
    found = run("train", "zinc-cin-small", "--descriptor-columns", "t")
    assert (found.exit_code, "--descriptor-columns goes with a table" in found.output) == (2, True)
