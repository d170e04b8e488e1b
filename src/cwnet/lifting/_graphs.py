"""Graphs in: networkx, PyG, RDKit or plain arrays become one packed set of graphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cwnet.complexes import CellComplex, ComplexStore, Csr
from cwnet.complexes._csr import offsets
from cwnet.complexes._store import edge_boundaries
from cwnet.errors import GraphError

__all__ = ["Graph", "as_graph", "pack"]


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
        what = "None (did a SMILES fail to parse?)" if value is None else f"a {type(value).__name__}"
        raise GraphError(
            f"{what} is not a graph: give a networkx graph, a PyG Data, an RDKit Mol, "
            "a CellComplex, or (num_nodes, edges)"
        )
    return _checked(graph)


def _checked(graph: Graph) -> Graph:
    n = graph.num_nodes
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0:
        raise GraphError(f"the number of vertices must be a whole number ≥ 0, not {n!r}")
    edges = graph.edges if isinstance(graph.edges, Tensor) else torch.as_tensor(np.asarray(graph.edges))
    if edges.numel() == 0:
        edges = edges.reshape(0, 2).to(torch.int32)
    if edges.dim() != 2 or edges.shape[1] != 2:
        raise GraphError(f"edges must be [m, 2], one pair of vertices per edge, not of shape {tuple(edges.shape)}")
    if edges.is_floating_point() or edges.is_complex() or edges.dtype == torch.bool:
        raise GraphError(f"edges must be whole numbers, not {edges.dtype}")
    if edges.numel() and (int(edges.min()) < -(2**31) or int(edges.max()) >= 2**31):
        raise GraphError(f"vertex numbers must fit 32 bits; found {int(edges.min())} to {int(edges.max())}")
    return Graph(
        int(n),
        edges.to(torch.int32).cpu(),
        _features(graph.x, int(n), "x", "vertices"),
        _features(graph.edge_x, len(edges), "edge_x", "edges"),
        None if graph.y is None else torch.as_tensor(graph.y),
    )


def _features(value: Any, rows: int, name: str, of: str) -> Tensor | None:
    if value is None:
        return None
    tensor = value.cpu() if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
    if tensor.dim() == 0 or tensor.shape[0] != rows:
        have = tensor.shape[0] if tensor.dim() else "no"
        raise GraphError(f"{name} has {have} rows, but there are {rows} {of}")
    if tensor.is_floating_point() and bool(torch.isnan(tensor).any()):
        row, *rest = torch.isnan(tensor).nonzero()[0].tolist()
        column = f", column {rest[0]}" if rest else ""
        raise GraphError(f"{name} is NaN at row {row}{column}: fill in or drop missing features first")
    return tensor


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
    return torch.stack([torch.as_tensor(x) for x in having])


def _from_pyg(data: Any) -> Graph:
    """Every edge of a PyG Data is there in both directions; the one from the smaller vertex is kept."""
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
        differ = (attr[up] != attr[down]).reshape(len(up), -1).any(1).nonzero().flatten()
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
            )
        return store, np.arange(len(store)), []
    good: list[Graph] = []
    positions: list[int] = []
    errors: list[GraphError] = []
    for i, value in enumerate(graphs):
        try:
            good.append(_agreeing(as_graph(value), good, positions))
            positions.append(i)
        except GraphError as error:
            if not skip:
                raise error.moved_to(i) from None
            errors.append(error.moved_to(i))
    edges = torch.cat([g.edges for g in good]) if good else torch.zeros(0, 2, dtype=torch.int32)
    store = ComplexStore(
        cell_ptr=(
            offsets(torch.tensor([g.num_nodes for g in good], dtype=torch.int64)),
            offsets(torch.tensor([len(g.edges) for g in good], dtype=torch.int64)),
        ),
        boundaries=(edge_boundaries(edges),),
        x=(_cat([g.x for g in good]), _cat([g.edge_x for g in good])),
        y=torch.stack([g.y for g in good]) if good and good[0].y is not None else None,
        cell_y=(None, None),
        dims=torch.ones(len(good), dtype=torch.int64),
    )
    return store, np.array(positions, dtype=np.int64), errors


def _cat(parts: list[Tensor | None]) -> Tensor | None:
    present = [p for p in parts if p is not None]
    return torch.cat(present) if present else None


def _agreeing(graph: Graph, before: list[Graph], positions: list[int]) -> Graph:
    """Features and targets must be of one kind in all graphs of a list, so that they can be packed."""
    if before:
        first, at = before[0], positions[0]
        for name, here, there, start in (
            ("x", graph.x, first.x, 1),
            ("edge_x", graph.edge_x, first.edge_x, 1),
            ("y", graph.y, first.y, 0),
        ):
            if (here is None) != (there is None):
                has, lacks = ("this graph", f"graph {at}") if there is None else (f"graph {at}", "this graph")
                raise GraphError(f"{has} has {name} and {lacks} has none")
            if here is not None and (here.shape[start:] != there.shape[start:] or here.dtype != there.dtype):
                raise GraphError(
                    f"{name} is {here.dtype} of shape {tuple(here.shape[start:])}, but "
                    f"{there.dtype} of shape {tuple(there.shape[start:])} in graph {at}"
                )
    return graph


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
    )
