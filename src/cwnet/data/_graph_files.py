"""Read graphs from files: graph6, edge lists, GraphML and SMILES, plain or gzipped."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from cwnet._files import open_plain
from cwnet.errors import GraphError
from cwnet.lifting._graphs import Graph, _from_rdkit

__all__ = ["SUFFIXES", "GraphFileError", "NamedGraph", "read_graphs", "scan_graphs"]


class GraphFileError(GraphError):
    """A file, or a line of it, that no graph can be read from.

    Attributes:
        path: the file.
        line: the line, counted from 1; None where the file as a whole is meant.
        problem: what is wrong, without the place.
    """

    def __init__(self, problem: str, path: Path, line: int | None = None) -> None:
        self.problem, self.path, self.line = problem, path, line
        super().__init__(f"{path}: {problem}" if line is None else f"{path}, line {line}: {problem}")


@dataclass(frozen=True)
class NamedGraph:
    """A graph and where it came from.

    Attributes:
        name: its name in the file; else its SMILES, or the name of the file, with ``:position`` where the file may
            hold several.
        graph: the graph. Molecules carry atomic numbers as `x` and RDKit's numbers of bond types as `edge_x`. The
            labels of a GraphML file are there as 64-bit hashes, so that equal texts are equal in all files.
        position: its place among the graphs of the file, counted from 0. Those that can not be read are counted too.
        line: its first line, counted from 1; None in GraphML.
        labels: a text per vertex, such as the element of an atom; None where vertices have no labels.
        smiles: the SMILES it was read from, if it was.
    """

    name: str
    graph: Graph
    position: int
    line: int | None = None
    labels: tuple[str, ...] | None = None
    smiles: str | None = None


def read_graphs(path: str | os.PathLike[str], *, simplify: bool = False) -> list[NamedGraph]:
    """Read all graphs of a file. Its suffix says how; ``.gz`` may follow it.

    - ``.g6``: graph6, a graph a line, with or without the header ``>>graph6<<``.
    - ``.edges .txt .csv .tsv``: one graph, an edge a line: two names of vertices with a comma or blanks between them.
      A line with one name is a vertex by itself. What follows ``#`` at the start of a line or after a blank is a
      comment. A first line ``source,target`` (or from,to or src,dst) is a header.
    - ``.graphml``: undirected graphs. The attribute ``label``, or else ``x``, of nodes and of edges is their label.
    - ``.smi .smiles``: a SMILES and, after a blank, a name. Needs RDKit.

    Blank lines, Windows line ends and byte order marks do no harm.

    Args:
        path: the file.
        simplify: drop self-loops and repeated edges. By default they are errors.

    Raises:
        GraphFileError: for the first line that can not be read, and for a file that is missing, empty or unknown.
    """
    graphs = []
    for found in scan_graphs(path, simplify=simplify):
        if isinstance(found, GraphFileError):
            raise found
        graphs.append(found)
    return graphs


def scan_graphs(path: str | os.PathLike[str], *, simplify: bool = False) -> Iterator[NamedGraph | GraphFileError]:
    """Read the graphs of a file one by one, with an error in the place of each that can not be read.

    Files that are missing, empty or unknown raise; see `read_graphs` for the rest.
    """
    path = Path(path)
    read = _reader(path)
    count = 0
    try:
        with _opened(path) as file:
            for found in read(file, path, simplify):
                count += 1
                yield found
    except UnicodeDecodeError as error:
        raise GraphFileError("this is not text in UTF-8: save it as that", path) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise GraphFileError(f"this is not a whole gzip file ({error}): compress it anew", path) from error
    except OSError as error:
        raise GraphFileError(f"can not be read: {error.strerror or error}. Check the path", path) from error
    if not count:
        raise GraphFileError("there is no graph in it: the file is empty, or all blank lines and comments", path)


Found = Iterator[NamedGraph | GraphFileError]
Ends = NDArray[np.int64]


def _reader(path: Path) -> Callable[[BinaryIO, Path, bool], Found]:
    suffix = _plain(path).suffix.lower()
    if suffix not in SUFFIXES:
        known = " ".join(SUFFIXES)
        what = f"the suffix {suffix!r} stands for no format known here" if suffix else "the file name has no suffix"
        raise GraphFileError(f"{what}: rename it to end in one of {known} (.gz may follow)", path)
    return SUFFIXES[suffix]


def _plain(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def _opened(path: Path) -> BinaryIO:
    file = open_plain(path)
    if path.suffix.lower() != ".gz":
        return file
    file.close()
    return gzip.open(path, "rb")  # type: ignore[return-value]


def _lines(file: BinaryIO) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers."""
    for number, line in enumerate(io.TextIOWrapper(file, encoding="utf-8-sig"), start=1):
        if text := line.strip():
            yield number, text


