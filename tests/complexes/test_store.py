"""Many complexes: packing, selecting, batching and taking apart again."""

import copy
import dataclasses
import pickle
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cwnet
from cwnet import CellComplex, Cliques, ComplexStore, GraphError, InvalidComplexError, Rings, collate
from cwnet.complexes import Csr
from cwnet.complexes._batch import _cut_elsewhere
from cwnet.wl import certificates
from tests.strategies import complexes


def with_features(complex_: CellComplex, seed: int) -> CellComplex:
    generator = torch.Generator().manual_seed(seed)
    x = [torch.rand(n, 3, generator=generator) if d != 1 else None for d, n in enumerate(complex_.num_cells)]
    cell_y = [torch.randint(5, (n,), generator=generator) for n in complex_.num_cells]
    y = torch.rand(2, generator=generator)
    return CellComplex.from_boundaries(complex_.num_cells[0], complex_.boundaries, x=x, y=y, cell_y=cell_y)


POINT = cwnet.lift((1, []), None)
NO_EDGES = cwnet.lift((4, []), Rings(6))
TREE = cwnet.lift((3, [(0, 1), (1, 2)]), Rings(6))
SIMPLEX = cwnet.lift(nx.complete_graph(5), Cliques(5))
SPHERE = CellComplex.from_boundaries(2, [[(0, 1), (0, 1)], [(0, 1), (0, 1)]])
MIXED = [POINT, SIMPLEX, NO_EDGES, TREE, SPHERE]


@given(st.lists(complexes, min_size=1, max_size=8), st.booleans())
def test_unbatching_is_exact(some, featured):
    if featured:
        some = [with_features(c, seed) for seed, c in enumerate(some)]
    batch = collate(some)
    assert len(batch) == len(some)
    assert list(batch) == some
    assert list(ComplexStore.from_complexes(some)) == some


@given(st.lists(complexes, min_size=1, max_size=6))
def test_a_batch_is_the_disjoint_union(some):
    batch = collate(some)
    again = CellComplex.from_boundaries(batch.num_cells[0], batch.boundaries)  # so it is a valid complex
    for d in range(len(again.num_cells)):
        start, expected_upper = 0, []
        for i, complex_ in enumerate(some):
            n = complex_.num_cells[d] if d < len(complex_.num_cells) else 0
            assert (batch.complex_of(d)[start : start + n] == i).all()
            expected_upper.append(complex_.upper(d).index + start)
            start += n
        assert start == again.num_cells[d]
        assert sorted(torch.cat(expected_upper, 1).t().tolist()) == sorted(batch.upper(d).index.t().tolist())


@given(st.lists(complexes, min_size=1, max_size=8), st.data())
def test_select_equals_picking_one_by_one(some, draw):
    some = [with_features(c, seed) for seed, c in enumerate(some)]
    store = ComplexStore.from_complexes(some)
    wanted = draw.draw(st.lists(st.integers(-len(some), len(some) - 1), max_size=12))
    assert list(store.select(wanted)) == [some[i] for i in wanted]
    assert list(store.batch(wanted)) == [some[i] for i in wanted]
    mask = np.zeros(len(some), dtype=bool)
    mask[wanted] = True
    assert list(store.select(mask)) == [c for c, chosen in zip(some, mask, strict=True) if chosen]
    assert list(store.select(slice(None, None, 2))) == some[::2]


def test_complexes_of_different_dimension_in_one_batch():
    batch = collate(MIXED)
    assert batch.num_cells == (1 + 5 + 4 + 3 + 2, 10 + 2 + 2, 10 + 2, 5, 1)
    assert list(batch) == MIXED
    assert [c.num_cells for c in batch] == [c.num_cells for c in MIXED]
    assert batch[-1] == SPHERE
    with pytest.raises(IndexError, match="complex 5 was asked for, but there are 5"):
        batch[5]


