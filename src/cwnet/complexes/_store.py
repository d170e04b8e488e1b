"""Many complexes in one set of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cwnet import _core
from cwnet.complexes._batch import ComplexBatch, cut
from cwnet.complexes._cells import Features, Movable, describe_cells
from cwnet.complexes._complex import CellComplex
from cwnet.complexes._csr import Csr, offsets, ranges
from cwnet.errors import CwnetError, GraphError, InvalidComplexError

__all__ = ["ComplexStore", "collate"]


@dataclass(frozen=True, eq=False, repr=False)
class ComplexStore(Movable):
    """Many complexes, concatenated: one layout from disk to kernel.

    In each dimension d the cells of all complexes lie one after another, those of complex i at
    ``cell_ptr[d][i]:cell_ptr[d][i + 1]``. Numbers of cells inside boundaries are local to their complex, so
    any selection of complexes is a copy of slices. `batch` makes them global.

    Attributes:
        cell_ptr: per dimension, [complexes + 1], int64.
        boundaries: for d = 1, 2, ...: the boundary of every d-cell, in int32; `idx` is local.
        x, cell_y: features and targets of cells, one tensor (or None) per dimension.
        y: targets of complexes, [complexes, ...], or None.
        dims: the number of the last dimension each complex lists (see `CellComplex.num_cells`), [complexes].
        lifting: the lifting that made the complexes, as text.
        skipped: the errors of graphs that `lift_many` left out at the caller's wish; each has a `position`.
        truncated: the same for graphs that it lifted in part.
        complex_x: features of the complexes as wholes, [complexes, ...], or None.
    """

    cell_ptr: tuple[Tensor, ...]
    boundaries: tuple[Csr, ...]
    x: Features
    y: Tensor | None
    cell_y: Features
    dims: Tensor
    lifting: str | None = None
    skipped: tuple[CwnetError, ...] = ()
    truncated: tuple[CwnetError, ...] = ()
    complex_x: Tensor | None = None

    @classmethod
    def from_complexes(cls, complexes: Sequence[CellComplex]) -> ComplexStore:
        """Pack complexes, of whatever dimensions. Features must agree in width and type."""
        complexes = list(complexes)
        device = complexes[0]._device if complexes else torch.device("cpu")
        dims = [len(c.num_cells) - 1 for c in complexes]
        top = max(dims, default=0)

        def counts(d: int) -> Tensor:
            return torch.tensor([c._count(d) for c in complexes], dtype=torch.int64, device=device)

        return cls(
            cell_ptr=tuple(offsets(counts(d)) for d in range(top + 1)),
            boundaries=_pack_boundaries(complexes, top),
            x=_stack_features([c.x for c in complexes], [c.num_cells for c in complexes], top, "x"),
            y=_stack_wholes([c.y for c in complexes], "y"),
            cell_y=_stack_features([c.cell_y for c in complexes], [c.num_cells for c in complexes], top, "cell_y"),
            dims=torch.tensor(dims, dtype=torch.int64, device=device),
            complex_x=_stack_wholes([c.complex_x for c in complexes], "complex_x"),
        )

    @classmethod
    def from_graphs(
        cls,
        num_nodes: Any,
        num_edges: Any,
        edges: Any,
        *,
        x: Any = None,
        edge_x: Any = None,
        y: Any = None,
    ) -> ComplexStore:
        """Pack graphs that already lie in flat arrays, as complexes of dimension one. This is the fast way in.

        Args:
            num_nodes: vertices of each graph, [graphs].
            num_edges: edges of each graph, [graphs].
            edges: the ends of all edges, [edges, 2], each edge once, vertex numbers local to the graph.
            x: vertex features, [vertices, ...].
            edge_x: edge features, [edges, ...].
            y: targets, [graphs, ...].

        >>> store = ComplexStore.from_graphs([3, 2], [3, 1], [[0, 1], [1, 2], [0, 2], [0, 1]])
        >>> store
        ComplexStore(2 complexes: 5 vertices, 4 edges)
        """
        nodes = _whole(num_nodes, torch.int64, "num_nodes")
        counts = _whole(num_edges, torch.int64, "num_edges")
        ends = _whole(edges, torch.int32, "edges")
        if ends.numel() and (ends.dim() != 2 or ends.shape[1] != 2):
            raise InvalidComplexError(f"edges must be [edges, 2], not of shape {tuple(ends.shape)}")
        ends = ends.reshape(-1, 2)
        if nodes.shape != counts.shape or nodes.dim() != 1:
            raise InvalidComplexError(
                f"num_nodes and num_edges must be one number per graph; got shapes {tuple(nodes.shape)} and "
                f"{tuple(counts.shape)}"
            )
        if nodes.numel() and int(torch.minimum(nodes, counts).min()) < 0:
            at = int((torch.minimum(nodes, counts) < 0).nonzero()[0])
            raise GraphError(f"{int(nodes[at])} vertices and {int(counts[at])} edges: counts can not be negative", at)
        if int(counts.sum()) != ends.shape[0]:
            raise InvalidComplexError(f"num_edges add up to {int(counts.sum())}, but edges has {ends.shape[0]} rows")
        cell_ptr = (offsets(nodes), offsets(counts))
        _check_ends(ends, nodes, counts, cell_ptr[1])
        totals = [int(p[-1]) for p in cell_ptr]
        return cls(
            cell_ptr=cell_ptr,
            boundaries=(edge_boundaries(ends),),
            x=(_rows(x, totals[0], "x", "vertices"), _rows(edge_x, totals[1], "edge_x", "edges")),
            y=_rows(y, nodes.numel(), "y", "graphs"),
            cell_y=(None, None),
            dims=torch.ones(nodes.numel(), dtype=torch.int64),
        )

    @property
    def num_cells(self) -> tuple[int, ...]:
        """Cells of all complexes together, per dimension."""
        return tuple(int(ptr[-1]) for ptr in self.cell_ptr)

    def __len__(self) -> int:
        return self.dims.numel()

    def __getitem__(self, i: int) -> CellComplex:
        """Complex i."""
        return cut(self, i)

    def __iter__(self) -> Iterator[CellComplex]:
        return (self[i] for i in range(len(self)))

    def select(self, index: Any) -> ComplexStore:
        """Some of the complexes, in the order given: numbers, a slice or a mask. No loop over complexes."""
        numbers = self._numbers(index)
        cell_ptr, boundaries, x, cell_y = [], [], [], []
        for d, ptr in enumerate(self.cell_ptr):
            starts = ptr[numbers]
            sizes = ptr[numbers + 1] - starts
            cell_ptr.append(offsets(sizes))
            cells = ranges(starts, sizes)
            if d:
                csr = self.boundaries[d - 1]
                rows = csr.ptr[cells + 1] - csr.ptr[cells]
                first, last = csr.ptr[starts].long(), csr.ptr[starts + sizes].long()
                boundaries.append(Csr(offsets(rows), csr.idx[ranges(first, last - first)]).packed())
            x.append(_take(self.x[d], cells))
            cell_y.append(_take(self.cell_y[d], cells))
        return replace(
            self,
            cell_ptr=tuple(cell_ptr),
            boundaries=tuple(boundaries),
            x=tuple(x),
            y=_take(self.y, numbers),
            cell_y=tuple(cell_y),
            dims=self.dims[numbers],
            skipped=(),
            truncated=(),
            complex_x=_take(self.complex_x, numbers),
        )

    def batch(self, index: Any = None) -> ComplexBatch:
        """Some of the complexes (all by default) as one disconnected complex with global numbers."""
        store = self if index is None else self.select(index)
        boundaries = []
        for d, csr in enumerate(store.boundaries, start=1):
            per_complex = csr.ptr[store.cell_ptr[d]].diff()  # incidences of each complex
            shift = torch.repeat_interleave(store.cell_ptr[d - 1][:-1], per_complex, output_size=csr.idx.numel())
            boundaries.append(Csr(csr.ptr.long(), csr.idx + shift))
        return ComplexBatch(
            num_cells=store.num_cells,
            boundaries=tuple(boundaries),
            x=store.x,
            y=store.y,
            cell_y=store.cell_y,
            cell_ptr=store.cell_ptr,
            dims=store.dims,
            complex_x=store.complex_x,
        )

    def skeleton(self, k: int) -> ComplexStore:
        """The k-skeletons of all complexes; shares memory with this store."""
        if k < 0:
            raise ValueError(f"there is no {k}-skeleton: the smallest is the 0-skeleton, the vertices alone")
        return replace(
            self,
            cell_ptr=self.cell_ptr[: k + 1],
            boundaries=self.boundaries[:k],
            x=self.x[: k + 1],
            cell_y=self.cell_y[: k + 1],
            dims=self.dims.clamp(max=k),
            lifting=None,
            skipped=(),
            truncated=(),
        )

    def __repr__(self) -> str:
        lifting = f", {self.lifting}" if self.lifting else ""
        many = "complex" if len(self) == 1 else "complexes"
        return f"ComplexStore({len(self):,} {many}: {describe_cells(self.num_cells)}{lifting})"

    def _numbers(self, index: Any) -> Tensor:
        n, device = len(self), self.dims.device
        if isinstance(index, slice):
            return torch.arange(n, device=device)[index]
        numbers = _as_numbers(index).to(device)
        if numbers.dtype == torch.bool:
            if numbers.shape != (n,):
                raise IndexError(f"a mask of shape {tuple(numbers.shape)} for {n} complexes")
            return numbers.nonzero().flatten()
        numbers = numbers.flatten().long()
        if numbers.numel() and (int(numbers.min()) < -n or int(numbers.max()) >= n):
            bad = int(numbers[(numbers < -n) | (numbers >= n)][0])
            raise IndexError(f"complex {bad} was asked for, but there are {n} (numbered 0 to {n - 1})")
        return torch.where(numbers < 0, numbers + n, numbers)


def _as_numbers(index: Any) -> Tensor:
    """Whole numbers or a mask, in whatever they are given."""
    if isinstance(index, Tensor):
        whole = not (index.is_floating_point() or index.is_complex()) or not index.numel()
        numbers = index if whole else None
    else:
        array = np.asarray(index)
        kind = array.dtype.kind if array.size or array.ndim == 0 else "i"
        numbers = (
            None if kind not in "iub" else torch.from_numpy(np.array(array, dtype=bool if kind == "b" else np.int64))
        )
    if numbers is None:
        raise TypeError(f"{index!r:.60} is not numbers of complexes, a slice or a mask")
    return numbers


def _pack_boundaries(complexes: list[CellComplex], top: int) -> tuple[Csr, ...]:
    if all(c._device.type == "cpu" for c in complexes):
        packed = _core.pack_boundaries([c.boundaries for c in complexes], top)
        return tuple(Csr(torch.from_numpy(ptr), torch.from_numpy(idx)) for ptr, idx in packed)
    many = [[c.boundary(d) for c in complexes] for d in range(1, top + 1)]
    return tuple(
        Csr(offsets(torch.cat([p.sizes for p in parts])), torch.cat([p.idx for p in parts])).packed() for parts in many
    )


def collate(complexes: Sequence[CellComplex]) -> ComplexBatch:
    """Put complexes side by side into one batch; ``batch[i]`` gives complex i back exactly.

    >>> from cwnet import lift, Rings
    >>> triangle, path = lift((3, [(0, 1), (1, 2), (0, 2)]), Rings(6)), lift((2, [(0, 1)]), None)
    >>> batch = collate([triangle, path])
    >>> batch, batch[1] == path
    (ComplexBatch(2 complexes: 5 vertices, 4 edges, 1 2-cell), True)
    """
    return ComplexStore.from_complexes(complexes).batch()


def edge_boundaries(ends: Tensor) -> Csr:
    """The boundaries of edges given as [m, 2]."""
    return Csr(torch.arange(0, 2 * ends.shape[0] + 1, 2), ends.reshape(-1)).packed()


def _whole(value: Any, dtype: torch.dtype, name: str) -> Tensor:
    """Whole numbers as a tensor; refuses what would have to be cut off or wrapped round."""
    try:
        array = value.cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
    except ValueError:  # rows of different lengths
        raise GraphError(f"{name} must be an array of whole numbers, not {value!r:.60}") from None
    if array.size and array.dtype.kind not in "iu":
        raise GraphError(f"{name} must be whole numbers, not {array.dtype} such as {array.flat[0]!r:.60}")
    wanted = torch.iinfo(dtype)
    if array.size and array.dtype.itemsize * 8 >= wanted.bits and array.dtype != wanted.dtype:
        low, high = int(array.min()), int(array.max())
        if low < wanted.min or high > wanted.max:
            raise GraphError(f"{name} must fit {wanted.bits} bits; found {low} to {high}")
    return torch.from_numpy(np.ascontiguousarray(array, dtype=wanted.dtype))


def _take(tensor: Tensor | None, rows: Tensor) -> Tensor | None:
    return None if tensor is None else tensor.index_select(0, rows)


def _rows(value: Any, count: int, name: str, of: str) -> Tensor | None:
    if value is None:
        return None
    tensor = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
    if tensor.dim() == 0 or tensor.shape[0] != count:
        raise InvalidComplexError(f"{name} has {len(tensor) if tensor.dim() else 'no'} rows for {count} {of}")
    return tensor


def _check_ends(ends: Tensor, nodes: Tensor, counts: Tensor, edge_ptr: Tensor) -> None:
    limit = torch.repeat_interleave(nodes, counts)
    bad = (ends < 0) | (ends >= limit[:, None])
    loop = ends[:, 0] == ends[:, 1]
    wrong = (bad.any(1) | loop).nonzero()
    if wrong.numel():
        at = int(wrong[0])
        graph = int(torch.searchsorted(edge_ptr, at, right=True)) - 1
        edge, (u, v) = at - int(edge_ptr[graph]), ends[at].tolist()
        raise GraphError(describe_bad_edge(edge, u, v, int(nodes[graph])), graph)


def describe_bad_edge(edge: int, u: int, v: int, num_nodes: int) -> str:
    """What is wrong with an edge that joins a vertex to itself or to none."""
    if u == v and 0 <= u < num_nodes:
        return f"edge {edge} ({u}, {v}) is a self-loop: remove it, or lift with loops='drop'"
    missing = u if not 0 <= u < num_nodes else v
    there = f"has {num_nodes} vertices, 0 to {num_nodes - 1}" if num_nodes else "has no vertices"
    return f"edge {edge} ({u}, {v}) names vertex {missing}, but the graph {there}"


def _stack_wholes(targets: list[Tensor | None], name: str) -> Tensor | None:
    """What complexes have as wholes: targets or features."""
    present = [t for t in targets if t is not None]
    if not present:
        return None
    if len(present) < len(targets):
        at = next(i for i, t in enumerate(targets) if t is None)
        raise InvalidComplexError(f"complex {at} has no {name}, but others have: give all of them one, or none")
    shapes = {tuple(t.shape) for t in present}
    if len(shapes) > 1:
        raise InvalidComplexError(f"{name} has different shapes in different complexes: {sorted(shapes)}")
    return torch.stack(present)


def _stack_features(features: list[Features], num_cells: list[tuple[int, ...]], top: int, name: str) -> Features:
    return tuple(
        _stack_dimension(
            [(i, f[d], n[d]) for i, (f, n) in enumerate(zip(features, num_cells, strict=True)) if d < len(n)],
            f"{name}[{d}]",
        )
        for d in range(top + 1)
    )


def _stack_dimension(parts: list[tuple[int, Tensor | None, int]], name: str) -> Tensor | None:
    """Concatenate (position, features or None, cells); complexes without cells need no features."""
    present = [(i, t) for i, t, _ in parts if t is not None]
    if not present:
        return None
    _, like = present[0]
    for i, t, cells in parts:
        if t is None and cells:
            raise InvalidComplexError(f"complex {i} has no {name}, but others have: give all of them features, or none")
        if t is not None and (t.shape[1:] != like.shape[1:] or t.dtype != like.dtype):
            raise InvalidComplexError(
                f"{name} is {tuple(t.shape[1:])} {t.dtype} per cell in complex {i}, but "
                f"{tuple(like.shape[1:])} {like.dtype} in complex {present[0][0]}"
            )
    return torch.cat([t for _, t in present])
