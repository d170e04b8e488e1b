"""From a table to a model folder."""

import csv
import json
from dataclasses import replace

import pytest
import torch

from cwnet.data import load_split, read_table
from cwnet.errors import CwnetError
from cwnet.molecules import ModelError, MoleculeModel, Settings, train_table
from cwnet.molecules._train import measure
from tests.molecules.conftest import TINY, write


def test_the_folder_describes_itself(regression, numbers):
    folder = regression.folder
    body = json.loads((folder / "model.json").read_text())
    assert body["featuriser"] == {"lifting": "rings:18", "max_atoms": 500, "name": "ogb", "version": 2}
    assert body["targets"]["names"] == ["logP", "tpsa"]
    assert body["members"] == 2
    for file in ("split.json", "metrics.json", "predictions.csv", "parity.png", "training/seed-1/curves.png"):
        assert (folder / file).is_file(), file
    split = load_split(folder / "split.json")
    assert body["about"]["split"] == {p: len(getattr(split, p)) for p in ("train", "val", "test")}
    lines = numbers.read_text().splitlines()
    rows = list(csv.DictReader((folder / "predictions.csv").open()))
    assert [lines[int(row["row"]) - 1].split(",")[1] for row in rows] == [row["smiles"] for row in rows]
    assert set(rows[0]) == {"row", "smiles", "logP", "tpsa"} | {
        f"{c}_{k}" for c in ("logP", "tpsa") for k in ("predicted", "std")
    }


def test_a_loaded_model_is_the_saved_one(regression, molecules):
    smiles = [s for s, _ in molecules[:20]]
    loaded = MoleculeModel.load(regression.folder)
    a, b = regression.model.predict(smiles), loaded.predict(smiles)
    assert torch.equal(a.mean, b.mean)
    assert torch.equal(a.std, b.std)
    for mine, theirs in zip(loaded.interval(b, 0.8), regression.model.interval(a, 0.8), strict=True):
        assert torch.equal(mine, theirs)


def test_the_mean_and_spread_are_over_the_networks_and_the_trees(regression, molecules):
    inputs = regression.model.inputs([s for s, _ in molecules[:5]])
    single = [replace(regression.model, members=[m]).predict(inputs).parts["network"] for m in regression.model.members]
    found = regression.model.predict(inputs)
    assert torch.allclose(found.parts["network"], (single[0] + single[1]) / 2)
    each = torch.stack([*single, found.parts["trees"]])
    half = torch.tensor(regression.model.weight) / 2
    weight = torch.stack([half, half, 1 - 2 * half])[:, None]
    assert torch.allclose(found.mean, (weight * each).sum(0))
    assert torch.allclose(found.std, (weight * (each - found.mean).square()).sum(0).sqrt())
    lone = replace(regression.model, members=regression.model.members[:1], trees=None)
    assert lone.predict(inputs).std is None


def test_intervals_hold_on_the_validation_part(regression):
    model = regression.model
    prepared = regression.prepared
    found = model.predict([prepared.table.smiles[i] for i in prepared.split.val.tolist()])
    for level in (0.5, 0.8):
        half_widths, _ = model.uncertainty.margins(found, level)
        for half, column in zip(half_widths.T, model.uncertainty.residuals.T, strict=True):
            known = ~column.isnan()
            assert float((column <= half + 1e-9)[known].double().mean()) >= level
    constant = replace(model.uncertainty, spreads=None)
    assert (constant.margins(found, 0.8)[0].std(0) < 1e-12).all()
    assert (model.uncertainty.margins(found, 0.8)[0].std(0) > 0).all()
    with pytest.raises(ModelError, match="too few for intervals of 99%"):
        model.half_width(0.99)
    with pytest.raises(ModelError, match="between 0 and 1"):
        model.half_width(90)


def test_learns_what_is_easy(binary):
    assert binary.model.targets.task == "binary"
    assert binary.metrics["nitrogen"]["rocauc"] > 0.6
    assert (binary.folder / "roc.png").is_file()
    with pytest.raises(ModelError, match="predicts classes"):
        binary.model.half_width(0.9)


@pytest.mark.parametrize(
    ("columns", "task", "file"),
    [(["nitrogen", "ring"], "multilabel", "roc.png"), (["rings"], "multiclass", "confusion.png")],
    ids=["multilabel", "multiclass"],
)
def test_classes_with_gaps(labels, tmp_path, columns, task, file):
    settings = Settings(epochs=1, balance=True, changes=TINY)
    trained = train_table(read_table(labels, None, columns), tmp_path, settings, device="cpu", progress=False)
    assert trained.model.targets.task == task
    assert (tmp_path / file).is_file()
    assert set(trained.metrics) == {*columns, "mean"}


def test_splits(numbers, tmp_path):
    table = read_table(numbers, "smiles", "logP")
    settings = Settings(epochs=1, changes=TINY, split="scaffold")
    a = train_table(table, tmp_path / "a", settings, device="cpu", progress=False)
    again = Settings(epochs=1, changes=TINY, split=f"file:{tmp_path / 'a' / 'split.json'}")
    b = train_table(table, tmp_path / "b", again, device="cpu", progress=False)
    assert a.prepared.split == b.prepared.split
    rows = [
        (s, y, ("train", "val", "test")[i % 3])
        for i, (s, y) in enumerate(zip(table.smiles, table.y[:, 0], strict=True))
    ]
    path = write(tmp_path / "c.csv", ("smiles", "y", "part"), [(s, float(y), p) for s, y, p in rows])
    settings = Settings(epochs=1, changes=TINY, split="column:part")
    c = train_table(read_table(path, None, "y"), tmp_path / "c", settings, device="cpu", progress=False)
    assert [c.prepared.table.column("part")[i] for i in c.prepared.split.val] == ["val"] * len(c.prepared.split.val)


