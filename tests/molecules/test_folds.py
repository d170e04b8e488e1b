"""Cross-validation, and the mean of its models."""

import csv
import json
import shutil
from dataclasses import replace

import pytest
import torch

from cwnet.chem import Featuriser, nci_smiles
from cwnet.data import load_split, read_table, scaffold_groups
from cwnet.errors import CwnetError
from cwnet.molecules import MeanModel, ModelError, MoleculeModel, Settings, _model, _train, load_model, train_folds
from cwnet.molecules import _folds as folds
from cwnet.molecules._data import lifted
from cwnet.molecules._folds import fold_splits
from tests.molecules.conftest import TINY, write

SMALL = Settings(epochs=1, ensemble=1, changes=(*TINY, "trees.count=5", "trees.descriptors=false"))
SMILES = [s for s in nci_smiles()[:70] if "." not in s]


@pytest.fixture(scope="module", autouse=True)
def no_reports():
    """They take longer than all else here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_train, "_show", lambda *given: None)
        yield


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("folds") / "t.csv"
    rows = [(s, len(s), "" if i % 7 == 0 else s.count("N"), int("N" in s)) for i, s in enumerate(SMILES)]
    return write(path, ("smiles", "length", "nitrogens", "has_n"), rows)


@pytest.fixture(scope="module")
def found(table, tmp_path_factory):
    """Three folds of two columns of numbers."""
    out = tmp_path_factory.mktemp("folds") / "model"
    numbers = read_table(table, "smiles", ["length", "nitrogens"])
    return train_folds(numbers, out, SMALL, 3, device="cpu", progress=False)


def whole(path, column, **how):
    return lifted(read_table(path, "smiles", column), Featuriser(**how))


def test_every_molecule_is_tested_once(found):
    splits = [load_split(found.folder / f"fold-{i}" / "split.json") for i in (1, 2, 3)]
    assert sorted(torch.cat([split.test for split in splits]).tolist()) == list(range(len(SMILES)))
    for split in splits:
        assert len(split) == len(SMILES)
        assert len(split.val) == round(len(SMILES) / 10)


def test_the_mean_model_predicts_the_mean(found):
    model = load_model(found.folder)
    assert isinstance(model, MeanModel)
    inputs = found.trained[0].model.inputs(SMILES[:9])
    each = [one.model.predict(inputs) for one in found.trained]
    said = model.predict(SMILES[:9])
    mean = torch.stack([one.mean for one in each]).mean(0)
    assert torch.allclose(said.mean, mean)
    by_hand = torch.stack([one.std.square() + (one.mean - mean).square() for one in each]).mean(0).sqrt()
    assert torch.allclose(said.std, by_hand)
    assert torch.allclose(said.spread, torch.stack([one.spread for one in each]).mean(0))
    assert torch.equal(said.mean, found.model.predict(SMILES[:9]).mean)
    assert torch.equal(said.novelty, found.model.predict(SMILES[:9]).novelty)
    assert isinstance(load_model(found.folder / "fold-2"), MoleculeModel)


def test_predictions_and_intervals_are_out_of_fold(found):
    rows = list(csv.DictReader((found.folder / "predictions.csv").open()))
    assert [row["smiles"] for row in rows] == SMILES
    first = load_split(found.folder / "fold-1" / "split.json").test.tolist()
    assert {i for i, row in enumerate(rows) if row["fold"] == "1"} == set(first)
    said = found.trained[0].model.predict([SMILES[i] for i in first])
    assert [float(rows[i]["length_predicted"]) for i in first] == pytest.approx(said.mean[:, 0].tolist())
    away = sorted(abs(float(row["length"]) - float(row["length_predicted"])) for row in rows)
    fitted = found.model.uncertainty
    assert sorted(fitted.residuals[:, 0].tolist()) == pytest.approx(away, rel=1e-4)
    assert int((~fitted.residuals[:, 1].isnan()).sum()) == sum(bool(row["nitrogens"]) for row in rows)
    halves = replace(found.model, uncertainty=replace(fitted, spreads=None)).half_width(0.8)
    assert sum(a <= halves[0] for a in away) >= 0.8 * len(away)
    low, high = found.model.interval(found.model.predict(SMILES[:4]), 0.9)
    assert low.shape == high.shape == (4, 2)
    assert bool((low < high).all())


@pytest.mark.parametrize("kind", ["ensemble", "quantile", "mve"])
def test_other_intervals_are_fitted_out_of_fold(kind, table, tmp_path):
    numbers = read_table(table, "smiles", ["length", "nitrogens"])
    wishes = replace(SMALL, uncertainty=kind)
    trained = train_folds(numbers, tmp_path / "m", wishes, 2, device="cpu", progress=False)
    model = load_model(tmp_path / "m")
    assert model.uncertainty.kind == kind
    said = model.predict(SMILES[:9])
    if kind != "ensemble":
        each = [one.model.predict(SMILES[:9]).above for one in trained.trained]
        assert torch.allclose(said.above, torch.stack(each).mean(0))
    for ours, theirs in zip(model.interval(said, 0.9), trained.model.interval(said, 0.9), strict=True):
        assert torch.allclose(ours, theirs)
    # Each molecule by the model that had not seen it, with the intervals of all: nine of ten hold about 90 %.
    tests = [load_split(one.folder / "split.json").test.tolist() for one in trained.trained]
    held = []
    for one, rows in zip(trained.trained, tests, strict=True):
        low, high = model.interval(one.model.predict([SMILES[i] for i in rows]), 0.9)
        held += [float(a) <= len(SMILES[i]) <= float(b) for i, a, b in zip(rows, low[:, 0], high[:, 0], strict=True)]
    assert sum(held) >= 0.8 * len(SMILES)


def test_what_does_not_go_with_folds(table, tmp_path):
    classes = read_table(table, "smiles", "has_n")
    with pytest.raises(CwnetError, match="--folds 3 does not go with --target-level atom"):
        train_folds(classes, tmp_path / "m", replace(SMALL, level="atom"), 3)
    with pytest.raises(CwnetError, match="--uncertainty quantile is for numbers"):
        train_folds(classes, tmp_path / "m", replace(SMALL, uncertainty="quantile"), 3)
    assert not (tmp_path / "m").exists()


def test_a_folder_without_a_kind_is_conformal(found, tmp_path):
    """As the first such folders were written."""
    shutil.copytree(found.folder, tmp_path / "m")
    body = json.loads((tmp_path / "m" / "model.json").read_text())
    del body["uncertainty"]
    body["hash"] = _model._self_hash(body)
    (tmp_path / "m" / "model.json").write_text(json.dumps(body))
    assert load_model(tmp_path / "m").half_width(0.8) == found.model.half_width(0.8)


def test_figures(found):
    body = json.loads((found.folder / "metrics.json").read_text())
    each = [json.loads((found.folder / f"fold-{i}" / "metrics.json").read_text()) for i in (1, 2, 3)]
    values = [one["test"]["length"]["mae"] for one in each]
    assert body["test"]["length"]["mae"]["values"] == values
    assert body["test"]["length"]["mae"]["mean"] == pytest.approx(sum(values) / 3)
    assert [fold["similarity"] for fold in body["folds"]] == [one["similarity"] for one in each]
    known = found.model.uncertainty.residuals[:, 0]
    assert body["out_of_fold"]["length"]["mae"] == pytest.approx(float(known.mean()), rel=1e-5)
    assert (found.folder / "parity.png").is_file()


def test_a_fold_that_is_whole_is_not_trained_again(table, found, tmp_path, monkeypatch):
    numbers = read_table(table, "smiles", ["length", "nitrogens"])
    trained, begun = folds.train_prepared, []

    def dies(prepared, out, *arguments, **how):
        begun.append(out.name)
        if out.name == "fold-2" and len(begun) == 2:
            raise KeyboardInterrupt
        return trained(prepared, out, *arguments, **how)

    monkeypatch.setattr(folds, "train_prepared", dies)
    with pytest.raises(KeyboardInterrupt):
        train_folds(numbers, tmp_path / "m", SMALL, 3, device="cpu", progress=False)
    with pytest.raises(ModelError, match="its training has not ended: go on with --resume"):
        load_model(tmp_path / "m")
    with pytest.raises(CwnetError, match="holds a model already"):
        train_folds(numbers, tmp_path / "m", SMALL, 3, device="cpu", progress=False)
    with pytest.raises(CwnetError, match="begun with other folds: 3, and now 4"):
        train_folds(numbers, tmp_path / "m", SMALL, 4, device="cpu", progress=False, resume=True)
    again = train_folds(numbers, tmp_path / "m", SMALL, 3, device="cpu", progress=False, resume=True)
    assert begun == ["fold-1", "fold-2", "fold-2", "fold-3"]
    for file in ("metrics.json", "predictions.csv", "intervals.safetensors", "reference.safetensors"):
        assert (tmp_path / "m" / file).read_bytes() == (found.folder / file).read_bytes(), file
    assert again.metrics == found.metrics


def test_classes(table, tmp_path):
    classes = read_table(table, "smiles", "has_n")
    found = train_folds(classes, tmp_path / "m", replace(SMALL, network=False), 2, device="cpu", progress=False)
    model = load_model(tmp_path / "m")
    said = model.predict(SMILES[:5])
    assert bool(((said.mean >= 0) & (said.mean <= 1)).all())
    with pytest.raises(ModelError, match="predicts classes"):
        model.half_width(0.9)
    assert set(found.out_of_fold) == {"has_n", "mean"}


def test_classes_are_in_equal_shares(table):
    prepared = whole(table, "has_n")
    yes = prepared.values[:, 0] == 1
    splits = fold_splits(prepared, 4, SMALL)
    shares = [int(yes[split.test].sum()) for split in splits]
    assert max(shares) - min(shares) <= 1
    assert all(0 < int(yes[split.val].sum()) < len(split.val) for split in splits)
    assert fold_splits(prepared, 4, SMALL) == splits
    assert fold_splits(prepared, 4, replace(SMALL, seed=1)) != splits


@pytest.mark.parametrize("split", ["scaffold", "cluster", "cluster:0.7"])
def test_folds_of_whole_groups(table, split):
    splits = fold_splits(whole(table, "length"), 3, replace(SMALL, split=split))
    assert sorted(torch.cat([each.test for each in splits]).tolist()) == list(range(len(SMILES)))
    if split == "scaffold":
        groups = torch.from_numpy(scaffold_groups(SMILES))
        for each in splits:
            assert not set(groups[each.train].tolist()) & set(groups[each.test].tolist())


@pytest.mark.parametrize(
    ("rows", "count", "split", "message"),
    [
        ([("C" * (i + 1), i) for i in range(12)], 1, "random", "--folds 1: give at least 2"),
        ([("C" * (i + 1), i) for i in range(12)], 13, "random", "--folds 13: there are 12 molecules"),
        ([("C" * (i + 1), i) for i in range(12)], 3, "time:y", "goes with --split random, scaffold or cluster"),
        ([("C" * (i + 1), i) for i in range(12)], 3, "scaffold", "there are 1 scaffolds for 3 folds"),
        (
            [("C" * (i + 1), "yes" if i < 2 else "no") for i in range(12)],
            4,
            "random",
            "fold . would have one class only of 'y', 'no': take fewer folds; 'yes' has 2 molecules",
        ),
    ],
    ids=["one", "many", "time", "scaffolds", "class"],
)
def test_folds_that_can_not_be_made(tmp_path, rows, count, split, message):
    path = write(tmp_path / "t.csv", ("smiles", "y"), rows)
    with pytest.raises(CwnetError, match=message):
        train_folds(read_table(path, "smiles", "y"), tmp_path / "m", replace(SMALL, split=split), count)
    assert not (tmp_path / "m").exists()


def test_models_that_can_not_be_loaded(found, tmp_path):
    copy = shutil.copytree(found.folder, tmp_path / "copy", ignore=shutil.ignore_patterns("training", "*.html"))
    with pytest.raises(ModelError, match=r"is the mean of the models of several folds.*take one of them: .*fold-1"):
        MoleculeModel.load(copy)
    body = (copy / "model.json").read_text()
    for wrong, message in (
        (body.replace('"fold-2"', '"../fold-2"'), "was changed after it was written"),
        (body.replace('"version": 1', '"version": 7'), "of version 7"),
    ):
        (copy / "model.json").write_text(wrong)
        with pytest.raises(ModelError, match=message):
            load_model(copy)
    (copy / "model.json").write_text(body)
    other = (copy / "fold-1" / "model.json").read_bytes()
    (copy / "fold-1" / "model.json").write_bytes((copy / "fold-2" / "model.json").read_bytes())
    with pytest.raises(ModelError, match=r"fold-1 is not the model that .* lists"):
        load_model(copy)
    (copy / "fold-1" / "model.json").write_bytes(other)
    shutil.rmtree(copy / "fold-3")
    with pytest.raises(ModelError, match="has lost fold-3, a part of the model"):
        load_model(copy)


def test_a_forged_list_names_folders_of_its_own_alone(found, tmp_path):
    from cwnet.molecules._model import _self_hash

    copy = shutil.copytree(found.folder, tmp_path / "copy", ignore=shutil.ignore_patterns("training", "*.html"))
    body = json.loads((copy / "model.json").read_text())
    for members in ([{**body["members"][0], "folder": "../model/fold-1"}], [], [{"folder": "fold-1"}], None, [7]):
        forged = {**body, "members": members}
        (copy / "model.json").write_text(json.dumps({**forged, "hash": _self_hash(forged)}))
        with pytest.raises(ModelError):
            load_model(copy)
