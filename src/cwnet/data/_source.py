"""What a data set is before it is read: its files, its reader, its splits and its facts."""

from __future__ import annotations

import gzip
import re
import urllib.request
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cwnet.complexes import ComplexStore
from cwnet.data._files import write_whole
from cwnet.data._graph_files import GraphFileError
from cwnet.data._splits import Split
from cwnet.errors import CwnetError
from cwnet.lifting import Lifting

__all__ = ["DatasetNotFoundError", "Raw", "Source"]

Options = Mapping[str, Any]


class DatasetNotFoundError(CwnetError, FileNotFoundError):
    """The raw files of a data set are neither here nor to be had: it says which to put where."""


@dataclass(frozen=True)
class Raw:
    """The raw files of a data set, by the names they have below the data folder, and the options it is read with."""

    files: Mapping[str, Path]
    options: Options

    def __getitem__(self, name: str) -> Path:
        return self.files[name]


def _never(raw: Raw) -> bool:
    return False


def _anything(options: Options) -> None:
    pass


def _nothing(options: Options) -> tuple[tuple[str, ...], ...]:
    return ((),)


@dataclass(frozen=True)
class Source:
    """One data set: what it is and how it is read.

    Attributes:
        name, title, home, citation: how it is called, where it comes from and whom to cite.
        task: "regression", "binary", "multiclass", "multilabel", "isomorphism" or "cells" (targets of cells).
        outputs: numbers a model gives per complex (or cell).
        metric: "mae", "rocauc", "accuracy", "ap" or "none".
        lifting: the lifting the paper uses, given the options.
        read: from raw files to graphs, as complexes of dimension one.
        split: from raw files and the number of graphs to the splits.
        layouts: the sets of raw files that will do, the best first, given the options.
        options: the options there are, with their defaults.
        check: refuse values of options that do not fit.
        download: put one of the layouts into a folder, given the options; None where the files have no public home.
        finish: what is added after lifting.
        rdkit: whether RDKit makes the graphs of these raw files; its version then counts as a part of them.
        version: raised when the reader gives something else for the same files, so that old stores are not used.
        notes: what a user should know about it.
    """

    name: str
    title: str
    home: str
    citation: str
    task: str
    outputs: int
    metric: str
    lifting: Callable[[Options], Lifting]
    read: Callable[[Raw], ComplexStore]
    split: Callable[[Raw, int], tuple[Split, ...]]
    layouts: Callable[[Options], tuple[tuple[str, ...], ...]] = _nothing
    options: Options = field(default_factory=dict)
    check: Callable[[Options], None] = _anything
    download: Callable[[Path, Options], None] | None = None
    finish: Callable[[ComplexStore], ComplexStore] | None = None
    rdkit: Callable[[Raw], bool] = _never
    version: int = 1
    notes: str = ""


# ------------------------------------------------------------------------------------------------ for readers


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what goes wrong in a broken file into an error that names it."""
    try:
        yield
    except GraphFileError:
        raise
    except KeyError as error:
        raise GraphFileError(f"there is no array {error} in it", path) from error
    except (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile) as error:
        raise GraphFileError(f"can not be read: {error}. Get the file anew", path) from error


def read_text(path: Path) -> str:
    """A text file, plain or gzipped, without byte order mark."""
    with reading(path):
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")


def whole_numbers(text: str, path: Path) -> NDArray[np.int64]:
    """All whole numbers of a text, with blanks, line ends or commas between them. Takes 0.1 s per million."""
    with reading(path), warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy stops at what is no number, and only warns
        return np.fromstring(text.replace(",", " "), dtype=np.int64, sep=" ")


def read_positions(path: Path, count: int) -> NDArray[np.int64]:
    """A file of positions, one a line, checked to be those of `count` graphs."""
    positions = whole_numbers(read_text(path), path)
    return check_positions(positions, path, count)


def check_positions(positions: NDArray[np.int64], path: Path, count: int) -> NDArray[np.int64]:
    """Refuse positions that are not there, or there twice."""
    wrong = positions[(positions < 0) | (positions >= count)]
    if wrong.size:
        raise GraphFileError(f"it names graph {wrong[0]}, but there are {count} (0 to {count - 1})", path)
    if np.bincount(positions, minlength=1).max() > 1:
        raise GraphFileError("it names a graph twice", path)
    return positions


def as_split(train: Any = (), val: Any = (), test: Any = ()) -> Split:
    """A split from arrays of positions; a part that a benchmark does not have is empty."""
    return Split(*(torch.from_numpy(np.array(part, dtype=np.int64)) for part in (train, val, test)))


def consecutive_split(train_end: int, val_end: int, count: int) -> Split:
    """The first graphs to train on, the next to choose by, the rest to test on."""
    return as_split(*(np.arange(start, stop) for start, stop in pairwise((0, train_end, val_end, count))))


def load_arrays(path: Path, names: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
    """Arrays of an ``.npz`` file, each decompressed once."""
    with reading(path), np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in (names or archive.files)}


def orders(count: int, size: int, seed: int) -> NDArray[np.intp]:
    """Random orders of `size` things, [count, size], that depend on the seed alone.

    NumPy promises that the bits of its generators stay the same from version to version, but not its permutations.
    """
    return np.argsort(np.random.PCG64(seed).random_raw((count, size)), axis=1, kind="stable")


def fetch(url: str, path: Path) -> None:
    """Download one file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with urllib.request.urlopen(url, timeout=30) as answer:
        data = answer.read()
    put(path, data)


def put(path: Path, data: bytes) -> None:
    """Write a file, and its folder if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, data)


def slug(text: str) -> str:
    """A text as part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60]
