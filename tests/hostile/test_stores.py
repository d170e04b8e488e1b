"""Stores that someone else wrote, or that a disk has changed, are refused before anything is made of them."""

import struct
from dataclasses import replace

import pytest
import torch

import cwnet
from cwnet import Rings
from cwnet.complexes import Csr
from cwnet.complexes._validate import check_numbers
from cwnet.data import DamagedStoreError, open_sharded, open_store, read_manifest, save_store
from cwnet.data import _sharded as sharded
from cwnet.data import _store_file as store_file
from cwnet.data._store_file import publish, write_shard
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


class TestLargeShards:
    """Shards of any size are compared with their hash when they are first opened."""

    @pytest.fixture
    def path(self, tmp_path):
        store = rings(40).select(torch.arange(120_000) % 40)
        save_store(store, tmp_path / "store")
        assert next((tmp_path / "store").glob("*.arrow")).stat().st_size > 17 * 2**20
        return tmp_path / "store"

    def test_a_flip_anywhere_is_found(self, path):
        file = next(path.glob("*.arrow"))
        size = file.stat().st_size
        generator = torch.Generator().manual_seed(21)
        for at in [8, size - 20, *torch.randint(size, (6,), generator=generator).tolist()]:
            with open(file, "r+b") as shard:
                flip(shard, at)
                with pytest.raises(DamagedStoreError, match="its hash differs"):
                    open_store(path)
                with pytest.raises(DamagedStoreError, match=r"its hash differs|can not be read"):
                    open_sharded(path).batch([0])
                flip(shard, at)
        assert len(open_store(path)) == 120_000


def flip(file, at):
    file.seek(at)
    (byte,) = file.read(1)
    file.seek(at)
    file.write(bytes([byte ^ 4]))
    file.flush()


def test_a_sharded_store_is_verified_shard_by_shard_as_it_is_used(tmp_path):
    save_store(rings(), tmp_path, shard_size=5)
    shard = next(tmp_path.glob("*-00002.arrow"))
    with open(shard, "r+b") as file:
        flip(file, shard.read_bytes().index(struct.pack("<5f", *range(13, 18))))  # a target
    store = open_sharded(tmp_path)
    assert store.batch([0, 5, 19]).y.tolist() == [[3.0], [8.0], [22.0]]
    with pytest.raises(DamagedStoreError, match=r"-00002\.arrow was changed after it was written"):
        store.batch([10])


def test_shards_are_hashed_once(tmp_path, monkeypatch):
    save_store(rings(), tmp_path, shard_size=5)
    seen = []
    real = store_file.hash_file
    monkeypatch.setattr(store_file, "hash_file", lambda path: seen.append(path.name[-11:]) or real(path))
    monkeypatch.setattr(sharded, "_OPEN", 1)
    store = open_sharded(tmp_path)
    assert not seen  # opening reads targets only
    for i in (0, 7, 0, 7, 1):
        store.batch([i])
    assert seen == ["00000.arrow", "00001.arrow"]


def test_targets_of_another_number(tmp_path):
    save_store(rings(), tmp_path, shard_size=5)
    other = replace(rings(4), y=None)
    shards = [*read_manifest(tmp_path).shards]
    shards[1] = {**write_shard(tmp_path / "other.arrow", other), "count": 5}
    publish(tmp_path, shards, [(1,)], None, None, {})
    with pytest.raises(DamagedStoreError, match=r"other\.arrow"):
        open_sharded(tmp_path)


@pytest.mark.parametrize("suffix", [".json", ".rejects.csv", ".arrow"])
def test_parts_of_a_lift_that_were_changed_are_made_again(tmp_path, monkeypatch, suffix):
    pytest.importorskip("rdkit")
    from cwnet.scale import _lift, lift_files

    table, out = tmp_path / "t.smi", tmp_path / "store"
    table.write_text("CCO\nno\nCCN\nc1ccccc1\n")
    lift_files([table], tmp_path / "right", shard_rows=2)

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_lift, "_finish", stopped)
        with pytest.raises(KeyboardInterrupt):
            lift_files([table], out, shard_rows=2)
    part = min(file for file in out.glob(f"*{suffix}") if "job" not in file.name)
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    assert lift_files([table], out, shard_rows=2).reused == 1
    assert (out / "rejects.csv").read_bytes() == (tmp_path / "right" / "rejects.csv").read_bytes()
    assert [complex_.num_cells for complex_ in open_store(out)] == [X.num_cells for X in open_store(tmp_path / "right")]
