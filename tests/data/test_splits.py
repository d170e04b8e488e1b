import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cwnet.data._splits import (
    Split,
    SplitError,
    column_split,
    kfold_split,
    load_split,
    random_split,
    save_split,
    scaffold_split,
)
from cwnet.errors import GraphError

fractions = st.tuples(st.integers(1, 20), st.integers(0, 20), st.integers(0, 20)).map(
    lambda parts: tuple(part / sum(parts) for part in parts)
)
seeds = st.integers(0, 2**32 - 1)
# Rings of every size, bare and with tails, and chains: a scaffold is told by its ring.
RINGS = ["", "C1CC1", "C1CCC1", "C1CCCC1", "C1CCCCC1", "c1ccccc1", "c1ccncc1", "c1ccsc1", "C1CCOCC1"]
scaffold_lists = st.lists(st.tuples(st.sampled_from(RINGS), st.integers(0, 3)), min_size=1, max_size=60)


def parts(split):
    return [part.tolist() for part in (split.train, split.val, split.test)]


def assert_partition(split, n):
    train, val, test = parts(split)
    assert sorted(train + val + test) == list(range(n))
    assert all(part.dtype == torch.int64 and part.dim() == 1 for part in (split.train, split.val, split.test))


# Split


def test_a_split_takes_lists_arrays_and_tensors_and_shows_its_sizes():
    split = Split(train=[3, 1], val=np.array([0], dtype=np.int32), test=torch.tensor([2]))
    assert parts(split) == [[3, 1], [0], [2]]
    assert repr(split) == "Split(2 train, 1 val, 1 test)"
    assert len(split) == 4
    assert split == Split([3, 1], [0], [2])
    assert split != Split([1, 3], [0], [2])
    assert parts(Split([], [], [0])) == [[], [], [0]]


def test_a_split_may_choose_by_the_test_graphs_but_not_train_on_them():
    assert len(Split([0, 1], [2], [2])) == 3
    with pytest.raises(SplitError, match="graph 1 is in train and in test"):
        Split([0, 1], [2], [1])
    with pytest.raises(SplitError, match="graph 1 is in train and in val"):
        Split([0, 1], [1], [2])


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ([0, 0], "graph 0 more than once"),
        ([-1], "counted from 0"),
        ([0.5], "numbers of graphs"),
        ([[1]], "numbers of"),
        ([[1], [1, 2]], "numbers of"),
        (["a"], "not \\['a'\\]"),
        ([True], "numbers"),
    ],
)
def test_a_split_refuses_what_is_not_a_set_of_graphs(train, message):
    with pytest.raises(SplitError, match=message):
        Split(train, [], [])


# Random


@given(st.integers(0, 300), fractions, seeds)
def test_random_splits_are_partitions_with_the_asked_shares(n, shares, seed):
    ends = [0, int(shares[0] * n + 0.5), int((shares[0] + shares[1]) * n + 0.5), n]
    if any(share and first == last for share, first, last in zip(shares, ends[:-1], ends[1:], strict=True)):
        return  # a part that should have a share would get nothing: see below
    split = random_split(n, shares, seed=seed)
    assert_partition(split, n)
    assert all(abs(len(part) - share * n) <= 1 for part, share in zip(parts(split), shares, strict=True))
    assert split == random_split(n, shares, seed=seed)


def test_random_splits_of_one_seed_are_the_same_on_every_machine():
    assert parts(random_split(10, seed=7))[1:] == [[5], [1]]
    assert random_split(100, seed=1) != random_split(100, seed=2)


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ((0.8, 0.1, 0.2), r"add up to 1\.1, not to 1"),
        ((0.8, 0.2), "three shares"),
        ((1.2, -0.1, -0.1), "three shares"),
        ((float("nan"), 0.5, 0.5), "three shares"),
    ],
)
def test_fractions_that_are_none_are_refused(shares, message):
    with pytest.raises(SplitError, match=message):
        random_split(100, shares)
    with pytest.raises(SplitError, match=message):
        scaffold_split(["C"], shares)


