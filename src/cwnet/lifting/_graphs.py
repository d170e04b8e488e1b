"""Graphs in: networkx, PyG, RDKit or plain arrays become one packed set of graphs.

The core reads them (`csrc/intake.cpp`). What it does not understand, or finds wrong, is read here: `as_graph` takes
every kind of graph, slowly, and says what is wrong with one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cwnet import _core
from cwnet.complexes import CellComplex, ComplexStore, Csr
from cwnet.complexes._csr import is_whole, offsets
from cwnet.complexes._store import edge_boundaries
from cwnet.errors import GraphError

__all__ = ["Graph", "as_graph", "drop_edges", "features_of", "kind_of", "pack", "slowly"]


class Graph(NamedTuple):
    """A graph in plain arrays. A bare tuple ``(num_nodes, edges)`` does as well.

    Attributes:
        num_nodes: number of vertices.
        edges: [m, 2], each edge once.
        x: vertex features, [num_nodes, ...].
        edge_x: edge features, [m, ...], in the order of `edges`.
        y: target of the graph.
    """

    num_nodes: int
    edges: Any
    x: Any = None
    edge_x: Any = None
    y: Any = None


def as_graph(value: Any) -> Graph:
    """Read a graph of any kind cwnet knows, as tensors; checks features, and leaves the edges to the core."""
    if isinstance(value, CellComplex):
        ends = value.boundary(1).idx.reshape(-1, 2)
        graph = Graph(value.num_cells[0], ends, value.x[0], value.x[1] if len(value.x) > 1 else None, value.y)
    elif isinstance(value, tuple) and 2 <= len(value) <= 5:
        graph = Graph(*value)
    elif hasattr(value, "adj") and hasattr(value, "nodes"):
        graph = _from_networkx(value)
    elif hasattr(value, "edge_index") and hasattr(value, "num_nodes"):
        graph = _from_pyg(value)
    elif hasattr(value, "GetBonds") and hasattr(value, "GetAtoms"):
        graph = _from_rdkit(value)
    else:
        if type(value).__module__.startswith("toponetx."):
            raise GraphError(
                f"a {type(value).__name__} of TopoNetX is no graph but a complex: read a CellComplex with "
                "cwnet.complexes.from_toponetx, whose skeleton(1) can be lifted"
            )
        what = "None (did a SMILES fail to parse?)" if value is None else f"a {type(value).__name__}"
        raise GraphError(
            f"{what} is not a graph: give a networkx graph, a PyG Data, an RDKit Mol, "
            "a cwnet.CellComplex, or (num_nodes, edges)"
        )
    return _checked(graph)


def _checked(graph: Graph) -> Graph:
    n = graph.num_nodes
    if not is_whole(n) or n < 0:
        raise GraphError(f"the number of vertices must be a whole number ≥ 0, not {n!r}")
    if n >= 2**31:
        raise GraphError(f"the number of vertices must fit 32 bits, and {n} does not")
    edges = _edges(graph.edges)
    return Graph(
        int(n),
        edges,
        _features(graph.x, int(n), "x", "vertices"),
        _features(graph.edge_x, len(edges), "edge_x", "edges"),
        None if graph.y is None else _as_tensor(graph.y, "y"),
    )


def _edges(value: Any) -> Tensor:
    """The ends of edges, [m, 2], int32."""
    if isinstance(value, Tensor):
        if value.numel() and (value.is_floating_point() or value.is_complex() or value.dtype == torch.bool):
            raise GraphError(f"edges must be whole numbers, not {value.dtype}")
        array = _as_tensor(value, "edges").numpy()
    else:
        try:
            array = np.asanyarray(value)
        except (ValueError, TypeError):  # rows of different lengths
            at, row = _first_odd_row(value)
            raise GraphError(
                f"edges must be [m, 2], one pair of vertices per edge, but edge {at} is {row!r:.60}"
            ) from None
    if np.ma.is_masked(array):
        raise GraphError("edges have masked entries: leave these edges out")
    if array.size == 0 and (array.ndim < 2 or array.shape[1] == 2 or len(array) == 0):
        return torch.zeros(0, 2, dtype=torch.int32)
    if array.ndim != 2 or array.shape[1] != 2:
        raise GraphError(f"edges must be [m, 2], one pair of vertices per edge, not of shape {array.shape}")
    if array.dtype.kind == "O":
        odd = [v for v in array.flat if not is_whole(v)]
        if odd:
            raise GraphError(f"edges must be whole numbers, not {odd[0]!r:.60}")
        raise GraphError(f"vertex numbers must fit 32 bits; found {min(array.flat)} to {max(array.flat)}")
    if array.dtype.kind not in "iu":
        raise GraphError(f"edges must be whole numbers, not {array.dtype} such as {array.flat[0]!r:.60}")
    if int(array.min()) < -(2**31) or int(array.max()) >= 2**31:
        raise GraphError(f"vertex numbers must fit 32 bits; found {array.min()} to {array.max()}")
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.int32))


def _first_odd_row(rows: Any) -> tuple[int, Any]:
    for i, row in enumerate(rows):
        if not hasattr(row, "__len__") or len(row) != 2:
            return i, row
    return 0, rows


def _as_tensor(value: Any, name: str) -> Tensor:
    try:
        if isinstance(value, np.ndarray):
            value = _native(value, name)
        return value.cpu() if isinstance(value, Tensor) else torch.as_tensor(value)
    except NotImplementedError:
        raise GraphError(f"{name} is a tensor without data, on the device {value.device}") from None
    except (TypeError, ValueError, RuntimeError):
        raise GraphError(f"{name} is not an array of numbers: {value!r:.60}") from None


def _features(value: Any, rows: int, name: str, of: str) -> Tensor | None:
    if value is None:
        return None
    tensor = _as_tensor(value if isinstance(value, Tensor) else _native(value, name), name)
    if tensor.dim() == 0 or tensor.shape[0] != rows:
        have = tensor.shape[0] if tensor.dim() else "no"
        raise GraphError(f"{name} has {have} rows, but there are {rows} {of}")
    if tensor.is_floating_point() and bool(torch.isnan(tensor).any()):
        row, *rest = torch.isnan(tensor).nonzero()[0].tolist()
        column = f", column {rest[0]}" if rest else ""
        raise GraphError(f"{name} is NaN at row {row}{column}: fill in or drop missing features first")
    return tensor


def _native(value: Any, name: str) -> NDArray[Any]:
    """An array that PyTorch takes: in this machine's order of bytes, and not backwards."""
    try:
        array = np.ascontiguousarray(value) if np.ndim(value) else np.asarray(value)
    except (TypeError, ValueError):
        raise GraphError(f"{name} is not an array of numbers: {value!r:.60}") from None
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _from_networkx(graph: Any) -> Graph:
    if graph.is_directed():
        raise GraphError("a directed networkx graph has no cell complex: use graph.to_undirected()")
    number = {v: i for i, v in enumerate(graph.nodes)}
    edges = [(number[u], number[v]) for u, v in graph.edges()]
    return Graph(
        len(number),
        np.array(edges, dtype=np.int64).reshape(-1, 2),
        _attributes([d for _, d in graph.nodes(data=True)], "node"),
        _attributes([d for _, _, d in graph.edges(data=True)], "edge"),
        graph.graph.get("y"),
    )


