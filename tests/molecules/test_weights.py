"""Weights of rows and of targets, from the table to the model."""

import numpy as np
import pytest
import torch

from cwnet.chem import nci_smiles
from cwnet.data import read_table
from cwnet.errors import CwnetError
from cwnet.molecules import Settings, Targets, _train, train_table
from cwnet.molecules._blend import blend
from cwnet.molecules._defaults import TreePlan
from cwnet.molecules._trees import _forest
from cwnet.molecules._weights import beside, entry_weights, read_target_weights, row_weights
from tests.molecules.conftest import TINY, write

SMALL = (*TINY, "trees.count=5", "trees.descriptors=false")
SMILES = [s for s in nci_smiles()[:60] if "." not in s]


@pytest.fixture(scope="module", autouse=True)
def no_pictures():
    """They take longer than all else here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_train, "_show", lambda *given: None)
        yield


def table_of(path, weights, parts=None):
    head = ("smiles", "y", "z", "w", "part")
    parts = parts or [("train", "train", "train", "val", "test")[i % 5] for i in range(len(SMILES))]
    rows = [
        (s, len(s), s.count("C"), w, part) for s, w, part in zip(SMILES, weights, parts, strict=True) if w is not None
    ]
    return read_table(write(path, head, rows), "smiles", ["y", "z"])


def trained(table, out, **how):
    settings = Settings(epochs=2, ensemble=1, split="column:part", changes=SMALL, **how)
    return train_table(table, out, settings, device="cpu", progress=False)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A model of the same molecules, all of which weigh the same."""
    folder = tmp_path_factory.mktemp("plain")
    return trained(table_of(folder / "t.csv", [1] * len(SMILES)), folder / "m")


def same(a, b):
    """Whether two models give the same predictions, bit by bit."""
    found = [model.predict(SMILES[:20]) for model in (a, b)]
    return torch.equal(found[0].mean, found[1].mean) and a.weight == b.weight


def test_a_row_of_weight_0_is_left_out(tmp_path):
    """Of the test part it is not: its figures are not weighted."""
    zero = [0 if i % 5 in (0, 3) and i % 3 == 0 else 1 for i in range(len(SMILES))]
    with_them = trained(table_of(tmp_path / "a.csv", zero), tmp_path / "a", weight_column="w")
    without = trained(table_of(tmp_path / "b.csv", [w or None for w in zero]), tmp_path / "b")
    assert same(with_them.model, without.model)
    assert with_them.metrics == without.metrics
    assert f"molecules of weight 0 take no part in training: {zero.count(0)}" in with_them.prepared.notes


def test_weights_of_one_are_none_whatever_they_are_multiplied_by(tmp_path, plain):
    fours = trained(table_of(tmp_path / "a.csv", [4] * len(SMILES)), tmp_path / "b", weight_column="w")
    assert same(plain.model, fours.model)


def test_weights_change_networks_trees_and_their_blend(tmp_path, plain, monkeypatch):
    table, asked = table_of(tmp_path / "a.csv", [1 + 9 * (len(s) > 25) for s in SMILES]), []
    monkeypatch.setattr(_train, "blend", lambda *given: asked.append(given[-1]) or blend(*given))
    heavy = trained(table, tmp_path / "b", weight_column="w")
    a, b = (model.predict(SMILES[:20]) for model in (plain.model, heavy.model))
    assert not torch.equal(a.parts["network"], b.parts["network"])
    assert not torch.equal(a.parts["trees"], b.parts["trees"])
    assert torch.equal(asked[0], heavy.prepared.weights[heavy.prepared.split.val])


