"""Molecules that are in a store more than once: a map over shards, then over hashes.

Certificates of the CWL test say which may be the same, and canonical SMILES which are.
"""

from __future__ import annotations

import csv
import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwnet.data._files import whole_file
from cwnet.data._store_file import open_smiles, open_store, publish, read_manifest, write_shard
from cwnet.errors import CwnetError
from cwnet.scale._pool import Here, Pool

__all__ = ["Duplicates", "find_duplicates", "without_duplicates"]

Numbers = NDArray[np.int64]
#: Complexes whose certificates are compared at once: the space of hashes is cut into parts with about as many.
_AT_ONCE = 2_000_000


@dataclass(frozen=True, eq=False)
class Duplicates:
    """Complexes that are there more than once.

    Attributes:
        count: complexes looked at.
        again: the numbers of those that are there before, in order.
        first: for each of them, the number of the first that it equals.
    """

    count: int
    again: Numbers
    first: Numbers

    def __repr__(self) -> str:
        return f"Duplicates({len(self.again):,} of {self.count:,} complexes are there before)"

    def write(self, path: str | Path) -> None:
        """Write the pairs as CSV: complex, first."""
        with whole_file(path) as part, open(part, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("complex", "first"))
            writer.writerows(zip(self.again.tolist(), self.first.tolist(), strict=True))


