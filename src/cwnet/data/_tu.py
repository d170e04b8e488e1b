"""The TU data sets, in GIN's text format or as TUDataset's raw files."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cwnet.complexes import ComplexStore
from cwnet.data._graph_files import GraphFileError
from cwnet.data._source import Options, Raw, Source, as_split, read_positions, read_text, whole_numbers
from cwnet.data._splits import Split, kfold_split
from cwnet.lifting import Rings

__all__ = ["SOURCES"]

Ints = NDArray[np.int64]
Inputs = Literal["tags", "degrees", "constant"]
_FOLDS = 10


@dataclass(frozen=True)
class _TU:
    """One of the sets: its name here, in GIN's archive and in TUDataset (None: it is not there)."""

    name: str
    file: str
    upstream: str | None
    title: str
    classes: int = 2
    inputs: Inputs = "tags"

    @property
    def text(self) -> str:
        return f"TU/{self.file}/{self.file}.txt.gz"

    def fold(self, part: str, i: int) -> str:
        return f"TU/{self.file}/10fold_idx/{part}_idx-{i + 1}.txt"

    def raw(self, kind: str) -> str:
        return f"TU/{self.upstream}/raw/{self.upstream}_{kind}.txt"


@dataclass(frozen=True)
class Packed:
    """Graphs in flat arrays: vertices per graph, label per graph, tag per vertex, and per edge its graph and ends."""

    num_nodes: Ints
    labels: Ints
    tags: Ints
    graph: Ints
    ends: Ints


def _files(tu: _TU, options: Options) -> tuple[tuple[str, ...], ...]:
    gin = (tu.text, *(tu.fold(part, i) for part in ("train", "test") for i in range(_FOLDS)))
    if tu.upstream is None:
        return (gin,)
    kinds = ("A", "graph_indicator", "graph_labels", *(("node_labels",) if tu.inputs == "tags" else ()))
    return gin, tuple(tu.raw(kind) for kind in kinds)


def _read(tu: _TU, raw: Raw) -> ComplexStore:
    """One-hot tags, one-hot degrees or ones, float32; the class of each graph, int64."""
    packed = parse_gin(read_text(raw[tu.text]), raw[tu.text]) if tu.text in raw.files else _parse_raw(tu, raw)
    first = np.concatenate([[0], packed.num_nodes.cumsum()])
    if tu.inputs == "tags":
        columns = _by_first_appearance(packed.tags)
    elif tu.inputs == "degrees":
        degrees = np.bincount((packed.ends + first[packed.graph, None]).reshape(-1), minlength=first[-1])
        columns = np.unique(degrees, return_inverse=True)[1]  # a column for every degree there is, as in GIN
    else:
        columns = np.zeros(first[-1], dtype=np.int64)
    return ComplexStore.from_graphs(
        packed.num_nodes,
        np.bincount(packed.graph, minlength=len(packed.num_nodes)),
        packed.ends,
        x=_one_hot(columns),
        y=_by_first_appearance(packed.labels),
    )


def _one_hot(columns: Ints) -> NDArray[np.float32]:
    x = np.zeros((len(columns), int(columns.max()) + 1), dtype=np.float32)
    x[np.arange(len(columns)), columns] = 1
    return x


