"""Splits of a data set into graphs to train on, to choose by and to test on: how they are made, kept and read."""

from __future__ import annotations

import difflib
import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cwnet.data._files import write_whole
from cwnet.errors import CwnetError, GraphError

if TYPE_CHECKING:
    from rdkit.Chem import Mol

__all__ = [
    "Split",
    "SplitError",
    "column_split",
    "group_split",
    "kfold_split",
    "load_split",
    "random_split",
    "save_split",
    "scaffold_groups",
    "scaffold_split",
]

Fractions = tuple[float, float, float]
Ints = NDArray[np.int64]
T = TypeVar("T")


class SplitError(CwnetError, ValueError):
    """A split that can not be made as asked, or a file that is not one."""


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Which graphs to train on, to choose models by and to test on.

    The numbers count graphs from 0. Lists and arrays are turned into tensors. A graph to train on is in no other
    part; `val` and `test` may overlap, since some published protocols choose by the test fold.

    Attributes:
        train: graphs to train on, [graphs], int64.
        val: graphs to choose by.
        test: graphs to test on.

    >>> Split(train=[0, 2, 3], val=[1], test=[4])
    Split(3 train, 1 val, 1 test)
    """

    train: Tensor
    val: Tensor
    test: Tensor

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, _numbers(getattr(self, field.name), field.name))
        for name, part in (("val", self.val), ("test", self.test)):
            shared = np.intersect1d(self.train.numpy(), part.numpy(), assume_unique=True)
            if len(shared):
                raise SplitError(f"graph {shared[0]} is in train and in {name}: what is trained on tests nothing")

    def __len__(self) -> int:
        """Graphs in all parts together."""
        return len(np.unique(torch.cat([self.train, self.val, self.test]).numpy()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Split):
            return NotImplemented
        return all(torch.equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Split({', '.join(f'{len(getattr(self, f.name)):,} {f.name}' for f in fields(self))})"


def random_split(n: int, fractions: Fractions = (0.8, 0.1, 0.1), *, seed: int = 0) -> Split:
    """Split n graphs by chance.

    Args:
        n: number of graphs.
        fractions: shares of train, val and test. They add up to 1.
        seed: the same seed gives the same split, on every machine.

    >>> random_split(50, (0.6, 0.2, 0.2), seed=1)
    Split(30 train, 10 val, 10 test)
    """
    check_fractions(fractions)
    ends = [math.floor(sum(fractions[:i]) * n + 0.5) for i in range(1, 3)]
    return nonempty(np.split(shuffled(n, seed), ends), fractions, "take more graphs or other fractions")


def scaffold_split(
    molecules: Iterable[str | Mol], fractions: Fractions = (0.8, 0.1, 0.1), *, seed: int | None = None
) -> Split:
    """Split molecules such that no scaffold is in two parts.

    The scaffold of a molecule (Bemis and Murcko, 1996) is its rings and what links them, without stereochemistry. All
    molecules without rings have the same, empty one. The largest groups go to train, as long as they fit, then to val,
    and the rest to test. Of two groups of one size the one that starts later comes first: these are the rules of
    DeepChem, which made the splits of MoleculeNet and OGB. Needs RDKit.

    Args:
        molecules: SMILES or RDKit molecules.
        fractions: shares of train, val and test. They add up to 1. Groups are not cut, so they are met roughly.
        seed: None for groups by size. A number shuffles the groups that are at most half as large as the smaller of
            val and test, so that different seeds give different splits.

    Raises:
        GraphError: for a SMILES that does not parse, with its position.
        SplitError: if a part would be empty.

    >>> scaffold_split(["c1ccccc1", "Cc1ccccc1", "CCO", "C1CC1"], (0.5, 0.25, 0.25))
    Split(2 train, 1 val, 1 test)
    """
    check_fractions(fractions)
    return group_split(scaffold_groups(molecules), fractions, seed=seed, what="scaffold")


def scaffold_groups(molecules: Iterable[str | Mol]) -> Ints:
    """A number for each molecule, the same for molecules of one scaffold; see `scaffold_split`."""
    number: dict[str, int] = {}
    return np.array([number.setdefault(text, len(number)) for text in _scaffolds(molecules)], dtype=np.int64)


def group_split(
    groups: Ints, fractions: Fractions = (0.8, 0.1, 0.1), *, seed: int | None = None, what: str = "group"
) -> Split:
    """Split such that no group is in two parts, by the rules of `scaffold_split`.

    Args:
        groups: the number of the group of each graph, [graphs].
        fractions: see `scaffold_split`.
        seed: see there.
        what: a group is called in messages.

    >>> group_split(np.array([0, 0, 1, 2]), (0.5, 0.25, 0.25))
    Split(2 train, 1 val, 1 test)
    """
    check_fractions(fractions)
    members = _members(groups)
    n = len(groups)
    # A hair more, so that 0.9 of 10 is 9 however the sum is rounded.
    limits = [sum(fractions[:i]) * n + 1e-6 for i in range(1, 3)]
    train: list[int] = []
    val: list[int] = []
    test: list[int] = []
    for group in _ordered(members, min(fractions[1:]) * n / 2, seed):
        if len(train) + len(group) <= limits[0] or (not train and fractions[0]):
            train += group
        elif len(train) + len(val) + len(group) <= limits[1]:
            val += group
        else:
            test += group
    many = f"there is one {what}" if len(members) == 1 else f"there are {len(members):,} {what}s"
    way_out = f"{many}, and none is cut; take other fractions or random_split"
    return nonempty([np.sort(np.array(part, dtype=np.int64)) for part in (train, val, test)], fractions, way_out)


_PARTS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}


def column_split(values: Iterable[Any], *, rows: Iterable[int] | None = None) -> Split:
    """Split by a column that says "train", "val" (or "valid") or "test" for every graph.

    Args:
        values: the column. Case and blanks around a word do not matter.
        rows: the number of each row in its file, for messages. By default they are counted from 0.

    Raises:
        SplitError: for another word, with its row.

    >>> column_split(["train", "Valid", "test", "train"])
    Split(2 train, 1 val, 1 test)
    """
    values = list(values)
    numbers = range(len(values)) if rows is None else list(rows)
    parts: dict[str, list[int]] = {"train": [], "val": [], "test": []}
    for i, (value, row) in enumerate(zip(values, numbers, strict=True)):
        word = "" if value is None else str(value).strip().lower()
        if word not in _PARTS:
            near = difflib.get_close_matches(word, _PARTS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "write 'train', 'val' or 'test'"
            raise SplitError(f"row {row}: {value!r} is not a part of a split: {hint}")
        parts[_PARTS[word]].append(i)
    return Split(**parts)  # type: ignore[arg-type]


def kfold_split(
    labels: int | Sequence[Any] | Tensor | NDArray[Any],
    k: int = 10,
    *,
    seed: int = 0,
    stratified: bool = True,
    val: Literal["next", "test"] | None = "next",
) -> list[Split]:
    """Split into k folds, each the test set of one split. Every graph is in exactly one test fold.

    Args:
        labels: the class of each graph; or the number of graphs, which have no classes to be fair to.
        k: number of folds.
        seed: the same seed gives the same folds, on every machine.
        stratified: whether every class is spread evenly: its share in two folds differs by one graph at the most.
        val: what to choose models by: the "next" fold, which is then not trained on; the "test" fold itself, as the
            published results on the TU sets do; or None for nothing.

    Raises:
        SplitError: with fewer graphs than folds, or labels that are not classes.

    >>> kfold_split([0, 0, 0, 1, 1, 1], k=3)[0]
    Split(2 train, 2 val, 2 test)
    """
    classes = _classes(labels)
    least = 3 if val == "next" else 2
    if val not in ("next", "test", None):
        raise SplitError(f"val={val!r} is not one of 'next', 'test', None")
    if k < least:
        raise SplitError(f"{k} folds leave nothing to train on: take at least {least} with val={val!r}")
    if len(classes) < k:
        raise SplitError(f"there are {len(classes)} graphs for {k} folds: each needs at least one")
    order = shuffled(len(classes), seed)
    if stratified:
        order = order[np.argsort(classes[order], kind="stable")]
    # Dealt like cards, class after class: the folds, and each class within them, differ by one at the most.
    fold = np.empty(len(classes), dtype=np.int64)
    fold[order] = np.arange(len(classes)) % k
    return [_fold(fold, i, k, val) for i in range(k)]


def save_split(split: Split, path: str | os.PathLike[str]) -> None:
    """Write a split as JSON. A file that is there already is replaced at once, when the new one is whole."""
    body = {"format": _FORMAT, "version": 1, **{f.name: getattr(split, f.name).tolist() for f in fields(split)}}
    write_whole(path, (json.dumps(body) + "\n").encode())


def load_split(path: str | os.PathLike[str], *, count: int | None = None) -> Split:
    """Read a split that `save_split` wrote.

    Args:
        path: the file.
        count: number of graphs it is for, to be checked if given.

    Raises:
        FileNotFoundError: where there is no file.
        SplitError: where it is no split, or names graphs that do not exist.
    """
    try:
        body = json.loads(Path(path).read_text(encoding="utf-8"))
        known = isinstance(body, dict) and (body.get("format"), body.get("version")) == (_FORMAT, 1)
    except ValueError as error:
        raise SplitError(f"{path} is not JSON ({error}): write it anew with save_split") from error
    if not known:
        raise SplitError(f"{path} is not a split of this version of cwnet: write it anew with save_split")
    try:
        split = Split(**{field.name: body[field.name] for field in fields(Split)})
    except KeyError as error:
        raise SplitError(f"{path} has no {error}: write it anew with save_split") from error
    except SplitError as error:
        raise SplitError(f"{path}: {error}") from error
    last = int(max((int(p.max()) for p in (split.train, split.val, split.test) if len(p)), default=-1))
    if count is not None and last >= count:
        raise SplitError(f"{path} names graph {last}, but there are {count} (counted from 0): it is for other data")
    return split


_FORMAT = "cwnet split"


def _numbers(value: Any, name: str) -> Tensor:
    """The graphs of one part as an int64 tensor, each there once."""
    try:
        array = value.cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
    except ValueError:  # lists of different lengths
        array = np.array(None)
    if array.size == 0:
        return torch.zeros(0, dtype=torch.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise SplitError(f"{name} must be a list of numbers of graphs, not {value!r:.60}")
    numbers, times = np.unique(array, return_counts=True)
    if numbers[0] < 0:
        raise SplitError(f"{name} has {numbers[0]}: graphs are counted from 0")
    if times.max() > 1:
        raise SplitError(f"{name} has graph {numbers[times.argmax()]} more than once")
    return torch.from_numpy(array.astype(np.int64))


def check_fractions(fractions: Sequence[float]) -> None:
    """Refuse what are no shares of train, val and test."""
    if len(fractions) != 3 or not all(math.isfinite(f) and f >= 0 for f in fractions):
        raise SplitError(f"fractions={tuple(fractions)!r} must be three shares ≥ 0: of train, val and test")
    if abs(sum(fractions) - 1) > 1e-6:
        raise SplitError(f"fractions={tuple(fractions)!r} add up to {sum(fractions):g}, not to 1")


def nonempty(parts: Sequence[Ints], fractions: Fractions, way_out: str) -> Split:
    """The split of these parts, none of which may be empty unless its share is 0."""
    names = [field.name for field in fields(Split)]
    for name, part, fraction in zip(names, parts, fractions, strict=True):
        if fraction and not len(part):
            raise SplitError(f"{name} would be empty with fractions={tuple(fractions)!r}: {way_out}")
    return Split(*(torch.from_numpy(part) for part in parts))


def shuffled(n: int, seed: int) -> Ints:
    """The numbers below n in an order that depends on the seed alone.

    NumPy promises that the bits of its generators stay the same from version to version, but not its permutations.
    """
    if n < 0:
        raise SplitError(f"n={n}: there can not be fewer graphs than none")
    return np.argsort(np.random.PCG64(seed).random_raw(n), kind="stable")


def _members(groups: Ints) -> list[list[int]]:
    """The graphs of each group, the group of the first graph first."""
    found: dict[int, list[int]] = {}
    for i, group in enumerate(groups.tolist()):
        found.setdefault(group, []).append(i)
    return list(found.values())


def _ordered(groups: list[list[int]], large: float, seed: int | None) -> list[list[int]]:
    """Groups by size, the largest first; those that are not large in the order of the seed, if there is one."""
    groups = sorted(groups, key=lambda group: (len(group), group[0]), reverse=True)
    if seed is None:
        return groups
    big = [group for group in groups if len(group) > large]
    small = groups[len(big) :]
    return big + [small[i] for i in shuffled(len(small), seed)]


def _scaffolds(molecules: Iterable[str | Mol]) -> list[str]:
    """The Bemis–Murcko scaffold of each molecule, as SMILES."""
    from cwnet.chem._read import rdkit_failures, require_rdkit

    require_rdkit()
    from rdkit.Chem.Scaffolds import MurckoScaffold

    scaffold: Callable[..., str] = MurckoScaffold.MurckoScaffoldSmiles

    def of(mol: Mol) -> str:
        with rdkit_failures("the molecule has no scaffold"):
            return scaffold(mol=mol, includeChirality=False)

    return of_molecules(molecules, of)


def of_molecules(molecules: Iterable[str | Mol], function: Callable[[Mol], T]) -> list[T]:
    """What a function gives for each molecule.

    Raises:
        GraphError: for a SMILES that does not parse, with its position.
    """
    from cwnet.chem._read import parse

    if isinstance(molecules, str):
        raise TypeError("one text was given where many SMILES were expected: put it in a list")
    found = []
    for i, molecule in enumerate(molecules):
        try:
            mol = parse(molecule) if isinstance(molecule, str) else molecule
            if not hasattr(mol, "GetBonds"):
                raise GraphError(f"{mol!r} is not a molecule: give an RDKit Mol or a SMILES")
            found.append(function(mol))
        except GraphError as error:
            raise error.moved_to(i) from None
    return found


def _classes(labels: Any) -> NDArray[Any]:
    """The class of each graph, as a number."""
    if isinstance(labels, (int, np.integer)):
        return np.zeros(max(int(labels), 0), dtype=np.int64)
    array = labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise SplitError(f"labels of shape {array.shape}: folds need one class per graph")
    if array.dtype.kind == "f" and not (np.isfinite(array) & (array == np.round(array))).all():
        at = int(np.flatnonzero(~np.isfinite(array) | (array != np.round(array)))[0])
        raise SplitError(f"label {array[at]} of graph {at} is not a class: pass the number of graphs instead")
    return np.unique(array, return_inverse=True)[1]


def _fold(fold: Ints, i: int, k: int, val: str | None) -> Split:
    test = fold == i
    chosen = {"next": fold == (i + 1) % k, "test": test, None: np.zeros_like(test)}[val]
    return Split(*(torch.from_numpy(np.flatnonzero(part)) for part in (~test & ~chosen, chosen, test)))
