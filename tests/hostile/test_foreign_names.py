"""Manifests and model folders that name files which are not theirs."""

import json
import os

import pytest

from cwnet.data import DamagedStoreError, open_store, read_manifest, save_store
from cwnet.data._store_file import _digest_of
from cwnet.molecules import ModelError, MoleculeModel
from tests.hostile.test_stores import rings

FOREIGN = ["../precious.txt", "{tmp}/precious.txt", "precious.txt", "..", ".", "", "sub/shard.arrow", 7, None]


def forge(store, **changes):
    """Change the first shard of a manifest, and its hash with it."""
    file = store / "manifest.json"
    body = json.loads(file.read_text())
    body.pop("blake2b")
    body["shards"][0] = {**body["shards"][0], **changes}
    file.write_text(json.dumps({**body, "blake2b": _digest_of(body)}))


@pytest.fixture
def precious(tmp_path):
    file = tmp_path / "precious.txt"
    file.write_text("the only copy")
    return file


@pytest.mark.parametrize("name", FOREIGN)
def test_a_manifest_names_shards_of_its_own_folder_only(tmp_path, precious, name):
    store = tmp_path / "store"
    save_store(rings(3), store)
    (store / "precious.txt").write_text("mine")
    forge(store, file=name.format(tmp=tmp_path) if isinstance(name, str) else name)
    with pytest.raises(DamagedStoreError):
        read_manifest(store)
    save_store(rings(4), store)
    assert len(open_store(store)) == 4
    assert precious.read_text() == "the only copy"
    assert (store / "precious.txt").read_text() == "mine"


@pytest.mark.parametrize("changes", [{"count": -1}, {"count": "3"}, {"bytes": None}, {"count": 10**30}, {"blake2b": 3}])
def test_a_manifest_has_numbers_where_they_belong(tmp_path, changes):
    save_store(rings(3), tmp_path / "store")
    forge(tmp_path / "store", **changes)
    with pytest.raises(DamagedStoreError):
        open_store(tmp_path / "store")


def special(path, kind):
    """Put something in the place of a file that is never read to its end, or that hangs."""
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()


@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
def test_special_files_in_a_store(tmp_path, kind):
    save_store(rings(3), tmp_path / "a")
    special(next((tmp_path / "a").glob("*.arrow")), kind)
    forge(tmp_path / "a", bytes=0)
    with pytest.raises(DamagedStoreError, match="is not a plain file"):
        open_store(tmp_path / "a")
    save_store(rings(3), tmp_path / "b")
    special(tmp_path / "b" / "manifest.json", kind)
    with pytest.raises(DamagedStoreError, match="is not a plain file"):
        open_store(tmp_path / "b")


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    MoleculeModel.load("zinc").save(folder)
    return folder


def rewrite(folder, change):
    body = json.loads((folder / "model.json").read_text())
    change(body)
    (folder / "model.json").write_text(json.dumps(body))


@pytest.mark.parametrize("name", ["../outside.safetensors", "/dev/zero", "..", "", None])
def test_weights_lie_in_the_folder(tmp_path, model, name):
    (tmp_path / "outside.safetensors").write_bytes((model / "weights.safetensors").read_bytes())
    rewrite(model, lambda body: (body["weights"].update(file=name), body.pop("hash", None)))
    with pytest.raises(ModelError):
        MoleculeModel.load(model)


@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
@pytest.mark.parametrize("name", ["weights.safetensors", "model.json"])
def test_special_files_in_a_model(model, name, kind):
    special(model / name, kind)
    with pytest.raises(ModelError):
        MoleculeModel.load(model)