def test_moving_a_batch_moves_everything():
    batch = collate([with_features(c, 0) for c in MIXED[1:2]]).to("meta")
    for field in dataclasses.fields(batch):
        for value in _tensors(getattr(batch, field.name)):
            assert value.device.type == "meta"


def _tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_store_on_the_gpu_gathers_the_same_batches():
    store = ComplexStore.from_complexes([with_features(SIMPLEX, seed) for seed in range(50)])
    wanted = torch.randperm(50)[:20]
    there = store.to("cuda").batch(wanted.cuda())
    assert there.boundaries[0].idx.is_cuda
    assert list(there.to("cpu")) == list(store.batch(wanted))


def test_from_graphs_equals_a_list_of_graphs():
    graphs = [
        cwnet.Graph(3, [(0, 1), (2, 1)], x=[1, 2, 3], edge_x=[5, 6], y=0.5),
        cwnet.Graph(1, [], x=[4], edge_x=[], y=1.5),
    ]
    graphs = [g._replace(edge_x=torch.tensor(g.edge_x, dtype=torch.int64)) for g in graphs]
    packed = ComplexStore.from_graphs(
        [3, 1], [2, 0], [[0, 1], [2, 1]], x=[1, 2, 3, 4], edge_x=[5, 6], y=torch.tensor([0.5, 1.5])
    )
    assert list(packed) == list(cwnet.lift_many(graphs, None))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([2], [1], [[0, 2]]), GraphError, r"graph 0: edge 0 \(0, 2\) names vertex 2"),
        (([2, 2], [0, 1], [[1, 1]]), GraphError, r"graph 1: edge 0 \(1, 1\) is a self-loop"),
        (([2, 2], [1, 1], [[0, 1]]), InvalidComplexError, "num_edges add up to 2, but edges has 1 rows"),
        (([2], [1, 1], [[0, 1]]), InvalidComplexError, "one number per graph"),
        (([2, -1], [1, 0], [[0, 1]]), GraphError, "graph 1: -1 vertices"),
    ],
)
def test_from_graphs_refuses(arguments, error, message):
    with pytest.raises(error, match=message):
        ComplexStore.from_graphs(*arguments)
    with pytest.raises(InvalidComplexError, match="x has 3 rows for 2 vertices"):
        ComplexStore.from_graphs([2], [1], [[0, 1]], x=[1, 2, 3])


def test_what_does_not_fit_together_is_named():
    a, b = with_features(TREE, 0), with_features(TREE, 1)
    with pytest.raises(InvalidComplexError, match="complex 1 has no y"):
        collate([a, dataclasses.replace(b, y=None)])
    with pytest.raises(InvalidComplexError, match=r"y has different shapes"):
        collate([a, dataclasses.replace(b, y=torch.zeros(3))])
    with pytest.raises(InvalidComplexError, match=r"complex 1 has no x\[0\]"):
        collate([a, dataclasses.replace(b, x=(None, None, None))])
    with pytest.raises(InvalidComplexError, match=r"x\[0\] is \(7,\).* in complex 1, but \(3,\)"):
        collate([a, dataclasses.replace(b, x=(torch.zeros(3, 7), None, None))])
    with pytest.raises(IndexError, match="complex 2 was asked for, but there are 2"):
        ComplexStore.from_complexes([a, b])[2]
    with pytest.raises(IndexError, match="mask of shape"):
        ComplexStore.from_complexes([a, b]).select(torch.ones(3, dtype=torch.bool))


def test_an_empty_list():
    store = cwnet.lift_many([], Rings(6))
    assert len(store) == 0
    assert list(store) == []
    assert len(ComplexStore.from_complexes([])) == 0


def test_lifting_a_store_copies_no_edges(zinc):
    lifted = cwnet.lift_many(zinc, Rings(18))
    assert lifted.boundaries[0].idx.data_ptr() == zinc.boundaries[0].idx.data_ptr()
    assert len(lifted) == 10_000
    assert lifted.lifting == "Rings(18)"
    assert repr(lifted).startswith("ComplexStore(10,000 complexes: 231,664 vertices, 249,279 edges, 27,833 2-cells")
    assert list(lifted.skeleton(1).select([5])) == list(zinc.select([5]))


