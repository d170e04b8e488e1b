"""What a run leaves behind, and what it shows on the way."""

import csv
import io
import json
import math
import statistics
import tomllib

import pytest

from cwnet.train import Recipe, fit
from cwnet.train._about import commit
from cwnet.train._display import Display, describe
from cwnet.train._run import Progress
from tests.train import tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    recipe = tiny.recipe(train={"seeds": [1, 2], "epochs": 3, "report": "best"})
    results = fit(recipe, dataset=tiny.dataset(), out=out, progress=False, device="cpu")
    return out, results


def rows(path):
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_recipe(folder):
    out, _ = folder
    saved = Recipe.from_dict(tomllib.loads((out / "recipe.toml").read_text()))
    assert saved.train.seeds == (1, 2)
    assert (saved.train.loss, saved.train.metric, saved.model.outputs) == ("l1", "mae", 1)
    assert tomllib.loads((out / "seed-2" / "recipe.toml").read_text())["train"]["seeds"] == [2]


def test_run_json(folder, monkeypatch):
    out, results = folder
    body = json.loads((out / "seed-1" / "run.json").read_text())
    result = results[0]
    for key in ("test", "best_epoch", "val_at_best", "test_at_best", "val_at_stop", "test_at_stop", "stopped"):
        assert body[key] == getattr(result, key)
    assert body["epochs"] == 3
    assert body["parameters"] == sum(p.numel() for p in result.model.parameters())
    assert body["split"] == {"train": 41, "val": 9, "test": 10}
    assert set(body["versions"]) == {"cwnet", "python", "torch", "numpy"}
    assert body["hardware"]["device"] == "cpu"
    assert body["engine"] == {"kind": "eager"}
    assert 0 < body["seconds_per_epoch"] <= body["seconds"]
    assert len(body["history"]) == 3
    monkeypatch.setenv("CWNET_COMMIT", "abc")
    assert commit() == "abc"


def test_curves(folder):
    out, results = folder
    table = rows(out / "seed-1" / "curves.csv")
    assert list(table[0]) == ["epoch", "lr", "loss", "val", "test", "seconds"]
    assert [float(row["val"]) for row in table] == [row["val"] for row in results[0].history]
    assert (out / "seed-1" / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_predictions(folder):
    out, results = folder
    table = rows(out / "seed-1" / "predictions.csv")
    assert list(table[0]) == ["complex", "target", "prediction"]
    assert [int(row["complex"]) for row in table] == list(tiny.TEST)
    errors = [abs(float(row["target"]) - float(row["prediction"])) for row in table]
    assert statistics.fmean(errors) == pytest.approx(results[0].test)


def test_summary(folder):
    out, results = folder
    body = json.loads((out / "summary.json").read_text())
    tests = [result.test for result in results]
    assert body["test"] == {
        "mean": pytest.approx(statistics.fmean(tests)),
        "std": pytest.approx(statistics.stdev(tests)),
        "min": min(tests),
        "max": max(tests),
        "n": 2,
    }
    assert [run["seed"] for run in body["runs"]] == [1, 2]


def test_nothing_is_written_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fit(tiny.recipe(train={"epochs": 1}), dataset=tiny.dataset(), progress=False, device="cpu")
    assert not list(tmp_path.iterdir())


def test_no_test_part(tmp_path):
    data = tiny.dataset(splits=(tiny.Split(tiny.TRAIN, tiny.VAL, []),))
    [result] = fit(tiny.recipe(train={"epochs": 1}), dataset=data, out=tmp_path, progress=False, device="cpu")
    assert result.test is None
    assert math.isfinite(result.val_at_stop)
    assert not (tmp_path / "predictions.csv").exists()
    assert (tmp_path / "curves.png").exists()


# ------------------------------------------------------------------------------------------------ on the way


def progress(**values):
    base = {"epoch": 12, "loss": 0.30211, "val": 0.2843, "best": 0.279, "lr": 1e-3, "rate": 8410.2, "seconds": 24.0}
    return Progress("seed 0", 1000, "mae", **{**base, **values})


def test_a_line():
    assert describe(progress()) == (
        "epoch 12/1000  loss 0.3021  mae 0.2843 (best 0.2790)  lr 0.001  8,410/s  33 min left"
    )
    assert describe(progress(stopped="all epochs are done")).endswith("24 s, all epochs are done")
    assert describe(progress(val=None, best=None, test=0.5)).count("test mae 0.5000") == 1
    assert describe(Progress("seed 0", 5, "mae", lr=0.1)) == "epoch 0/5  lr 0.1"


def test_plain_lines_come_now_and_then(capsys, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("cwnet.train._display.time.monotonic", lambda: clock[0])
    with Display(1) as display:
        for epoch in range(100):
            display.update(progress(epoch=epoch, batch=3))
            display.update(progress(epoch=epoch, batch=4))
            clock[0] += 0.5
        display.update(progress(epoch=100, stopped="all epochs are done"))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("seed 0: epoch 1/")
    assert "all epochs are done" in lines[-1]
    assert 8 <= len(lines) <= 14


def test_lines_that_stay_in_their_place(monkeypatch):
    from rich.console import Console

    screen = io.StringIO()
    monkeypatch.setattr("sys.stderr", Terminal(screen))
    monkeypatch.setattr("rich.console.Console", lambda **_: Console(file=screen, force_terminal=True, width=150))
    with Display(2) as display:
        for name in ("seed 0", "seed 1"):
            some = progress()
            some.name = name
            display.update(some)
            display._drawn = 0.0
    shown = screen.getvalue()
    assert "seed 0" in shown
    assert "seed 1" in shown
    assert "mae 0.2843" in shown


class Terminal(io.StringIO):
    def __init__(self, screen):
        super().__init__()
        self.screen = screen

    def isatty(self):
        return True


def test_tensorboard(tmp_path):
    from importlib.util import find_spec

    from cwnet.train import TrainingError

    data, recipe = tiny.dataset(), tiny.recipe(train={"epochs": 2})
    if find_spec("tensorboard") is None:
        with pytest.raises(TrainingError, match=r"pip install cwnet\[tensorboard\]"):
            fit(recipe, dataset=data, out=tmp_path, progress=False, device="cpu", tensorboard=True)
    else:
        fit(recipe, dataset=data, out=tmp_path, progress=False, device="cpu", tensorboard=True)
        assert list((tmp_path / "tensorboard").glob("events*"))
