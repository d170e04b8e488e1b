"""Trees beside the networks: the same as scikit-learn's, and nothing in their arrays is trusted."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from cwnet import _core
from cwnet.chem._descriptors import Counts
from cwnet.data import read_table
from cwnet.errors import CwnetError
from cwnet.molecules import MoleculeModel, Settings, Targets, train_table
from cwnet.molecules._blend import blend
from cwnet.molecules._defaults import TreePlan
from cwnet.molecules._inputs import Wanted, describe
from cwnet.molecules._trees import Forest, grow, wanted_by
from tests.molecules.conftest import TINY
from tests.reference.forests import forest_mean_and_std


def grown(x, y, kind, **how):
    model = kind(n_estimators=7, random_state=0, **how).fit(x, y)
    trees = [each.tree_ for each in model.estimators_]
    values = [
        t.value[:, 0, :] / (1 if kind is ExtraTreesRegressor else t.value[:, 0, :].sum(1)[:, None]) for t in trees
    ]
    return model, Forest.of(trees, values)


#: Numbers that lie close together, and as far apart as float32 allows.
NUMBERS = st.one_of(
    st.integers(0, 3).map(float), st.floats(-1e9, 1e9, width=32), st.sampled_from([1.0, float(np.nextafter(1, 2))])
)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_arrays_say_what_scikit_learn_says(data):
    rows, width = data.draw(st.integers(2, 30)), data.draw(st.integers(1, 6))
    x = np.array(data.draw(st.lists(NUMBERS, min_size=rows * width, max_size=rows * width)), dtype=np.float32)
    x = x.reshape(rows, width)
    queries = np.array(data.draw(st.lists(NUMBERS, min_size=width * 5, max_size=width * 5)), dtype=np.float32)
    queries = np.concatenate([x, queries.reshape(-1, width)])
    y = np.array(data.draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows)))
    model, forest = grown(x, y.astype(float), ExtraTreesRegressor)
    mean, std = forest.predict(queries, threads=data.draw(st.integers(1, 3)))
    np.testing.assert_allclose(mean[:, 0], model.predict(queries), rtol=1e-6, atol=1e-6)
    slow_mean, slow_std = forest_mean_and_std(forest, queries)
    np.testing.assert_allclose(mean, slow_mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(std, slow_std, rtol=1e-5, atol=1e-7)
    model, forest = grown(x, y, ExtraTreesClassifier)
    np.testing.assert_allclose(forest.predict(queries)[0], model.predict_proba(queries), rtol=1e-6, atol=1e-6)
    forest.check(width, len(model.classes_))


def test_numbers_of_nodes_that_lead_nowhere_are_found():
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    _, forest = grown(x, x.sum(1), ExtraTreesRegressor)
    forest.check(3, 1)
    chance, rows = np.random.default_rng(1), np.array([[-9] * 3, [9] * 3], dtype=np.float32)
    for name in ("feature", "next"):
        for _ in range(300):
            array = getattr(forest, name).copy()
            array[chance.integers(len(array))] = chance.integers(np.iinfo(array.dtype).max)
            broken = replace(forest, **{name: array})
            with pytest.raises(ValueError, match=r"tree|leaves"):
                broken.check(3, 1)
            with suppress(ValueError):  # a walk may not come by; it must not leave the arrays
                broken.predict(rows)
    for changes in (
        {"tree_ptr": forest.tree_ptr[:-1]},
        {"tree_ptr": forest.tree_ptr[::-1].copy()},
        {"threshold": forest.threshold[:-1]},
        {"values": forest.values[:-1]},
        {"values": np.full_like(forest.values, np.nan)},
        {"threshold": np.full_like(forest.threshold, np.nan)},
    ):
        with pytest.raises(ValueError, match=r"trees|thresholds|leaves|node"):
            replace(forest, **changes).check(3, 1)
    with pytest.raises(ValueError, match="column that is not there"):
        forest.check(2, 1)
    with pytest.raises(ValueError, match="a column that is not there"):
        forest.predict(x[:, :1].copy())
    with pytest.raises(ValueError, match="tree_ptr must rise"):
        _core.predict_forest(forest.tree_ptr + 1, forest.feature, forest.threshold, forest.next, forest.values, x, 1)


@pytest.fixture(scope="module")
def described(molecules):
    smiles = [s for s, _ in molecules[:80]]
    from cwnet.chem import Featuriser

    return smiles, describe(smiles, Featuriser()(smiles), wanted_by(TreePlan()))


def test_a_forest_for_each_target_on_the_rows_that_have_it(described):
    _, inputs = described
    y = torch.stack([torch.arange(80.0), torch.arange(80.0).neg()], 1)
    y[::2, 1] = float("nan")
    both = Targets("regression", ("a", "b")).scaled_by(y)
    trees = grow(inputs, y, both, TreePlan(count=5))
    trees.check(both)
    mean, _ = trees.predict(inputs)
    assert torch.allclose(mean[:, 0], y[:, 0].double(), atol=1e-4)  # each leaf has one molecule
    known = ~y[:, 1].isnan()
    assert torch.allclose(mean[known, 1], y[known, 1].double(), atol=1e-4)
    assert torch.equal(grow(inputs, y, both, TreePlan(count=5)).predict(inputs)[0], mean)
    other = grow(inputs, y, both, TreePlan(count=5), seed=1)
    assert not np.array_equal(other.forests[0].threshold, trees.forests[0].threshold)


def test_classes_that_no_molecule_has(described):
    _, inputs = described
    y = (torch.arange(80) % 2)[:, None].float()
    three = Targets("multiclass", ("a",), (("x", "y", "z"),))
    mean, _ = grow(inputs, y, three, TreePlan(count=5)).predict(inputs)
    assert mean.shape == (80, 3)
    assert torch.allclose(mean.sum(1), torch.ones(80).double())
    assert not mean[:, 2].any()


def test_leaves_grow_where_there_would_be_too_many_nodes(described):
    _, inputs = described
    y = torch.rand(80, 1, generator=torch.Generator().manual_seed(0))
    one = Targets("regression", ("a",)).scaled_by(y)
    small = grow(inputs, y, one, TreePlan(count=20, nodes=1_000))
    large = grow(inputs, y, one, TreePlan(count=20))
    assert len(large.forests[0].feature) > 3_000
    assert len(small.forests[0].feature) <= 1_100


def test_what_the_trees_see(described):
    smiles, inputs = described
    plan = TreePlan(count=3, colours=64, support=5)
    from cwnet.chem import Featuriser

    y = torch.arange(80.0)[:, None]
    trees = grow(inputs, y, Targets("regression", ("a",)).scaled_by(y), plan)
    table = trees.columns.table(inputs)
    assert table.shape == (80, trees.columns.width)
    assert np.isfinite(table).all()
    assert ((table[:, : len(trees.columns.morgan)] > 0).sum(0) >= 5).all()
    other = describe(smiles[::-1], Featuriser()(smiles[::-1]), wanted_by(plan))
    assert np.array_equal(trees.columns.table(other), table[::-1])


def test_many_molecules_are_described_by_several_processes(described, monkeypatch):
    from cwnet.molecules import _inputs

    smiles, inputs = described
    monkeypatch.setattr(_inputs, "_MANY", 10)
    monkeypatch.setattr(_inputs, "_TASK", 32)
    monkeypatch.setattr(_inputs, "num_threads", lambda wish: 2)
    again = describe(smiles, inputs.store, wanted_by(TreePlan()))
    assert all(np.array_equal(a, b) for a, b in zip(inputs.counts, again.counts, strict=True))
    assert np.array_equal(inputs.numbers, again.numbers, equal_nan=True)


def test_counts_as_tables_and_rows():
    counts = Counts(np.array([0, 2, 2, 3]), np.array([1, 3, 0], np.uint16), np.array([7, 1, 255], np.uint8))
    table = counts.dense(4)
    assert table.tolist() == [[0, 7, 0, 1], [0, 0, 0, 0], [255, 0, 0, 0]]
    assert counts.select(np.array([2, 0, 2])).dense(4).tolist() == table[[2, 0, 2]].tolist()


def test_weights():
    y = torch.tensor([[0.0], [1.0], [2.0], [float("nan")]])
    near, far = y.double() + 0.1, y.double() + 10
    one = Targets("regression", ("a",))
    assert blend(one, y, near, far, None) == (0.5,)
    assert blend(one, y, near, far, 0)[0] == 1
    assert blend(one, y, far, near, 0)[0] == 0
    assert blend(one, y, near, far, 3)[0] == pytest.approx(0.75)
    assert blend(one, y, near, near, 0)[0] == 0.5
    two = Targets("binary", ("a",), (("0", "1"),))
    y = torch.tensor([[0.0], [1.0]])
    assert blend(two, y, torch.tensor([[0.1], [0.9]]).double(), torch.tensor([[0.9], [0.1]]).double(), 0) == (1.0,)
    three = Targets("multiclass", ("a",), (("0", "1", "2"),))
    sure = torch.eye(3).double()[:2]
    assert blend(three, y, 1 - sure, sure, 0) == (0.0,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("trees.cuont=3", "trees have count"),
        ("trees.count=0", "from 1 to"),
        ("trees.count=x", "is not a number"),
        ("trees.tries=2", "from 0 to 1"),
        ("trees.descriptors=3", "write true or false"),
    ],
)
def test_changes_that_trees_do_not_know(change, message):
    with pytest.raises(CwnetError, match=message):
        TreePlan().changed((change,))


def test_nothing_left():
    assert TreePlan().changed(("trees.count=10", "trees.shrink=none", "trees.tries=0.5")) == TreePlan(
        10, tries=0.5, shrink=None
    )
    with pytest.raises(CwnetError, match="nothing to see"):
        TreePlan(size=0, descriptors=False)
    with pytest.raises(CwnetError, match="predicts nothing"):
        Settings(network=False, trees=False)


def test_complexes_are_not_enough_for_trees(regression):
    model = regression.model
    with pytest.raises(CwnetError, match="give SMILES"):
        model.predict(model.featuriser(["CCO"]))
    assert not Wanted()
    assert model.predict([]).mean.shape == (0, 2)


def test_a_model_of_trees_alone(numbers, tmp_path, molecules):
    table = read_table(numbers, "smiles", "logP")
    settings = Settings(network=False, changes=("trees.count=50",))
    trained = train_table(table, tmp_path, settings, device="cpu", progress=False)
    assert trained.metrics["logP"]["r2"] > 0.3
    loaded = MoleculeModel.load(tmp_path)
    smiles = [s for s, _ in molecules[:9]]
    assert torch.equal(loaded.predict(smiles).mean, trained.model.predict(smiles).mean)
    assert loaded.predict(smiles).std is None
    with pytest.raises(CwnetError, match="trees only"):
        loaded.embed(smiles)


def test_a_model_of_a_network_alone(numbers, tmp_path):
    settings = Settings(epochs=1, trees=False, changes=TINY)
    train_table(read_table(numbers, "smiles", "logP"), tmp_path, settings, device="cpu", progress=False)
    loaded = MoleculeModel.load(tmp_path)
    assert loaded.trees is None
    assert not (tmp_path / "trees.safetensors").exists()
