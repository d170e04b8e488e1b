"""Stores that someone else wrote, or that a disk has changed, are refused before anything is made of them."""

from dataclasses import replace

import pytest
import torch

import cwnet
from cwnet import Rings
from cwnet.complexes import Csr
from cwnet.complexes._validate import check_numbers
from cwnet.data import DamagedStoreError, open_sharded, open_store, save_store
from cwnet.errors import InvalidComplexError


def rings(n=20, start=3):
    graphs = [cwnet.Graph(k, [(i, (i + 1) % k) for i in range(k)], y=[float(k)]) for k in range(start, start + n)]
    return cwnet.lift_many(graphs, Rings(30))


def changed(tensor, at, value):
    copy = tensor.clone()
    copy[at] = value
    return copy


def with_boundary(store, d, *, ptr=None, idx=None):
    csr = store.boundaries[d - 1]
    new = Csr(csr.ptr if ptr is None else ptr, csr.idx if idx is None else idx)
    return replace(store, boundaries=tuple(new if i == d - 1 else old for i, old in enumerate(store.boundaries)))


def forged():
    """Stores whose hashes are right and whose numbers are not."""
    store = rings()
    edges, faces = store.boundaries
    yield "an edge to a far vertex", with_boundary(store, 1, idx=changed(edges.idx, 7, 2_000_000_000))
    yield "an edge to a vertex of the next", with_boundary(store, 1, idx=changed(edges.idx, 5, 3))
    yield "an edge to a vertex before", with_boundary(store, 1, idx=changed(edges.idx, 7, -1))
    yield "a ring over a far edge", with_boundary(store, 2, idx=changed(faces.idx, -1, 5_000))
    yield "pointers that fall", with_boundary(store, 2, ptr=changed(faces.ptr, 3, int(faces.ptr[5])))
    yield "an edge of three ends", with_boundary(store, 1, ptr=changed(edges.ptr, 3, 7))
    yield "an edge from a vertex to itself", with_boundary(store, 1, idx=changed(edges.idx, 1, int(edges.idx[0])))
    yield "dimensions that are not there", replace(store, dims=changed(store.dims, 4, 9))
    yield "cells beyond the dimensions", replace(store, dims=changed(store.dims, 4, 1))
    yield "cells that fall", replace(store, cell_ptr=(*store.cell_ptr[:2], changed(store.cell_ptr[2], 4, 90)))
    yield "fewer than no vertices", replace(store, cell_ptr=(changed(store.cell_ptr[0], 3, 0), *store.cell_ptr[1:]))


def forged_in_memory():
    """More of them, which Arrow would refuse to write or put right."""
    yield from forged()
    store = rings()
    faces = store.boundaries[1]
    yield "pointers that start late", with_boundary(store, 2, ptr=changed(faces.ptr, 0, 1))
    yield "pointers beyond the end", with_boundary(store, 2, ptr=changed(faces.ptr, -1, int(faces.ptr[-1]) + 40))
    yield "cells of another number", replace(store, cell_ptr=(*store.cell_ptr[:2], changed(store.cell_ptr[2], -1, 19)))
    yield "features of more cells", replace(store, x=(torch.zeros(251, 2), None, None))
    yield "targets of fewer complexes", replace(store, y=store.y[:-1])


@pytest.mark.parametrize(("what", "store"), list(forged()), ids=lambda value: value if isinstance(value, str) else "")
def test_numbers_that_lead_nowhere(tmp_path, what, store):
    save_store(store, tmp_path / "store")
    with pytest.raises(DamagedStoreError, match=r"\.arrow .*make the store again"):
        open_store(tmp_path / "store", verify=False)
    with pytest.raises(DamagedStoreError):
        open_sharded(tmp_path / "store").batch([0])


@pytest.mark.parametrize(
    ("what", "store"), list(forged_in_memory()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_numbers_that_lead_nowhere_in_memory(what, store):
    with pytest.raises(InvalidComplexError):
        check_numbers(store)


def test_whole_stores_open(tmp_path):
    for name, store in (("rings", rings()), ("none", rings().select([])), ("tree", rings().skeleton(1))):
        save_store(store, tmp_path / name)
        assert list(open_store(tmp_path / name)) == list(store)
