"""Benchmarks whose graphs are made here or are pure combinatorics: CSL, strongly regular graphs, RingTransfer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from cwnet.complexes import ComplexStore
from cwnet.data._graph_files import GraphFileError, read_graphs
from cwnet.data._source import (
    Options,
    Raw,
    Source,
    as_split,
    check_positions,
    consecutive_split,
    fetch,
    orders,
    read_text,
    whole_numbers,
)
from cwnet.data._splits import Split
from cwnet.lifting import Rings

__all__ = ["SOURCES"]

_GITHUB = "https://raw.githubusercontent.com"


def _is_one_of(name: str, known: Iterable[str], options: Options) -> None:
    if options[name] not in known:
        raise ValueError(f"{name}={options[name]!r} is not one of {', '.join(map(repr, known))}")


def _relabelled(edges: NDArray[np.int64], order: NDArray[np.intp]) -> NDArray[np.intp]:
    """The same edges [m, 2] or [graphs, m, 2] under a new numbering [graphs, vertices] per graph."""
    graphs = np.arange(len(order))[:, None, None]
    return order[graphs, np.broadcast_to(edges, (len(order), *edges.shape[-2:]))]


# ------------------------------------------------------------------------------------------------ CSL

_SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
_CSL_NODES, _CSL_COPIES = 41, 15
#: Where the files of the splits are, and where they come from.
_CSL_SPLITS = {
    "benchmarking-gnns": (
        "CSL/splits_benchmarking_gnns/CSL_{}.index",
        f"{_GITHUB}/graphdeeplearning/benchmarking-gnns/master/data/CSL/CSL_{{}}.index",
    ),
    "cwn": (
        "CSL/splits/CSL_{}.txt",
        f"{_GITHUB}/twitter-research/cwn/main/datasets/CSL/splits/CSL_{{}}.txt",
    ),
}


def _csl_files(options: Options) -> tuple[tuple[str, ...], ...]:
    file, _ = _CSL_SPLITS[options["splits"]]
    return (tuple(file.format(part) for part in ("train", "val", "test")),)


def _read_csl(raw: Raw) -> ComplexStore:
    """Circular skip links: a circle of 41 vertices, each joined to the one R steps on; 15 relabelled copies per R."""
    n = _CSL_NODES
    start = np.arange(n)
    rings = np.stack([np.stack([start, (start + step) % n], 1) for step in (1, *_SKIPS)])
    edges = np.concatenate([np.broadcast_to(rings[0], rings[1:].shape), rings[1:]], axis=1).repeat(_CSL_COPIES, axis=0)
    count = len(edges)
    return ComplexStore.from_graphs(
        np.full(count, n),
        np.full(count, 2 * n),
        _relabelled(edges, orders(count, n, raw.options["seed"])).reshape(-1, 2),
        y=np.arange(count) // _CSL_COPIES,
    )


def _split_csl(raw: Raw, count: int) -> tuple[Split, ...]:
    """Five folds, one a line."""
    folds = [
        [
            check_positions(whole_numbers(line, raw[file]), raw[file], count)
            for line in read_text(raw[file]).splitlines()
            if line
        ]
        for file in _csl_files(raw.options)[0]
    ]
    return tuple(as_split(*parts) for parts in zip(*folds, strict=True))


def _download_csl(folder: Path, options: Options) -> None:
    file, url = _CSL_SPLITS[options["splits"]]
    for part in ("train", "val", "test"):
        fetch(url.format(part), folder / file.format(part))


# ------------------------------------------------------------------------------------------------ SR

#: The families of strongly regular graphs, with their numbers of vertices and their degree.
_FAMILIES: dict[str, tuple[int, int]] = {
    "sr16622": (16, 6),
    "sr251256": (25, 12),
    "sr261034": (26, 10),
    "sr281264": (28, 12),
    "sr291467": (29, 14),
    "sr351668": (35, 16),
    "sr351899": (35, 18),
    "sr361446": (36, 14),
    "sr401224": (40, 12),
}


def _sr_files(options: Options) -> tuple[tuple[str, ...], ...]:
    return ((f"SR_graphs/{options['family']}.g6",),)


def _read_sr(raw: Raw) -> ComplexStore:
    """The graphs of one family."""
    file = raw[_sr_files(raw.options)[0][0]]
    graphs = [found.graph for found in read_graphs(file)]
    n, degree = _FAMILIES[raw.options["family"]]
    for i, graph in enumerate(graphs):
        if graph.num_nodes != n or (np.bincount(np.asarray(graph.edges).reshape(-1), minlength=n) != degree).any():
            raise GraphFileError(f"graph {i} does not have {n} vertices of degree {degree}", file)
    return ComplexStore.from_graphs(
        [graph.num_nodes for graph in graphs],
        [len(graph.edges) for graph in graphs],
        np.concatenate([graph.edges for graph in graphs]),
    )


def _sum_of_ones(store: ComplexStore) -> ComplexStore:
    """Features of the paper: 1 for a vertex, and for a higher cell the number of its vertices."""
    sizes = [torch.ones(store.num_cells[0]), *(csr.sizes.to(torch.float32) for csr in store.boundaries)]
    return replace(store, x=tuple(size[:, None] for size in sizes))


def _split_sr(raw: Raw, count: int) -> tuple[Split, ...]:
    """Nothing is trained: all graphs are for testing."""
    return (as_split(test=np.arange(count)),)


def _download_sr(folder: Path, options: Options) -> None:
    (file,) = _sr_files(options)[0]
    fetch(f"{_GITHUB}/twitter-research/cwn/main/datasets/SR_graphs/raw/{Path(file).name}", folder / file)


# ------------------------------------------------------------------------------------------------ RingTransfer

_CLASSES = 5


def _check_ring(options: Options) -> None:
    for name, least in (("k", 3), ("num_train", 1), ("num_val", 0), ("num_test", 0)):
        if options[name] < least:
            raise ValueError(f"{name}={options[name]}: give {least} or more")


def _read_ring_transfer(raw: Raw) -> ComplexStore:
    """Rings of k vertices, randomly numbered. The target has to tell the class that the source carries.

    `x[0]`, [vertices, 5], float32: the one-hot class on the source, zeros on the target, ones elsewhere. Target and
    source lie ⌊k/2⌋ steps apart. `cell_y[0]`, [vertices], int64: the class on the target, -1 on all others. `y` is the
    class too, for models that read out the whole ring.
    """
    options = raw.options
    k, parts = options["k"], [options[f"num_{part}"] for part in ("train", "val", "test")]
    # Classes are balanced within each part, up to a remainder. The numbering of the vertices hides which is which.
    label = np.concatenate([np.arange(size) % _CLASSES for size in parts])
    count = len(label)
    start = np.arange(k)
    order = orders(count, k, options["seed"])
    graph, target, source = np.arange(count), order[:, 0], order[:, k // 2]
    x = np.ones((count, k, _CLASSES), dtype=np.float32)
    x[graph, target] = 0
    x[graph, source] = np.eye(_CLASSES, dtype=np.float32)[label]
    answer = np.full((count, k), -1)
    answer[graph, target] = label
    store = ComplexStore.from_graphs(
        np.full(count, k),
        np.full(count, k),
        _relabelled(np.stack([start, (start + 1) % k], 1), order).reshape(-1, 2),
        x=x.reshape(-1, _CLASSES),
        y=label,
    )
    return replace(store, cell_y=(torch.from_numpy(answer.reshape(-1)), None))


def _split_ring_transfer(raw: Raw, count: int) -> tuple[Split, ...]:
    num_train = raw.options["num_train"]
    return (consecutive_split(num_train, num_train + raw.options["num_val"], count),)


SOURCES = (
    Source(
        name="csl",
        title="Circular Skip Links: ten classes of 4-regular graphs",
        home="https://github.com/graphdeeplearning/benchmarking-gnns",
        citation="Murphy et al., Relational Pooling, 2019; Dwivedi et al., Benchmarking Graph Neural Networks, 2023",
        task="multiclass",
        outputs=len(_SKIPS),
        metric="accuracy",
        lifting=lambda options: Rings(8),
        layouts=_csl_files,
        read=_read_csl,
        split=_split_csl,
        options={"splits": "benchmarking-gnns", "seed": 0},
        check=partial(_is_one_of, "splits", _CSL_SPLITS),
        download=_download_csl,
        notes="Graphs are made here. In splits='cwn' the validation folds are the test folds.",
    ),
    Source(
        name="sr",
        title="Strongly regular graphs, nine families",
        home="https://users.cecs.anu.edu.au/~bdm/data/graphs.html",
        citation="McKay and Spence; Bodnar et al., Weisfeiler and Lehman Go Topological, ICML 2021",
        task="isomorphism",
        outputs=0,
        metric="none",
        lifting=lambda options: Rings(6),
        layouts=_sr_files,
        read=_read_sr,
        split=_split_sr,
        options={"family": "sr16622"},
        check=partial(_is_one_of, "family", _FAMILIES),
        download=_download_sr,
        finish=_sum_of_ones,
        notes="family is one of " + ", ".join(_FAMILIES) + ". A cell carries the number of its vertices.",
    ),
    Source(
        name="ring-transfer",
        title="RingTransfer: carry a class to the other side of a ring",
        home="https://arxiv.org/abs/2106.12575",
        citation="Bodnar, Frasca et al., Weisfeiler and Lehman Go Cellular: CW Networks, NeurIPS 2021",
        task="cells",
        outputs=_CLASSES,
        metric="accuracy",
        lifting=lambda options: Rings(options["k"]),
        read=_read_ring_transfer,
        split=_split_ring_transfer,
        options={"k": 10, "num_train": 5000, "num_val": 500, "num_test": 500, "seed": 0},
        check=_check_ring,
        notes="cell_y[0] is the class on the target vertex and -1 elsewhere.",
    ),
)
