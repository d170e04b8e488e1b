"""Checkpoints: a killed run goes on to the same bits, and a damaged file is never trusted."""

import json
import os
import random
import shutil
import signal
import time
import warnings

import pytest
import torch
from safetensors.torch import load_file

from cwnet.train import CheckpointError, TrainingError, _fit, fit, load_model
from cwnet.train._checkpoint import CheckpointWarning, _digest_of, latest, write
from cwnet.train._run import Run
from tests.train import children, tiny

KILLS = 20 if os.environ.get("CWNET_SLOW_TESTS") else 3


def long(data, **changes):
    """A second or two of training, with dropout, averaged weights and a schedule that moves."""
    return tiny.recipe(
        data,
        model={"dropout": 0.2, "head_dropout": 0.3},
        train={"epochs": 6, "ema": 0.9, "clip": 1.0, "checkpoint_every": 2, "report": "best", **changes},
    )


def same_end(a, b):
    """All tensors of the last checkpoints are the same to the bit, and so is the history but for its times."""
    one, two = latest(a), latest(b)
    assert one.tensors.keys() == two.tensors.keys()
    for name, tensor in one.tensors.items():
        assert torch.equal(tensor, two.tensors[name]), name
    assert tiny.without_times(one.body["history"]) == tiny.without_times(two.body["history"])
    for key in ("epoch", "best", "schedule", "stopping", "stopped"):
        assert one.body[key] == two.body[key]


@pytest.fixture(scope="module")
def undisturbed(saved, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed")
    children.warm_up()
    begun = time.monotonic()
    assert children.finish(children.start(long(saved), out)) == [0]
    return out, time.monotonic() - begun


@pytest.mark.parametrize("moment", range(KILLS))
def test_killed_at_a_random_moment(moment, saved, undisturbed, tmp_path):
    whole, seconds = undisturbed
    child = children.start(long(saved), tmp_path)
    # The moments are spread over the run, whatever its speed, and random within their share.
    time.sleep(seconds * (moment + random.Random(moment).random()) / KILLS)
    children.kill(child)
    children.finish(child)
    assert children.finish(children.start(long(saved), tmp_path, resume=True)) == [0]
    same_end(whole, tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_asked_to_stop(number, saved, undisturbed, tmp_path):
    """It finishes its batch, writes a checkpoint in the middle of the epoch, says how to go on, and goes on."""
    child = children.start(long(saved), tmp_path)
    children.wait_for(lambda: latest_name(tmp_path) is not None)
    os.kill(child.pid, number)
    assert children.finish(child) == [128 + number]
    assert "--resume" in (tmp_path / "said-0").read_text()
    assert latest(tmp_path).body["stopped"] is None
    assert children.finish(children.start(long(saved), tmp_path, resume=True)) == [0]
    same_end(undisturbed[0], tmp_path)


def latest_name(out):
    return max((out / "checkpoints").glob("*.json"), default=None)


def test_stopped_between_any_two_batches(tmp_path):
    """Without processes: save after some steps, and go on with another object."""
    data, recipe = tiny.dataset(), long("tiny", epochs=2, checkpoint_every=0)
    whole = finished(Run(recipe, data, out=tmp_path / "whole"))
    for steps in (1, 11, 12, 13):
        first = Run(recipe, data, out=tmp_path / str(steps))
        for _ in zip(range(steps), first.epochs(), strict=False):
            pass
        first.save()
        second = Run(recipe, data, out=tmp_path / str(steps))
        assert second.restore()
        finished(second)
        same_end(whole.out, second.out)


def finished(run):
    for _ in run.epochs():
        pass
    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    fit(tiny.recipe(), dataset=tiny.dataset(), out=out, progress=False, device="cpu")
    return out


class TestDamage:
    @pytest.fixture
    def two(self, whole, tmp_path):
        """A run of four epochs with its last two checkpoints."""
        return shutil.copytree(whole, tmp_path / "two")

    def damage(self, path, how):
        data = bytearray(path.read_bytes())
        if how == "cut in half":
            path.write_bytes(data[: len(data) // 2])
        elif how == "one bit":
            data[len(data) * 2 // 3] ^= 1
            path.write_bytes(data)
        elif how == "empty":
            path.write_bytes(b"")
        else:
            path.unlink()

    @pytest.mark.parametrize("how", ["cut in half", "one bit", "empty", "gone"])
    def test_tensors(self, two, how):
        self.damage(max((two / "checkpoints").glob("*.safetensors")), how)
        self.goes_on_from_epoch_3(two)

    @pytest.mark.parametrize("how", ["cut in half", "one bit", "empty"])
    def test_json(self, two, how):
        self.damage(max((two / "checkpoints").glob("*.json")), how)
        self.goes_on_from_epoch_3(two)

    def goes_on_from_epoch_3(self, two):
        with pytest.warns(CheckpointWarning, match="the one before it is used"):
            assert latest(two).body["epoch"] == 3
        with pytest.warns(CheckpointWarning):
            fit(tiny.recipe(), dataset=tiny.dataset(), out=two, resume=True, progress=False, device="cpu")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert latest(two).body["epoch"] == 4

    def test_all_of_them(self, two):
        for path in (two / "checkpoints").glob("*.safetensors"):
            self.damage(path, "one bit")
        with pytest.warns(CheckpointWarning), pytest.raises(CheckpointError, match="none of the 2 checkpoint"):
            latest(two)

    def test_tensors_without_a_json_file_are_not_a_checkpoint(self, two):
        (two / "checkpoints" / "000009-00000000-abc.safetensors").write_bytes(b"half")
        assert latest(two).body["epoch"] == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"width": 16}}, r"width\w* is 8 there and 16 here"),
        ({"train": {"lr": 0.5}}, r" train\.lr is 0\.01 there and 0\.5 here"),
        ({"schedule": {"kind": "constant"}}, r" schedule\.kind is 'plateau' there"),
        ({"train": {"seeds": [7]}}, "seed is 0 there and 7 here"),
    ],
    ids=["model", "learning rate", "schedule", "seed"],
)
def test_a_checkpoint_of_another_run(changes, message, tmp_path):
    data = tiny.dataset()
    fit(tiny.recipe(train={"epochs": 1}), dataset=data, out=tmp_path, progress=False, device="cpu")
    recipe = tiny.recipe(**{**changes, "train": {"epochs": 1, **changes.get("train", {})}})
    with pytest.raises(CheckpointError, match=message):
        fit(recipe, dataset=data, out=tmp_path, resume=True, progress=False, device="cpu")


