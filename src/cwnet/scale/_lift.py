"""From tables of SMILES to a store of shards: a task per shard, each written once, in memory that does not grow.

Shards are numbered as the rows come: shard i is the i-th piece of `shard_rows` rows, and none spans two files. A shard
is written under a name that says what it is of, then a note beside it says that it is whole. Who starts again finds the
notes and does the rest. When all shards are there, the manifest is written, and the folder is a store.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from cwnet.chem._featuriser import MAX_RINGS
from cwnet.data import MoleculeTable, iterate_table
from cwnet.data._files import hash_file, locked, read_json, write_whole
from cwnet.data._store_file import publish, read_manifest, write_shard
from cwnet.errors import CwnetError
from cwnet.scale._inputs import Readable, find_tables
from cwnet.scale._pool import Here, Pool

__all__ = ["Lifted", "lift_files"]

#: What an unfinished store is of.
_JOB = "job.json"
#: Raised when shards of the same job would be different.
_VERSION = 2


@dataclass(frozen=True)
class Lifted:
    """What came of lifting files.

    Attributes:
        path: the store.
        complexes: in it.
        rejected: rows that could not be read or lifted; they are in ``rejects.csv`` in the store's folder.
        shards: of the store.
        reused: shards that an earlier call had left.
        bytes: of all shards.
    """

    path: Path
    complexes: int
    rejected: int
    shards: int
    reused: int
    bytes: int


def lift_files(
    inputs: Sequence[str | Path],
    out: str | Path,
    *,
    lifting: str = "rings:18",
    smiles_column: str | None = None,
    target_columns: Sequence[str] = (),
    header: bool = True,
    shard_rows: int = 32_768,
    max_atoms: int = 500,
    max_cells: int = MAX_RINGS,
    pool: Pool | None = None,
    tick: Callable[[int, int], None] = lambda rows, rejected: None,
) -> Lifted:
    """Lift all molecules of some tables into a store on disk.

    The same input is files of the same names and the same content: they are read once before, for their hashes.

    Rows that can not be read, and molecules whose lifting exceeds its budget, are left out and listed in
    ``rejects.csv``. A call that was interrupted is gone on with by the same call.

    Args:
        inputs: files, folders or patterns; see `find_tables`.
        out: folder of the store. Workers must see it under the same path.
        lifting: which rings are cells, as text.
        smiles_column: the column of SMILES; by default found by name.
        target_columns: columns of numbers to keep as targets.
        header: whether text files have one.
        shard_rows: rows of a shard.
        max_atoms: molecules with more atoms are rejected.
        max_cells: molecules with more rings are rejected: one in a million must not fill the memory.
        pool: where to work; in this process by default.
        tick: called with the rows and the rejected rows of every shard that is done.

    Raises:
        CwnetError: for input that is not there, or a folder that holds something else.
    """
    from cwnet.chem import Featuriser

    if shard_rows < 1:
        raise CwnetError(f"--shard-rows {shard_rows}: a shard has at least one row")
    files = find_tables(inputs)
    featuriser = Featuriser(lifting, max_atoms).to_dict()
    job: dict[str, Any] = {
        "version": _VERSION,
        "featuriser": featuriser,
        "smiles_column": smiles_column,
        "target_columns": list(target_columns),
        "header": header,
        "shard_rows": shard_rows,
        "max_cells": max_cells,
        "files": [file.name for file in files],
    }
    # Shards of rows that stay the same are gone on with where a file was put right, but a store is of its content.
    prefix = _digest(json.dumps(job, sort_keys=True).encode())[:12]
    hashes = [hash_file(file) for file in files]
    key = _digest(json.dumps({**job, "blake2b": hashes}, sort_keys=True).encode())
    out = Path(out)
    if _is_done(out, key):
        manifest = read_manifest(out)
        return Lifted(out, manifest.count, int(manifest.about["rejected"]), len(manifest.shards), len(manifest.shards),
                      sum(shard["bytes"] for shard in manifest.shards))  # fmt: skip

    pieces = Readable(_pieces(files, smiles_column, target_columns, header, shard_rows))

    def tasks() -> Iterator[tuple[Any, ...]]:
        for number, piece in enumerate(pieces):
            file = piece.path
            broken = [(file.name, reject.row, reject.text, reject.reason) for reject in piece.rejects]
            y = None if piece.y is None else piece.y.numpy()
            rows = [int(row) for row in piece.rows]
            name = f"{prefix}-{number:05d}"
            yield str(out), name, featuriser, max_cells, file.name, piece.smiles, rows, y, broken

    with _claimed(out, job):
        reused, notes = 0, []
        for note in (pool or Here()).map(_lift_shard, tasks()):
            reused += note.pop("reused")
            tick(note["rows"], note["rejected"])
            notes.append({name: note[name] for name in ("name", "shard", "num_cells", "rejected")})
        pieces.check(f"{out}: put the table right, and the same call goes on from there")
        found = _finish(out, {**job, "blake2b": hashes}, key, notes, reused)
        for part in out.glob(f".{prefix}-*.part"):  # what a process that was killed had begun to write
            part.unlink(missing_ok=True)
        return found


def _pieces(
    files: Iterable[Path], smiles_column: str | None, targets: Sequence[str], header: bool, rows: int
) -> Iterator[MoleculeTable]:
    for file in files:
        kind: dict[str, Any] = {"task": "regression"} if targets else {}
        yield from iterate_table(file, smiles_column, tuple(targets), chunk_rows=rows, header=header, **kind)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


# ------------------------------------------------------------------------------------------------ one shard


def _lift_shard(
    out: str,
    name: str,
    featuriser: dict[str, Any],
    max_cells: int,
    file: str,
    smiles: list[str],
    rows: list[int],
    y: Any,
    broken: list[tuple[str, int, str, str]],
) -> dict[str, Any]:
    """Lift one piece, write its shard and a note beside it. Done twice, it writes the same; done before, nothing."""
    folder = Path(out)
    said = _digest(json.dumps([smiles, rows, None if y is None else y.tolist(), broken]).encode())
    note_file = folder / f"{name}.json"
    before = _read_note(folder, note_file)
    if before is not None and before["of"] == said:
        return {**before, "reused": 1}
    store, rejects = _lifted(featuriser, max_cells, smiles, y)
    listed = sorted([*broken, *((file, rows[i], smiles[i], why) for i, why in rejects.items())], key=lambda r: r[1])
    _write_rejects(folder / f"{name}.rejects.csv", listed)
    shard = None
    if len(store):
        shard = write_shard(folder / f"{name}.arrow", store, [s for i, s in enumerate(smiles) if i not in rejects])
    note: dict[str, Any] = {
        "name": name,
        "of": said,
        "rows": len(smiles) + len(broken),
        "rejected": len(listed),
        "num_cells": list(store.num_cells),
        "shard": shard,
        "rejects": hash_file(folder / f"{name}.rejects.csv"),
    }
    write_whole(note_file, json.dumps({**note, "hash": _hash_of(note)}).encode())
    return {**note, "reused": 0}


def _lifted(featuriser: dict[str, Any], max_cells: int, smiles: list[str], y: Any) -> tuple[Any, dict[int, str]]:
    from dataclasses import replace

    from cwnet.chem import Featuriser

    store, rejects = Featuriser.from_dict(featuriser).readable(smiles, threads=1, max_cells=max_cells)
    store = replace(store, skipped=(), truncated=(), lifting=None)
    if y is not None:
        kept = [i for i in range(len(smiles)) if i not in rejects]
        store = replace(store, y=torch.from_numpy(y)[kept])
    return store, rejects


def _read_note(folder: Path, file: Path) -> dict[str, Any] | None:
    """What is said of a shard that is whole; None where there is none, or something of it was changed."""
    try:
        note: dict[str, Any] = read_json(file)
        if note.pop("hash") != _hash_of(note) or hash_file(file.with_suffix(".rejects.csv")) != note["rejects"]:
            return None
        shard = note["shard"]
        whole = shard is None or hash_file(folder / shard["file"]) == shard["blake2b"]
        return note if whole else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _hash_of(note: dict[str, Any]) -> str:
    return _digest(json.dumps(note, sort_keys=True).encode())


def _write_rejects(path: Path, rejects: Iterable[Sequence[Any]]) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rejects)
    write_whole(path, out.getvalue().encode())


# ------------------------------------------------------------------------------------------------ the whole


def _is_done(out: Path, key: str) -> bool:
    try:
        return bool(read_manifest(out).input == key)
    except FileNotFoundError:
        return False


@contextmanager
def _claimed(out: Path, job: dict[str, Any]) -> Iterator[None]:
    """Make the folder, or go on with what is there of the same job; no one else does meanwhile."""
    away = "delete it, or choose another folder"
    if (out / "manifest.json").exists():
        raise CwnetError(f"{out} holds a store of another input or lifting: {away}")
    file = out / _JOB
    if not file.exists():
        if out.exists() and any(out.iterdir()):
            raise CwnetError(f"{out} is not empty, and what is in it is not a part of a store: {away}")
        try:
            out.mkdir(parents=True, exist_ok=True)
            write_whole(file, json.dumps(job).encode())
        except OSError as error:
            raise CwnetError(f"{out} can not be written: {error.strerror}. Choose another --output") from None
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(file, wait=False))
        except BlockingIOError:
            raise CwnetError(f"{out} is in use, another process is lifting into it: wait for it") from None
        try:
            before = read_json(file)
        except (OSError, ValueError):
            before = None
        if not isinstance(before, dict):
            raise CwnetError(f"{file} is damaged: delete {out}, or choose another folder")
        for name, value in job.items():
            if before.get(name) != value:
                raise CwnetError(f"{out} holds a part of a store with another {name}, {before.get(name)!r}: {away}")
        yield


def _finish(out: Path, job: dict[str, Any], key: str, notes: list[dict[str, Any]], reused: int) -> Lifted:
    """Put the lists of rejects together, write the manifest, and clear away what is needed no more."""
    from cwnet import __version__
    from cwnet.lifting import as_lifting

    with open(out / ".rejects.part", "wb") as whole:
        whole.write(b"file,row,text,reason\n")
        for note in notes:
            whole.write((out / f"{note['name']}.rejects.csv").read_bytes())
    os.replace(out / ".rejects.part", out / "rejects.csv")
    shards = [note["shard"] for note in notes if note["shard"] is not None]
    if not shards:
        raise CwnetError(f"no molecule could be lifted: see {out / 'rejects.csv'}")
    rejected = sum(note["rejected"] for note in notes)
    cells = [note["num_cells"] for note in notes]
    about = {**job, "rejected": rejected, "cwnet": __version__, "made": datetime.now(UTC).isoformat(timespec="seconds")}
    publish(out, shards, cells, repr(as_lifting(job["featuriser"]["lifting"])), key, about)
    for note in notes:
        for end in (".json", ".rejects.csv"):
            (out / f"{note['name']}{end}").unlink(missing_ok=True)
    (out / _JOB).unlink(missing_ok=True)
    total = sum(shard["bytes"] for shard in shards)
    return Lifted(out, sum(shard["count"] for shard in shards), rejected, len(shards), reused, total)
