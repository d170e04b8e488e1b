"""Runs: they learn, they do not look at each other, and they say what is wrong."""

import math
from dataclasses import replace

import pytest
import torch

from cwnet._core import multiplies_bf16
from cwnet.data import Dataset, Split
from cwnet.nn import Module
from cwnet.train import CheckpointError, Recipe, RecipeError, TrainingError, _state, fit, load_model
from cwnet.train._build import build_model, resolve
from cwnet.train._objectives import Objective
from cwnet.train._run import Run
from cwnet.train._steps import EagerSteps
from tests.conftest import there
from tests.train import tiny


def finished(run):
    for _ in run.epochs():
        pass
    return run.result()


def train(recipe, dataset=None, **options):
    return finished(Run(recipe, dataset or tiny.dataset(), **options))


# ------------------------------------------------------------------------------------------------ learning


def test_learns_the_size_of_rings():
    """The target follows from the sizes of ring and tail. Guessing the median is off by 0.9."""
    recipe = tiny.recipe(
        model={"width": 16, "layers": 2},
        train={"epochs": 25, "batch_size": 8, "report": "best"},
        schedule={"kind": "cosine", "patience": 10},
    )
    result = train(recipe)
    assert result.test < 0.45
    assert result.history[-1]["loss"] < result.history[0]["loss"] / 4


@pytest.mark.parametrize(
    ("task", "outputs", "metric", "y", "loss"),
    [
        ("binary", 1, "rocauc", lambda k, tail: [float(k > 4)], "bce"),
        ("multilabel", 2, "ap", lambda k, tail: [float(k > 4), math.nan if tail == 0 else float(tail > 1)], "bce"),
        ("multiclass", 4, "accuracy", lambda k, tail: k - 3, "cross-entropy"),
    ],
    ids=["binary", "multilabel", "multiclass"],
)
def test_tasks(task, outputs, metric, y, loss):
    data = tiny.dataset(task, outputs, metric, seed=2)
    data = replace(data, store=tiny.with_targets(data.store, [y(k, t) for k, t in sizes(data.store)]))
    recipe = tiny.recipe(model={"width": 16, "layers": 2}, train={"epochs": 12, "batch_size": 8})
    result = train(recipe, data)
    assert resolve(recipe, data).train.loss == loss
    assert result.val_at_best > 0.7


def sizes(store):
    """Ring and tail of each graph."""
    rings = store.boundaries[1].sizes.tolist()
    return [(k, int(n) - k) for k, n in zip(rings, store.cell_ptr[0].diff(), strict=True)]


@pytest.mark.parametrize("kind", ["ring-transfer", "ring-transfer-gin"])
def test_targets_of_cells(kind, tmp_path):
    options = {"k": 5, "num_train": 300, "num_val": 40, "num_test": 40}
    table = {
        "data": {"name": "ring-transfer", "options": options},
        "model": {"kind": kind, "width": 32},
        "train": {"epochs": 30, "lr": 0.003, "batch_size": 32},
    }
    [result] = fit(Recipe.from_dict(table), out=tmp_path, progress=False, device="cpu")
    assert result.val_at_best > 0.3, "chance is 0.2"
    assert result.predictions.shape == (40 * 5, 5)
    rows = (tmp_path / "predictions.csv").read_text().splitlines()
    assert rows[0].startswith("complex,cell,target,prediction_0")
    assert len(rows) == 1 + 40 * 5


@pytest.mark.parametrize(
    "model",
    [
        {"kind": "cin++", "shared": False, "jumping": True, "init": "mean"},
        {"kind": "gin", "norm": "layer", "pool": "mean"},
        {"kind": "gin-e", "dropout": 0.5},
        {"kind": "mlp", "act": "elu", "norm": "none", "layers": 2},
        {"kind": "cin", "dim": 1, "edges": "vertices"},
        {"kind": "cin", "vertices": "constant", "edges": "constant", "init": "zeros", "cell_dropout": 0.5},
        {"kind": "cin", "vertices": "ones", "edges": "vertices"},
    ],
    ids=["cin++", "gin", "gin-e", "mlp", "no rings", "no features", "ones"],
)
def test_models(model):
    result = train(tiny.recipe(model=model, train={"epochs": 1}))
    assert math.isfinite(result.test)