def test_a_file_split_counts_rows_also_of_what_is_left_out(numbers, tmp_path):
    head, *lines = numbers.read_text().splitlines()
    lines.insert(3, "x,C(,1.0,2.0")
    path = tmp_path / "t.csv"
    path.write_text("\n".join([head, *lines]) + "\n")
    trained = train_table(
        read_table(path, "smiles", "logP"),
        tmp_path / "m",
        Settings(epochs=1, changes=TINY),
        device="cpu",
        progress=False,
    )
    saved = load_split(tmp_path / "m" / "split.json")
    assert 3 not in torch.cat([saved.train, saved.val, saved.test])
    first = int(trained.prepared.split.train[0])
    assert lines[int(saved.train[0])].split(",")[1] == trained.prepared.table.smiles[first]
    assert "C(" in (tmp_path / "m" / "rejects.csv").read_text()
    assert any("could not be read: 1; the first is row 5" in note for note in trained.prepared.notes)


def test_a_killed_training_goes_on_to_the_same_result(numbers, tmp_path, monkeypatch):
    from cwnet.train._run import Run

    table, settings = read_table(numbers, "smiles", "logP"), Settings(epochs=4, ensemble=2, changes=TINY)
    whole = train_table(table, tmp_path / "whole", settings, device="cpu", progress=False)
    ended = Run._end_epoch

    def dies(self, predictions):
        ended(self, predictions)
        if (self.seed, len(self.history)) == (1, 2):
            raise RuntimeError("killed")

    monkeypatch.setattr(Run, "_end_epoch", dies)
    with pytest.raises(RuntimeError, match="killed"):
        train_table(table, tmp_path / "part", settings, device="cpu", progress=False)
    monkeypatch.undo()
    with pytest.raises(ModelError, match="has not ended: go on with --resume"):
        MoleculeModel.load(tmp_path / "part")
    part = train_table(table, tmp_path / "part", settings, device="cpu", progress=False, resume=True)
    for a, b in zip(whole.model.members, part.model.members, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))
    assert (tmp_path / "whole" / "trees.safetensors").read_bytes() == (
        tmp_path / "part" / "trees.safetensors"
    ).read_bytes()
    assert whole.metrics == part.metrics
    with pytest.raises(CwnetError, match="holds a model already"):
        train_table(table, tmp_path / "part", settings, progress=False)
    with pytest.raises(CwnetError, match="begun with other settings"):
        train_table(table, tmp_path / "part", Settings(epochs=5), progress=False, resume=True)


def test_measure():
    from cwnet.molecules import Targets

    two = Targets("multilabel", ("a", "b"), (("0", "1"),) * 2)
    y = torch.tensor([[0.0, 1.0], [1.0, float("nan")], [1.0, 1.0]])
    found = measure(two, y, torch.tensor([[0.2, 0.9], [0.7, 0.1], [0.4, 0.8]]).double())
    assert found["a"]["rocauc"] == 1.0
    assert found["a"]["accuracy"] == pytest.approx(2 / 3)
    assert "rocauc" not in found["b"]
    assert found["mean"]["rocauc"] == 1.0


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        ([("C" * (i + 1), i) for i in range(9)], {}, "there are 9 molecules with targets, and at least 10"),
        ([("C" * (i + 1), 5) for i in range(20)], {}, "is the same everywhere, '5'"),
        ([("C(", i) for i in range(20)], {}, "no row has a molecule; row 2"),
        (
            [("C" * (i + 1), i) for i in range(20)],
            {"split": "by-hand"},
            "write random, scaffold, cluster, kennard-stone, time:COLUMN, column:NAME",
        ),
        ([("C" * (i + 1), i) for i in range(20)], {"split": "column:part"}, "there is no column 'part'"),
        ([("C" * (i + 1), i) for i in range(20)], {"lifting": "ring"}, "the rings of the featuriser, 'ring'"),
        ([("C" * (i + 1), i) for i in range(20)], {"changes": ("model.widht=3",)}, "Did you mean model.width"),
    ],
    ids=["few", "constant", "unreadable", "split", "split-column", "lifting", "changes"],
)
def test_bad_input_is_refused_before_training(tmp_path, rows, settings, message):
    path = write(tmp_path / "t.csv", ("smiles", "y"), rows)
    with pytest.raises(CwnetError, match=message):
        train_table(read_table(path, "smiles", "y"), tmp_path / "m", Settings(epochs=1, **settings), progress=False)


def test_a_folder_that_can_not_be_written(numbers, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CwnetError, match="can not be written"):
        train_table(read_table(numbers, "smiles", "logP"), tmp_path / "file" / "m", progress=False)


def test_models_that_can_not_be_loaded(regression, tmp_path):
    with pytest.raises(ModelError, match="give the folder that train wrote"):
        MoleculeModel.load(tmp_path)
    import shutil

    copy = shutil.copytree(regression.folder, tmp_path / "copy", ignore=shutil.ignore_patterns("training"))
    body = (copy / "model.json").read_text()
    (copy / "model.json").write_text(body.replace('"version": 3,', '"version": 9,', 1))
    with pytest.raises(ModelError, match="of version 9, and this cwnet reads version 4"):
        MoleculeModel.load(copy)
    (copy / "model.json").write_text("{}")
    with pytest.raises(ModelError, match="is damaged, or not a model"):
        MoleculeModel.load(copy)
    (copy / "model.json").write_text(body)
    (copy / "weights.safetensors").write_bytes(b"x")
    with pytest.raises(ModelError, match="its hash is not the one noted"):
        MoleculeModel.load(copy)
    (copy / "weights.safetensors").unlink()
    with pytest.raises(ModelError, match=r"has lost weights\.safetensors"):
        MoleculeModel.load(copy)
