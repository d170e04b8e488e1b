"""Splits by how alike molecules are: whole clusters, or a training part that covers the set."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cwnet import _core
from cwnet.data._splits import (
    Fractions,
    Ints,
    Split,
    SplitError,
    check_fractions,
    group_split,
    nonempty,
    of_molecules,
    shuffled,
)
from cwnet.lifting._lift import num_threads

if TYPE_CHECKING:
    from rdkit.Chem import Mol

    from cwnet.chem._descriptors import Counts

__all__ = ["butina", "cluster_groups", "cluster_split", "fingerprints", "kennard_stone", "kennard_stone_split"]

#: Counted Morgan fingerprints that are compared: the same as those of a model's novelty.
RADIUS, SIZE = 2, 2048
#: Tanimoto distance up to which two molecules may share a cluster.
THRESHOLD = 0.4
#: All pairs are compared, so a set twice as large takes four times as long.
MOST = {"cluster": 50_000, "kennard-stone": 20_000}
#: Similarities are float32.
_ROUNDING = 1e-6


def cluster_split(
    molecules: Iterable[str | Mol],
    fractions: Fractions = (0.8, 0.1, 0.1),
    *,
    threshold: float = THRESHOLD,
    seed: int | None = None,
) -> Split:
    """Split molecules such that no cluster of similar ones is in two parts.

    Clusters are those of `butina` on counted Morgan fingerprints of radius 2. They go to the parts by the rules of
    `scaffold_split`: the largest to train. Needs RDKit.

    Args:
        molecules: SMILES or RDKit molecules, 50,000 at the most.
        fractions: shares of train, val and test. Clusters are not cut, so they are met roughly.
        threshold: Tanimoto distance to the centre of a cluster, at the most. Larger ones give fewer, larger clusters.
        seed: as in `scaffold_split`.

    Raises:
        GraphError: for a SMILES that does not parse, with its position.
        SplitError: if a part would be empty, or there are too many molecules.

    >>> cluster_split(["CCCCCCO", "CCCCCCCO", "c1ccccc1", "Cc1ccccc1C", "C#N"], (0.6, 0.2, 0.2))
    Split(3 train, 1 val, 1 test)
    """
    check_fractions(fractions)
    return group_split(cluster_groups(molecules, threshold), fractions, seed=seed, what="cluster")


def cluster_groups(molecules: Iterable[str | Mol], threshold: float = THRESHOLD) -> Ints:
    """The number of the cluster of each molecule; see `cluster_split`."""
    if not 0 <= threshold < 1:
        raise SplitError(f"a threshold of {threshold:g}: it is a Tanimoto distance, from 0 to less than 1, as in 0.4")
    counts = fingerprints(molecules)
    _check_few(len(counts), "cluster")
    return butina(counts, threshold)


def kennard_stone_split(
    molecules: Iterable[str | Mol], fractions: Fractions = (0.8, 0.1, 0.1), *, seed: int = 0
) -> Split:
    """Split such that the training part covers the set: see `kennard_stone`, on Morgan fingerprints. Needs RDKit.

    What is left lies between training molecules, so figures are those of interpolation, and better than of a random
    split. It is dealt to val and test by chance: both are alike, as intervals want it.

    Args:
        molecules: SMILES or RDKit molecules, 20,000 at the most.
        fractions: shares of train, val and test.
        seed: of what is left.

    Raises:
        GraphError: for a SMILES that does not parse, with its position.
        SplitError: if a part would be empty, or there are too many molecules.

    >>> kennard_stone_split(["C" * n for n in range(1, 11)])
    Split(8 train, 1 val, 1 test)
    """
    check_fractions(fractions)
    counts = fingerprints(molecules)
    n = len(counts)
    _check_few(n, "kennard-stone")
    first, second = (math.floor(sum(fractions[:i]) * n + 0.5) for i in range(1, 3))
    train = kennard_stone(counts, first)
    rest = np.setdiff1d(np.arange(n), train)
    rest = rest[shuffled(len(rest), seed)]
    parts = [np.sort(train), np.sort(rest[: second - first]), np.sort(rest[second - first :])]
    return nonempty(parts, fractions, "take more molecules or other fractions")


# ------------------------------------------------------------------------------------------------ algorithms


def fingerprints(molecules: Iterable[str | Mol]) -> Counts:
    """Counted Morgan fingerprints, as compressed sparse rows."""
    from cwnet.chem._descriptors import Counts, morgan_counts

    rows = of_molecules(molecules, lambda mol: morgan_counts([mol], RADIUS, SIZE))
    if not rows:
        return Counts(np.zeros(1, np.int64), np.zeros(0, np.uint16), np.zeros(0, np.uint8))
    ptr = np.cumsum([0, *(len(row.column) for row in rows)], dtype=np.int64)
    return Counts(ptr, np.concatenate([row.column for row in rows]), np.concatenate([row.times for row in rows]))


def butina(counts: Counts, threshold: float) -> Ints:
    """The number of the cluster of each molecule, [molecules]; the first cluster is the largest.

    Butina (1999): the molecule with the most neighbours, which are those within the threshold, and these are a cluster;
    so are the one with the most neighbours of those left and what is left of its neighbours, and so on. Neighbours are
    counted once, at the start, as in RDKit; of two molecules with as many the first comes first.

    Similarities are computed when they are asked for, twice at the most, and never kept: memory is O(n), time O(n²).
    """
    n = len(counts)
    neighbours = np.array([int(_near(counts, i, threshold).sum()) for i in range(n)], dtype=np.int64)
    cluster = np.full(n, -1, dtype=np.int64)
    number = 0
    for centre in np.argsort(-neighbours, kind="stable").tolist():
        if cluster[centre] < 0:
            own = _near(counts, centre, threshold) if neighbours[centre] > 1 else np.arange(n) == centre
            cluster[own & (cluster < 0)] = number
            number += 1
    return cluster


def kennard_stone(counts: Counts, count: int) -> Ints:
    """So many molecules that cover all of them, in the order in which they are chosen.

    Kennard and Stone (1969): the two that are farthest apart, then again and again the one that is farthest from its
    nearest among the chosen. Distances are 1 - Tanimoto similarity; of several the first is taken. Each chosen molecule
    costs one comparison with all others, and no more than these are in memory.
    """
    n = len(counts)
    if not 0 < count <= n:
        return np.arange(n if count > 0 else 0)
    chosen = list(_farthest_pair(counts))[:count] if n > 1 else [0]
    nearest = np.full(n, -1.0, dtype=np.float32)
    for i in chosen:
        nearest = np.maximum(nearest, _similarities(counts, i))
    while len(chosen) < count:
        nearest[chosen[-2:]] = np.inf
        chosen.append(int(nearest.argmin()))
        nearest = np.maximum(nearest, _similarities(counts, chosen[-1]))
    return np.array(chosen, dtype=np.int64)


def _farthest_pair(counts: Counts) -> tuple[int, int]:
    """The two molecules that are least alike. Those that share nothing are as far apart as can be."""
    best, pair = np.inf, (0, 1)
    for i in range(len(counts) - 1):
        row = _similarities(counts, i)[i + 1 :]
        j = int(row.argmin())
        if row[j] < best:
            best, pair = float(row[j]), (i, i + 1 + j)
        if best == 0:
            break
    return pair


def _near(counts: Counts, i: int, threshold: float) -> NDArray[np.bool_]:
    return _similarities(counts, i) >= 1 - threshold - _ROUNDING


def _similarities(counts: Counts, i: int) -> NDArray[np.float32]:
    """The Tanimoto similarity of all molecules to one of them, [molecules]."""
    member, others = ((c.ptr, c.column, c.times) for c in (counts.select(np.array([i])), counts))
    found: NDArray[np.float32] = _core.nearest_similarity(member, others, SIZE, 1, num_threads(None))
    return found


def _check_few(count: int, kind: str) -> None:
    if count > MOST[kind]:
        raise SplitError(
            f"there are {count:,} molecules, and a {kind} split compares all pairs of {MOST[kind]:,} at the most: "
            "take a scaffold split"
        )