def test_targets_weigh_in_the_networks_alone(tmp_path, plain):
    table = table_of(tmp_path / "a.csv", [1] * len(SMILES))
    heavy = trained(table, tmp_path / "b", target_weights=(("y", 20.0),))
    a, b = (model.predict(SMILES[:20]) for model in (plain.model, heavy.model))
    assert not torch.equal(a.parts["network"], b.parts["network"])
    assert torch.equal(a.parts["trees"], b.parts["trees"])


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_a_row_of_weight_2_is_there_twice_for_trees(task):
    chance = np.random.default_rng(0)
    x = chance.integers(0, 2, (40, 3)).astype(np.float32)
    targets = Targets(task, ("y",), () if task == "regression" else (("a", "b", "c")[: 2 + (task == "multiclass")],))
    y = (
        chance.normal(size=40)
        if task == "regression"
        else chance.integers(0, len(targets.classes[0]), 40).astype(float)
    )
    times = chance.integers(1, 4, 40)
    how = (targets, 0, TreePlan(), 0, 1, 20, False)
    weighed = _forest(x, y, *how, times.astype(float))
    repeated = _forest(np.repeat(x, times, 0), np.repeat(y, times), *how)
    assert torch.allclose(weighed.predict(x)[0], repeated.predict(x)[0], atol=1e-6)
    assert not torch.allclose(weighed.predict(x)[0], _forest(x, y, *how).predict(x)[0], atol=1e-3)


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_a_row_of_weight_2_is_there_twice_for_the_blend(task):
    chance = torch.Generator().manual_seed(0)
    outputs = 3 if task == "multiclass" else 1
    targets = Targets(task, ("y",), () if task == "regression" else (("a", "b", "c")[: max(outputs, 2)],))
    classes = torch.randint(max(outputs, 2), (30, 1), generator=chance).double()
    y = torch.randn(30, 1, generator=chance).double() if task == "regression" else classes
    a, b = (torch.rand(30, outputs, generator=chance).double() for _ in range(2))
    times = torch.randint(0, 4, (30,), generator=chance)
    twice = [each.repeat_interleave(times, 0) for each in (y, a, b)]
    assert blend(targets, y, a, b, 0.0, times) == pytest.approx(blend(targets, *twice, 0.0))
    assert blend(targets, y, a, b, 0.0, torch.ones(30)) == blend(targets, y, a, b, 0.0)


def test_entries_weigh_the_product_and_1_on_average():
    targets = Targets("regression", ("a", "b"))
    values = torch.tensor([[1.0, 2.0], [3.0, float("nan")], [5.0, 6.0]])
    found = entry_weights(targets, values, torch.tensor([0, 1]), torch.tensor([1.0, 2.0, 3.0]), (("b", 3.0),))
    assert torch.allclose(found, torch.tensor([[1.0, 3.0], [2.0, 6.0], [3.0, 9.0]]) / 2)
    assert entry_weights(targets, values, torch.tensor([0]), None, ()) is None
    assert beside(values, found).shape == (3, 4)
    assert beside(torch.tensor([1, -1, 0]), found[:, :1]).tolist()[1] == [-1.0, 1.0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({4: "heavy"}, "row 6: the weight in the column 'w' is 'heavy', which is not a number"),
        ({4: "inf"}, "row 6: the weight in the column 'w' is 'inf', which is not a number"),
        ({4: "-0.5"}, "row 6: the weight in the column 'w' is -0.5: it must not be negative"),
        ({4: " "}, "row 6: the weight in the column 'w' is missing: write 1 for a usual one"),
        (dict.fromkeys(range(100), 0), "all weights in the column 'w' are 0"),
    ],
    ids=["text", "infinite", "negative", "missing", "zero"],
)
def test_weights_of_rows_that_are_none(tmp_path, weights, message):
    table = table_of(tmp_path / "t.csv", [weights.get(i, 1) for i in range(len(SMILES))])
    with pytest.raises(CwnetError, match=message):
        row_weights(table, "w")
    with pytest.raises(CwnetError, match=message):
        trained(table, tmp_path / "m", weight_column="w")


def test_other_mistakes(tmp_path):
    table = table_of(tmp_path / "t.csv", [1] * len(SMILES))
    with pytest.raises(CwnetError, match="there is no column 'weight'"):
        trained(table, tmp_path / "a", weight_column="weight")
    with pytest.raises(CwnetError, match="'y' is a target and the weight"):
        trained(table, tmp_path / "b", weight_column="y")
    with pytest.raises(CwnetError, match="'x' is not a target: there are 'y', 'z'"):
        trained(table, tmp_path / "c", target_weights=(("x", 2.0),))
    zero = [0 if i % 5 == 3 else 1 for i in range(len(SMILES))]
    with pytest.raises(CwnetError, match="there is no molecule for val"):
        trained(table_of(tmp_path / "d.csv", zero), tmp_path / "d", weight_column="w")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "'a' is not NAME=WEIGHT; write a=2,b=1"),
        ("a=2,", "'' is not NAME=WEIGHT"),
        ("=2", "'=2' is not NAME=WEIGHT"),
        ("a=two", "the weight of 'a' is 'two', which is not a number"),
        ("a=", "the weight of 'a' is missing"),
        ("a=-1", "the weight of 'a' is -1: it must not be negative"),
        ("a=0", "a target of weight 0 is not learnt: leave 'a' out with --target-columns"),
        ("a=1,a=2", "'a' is there twice"),
    ],
)
def test_weights_of_targets_that_are_none(text, message):
    with pytest.raises(CwnetError, match=message):
        read_target_weights(text)
