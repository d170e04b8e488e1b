"""`cwnet train`, `predict` and `explain` with descriptors, with several molecules per row, and with reactions."""

import csv
import json

import pytest
from typer.testing import CliRunner

pytest.importorskip("rdkit")

from cwnet.chem import nci_smiles
from cwnet.cli import app

TINY = ("--epochs", "1", "--ensemble", "1", "--set", "model.width=8", "--set", "model.layers=1", "--set",
        "trees.count=5", "--set", "trees.descriptors=false", "--device", "cpu", "-q")  # fmt: skip
SMILES = [s for s in nci_smiles()[:45] if "." not in s and "[" not in s]


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
        (
            ["--descriptor-columns", "name", "--target-columns", "y"],
            "row 2: 'a' in the column 'name' is not a number",
        ),
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


# ------------------------------------------------------------------------------------------------ several molecules


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """A table of two molecules per row, one of which is broken, and the model of it."""
    folder = tmp_path_factory.mktemp("pairs")
    rows = [[s, t, len(s) - len(t)] for s, t in zip(SMILES, SMILES[::-1], strict=True)]
    rows[4][1] = "C("
    table = write(folder / "data.csv", ("solute", "solvent", "y"), rows)
    found = run("train", table, "--smiles-columns", "solute,solvent", "--out", folder / "m", *TINY)
    assert found.exit_code == 0, found.output
    return table, folder / "m"


def test_a_broken_second_molecule_rejects_its_row(pairs):
    _, model = pairs
    assert json.loads((model / "model.json").read_text())["targets"]["names"] == ["y"]
    [reject] = read(model / "rejects.csv")
    assert (reject["row"], reject["reason"].startswith("solvent: SMILES 'C(' does not parse")) == ("6", True)


def test_predict_finds_both_columns(pairs, tmp_path):
    table, model = pairs
    assert run("predict", model, table, "-o", tmp_path / "out.csv").exit_code == 0
    rows = read(tmp_path / "out.csv")
    assert rows[4]["error"].startswith("solvent: SMILES 'C(' does not parse")
    assert (rows[0]["error"], bool(rows[0]["y_pred"]), rows[0]["outside"]) == ("", True, "no")
    typed = json.loads(run("predict", model, f"{rows[0]['solute']},{rows[0]['solvent']}", "--json").stdout)
    assert typed[0]["y_pred"] == pytest.approx(float(rows[0]["y_pred"]), rel=1e-4)
    found = run("predict", model, write(tmp_path / "one.csv", ("solute",), [["CCO"]]))
    assert (found.exit_code, "needs a column 'solvent' of SMILES" in found.output) == (2, True)
    found = run("predict", model, table, "--smiles-column", "solute")
    assert (found.exit_code, "in the columns solute, solvent" in found.output) == (2, True)
    found = run("predict", model, "CCO")
    assert (found.exit_code, "2 are needed, separated by commas: solute, solvent" in found.output) == (2, True)


def test_explain_draws_both(pairs, tmp_path):
    table, model = pairs
    found = run("explain", model, "c1ccccc1O,CCO", "-o", tmp_path / "pair.svg")
    assert found.exit_code == 0, found.output
    assert "of these cells in solvent" in found.output
    found = run("explain", model, table, "--most", "2", "-o", tmp_path / "page.html", "--json")
    assert set(json.loads(found.stdout)["molecules"][0]["molecules"]) == {"solute", "solvent"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--smiles-columns", "solute"], "names two columns or more"),
        (["--smiles-columns", "solute,solvent", "--smiles-column", "solute"], "goes with neither"),
        (["--smiles-columns", "solute,sovlent"], "there is no column 'sovlent'; the nearest is 'solvent'"),
        (["--smiles-columns", "solute,solvent", "--set", "trees.size=16384", "--set", "model.preset=mlp"], "take cin"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_mistakes_with_several_molecules(pairs, tmp_path, arguments, message):
    found = run("train", pairs[0], "--out", tmp_path / "m", *arguments, *TINY)
    assert (found.exit_code, message in found.output) == (2, True), found.output


# ------------------------------------------------------------------------------------------------ reactions


def test_reactions_are_seen_by_their_arrow(tmp_path):
    rows = [[f"[CH3:1][Br:2].{'C' * n}O>>[CH3:1]O{'C' * n}", n] for n in range(1, 31)] + [["CC", 1]]
    table = write(tmp_path / "data.csv", ("reaction", "y"), rows)
    found = run("train", table, "--out", tmp_path / "m", "--descriptors", "rdkit", *TINY)
    assert found.exit_code == 0, found.output
    [reject] = read(tmp_path / "m" / "rejects.csv")
    assert reject["reason"] == "'CC' is not a reaction: write reactants>>products"
    found = run("predict", tmp_path / "m", table, "-o", tmp_path / "out.csv")
    assert found.exit_code == 0, found.output
    assert read(tmp_path / "out.csv")[-1]["error"] == reject["reason"]
    found = run("explain", tmp_path / "m", "CBr>>CO")
    assert (found.exit_code, "reactions are not explained" in found.output) == (2, True)