def test_a_random_split_with_an_empty_part_is_refused():
    with pytest.raises(SplitError, match="test would be empty"):
        random_split(3)
    assert parts(random_split(2, (1, 0, 0)))[1:] == [[], []]


# Scaffolds


@given(scaffold_lists, fractions, st.one_of(st.none(), seeds))
def test_scaffold_splits_are_partitions_that_cut_no_scaffold(molecules, shares, seed):
    pytest.importorskip("rdkit")
    smiles = ["C" * tail + ring if ring else "C" * (tail + 1) for ring, tail in molecules]
    try:
        split = scaffold_split(smiles, shares, seed=seed)
    except SplitError:
        return  # too few scaffolds for three parts
    assert_partition(split, len(smiles))
    scaffolds = [{molecules[i][0] for i in part} for part in parts(split)]
    assert not scaffolds[0] & scaffolds[1]
    assert not scaffolds[0] & scaffolds[2]
    assert not scaffolds[1] & scaffolds[2]
    assert split == scaffold_split(smiles, shares, seed=seed)


def test_the_largest_scaffolds_are_trained_on():
    chem = pytest.importorskip("rdkit.Chem")
    smiles = ["C1CC1"] + ["Cc1ccccc1"] * 5 + ["CCO"] * 3 + ["C1CCC1"]
    split = scaffold_split(smiles)
    assert parts(split) == [[1, 2, 3, 4, 5, 6, 7, 8], [9], [0]]
    assert split == scaffold_split([chem.MolFromSmiles(text) for text in smiles])


def test_a_seed_shuffles_small_scaffolds_only():
    pytest.importorskip("rdkit")
    smiles = ["c1ccccc1"] * 60 + [f"C1{'C' * k}C1" for k in range(1, 41)]
    splits = [scaffold_split(smiles, seed=seed) for seed in range(5)]
    assert len({tuple(split.test.tolist()) for split in splits}) > 1
    assert all(set(range(60)) <= set(split.train.tolist()) for split in splits)


def test_scaffolds_ignore_stereochemistry():
    pytest.importorskip("rdkit")
    same = ["C[C@H]1CC[C@@H](C1)C1CC1", "C[C@@H]1CC[C@@H](C1)C1CC1"]
    split = scaffold_split([*same, "c1ccccc1", "CCO"], (0.5, 0.25, 0.25))
    assert set(parts(split)[0]) == {0, 1}


def test_molecules_that_can_not_be_split_are_named():
    pytest.importorskip("rdkit")
    with pytest.raises(GraphError, match=r"graph 1: SMILES 'C1C' does not parse"):
        scaffold_split(["C", "C1C"])
    with pytest.raises(GraphError, match="graph 0: None is not a molecule"):
        scaffold_split([None])
    with pytest.raises(TypeError, match="put it in a list"):
        scaffold_split("CCO")
    with pytest.raises(SplitError, match="there is one scaffold, and none is cut"):
        scaffold_split(["CCO", "CC", "CCC"])


# Columns


def test_a_column_says_where_each_graph_goes():
    split = column_split(["train", "VAL", "valid", " test ", "Training", "validation"])
    assert parts(split) == [[0, 4], [1, 2, 5], [3]]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("trian", "row 1: 'trian' is not a part of a split: did you mean 'train'"),
        (None, "row 1: None is not"),
        ("", "row 1: '' is not a part of a split: write 'train', 'val' or 'test'"),
        (2, "row 1: 2 is not"),
    ],
)
def test_other_words_are_named_with_their_row(word, message):
    with pytest.raises(SplitError, match=message):
        column_split(["train", word])


def test_rows_are_named_as_in_their_file():
    with pytest.raises(SplitError, match="row 17: 'x'"):
        column_split(["test", "x"], rows=[12, 17])


# Folds