def test_a_checkpoint_of_other_data(tmp_path):
    recipe = tiny.recipe(train={"epochs": 1})
    fit(recipe, dataset=tiny.dataset(), out=tmp_path, progress=False, device="cpu")
    with pytest.raises(CheckpointError, match=r"data\.cells\[0\] is \d+ there"):
        fit(recipe, dataset=tiny.dataset(seed=5), out=tmp_path, resume=True, progress=False, device="cpu")


def test_more_epochs_may_be_asked_for(tmp_path):
    data = tiny.dataset()
    fit(tiny.recipe(train={"epochs": 2}), dataset=data, out=tmp_path / "a", progress=False, device="cpu")
    [more] = fit(tiny.recipe(), dataset=data, out=tmp_path / "a", resume=True, progress=False, device="cpu")
    [at_once] = fit(tiny.recipe(), dataset=data, out=tmp_path / "b", progress=False, device="cpu")
    assert tiny.without_times(more.history) == tiny.without_times(at_once.history)
    assert tiny.same_weights(more.model, at_once.model)


def test_old_ones_are_pruned(tmp_path):
    fit(tiny.recipe(train={"keep": 3}), dataset=tiny.dataset(), out=tmp_path, progress=False, device="cpu")
    names = sorted(path.name[:6] for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["000002", "000002", "000003", "000003", "000004", "000004"]


def test_the_best_weights_are_in_every_checkpoint(tmp_path):
    recipe = tiny.recipe(train={"epochs": 6, "keep": 1, "report": "best"})
    [result] = fit(recipe, dataset=tiny.dataset(), out=tmp_path, progress=False, device="cpu")
    assert result.best_epoch < 6, "choose another seed: the last epoch is the best"
    assert tiny.same_weights(load_model(tmp_path, "best"), result.model)
    assert not tiny.same_weights(load_model(tmp_path, "last"), result.model)


def test_nothing_is_unpickled(tmp_path):
    fit(tiny.recipe(train={"epochs": 1}), dataset=tiny.dataset(), out=tmp_path, progress=False, device="cpu")
    for path in (tmp_path / "checkpoints").iterdir():
        if path.suffix == ".json":
            json.loads(path.read_text())
        else:
            assert "rng.cpu" in load_file(path)


class TestLoadModel:
    def test_from_nothing_but_its_folder(self, tmp_path):
        data = tiny.dataset()
        [result] = fit(tiny.recipe(train={"ema": 0.8}), dataset=data, out=tmp_path, progress=False, device="cpu")
        model = load_model(tmp_path)
        assert not model.training
        assert torch.equal(model(data.store.batch(tiny.TEST)), result.predictions)

    def test_there_is_none(self, tmp_path):
        with pytest.raises(CheckpointError, match="not the folder of a run"):
            load_model(tmp_path)

    def test_of_several(self, tmp_path):
        recipe = tiny.recipe(train={"epochs": 1, "seeds": [1, 2]})
        fit(recipe, dataset=tiny.dataset(), out=tmp_path, progress=False, device="cpu")
        with pytest.raises(CheckpointError, match="seed-1"):
            load_model(tmp_path)
        assert load_model(tmp_path / "seed-2")

    def test_no_best(self, tmp_path):
        data = tiny.dataset(splits=(tiny.Split(tiny.TRAIN, [], tiny.TEST),))
        recipe = tiny.recipe(train={"epochs": 1}, schedule={"kind": "constant"})
        fit(recipe, dataset=data, out=tmp_path, progress=False, device="cpu")
        with pytest.raises(CheckpointError, match="no best weights"):
            load_model(tmp_path, "best")


def test_a_folder_that_is_taken(tmp_path):
    recipe, data = tiny.recipe(train={"epochs": 1}), tiny.dataset()
    fit(recipe, dataset=data, out=tmp_path, progress=False, device="cpu")
    with pytest.raises(CheckpointError, match="--resume, or choose another --out"):
        fit(recipe, dataset=data, out=tmp_path, progress=False, device="cpu")


def test_weights_that_are_no_numbers_are_not_kept(tmp_path):
    run = Run(tiny.recipe(train={"checkpoint_every": 1}), tiny.dataset(), out=tmp_path)
    steps = run.epochs()
    for _ in range(14):
        next(steps)
    assert latest(tmp_path).body["epoch"] == 1
    with torch.no_grad():
        next(run.steps.model.parameters()).fill_(float("nan"))
    with pytest.raises(TrainingError, match=r"last good checkpoint is .*000001"):
        finished(run)
    assert latest(tmp_path).body["epoch"] == 1


def test_a_setting_that_is_new_has_its_default_in_an_old_checkpoint(tmp_path):
    """As if the checkpoint were from before counts of colours, and before models could read all layers."""
    options = {"dataset": tiny.dataset(), "device": "cpu", "progress": False}
    recipe = tiny.recipe(train={"epochs": 2})
    straight = fit(recipe.changed(["train.epochs=4"]), **options)
    fit(recipe, out=tmp_path, **options)
    kept = latest(tmp_path)
    body = {key: value for key, value in kept.body.items() if key not in ("tensors", "hash")}
    for key in ("counts", "rounds", "jumping"):
        for part in ("recipe", "settings"):
            del body[part]["model"][key]
    del body["model"]["jumping"]
    write(tmp_path, kept.tensors, body, keep=1)
    resumed = fit(recipe.changed(["train.epochs=4"]), out=tmp_path, resume=True, **options)
    assert resumed[0].test == straight[0].test
    assert resumed[0].epochs == 4
    with pytest.raises(CheckpointError, match=r"is of another run: model.* is True there and False here"):
        fit(recipe.changed(["model.jumping=true"]), out=tmp_path, resume=True, **options)


def test_a_signal_that_is_sent_twice_at_once_is_one(monkeypatch):
    """As ``timeout`` does: once to the process and once to its group. One that comes later is not waited for."""
    with _fit._signals() as asked:
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
        assert asked.number == signal.SIGTERM
        monkeypatch.setattr(_fit, "_AT_ONCE", 0.0)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize("value", [2**40, -1, "wide", None, [], {"a": 1}, 0.5])
def test_a_forged_description_is_refused(value, undisturbed, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(undisturbed[0], run)
    newest = max((run / "checkpoints").glob("*.json"))
    body = json.loads(newest.read_text())
    del body["hash"]
    for key in [key for key in body["model"] if key != "class"]:
        body["model"][key] = value
    newest.write_text(json.dumps({**body, "hash": _digest_of(body)}))
    with pytest.raises(CheckpointError, match="describes a model that its weights are not of"):
        load_model(run, "last")