def find_duplicates(
    path: str | Path,
    work: str | Path,
    *,
    initial: str = "features",
    pool: Pool | None = None,
    at_once: int = _AT_ONCE,
    tick: Callable[[str], None] = lambda text: None,
) -> Duplicates:
    """Find the complexes of a store that equal an earlier one.

    Of molecules with their SMILES, as `lift_files` writes them, those are equal that have the same certificate and the
    same canonical SMILES: so isotopes count, which the features do not know. Of other complexes, those that cellular WL
    does not tell apart.

    Args:
        path: a store on disk.
        work: a folder for certificates, which workers see too; it is made, and deleted at the end.
        initial: "features", or "uniform" for graphs without labels.
        pool: where to work; in this process by default.
        at_once: certificates in memory at once.
        tick: called after every task.
    """
    source, folder = Path(path), Path(work)
    manifest = read_manifest(source)
    counts = [int(shard["count"]) for shard in manifest.shards]
    starts = [0, *accumulate(counts)]
    parts = max(-(-starts[-1] // at_once), 1)
    if folder.exists() and any(folder.iterdir()):
        raise CwnetError(f"{folder} is not empty: give a folder of its own for certificates")
    folder.mkdir(parents=True, exist_ok=True)
    pool = pool or Here()
    try:
        for number in pool.map(_certify, ((str(source), i, str(folder), initial) for i in range(len(counts)))):
            tick(f"certificates of shard {number}")
        found = []
        for pair in pool.map(_meet, ((str(folder), starts, part, parts) for part in range(parts))):
            tick("hashes compared")
            found.append(pair)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    again = np.concatenate([pair[0] for pair in found])
    first = np.concatenate([pair[1] for pair in found])
    again, first = _exactly(source, starts, again, first, pool)
    order = np.argsort(again)
    return Duplicates(starts[-1], again[order], first[order])


def _exactly(source: Path, starts: list[int], again: Numbers, first: Numbers, pool: Pool) -> tuple[Numbers, Numbers]:
    """Of complexes with the same certificate, those with the same canonical SMILES."""
    members = np.unique(np.concatenate([again, first]))
    cuts = np.searchsorted(members, starts)
    tasks = ((str(source), i, members[cuts[i] : cuts[i + 1]] - starts[i]) for i in range(len(starts) - 1))
    words = np.concatenate([np.zeros((0, 2), dtype=np.uint64), *pool.map(_canonical, tasks)])
    group = members.copy()  # the first of the same certificate
    group[np.searchsorted(members, again)] = first
    order = np.lexsort((members, words[:, 1], words[:, 0], group))
    key = np.column_stack([group.astype(np.uint64), words])[order]
    same = np.concatenate([[False], (key[1:] == key[:-1]).all(1)]) if len(key) else np.zeros(0, dtype=bool)
    return members[order][same], members[order][_heads(same)[same]]


def _canonical(path: str, shard: int, wanted: Numbers) -> NDArray[np.uint64]:
    """Hashes of the canonical SMILES of some complexes of a shard, [wanted, 2]; zeros where it has none."""
    from cwnet.chem._featuriser import canonical

    smiles = open_smiles(path, shard) if len(wanted) else None
    if smiles is None:
        return np.zeros((len(wanted), 2), dtype=np.uint64)
    digests = [hashlib.blake2b(canonical(smiles[i]).encode(), digest_size=16).digest() for i in wanted]
    return np.frombuffer(b"".join(digests), dtype=np.uint64).reshape(-1, 2)


def _heads(same: NDArray[np.bool_]) -> Numbers:
    """For each entry of a sorted list, the first that it is the same as."""
    return np.maximum.accumulate(np.where(same, 0, np.arange(len(same)))) if len(same) else np.zeros(0, dtype=np.int64)


def _certify(path: str, shard: int, folder: str, initial: str) -> int:
    """Keep the certificates of a shard, sorted, and which complex each is of."""
    from cwnet.wl._refine import certify

    store = open_store(path, shard=shard)
    words = certify(store, initial=initial, threads=1)
    order = np.lexsort((words[:, 1], words[:, 0]))
    for name, array in (("words", words[order]), ("order", order.astype(np.int64))):
        part = Path(folder, f".{name}-{shard}.part.npy")
        np.save(part, array)
        part.replace(Path(folder, f"{name}-{shard}.npy"))
    return shard


def _meet(folder: str, starts: list[int], part: int, parts: int) -> tuple[Numbers, Numbers]:
    """All that is equal within one part of the space of hashes."""
    words, numbers = [], []
    for shard, start in enumerate(starts[:-1]):
        some = np.load(Path(folder, f"words-{shard}.npy"), mmap_mode="r")
        low, high = (np.searchsorted(some[:, 0], _edge(p, parts)) if p < parts else len(some) for p in (part, part + 1))
        words.append(np.asarray(some[low:high]))
        order = np.load(Path(folder, f"order-{shard}.npy"), mmap_mode="r")
        numbers.append(start + np.asarray(order[low:high]))
    both, number = np.concatenate(words), np.concatenate(numbers)
    order = np.lexsort((number, both[:, 1], both[:, 0]))
    both, number = both[order], number[order]
    same = np.concatenate([[False], (both[1:] == both[:-1]).all(1)]) if len(both) else np.zeros(0, dtype=bool)
    return number[same], number[_heads(same)[same]]


def _edge(part: int, parts: int) -> Any:
    """Where a part of the hashes begins."""
    return np.uint64(part * 2**64 // parts)


# ------------------------------------------------------------------------------------------------ a store without them


def without_duplicates(path: str | Path, out: str | Path, found: Duplicates, *, pool: Pool | None = None) -> int:
    """Write a store of the complexes that are not there before. Gives their number."""
    source, folder = Path(path), Path(out)
    manifest = read_manifest(source)
    if folder.exists() and any(folder.iterdir()):
        raise CwnetError(f"{folder} is not empty: delete it, or choose another folder")
    folder.mkdir(parents=True, exist_ok=True)

    def tasks() -> Iterator[tuple[Any, ...]]:
        start = 0
        for number, shard in enumerate(manifest.shards):
            low, high = np.searchsorted(found.again, (start, start + shard["count"]))
            yield str(source), number, str(folder), found.again[low:high] - start
            start += shard["count"]

    notes = [note for note in (pool or Here()).map(_filter, tasks()) if note is not None]
    about = {**manifest.about, "without_duplicates": len(found.again)}
    publish(folder, [shard for shard, _ in notes], [cells for _, cells in notes], manifest.lifting, None, about)
    found.write(folder / "duplicates.csv")
    return found.count - len(found.again)


def _filter(path: str, number: int, folder: str, drop: Numbers) -> tuple[dict[str, Any], list[int]] | None:
    store = open_store(path, shard=number)
    kept = np.setdiff1d(np.arange(len(store)), drop)
    if not len(kept):
        return None
    left, smiles = store.select(kept), open_smiles(path, number)
    texts = None if smiles is None else [smiles[i] for i in kept]
    return write_shard(Path(folder, f"unique-{number:05d}.arrow"), left, texts), list(left.num_cells)
