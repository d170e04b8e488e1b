"""Several processes on one run: the same numbers as one, and a clear end when one of them dies."""

import os
import re
import signal
import subprocess
import sys

import pytest
import torch

from cwnet.data import Split, save_split, save_store
from cwnet.train._checkpoint import latest
from tests.train import children, tiny


@pytest.fixture(scope="module")
def holed(tmp_path_factory):
    """Some targets are missing. The last batch has one complex, so that a process gets none."""
    folder = tmp_path_factory.mktemp("data") / "holed"
    data = tiny.dataset()
    y = data.store.y.double()
    y[::4] = float("nan")
    y[3] = float("nan")
    save_store(tiny.with_targets(data.store, y), folder)
    save_split(Split(range(33), range(41, 50), range(50, 60)), folder / "split.json")
    return folder


def recipe(data, **train):
    return tiny.recipe(
        data, train={"epochs": 2, "batch_size": 8, "precision": "float64", "ema": 0.9, "clip": 1.0, **train}
    )


def test_two_processes_are_one(holed, tmp_path):
    """Weights, running averages, Adam's moments, history and predictions, in float64."""
    one, two = tmp_path / "one", tmp_path / "two"
    assert children.finish(children.start(recipe(holed), one), *children.several(recipe(holed), two)) == [0] * 3
    a, b = latest(one), latest(two)
    assert a.tensors.keys() == b.tensors.keys()
    for name, tensor in a.tensors.items():
        if not name.startswith("rng."):
            torch.testing.assert_close(
                b.tensors[name], tensor, rtol=1e-8, atol=1e-10, msg=lambda m, n=name: f"{n}: {m}"
            )
    assert b.tensors["rng.cpu"].shape[0] == 2
    for x, y in zip(a.body["history"], b.body["history"], strict=True):
        assert [y[k] for k in ("loss", "val", "test")] == pytest.approx([x[k] for k in ("loss", "val", "test")])
    assert sorted(p.name for p in two.iterdir()) == sorted(p.name for p in one.iterdir())


def test_cells_have_targets(tmp_path):
    """Predictions of cells are put together in order; a process without any has its part in the norms."""
    options = {"k": 4, "num_train": 9, "num_val": 3, "num_test": 1}
    plan = tiny.recipe(
        "ring-transfer",
        data={"options": options},
        model={"kind": "ring-transfer", "width": 8, "layers": 2},
        train={"epochs": 2, "precision": "float64"},
        schedule={"kind": "constant"},
    )
    one, two = tmp_path / "one", tmp_path / "two"
    assert children.finish(children.start(plan, one), *children.several(plan, two)) == [0] * 3
    torch.testing.assert_close(latest(two).tensors["last"], latest(one).tensors["last"], rtol=1e-8, atol=1e-10)


def test_one_is_killed(saved, tmp_path):
    """Under torchrun: the other says what happened, and the run goes on from its checkpoint."""
    plan = tmp_path / "plan.toml"
    plan.write_text(tiny.recipe(saved, train={"epochs": 500, "batch_size": 20}).to_toml())
    out = tmp_path / "out"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "-m", "cwnet", "train"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    arguments = [str(plan), "--out", str(out), "--device", "cpu"]
    child = subprocess.Popen(command + arguments, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        children.wait_for(lambda: (out / "checkpoints" / "000001-00000000.json").exists(), timeout=100)
        workers = [pid for pid in descendants(child.pid) if environment_of(pid).get("RANK") == "1"]
        os.kill(workers[0], signal.SIGKILL)
        _, said = child.communicate(timeout=100)
    finally:
        child.kill()
    assert child.returncode != 0
    assert re.search(r"error: process 0 of 2 lost another one.*--resume", said), said
    done = latest(out).body["epoch"]
    short = tiny.recipe(saved, train={"epochs": done + 2, "batch_size": 20})
    assert children.finish(*children.several(short, out, resume=True)) == [0, 0]
    assert latest(out).body["epoch"] == done + 2
    assert not list(out.glob("said-*"))


def descendants(pid):
    """Its children and theirs, by Linux's own list."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        below = [int(number) for number in file.read().split()]
    return below + [deeper for each in below for deeper in descendants(each)]


def environment_of(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        pairs = file.read().decode(errors="replace").split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def test_asked_to_stop(saved, tmp_path):
    """One of them is asked; both stop after the same batch, and the run can be resumed."""
    plan = tiny.recipe(saved, train={"epochs": 500, "batch_size": 20})
    both = children.several(plan, tmp_path)
    children.wait_for(lambda: list((tmp_path / "checkpoints").glob("*.json")))
    os.kill(both[1].pid, signal.SIGTERM)
    assert children.finish(*both) == [128 + signal.SIGTERM] * 2
    assert latest(tmp_path).body["stopped"] is None
