"""Data sets by name: raw files are looked up or downloaded, lifted once and kept."""

from __future__ import annotations

import hashlib
import json
import operator
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cwnet.complexes import ComplexStore
from cwnet.data import _molecules, _synthetic, _tu
from cwnet.data._files import hash_file, locked
from cwnet.data._source import DatasetNotFoundError, Options, Raw, Source, slug
from cwnet.data._splits import Split
from cwnet.lifting import Lifting, as_lifting, lift_many
from cwnet.lifting._lift import Liftable

__all__ = ["Dataset", "DatasetInfo", "DatasetNotFoundError", "StoreWarning", "info", "load", "names", "prepare"]

_SOURCES: dict[str, Source] = {
    source.name: source for source in (*_molecules.SOURCES, *_tu.SOURCES, *_synthetic.SOURCES)
}

#: What `load` takes for "the lifting of the paper"; None is a lifting already: the graph alone.
_DEFAULT = "default"


class StoreWarning(UserWarning):
    """A prepared store was damaged and is made anew, or could not be kept."""


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A lifted data set and how it is to be used.

    Attributes:
        name: what `load` was asked for.
        store: the complexes. Targets `y` are [complexes, outputs] in float32 for "regression", "binary" and
            "multilabel", and [complexes] in int64 for "multiclass". Features are [cells, columns].
        splits: one for a fixed split, as many as there are folds otherwise.
        task: "regression", "binary", "multiclass", "multilabel", "isomorphism" or "cells" (see ``store.cell_y``).
        outputs: numbers a model gives per complex, or per cell.
        metric: "mae", "rocauc", "accuracy", "ap" or "none".
        about: plain data: title, home, citation, notes, options, versions, hashes of the raw files, where the store is.
        weighted: whether targets have weights in the loss. Then `y` is [complexes, 2 × columns] in float32: targets (of
            classes their numbers) and behind them the weight of each.
    """

    name: str
    store: ComplexStore
    splits: tuple[Split, ...]
    task: str
    outputs: int
    metric: str
    about: Mapping[str, Any]
    weighted: bool = False

    def __repr__(self) -> str:
        parts = ", ".join(map(repr, self.splits[:1])) + (f" x {len(self.splits)}" if len(self.splits) > 1 else "")
        return f"Dataset({self.name}: {self.store!r}, {parts}, {self.task}, {self.metric})"


@dataclass(frozen=True)
class DatasetInfo:
    """What is known of a data set without reading it.

    Attributes:
        name, title, home, citation, notes: as in `Dataset.about`.
        task, outputs, metric: as in `Dataset`.
        lifting: the lifting the paper uses.
        options: the options it has, with the values in force.
        files: the raw files, where they are; empty if they are not here, or if the data set needs none.
        missing: the raw files to get, by their names below the data folder; empty if nothing is missing.
        prepared: folders of stores that were prepared from it, with any lifting and options.
    """

    name: str
    title: str
    home: str
    citation: str
    notes: str
    task: str
    outputs: int
    metric: str
    lifting: Lifting
    options: Options
    files: tuple[Path, ...]
    missing: tuple[str, ...]
    prepared: tuple[Path, ...]


def names() -> list[str]:
    """The names that `load` knows."""
    return list(_SOURCES)


def info(name: str, *, cache: str | os.PathLike[str] | None = None, **options: Any) -> DatasetInfo:
    """What a data set is and what of it is on this machine. Reads and downloads nothing."""
    source = _source(name)
    chosen = _options(source, options)
    layouts = source.layouts(chosen)
    found = _look_up(source, chosen, _cache(cache))
    return DatasetInfo(
        **{key: getattr(source, key) for key in ("name", "title", "home", "citation", "notes")},
        **{key: getattr(source, key) for key in ("task", "outputs", "metric")},
        lifting=source.lifting(chosen),
        options=chosen,
        files=tuple(found.files.values()) if found else (),
        missing=() if found else layouts[0],
        prepared=tuple(sorted((_cache(cache) / "stores").glob(f"{source.name}--*"))),
    )


def load(
    name: str,
    lifting: Liftable = _DEFAULT,
    *,
    cache: str | os.PathLike[str] | None = None,
    rebuild: bool = False,
    verify: bool = True,
    threads: int | None = None,
    **options: Any,
) -> Dataset:
    """Load a benchmark, lifted.

    Raw files are looked for in the folder ``$CWNET_DATA``, then in the cache; else they are downloaded to the cache.
    The lifted store is kept in the cache and found again when the raw files, the options, the lifting and the versions
    of reader and schema are all the same. One that is damaged is reported and made anew.

    Args:
        name: one of `names()`.
        lifting: as in `cwnet.lift`; by default the one the paper uses for this data set. A lifting with a function of
            your own is not kept: nothing tells whether the function is still the same.
        cache: folder of the cache; by default ``$CWNET_CACHE`` or the platform's.
        rebuild: make the store anew even if there is one.
        verify: whether to compare every byte of a store found with its hash: about a second for a gigabyte.
        threads: worker threads for lifting; all cores by default.
        **options: those of the data set, such as ``family`` for "sr" and ``k`` for "ring-transfer"; see `info`.

    Raises:
        DatasetNotFoundError: where raw files are missing and can not be downloaded. It says which to put where.
        GraphFileError: where a raw file can not be read.

    >>> load("ring-transfer", k=6, num_train=10, num_val=5, num_test=5, cache=getfixture("tmp_path"))
    Dataset(ring-transfer: ComplexStore(20 complexes: 120 vertices, 120 edges, 20 2-cells, Rings(6)),
        Split(10 train, 5 val, 5 test), cells, accuracy)
    """
    return _load(name, lifting, cache, rebuild, verify, threads, options, must_keep=False)


def prepare(
    name: str,
    lifting: Liftable = _DEFAULT,
    *,
    cache: str | os.PathLike[str] | None = None,
    rebuild: bool = False,
    verify: bool = True,
    threads: int | None = None,
    **options: Any,
) -> None:
    """Make the store of a benchmark, so that `load` finds it; the arguments are the same.

    Raises:
        OSError: where the store can not be written. `load` only warns then.
    """
    _load(name, lifting, cache, rebuild, verify, threads, options, must_keep=True)


def _load(
    name: str,
    lifting: Liftable,
    cache: str | os.PathLike[str] | None,
    rebuild: bool,
    verify: bool,
    threads: int | None,
    options: Mapping[str, Any],
    must_keep: bool,
) -> Dataset:
    source = _source(name)
    chosen = _options(source, options)
    rule = source.lifting(chosen) if isinstance(lifting, str) and lifting == _DEFAULT else as_lifting(lifting)
    folder = _cache(cache)
    raw = _look_up(source, chosen, folder) or _download(source, chosen, folder)
    about = _about(source, raw)
    build = partial(_build, source, raw, rule, threads)
    if rule.spec.custom:
        store, place = build(), None
    else:
        place = _Place.of(folder, source, rule, about)
        store = _stored(place, build, about, rebuild, verify, must_keep)
    return Dataset(
        name=source.name,
        store=store,
        splits=source.split(raw, len(store)),
        task=source.task,
        outputs=source.outputs,
        metric=source.metric,
        about=MappingProxyType({**about, "store": str(place.path) if place else None}),
    )


# ------------------------------------------------------------------------------------------------ names and options


def _source(name: str) -> Source:
    wanted = name.lower().replace("_", "-")
    if wanted in _SOURCES:
        return _SOURCES[wanted]
    near = get_close_matches(wanted, _SOURCES, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"there is no data set {name!r}. {hint}There are {', '.join(_SOURCES)}")


def _options(source: Source, given: Mapping[str, Any]) -> Options:
    unknown = [key for key in given if key not in source.options]
    if unknown:
        known = ", ".join(f"{key}={value!r}" for key, value in source.options.items()) or "none"
        raise TypeError(f"{source.name!r} has no option {unknown[0]!r}; its options and their defaults: {known}")
    chosen = {key: _like(key, default, given.get(key, default)) for key, default in source.options.items()}
    source.check(chosen)
    return MappingProxyType(chosen)


def _like(name: str, default: Any, value: Any) -> Any:
    """A value of the same kind as the default: options end up in hashes and in files, so kinds matter."""
    try:
        if isinstance(default, int) and not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    if isinstance(default, str) and isinstance(value, str):
        return value
    raise TypeError(
        f"{name}={value!r}: give {'a whole number' if isinstance(default, int) else 'text'}, as in {default!r}"
    )


def _cache(folder: str | os.PathLike[str] | None) -> Path:
    chosen = folder or os.environ.get("CWNET_CACHE")
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("cwnet", appauthor=False))


# ------------------------------------------------------------------------------------------------ raw files


def _look_up(source: Source, options: Options, cache: Path) -> Raw | None:
    """The first layout whose files are all in one folder."""
    data = os.environ.get("CWNET_DATA")
    for layout in source.layouts(options):
        for root in ([Path(data)] if data else []) + [cache / "raw"]:
            files = {name: root / name for name in layout}
            if all(path.is_file() for path in files.values()):
                return Raw(files, options)
    return None


def _download(source: Source, options: Options, cache: Path) -> Raw:
    problem: Exception | None = None
    if source.download is not None:
        (cache / "raw").mkdir(parents=True, exist_ok=True)
        try:
            source.download(cache / "raw", options)
        except Exception as error:  # whatever other libraries raise when there is no network
            problem = error
        else:
            found = _look_up(source, options, cache)
            if found is not None:
                return found
    raise DatasetNotFoundError(_missing(source, options, cache, problem)) from problem


def _missing(source: Source, options: Options, cache: Path, problem: Exception | None) -> str:
    data = os.environ.get("CWNET_DATA")
    why = "It has no download. "
    if isinstance(problem, ImportError):
        why = f"To download it {problem.name or 'a package'} is needed: pip install cwnet[pyg]. "
    elif problem is not None:
        why = f"The download failed ({type(problem).__name__}: {problem}). "
    elif source.download is not None:
        why = "The download did not bring its files. "
    layouts = [_enumerated(layout) for layout in source.layouts(options)]
    return (
        f"the raw files of {source.name!r} are not here. {why}Get them from {source.home} and put them into "
        f"$CWNET_DATA ({data or 'which is not set'}) or {cache / 'raw'}, under these names: {'; or '.join(layouts)}"
    )


def _enumerated(files: tuple[str, ...]) -> str:
    return ", ".join(files) if len(files) <= 6 else f"{', '.join(files[:4])}, ... to {files[-1]} ({len(files)} files)"


def _about(source: Source, raw: Raw) -> dict[str, Any]:
    """All that decides what the graphs are, and where they come from."""
    from cwnet import __version__

    about: dict[str, Any] = {
        "dataset": source.name,
        "reader": source.version,
        "options": dict(raw.options),
        "files": {name: hash_file(path) for name, path in raw.files.items()},
        "title": source.title,
        "home": source.home,
        "citation": source.citation,
        "notes": source.notes,
        "cwnet": __version__,
    }
    if source.rdkit(raw):
        about["rdkit"] = _rdkit_version(source)
    return about


def _rdkit_version(source: Source) -> str:
    if find_spec("rdkit") is None:
        raise DatasetNotFoundError(f"{source.name!r} is made with RDKit: pip install cwnet[chem]")
    from rdkit import rdBase

    return str(rdBase.rdkitVersion)


# ------------------------------------------------------------------------------------------------ stores


@dataclass(frozen=True)
class _Place:
    """Where the store of one data set and lifting is kept, and what it has to be made of."""

    path: Path
    lifting: str
    input: str

    @classmethod
    def of(cls, cache: Path, source: Source, rule: Lifting, about: Mapping[str, Any]) -> _Place:
        from cwnet.data import _store_file

        made_of = {key: about.get(key) for key in ("dataset", "reader", "options", "files", "rdkit")}
        made_from = _digest(made_of)
        key = _digest([_store_file.SCHEMA_VERSION, made_from, repr(rule)])
        return cls(cache / "stores" / f"{source.name}--{slug(repr(rule))}--{key[:16]}", repr(rule), made_from)

    def find(self, verify: bool, warn: bool = False) -> ComplexStore | None:
        """The store, if it is there, whole and the right one."""
        from cwnet.data import _store_file

        try:
            manifest = _store_file.read_manifest(self.path)
            same = (manifest.schema, manifest.lifting, manifest.input)
            if same == (_store_file.SCHEMA_VERSION, self.lifting, self.input):
                return _store_file.open_store(self.path, verify=verify)
            problem = f"{self.path} is the store of another lifting, input or schema version"
        except FileNotFoundError:
            return None
        except _store_file.DamagedStoreError as error:
            problem = str(error)
        if warn:
            warnings.warn(f"{problem}. It is made anew", StoreWarning, stacklevel=5)
        return None


def _digest(plain: Any) -> str:
    return hashlib.blake2b(json.dumps(plain, sort_keys=True).encode(), digest_size=16).hexdigest()


def _stored(
    place: _Place,
    build: Callable[[], ComplexStore],
    about: Mapping[str, Any],
    rebuild: bool,
    verify: bool,
    must_keep: bool,
) -> ComplexStore:
    """The store that is kept, made first if need be."""
    if not rebuild and (store := place.find(verify)) is not None:
        return store
    with _alone(place.path):  # another process may make it while this one waits
        if not rebuild and (store := place.find(verify, warn=True)) is not None:
            return store
        store = build()
        _keep(store, place, about, must_keep)
        return store


def _build(source: Source, raw: Raw, rule: Lifting, threads: int | None) -> ComplexStore:
    store = lift_many(source.read(raw), rule, threads)
    return source.finish(store) if source.finish else store


def _keep(store: ComplexStore, place: _Place, about: Mapping[str, Any], must: bool) -> None:
    from cwnet.data import _store_file

    try:
        _store_file.save_store(store, place.path, input_hash=place.input, about=about)
    except OSError as error:
        if must:
            raise
        warnings.warn(
            f"{place.path} could not be written ({error}): it is made anew next time", StoreWarning, stacklevel=5
        )


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other process makes the same store.

    This spares work and is not needed for safety: a store appears all at once, so where files can not be locked two
    processes make the same one, and either will do.
    """
    with ExitStack() as stack:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.with_name(f".{path.name}.lock")
            file.touch()
            stack.enter_context(locked(file))
        yield