def _attributes(data: Sequence[dict[str, Any]], of: str) -> Any:
    """The attribute `x` of every node or edge, if they have it."""
    having = [d["x"] for d in data if "x" in d]
    if not having:
        return None
    if len(having) < len(data):
        raise GraphError(f"{len(data) - len(having)} of {len(data)} {of}s have no attribute 'x', the others have one")
    rows = [_as_tensor(x, f"the attribute 'x' of a {of}") for x in having]
    if len({(row.shape, row.dtype) for row in rows}) > 1:
        raise GraphError(f"the attribute 'x' is of different kinds or sizes in different {of}s")
    return torch.stack(rows)


def _from_pyg(data: Any) -> Graph:
    """Every edge of a PyG Data is there in both directions; the one from the smaller vertex is kept."""
    if not isinstance(data.edge_index, Tensor) or data.num_nodes is None:
        raise GraphError("the PyG Data has no edge_index, or no number of nodes: set both")
    if data.edge_index.dim() != 2 or data.edge_index.shape[0] != 2:
        raise GraphError(f"edge_index must be [2, edges], not of shape {tuple(data.edge_index.shape)}")
    if data.edge_index.is_floating_point() or data.edge_index.is_complex() or data.edge_index.dtype == torch.bool:
        raise GraphError(f"edge_index must be whole numbers, not {data.edge_index.dtype}")
    index = data.edge_index.cpu().long()
    n = int(data.num_nodes)
    attr = None if getattr(data, "edge_attr", None) is None else data.edge_attr.cpu()
    if attr is not None and attr.shape[0] != index.shape[1]:
        raise GraphError(f"edge_attr has {attr.shape[0]} rows, but edge_index has {index.shape[1]} columns")
    forward = (index[0] < index[1]).nonzero().flatten()
    backward = (index[0] > index[1]).nonzero().flatten()
    loops = (index[0] == index[1]).nonzero().flatten()
    width = max(n, int(index.max()) + 1 if index.numel() else 1)
    key, back = index[0] * width + index[1], index[1] * width + index[0]
    # Parallel edges are matched in the order they are listed.
    down = backward[torch.argsort(back[backward], stable=True)]
    up = forward[torch.argsort(key[forward], stable=True)]
    if len(up) != len(down) or bool((key[up] != back[down]).any()):
        pairs = {tuple(p) for p in index.t().tolist()}
        u, v = next(((u, v) for u, v in index.t().tolist() if (v, u) not in pairs), index.t().tolist()[0])
        raise GraphError(
            f"edge_index lists {u} → {v} more often than {v} → {u}: a complex needs an undirected graph, "
            "see torch_geometric.utils.to_undirected"
        )
    if attr is not None:
        differ = (attr[up] != attr[down]).unsqueeze(-1).flatten(1).any(1).nonzero().flatten()
        if len(differ):
            at = int(differ[0])
            u, v = index[:, up[at]].tolist()
            raise GraphError(
                f"edge_attr differs between the two directions of edge ({u}, {v}): "
                f"{attr[up[at]].tolist()} and {attr[down[at]].tolist()}"
            )
    keep = torch.sort(torch.cat([forward, loops])).values
    x, y = getattr(data, "x", None), getattr(data, "y", None)
    if isinstance(y, Tensor) and y.dim() > 0 and y.shape[0] == 1:
        y = y[0]  # PyG keeps a leading dimension of one on targets, to be concatenated
    return Graph(n, index[:, keep].t(), x, None if attr is None else attr[keep], y)


