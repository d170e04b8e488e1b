"""Colour refinement on cell complexes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cwnet import _core
from cwnet.complexes import CellComplex, ComplexStore
from cwnet.lifting._lift import num_threads

__all__ = [
    "ADJACENCIES",
    "Fast",
    "Initial",
    "Refinement",
    "adjacency_bits",
    "as_store",
    "certify",
    "initial_labels",
    "number_words",
    "refine",
    "refine_fast",
]

#: The four ways in which cells are adjacent, in the order of the paper's update rule.
ADJACENCIES = ("boundary", "coboundary", "lower", "upper")

#: Initial colours: "uniform", "dimension", "features", or one array of labels (or None) per dimension.
Initial = Literal["uniform", "dimension", "features"] | Sequence[Any]

Labels = list[NDArray[np.int64] | None]


@dataclass(frozen=True)
class Refinement:
    """Colours of all cells, round by round.

    Attributes:
        store: the complexes that were refined together.
        rounds: the round whose colouring is stable: later rounds give the same classes.
        colours: for each round, from 0 (the initial colours) to one past the stable one, and each dimension, the
            colours of all cells of the store, int64. Equal numbers are equal colours, in all complexes and dimensions
            of that round.
    """

    store: ComplexStore
    rounds: int
    colours: tuple[tuple[Tensor, ...], ...]

    def of(self, i: int, round_: int = -1) -> list[list[int]]:
        """The colours of complex i, per dimension."""
        return [
            c[ptr[i] : ptr[i + 1]].tolist() for c, ptr in zip(self.colours[round_], self.store.cell_ptr, strict=True)
        ]

    def histogram(self, i: int, round_: int = -1) -> dict[int, int]:
        """How many cells of complex i have each colour."""
        values, counts = np.unique(np.concatenate([*map(np.asarray, self.of(i, round_)), []]), return_counts=True)
        return {int(v): int(n) for v, n in zip(values, counts, strict=True)}


def refine(
    complexes: CellComplex | ComplexStore | Sequence[CellComplex],
    *,
    adjacencies: Sequence[str] = ("boundary", "upper"),
    initial: Initial = "uniform",
    mode: Literal["fast", "exact"] = "fast",
    max_rounds: int | None = None,
    threads: int | None = None,
) -> Refinement:
    """Refine the colours of all cells together until they are stable: the CWL test of the paper, section 3.

    In each round, a cell's colour becomes

        c_σ ← HASH(c_σ, c_B(σ), c_C(σ), c_↓(σ), c_↑(σ))

    of its own colour and the multisets of colours of the chosen adjacencies; lower and upper neighbours come with
    the colour of the cell they share. Boundary and upper are enough (Theorem 'CWL without coboundary and
    lower-adjacencies').

    Args:
        complexes: one complex, many, or a store.
        adjacencies: any of "boundary", "coboundary", "lower", "upper".
        initial: "uniform" (the paper's), "dimension", "features" (the rows of `x` as labels), or one array of labels
            (or None) per dimension.
        mode: "exact" numbers sorted multisets and compares them; "fast" hashes them to 128 bits, in time linear in the
            incidences.
        max_rounds: stop here even if not stable.
        threads: worker threads of the fast mode; all cores by default.

    >>> import cwnet
    >>> hexagon = cwnet.lift((6, [(i, (i + 1) % 6) for i in range(6)]), cwnet.Rings(6))
    >>> found = refine(hexagon, mode="exact")
    >>> found.rounds, found.histogram(0)  # vertices, edges and the ring
    (1, {0: 6, 1: 6, 2: 1})
    """
    store = as_store(complexes)
    bits = adjacency_bits(adjacencies)
    if max_rounds is not None and max_rounds < 0:
        raise ValueError(f"max_rounds={max_rounds}: give a number of rounds ≥ 0, or None")
    if mode == "exact":
        rounds, flat, _ = _core.refine_exact(
            *_arrays(store),
            initial_labels(store, initial),
            adjacencies=bits,
            by_dimension=initial == "dimension",
            max_rounds=-1 if max_rounds is None else min(max_rounds, 2**31 - 1),
            until_stable=True,
        )
        return Refinement(store, rounds, tuple(_by_dimension(store, c.astype(np.int64)) for c in flat))
    if mode != "fast":
        raise ValueError(f"mode={mode!r} is not 'fast' or 'exact'")
    return _refine_fast_together(store, adjacencies, initial, max_rounds, threads)


def as_store(complexes: CellComplex | ComplexStore | Sequence[CellComplex]) -> ComplexStore:
    """Accept one complex, many or a store."""
    if isinstance(complexes, ComplexStore):
        return complexes.to("cpu")
    many = [complexes] if isinstance(complexes, CellComplex) else list(complexes)
    return ComplexStore.from_complexes(many).to("cpu")


@dataclass(frozen=True)
class Fast:
    """What the fast mode of the core gives: each complex refined by itself, 128-bit values as pairs of words.

    Attributes:
        rounds: per complex, the round whose colouring is stable.
        history_ptr, histograms: per complex, the hash of its histogram after every round, [rounds, 2], if kept.
        colour_ptr, colours: per complex, the colours of all its cells after every round, [rounds * cells, 2], if kept.
            Pointers have 32 bits where that is enough.
    """

    rounds: NDArray[np.int32]
    history_ptr: NDArray[np.int64]
    histograms: NDArray[np.uint64]
    colour_ptr: NDArray[np.int32] | NDArray[np.int64]
    colours: NDArray[np.uint64]


def refine_fast(
    store: ComplexStore,
    *,
    adjacencies: Sequence[str] = ("boundary", "upper"),
    initial: Initial = "uniform",
    rounds: int | None = None,
    keep_colours: bool = False,
    keep_history: bool = False,
    threads: int | None = None,
) -> Fast:
    """Run the core's fast mode until each complex is stable, or for a fixed number of rounds."""
    out = _core.refine_fast(
        *_arrays(store),
        initial_labels(store, initial),
        adjacencies=adjacency_bits(adjacencies),
        by_dimension=initial == "dimension",
        max_rounds=-1 if rounds is None else rounds,
        until_stable=rounds is None,
        keep_colours=keep_colours,
        keep_history=keep_history,
        threads=num_threads(threads),
    )
    rounds_, history_ptr, histograms, colour_ptr, colours = out
    return Fast(rounds_, history_ptr, histograms.reshape(-1, 2), narrowed(colour_ptr), colours.reshape(-1, 2))


def narrowed(numbers: NDArray[np.int64]) -> NDArray[np.int32] | NDArray[np.int64]:
    """The same in 32 bits where they fit: much of scikit-learn refuses sparse matrices with wider indices."""
    return numbers.astype(np.int32) if numbers.max(initial=0) < 2**31 else numbers


def certify(store: ComplexStore, *, initial: Initial = "uniform", threads: int | None = None) -> NDArray[np.uint64]:
    """The certificates of all complexes as pairs of words, [complexes, 2]."""
    words = _core.certify(*_arrays(store), initial_labels(store, initial), threads=num_threads(threads))
    return words.reshape(-1, 2)


#: Rounds that are made without asking first how many it takes.
_FEW = 16


def _refine_fast_together(
    store: ComplexStore, adjacencies: Sequence[str], initial: Initial, max_rounds: int | None, threads: int | None
) -> Refinement:
    most = math.inf if max_rounds is None else max_rounds
    if max_rounds is None or max_rounds > _FEW:
        # Complexes that are stable by themselves may still come apart from each other: this is where to look first.
        alone = refine_fast(store, adjacencies=adjacencies, initial=initial, threads=threads)
        rounds = int(min(int(alone.rounds.max(initial=0)) + 1, most))
    else:
        rounds = max_rounds
    while True:
        fast = refine_fast(
            store, adjacencies=adjacencies, initial=initial, rounds=rounds, keep_colours=True, threads=threads
        )
        numbered = _number_colours(store, fast, rounds)
        classes = [int(n) for _, n in numbered]
        stable = next((t for t in range(rounds) if classes[t + 1] == classes[t]), None)
        if stable is not None or rounds >= most:
            last = rounds if stable is None else stable + 1
            colours = tuple(_by_dimension(store, c) for c, _ in numbered[: last + 1])
            return Refinement(store, rounds if stable is None else stable, colours)
        rounds = int(min(2 * rounds, most))


def _number_colours(store: ComplexStore, fast: Fast, rounds: int) -> list[tuple[NDArray[np.int64], int]]:
    """Small numbers for 128-bit colours: per round, all cells complex by complex, and the number of classes."""
    sizes = sum(ptr.diff() for ptr in store.cell_ptr).numpy()  # type: ignore[union-attr]
    out = []
    for t in range(rounds + 1):
        starts = fast.colour_ptr[:-1] + t * sizes
        rows = np.repeat(starts - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes) + np.arange(sizes.sum())
        out.append(number_words(fast.colours[rows]))
    return out


def number_words(words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], int]:
    """Numbers for 128-bit values [n, 2], the same for the same value, in the order in which they are met."""
    order = np.lexsort((words[:, 1], words[:, 0]))
    sorted_words = words[order]
    new = np.ones(len(words), dtype=bool)
    new[1:] = (sorted_words[1:] != sorted_words[:-1]).any(axis=1)
    group = np.cumsum(new) - 1
    first = np.full(int(new.sum()), len(words))
    np.minimum.at(first, group, order)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    numbers = np.empty(len(words), dtype=np.int64)
    numbers[order] = rank[group]
    return numbers, len(first)


def _by_dimension(store: ComplexStore, flat: NDArray[np.int64]) -> tuple[Tensor, ...]:
    """From all cells complex by complex to all cells dimension by dimension."""
    counts = np.stack([ptr.diff().numpy() for ptr in store.cell_ptr])  # [dimensions, complexes]
    starts = np.concatenate([[0], np.cumsum(counts.T.reshape(-1))[:-1]]).reshape(counts.T.shape)
    out = []
    for d, sizes in enumerate(counts):
        before = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        rows = np.repeat(starts[:, d] - before, sizes) + np.arange(sizes.sum())
        out.append(torch.from_numpy(flat[rows]))
    return tuple(out)


def _arrays(
    store: ComplexStore,
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int32]], list[NDArray[np.int32]]]:
    return (
        [ptr.numpy() for ptr in store.cell_ptr],
        [csr.ptr.numpy() for csr in store.boundaries],
        [csr.idx.numpy() for csr in store.boundaries],
    )