def test_skeleton_of_a_store():
    store = ComplexStore.from_complexes(MIXED)
    assert list(store.skeleton(1)) == [c.skeleton(1) for c in MIXED]
    assert list(cwnet.lift_many(store.skeleton(0), Rings(6)).skeleton(0)) == [c.skeleton(0) for c in MIXED]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([3], [1], np.array([[0, 2**32 + 1]])), "edges must fit 32 bits; found 0 to 4294967297"),
        (([3], [1], np.array([[0, 2**63]], dtype=np.uint64)), "edges must fit 32 bits"),
        (([3], [1], [[0.0, 1.9]]), "edges must be whole numbers, not float64"),
        (([3.5], [1], [[0, 1]]), "num_nodes must be whole numbers"),
        (([3], [True], [[0, 1]]), "num_edges must be whole numbers, not bool"),
    ],
)
def test_from_graphs_refuses_what_would_be_cut_off(arguments, message):
    with pytest.raises(GraphError, match=message):
        ComplexStore.from_graphs(*arguments)


@pytest.mark.parametrize("kind", [np.uint8, np.uint32, np.uint64, ">i8"])
def test_from_graphs_takes_all_whole_numbers(kind):
    edges = np.array([[0, 1], [2, 1]], dtype=kind)[::-1]
    store = ComplexStore.from_graphs(np.array([3], dtype=kind), np.array([2], dtype=kind), edges)
    assert store[0].cells(1) == [(2, 1), (0, 1)]


def test_complexes_are_cut_out_as_they_were_put_in():
    """The core's way out of a store and a batch is that of array operations."""
    graphs = [(n, [(i, (i + 1) % n) for i in range(n)] + [(0, n // 2)] * (n > 5)) for n in range(3, 12)]
    store = cwnet.lift_many(graphs, cwnet.Cycles(8) | cwnet.Cliques(4))
    for many in (store, store.batch()):
        for i in range(len(graphs)):
            num_cells, boundaries, _ = _cut_elsewhere(many, i, many is store)
            assert many[i].num_cells == num_cells
            for found, expected in zip(many[i].boundaries, boundaries, strict=True):
                assert torch.equal(found.ptr, expected.ptr)
                assert torch.equal(found.idx, expected.idx)
                assert found.idx.dtype == torch.int64
    assert [c == store[i] for i, c in enumerate(cwnet.collate(list(store)))] == [True] * len(graphs)


def test_a_damaged_store_is_not_followed():
    store = cwnet.lift_many([(3, [(0, 1), (1, 2), (2, 0)])] * 2, cwnet.Rings(3))
    beyond = store.boundaries[1].idx.clone()
    beyond[0] = 2_000_000_000
    for damaged in (
        replace(store, boundaries=(store.boundaries[0], Csr(store.boundaries[1].ptr, beyond))),
        replace(store, boundaries=(store.boundaries[0], Csr(store.boundaries[1].ptr * 1000, beyond))),
        replace(store, cell_ptr=(*store.cell_ptr[:2], store.cell_ptr[2] * 1000)),
    ):
        with pytest.raises((ValueError, IndexError)):
            damaged[0]
        with pytest.raises((ValueError, IndexError)):
            certificates(damaged)


def test_complexes_are_copied_and_pickled():
    complex_ = cwnet.lift((3, [(0, 1), (1, 2), (2, 0)]), cwnet.Rings(3))
    assert pickle.loads(pickle.dumps(complex_)) == complex_
    assert copy.deepcopy(complex_) == complex_
    assert replace(complex_, y=torch.ones(1)).boundary(2).tolist() == [[0, 1, 2]]
    complex_.boundary(1).idx[0] = 0  # memory of its own, and writable