def _from_rdkit(mol: Any) -> Graph:
    """Vertices are atoms with their atomic number, edges are bonds with RDKit's number of the bond type."""
    bonds = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx(), int(b.GetBondType())) for b in mol.GetBonds()]
    table = np.array(bonds, dtype=np.int64).reshape(-1, 3)
    atoms = np.array([a.GetAtomicNum() for a in mol.GetAtoms()], dtype=np.int64)
    return Graph(len(atoms), table[:, :2], atoms[:, None], table[:, 2:])


def pack(graphs: Iterable[Any], skip: bool) -> tuple[ComplexStore, NDArray[np.int64], list[GraphError]]:
    """Pack graphs into a store of dimension one.

    Returns the store, the position of each of its graphs in the input, and the errors of those left out, which
    is none unless `skip`. Edges are not checked here.
    """
    if isinstance(graphs, ComplexStore):
        store = graphs.to("cpu").skeleton(1)
        if len(store.cell_ptr) == 1:  # vertices alone
            none = torch.zeros(len(store) + 1, dtype=torch.int64)
            store = ComplexStore(
                (*store.cell_ptr, none),
                (Csr.empty(0).packed(),),
                (*store.x, None),
                store.y,
                (*store.cell_y, None),
                store.dims,
                complex_x=store.complex_x,
            )
        return store, np.arange(len(store)), []
    errors: list[GraphError] = []
    found = _core.read_graphs(graphs, kind_of, slowly(errors if skip else None))
    vertex_ptr, edge_ptr, ends, positions = found[:4]
    x, edge_x, y = features_of(*found[4:])
    store = ComplexStore(
        cell_ptr=(torch.from_numpy(vertex_ptr), torch.from_numpy(edge_ptr)),
        boundaries=(edge_boundaries(torch.from_numpy(ends).reshape(-1, 2)),),
        x=(x, edge_x),
        y=y,
        cell_y=(None, None),
        dims=torch.ones(len(positions), dtype=torch.int64),
    )
    return store, positions, errors


