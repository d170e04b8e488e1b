"""Stores on disk: exact, atomic, and suspicious of what they find."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cwnet
from cwnet import ComplexStore, Rings
from cwnet.data import (
    DamagedStoreError,
    StoreWriter,
    concatenate,
    iterate_shards,
    open_store,
    read_manifest,
    save_store,
)
from cwnet.data import _store_file as store_file
from tests.complexes.test_store import MIXED, with_features
from tests.strategies import complexes


def rings(n, start=3):
    graphs = [cwnet.Graph(k, [(i, (i + 1) % k) for i in range(k)], y=[float(k), 1.0]) for k in range(start, start + n)]
    return cwnet.lift_many(graphs, Rings(6))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(st.lists(complexes, min_size=1, max_size=6), st.booleans())
def test_there_and_back(tmp_path, some, featured):
    if featured:
        some = [with_features(c, seed) for seed, c in enumerate(some)]
    save_store(ComplexStore.from_complexes(some), tmp_path / "store")
    assert list(open_store(tmp_path / "store")) == some


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.float16, torch.int8, torch.uint8, torch.int16, torch.int64, torch.bool],
)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 2)])
def test_features_of_any_type_and_shape(tmp_path, dtype, shape):
    x = (torch.rand(5, *shape) * 2).to(dtype)
    graph = ComplexStore.from_graphs([3, 2], [1, 0], [[0, 1]], x=x, y=x[:2])
    save_store(graph, tmp_path / "store")
    back = open_store(tmp_path / "store")
    assert back.x[0].dtype == dtype
    assert torch.equal(back.x[0], x)
    assert torch.equal(back.y, x[:2])


def test_it_is_mapped_and_not_copied(tmp_path):
    save_store(rings(50), tmp_path / "store")
    store = open_store(tmp_path / "store")
    maps = Path("/proc/self/maps").read_text().splitlines()
    mapped = [line.split()[0].split("-") for line in maps if "-00000.arrow" in line]
    spans = [(int(a, 16), int(b, 16)) for a, b in mapped]
    for tensor in (store.boundaries[0].idx, store.boundaries[1].ptr, store.y):
        assert any(a <= tensor.data_ptr() < b for a, b in spans)


def test_any_arrow_reader_can_open_it(tmp_path):
    save_store(rings(3), tmp_path / "store")
    (file,) = (tmp_path / "store").glob("*.arrow")
    table = pa.ipc.open_file(str(file)).read_all()
    assert table.column("boundary_2").to_pylist() == [[[0, 1, 2]], [[0, 1, 2, 3]], [[0, 1, 2, 3, 4]]]
    assert table.column("num_vertices").to_pylist() == [3, 4, 5]


def test_the_manifest_says_what_it_is(tmp_path):
    manifest = save_store(rings(4), tmp_path / "store", input_hash="abc", about={"from": "here"})
    assert manifest == read_manifest(tmp_path / "store")
    assert (manifest.lifting, manifest.input, manifest.count) == ("Rings(6)", "abc", 4)
    assert manifest.num_cells == (3 + 4 + 5 + 6, 3 + 4 + 5 + 6, 4)
    assert manifest.about == {"from": "here"}
    assert open_store(tmp_path / "store").lifting == "Rings(6)"


def test_shards(tmp_path):
    store = rings(10)
    manifest = save_store(store, tmp_path / "store", shard_size=4)
    assert [s["count"] for s in manifest.shards] == [4, 4, 2]
    assert list(open_store(tmp_path / "store")) == list(store)
    assert list(open_store(tmp_path / "store", shard=1)) == list(store.select(slice(4, 8)))
    assert [len(s) for s in iterate_shards(tmp_path / "store")] == [4, 4, 2]
    with pytest.raises(IndexError, match=r"shard 3 was asked for, but .* has 3"):
        open_store(tmp_path / "store", shard=3)


def test_concatenation():
    some = [ComplexStore.from_complexes(MIXED[:2]), ComplexStore.from_complexes(MIXED[2:])]
    assert list(concatenate(some)) == MIXED
    with pytest.raises(ValueError, match="that others lack"):
        concatenate([rings(2), ComplexStore.from_complexes(MIXED)])


class TestDamage:
    @pytest.fixture
    def path(self, tmp_path):
        save_store(rings(20), tmp_path / "store", shard_size=10)
        return tmp_path / "store"

    def test_no_store(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="is not a store"):
            open_store(tmp_path / "nothing")

    @pytest.fixture
    def file(self, path):
        return next(path.glob("*-00000.arrow"))

    def test_a_missing_shard(self, path):
        next(path.glob("*-00001.arrow")).unlink()
        with pytest.raises(DamagedStoreError, match=r"-00001\.arrow is missing: delete .* and make the store again"):
            open_store(path)

    def test_a_shard_cut_off(self, path, file):
        file.write_bytes(file.read_bytes()[:-100])
        with pytest.raises(DamagedStoreError, match=r"bytes instead of"):
            open_store(path)

    def test_a_flipped_byte_in_every_place(self, path, file):
        whole = file.read_bytes()
        for at in range(0, len(whole), 97):
            changed = bytearray(whole)
            changed[at] ^= 1
            file.write_bytes(changed)
            with pytest.raises(DamagedStoreError, match="its hash differs"):
                open_store(path)

    def test_a_flipped_byte_in_the_manifest(self, path):
        file = path / "manifest.json"
        whole = file.read_bytes()
        for at in range(0, len(whole), 13):
            changed = bytearray(whole)
            changed[at] ^= 1
            file.write_bytes(changed)
            try:
                assert read_manifest(path) is not None  # white space may change
                json_equal = json.loads(changed) == json.loads(whole)
                assert json_equal
            except (DamagedStoreError, UnicodeDecodeError):
                pass

    def test_another_schema(self, path, monkeypatch):
        monkeypatch.setattr(store_file, "SCHEMA_VERSION", 2)
        with pytest.raises(DamagedStoreError, match="schema version 1, this cwnet reads version 2"):
            open_store(path)


class TestWriting:
    def test_what_is_there_survives_an_error(self, tmp_path):
        path = tmp_path / "store"
        save_store(rings(3), path)

        def fail():
            with StoreWriter(path) as writer:
                writer.append(rings(5))
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fail()
        assert list(open_store(path)) == list(rings(3))
        assert len(os.listdir(path)) == 2

    def test_replacing(self, tmp_path):
        path = tmp_path / "store"
        save_store(rings(3), path)
        before = open_store(path)  # stays readable: its file is mapped
        save_store(rings(7), path)
        assert len(open_store(path)) == 7
        assert list(before) == list(rings(3))
        assert len(os.listdir(path)) == 2

    def test_a_full_disk(self, tmp_path):
        """The system refuses to write more than a few kilobytes: the old store stays, and nothing is left over."""
        path = tmp_path / "store"
        save_store(rings(3), path)
        script = (
            "import resource, signal, sys\n"
            "from tests.data.test_store_file import rings\n"
            "from cwnet.data import save_store\n"
            "big = rings(300)\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
            "try:\n"
            "    save_store(big, sys.argv[1])\n"
            "except OSError as error:\n"
            "    print('refused', error.errno)\n"
        )
        run = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
        assert run.stdout.startswith("refused")
        assert list(open_store(path)) == list(rings(3))
        assert len(os.listdir(path)) == 2

    def test_many_processes_at_once(self, tmp_path):
        """Whoever comes last wins; whatever is there is whole."""
        script = (
            "import sys\n"
            "from tests.data.test_store_file import rings\n"
            "from cwnet.data import save_store\n"
            "store = rings(30, start=int(sys.argv[2]))\n"
            "for _ in range(20): save_store(store, sys.argv[1])\n"
        )
        path = tmp_path / "store"
        runs = [subprocess.Popen([sys.executable, "-c", script, str(path), str(start)]) for start in (3, 5, 7)]
        assert [run.wait() for run in runs] == [0, 0, 0]
        assert len(open_store(path, verify=True)) == 30
        assert len(os.listdir(path)) == 2

    def test_a_first_write_that_fails_leaves_nothing(self, tmp_path):
        def fail():
            with StoreWriter(tmp_path / "store") as writer:
                writer.append(rings(2))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert os.listdir(tmp_path) == []

    def test_reading_while_it_is_replaced(self, tmp_path):
        """A reader sees one store or the other, whole."""
        path = tmp_path / "store"
        save_store(rings(3), path)
        script = (
            "import sys\n"
            "from tests.data.test_store_file import rings\n"
            "from cwnet.data import save_store\n"
            "for n in range(40): save_store(rings(3 + n % 2), sys.argv[1])\n"
        )
        writer = subprocess.Popen([sys.executable, "-c", script, str(path)])
        sizes = set()
        while writer.poll() is None:
            sizes.add(len(open_store(path)))
        assert writer.returncode == 0
        assert sizes <= {3, 4}

    def test_a_writer_outside_its_block(self, tmp_path):
        with pytest.raises(RuntimeError, match="inside its with block"):
            StoreWriter(tmp_path / "store").append(rings(1))