def count_lines(path: Path) -> int:
    """How many lines a file has, blank ones too: what the way through it is measured against."""
    with _opened(path) as file:
        return sum(1 for _ in file)


def _checked(graph: Graph) -> Graph:
    if graph.num_nodes == 0:
        raise GraphError("the graph has no vertices: a complex needs at least one")
    return graph


# graph6


def _read_graph6(file: BinaryIO, path: Path, simplify: bool) -> Found:
    position = 0
    for line, text in _lines(file):
        text = text.removeprefix(">>graph6<<")
        if not text:
            continue
        try:
            graph = _checked(decode_graph6(text))
            yield NamedGraph(f"{path.name}:{position}", graph, position, line)
        except GraphError as error:
            yield GraphFileError(error.reason, path, line)
        position += 1


def decode_graph6(text: str) -> Graph:
    """The graph of one graph6 text, without header (McKay, 'Description of graph6, sparse6 and digraph6 encodings').

    A character is six bits, the larger ones first. The number of vertices comes first, in 1, 4 or 8 characters; then
    the adjacency matrix above the diagonal, column by column, filled up with zeros. Linear in the length of the text.

    >>> decode_graph6("Bw").edges.tolist()  # a triangle
    [[0, 1], [0, 2], [1, 2]]
    """
    if text[0] in ":;&":
        kind = "digraph6" if text[0] == "&" else "sparse6"
        raise GraphError(f"{_short(text)} is {kind}, not graph6: convert it first, for example with nauty's copyg -g")
    wrong = next((i for i, c in enumerate(text) if not "?" <= c <= "~"), None)
    if wrong is not None:
        raise GraphError(f"{_short(text)} is not graph6: {text[wrong]!r} at character {wrong + 1} is not part of it")
    six = np.frombuffer(text.encode("ascii"), dtype=np.uint8) - np.uint8(63)
    head = 1 if text[0] != "~" else 4 if text[1:2] != "~" else 8
    digits = six[{1: 0, 4: 1, 8: 2}[head] : head].tolist()
    n = sum(int(digit) << 6 * k for k, digit in enumerate(reversed(digits)))
    pairs = n * (n - 1) // 2
    if len(six) < head or len(six) - head != -(-pairs // 6):
        need = f"{head} and more" if len(six) < head else f"{head + -(-pairs // 6):,}"
        raise GraphError(
            f"{_short(text)} is not graph6: {n:,} vertices take {need} characters, and there are {len(six):,}. "
            "Is the line cut off?"
        )
    bits = np.unpackbits(six[head:, None], axis=1)[:, 2:].reshape(-1)
    if bits[pairs:].any():
        raise GraphError(f"{_short(text)} is not graph6: bits are set after the last pair of vertices")
    ones = np.flatnonzero(bits)
    # Column v holds the pairs (0, v) ... (v-1, v) and starts at v (v - 1) / 2.
    v = np.floor((1 + np.sqrt(1 + 8 * ones.astype(np.float64))) / 2).astype(np.int64)
    v -= v * (v - 1) // 2 > ones  # where the root was rounded up
    return Graph(n, np.stack([ones - v * (v - 1) // 2, v], axis=1))


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


# Edge lists

_HEADERS = {("source", "target"), ("from", "to"), ("src", "dst")}


def _read_edge_list(file: BinaryIO, path: Path, simplify: bool) -> Found:
    first, rows = None, []
    for line, text in _lines(file):
        text = re.split(r"(?:^|\s)#", text, maxsplit=1)[0].strip()
        if not text:
            continue
        names = _names(text, path, line)
        if first is None and tuple(name.lower() for name in names) in _HEADERS:
            continue
        first = line if first is None else first
        rows.append((line, "," in text, names))
    _check_separators(rows, path)
    if first is not None:
        graph = _from_names([(line, names) for line, _, names in rows], path, simplify)
        yield NamedGraph(path.name, graph, 0, first)


def _names(text: str, path: Path, line: int) -> list[str]:
    names = [name.strip() for name in text.split(",")] if "," in text else text.split()
    if len(names) == 2 and not names[1]:  # "a," is the vertex a in a file with commas
        names.pop()
    if len(names) > 2 or not all(names):
        raise GraphFileError(
            f"{_short(text)} is not an edge: write two names of vertices, with a comma or blanks between them",
            path,
            line,
        )
    return names


def _check_separators(rows: list[tuple[int, bool, list[str]]], path: Path) -> None:
    """A name with a blank in a file with commas would pass for an edge."""
    comma = next((line for line, has, _ in rows if has), None)
    blank = next(((line, names) for line, has, names in rows if not has and len(names) == 2), None)
    if comma is not None and blank is not None:
        line, names = blank
        raise GraphFileError(
            f"{' '.join(names)!r} has a blank but no comma, and line {comma} has a comma: use one of them throughout "
            f"('{' '.join(names)},' is a single vertex)",
            path,
            line,
        )


def _from_names(rows: Iterable[tuple[int, list[str]]], path: Path, simplify: bool) -> Graph:
    """Vertices are numbered in the order in which they are met."""
    number: dict[str, int] = {}
    seen: dict[tuple[int, int], int] = {}
    for line, names in rows:
        ends = [number.setdefault(name, len(number)) for name in names]
        if len(ends) == 1:
            continue
        key = (min(ends), max(ends))
        if key[0] == key[1] and not simplify:
            raise GraphFileError(f"vertex {names[0]!r} is joined to itself: {_SIMPLE}", path, line)
        if key in seen and not simplify:
            u, v = names
            raise GraphFileError(
                f"the edge {u!r} to {v!r} is there already, in line {seen[key]}: {_SIMPLE}", path, line
            )
        if key[0] != key[1]:
            seen.setdefault(key, line)
    return Graph(len(number), _ends(list(seen)))


_SIMPLE = "list each edge once and no loops, or have them dropped (simplify)"


def _ends(pairs: list[tuple[int, int]]) -> Ends:
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


# GraphML

Keys = dict[str, ET.Element]
Labels = tuple[str, ...] | None


def _read_graphml(file: BinaryIO, path: Path, simplify: bool) -> Found:
    data = file.read()
    if not data.strip():
        return
    try:
        root = ET.fromstring(data)
    except ET.ParseError as error:
        raise GraphFileError(f"this is not XML: {error}", path, error.position[0]) from error
    except (LookupError, ValueError) as error:  # the encoding that it names is none, or one that XML can not have
        raise GraphFileError(f"this is not XML in an encoding that is known: {error}", path) from error
    if _tag(root) != "graphml":
        raise GraphFileError(f"this is not GraphML: it starts with <{_tag(root)}>, not <graphml>", path)
    keys = {key.get("id", ""): key for key in _children(root, "key")}
    graphs = _children(root, "graph")
    for position, element in enumerate(graphs):
        name = element.get("id") or (path.name if len(graphs) == 1 else f"{path.name}:{position}")
        try:
            graph, labels = _from_graphml(element, keys, simplify)
            yield NamedGraph(name, graph, position, labels=labels)
        except GraphError as error:
            yield GraphFileError(f"graph {name!r}: {error.reason}", path)


def _from_graphml(graph: ET.Element, keys: Keys, simplify: bool) -> tuple[Graph, tuple[str, ...] | None]:
    for odd in ("hyperedge", "port"):
        if next((e for e in graph.iter() if _tag(e) == odd), None) is not None:
            raise GraphError(f"it has a <{odd}>, and a graph here is vertices and edges: write it without")
    nodes, edges = _children(graph, "node"), _children(graph, "edge")
    number: dict[str, int] = {}
    for node in nodes:
        name = node.get("id", "")
        if name in number or _children(node, "graph"):
            why = "is there twice" if name in number else "has a graph inside, and that is not read"
            raise GraphError(f"node {name!r} {why}: give every node its own id and no graph")
        number[name] = len(number)
    directed = graph.get("edgedefault") == "directed"
    kept: dict[tuple[int, int], ET.Element] = {}
    for edge in edges:
        if edge.get("directed", str(directed)).lower() == "true":
            raise GraphError(f"{_edge_name(edge)} is directed, and cells have no direction: write it as undirected")
        pair = _edge_ends(edge, number)
        if (pair[0] == pair[1] or pair in kept) and not simplify:
            why = "joins a vertex to itself" if pair[0] == pair[1] else "is there twice"
            raise GraphError(f"{_edge_name(edge)} {why}: {_SIMPLE}")
        if pair[0] != pair[1]:
            kept.setdefault(pair, edge)
    of_nodes = _graphml_labels(nodes, "node", keys)
    of_edges = _graphml_labels(list(kept.values()), "edge", keys)
    return _checked(Graph(len(nodes), _ends(list(kept)), _hashed(of_nodes), _hashed(of_edges))), of_nodes


def _tag(element: ET.Element) -> str:
    """The name of an element without its namespace, which not all writers give."""
    return element.tag.rpartition("}")[2]


def _children(element: ET.Element, tag: str) -> list[ET.Element]:
    return [child for child in element if _tag(child) == tag]


def _edge_name(edge: ET.Element) -> str:
    return f"the edge {edge.get('source')!r} to {edge.get('target')!r}"


def _edge_ends(edge: ET.Element, number: dict[str, int]) -> tuple[int, int]:
    ends = [number.get(edge.get(end, ""), -1) for end in ("source", "target")]
    if -1 in ends:
        missing = edge.get("source" if ends[0] < 0 else "target")
        raise GraphError(f"{_edge_name(edge)} ends at {missing!r}, and there is no such node")
    return min(ends), max(ends)


def _graphml_labels(elements: list[ET.Element], kind: str, keys: Keys) -> Labels:
    """The attribute `label`, or else `x`, of nodes or edges: of all of them or of none."""
    for wanted in ("label", "x"):
        mine = {
            k for k, key in keys.items() if key.get("attr.name") == wanted and key.get("for") in (kind, "all", None)
        }
        found = [_graphml_value(element, mine, keys) for element in elements]
        missing = [e for e, value in zip(elements, found, strict=True) if value is None]
        if mine and missing and len(missing) < len(elements):
            one = f"node {missing[0].get('id')!r}" if kind == "node" else _edge_name(missing[0])
            raise GraphError(
                f"{len(missing)} of {len(elements)} {kind}s have no {wanted!r}, such as {one}: give one to all or none"
            )
        if mine and not missing:
            return tuple(value for value in found if value is not None)
    return None


def _graphml_value(element: ET.Element, mine: set[str], keys: Keys) -> str | None:
    for data in _children(element, "data"):
        if (key := data.get("key", "")) in mine:
            return _canonical(data.text or "", keys[key])
    defaults = [(key, default) for key in sorted(mine) for default in _children(keys[key], "default")]
    return _canonical(defaults[0][1].text or "", keys[defaults[0][0]]) if defaults else None


def _canonical(text: str, key: ET.Element) -> str:
    """One text per value: 1 and 01, or 0.5 and .5, are the same number."""
    kind, text = key.get("attr.type", "string"), text.strip()
    try:
        if kind in ("int", "long"):
            return str(int(text))
        if kind in ("float", "double"):
            return f"{float(text):.17g}"
    except ValueError:
        raise GraphError(f"{text!r} is not a number, but {key.get('attr.name')!r} is said to be {kind}") from None
    return text.lower() if kind == "boolean" else text


def _hashed(labels: Labels) -> NDArray[np.int64] | None:
    if labels is None:
        return None
    known = {t: hashlib.blake2b(t.encode(), digest_size=8).digest() for t in set(labels)}
    values = [int.from_bytes(known[text], "little", signed=True) for text in labels]
    return np.array(values, dtype=np.int64).reshape(-1, 1)


# SMILES


def _read_smiles(file: BinaryIO, path: Path, simplify: bool) -> Found:
    position = 0
    for line, text in _lines(file):
        if text.startswith("#"):  # no SMILES does
            continue
        smiles, *rest = text.split(maxsplit=1)
        try:
            yield from_smiles(smiles, rest[0] if rest else smiles, position, line)
        except GraphError as error:
            yield GraphFileError(error.reason, path, line)
        position += 1


def from_smiles(smiles: str, name: str, position: int = 0, line: int | None = None) -> NamedGraph:
    """The graph of a molecule: vertices are atoms, edges are bonds, both with labels."""
    from cwnet.chem._read import parse

    mol: Any = parse(smiles)
    symbols = tuple(atom.GetSymbol() for atom in mol.GetAtoms())
    return NamedGraph(name, _checked(_from_rdkit(mol)), position, line, symbols, smiles)


#: The suffixes that are known, and what reads them.
SUFFIXES: dict[str, Callable[[BinaryIO, Path, bool], Found]] = {
    ".g6": _read_graph6,
    **dict.fromkeys((".edges", ".txt", ".csv", ".tsv"), _read_edge_list),
    ".graphml": _read_graphml,
    **dict.fromkeys((".smi", ".smiles"), _read_smiles),
}