class CountsCells(Module):
    """A model that is not of a recipe: a linear map of the numbers of cells."""

    def __init__(self, dims: int):
        super().__init__()
        self.linear = torch.nn.Linear(dims, 1)

    def forward(self, batch):
        return self.linear(torch.stack([ptr.diff() for ptr in batch.cell_ptr], 1).float())


def test_a_model_of_ones_own(tmp_path):
    """It is made anew for every seed, trained, resumed, and loaded by what it was made with."""
    made = []

    def make(dataset):
        made.append(CountsCells(len(dataset.store.cell_ptr)))
        return made[-1]

    recipe = tiny.recipe(train={"epochs": 3})
    options = {"dataset": tiny.dataset(), "seeds": [0, 1], "device": "cpu", "progress": False, "model": make}
    first, second = fit(recipe, out=tmp_path / "runs", **options)
    assert first.parameters == 4
    assert first.history[-1]["loss"] < first.history[0]["loss"]
    assert not torch.equal(first.model.linear.weight, second.model.linear.weight)
    assert len({id(model) for model in made}) == 3  # one is written down
    again, _ = fit(recipe, **options)
    assert torch.equal(again.model.linear.weight, first.model.linear.weight)
    resumed, _ = fit(recipe, out=tmp_path / "runs", resume=True, **options)
    assert resumed.test == first.test
    loaded = load_model(tmp_path / "runs" / "seed-0")
    assert isinstance(loaded, CountsCells)
    with pytest.raises(CheckpointError, match="is of another run: model"):
        fit(recipe, out=tmp_path / "runs", resume=True, **{**options, "model": None})


@pytest.mark.parametrize("precision", ["float64", "bf16", "tf32"])
def test_precisions(precision):
    if precision == "bf16" and not multiplies_bf16():
        pytest.skip("this processor has no products in bf16")
    result = train(tiny.recipe(train={"epochs": 2, "precision": precision}))
    assert next(result.model.parameters()).dtype == (torch.float64 if precision == "float64" else torch.float32)
    plain = train(tiny.recipe(train={"epochs": 2}))
    assert result.history[0]["loss"] == pytest.approx(plain.history[0]["loss"], rel=0.05)


def test_bf16_is_refused_where_the_processor_has_none(monkeypatch):
    monkeypatch.setattr(_state, "multiplies_bf16", lambda: False)
    with pytest.raises(
        TrainingError, match=r'train.precision = "bf16": this processor has no products in bf16.*float32'
    ):
        train(tiny.recipe(train={"epochs": 1, "precision": "bf16"}))


def test_threads_do_not_change_a_run():
    """Also where one is another process's: which thread does what is left to chance."""
    model = {"preset": "cin", "width": 16, "layers": 2}
    before = torch.get_num_threads()
    found = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(train(tiny.recipe(model=model, train={"epochs": 2})).history)
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(before)
    losses = [[(row["loss"], row["val"]) for row in history] for history in found]
    assert losses[0] == losses[1] == losses[2]


def test_budgets_of_cells():
    assert math.isfinite(train(tiny.recipe(train={"epochs": 1, "max_cells": 60})).test)


def test_without_epochs_the_model_is_measured_as_it_is():
    result = train(tiny.recipe(train={"epochs": 0}))
    assert result.epochs == 0
    assert result.history[0]["loss"] is None
    assert math.isfinite(result.test)


def test_zinc(data):
    """A few batches of the paper's model on the paper's data."""
    there(data / "ZINC" / "zinc12k_train.npz")
    from cwnet.data import load
    from cwnet.train import load_recipe

    zinc = load("zinc")
    part = Split(zinc.splits[0].train[:256], zinc.splits[0].val[:64], zinc.splits[0].test[:64])
    recipe = load_recipe("zinc-cin-small", ["train.epochs=3"]).with_seeds([0])
    result = train(recipe, replace(zinc, splits=(part,)))
    assert result.parameters == 121_633
    assert result.history[-1]["loss"] < result.history[0]["loss"]


