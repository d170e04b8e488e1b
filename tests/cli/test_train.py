"""`cwnet train`."""

import json

import pytest
from typer.testing import CliRunner

from cwnet.cli import app
from cwnet.cli.train import _next_folder, _read_seeds
from cwnet.data import save_split, save_store
from tests.train import tiny


def run(*arguments):
    return CliRunner().invoke(app, ["train", *map(str, arguments)])


@pytest.fixture
def recipe(tmp_path):
    save_store(tiny.dataset().store, tmp_path / "store")
    save_split(tiny.split(), tmp_path / "store" / "split.json")
    file = tmp_path / "mine.toml"
    file.write_text(tiny.recipe(tmp_path / "store", train={"epochs": 1}).to_toml().replace('name = "run"\n', ""))
    return file


def test_trains(recipe, tmp_path):
    out = tmp_path / "out"
    found = run(recipe, "--out", out, "--device", "cpu", "--seeds", "3,5", "--set", "model.width=4")
    assert found.exit_code == 0, found.output
    assert "seed 3" in found.output
    assert "over 2 runs" in found.output
    assert json.loads((out / "summary.json").read_text())["name"] == "mine"
    assert json.loads((out / "seed-5" / "run.json").read_text())["recipe"]["model"]["width"] == 4
    again = run(recipe, "--out", out, "--device", "cpu", "--seeds", "3,5", "--set", "model.width=4")
    assert (again.exit_code, "--resume, or choose another --out" in again.output) == (2, True)
    resumed = run(recipe, "--out", out, "--device", "cpu", "--seeds", "3,5", "--set", "model.width=4", "--resume")
    assert resumed.exit_code == 0, resumed.output
    other = run(recipe, "--out", out, "--device", "cpu", "--seeds", "3,5", "--resume")
    assert (other.exit_code, "is 4 there and 8 here" in other.output) == (2, True)


def test_a_signal_is_the_exit_code(recipe, tmp_path, monkeypatch):
    from cwnet.train._errors import Interrupted

    def stopped(*_, **__):
        raise Interrupted("stopped by SIGTERM; go on with --resume", 15)

    monkeypatch.setattr("cwnet.train.fit", stopped)
    found = run(recipe, "--out", tmp_path / "out")
    assert found.exit_code == 128 + 15
    assert "go on with --resume" in found.output


def test_folders_are_numbered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(_next_folder("a b/c")) == "runs/a-b-c-1"
    (tmp_path / "runs" / "x-1").mkdir(parents=True)
    assert str(_next_folder("x")) == "runs/x-2"


def test_seeds():
    assert _read_seeds("0-3") == [0, 1, 2, 3]
    assert _read_seeds("3, 5,3") == [3, 5]


def test_list_and_show():
    found = run("--list")
    assert found.exit_code == 0
    assert "zinc-cin-small" in found.output
    shown = run("zinc-cin", "--set", "train.lr=0.5", "--show")
    assert "lr = 0.5" in shown.output
    assert 'kind = "plateau"' in shown.output


def test_help_teaches():
    found = run("--help")
    assert found.exit_code == 0
    for word in ("--resume", "torchrun", "train.lr=1e-3", "runs/NAME-1"):
        assert word in found.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["zinc-cim"], "Did you mean 'zinc-cin'?"),
        (["zinc-cin", "--set", "train.lrr=1"], "Did you mean train.lr?"),
        (["zinc-cin", "--set", "train.lr=fast"], 'train.lr = "fast": it must be a number'),
        (["zinc-cin", "--seeds", "a-b"], "write 0-9, or 3,5"),
        (["zinc-cin", "--seeds", "5-2"], "goes from 5 to 2"),
        (["zinc-cin", "--device", "tpu"], "write auto, cpu or cuda"),
        (["zinc-cin", "--resume"], "--resume needs --out"),
        (["--resume"], "--resume needs --out"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_mistakes_are_one_line(arguments, message):
    found = run(*arguments)
    assert found.exit_code == 2
    assert message in found.output
    assert found.output.count("\n") == 1


def test_several_processes_need_a_folder(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert "several processes need --out" in run("zinc-cin").output
