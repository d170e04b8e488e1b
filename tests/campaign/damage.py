"""Files of our own with a bit flipped, an end cut off or bytes put in: found, or harmless."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import cwnet
from cwnet import ComplexStore
from cwnet.chem import nci_smiles
from cwnet.data import open_sharded, open_store, save_store
from cwnet.data._store_file import iterate_shards, open_smiles, verify_store
from cwnet.errors import CwnetError
from cwnet.molecules import MoleculeModel
from cwnet.scale import lift_files
from cwnet.train import Recipe, fit, load_model
from cwnet.train._checkpoint import latest
from tests.campaign.mutations import mutated_bytes
from tests.campaign.surface import OK, REFUSED, Surface, Wrong

RECIPE = {
    "data": {"name": "ring-transfer", "options": {"k": 6, "num_train": 20, "num_val": 5, "num_test": 5}},
    "model": {"width": 8, "vertices": "linear"},
    "train": {"epochs": 3, "checkpoint_every": 1},
}


class Target(NamedTuple):
    """A folder, how it is read, and what may come of that."""

    folder: Path
    read: Callable[[Path, random.Random], Any]
    allowed: list[Any]


def digest(store: ComplexStore) -> str:
    """All arrays of a store, as a hash."""
    found = hashlib.blake2b()
    for tensor in (*store.cell_ptr, *(t for csr in store.boundaries for t in csr), *store.x, store.y, store.dims):
        found.update(b"-" if tensor is None else np.ascontiguousarray(tensor.numpy()).tobytes())
    return found.hexdigest()


def read_store(folder: Path, chance: random.Random) -> Any:
    """A store, opened in one of the ways there are. What verification says must be what opening says."""
    way = chance.randrange(4)
    if way == 0:
        return digest(open_store(folder))
    if way == 1:
        sharded = open_sharded(folder)
        return digest(sharded.select(range(len(sharded))))
    if way == 2:
        if problems := verify_store(folder):
            raise CwnetError(problems[0])
        return digest(open_store(folder))
    for i, _ in enumerate(iterate_shards(folder)):
        open_smiles(folder, i)
    return digest(open_store(folder))


def read_model(folder: Path, _: random.Random) -> Any:
    """What a model predicts, to the bit."""
    return MoleculeModel.load(folder).predict(["CCO", "c1ccccc1N"]).mean.numpy().tobytes()


def read_checkpoint(folder: Path, _: random.Random) -> Any:
    """The newest checkpoint that is whole, and the model of the run."""
    found = latest(folder)
    assert found is not None
    tensors = hashlib.blake2b(b"".join(t.numpy().tobytes() for _, t in sorted(found.tensors.items()))).hexdigest()
    load_model(folder, "last")
    return tensors, json.dumps(found.body, sort_keys=True)


def read_lift(folder: Path, _: random.Random) -> Any:
    """A store that is finished from the parts that are there."""
    lift_files([folder / "t.smi"], folder / "store", shard_rows=10)
    return digest(open_store(folder / "store"))


def prepare(folder: Path) -> list[Target]:
    """One folder of every kind, shards of more than 16 MiB among them."""
    smiles = nci_smiles()[:40]
    (folder / "t.smi").write_text("\n".join(smiles) + "\n")
    lift_files([folder / "t.smi"], folder / "store", shard_rows=10)
    torch.manual_seed(0)
    many = [(40, [(i, (i + 1) % 40) for i in range(40)], torch.rand(40, 100), None, float(k)) for k in range(1_200)]
    save_store(cwnet.lift_many(many, "rings:40", threads=1), folder / "large")
    assert max(file.stat().st_size for file in (folder / "large").iterdir()) > 2**24
    MoleculeModel.load("zinc").save(folder / "model")
    fit(Recipe.from_dict(RECIPE), out=folder / "run", device="cpu", progress=False)
    partly = folder / "partly"
    partly.mkdir()
    shutil.copy(folder / "t.smi", partly)
    _lift_in_part(partly)
    chance = random.Random(0)
    return [
        Target(folder / "store", read_store, [read_store(folder / "store", chance)]),
        Target(folder / "large", read_store, [read_store(folder / "large", chance)]),
        Target(folder / "model", read_model, [read_model(folder / "model", chance)]),
        Target(folder / "run", read_checkpoint, _checkpoints(folder / "run")),
        Target(partly, read_lift, [digest(open_store(folder / "store"))]),
    ]


def _checkpoints(run: Path) -> list[Any]:
    """What each checkpoint holds: the one before is taken where the newest is damaged."""
    found = []
    copy = run.with_name("copy")
    shutil.copytree(run, copy)
    while newest := max((copy / "checkpoints").glob("*.json"), default=None):
        found.append(read_checkpoint(copy, random.Random(0)))
        newest.unlink()
    shutil.rmtree(copy)
    return found


def _lift_in_part(folder: Path) -> None:
    """The parts of a store that was stopped before its manifest was written."""
    from cwnet.scale import _lift

    def stopped(*_: Any) -> Any:
        raise KeyboardInterrupt

    finish, _lift._finish = _lift._finish, stopped
    try:
        read_lift(folder, random.Random(0))
    except KeyboardInterrupt:
        pass
    finally:
        _lift._finish = finish


def attack(chance: random.Random, targets: list[Target]) -> str:
    """One file of a folder damaged, read, and put back."""
    target = chance.choice(targets)
    folder = target.folder
    if target.read is read_lift:  # which changes its folder
        folder = target.folder.with_name("copied")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(target.folder, folder)
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name not in ("t.smi", ".lock"))
    file = chance.choice(files)
    data = file.read_bytes()
    file.write_bytes(damaged(chance, data))
    try:
        with warnings.catch_warnings(action="ignore"):
            found = target.read(folder, chance)
    except (CwnetError, FileNotFoundError):
        return REFUSED
    finally:
        if folder == target.folder:
            file.write_bytes(data)
    if found not in target.allowed:
        raise Wrong(f"{file.relative_to(folder.parent)} was damaged, and something else was read")
    return OK


def damaged(chance: random.Random, data: bytes) -> bytes:
    """One bit flipped, mostly; or cut off, or some bytes changed."""
    way = chance.random()
    if way < 0.7 and data:
        at = chance.randrange(len(data))
        copy = bytearray(data)
        copy[at] ^= 1 << chance.randrange(8)
        return bytes(copy)
    if way < 0.85:
        return data[: chance.randrange(len(data) + 1)]
    return mutated_bytes(chance, data, chance.choice([1, 2]))


SURFACE = Surface(
    "damaged files",
    "a shard (small or over 16 MiB), manifest, note, model or checkpoint with a bit or bytes changed",
    attack,
    prepare,
    60,
    6_000,
)
