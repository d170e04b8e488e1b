"""Splits by similarity, against slow ones."""

import numpy as np
import pytest

pytest.importorskip("rdkit")

from cwnet.chem import nci_smiles
from cwnet.data import SplitError, cluster_groups, cluster_split, kennard_stone_split
from cwnet.data import _similarity_splits as fast
from cwnet.errors import GraphError
from tests.reference import splits as slow

SMILES = [*nci_smiles()[:45], nci_smiles()[3], "C", "C"]


@pytest.fixture(scope="module")
def table():
    return slow.distances(SMILES)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.4, 0.6, 0.75, 0.99])
def test_clusters_are_butinas(table, threshold):
    found = fast.butina(fast.fingerprints(SMILES), threshold)
    assert found.tolist() == slow.butina(table, threshold)
    sizes = np.bincount(found)
    assert sizes[0] == sizes.max()


@pytest.mark.parametrize("count", [1, 2, 3, 20, len(SMILES)])
def test_the_choice_is_kennards_and_stones(table, count):
    assert fast.kennard_stone(fast.fingerprints(SMILES), count).tolist() == slow.kennard_stone(table, count)


def test_few_molecules():
    one = fast.fingerprints(["C"])
    assert fast.kennard_stone(one, 1).tolist() == [0]
    assert fast.kennard_stone(one, 0).tolist() == []
    assert fast.butina(fast.fingerprints([]), 0.4).tolist() == []


def test_clusters_are_whole_and_all_molecules_are_there():
    groups = cluster_groups(SMILES, 0.6)
    split = cluster_split(SMILES, threshold=0.6)
    parts = [part.numpy() for part in (split.train, split.val, split.test)]
    assert sorted(np.concatenate(parts)) == list(range(len(SMILES)))
    assert all(len(part) for part in parts)
    known = [set(groups[part]) for part in parts]
    assert sum(map(len, known)) == len(set(groups))


def test_a_training_part_that_covers_the_set(table):
    split = kennard_stone_split(SMILES, seed=1)
    assert sorted(split.train.tolist()) == sorted(slow.kennard_stone(table, len(split.train)))
    assert (len(split.train), len(split.val), len(split.test)) == (38, 5, 5)
    other = kennard_stone_split(SMILES, seed=2)
    assert split.train.tolist() == other.train.tolist()
    assert split.test.tolist() != other.test.tolist()


def test_what_is_refused(monkeypatch):
    with pytest.raises(SplitError, match=r"a threshold of 1\.2: it is a Tanimoto distance"):
        cluster_split(SMILES, threshold=1.2)
    with pytest.raises(SplitError, match="there is one cluster, and none is cut"):
        cluster_split(["CCO"] * 12)
    with pytest.raises(GraphError, match="does not parse"):
        kennard_stone_split(["CC", "C("])
    monkeypatch.setitem(fast.MOST, "cluster", 10)
    monkeypatch.setitem(fast.MOST, "kennard-stone", 10)
    with pytest.raises(SplitError, match=r"there are 48 molecules, and a cluster split compares all pairs of 10"):
        cluster_split(SMILES)
    with pytest.raises(SplitError, match="a kennard-stone split compares all pairs of 10 at the most: take a scaffold"):
        kennard_stone_split(SMILES)
