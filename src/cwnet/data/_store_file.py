"""Stores on disk: Arrow IPC files that are read without copying, and a manifest that says what they are.

A store is a folder:

    3f9c…-00000.arrow, 3f9c…-00001.arrow, ...    a row per complex
    manifest.json                                names the shards; written last, and renamed into its place

A folder without a manifest is not a store. A rewrite writes shards of new names beside the old ones, then replaces the
manifest, then deletes the old shards: whoever reads sees the one or the other, never half of either.

A row has `num_vertices`, `dims`, for every dimension d ≥ 1 the list of its d-cells, each the list of its boundary
cells (`boundary_d`), and where they exist `x_d`, `cell_y_d`, `y`, `complex_x` and `smiles`. Arrow keeps lists of lists
as offsets, offsets and values: these are just the arrays of a `ComplexStore`, so a shard is one, memory-mapped. Any
Arrow reader can open it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import secrets
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from cwnet.complexes import ComplexStore, Csr, Features
from cwnet.complexes._csr import offsets
from cwnet.complexes._validate import check_numbers
from cwnet.data._files import hash_file, is_bare, locked, open_plain, read_json
from cwnet.errors import CwnetError

__all__ = [
    "SCHEMA_VERSION",
    "DamagedStoreError",
    "Manifest",
    "StoreWriter",
    "open_smiles",
    "open_store",
    "open_targets",
    "publish",
    "read_manifest",
    "save_store",
    "verify_store",
    "write_shard",
]

#: Raised when the columns or their meaning change. A store of another version is made anew, never guessed at.
SCHEMA_VERSION = 1

_MANIFEST = "manifest.json"

T = TypeVar("T")


class DamagedStoreError(CwnetError, OSError):
    """A store on disk that is not whole: it says which file and what is wrong with it."""


@dataclass(frozen=True)
class Manifest:
    """What a store on disk is.

    Attributes:
        schema: the version of its columns.
        lifting: the lifting that made it, as text.
        input: a hash of what it was made from.
        count: number of complexes.
        num_cells: cells of all complexes, per dimension.
        shards: file name, number of complexes, bytes and hash of every shard.
        about: where it came from: any plain data.
    """

    schema: int
    lifting: str | None
    input: str | None
    count: int
    num_cells: tuple[int, ...]
    shards: tuple[dict[str, Any], ...]
    about: Mapping[str, Any]


def save_store(
    store: ComplexStore,
    path: str | os.PathLike[str],
    *,
    input_hash: str | None = None,
    about: Mapping[str, Any] | None = None,
    shard_size: int = 1_000_000,
) -> Manifest:
    """Write a store to a folder. A store that is there already is replaced at once, when the new one is whole."""
    with StoreWriter(path, lifting=store.lifting, input_hash=input_hash, about=about) as writer:
        if len(store) <= shard_size:
            writer.append(store)
        else:
            for start in range(0, len(store), shard_size):
                writer.append(store.select(slice(start, start + shard_size)))
    return read_manifest(path)


class StoreWriter:
    """Write a store piece by piece, a shard per piece. Nothing is seen at `path` until all of it is there.

    Use it as a context manager: leaving it without an error puts the store in its place, leaving it with one throws the
    pieces away and leaves what was there before untouched.

    Args:
        path: folder of the store.
        lifting: the lifting that made it, as text.
        input_hash: a hash of what it was made from.
        about: where it came from: any plain data.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        lifting: str | None = None,
        input_hash: str | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = Path(path)
        self.lifting, self.input_hash, self.about = lifting, input_hash, dict(about or {})
        self._shards: list[dict[str, Any]] = []
        self._num_cells: list[tuple[int, ...]] = []
        self._token = ""

    def __enter__(self) -> Self:
        self.path.mkdir(parents=True, exist_ok=True)
        self._token = secrets.token_hex(8)
        return self

    def append(self, store: ComplexStore) -> None:
        """Write one more shard."""
        if not self._token:
            raise RuntimeError("a StoreWriter writes inside its with block")
        name = f"{self._token}-{len(self._shards):05d}.arrow"
        self._shards.append(write_shard(self.path / name, store))
        self._num_cells.append(store.num_cells)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        keep: set[str] = set()
        try:
            if kind is None:
                publish(self.path, self._shards, self._num_cells, self.lifting, self.input_hash, self.about)
                keep = {shard["file"] for shard in self._shards}
        finally:
            for file in self.path.glob(f"{self._token}-*"):
                if file.name not in keep:
                    file.unlink(missing_ok=True)
            with suppress(OSError):  # a folder that has something in it stays
                self.path.rmdir()
            self._token = ""


