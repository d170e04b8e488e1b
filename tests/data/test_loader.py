"""Mini-batches: every complex once, in an order that the seed fixes, alone or in company."""

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cwnet
from cwnet import Rings
from cwnet.data import ComplexLoader

STORE = cwnet.lift_many(
    [cwnet.Graph(n, [(i, (i + 1) % n) for i in range(n)], y=float(n)) for n in range(3, 40)], Rings(6)
)
N = len(STORE)


def seen(loader):
    return [batch.y.long().tolist() for batch in loader]


@given(st.integers(1, 50), st.booleans(), st.booleans(), st.integers(0, 5))
def test_every_complex_once(batch_size, shuffle, drop_last, seed):
    loader = ComplexLoader(STORE, batch_size, shuffle=shuffle, seed=seed, drop_last=drop_last)
    expected = N // batch_size * batch_size if drop_last else N
    batches = seen(loader)
    flat = [y for batch in batches for y in batch]
    assert len(flat) == len(set(flat)) == expected
    if not shuffle:
        assert flat == list(range(3, 3 + expected))


@given(st.integers(1, 50), st.integers(1, N))
def test_even_batches(batch_size, count):
    loader = ComplexLoader(STORE, batch_size, index=range(count), shuffle=True, even=True)
    sizes = [len(numbers) for numbers in loader.batches(0)]
    assert len(sizes) == -(-count // batch_size)
    assert sum(sizes) == count
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= batch_size
    with pytest.raises(ValueError, match="no small batch"):
        ComplexLoader(STORE, 4, even=True, drop_last=True)


def test_batches_are_those_of_the_store():
    loader = ComplexLoader(STORE, 8, shuffle=True, seed=3)
    for numbers, batch in zip(loader.batches(0), loader, strict=True):
        assert list(batch) == list(STORE.batch(numbers))


def test_order_depends_on_seed_and_epoch_alone():
    a, b = (ComplexLoader(STORE, 5, shuffle=True, seed=7) for _ in range(2))
    first, second = seen(a), seen(a)
    assert first != second
    assert [seen(b), seen(b)] == [first, second]
    b.set_epoch(1)
    assert seen(b) == second
    assert seen(ComplexLoader(STORE, 5, shuffle=True, seed=8)) != first


def test_a_split():
    wanted = [5, 1, 9]
    assert seen(ComplexLoader(STORE, 2, index=torch.tensor(wanted))) == [[8, 4], [12]]


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_resuming_in_the_middle_of_an_epoch(prefetch):
    whole = ComplexLoader(STORE, 4, shuffle=True, prefetch=prefetch)
    expected = seen(whole) + seen(whole)
    loader = ComplexLoader(STORE, 4, shuffle=True, prefetch=prefetch)
    done = [batch.y.long().tolist() for _, batch in zip(range(3), loader, strict=False)]
    state = loader.state_dict()
    assert state == {"epoch": 0, "position": 3}
    again = ComplexLoader(STORE, 4, shuffle=True)
    again.load_state_dict(state)
    assert done + seen(again) + seen(again) == expected


@pytest.mark.parametrize("prefetch", [0, 2])
def test_every_iteration_is_a_whole_epoch(prefetch):
    loader = ComplexLoader(STORE, 4, shuffle=True, prefetch=prefetch)
    next(iter(loader))
    assert seen(loader) == seen(at_epoch(1))
    next(iter(loader))
    assert seen(loader) == seen(at_epoch(3))  # the one that was left counts
    loader.set_epoch(1)
    assert seen(loader) == seen(at_epoch(1))
    first, second = (list(pair) for pair in zip(*zip(loader, loader, strict=True), strict=True))
    assert [b.y.tolist() for b in first] == [b.y.tolist() for b in at_epoch(2)]
    assert [b.y.tolist() for b in second] == [b.y.tolist() for b in at_epoch(3)]


def at_epoch(epoch):
    loader = ComplexLoader(STORE, 4, shuffle=True)
    loader.set_epoch(epoch)
    return loader


def test_resuming_behind_the_last_batch_of_an_epoch():
    loader = ComplexLoader(STORE, 4, shuffle=True)
    *_, state = [loader.state_dict() for _ in loader]
    assert state == {"epoch": 0, "position": len(loader)}
    loader.load_state_dict(state)
    assert seen(loader) == seen(at_epoch(1))


@given(st.integers(10, 400), st.booleans())
def test_a_budget_of_cells(max_cells, shuffle):
    with pytest.warns() if max_cells < 79 else _nothing():
        loader = ComplexLoader(STORE, max_cells=max_cells, shuffle=shuffle)
        batches = list(loader)
    assert sorted(y for b in batches for y in b.y.long().tolist()) == list(range(3, 40))
    for batch in batches:
        assert sum(batch.num_cells) <= max_cells or len(batch) == 1


class _nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


@pytest.mark.parametrize("world", [2, 4])
def test_processes_share_every_batch(world):
    alone = ComplexLoader(STORE, 8, shuffle=True, seed=1).batches(3)
    shares = [ComplexLoader(STORE, 8, shuffle=True, seed=1, rank=r, world_size=world).batches(3) for r in range(world)]
    for i, batch in enumerate(alone):
        assert sorted(batch.tolist()) == sorted(n for share in shares for n in share[i].tolist())


def test_processes_take_as_many_steps_under_a_budget():
    loaders = [ComplexLoader(STORE, max_cells=200, rank=r, world_size=3) for r in range(3)]
    assert len({len(loader) for loader in loaders}) == 1
    assert {n for loader in loaders for b in loader.batches(0) for n in b.tolist()} == set(range(N))


def test_prefetching_stops_with_its_consumer_and_passes_errors_on(monkeypatch):
    loader = ComplexLoader(STORE, 1, prefetch=2)
    for _ in loader:
        break  # the thread must not hang on
    loader = ComplexLoader(STORE, 4, prefetch=2)
    monkeypatch.setattr(loader, "_gather", lambda numbers: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(loader)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("resident", [True, False])
def test_on_a_gpu(resident):
    loader = ComplexLoader(STORE, 8, shuffle=True, device="cuda", resident=resident, prefetch=2)
    here = ComplexLoader(STORE, 8, shuffle=True)
    for a, b in zip(loader, here, strict=True):
        assert a.dims.is_cuda
        assert list(a.to("cpu")) == list(b)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give batch_size or max_cells"),
        ({"batch_size": 4, "max_cells": 10}, "one of the two"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": 5, "world_size": 2, "rank": 0}, "can not be shared evenly"),
        ({"batch_size": 4, "world_size": 2, "rank": 2}, "ranks go from 0"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        ComplexLoader(STORE, **options)
    with pytest.raises(IndexError, match="complex 99 was asked for"):
        ComplexLoader(STORE, 4, index=[99])


def test_complexes_that_differ_in_dimension():
    some = [cwnet.lift(nx.path_graph(2), None), cwnet.lift(nx.complete_graph(4), cwnet.Cliques(4))]
    (batch,) = ComplexLoader(cwnet.ComplexStore.from_complexes(some), 2)
    assert list(batch) == some
