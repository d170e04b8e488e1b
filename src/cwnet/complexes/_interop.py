"""To and from networkx, PyTorch Geometric and TopoNetX. None of them is imported until it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cwnet.complexes._csr import Csr, offsets
from cwnet.errors import InvalidComplexError

if TYPE_CHECKING:
    from cwnet.complexes._batch import ComplexBatch
    from cwnet.complexes._complex import CellComplex

__all__ = ["from_pyg", "from_toponetx", "to_hetero", "to_networkx", "to_pyg", "to_toponetx"]


def to_networkx(complex_: CellComplex) -> Any:
    """The 1-skeleton as a `networkx.Graph`, or a `MultiGraph` where two edges are parallel.

    Edges carry their number as `index`, and vertices and edges their features as `x`. Higher cells are in
    ``graph.graph["cells"]``: {dimension: vertex tuples}; the target is ``graph.graph["y"]``.
    """
    import networkx as nx

    edges = complex_.cells(1)
    parallel = len({frozenset(e) for e in edges}) < len(edges)
    graph = nx.MultiGraph() if parallel else nx.Graph()
    x = [None if f is None else f.cpu() for f in complex_.x[:2]] + [None, None]
    for v in range(complex_.num_cells[0]):
        graph.add_node(v, **({} if x[0] is None else {"x": x[0][v]}))
    for i, (u, v) in enumerate(edges):
        graph.add_edge(u, v, index=i, **({} if x[1] is None else {"x": x[1][i]}))
    graph.graph["cells"] = {d: complex_.cells(d) for d in range(2, len(complex_.num_cells))}
    if complex_.y is not None:
        graph.graph["y"] = complex_.y
    return graph


def to_toponetx(complex_: CellComplex) -> Any:
    """A TopoNetX `CellComplex`. It has dimension two at most and no parallel edges.

    Features become the attribute `x` of nodes, edges and cells. `from_toponetx` reads it back; edges are then in the
    order in which TopoNetX keeps them.
    """
    import toponetx

    if complex_.dim > 2:
        raise InvalidComplexError(
            f"TopoNetX cell complexes end at dimension 2, this one has dimension {complex_.dim}: "
            "convert its skeleton(2)"
        )
    edges = complex_.cells(1)
    if len({frozenset(e) for e in edges}) < len(edges):
        raise InvalidComplexError("TopoNetX cell complexes have no parallel edges, this complex has some")
    out = toponetx.CellComplex()
    for v in range(complex_.num_cells[0]):
        out.add_node(v, **_attributes(complex_, 0, v))
    for i, ends in enumerate(edges):
        out.add_edge(*ends, **_attributes(complex_, 1, i))
    for i, cycle in enumerate(complex_.cells(2)):
        out.add_cell(list(cycle), rank=2, **_attributes(complex_, 2, i))
    return out


def _attributes(complex_: CellComplex, d: int, i: int) -> dict[str, Any]:
    """The features of one cell as a dictionary, empty where there are none."""
    x = complex_.x[d] if d < len(complex_.x) else None
    return {} if x is None else {"x": x[i]}


def from_toponetx(complex_: Any) -> CellComplex:
    """A `CellComplex` from one of TopoNetX: its nodes, edges and cells in the order in which they are listed there.

    Nodes may have any names; they are numbered. The attribute `x`, where all nodes, edges or cells have it, becomes the
    features of that dimension.

    Raises:
        InvalidComplexError: where it is not a `toponetx.CellComplex`, or not regular.

    >>> import toponetx
    >>> triangle = toponetx.CellComplex([["a", "b", "c"]])
    >>> from_toponetx(triangle)
    CellComplex(3 vertices, 3 edges, 1 2-cell)
    """
    from cwnet.complexes._complex import CellComplex

    if not (type(complex_).__module__.startswith("toponetx.") and hasattr(complex_, "cells")):
        raise InvalidComplexError(f"{complex_!r} is not a toponetx.CellComplex")
    nodes = dict(complex_.nodes(data=True))
    vertex = {name: i for i, name in enumerate(nodes)}
    links = list(complex_.edges(data=True))
    edge = {frozenset((vertex[u], vertex[v])): i for i, (u, v, _) in enumerate(links)}
    cells = list(complex_.cells)
    around = [[edge[frozenset((vertex[u], vertex[v]))] for u, v in cell.boundary] for cell in cells]
    attributes = [list(nodes.values()), [data for _, _, data in links], [cell._attributes for cell in cells]]
    return CellComplex.from_boundaries(
        len(nodes), [[tuple(ends) for ends in edge], around], x=[_column(many) for many in attributes]
    )


def _column(attributes: list[dict[str, Any]]) -> Tensor | None:
    """The attribute `x` of all cells of a dimension, one row for each; None where one of them lacks it."""
    if not attributes or any("x" not in one for one in attributes):
        return None
    return torch.stack([torch.as_tensor(one["x"]) for one in attributes])


def to_hetero(complex_: CellComplex, adjacent: bool = False) -> Any:
    """A PyG `HeteroData` with one node type per dimension: "dim_0" the vertices, "dim_1" the edges, and so on.

    Its relations are ("dim_0", "bounds", "dim_1") from every cell to those whose boundary it lies on, and
    ("dim_1", "has", "dim_0") the other way round. PyG's loaders batch it, and its heterogeneous models run on it.

    Args:
        complex_: a complex.
        adjacent: whether to add ("dim_0", "upper", "dim_0"), neighbours on the boundary of a common cell, expanded.
    """
    from torch_geometric.data import HeteroData

    data = HeteroData()
    for d, count in enumerate(complex_.num_cells):
        here = data[f"dim_{d}"]
        here.num_nodes = count
        if (x := complex_.x[d]) is not None:
            here.x = x
        if d:
            csr = complex_.boundary(d)
            data[f"dim_{d - 1}", "bounds", f"dim_{d}"].edge_index = torch.stack([csr.idx, csr.rows])
            data[f"dim_{d}", "has", f"dim_{d - 1}"].edge_index = torch.stack([csr.rows, csr.idx])
        if adjacent and d + 1 < len(complex_.num_cells):
            data[f"dim_{d}", "upper", f"dim_{d}"].edge_index = complex_.upper(d).index
    if complex_.y is not None:
        data.y = complex_.y.unsqueeze(0)
    return data


def to_pyg(complex_: CellComplex) -> Any:
    """A PyG `Data` that keeps the complex, works in any PyG model and batches with PyG's own DataLoader.

    Beside PyG's `x`, `edge_index` (both directions), `edge_attr` and `y` it has `num_cells` [1, dimensions], and
    for every dimension d ≥ 1 the incidences `boundary_d` [2, n] ((d-1)-cell, d-cell) and, where the cells have
    features, `x_d`. `from_pyg` reads it back, also from a PyG batch.
    """
    from cwnet.complexes._pyg import CellData

    data = CellData(num_nodes=complex_.num_cells[0])
    ends = complex_.boundary(1).idx.reshape(-1, 2)
    data.edge_index = torch.cat([ends.t(), ends.t().flip(0)], dim=1)
    if complex_.x[0] is not None:
        data.x = complex_.x[0]
    if len(complex_.x) > 1 and complex_.x[1] is not None:
        data.edge_attr = torch.cat([complex_.x[1], complex_.x[1]])
    if complex_.y is not None:
        data.y = complex_.y.unsqueeze(0)
    data.num_cells = torch.tensor([complex_.num_cells])
    for d in range(1, len(complex_.num_cells)):
        csr = complex_.boundary(d)
        data[f"boundary_{d}"] = torch.stack([csr.idx, csr.rows])
        if (x := complex_.x[d]) is not None:
            data[f"x_{d}"] = x
    return data


def from_pyg(data: Any) -> CellComplex | ComplexBatch:
    """Read what `to_pyg` wrote: a `CellComplex` from a Data, a `ComplexBatch` from a PyG batch of them."""
    from cwnet.complexes._batch import ComplexBatch

    if "num_cells" not in data:
        raise InvalidComplexError(
            "this PyG Data holds no cells: lift it with cwnet.lift, or pass cwnet.LiftTransform as pre_transform"
        )
    counts = data.num_cells
    totals = tuple(int(n) for n in counts.sum(0))

    def boundary(d: int) -> Csr:
        face, cell = data[f"boundary_{d}"]
        return Csr(offsets(torch.bincount(cell, minlength=totals[d])), face)

    top = counts.shape[1] - 1
    batch = ComplexBatch(
        num_cells=totals,
        boundaries=tuple(boundary(d) for d in range(1, top + 1)),
        x=(data.x, *(data.get(f"x_{d}") for d in range(1, top + 1))),
        y=data.y,
        cell_y=(None,) * (top + 1),
        cell_ptr=tuple(offsets(n) for n in counts.t()),
        dims=torch.full((counts.shape[0],), top, device=counts.device),
    )
    return batch if hasattr(data, "ptr") else batch[0]