# ------------------------------------------------------------------------------------------------ side by side


def test_runs_side_by_side_are_what_they_are_alone():
    """Steps of three runs with dropout are mixed at random; nothing of that shows."""
    recipe = tiny.recipe(model={"dropout": 0.3, "head_dropout": 0.5}, train={"epochs": 2})
    data = tiny.dataset()
    alone = [train(recipe, data, seed=seed) for seed in range(3)]
    torch.manual_seed(99)
    runs = [Run(recipe, data, seed=seed) for seed in range(3)]
    active = [(run, run.epochs()) for run in runs]
    generator = torch.Generator().manual_seed(0)
    while active:
        at = int(torch.randint(len(active), (1,), generator=generator))
        torch.rand(3)  # someone else draws, too
        if next(active[at][1], None) is None:
            active.pop(at)
    for run, expected in zip(runs, alone, strict=True):
        found = run.result()
        assert tiny.without_times(found.history) == tiny.without_times(expected.history)
        assert tiny.same_weights(found.model, expected.model)


def test_the_random_state_of_others_is_left_alone():
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    train(tiny.recipe(model={"dropout": 0.3}, train={"epochs": 1}))
    assert torch.equal(torch.rand(4), expected)


def test_fit_side_by_side_is_fit_one_after_another():
    recipe = tiny.recipe(model={"dropout": 0.3}, train={"epochs": 2, "seeds": [0, 4, 2]})
    data = tiny.dataset()
    one = fit(recipe, dataset=data, progress=False, device="cpu")
    many = fit(recipe, dataset=data, progress=False, device="cpu", side_by_side=2)
    assert [r.seed for r in one] == [r.seed for r in many] == [0, 4, 2]
    for a, b in zip(one, many, strict=True):
        assert tiny.same_weights(a.model, b.model)


def test_seeds_and_folds(tmp_path):
    splits = (Split(range(9), [], range(30, 40)), Split(range(30, 39), [], range(10)))
    data = tiny.dataset(splits=splits)
    recipe = tiny.recipe(train={"epochs": 1}, schedule={"kind": "constant"})
    results = fit(recipe, dataset=data, seeds=[5, 6], out=tmp_path, progress=False, device="cpu")
    assert [(r.fold, r.seed) for r in results] == [(0, 5), (0, 6), (1, 5), (1, 6)]
    assert (tmp_path / "fold-1-seed-6" / "run.json").exists()
    [one] = fit(recipe.changed(["data.fold=1"]), dataset=data, progress=False, device="cpu")
    assert one.fold == 1
    with pytest.raises(RecipeError, match="has 2 fold"):
        fit(recipe.changed(["data.fold=2"]), dataset=data, progress=False)
    with pytest.raises(TrainingError, match="at least 1"):
        fit(recipe, dataset=data, progress=False, side_by_side=-1, device="cpu")


def test_validating_on_the_next_fold():
    splits = tuple(Split([i for i in range(60) if i % 3 != k], [], range(k, 60, 3)) for k in range(3))
    run = Run(tiny.recipe(data={"val": "next"}, train={"epochs": 1}), tiny.dataset(splits=splits))
    assert run.split.val.tolist() == list(range(1, 60, 3))
    assert run.split.train.tolist() == list(range(2, 60, 3))
    assert run.split.test.tolist() == list(range(0, 60, 3))


# ------------------------------------------------------------------------------------------------ what is reported


def test_report_at_the_stop_or_at_the_best_epoch():
    data = tiny.dataset()
    stop, best = (train(tiny.recipe(train={"epochs": 6, "report": kind}), data) for kind in ("stop", "best"))
    assert tiny.without_times(stop.history) == tiny.without_times(best.history)
    vals = [row["val"] for row in best.history]
    at = vals.index(min(vals))
    assert at < 5, "choose another seed: the last epoch is the best"
    assert best.best_epoch == at + 1
    assert (best.test, stop.test) == (best.history[at]["test"], best.history[-1]["test"])
    for result in (stop, best):
        prediction = result.model(data.store.batch(tiny.TEST)).detach()
        assert float((prediction - data.store.y[50:]).abs().mean()) == pytest.approx(result.test, rel=1e-5)