def write_shard(path: Path, store: ComplexStore, smiles: Sequence[str] | None = None) -> dict[str, Any]:
    """Write the file of a shard, whole or not at all, and give what a manifest says of it.

    Complexes of molecules may have their SMILES beside them, in a column that `open_smiles` reads.
    """
    part = path.with_name(f".{path.name}-{secrets.token_hex(4)}.part")
    try:
        size, digest = _write_file(part, _as_batch(store.to("cpu"), smiles))
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return {"file": path.name, "count": len(store), "bytes": size, "blake2b": digest}


def publish(
    path: Path,
    shards: Sequence[Mapping[str, Any]],
    num_cells: Sequence[Sequence[int]],
    lifting: str | None,
    input_hash: str | None,
    about: Mapping[str, Any],
) -> None:
    """Make a store of shards that lie in its folder: write the manifest, then delete the shards of the one before.

    `num_cells` are those of each shard, which may have different numbers of dimensions.
    """
    body = {
        "schema": SCHEMA_VERSION,
        "lifting": lifting,
        "input": input_hash,
        "count": sum(shard["count"] for shard in shards),
        "num_cells": [sum(cells) for cells in itertools.zip_longest(*num_cells, fillvalue=0)],
        "shards": list(shards),
        "about": dict(about),
    }
    new = path / f".{secrets.token_hex(8)}-{_MANIFEST}"
    with open(new, "w", encoding="utf-8") as file:
        file.write(json.dumps({**body, "blake2b": _digest_of(body)}, indent=1, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())
    named = {shard["file"] for shard in shards}
    with locked(path):  # so that no one's shards are forgotten
        try:
            old = [shard["file"] for shard in read_manifest(path).shards]
        except (OSError, CwnetError):
            old = [file.name for file in path.glob("*.arrow") if _is_left_over(file)]
        os.replace(new, path / _MANIFEST)
        for name in old:
            if name not in named:
                (path / name).unlink(missing_ok=True)


def _is_left_over(file: Path) -> bool:
    """Shards that no manifest names are someone's work in progress, or, if old, what a killed process left."""
    with suppress(FileNotFoundError):
        return time.time() - file.stat().st_mtime > 3600
    return False


def _write_file(path: Path, batch: pa.RecordBatch) -> tuple[int, str]:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
    return path.stat().st_size, hash_file(path)


def _digest_of(body: Mapping[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


# ------------------------------------------------------------------------------------------------ reading


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Read what a store is, without opening its shards.

    Raises:
        FileNotFoundError: where there is no store.
        DamagedStoreError: where the manifest can not be trusted.
    """
    file = Path(path) / _MANIFEST
    if not file.exists():
        raise FileNotFoundError(f"{path} is not a store: it has no {_MANIFEST}")
    try:
        body = read_json(file)
        expected = body.pop("blake2b")
        known = Manifest(**{**body, "num_cells": tuple(body["num_cells"]), "shards": tuple(body["shards"])})
        if _digest_of(body) != expected:
            raise DamagedStoreError(f"{file} was changed after it was written: delete {path} and make the store again")
        _check_manifest(known)
    except DamagedStoreError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedStoreError(f"{file} can not be read ({error}): delete {path} and make the store again") from error
    return known


def _check_manifest(manifest: Manifest) -> None:
    """Refuse what no cwnet has written. Shards lie in the folder itself: others' files are neither read nor deleted."""
    if not manifest.shards:
        raise ValueError("it names no shard")
    for shard in manifest.shards:
        name = shard["file"]
        if not is_bare(name) or not name.endswith(".arrow"):
            raise ValueError(f"it names {name!r} as a shard, which is not the bare name of an Arrow file")
        for key in ("count", "bytes"):
            if type(shard[key]) is not int or not 0 <= shard[key] < 2**62:
                raise ValueError(f"it says {key} = {shard[key]!r} of {name}")
        if not isinstance(shard["blake2b"], str):
            raise ValueError(f"it has no hash of {name}")


def open_store(path: str | os.PathLike[str], *, shard: int | None = None, verify: bool = True) -> ComplexStore:
    """Open a store from disk.

    One shard is memory-mapped and not copied. Several are put together in memory; ask for one `shard` at a time where
    they do not fit. Every byte is read on the way, to compare it with the manifest's hash and to see that no number
    leads out of the store: about 1.5 seconds for a gigabyte.

    Args:
        path: folder of the store.
        shard: number of a shard, or None for all.
        verify: whether to compare hashes, which is most of that time; numbers are always checked.

    Raises:
        FileNotFoundError: where there is no store.
        DamagedStoreError: where a file is missing, cut off or changed, or of another schema version.
    """
    while True:
        manifest = read_manifest(path)
        try:
            return _open(Path(path), manifest, shard, verify)
        except DamagedStoreError:
            if read_manifest(path) == manifest:
                raise
            # It was replaced while we read it: read the new one.


def open_targets(path: str | os.PathLike[str]) -> list[ComplexStore]:
    """The targets of every shard, in stores without cells that tell the kinds of features. Little is read for it.

    Hashes are of whole shards, so these are not compared: whoever uses the targets opens their shards as well, and then
    they are.
    """
    manifest = read_manifest(path)
    _check_schema(Path(path), manifest)
    return [_open_shard(Path(path), entry, False, _targets_of_batch) for entry in manifest.shards]


def open_smiles(path: str | os.PathLike[str], shard: int) -> list[str] | None:
    """The SMILES of the complexes of a shard; None where it has none."""
    manifest = read_manifest(path)
    _check_schema(Path(path), manifest)
    return _open_shard(Path(path), manifest.shards[shard], True, _smiles_of_batch)


def verify_store(path: str | os.PathLike[str], tick: Callable[[str], None] = lambda file: None) -> list[str]:
    """Compare every byte of a store with its hashes, and check every number. Gives what is wrong, a text per shard.

    Args:
        path: folder of the store.
        tick: called with the name of every shard that was looked at.

    Raises:
        FileNotFoundError: where there is no store.
        DamagedStoreError: where the manifest can not be trusted.
    """
    manifest = read_manifest(path)
    _check_schema(Path(path), manifest)
    problems = []
    for entry in manifest.shards:
        try:
            _open_shard(Path(path), entry, True, _from_batch)
        except DamagedStoreError as error:
            problems.append(str(error))
        tick(entry["file"])
    return problems


def _check_schema(folder: Path, manifest: Manifest) -> None:
    if manifest.schema != SCHEMA_VERSION:
        raise DamagedStoreError(
            f"{folder} has schema version {manifest.schema}, this cwnet reads version {SCHEMA_VERSION}: make it again"
        )


def _open(folder: Path, manifest: Manifest, shard: int | None, verify: bool) -> ComplexStore:
    _check_schema(folder, manifest)
    wanted = manifest.shards if shard is None else manifest.shards[shard : shard + 1]
    if shard is not None and not wanted:
        raise IndexError(f"shard {shard} was asked for, but {folder} has {len(manifest.shards)}")
    parts = [_open_shard(folder, entry, verify, _from_batch) for entry in wanted]
    store = parts[0] if len(parts) == 1 else concatenate(parts)
    return replace(store, lifting=manifest.lifting)


def _open_shard(folder: Path, entry: Mapping[str, Any], verify: bool, read: Callable[[pa.RecordBatch], T]) -> T:
    file = folder / entry["file"]
    again = f"delete {folder} and make the store again"
    try:
        with open_plain(file) as shard:
            size = os.fstat(shard.fileno()).st_size
        if size != entry["bytes"]:
            raise DamagedStoreError(f"{file} has {size:,} bytes instead of {entry['bytes']:,}: {again}")
        if verify and hash_file(file) != entry["blake2b"]:
            raise DamagedStoreError(f"{file} was changed after it was written (its hash differs): {again}")
        batch = pa.ipc.open_file(pa.memory_map(str(file), "r")).get_batch(0)
        batch.validate()
        if batch.num_rows != entry["count"]:
            raise DamagedStoreError(f"{file} has {batch.num_rows:,} complexes instead of {entry['count']:,}: {again}")
        return read(batch)
    except DamagedStoreError:
        raise
    except FileNotFoundError as error:
        raise DamagedStoreError(f"{file} is missing: {again}") from error
    except (pa.ArrowException, OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedStoreError(f"{file} can not be read ({error}): {again}") from error


def concatenate(stores: list[ComplexStore]) -> ComplexStore:
    """Several stores as one. All must have the same kinds of features."""
    if not stores:
        raise ValueError("there is no store to concatenate")
    dims = max(len(s.cell_ptr) for s in stores)

    def joined(of: list[tuple[Tensor | None, int]]) -> Tensor | None:
        present = [t for t, _ in of if t is not None]
        if present and any(t is None and n for t, n in of):
            raise ValueError("some of the stores have features or targets that others lack")
        return torch.cat(present) if present else None

    def count(store: ComplexStore, d: int) -> Tensor:
        return store.cell_ptr[d].diff() if d < len(store.cell_ptr) else torch.zeros(len(store), dtype=torch.int64)

    def boundary(d: int) -> Csr:
        some = [s.boundaries[d - 1] for s in stores if d < len(s.cell_ptr)]
        return Csr(offsets(torch.cat([c.sizes for c in some]).long()), torch.cat([c.idx for c in some])).packed()

    def features(kind: str, d: int) -> Tensor | None:
        return joined([(getattr(s, kind)[d], s.num_cells[d]) for s in stores if d < len(s.cell_ptr)])

    return ComplexStore(
        cell_ptr=tuple(offsets(torch.cat([count(s, d) for s in stores])) for d in range(dims)),
        boundaries=tuple(boundary(d) for d in range(1, dims)),
        x=tuple(features("x", d) for d in range(dims)),
        y=joined([(s.y, len(s)) for s in stores]),
        cell_y=tuple(features("cell_y", d) for d in range(dims)),
        dims=torch.cat([s.dims for s in stores]),
        lifting=stores[0].lifting,
        complex_x=joined([(s.complex_x, len(s)) for s in stores]),
    )


def iterate_shards(path: str | os.PathLike[str]) -> Iterator[ComplexStore]:
    """The shards of a store, one after another."""
    for number in range(len(read_manifest(path).shards)):
        yield open_store(path, shard=number)


# ------------------------------------------------------------------------------------------------ Arrow and back


def _as_batch(store: ComplexStore, smiles: Sequence[str] | None) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {
        "num_vertices": _flat(store.cell_ptr[0].diff().to(torch.int32)),
        "dims": _flat(store.dims.to(torch.int32)),
    }
    for d in range(1, len(store.cell_ptr)):
        csr = store.boundaries[d - 1]
        cells = pa.ListArray.from_arrays(_int32(csr.ptr), _int32(csr.idx))
        columns[f"boundary_{d}"] = pa.ListArray.from_arrays(_int32(store.cell_ptr[d]), cells)
    for kind, features in (("x", store.x), ("cell_y", store.cell_y)):
        for d, tensor in enumerate(features):
            if tensor is not None:
                columns[f"{kind}_{d}"] = pa.ListArray.from_arrays(_int32(store.cell_ptr[d]), _as_column(tensor))
    if store.y is not None:
        columns["y"] = _as_column(store.y)
    if store.complex_x is not None:
        columns["complex_x"] = _as_column(store.complex_x)
    if smiles is not None:
        columns["smiles"] = _texts(smiles)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _from_batch(batch: pa.RecordBatch) -> ComplexStore:
    columns = {name: batch.column(i) for i, name in enumerate(batch.schema.names)}
    cell_ptr = [offsets(_values(columns["num_vertices"]).long())]
    boundaries = []
    for d in range(1, _num_dimensions(columns)):
        outer = columns[f"boundary_{d}"]
        cell_ptr.append(_tensor(outer.offsets.to_numpy()).long())
        boundaries.append(Csr(_tensor(outer.values.offsets.to_numpy()), _values(outer.values.values)))
    store = ComplexStore(
        cell_ptr=tuple(cell_ptr),
        boundaries=tuple(boundaries),
        x=_features(columns, "x", slice(None)),
        y=_from_column(columns["y"]) if "y" in columns else None,
        cell_y=_features(columns, "cell_y", slice(None)),
        dims=_values(columns["dims"]).long(),
        complex_x=_from_column(columns["complex_x"]) if "complex_x" in columns else None,
    )
    check_numbers(store)
    return store


def _targets_of_batch(batch: pa.RecordBatch) -> ComplexStore:
    """The targets of a shard alone: a store of complexes without cells, with features of the same kinds."""
    columns = {name: batch.column(i) for i, name in enumerate(batch.schema.names)}
    top = _num_dimensions(columns)
    none = torch.zeros(batch.num_rows + 1, dtype=torch.int64)
    return ComplexStore(
        cell_ptr=(none,) * top,
        boundaries=(Csr.empty(0).packed(),) * (top - 1),
        x=_features(columns, "x", slice(0)),
        y=_from_column(columns["y"]).clone() if "y" in columns else None,
        cell_y=_features(columns, "cell_y", slice(0)),
        dims=none[:-1],
    )


def _smiles_of_batch(batch: pa.RecordBatch) -> list[str] | None:
    if "smiles" not in batch.schema.names:
        return None
    column = batch.column("smiles")
    column.validate(full=True)
    texts: list[str] = column.to_pylist()
    return texts


def _num_dimensions(columns: Mapping[str, pa.Array]) -> int:
    return next(d for d in itertools.count(1) if f"boundary_{d}" not in columns)


def _features(columns: Mapping[str, pa.Array], kind: str, rows: slice) -> Features:
    found = [columns.get(f"{kind}_{d}") for d in range(_num_dimensions(columns))]
    return tuple(None if column is None else _from_column(column.values)[rows] for column in found)


def _int32(tensor: Tensor) -> pa.Array:
    if tensor.numel() and int(tensor[-1]) >= 2**31:
        raise OverflowError("a shard holds at most 2^31 - 1 cells or incidences per dimension: write smaller shards")
    return _flat(tensor.to(torch.int32))


def _flat(tensor: Tensor) -> pa.Array:
    """A tensor's values as an Arrow array, not copied. (`pa.array` would import pandas first.)"""
    array = np.ascontiguousarray(tensor.numpy()).reshape(-1)
    if array.dtype == np.bool_:
        bits = np.packbits(array, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(array), [None, pa.py_buffer(bits)])
    return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), len(array), [None, pa.py_buffer(array)])


def _texts(texts: Sequence[str]) -> pa.Array:
    """Texts as an Arrow array. (`pa.array` would import pandas first.)"""
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(encoded), buffers)


def _as_column(tensor: Tensor) -> pa.Array:
    """A tensor [n, ...] as an Arrow column of n values or fixed-size lists."""
    array = _flat(tensor)
    for size in reversed(tensor.shape[1:]):
        array = pa.FixedSizeListArray.from_arrays(array, int(size))
    return array


def _from_column(array: pa.Array) -> Tensor:
    shape: list[int] = [len(array)]
    while pa.types.is_fixed_size_list(array.type):
        shape.append(array.type.list_size)
        array = array.values
    return _values(array).reshape(shape)


def _values(array: pa.Array) -> Tensor:
    if pa.types.is_boolean(array.type):
        return torch.from_numpy(array.to_numpy(zero_copy_only=False))
    return _tensor(array.to_numpy())


def _tensor(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor on memory that is mapped from a file and must not be written; PyTorch has no such notion and warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(array)
