"""`cwnet train` on tables of molecules."""

import json
import os
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

pytest.importorskip("rdkit")

from cwnet.chem import nci_smiles
from cwnet.cli import app

TINY = ("--epochs", "1", "--set", "model.width=8", "--set", "model.layers=1", "--device", "cpu")


def run(*arguments):
    return CliRunner().invoke(app, ["train", *map(str, arguments)])


SMILES = nci_smiles()[:60]


@pytest.fixture
def table(tmp_path):
    lines = [f"{s},{len(s)},{'yes' if 'N' in s else 'no'}" for s in SMILES]
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


#: The command, which kills itself when the second network has its first checkpoint.
KILLED_AT_A_CHECKPOINT = """
import os, signal
from cwnet.cli import main
from cwnet.train import _checkpoint

def write(run, *arguments):
    path = whole(run, *arguments)
    if run.name == "seed-1":
        os.kill(os.getpid(), signal.SIGKILL)
    return path

whole, _checkpoint.write = _checkpoint.write, write
main()
"""


def test_a_killed_training_goes_on_to_the_same_bytes(table, tmp_path):
    given = [table, "--target-columns", "length", "-q", "--epochs", "8", *TINY[2:]]
    given = list(map(str, [*given, "--ensemble", "2", "--set", "train.batch_size=4"]))
    whole, part = tmp_path / "whole", tmp_path / "part"

    def train(*arguments):
        # Sums are of other bits on another number of threads, so all processes have the same.
        command = [sys.executable, *arguments[:2], "train", *given, "--out", *map(str, arguments[2:])]
        return subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False).returncode

    assert train("-m", "cwnet", whole) == 0
    assert train("-c", KILLED_AT_A_CHECKPOINT, part) == -signal.SIGKILL
    assert not (part / "model.json").exists()
    early = CliRunner().invoke(app, ["predict", str(part), "CC"])
    assert (early.exit_code, "its training has not ended: go on with --resume" in early.output) == (2, True)
    assert train("-m", "cwnet", part, "--resume") == 0
    for file in ("weights.safetensors", "metrics.json", "predictions.csv", "split.json"):
        assert (part / file).read_bytes() == (whole / file).read_bytes(), file


def test_a_signal_is_the_exit_code(table, tmp_path, monkeypatch):
    from cwnet.train._errors import Interrupted

    def stopped(*_, **__):
        raise Interrupted(f"stopped by SIGTERM; go on with --resume from {tmp_path / 'm' / 'training'}", 15)

    monkeypatch.setattr("cwnet.molecules._train.train_table", stopped)
    found = run(table, "--target-columns", "length", "--out", tmp_path / "m", "-q")
    assert found.exit_code == 128 + 15
    assert found.output == f"stopped by SIGTERM; {tmp_path / 'm'} goes on with --resume\n"


def test_replicates(table, tmp_path):
    given = [table, "--target-columns", "length", "--replicates", "3", "--out", tmp_path / "m", *TINY]
    found = run(*given, "-q")
    assert found.exit_code == 0, found.output
    body = json.loads((tmp_path / "m" / "replicates.json").read_text())
    each = [tmp_path / "m" / name for name in body["folders"]]
    splits = {(folder / "split.json").read_text() for folder in each}
    assert len(splits) == 3
    values = [json.loads((folder / "metrics.json").read_text())["test"]["length"]["mae"] for folder in each]
    figures = body["test"]["length"]["mae"]
    assert figures["values"] == values
    assert figures["mean"] == pytest.approx(sum(values) / 3)
    assert f"{figures['mean']:.4f} ± {figures['std']:.4f}" in found.output
    assert CliRunner().invoke(app, ["predict", str(each[2]), "CC"]).exit_code == 0
    again = run(*given, "--resume", "--json")
    assert json.loads(again.stdout)["test"] == body["test"]
    assert (run(*given).exit_code, "holds a model already" in run(*given).output) == (2, True)


def test_an_ensemble_of_classes_with_gaps(tmp_path):
    """From a table with missing labels to predicted probabilities with their spread."""
    lines = [f"{s},{int('N' in s) if i % 5 else ''},{int('O' in s) if i % 3 else ''}" for i, s in enumerate(SMILES)]
    (tmp_path / "data.csv").write_text("\n".join(["smiles,n,o", *lines]) + "\n")
    out = tmp_path / "model"
    found = run(tmp_path / "data.csv", "--ensemble", "2", "--balance", "--out", out, "--json", *TINY)
    assert found.exit_code == 0, found.output
    body = json.loads(found.stdout)
    assert (body["task"], len(body["epochs"])) == ("multilabel", 2)
    said = CliRunner().invoke(app, ["predict", str(out), "CCN", "--json"])
    [row] = json.loads(said.stdout)
    assert {"n_pred", "n_p(1)", "n_p(1)_std", "o_pred"} <= set(row)
    assert 0 <= row["n_p(1)"] <= 1


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
        (
            ["--split", "time"],
            "--split time: write random, scaffold, cluster, kennard-stone, time:COLUMN, column:NAME or file:PATH",
        ),
        (["--ensemble", "0"], "ensemble = 0: it must be at least 1"),
        (["--seeds", "0-3"], "several networks are an --ensemble"),
        (["--replicates", "1"], "--replicates 1: give at least 2"),
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
        (b"\xff\xfe,y\nCC,1\n", "not text in UTF-8"),
        (b"", "the file is empty"),
        (b"smiles,y\n" + b"".join(b"%s,yes\n" % (b"C" * n) for n in range(1, 21)), "has one class only, 'yes'"),
        (b"smiles,y\nCC,1\nCCC,3\nCCCC,2\n", "there are 3 molecules with targets, and at least 10 are needed"),
    ],
    ids=["text-for-number", "not-utf-8", "empty", "one-class", "few"],
)
def test_tables_that_can_not_be_read(tmp_path, text, message):
    (tmp_path / "t.csv").write_bytes(text)
    found = run(tmp_path / "t.csv", "--target-columns", "y", "--out", tmp_path / "m", "-q")
    assert (found.exit_code, message in found.output) == (2, True), found.output


def test_salts_and_giants_are_told_of(table, tmp_path):
    with table.open("a") as file:
        file.write("[Na+].[Cl-],7,no\n" + "C" * 501 + ",8,no\n")
    found = run(table, "--target-columns", "length", "--out", tmp_path / "m", "--json", *TINY)
    assert found.exit_code == 0, found.output
    notes = " ".join(json.loads(found.stdout)["notes"])
    assert "molecules of several fragments, such as salts, are taken whole" in notes
    assert "501 atoms" in notes
    assert "501 atoms" in (tmp_path / "m" / "rejects.csv").read_text()


def test_an_option_of_tables_does_not_go_with_a_recipe():
    found = run("zinc-cin", "--target-columns", "y")
    assert (found.exit_code, "goes with a table of molecules" in found.output) == (2, True)


def test_a_folder_that_can_not_be_written_is_said_first(table, tmp_path):
    (tmp_path / "file").write_text("")
    found = run(table, "--target-columns", "length", "--out", tmp_path / "file" / "m", "-q")
    assert (found.exit_code, "can not be written" in found.output) == (2, True)