def test_larger_is_better_for_accuracy():
    data = tiny.dataset("multiclass", 4, "accuracy", seed=2)
    data = replace(data, store=tiny.with_targets(data.store, [k - 3 for k, _ in sizes(data.store)]))
    result = train(tiny.recipe(train={"epochs": 5}), data)
    assert result.val_at_best == max(row["val"] for row in result.history)


def test_stops():
    result = train(
        tiny.recipe(train={"epochs": 200, "lr": 1e-3}, schedule={"patience": 0, "factor": 0.1}, stop={"min_lr": 1e-5})
    )
    assert result.epochs < 200
    assert "below 1e-05" in result.stopped
    # The warm-up is below the limit, and no reason to stop.
    warm = train(tiny.recipe(schedule={"warmup": 3}, stop={"min_lr": 0.008}, train={"epochs": 3}))
    assert warm.epochs == 3
    patient = train(tiny.recipe(model={"norm": "none"}, train={"epochs": 50, "lr": 0.0}, stop={"patience": 3}))
    assert patient.epochs == 4
    assert patient.stopped == "no improvement for 3 epochs"


def test_evaluation_is_over_all_predictions():
    """Batches of different sizes: the mean of their means would be another number."""
    data = tiny.dataset()
    run = Run(tiny.recipe(train={"epochs": 1}), data)
    result = finished(run)
    prediction = result.model(data.store.batch(tiny.VAL)).detach()
    assert result.val_at_stop == pytest.approx(float((prediction - data.store.y[41:50]).abs().mean()), rel=1e-5)


# ------------------------------------------------------------------------------------------------ steps


def steps(train=None, **options):
    data = tiny.dataset()
    recipe = resolve(tiny.recipe(train=train or {}, **options), data)
    torch.manual_seed(0)
    model = build_model(recipe.model, data)
    return EagerSteps(model, data.store, Objective("l1"), recipe.train), data


def test_a_step_by_hand():
    """Adam on the mean loss, with clipping, and a moving average of all weights."""
    engine, data = steps({"clip": 0.1, "ema": 0.75, "weight_decay": 0.01})
    torch.manual_seed(0)
    model = build_model(resolve(tiny.recipe(), data).model, data)
    adam = torch.optim.Adam(model.parameters(), 0.01, weight_decay=0.01)
    average = {k: v.clone() for k, v in model.state_dict().items()}
    batches = [torch.arange(5), torch.arange(5, 12), torch.arange(30, 32)]
    losses = []
    for index in batches:
        loss = (model(data.store.batch(index)) - data.store.y[index]).abs().mean()
        losses.append(loss.item())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        adam.step()
        adam.zero_grad()
        average = {k: 0.75 * v + 0.25 * model.state_dict()[k] for k, v in average.items()}
    assert list(engine.train(batches)) == [1, 2, 3]
    assert engine.losses().tolist() == pytest.approx(losses, rel=1e-5)
    for found, expected in ((engine.model.state_dict(), model.state_dict()), (engine.evaluated()(), average)):
        for name, tensor in expected.items():
            torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-6)
    model.load_state_dict(average)
    torch.testing.assert_close(
        engine.predict(torch.tensor([3, 1]))(), model.eval()(data.store.batch([3, 1])), rtol=1e-4, atol=1e-5
    )


def test_starting_later_and_another_rate():
    engine, _ = steps()
    assert list(engine.train([torch.arange(4)] * 5, start=3)) == [4, 5]
    assert len(engine.losses()) == 2
    before = engine.evaluated()()
    engine.set_lr(0.0)
    list(engine.train([torch.arange(4)]))
    after = engine.evaluated()()
    assert all(torch.equal(before[name], after[name]) for name, _ in engine.model.named_parameters())


class SlowSteps(EagerSteps):
    """A device that is still busy the first three times it is asked, at the end of every epoch."""

    asked = 0

    def idle(self):
        self.asked += 1
        return self.asked % 4 == 0


