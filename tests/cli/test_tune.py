"""`cwnet tune`: search settings for a table, and train with what was found."""

import csv
import json
import os
import random
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

pytest.importorskip("rdkit")

from cwnet.chem import nci_smiles
from cwnet.cli import app
from cwnet.train._errors import TrainingError

SMILES = [s for s in nci_smiles()[:60] if "." not in s][:40]
PARTS = ["train", "train", "train", "val", "test"]
#: Candidates that differ in learning rate, dropout, norm and rings, and take a moment each.
SMALL = ("--set", "model.width=8", "--set", "model.layers=1", "--ensemble", "1", "--epochs", "2", "--device", "cpu")
SMALL = (*SMALL, "--split", "column:part", "--target-columns", "length")


@pytest.fixture
def no_picture(monkeypatch):
    """Pictures take longer than all else here."""
    monkeypatch.setattr("cwnet.molecules._tune_plot.plot_trials", lambda *_: None)


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def write(path, change=lambda part, value: value):
    rows = [(s, PARTS[i % 5], change(PARTS[i % 5], len(s))) for i, s in enumerate(SMILES)]
    path.write_text("\n".join(["smiles,part,length", *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "data.csv")


def trials(folder):
    """The journal without what differs from run to run: by candidate and epochs, the figure."""
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    return lines[0], {(line["number"], line["epochs"]): line["figure"] for line in lines[1:]}


def test_a_search_leaves_a_recipe_that_train_takes(table, tmp_path):
    out, model = tmp_path / "tuned", tmp_path / "model"
    found = run("tune", table, "--trials", 4, "--set", "trees.count=10", "--out", out, *SMALL)
    assert found.exit_code == 0, found.output
    assert "4 candidates, rounds of 1, 2 epochs; chosen by the mae of 8 validation molecules" in found.output
    assert {path.name for path in out.iterdir()} == {"recipe.toml", "trials.csv", "trials.png", "journal.jsonl"}
    _, figures = trials(out)
    last = {number: figure for (number, epochs), figure in figures.items() if epochs == 2}
    assert len([1 for _, epochs in figures if epochs == 1]) == 4
    assert set(last) == {0, min((figures[number, 1], number) for number in (1, 2, 3))[1]}
    best = min(last.values())
    assert f"default  {last[0]:.4f}  trial 1: the default settings" in found.output
    assert f"winner  {best:.4f}" in found.output
    rows = list(csv.DictReader((out / "trials.csv").open()))
    assert len(rows) == len(figures)
    assert {"trial", "epochs", "mae", "lr", "dropout", "norm", "rings", "trees", "tries"} <= set(rows[0])
    assert not {"count", "width", "layers", "ensemble"} & set(rows[0])  # these are given
    # The command it ends with gives the model it chose, to the last digit.
    command = found.output.splitlines()[-1].removeprefix("Go on: cwnet ").split()
    trained = run(*command[:-1], model, "--device", "cpu", "--json")  # with trees, and a report
    assert trained.exit_code == 0, trained.output
    assert json.loads(trained.stdout)["parts"]["validation"]["model"]["mean"]["mae"] == pytest.approx(best, rel=1e-5)


def test_the_test_part_is_not_looked_at(table, tmp_path, no_picture):
    chance = random.Random(1)
    garbage = write(tmp_path / "other.csv", lambda part, y: y if part != "test" else chance.uniform(-1e6, 1e6))
    for file, out in ((table, tmp_path / "a"), (garbage, tmp_path / "b")):
        found = run("tune", file, "--trials", 3, "--no-trees", "--rings", "none", "--out", out, *SMALL, "-q")
        assert found.exit_code == 0, found.output
    assert trials(tmp_path / "a") == trials(tmp_path / "b")
    one, two = ((tmp_path / name / "recipe.toml").read_text().partition("[set]")[2] for name in "ab")
    assert one == two


#: The command, which kills itself when three trials are in the journal.
KILLED = """
import os, signal
from cwnet.cli import main
from cwnet.molecules._journal import Journal

def add(journal, trial):
    whole(journal, trial)
    if len(journal.trials) == 3:
        os.kill(os.getpid(), signal.SIGKILL)

whole, Journal.add = Journal.add, add
main()
"""


def test_a_killed_search_goes_on_to_the_same_winner(table, tmp_path, no_picture):
    whole, part = tmp_path / "whole", tmp_path / "part"
    given = ["tune", str(table), "--trials", "4", "--no-trees", "--seed", "3", "--rings", "none", *SMALL, "--out"]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *given, str(part)], env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert len(trials(part)[1]) == 3
    again = run(*given, part)
    assert (again.exit_code, "holds a search already: go on with it by --resume" in again.output) == (2, True)
    resumed, at_once = run(*given, part, "--resume", "--json"), run(*given, whole, "--json")
    assert resumed.exit_code == at_once.exit_code == 0, resumed.output
    kept, wanted = trials(part), trials(whole)
    assert kept[0] == wanted[0]
    assert kept[1] == pytest.approx(wanted[1], rel=1e-5)
    one, two = json.loads(resumed.stdout), json.loads(at_once.stdout)
    assert one["settings"] == two["settings"]
    # What is done is not done again, and the same folder takes more trials.
    before = (part / "journal.jsonl").read_bytes()
    assert run(*given, part, "--resume").exit_code == 0
    assert (part / "journal.jsonl").read_bytes() == before
    more = run(*[word if word != "4" else "5" for word in given], part, "--resume", "--json")
    assert more.exit_code == 0, more.output
    assert kept[1].items() <= trials(part)[1].items()
    other = run(*[word if word != "3" else "2" for word in given], part, "--resume")
    assert (other.exit_code, "was begun with other settings" in other.output) == (2, True)


@pytest.fixture
def figures(monkeypatch, no_picture):
    """Trials without training: the figure is the width less the learning rate, and some fail."""

    class Model:
        def __init__(self, settings):
            values = dict(change.split("=") for change in settings.changes)
            if values["model.dropout"] == "0.25":
                raise TrainingError("the loss is no number")
            figure = float(values["model.width"]) * settings.epochs + float(values["train.lr"])
            self.about = {"parts": {"validation": {"model": {"mean": {"mae": figure}}}}}

    monkeypatch.setattr("cwnet.molecules._tune.learn", lambda *given, **_: Model(given[4]))


def test_a_trial_that_fails_is_noted_and_the_others_go_on(table, tmp_path, figures):
    given = ["tune", table, "--split", "column:part", "--target-columns", "length", "--epochs", 9]
    found = run(*given, "--trials", 30, "--out", tmp_path / "t")
    assert found.exit_code == 0, found.output
    rows = list(csv.DictReader((tmp_path / "t" / "trials.csv").open()))
    failed = [row for row in rows if row["error"]]
    assert {(row["dropout"], row["mae"]) for row in failed} == {("0.25", "")}
    # 30, then the best ten and the default, then the best third of these and the default.
    left = set(range(1, 31))
    for epochs in (1, 3, 9):
        some = {int(row["trial"]): float(row["mae"] or "inf") for row in rows if row["epochs"] == str(epochs)}
        assert set(some) == left
        ranked = sorted((figure, trial) for trial, figure in some.items())
        others = [trial for figure, trial in ranked if trial > 1 and figure < float("inf")]
        left = {1, *others[: -(-len(others) // 3)]}
    assert "winner  {:.4f}  trial {}: ".format(*ranked[0]) in found.output
    without = [row for row in rows if row["trees"] == "False"]
    assert {(row["count"], row["tries"]) for row in without} == {("", "")}


def test_a_round_without_time_has_two_trials(table, tmp_path, figures):
    given = ["--split", "column:part", "--set", "model.dropout=0", "--minutes", 1e-9, "--epochs", 9]
    found = run("tune", table, *given, "--out", tmp_path / "t")
    assert found.exit_code == 0, found.output
    assert {epochs for _, epochs in trials(tmp_path / "t")[1]} == {1, 3, 9}
    assert len(trials(tmp_path / "t")[1]) == 6


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--trials", "1"), "at least two trials"),
        (("--set", "train.epochs=3"), "give the most with --epochs"),
        (("--split", "colum:part"), "--split colum:part"),
        (("--target-columns", "lenght"), "there is no column 'lenght'; the nearest is 'length'"),
        (("--device", "tpu"), "--device tpu"),
    ],
)
def test_mistakes(table, tmp_path, given, message):
    found = run("tune", table, "--out", tmp_path / "t", *given)
    assert (found.exit_code, message in found.output) == (2, True), found.output
    assert not (tmp_path / "t").exists()


def test_a_file_that_is_no_table(tmp_path):
    found = run("tune", "zinc-cin")
    assert (found.exit_code, "zinc-cin is not a table of molecules" in found.output) == (2, True)


@pytest.mark.parametrize("line", ["{", '{"number": 1}', '{"number": 1, "epochs": 1, "wish": {}, "figure": "x"}', "[]"])
def test_a_damaged_journal_is_refused(table, tmp_path, figures, line):
    given = ["tune", table, "--split", "column:part", "--trials", 2, "--out", tmp_path / "t"]
    assert run(*given).exit_code == 0
    journal = tmp_path / "t" / "journal.jsonl"
    journal.write_text("\n".join([*journal.read_text().splitlines()[:2], line]) + "\n")
    found = run(*given, "--resume")
    assert (found.exit_code, "journal.jsonl is damaged in line 3" in found.output) == (2, True), found.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("width = 3", "there is no key 'width' among ensemble, epochs"),
        ("[data]\nname = 'zinc'", "it is a recipe of a network"),
        ("ensemble = true", "ensemble = True: it must be a whole number"),
        ("set = 3", "it must be a section"),
        ("[set]\nmodel.width = 8", "Quote the whole key"),
        ("[set]\n'model.wdth' = 8", "model.wdth"),
        ("ensemble = ", "is not TOML"),
    ],
)
def test_recipes_that_are_none(table, tmp_path, text, message):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(text)
    found = run("train", table, "--recipe", recipe, "--out", tmp_path / "m", "--target-columns", "length", "-q")
    assert (found.exit_code, message in found.output) == (2, True), found.output


def test_a_recipe_goes_with_a_table_that_is_there(table, tmp_path):
    found = run("train", table, "--recipe", tmp_path / "none.toml", "--out", tmp_path / "m")
    assert (found.exit_code, "No such file" in found.output and "cwnet tune wrote" in found.output) == (2, True)
    found = run("train", "zinc-cin", "--recipe", tmp_path / "none.toml")
    assert (found.exit_code, "--recipe goes with a table" in found.output) == (2, True)
