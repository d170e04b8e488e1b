"""`cwnet fingerprint`."""

import json

import numpy as np
import pytest
from scipy.sparse import load_npz
from typer.testing import CliRunner

pytest.importorskip("rdkit")

from cwnet.cli import app
from cwnet.molecules import CWLFingerprint
from tests.molecules.conftest import molecules, numbers, regression  # noqa: F401


def run(*arguments):
    return CliRunner().invoke(app, ["fingerprint", *map(str, arguments)])


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("smiles\nCCO\nC(\nc1ccccc1\n")
    return "data.csv"


def test_learnt(regression, table):  # noqa: F811
    found = run(regression.folder, table)
    assert found.exit_code == 0, found.output
    assert "2 molecules, 32 numbers each, 1 row could not be read" in found.output
    assert "Wrote data-fingerprints.npz" in found.output
    assert np.load("data-fingerprints.npz")["fingerprints"].shape == (3, 32)


def test_counts(table):
    found = run("--cwl", table, "-o", "out.npz", "--size", 64, "--rounds", 1, "--rings", "rings:6", "--json")
    assert found.exit_code == 0, found.output
    body = json.loads(found.stdout)
    assert {key: body[key] for key in ("file", "width", "written", "unread")} == {
        "file": "out.npz", "width": 64, "written": 2, "unread": 1,
    }  # fmt: skip
    expected = CWLFingerprint(64, 1, "rings:6").fit_transform(["CCO", "c1ccccc1"]).toarray()
    assert np.array_equal(load_npz("out.npz").toarray()[[0, 2]], expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["CCO"], "CCO is not a table"),
        (["modle", "data.csv"], "modle is not the folder of a model"),
        (["--cwl", "model", "data.csv"], "--cwl takes no model"),
        (["--size", "64", "data.csv"], "--size goes with --cwl"),
        (["--rings", "rings:6", "data.csv"], "--rings goes with --cwl"),
        (["--cwl", "data.csv", "--rings", "ring"], "the rings of the featuriser, 'ring'"),
        (["--cwl", "data.csv", "-o", "a.txt"], "must end in one of .npz .csv .parquet"),
        (["--cwl", "data.csv", "-o", "no/a.npz"], "there is no folder no"),
        (["--cwl", "data.csv", "--smiles-column", "smile"], "the nearest is 'smiles'"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_mistakes_are_one_line(table, arguments, message):
    found = run(*arguments)
    assert (found.exit_code, message in found.output, found.output.count("\n")) == (2, True, 1), found.output


def test_help_teaches():
    assert "cwnet fingerprint --cwl data.csv" in " ".join(run("--help").output.split())
