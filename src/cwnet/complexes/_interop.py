"""To and from networkx, PyTorch Geometric and TopoNetX. None of them is imported until it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from cwnet.complexes._csr import Csr, offsets
from cwnet.errors import InvalidComplexError

if TYPE_CHECKING:
    from cwnet.complexes._batch import ComplexBatch
    from cwnet.complexes._complex import CellComplex

__all__ = ["from_pyg", "to_networkx", "to_pyg", "to_toponetx"]


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
    """A TopoNetX `CellComplex`. It has dimension two at most and no parallel edges."""
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
        out.add_node(v)
    out.add_edges_from(edges)
    out.add_cells_from([list(c) for c in complex_.cells(2)], rank=2)
    return out


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