def features_of(
    x: list[Tensor] | None, edge_x: list[Tensor] | None, kept: NDArray[np.int64] | None, y: list[Tensor] | None
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """What the core found of features and targets, put together: `kept` are the rows of edge features that count."""
    edges = None if edge_x is None else torch.cat(edge_x)
    return (
        None if x is None else torch.cat(x),
        edges if edges is None or kept is None else edges[torch.from_numpy(kept)],
        None if y is None else torch.cat(y),
    )


#: How the core keeps a kind of graph; see GraphKind in csrc/intake.hpp.
_OTHER, _NETWORKX, _PYG, _RDKIT = range(4)

#: Molecules with what the binary form tells of bonds and atoms, to compare it with what RDKit says when asked.
_VARIED = (
    "[H][H]",
    "C[NH3+].[Cl-]",
    "C/C=C\\C#N",
    "c1ccc2[nH]ccc2c1",
    "C[C@H](N)C(=O)O",
    "[13CH3][Pt](Cl)<-N",
    "C1CC12CC2",
)


@cache
def kind_of(kind: type) -> int:
    """How the core is to read graphs of a class; `_OTHER` for those it leaves to Python.

    Classes derived from networkx's and PyG's may keep a graph in ways of their own, so they are left to Python too.
    """
    networkx, pyg, rdkit = (sys.modules.get(name) for name in ("networkx", "torch_geometric.data", "rdkit.Chem"))
    if networkx is not None and kind is networkx.Graph:
        return _NETWORKX
    if pyg is not None and kind is pyg.Data:
        return _PYG
    if rdkit is not None and kind is rdkit.Mol and _binary_form_is_known(rdkit):
        return _RDKIT
    return _OTHER


def _binary_form_is_known(rdkit: Any) -> bool:
    """Whether what the core reads of RDKit's binary form is what RDKit says itself."""

    def unknown(*_: Any) -> None:
        return None

    for smiles in _VARIED:
        mol = rdkit.MolFromSmiles(smiles)
        asked = _from_rdkit(mol)
        read = _core.read_graphs([mol], lambda _: _RDKIT, unknown)
        x, edge_x, _ = features_of(*read[4:])
        if x is None or edge_x is None:
            return False
        found = (read[2].reshape(-1, 2), x.numpy(), edge_x.numpy())
        if not all(np.array_equal(a, b) for a, b in zip(found, (asked.edges, asked.x, asked.edge_x), strict=True)):
            return False
    return True


def slowly(skipped: list[GraphError] | None = None, single: bool = False) -> Callable[[Any, int, Any], Any]:
    """The function that the core gives a graph to which it does not understand.

    It returns what the core can read, or raises a GraphError; given a list of errors, it adds to that and returns
    None. A single graph has no position.
    """

    def read(value: Any, position: int, first: tuple[int, Tensor | None, Tensor | None, Tensor | None] | None) -> Any:
        try:
            graph = as_graph(value)
            if first is not None:
                _check_agreement(graph, *first)
        except GraphError as error:
            if skipped is None:
                raise (error if single else error.moved_to(position)) from None
            skipped.append(error.moved_to(position))
            return None
        y = None if graph.y is None else graph.y.unsqueeze(0)
        return (graph.num_nodes, graph.edges.numpy(), graph.x, graph.edge_x, y)

    return read


def _check_agreement(graph: Graph, at: int, x: Tensor | None, edge_x: Tensor | None, y: Tensor | None) -> None:
    """Features and targets must be of one kind in all graphs of a list, so that they can be packed."""
    here_y = None if graph.y is None else graph.y.unsqueeze(0)
    for name, here, there in (("x", graph.x, x), ("edge_x", graph.edge_x, edge_x), ("y", here_y, y)):
        if (here is None) != (there is None):
            has, lacks = ("this graph", f"graph {at}") if there is None else (f"graph {at}", "this graph")
            raise GraphError(f"{has} has {name} and {lacks} has none")
        if here is None or there is None:
            continue
        if here.shape[1:] != there.shape[1:] or here.dtype != there.dtype:
            raise GraphError(
                f"{name} is {here.dtype} of shape {tuple(here.shape[1:])}, but "
                f"{there.dtype} of shape {tuple(there.shape[1:])} in graph {at}"
            )


def drop_edges(
    store: ComplexStore, loops: Literal["raise", "drop"], repeated: Literal["raise", "drop", "keep"]
) -> ComplexStore:
    """Take away self-loops and repeated edges (all but the first of each), where asked to."""
    ends = store.boundaries[0].idx.reshape(-1, 2).long()
    edge_ptr = store.cell_ptr[1]
    graph = torch.repeat_interleave(edge_ptr.diff(), output_size=len(ends))
    keep = torch.ones(len(ends), dtype=torch.bool)
    if loops == "drop":
        keep &= ends[:, 0] != ends[:, 1]
    if repeated == "drop":
        keys = torch.stack([graph, ends.min(1).values, ends.max(1).values], dim=1)
        _, inverse = torch.unique(keys, dim=0, return_inverse=True)
        order = torch.argsort(inverse, stable=True)
        first = torch.ones(len(ends), dtype=torch.bool)
        first[order[1:]] = inverse[order[1:]] != inverse[order[:-1]]
        keep &= first
    if bool(keep.all()):
        return store
    kept = keep.nonzero().flatten()
    return ComplexStore(
        cell_ptr=(store.cell_ptr[0], offsets(torch.bincount(graph[kept], minlength=len(store)))),
        boundaries=(edge_boundaries(ends[kept]),),
        x=(store.x[0], None if store.x[1] is None else store.x[1][kept]),
        y=store.y,
        cell_y=(store.cell_y[0], None if store.cell_y[1] is None else store.cell_y[1][kept]),
        dims=store.dims,
        complex_x=store.complex_x,
    )