def _by_first_appearance(values: Ints) -> Ints:
    """Numbers 0, 1, 2, ... for values in the order in which they are met, as GIN does."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[first.argsort()] = np.arange(len(first))
    return rank[inverse]


def parse_gin(text: str, path: Path) -> Packed:
    """Read GIN's format: the number of graphs; per graph ``n label`` and n lines ``tag degree neighbours``.

    All numbers are read at once. Only the headers, one per graph, are visited one by one.
    """
    numbers = whole_numbers(text, path)
    first, width = _lines(text)  # per line, its first number and how many there are
    headers = _headers(numbers, first, width, path)
    num_nodes, labels = numbers[first[headers]], numbers[first[headers] + 1]
    is_row = np.ones(len(first), dtype=bool)
    is_row[[0, *headers]] = False
    row, width = first[is_row], width[is_row]
    # A line of one number is refused below, so what its degree is read from does not matter.
    tags, degrees = numbers[row], numbers[np.minimum(row + 1, len(numbers) - 1)]
    if (wrong := np.flatnonzero((width < 2) | (width != degrees + 2))).size:
        line = int(np.flatnonzero(is_row)[wrong[0]])
        raise GraphFileError(
            "a vertex is not 'tag degree neighbours' with as many neighbours as it says", path, line + 1
        )
    entries = np.repeat(row + 2 - (degrees.cumsum() - degrees), degrees) + np.arange(degrees.sum())
    local = np.arange(len(row)) - np.repeat(num_nodes.cumsum() - num_nodes, num_nodes)
    ends = np.stack([np.repeat(local, degrees), numbers[entries]], axis=1)
    graph = np.repeat(np.repeat(np.arange(len(num_nodes)), num_nodes), degrees)
    return Packed(num_nodes, labels, tags, *_each_once(graph, ends, num_nodes, path))


def _lines(text: str) -> tuple[Ints, Ints]:
    """For every line that is not blank: the position of its first number among all, and how many it has."""
    data = np.frombuffer(f"{text}\n".encode(), dtype=np.uint8)
    blank = data <= ord(" ")
    begins = ~blank
    begins[1:] &= blank[:-1]
    starts = np.concatenate([[0], np.flatnonzero(data == ord("\n"))[:-1] + 1])
    width = np.add.reduceat(begins, starts, dtype=np.int64)
    width = width[width > 0]
    return width.cumsum() - width, width


def _headers(numbers: Ints, first: Ints, width: Ints, path: Path) -> list[int]:
    """The lines that start a graph."""
    count = int(numbers[0]) if len(first) and width[0] == 1 else -1
    if count < 1:
        raise GraphFileError("the first line is not the number of graphs", path, 1)
    headers: list[int] = []
    line = 1
    for _ in range(count):
        if line >= len(first) or width[line] != 2 or numbers[first[line]] < 1:
            raise GraphFileError(
                f"graph {len(headers)} of {count} does not start with 'vertices label'", path, line + 1
            )
        headers.append(line)
        line += 1 + int(numbers[first[line]])
    if line != len(first):
        raise GraphFileError(f"{count} graphs take {line} lines, and there are {len(first)}", path)
    return headers


def _each_once(graph: Ints, ends: Ints, num_nodes: Ints, path: Path) -> tuple[Ints, Ints]:
    """Of edges listed from both ends those from the smaller one, in order."""
    first, total = (num_nodes.cumsum() - num_nodes)[graph], int(num_nodes.sum())
    u, v = ends.T
    up, down = u < v, u > v
    # An edge as one number. Those met going up must be those met going down.
    met_up = np.sort(((first + u) * total + v)[up])
    met_down = np.sort(((first + v) * total + u)[down])
    if len(met_up) + len(met_down) < len(ends) or not np.array_equal(met_up, met_down):
        raise GraphFileError("an edge is not listed from both of its ends, or is a loop", path)
    return graph[up], ends[up]


def _parse_raw(tu: _TU, raw: Raw) -> Packed:
    """TUDataset's files: pairs of vertices numbered from 1 over all graphs, and the graph of each vertex."""

    def numbers(kind: str) -> Ints:
        path = raw[tu.raw(kind)]
        return whole_numbers(read_text(path), path)

    graph_of = numbers("graph_indicator") - 1
    labels = numbers("graph_labels")
    num_nodes = np.bincount(graph_of, minlength=len(labels))
    ends = np.unique(numbers("A").reshape(-1, 2) - 1, axis=0)  # some of the files list edges twice
    if len(num_nodes) != len(labels) or (np.diff(graph_of) < 0).any() or (ends >= len(graph_of)).any():
        raise GraphFileError("its vertices, edges and graph labels do not fit together", raw[tu.raw("A")])
    ends = ends[ends[:, 0] != ends[:, 1]]
    graph = graph_of[ends[:, 0]]
    tags = numbers("node_labels") if tu.inputs == "tags" else np.zeros_like(graph_of)
    local = ends - (num_nodes.cumsum() - num_nodes)[graph, None]
    return Packed(num_nodes, labels, tags, *_each_once(graph, local, num_nodes, raw[tu.raw("A")]))


def _split(tu: _TU, raw: Raw, count: int) -> tuple[Split, ...]:
    """The ten folds as published, or where only TUDataset's files are there, stratified ones made here."""
    if tu.text in raw.files:
        train, test = (
            [read_positions(raw[tu.fold(part, i)], count) for i in range(_FOLDS)] for part in ("train", "test")
        )
        return tuple(as_split(a, (), b) for a, b in zip(train, test, strict=True))
    path = raw[tu.raw("graph_labels")]
    return tuple(kfold_split(whole_numbers(read_text(path), path), _FOLDS, val=None))


def _download(tu: _TU, folder: Path, options: Options) -> None:
    from torch_geometric.datasets import TUDataset

    with tempfile.TemporaryDirectory(dir=folder) as root:
        dataset: Any = TUDataset(root, name=tu.upstream)
        for file in _files(tu, options)[1]:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(Path(dataset.raw_dir) / Path(file).name, folder / file)


_SETS = (
    _TU("mutag", "MUTAG", "MUTAG", "MUTAG: mutagenic compounds"),
    _TU("ptc", "PTC", None, "PTC: compounds that cause cancer in rodents, as in GIN"),
    _TU("ptc-mr", "PTC_MR", "PTC_MR", "PTC-MR: the same for male rats, as in TUDataset"),
    _TU("proteins", "PROTEINS", "PROTEINS", "PROTEINS: enzymes and others"),
    _TU("nci1", "NCI1", "NCI1", "NCI1: compounds against lung cancer"),
    _TU("nci109", "NCI109", "NCI109", "NCI109: compounds against ovarian cancer"),
    _TU("imdb-b", "IMDBBINARY", "IMDB-BINARY", "IMDB-BINARY: genres of films", inputs="degrees"),
    _TU("imdb-m", "IMDBMULTI", "IMDB-MULTI", "IMDB-MULTI: genres of films", classes=3, inputs="degrees"),
    _TU("reddit-b", "REDDITBINARY", "REDDIT-BINARY", "REDDIT-BINARY: kinds of communities", inputs="constant"),
)

_NOTES = {
    "tags": "Vertices carry one-hot tags.",
    "degrees": "Vertices carry their one-hot degree.",
    "constant": "Vertices carry a one. The folds on hand may not be those behind published numbers.",
}

SOURCES = tuple(
    Source(
        name=tu.name,
        title=tu.title,
        home="https://chrsmrrs.github.io/datasets/",
        citation="Morris et al., TUDataset, 2020; folds of Xu et al., How Powerful Are Graph Neural Networks, 2019",
        task="multiclass",
        outputs=tu.classes,
        metric="accuracy",
        lifting=lambda options: Rings(6),
        layouts=partial(_files, tu),
        read=partial(_read, tu),
        split=partial(_split, tu),
        download=partial(_download, tu) if tu.upstream else None,
        notes=f"Ten folds without validation parts. {_NOTES[tu.inputs]}",
    )
    for tu in _SETS
)
