"""Exact and fast refinement against the definition."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cwnet
from cwnet import Cliques, ComplexStore, Cycles, Rings
from cwnet.wl import ADJACENCIES, refine
from tests.reference import refinement as reference
from tests.strategies import complexes

some_adjacencies = st.sets(st.sampled_from(ADJACENCIES), min_size=1).map(sorted)
small = complexes.filter(lambda c: sum(c.num_cells) < 150)


def partition(per_complex):
    """Which cells share a colour, as a set of sets."""
    groups = {}
    for k, colours in enumerate(per_complex):
        for cell, colour in colours.items():
            groups.setdefault(colour, set()).add((k, cell))
    return {frozenset(group) for group in groups.values()}


def as_cells(found, round_):
    return [
        {(d, i): c for d, row in enumerate(found.of(k, round_)) for i, c in enumerate(row)}
        for k in range(len(found.store))
    ]


@settings(max_examples=300)
@given(st.lists(small, min_size=1, max_size=3), some_adjacencies, st.sampled_from(["exact", "fast"]))
def test_refinement_equals_its_definition(some, adjacencies, mode):
    expected = reference.cwl(some, adjacencies)
    found = refine(some, adjacencies=adjacencies, mode=mode)
    assert len(found.colours) == len(expected)
    assert found.rounds == len(expected) - 2
    for t, colours in enumerate(expected):
        assert partition(as_cells(found, t)) == partition(colours)


@settings(max_examples=100)
@given(st.lists(small, min_size=2, max_size=2), st.sampled_from(["exact", "fast"]), st.integers(0, 2**16))
def test_labels_are_initial_colours(some, mode, seed):
    rng = np.random.default_rng(seed)
    store = ComplexStore.from_complexes(some)
    labels = [rng.integers(0, 2, n) if d != 1 else None for d, n in enumerate(store.num_cells)]

    def initial(k, cell):
        d, i = cell
        return (d + 1, int(labels[d][store.cell_ptr[d][k] + i])) if labels[d] is not None else (0, 0)

    expected = reference.cwl(some, initial=initial)
    found = refine(store, initial=labels, mode=mode)
    for t, colours in enumerate(expected):
        assert partition(as_cells(found, t)) == partition(colours)


def test_features_as_labels():
    def coloured(x, edge_x=None):
        return cwnet.lift(cwnet.Graph(3, [(0, 1), (1, 2)], x=x, edge_x=edge_x), None)

    same = [
        (torch.tensor([6, 8, 6]), torch.tensor([6, 8, 6])),
        (torch.tensor([[6, 1], [8, 0], [6, 1]]), torch.tensor([[6, 1], [8, 0], [6, 1]])),
        (torch.tensor([0.5, 0.25, 0.5]), torch.tensor([0.5, 0.25, 0.5])),
    ]
    for a, b in same:
        assert not cwnet.distinguish(coloured(a), coloured(b), initial="features")
        assert cwnet.distinguish(coloured(a), coloured(b.flip(0).roll(1, 0)), initial="features")
    assert not cwnet.distinguish(coloured(torch.tensor([1, 2, 3])), coloured(torch.tensor([1, 2, 4])))


def test_text_as_labels():
    path = cwnet.lift((3, [(0, 1), (1, 2)]), None)
    a, b = (refine(path, initial=[labels]).histogram(0) for labels in (["C", "O", "C"], ["C", "C", "O"]))
    assert sorted(a.values()) == [1, 2, 2]
    assert sorted(b.values()) == [1, 1, 1, 1, 1]


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_max_rounds(mode):
    path = cwnet.lift((9, [(i, i + 1) for i in range(8)]), None)
    assert refine(path, mode=mode).rounds == 4
    cut = refine(path, mode=mode, max_rounds=2)
    assert (cut.rounds, len(cut.colours)) == (2, 3)


def test_uniform_and_dimension():
    triangle = cwnet.lift((3, [(0, 1), (1, 2), (2, 0)]), Rings(3))
    assert refine(triangle, mode="exact").histogram(0, 0) == {0: 7}
    assert refine(triangle, mode="exact", initial="dimension").histogram(0, 0) == {0: 3, 1: 3, 2: 1}
    assert refine(triangle, initial="dimension").histogram(0, 0) == {0: 3, 1: 3, 2: 1}


def test_fast_equals_exact_on_molecules(zinc):
    """On 400 molecules together, every round gives the same classes."""
    for initial in ("uniform", "features"):
        store = cwnet.lift_many(zinc.select(slice(0, 400)), Rings(18))
        exact, fast = (refine(store, mode=mode, initial=initial) for mode in ("exact", "fast"))
        assert exact.rounds == fast.rounds
        for a, b in zip(exact.colours, fast.colours, strict=True):
            for x, y in zip(a, b, strict=True):
                pairs = torch.unique(torch.stack([x, y]), dim=1)
                assert pairs.shape[1] == len(torch.unique(x)) == len(torch.unique(y))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"adjacencies": ["upwards"]}, "unknown adjacency 'upwards': choose from boundary, coboundary, lower, upper"),
        ({"initial": "colourful"}, "initial='colourful'"),
        ({"initial": [[1, 2]]}, "2 labels for 3 cells of dimension 0"),
        ({"initial": [None] * 5}, "labels for 5 dimensions"),
        ({"mode": "quick"}, "mode='quick'"),
        ({"max_rounds": -1}, "max_rounds=-1"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        refine(cwnet.lift((3, [(0, 1)]), Rings(6)), **options)
    with pytest.raises(TypeError, match="labels of dimension 0 are object"):
        refine(cwnet.lift((1, []), None), initial=[[{}]])


def test_a_union_of_all_liftings_is_refined():
    store = ComplexStore.from_complexes(
        [cwnet.lift((5, [(i, j) for i in range(5) for j in range(i)]), Cliques(5) | Cycles(5))]
    )
    assert refine(store).colours[-1][4].tolist() == refine(store, mode="exact").colours[-1][4].tolist()