def test_a_run_lets_others_go_on_while_its_device_is_busy():
    found = {}
    for kind in (EagerSteps, SlowSteps):
        run = Run(tiny.recipe(train={"epochs": 2}), tiny.dataset(), steps=kind)
        turns = sum(1 for _ in run.epochs())
        found[kind] = turns, [(row["loss"], row["val"], row["test"]) for row in run.history]
    assert found[SlowSteps][0] == found[EagerSteps][0] + 2 * 3
    assert found[SlowSteps][1] == found[EagerSteps][1]


def test_missing_targets_leave_no_trace():
    """A target that is missing is as good as a complex that only the norms see."""
    y = tiny.dataset().store.y.clone()
    y[::3] = math.nan
    data = tiny.dataset(y=y)
    result = train(tiny.recipe(), data)
    assert all(math.isfinite(row["loss"]) for row in result.history)
    y[:41] = math.nan
    nothing = train(tiny.recipe(train={"epochs": 1}), tiny.dataset(y=y))
    assert nothing.history[0]["loss"] == 0


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_batches_of_a_single_complex(norm):
    """One ring has no variance: the running averages are used."""
    result = train(tiny.recipe(model={"norm": norm}, train={"batch_size": 1, "epochs": 1}))
    assert math.isfinite(result.test)


def test_a_single_vertex_under_batch_norm():
    import cwnet

    store = cwnet.lift_many([cwnet.Graph(1, [], x=[[0]], y=[1.0])] * 6, cwnet.Rings(6))
    data = Dataset("points", store, (Split([0, 1, 2], [3], [4, 5]),), "regression", 1, "mae", {})
    assert math.isfinite(train(tiny.recipe(train={"batch_size": 1, "epochs": 1}), data).test)


# ------------------------------------------------------------------------------------------------ what goes wrong


class TestNotANumber:
    def test_the_complex_is_named(self, tmp_path):
        y = tiny.dataset().store.y.clone()
        y[17] = math.inf
        run = Run(tiny.recipe(), tiny.dataset(y=y), out=tmp_path)
        with pytest.raises(TrainingError) as caught:
            finished(run)
        text = str(caught.value)
        number = next(i for i, batch in enumerate(run.loader.batches(0)) if 17 in batch.tolist())
        assert f"at epoch 1, batch {number + 1}, of the complexes" in text
        assert "Complex 17 gives it alone" in text
        assert "no checkpoint yet" in text

    def test_a_feature(self):
        data = tiny.dataset()
        x = torch.ones(data.store.num_cells[0], 2)
        first = int(data.store.cell_ptr[0][8])
        x[first] = math.nan
        data = replace(data, store=replace(data.store, x=(x, *data.store.x[1:])))
        with pytest.raises(TrainingError, match="Complex 8 gives it alone"):
            train(tiny.recipe(), data)

    def test_weights_that_run_away(self, tmp_path):
        """After a good epoch, the learning rate is far too high: the good checkpoint stays."""
        run = Run(tiny.recipe(model={"norm": "none"}), tiny.dataset(), out=tmp_path)
        step = run.epochs()
        for _ in range(13):
            next(step)
        run.steps.set_lr(1e30)
        run.schedule.base = 1e30
        with pytest.raises(TrainingError, match=r"Lower train\.lr .*last good checkpoint is .*000001"):
            finished(run)

    def test_what_a_device_finds_out_later(self):
        """Losses of a GPU are read when the epoch is over; the complex is found even so."""
        y = tiny.dataset().store.y.clone()
        y[17] = math.inf
        run = Run(tiny.recipe(), tiny.dataset(y=y))
        run.losses = [1.0, math.nan]
        with pytest.raises(Exception, match="batch 1") as caught:
            run._check_losses([torch.tensor([1, 2]), torch.tensor([16, 17])])
        assert caught.value.guilty == [17]


