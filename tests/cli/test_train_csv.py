"""`cwnet train` on tables of molecules."""

import json

import pytest
from typer.testing import CliRunner

pytest.importorskip("rdkit")

from cwnet.chem import nci_smiles
from cwnet.cli import app

TINY = ("--epochs", "1", "--set", "model.width=8", "--set", "model.layers=1", "--device", "cpu")


def run(*arguments):
    return CliRunner().invoke(app, ["train", *map(str, arguments)])


@pytest.fixture
def table(tmp_path):
    lines = [f"{s},{len(s)},{'yes' if 'N' in s else 'no'}" for s in nci_smiles()[:60]]
    path = tmp_path / "data.csv"
    path.write_text("\n".join(["smiles,length,has_n", *lines]) + "\n")
    return path


def test_a_table_becomes_a_model(table, tmp_path):
    out = tmp_path / "model"
    found = run(table, "--smiles-column", "smiles", "--target-columns", "length", "--out", out, *TINY)
    assert found.exit_code == 0, found.output
    assert "to choose by" in found.output
    assert (out / "model.json").is_file()
    again = run(table, "--target-columns", "length", "--out", out, *TINY)
    assert (again.exit_code, "holds a model already" in again.output) == (2, True)
    resumed = run(table, "--target-columns", "length", "--out", out, "--resume", *TINY)
    assert resumed.exit_code == 0, resumed.output


def test_json_for_machines(table, tmp_path):
    found = run(
        table, "--target-columns", "has_n", "--ensemble", "2", "--balance", "--out", tmp_path / "m", "--json", *TINY
    )
    assert found.exit_code == 0, found.output
    body = json.loads(found.stdout)
    assert body["task"] == "binary"
    assert set(body["split"]) == {"train", "val", "test"}
    assert len(body["epochs"]) == 2


def test_without_a_table_it_takes_rdkits(tmp_path, monkeypatch):
    monkeypatch.setattr("cwnet.molecules._nci.nci_smiles", lambda: nci_smiles()[:60])
    monkeypatch.chdir(tmp_path)
    found = run("-q", *TINY)
    assert found.exit_code == 0, found.output
    assert (tmp_path / "runs" / "nci-1" / "parity.png").is_file()
    assert "penalised_logp" in found.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target-columns", "weight"], "there is no column 'weight'"),
        (["--smiles-column", "SMILE"], "the nearest is 'smiles'"),
        (["--task", "guess"], "write regression or classification"),
        (["--split", "time"], "--split time: write random, scaffold, column:NAME or file:PATH"),
        (["--ensemble", "0"], "ensemble = 0: it must be at least 1"),
        (["--seeds", "0-3"], "several networks are an --ensemble"),
        (["--target-columns", "length,has_n"], "'has_n' has classes and 'length' has numbers"),
        (["--set", "model.widht=1"], "Did you mean model.width"),
        (["--device", "tpu"], "write auto, cpu or cuda"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_mistakes_are_one_line(table, tmp_path, arguments, message):
    found = run(table, "-q", "--out", tmp_path / "m", *arguments)
    assert found.exit_code == 2
    assert message in found.output
    assert found.output.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"smiles,y\nCC,1\nCCC,abc\nCCCC,2\n", "row 3: 'abc' in the column 'y' is not a number"),
        (b"smiles,y\nCC,1\n" + b"\xff\xfe,2\n", "not text in UTF-8"),
        (b"", "the file is empty"),
    ],
    ids=["text-for-number", "not-utf-8", "empty"],
)
def test_tables_that_can_not_be_read(tmp_path, text, message):
    (tmp_path / "t.csv").write_bytes(text)
    found = run(tmp_path / "t.csv", "--target-columns", "y", "--out", tmp_path / "m", "-q")
    assert (found.exit_code, message in found.output) == (2, True), found.output


def test_an_option_of_tables_does_not_go_with_a_recipe():
    found = run("zinc-cin", "--target-columns", "y")
    assert (found.exit_code, "goes with a table of molecules" in found.output) == (2, True)


def test_a_folder_that_can_not_be_written_is_said_first(table, tmp_path):
    (tmp_path / "file").write_text("")
    found = run(table, "--target-columns", "length", "--out", tmp_path / "file" / "m", "-q")
    assert (found.exit_code, "can not be written" in found.output) == (2, True)
