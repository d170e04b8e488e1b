"""Manifests, models, checkpoints and recipes that say something else, with hashes that are right."""

from __future__ import annotations

import json
import random
import shutil
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch

from cwnet.chem import nci_smiles
from cwnet.data import open_sharded, open_store, save_store
from cwnet.data._store_file import _digest_of as manifest_hash
from cwnet.errors import CwnetError
from cwnet.molecules import MoleculeModel
from cwnet.molecules._model import _self_hash as model_hash
from cwnet.scale import lift_files
from cwnet.train import Recipe, fit, load_model, load_recipe
from cwnet.train._checkpoint import _digest_of as checkpoint_hash
from tests.campaign.damage import RECIPE
from tests.campaign.mutations import mutated_bytes
from tests.campaign.surface import OK, REFUSED, Surface, Wrong

VALUES = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    1.5,
    2**31,
    2**63,
    2**70,
    -(2**70),
    1e308,
    "",
    "a",
    "../precious.txt",
    "/etc/passwd",
    "/dev/zero",
    "pipe",
    "x" * 5_000,
    "\x1b[2J",
    "rings:6",
    "rings:999999",
    "cliques:256",
    "torch.nn.Linear",
    "os.system",
    [],
    {},
    [[]],
    [1, 2],
    {"a": 1},
    [None] * 3,
    {"type": "CIN"},
    "nan",
)


class Place(NamedTuple):
    """Where the folders are, the files to forge, and recipes as text."""

    folder: Path
    files: dict[str, Any]
    recipes: list[str]


def prepare(folder: Path) -> Place:
    """A store, a model, a run, and a file that no one may touch."""
    (folder / "precious.txt").write_text("precious")
    (folder / "t.smi").write_text("\n".join(nci_smiles()[:8]) + "\n")
    lift_files([folder / "t.smi"], folder / "store", shard_rows=4)
    MoleculeModel.load("zinc").save(folder / "model")
    fit(Recipe.from_dict(RECIPE), out=folder / "run", device="cpu", progress=False)
    newest = max((folder / "run" / "checkpoints").glob("*.json"))
    for old in (folder / "run" / "checkpoints").glob("*.json"):
        if old != newest:
            old.unlink()
    files = {
        "store": folder / "store" / "manifest.json",
        "model": folder / "model" / "model.json",
        "run": newest,
    }
    recipes = [
        file.read_text() for file in sorted((Path(load_recipe.__code__.co_filename).parent / "recipes").glob("*.toml"))
    ]
    return Place(folder, {name: (file, json.loads(file.read_text())) for name, file in files.items()}, recipes)


def attack(chance: random.Random, place: Place) -> str:
    """One forgery; a file outside stays as it is."""
    kind = chance.choice(["store", "store", "model", "model", "run", "recipe"])
    try:
        with warnings.catch_warnings(action="ignore"):
            return recipe(chance, place) if kind == "recipe" else forge(chance, place, kind)
    finally:
        if (place.folder / "precious.txt").read_text() != "precious":
            raise Wrong(f"a forged {kind} changed a file elsewhere")


def forge(chance: random.Random, place: Place, kind: str) -> str:
    """Another value somewhere in a JSON file, and the right hash."""
    file, body = place.files[kind]
    copy = json.loads(json.dumps(body))
    for _ in range(chance.choice([1, 1, 2])):
        change(chance, copy)
    if kind == "store":
        copy.pop("blake2b", None)
        copy["blake2b"] = manifest_hash(copy)
    elif kind == "model":
        copy["hash"] = model_hash(copy)
    else:
        copy.pop("hash", None)
        copy["hash"] = checkpoint_hash(copy)
    file.write_text(json.dumps(copy))
    try:
        if kind == "store":
            store = open_store(file.parent)
            sharded = open_sharded(file.parent)
            sharded.select(range(len(sharded)))
            if chance.random() < 0.3:  # which clears away what the old manifest names
                shutil.copytree(file.parent, place.folder / "over", dirs_exist_ok=True)
                save_store(store, place.folder / "over")
                shutil.rmtree(place.folder / "over")
        elif kind == "model":
            found = MoleculeModel.load(file.parent).predict(["CCO"]).mean
            assert isinstance(found, torch.Tensor)
        else:
            load_model(place.folder / "run", "last")
    except (CwnetError, FileNotFoundError):
        return REFUSED
    finally:
        file.write_text(json.dumps(body))
    return OK


def change(chance: random.Random, body: Any) -> None:
    """Put another value, or none, at a random place of plain data."""
    here = body
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        if not keys:
            return
        key = chance.choice(keys)
        inner = here[key]
        if isinstance(inner, dict | list) and inner and chance.random() < 0.8:
            here = inner
            continue
        way = chance.random()
        if way < 0.15:
            del here[key]
        elif way < 0.25 and isinstance(here, dict):
            here[chance.choice(["x", "file", "", "type", "count"])] = chance.choice(VALUES)
        else:
            here[key] = chance.choice(VALUES)
        return


def recipe(chance: random.Random, place: Place) -> str:
    """A recipe with bytes changed, or with values set: read, and written back the same."""
    file = place.folder / "r.toml"
    file.write_bytes(mutated_bytes(chance, chance.choice(place.recipes).encode(), chance.choice([0, 1, 2])))
    keys = [
        "train.epochs",
        "train.lr",
        "model.width",
        "data.name",
        "train.seeds",
        "model.preset",
        "x",
        "train",
        "",
        "a.b.c",
    ]
    overrides = [f"{chance.choice(keys)}={chance.choice(VALUES)}" for _ in range(chance.choice([0, 0, 1, 2]))]
    found = load_recipe(file, overrides)
    file.write_text(found.to_toml())
    if load_recipe(file).to_dict() != found.to_dict():
        raise Wrong(f"another recipe when written and read: {found.to_toml()}")
    return OK


SURFACE = Surface(
    "forgeries",
    "a manifest, model, checkpoint or recipe that says something else, with the right hash",
    attack,
    prepare,
    60,
    5_000,
)