@pytest.mark.parametrize("together", [1, 3])
def test_one_of_several_fails(together, monkeypatch, tmp_path):
    """The others are finished and written, and what went wrong is told at the end."""
    step = EagerSteps._step

    def fail(self, batch, number, index):
        if torch.initial_seed() == 1:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return step(self, batch, number, index)

    monkeypatch.setattr(EagerSteps, "_step", fail)
    monkeypatch.setattr(Run, "_out_of_memory", lambda self: f"seed {self.seed} is full")
    recipe = tiny.recipe(train={"epochs": 1, "seeds": [0, 1, 2]})
    with pytest.raises(TrainingError, match=r"1 run\(s\) failed, 2 did not\. seed 1: seed 1 is full"):
        fit(recipe, dataset=tiny.dataset(), out=tmp_path, progress=False, device="cpu", side_by_side=together)
    assert sorted(path.parent.name for path in tmp_path.glob("*/run.json")) == ["seed-0", "seed-2"]


def test_out_of_memory(monkeypatch):
    def full(self, *_):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(EagerSteps, "_step", full)
    with pytest.raises(TrainingError, match=r"train\.batch_size \(4\), the width of the model or .*--side-by-side"):
        train(tiny.recipe())


NO_VAL = (Split(tiny.TRAIN, [], tiny.TEST),)


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"splits": NO_VAL}, r"schedule\.watch = 'val' needs a validation part"),
        ({"schedule": {"kind": "constant"}, "stop": {"patience": 3}}, {"splits": NO_VAL}, r"stop\.patience needs"),
        (
            {"schedule": {"kind": "constant"}, "train": {"report": "best"}},
            {"splits": NO_VAL},
            r"train\.report = 'best'",
        ),
        ({"model": {"dim": 3}}, {}, r"model\.dim = 3: the complexes have cells up to dimension 2"),
        ({"model": {"cells": 0}}, {}, "does not fit targets"),
        ({"model": {"vertices": "raw"}}, {"bare": True}, "have no features"),
        ({"train": {"metric": "rocauc"}}, {}, "does not go with"),
        ({"train": {"loss": "cross-entropy"}}, {}, "takes one whole number|does not go with"),
        ({"data": {"val": "next"}}, {}, "needs three folds"),
        ({}, {"splits": (Split([], [1], [2]),)}, "nothing to train on"),
        ({}, {"task": "isomorphism"}, "not for training"),
        ({}, {"task": "binary", "metric": "rocauc", "y": [[1.0]] * 60}, "can not be measured on the validation part"),
    ],
    ids=[
        "schedule",
        "patience",
        "report",
        "dimension",
        "kind",
        "features",
        "metric",
        "loss",
        "next fold",
        "no training",
        "task",
        "one class",
    ],
)
def test_recipes_that_do_not_fit(changes, options, message):
    data = tiny.dataset(**{key: value for key, value in options.items() if key != "bare"})
    if "bare" in options:
        data = replace(data, store=replace(data.store, x=(None, None, None)))
    with pytest.raises(RecipeError, match=message):
        train(tiny.recipe(**changes), data)


def test_a_plateau_of_the_training_loss_needs_no_validation():
    result = train(tiny.recipe(schedule={"watch": "train"}), tiny.dataset(splits=NO_VAL))
    assert result.best_epoch is None
    assert result.val_at_stop is None


def test_data_that_is_not_there():
    with pytest.raises(RecipeError, match="there is no data set 'zinkk'"):
        fit(tiny.recipe("zinkk"), progress=False, device="cpu")
    with pytest.raises(RecipeError, match="has no option 'j'"):
        fit(tiny.recipe("ring-transfer", data={"options": {"j": 3}}), progress=False, device="cpu")


def test_a_saved_store(saved):
    [result] = fit(tiny.recipe(saved, train={"epochs": 1}), progress=False, device="cpu")
    assert math.isfinite(result.test)
    with pytest.raises(RecipeError, match="is lifted already"):
        fit(tiny.recipe(saved).changed(["data.lifting=rings:6"]), progress=False, device="cpu")


def test_a_gpu_that_is_not_there():
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(TrainingError, match="no GPU"):
        fit(tiny.recipe(), dataset=tiny.dataset(), progress=False, device="cuda")