def adjacency_bits(adjacencies: Sequence[str]) -> int:
    """The chosen adjacencies as the core takes them."""
    if isinstance(adjacencies, str):
        adjacencies = (adjacencies,)
    unknown = [a for a in adjacencies if a not in ADJACENCIES]
    if unknown:
        raise ValueError(f"unknown adjacency {unknown[0]!r}: choose from {', '.join(ADJACENCIES)}")
    return sum(1 << ADJACENCIES.index(a) for a in set(adjacencies))


def initial_labels(store: ComplexStore, initial: Initial) -> Labels:
    """One label per cell and dimension, or None where the initial colour does not depend on one."""
    none: Labels = [None] * len(store.cell_ptr)
    if isinstance(initial, str):
        if initial in ("uniform", "dimension"):
            return none
        if initial == "features":
            return [
                None if x is None else _as_labels(x, n, d)
                for d, (x, n) in enumerate(zip(store.x, store.num_cells, strict=True))
            ]
        raise ValueError(f"initial={initial!r} is not 'uniform', 'dimension', 'features' or labels per dimension")
    if len(initial) > len(none):
        raise ValueError(f"labels for {len(initial)} dimensions, but there are cells in {len(none)} only")
    for d, values in enumerate(initial):
        none[d] = None if values is None else _as_labels(values, store.num_cells[d], d)
    return none


def _as_labels(values: Any, count: int, d: int) -> NDArray[np.int64]:
    array = values.numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.ndim == 0 or array.shape[0] != count:
        have = array.shape[0] if array.ndim else "no"
        raise ValueError(f"{have} labels for {count} cells of dimension {d}")
    rows = array.reshape(count, -1) if count else array.reshape(0, 1)
    if rows.shape[1] == 1 and rows.dtype.kind in "iub":
        return np.ascontiguousarray(rows[:, 0].astype(np.int64))
    if rows.dtype.kind not in "iubfUS":
        raise TypeError(f"labels of dimension {d} are {array.dtype}; they must be whole numbers, floats or text")
    unique, inverse = np.unique(rows, axis=0, return_inverse=True)
    digests = np.array([_digest(row) for row in unique], dtype=np.int64)
    return np.ascontiguousarray(digests[inverse.reshape(-1)])


def _digest(row: NDArray[Any]) -> int:
    """64 bits of a row of labels, the same on every machine."""
    text = "\x1f".join(str(v) for v in row.tolist())
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)
