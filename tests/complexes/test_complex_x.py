"""Features of complexes as wholes go wherever complexes go."""

from dataclasses import replace

import pytest
import torch

import cwnet
from cwnet.complexes import ComplexStore, collate
from cwnet.data import open_store, save_store
from cwnet.errors import InvalidComplexError

TRIANGLE, PATH = (3, [(0, 1), (1, 2), (0, 2)]), (2, [(0, 1)])


@pytest.fixture
def store():
    found = cwnet.lift_many([TRIANGLE, PATH, TRIANGLE], cwnet.Rings(6))
    return replace(found, complex_x=torch.arange(6.0).reshape(3, 2))


def test_they_are_selected_batched_and_cut(store):
    assert store.select([2, 0]).complex_x.tolist() == [[4, 5], [0, 1]]
    batch = store.batch([1, 2])
    assert batch.complex_x.tolist() == [[2, 3], [4, 5]]
    assert batch[1].complex_x.tolist() == store[2].complex_x.tolist() == [4, 5]
    assert torch.equal(collate([store[0], store[1]]).complex_x, store.complex_x[:2])
    assert store.to(torch.float64).batch().complex_x.dtype == torch.float64


def test_they_survive_skeletons_and_liftings(store):
    assert torch.equal(store.skeleton(1).complex_x, store.complex_x)
    assert torch.equal(cwnet.lift_many(store.skeleton(0), None).complex_x, store.complex_x)
    assert torch.equal(cwnet.lift_many(store, cwnet.Rings(3)).complex_x, store.complex_x)
    assert store[0].skeleton(1).complex_x.tolist() == [0, 1]


def test_they_are_part_of_equality_and_of_trees(store):
    assert store[0] == ComplexStore.from_complexes([store[0]])[0]
    assert store[0] != store[2]
    leaves, spec = torch.utils._pytree.tree_flatten(store.batch())
    assert torch.equal(torch.utils._pytree.tree_unflatten(leaves, spec).complex_x, store.complex_x)


def test_they_are_kept_on_disk(store, tmp_path):
    save_store(store, tmp_path / "store", shard_size=2)
    assert torch.equal(open_store(tmp_path / "store").complex_x, store.complex_x)
    save_store(replace(store, complex_x=None), tmp_path / "without")
    assert open_store(tmp_path / "without").complex_x is None


def test_all_have_them_or_none(store):
    with pytest.raises(InvalidComplexError, match="complex 1 has no complex_x"):
        ComplexStore.from_complexes([store[0], replace(store[1], complex_x=None)])
