"""`cwnet predict`."""

import json

import pytest
from typer.testing import CliRunner

pytest.importorskip("rdkit")

from cwnet.cli import app
from tests.molecules.conftest import binary, labels, molecules, numbers, regression  # noqa: F401


def run(*arguments):
    return CliRunner().invoke(app, ["predict", *map(str, arguments)])


def test_one_molecule(regression):  # noqa: F811
    found = run(regression.folder, "CCO")
    assert found.exit_code == 0, found.output
    assert "logP_pred" in found.output
    body = json.loads(run(regression.folder, "CCO", "c1ccccc1", "--interval", "0.5", "--json").stdout)
    assert [row["smiles"] for row in body] == ["CCO", "c1ccccc1"]
    assert body[0]["logP_low"] < body[0]["logP_pred"] < body[0]["logP_high"]


def test_a_table(binary, labels, tmp_path):  # noqa: F811
    found = run(binary.folder, labels, "-o", tmp_path / "out.csv", "--json")
    assert found.exit_code == 0, found.output
    counts = json.loads(found.stdout)
    assert counts["predicted"] + 1 == len((tmp_path / "out.csv").read_text().splitlines())
    said = run(binary.folder, labels, "-o", tmp_path / "out.csv")
    assert "molecules predicted" in said.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["CC("], "SMILES 'CC(' does not parse"),
        (["CC", "-o", "x.csv"], "goes with a table"),
        (["nothing.csv", "-o", "x.csv"], "nothing.csv: there is no such file"),
        (["CC", "--interval", "0.999"], "too few for intervals"),
        (["CC", "--device", "tpu"], "write auto, cpu or cuda"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_mistakes_are_one_line(regression, tmp_path, monkeypatch, arguments, message):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    found = run(regression.folder, *arguments)
    assert (found.exit_code, message in found.output, found.output.count("\n")) == (2, True, 1), found.output


def test_a_folder_that_is_no_model(tmp_path):
    found = run(tmp_path, "CCO")
    assert (found.exit_code, "is not a model" in found.output) == (2, True)


def test_help_teaches():
    found = run("--help")
    assert "cwnet predict model data.csv -o out.csv" in " ".join(found.output.split())
