"""Model folders that a disk or a stranger has changed."""

import json
import random

import pytest
from typer.testing import CliRunner

from cwnet.cli import app
from cwnet.errors import CwnetError
from cwnet.molecules import ModelError, MoleculeModel
from cwnet.molecules._model import _self_hash


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "model"
    MoleculeModel.load("zinc").save(folder)
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    for file in whole.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def forge(folder, change):
    """Change model.json, and its hash with it."""
    body = json.loads((folder / "model.json").read_text())
    change(body)
    body["hash"] = _self_hash(body)
    (folder / "model.json").write_text(json.dumps(body))


def test_what_is_saved_is_loaded(whole):
    old, new = MoleculeModel.load("zinc"), MoleculeModel.load(whole)
    assert json.loads((whole / "model.json").read_text())["version"] == 3
    assert (old.targets, old.featuriser) == (new.targets, new.featuriser)
    assert old.predict(["CCO"]).mean == new.predict(["CCO"]).mean


def test_every_flip_is_found_or_harmless(folder):
    file = folder / "model.json"
    text = file.read_bytes()
    same = json.loads(text)
    chance = random.Random(11)
    for at in range(0, len(text), 9):
        flipped = bytearray(text)
        flipped[at] ^= 1 << chance.randrange(8)
        file.write_bytes(flipped)
        try:
            MoleculeModel.load(folder)
        except ModelError:
            continue
        assert json.loads(flipped) == same  # white space


@pytest.mark.parametrize("size", [0, 1, 100, 2000])
def test_files_cut_off(folder, size):
    for name in ("model.json", "weights.safetensors"):
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[:size])
        with pytest.raises(ModelError):
            MoleculeModel.load(folder)
        (folder / name).write_bytes(data)


def test_an_edit_is_found(folder):
    text = (folder / "model.json").read_text()
    (folder / "model.json").write_text(text.replace("rings:18", "rings:6"))
    with pytest.raises(ModelError, match=r"model\.json was changed after it was written"):
        MoleculeModel.load(folder)
    body = json.loads(text)
    del body["hash"]
    (folder / "model.json").write_text(json.dumps(body))
    with pytest.raises(ModelError, match="was changed"):
        MoleculeModel.load(folder)


EVIL = {
    "as wide as the sea": lambda body: body["network"].update(width=10**9),
    "beyond numbers": lambda body: body["network"].update(width=10**30),
    "of no width": lambda body: body["network"].update(width=-1),
    "more members than weights": lambda body: body.update(members=10**9),
    "members in words": lambda body: body.update(members="two"),
    "no members": lambda body: body.update(members=0),
    "a class of no one": lambda body: body["network"].update({"class": "os:system"}),
    "categories beyond measure": lambda body: body["network"]["encoder"]["encoders"][0].update(sizes=[10**12] * 9),
    "no network": lambda body: body.update(network=7),
    "targets of no name": lambda body: body["targets"].update(names=[]),
    "targets that are numbers": lambda body: body["targets"].update(names=[7]),
    "targets of another number": lambda body: body["targets"].update(names=["a", "b"]),
    "a task of its own": lambda body: body["targets"].update(task="guess"),
    "a mean in words": lambda body: body["targets"].update(mean=["x"]),
    "no about": lambda body: body.pop("about"),
    "rings in numbers": lambda body: body["featuriser"].update(lifting=7),
    "rings beyond": lambda body: body["featuriser"].update(lifting="rings:99999999999999999999"),
    "atoms in words": lambda body: body["featuriser"].update(max_atoms="many"),
    "weights of nowhere": lambda body: body.update(weights=None),
}


@pytest.mark.parametrize("what", EVIL)
def test_evil_folders(folder, what):
    forge(folder, EVIL[what])
    with pytest.raises(CwnetError):
        MoleculeModel.load(folder)


def test_nested_beyond_measure(folder):
    (folder / "model.json").write_text("[" * 200_000)
    with pytest.raises(ModelError):
        MoleculeModel.load(folder)


def test_terminal_escapes_are_shown_and_not_sent(folder):
    forge(folder, lambda body: body["targets"].update(names=["\x1b]0;owned\x07\x1b[2Jlog\x9bP"]))
    found = CliRunner().invoke(app, ["predict", str(folder), "CCO"])
    assert found.exit_code == 0, found.output
    assert not set("\x1b\x07\x9b") & set(found.output)
    assert r"\x1b[2Jlog\x9bP" in found.output
    found = CliRunner().invoke(app, ["predict", str(folder / "\x1b[31mnothing"), "t.csv"])
    assert found.exit_code == 2
    assert "\x1b" not in found.output
