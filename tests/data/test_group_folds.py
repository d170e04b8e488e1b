"""Folds of whole groups."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cwnet.data import SplitError, group_kfold_split


@given(st.lists(st.integers(0, 30), min_size=1, max_size=80), st.integers(2, 6), st.integers(0, 100))
def test_groups_stay_whole_and_all_are_tested_once(groups, k, seed):
    groups = np.array(groups)
    try:
        splits = group_kfold_split(groups, k, seed=seed)
    except SplitError:
        assume(False)
    assert sorted(np.concatenate([split.test.numpy() for split in splits])) == list(range(len(groups)))
    for split in splits:
        parts = [set(groups[part.numpy()]) for part in (split.train, split.val, split.test)]
        assert all(parts)
        assert sum(map(len, parts)) == len(np.unique(groups))


def test_folds_of_groups_of_one_are_equal():
    splits = group_kfold_split(np.arange(103), 5)
    assert sorted(len(split.test) for split in splits) == [20, 20, 21, 21, 21]
    assert all(len(split.val) == 10 for split in splits)


def test_what_is_refused():
    with pytest.raises(SplitError, match="1 folds: there must be at least 2"):
        group_kfold_split(np.arange(10), 1)
    with pytest.raises(SplitError, match="there are 4 clusters for 5 folds, and none is cut: take fewer folds"):
        group_kfold_split(np.arange(4), 5, what="cluster")
    with pytest.raises(SplitError, match="fold 2 leaves one group to train on"):
        group_kfold_split(np.array([0, 0, 0, 1, 2]), 2)
