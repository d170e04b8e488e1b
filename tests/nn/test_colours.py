"""Colours inside a network are those of the test, and counts of them are what they are by hand."""

from collections import Counter
from dataclasses import replace

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cwnet
from cwnet import Rings, collate, lift
from cwnet.complexes import ComplexStore
from cwnet.lifting import relabelled
from cwnet.nn import Beside, ColourCounts, Readout, cin, from_config, to_config
from cwnet.nn.colours import refined_colours
from cwnet.nn.models import molecule_encoder
from tests import strategies
from tests.reference.refinement import cwl


def flat(colours):
    """{(dimension, number): colour} of a complex."""
    return {(d, i): c for d, of_dim in enumerate(colours) for i, c in enumerate(of_dim.tolist())}


def same_classes(a, b):
    """Whether two colourings of the same cells put the same cells together."""
    return len({(a[cell], b[cell]) for cell in a}) == len(set(a.values())) == len(set(b.values()))


@given(strategies.complexes, st.integers(0, 2**32 - 1))
def test_classes_are_those_of_the_definition(complex_, seed):
    """Also where cells carry numbers: dimension and number are the first colour."""
    chance = torch.Generator().manual_seed(seed)
    x = [torch.randint(2, (n, 2), generator=chance) if n else None for n in complex_.num_cells]
    complex_ = replace(complex_, x=tuple(x))
    rounds = cwl([complex_], initial=lambda k, cell: (cell[0], *x[cell[0]][cell[1]].tolist()))
    found = refined_colours(complex_, len(rounds) - 1)
    for by_definition, colours in zip(rounds, found, strict=True):
        assert same_classes(by_definition[0], flat(colours))


@given(strategies.small_graphs, st.integers(0, 2**32 - 1))
def test_renumbered_cells_have_the_same_colours(graph, seed):
    one, two = lift(graph, Rings(6)), lift(relabelled(graph, seed)[0], Rings(6))
    for a, b in zip(refined_colours(one, 3), refined_colours(two, 3), strict=True):
        assert [Counter(c.tolist()) for c in a] == [Counter(c.tolist()) for c in b]


def test_decalin_and_bicyclopentyl():
    """The pair that WL can not tell apart: rings are cells, so colours can."""
    decalin = nx.Graph([*nx.cycle_graph(6).edges, (0, 6), (6, 7), (7, 8), (8, 9), (9, 1)])
    pentyls = nx.disjoint_union(nx.cycle_graph(5), nx.cycle_graph(5))
    pentyls.add_edge(0, 5)
    counts = ColourCounts(512, 4, rounds=4)
    with_rings = counts.counts(collate([lift(g, Rings(6)) for g in (decalin, pentyls)]))
    without = ColourCounts(512, 4, rounds=4, dim=1).counts(collate([lift(g, Rings(6)) for g in (decalin, pentyls)]))
    assert not torch.equal(*with_rings)
    assert torch.equal(*without)


def molecules():
    store = cwnet.lift_many([nx.cycle_graph(n) for n in (3, 6, 7)] + [nx.path_graph(4), nx.complete_graph(4)], Rings(6))
    chance = torch.Generator().manual_seed(0)
    sizes = [int(ptr[-1]) for ptr in store.cell_ptr]
    x = (torch.randint(28, (sizes[0], 1), generator=chance), torch.randint(4, (sizes[1], 1), generator=chance), None)
    return replace(store, x=x)


def test_counts_by_hand():
    store: ComplexStore = molecules()
    part = ColourCounts(64, 4, rounds=2)
    got = part.counts(store.batch(torch.arange(len(store))))
    assert got.shape == (5, 64)
    for i in range(len(store)):
        want = Counter(int(c) % 64 for seen in refined_colours(store[i], 2) for of_dim in seen for c in of_dim)
        assert {k: int(n) for k, n in enumerate(got[i]) if n} == want


def test_a_network_with_counts():
    store = molecules()
    model = cin(molecule_encoder(8), 8, 2, counts=128, rounds=1).eval()
    assert isinstance(model.readout, Beside)
    together = model(store.batch(torch.arange(len(store))))
    alone = torch.cat([model(store[i]) for i in range(len(store))])
    torch.testing.assert_close(together, alone)
    again = from_config(to_config(model)).eval()
    again.load_state_dict(model.state_dict())
    torch.testing.assert_close(again(store.batch(torch.arange(len(store)))), together)
    together.sum().backward()
    counts = model.readout.readouts[1]
    assert float(counts.linear.weight.grad.abs().sum()) > 0
    x = model.cell_features(store.batch(torch.arange(len(store))))
    parts = [readout(x, store.batch(torch.arange(len(store)))) for readout in model.readout.readouts]
    torch.testing.assert_close(model.readout(x, store.batch(torch.arange(len(store)))), parts[0] + parts[1])
    assert isinstance(model.readout.readouts[0], Readout)


def test_real_numbers_have_no_colours():
    complex_ = replace(lift(nx.cycle_graph(4), Rings(6)), x=(torch.rand(4, 1), None, None))
    with pytest.raises(TypeError, match=r"x\[0\] is torch.float32"):
        refined_colours(complex_, 1)


@pytest.mark.parametrize("options", [{"size": 0, "width": 4}, {"size": 8, "width": 4, "rounds": -1}])
def test_there_must_be_a_column(options):
    with pytest.raises(ValueError, match="there must be a column"):
        ColourCounts(**options)