@given(
    st.lists(st.integers(0, 3), min_size=3, max_size=80), st.integers(3, 10), seeds, st.sampled_from(["next", "test"])
)
def test_folds_put_every_graph_in_one_test_set_and_spread_every_class(labels, k, seed, val):
    if len(labels) < k:
        with pytest.raises(SplitError, match=f"{len(labels)} graphs for {k} folds"):
            kfold_split(labels, k, seed=seed)
        return
    folds = kfold_split(labels, k, seed=seed, val=val)
    assert len(folds) == k
    assert sorted(i for fold in folds for i in fold.test.tolist()) == list(range(len(labels)))
    for fold in folds:
        assert sorted({i for part in parts(fold) for i in part}) == list(range(len(labels)))
    for label in [None, *set(labels)]:
        sizes = [sum(label is None or labels[i] == label for i in fold.test.tolist()) for fold in folds]
        assert max(sizes) - min(sizes) <= 1
    assert folds == kfold_split(torch.tensor(labels), k, seed=seed, val=val)


def test_models_are_chosen_by_the_next_fold_the_test_fold_or_none():
    after, same, none = (kfold_split(10, 5, val=val) for val in ("next", "test", None))
    assert [fold.val.tolist() for fold in after] == [fold.test.tolist() for fold in [*after[1:], after[0]]]
    assert all(torch.equal(fold.val, fold.test) and len(fold.train) == 8 for fold in same)
    assert all(len(fold.val) == 0 and len(fold.train) == 8 for fold in none)


def test_folds_need_not_be_stratified_and_labels_may_be_texts():
    assert kfold_split(9, 3, seed=4) == kfold_split([0, 1, 2] * 3, 3, seed=4, stratified=False)
    assert kfold_split(["a", "b", "b"] * 3, 3) == kfold_split([[0.0], [1.0], [1.0]] * 3, 3)


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (5, {"k": 10}, "there are 5 graphs for 10 folds"),
        (5, {"k": 2}, "2 folds leave nothing to train on"),
        (5, {"k": 1, "val": None}, "take at least 2"),
        (5, {"k": 3, "val": "first"}, "val='first' is not one of"),
        ([0.1, 0.2, 0.3], {"k": 3}, "label 0.1 of graph 0 is not a class"),
        ([0, float("nan"), 1.0], {"k": 3}, "label nan of graph 1 is not a class"),
        ([[0, 1]] * 4, {"k": 3}, "one class per graph"),
    ],
)
def test_folds_that_can_not_be_made_are_refused(labels, options, message):
    with pytest.raises(SplitError, match=message):
        kfold_split(labels, **options)


# Files


@given(st.integers(10, 200), seeds)
def test_splits_are_read_as_they_were_written(tmp_path_factory, n, seed):
    path = tmp_path_factory.mktemp("split") / "split.json"
    split = random_split(n, seed=seed)
    save_split(split, path)
    assert load_split(path, count=n) == split
    assert [file.name for file in path.parent.iterdir()] == ["split.json"]
    with pytest.raises(SplitError, match=f"names graph {n - 1}, but there are {n - 1}"):
        load_split(path, count=n - 1)


def test_a_failed_write_leaves_the_old_split(tmp_path, monkeypatch):
    path = tmp_path / "split.json"
    save_split(random_split(10), path)
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_split(random_split(20), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["split.json"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[1]", "is not a split"),
        ('{"train": [0]}', "is not a split"),
        (json.dumps({"format": "cwnet split", "version": 1, "train": [0], "val": []}), "has no 'test'"),
        (json.dumps({"format": "cwnet split", "version": 1, "train": [0], "val": [], "test": [0]}), "in train and in"),
        (json.dumps({"format": "cwnet split", "version": 1, "train": ["a"], "val": [], "test": []}), "train must be"),
    ],
)
def test_files_that_are_no_splits_are_refused(tmp_path, text, message):
    path = tmp_path / "split.json"
    path.write_text(text)
    with pytest.raises(SplitError, match=message):
        load_split(path)


def test_a_missing_split_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_split(tmp_path / "split.json")
