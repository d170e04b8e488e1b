"""Counts of rings through vertices and edges."""

from dataclasses import replace

import networkx as nx
import pytest
import torch
from hypothesis import given, settings

import cwnet
from cwnet import Cycles, Rings
from cwnet.complexes import collate
from cwnet.nn import CellEncoder, CycleCounts
from cwnet.nn.encoders import Categories, FromVertices, Linear, Sum
from cwnet.nn.testing import permuted
from tests.nn.padding import assert_padding_safe
from tests.nn.parts import check_config, random_batch, random_complex
from tests.reference.layers import assert_agree, boundaries, linear, randomise, vertices
from tests.strategies import small_graphs

LARGEST = 6


def counted(complex_, d, largest=LARGEST):
    """For every d-cell, how many 2-cells of each size it lies on, one by one."""
    edges = boundaries(complex_)[2]
    members = {0: vertices(complex_, 2), 1: edges, 2: [[i] for i in range(len(edges))]}[d]
    found = torch.zeros(complex_.num_cells[d], largest - 2, dtype=torch.float64)
    for ring, cells in zip(edges, members, strict=True):
        for cell in cells:
            if 3 <= len(ring) <= largest:
                found[cell, len(ring) - 3] += 1
    return found


class TestCounts:
    @settings(max_examples=60, deadline=None)
    @given(small_graphs)
    def test_one_by_one(self, graph):
        complex_ = cwnet.lift(graph, Rings(7))
        for d in range(3):
            assert torch.equal(CycleCounts(LARGEST, 4).double().counts(complex_, d), counted(complex_, d))

    def test_cycles_of_a_complete_graph(self):
        """Every vertex of K5 lies on 6 triangles, 12 squares and 12 pentagons."""
        complex_ = cwnet.lift(nx.complete_graph(5), Cycles(5))
        assert CycleCounts(5, 4).counts(complex_, 0).tolist() == [[6, 12, 12]] * 5
        assert CycleCounts(5, 4).counts(complex_, 1).tolist() == [[3, 6, 6]] * 10

    def test_no_rings(self):
        complex_ = cwnet.lift(nx.path_graph(3), Rings(6))
        assert not CycleCounts(6, 4)(None, None, complex_, 0).any()
        assert CycleCounts(6, 4)(None, None, complex_, 2).shape == (0, 4)

    def test_rings_of_two_parallel_edges_are_not_counted(self):
        sphere = cwnet.CellComplex.from_boundaries(2, [[(0, 1), (0, 1)], [(0, 1), (0, 1)]])
        assert not CycleCounts(6, 4).counts(sphere, 0).any()


@pytest.mark.parametrize("d", [0, 1, 2])
def test_equation(d):
    encoder = randomise(CycleCounts(LARGEST, 4).double())
    batch = random_batch()
    expected = [linear(encoder.linear, torch.log(1 + c)) for c in counted(batch, d)]
    found = encoder(None, None, batch, d)
    assert_agree([found], [torch.stack(expected)], dict(encoder.named_parameters()), 1e-12)


def test_equivariance():
    encoder = CellEncoder([CycleCounts(LARGEST, 4), CycleCounts(LARGEST, 4), CycleCounts(LARGEST, 4)]).double()
    cells = random_complex(2, 0)
    orders = [torch.randperm(n, generator=torch.Generator().manual_seed(d)) for d, n in enumerate(cells.num_cells)]
    for found, expected, order in zip(encoder(permuted(cells, orders)), encoder(cells), orders, strict=True):
        torch.testing.assert_close(found, expected[order])


def with_features():
    """A batch with numbers on vertices and categories on edges, and an encoder of these and of rings."""
    rng = torch.Generator().manual_seed(0)
    complexes = [random_complex(2, seed) for seed in range(3)]
    x = [
        (torch.randn(c.num_cells[0], 2, generator=rng).double(), torch.randint(4, (c.num_cells[1], 1), generator=rng))
        for c in complexes
    ]
    batch = collate([replace(c, x=(*h, None)) for c, h in zip(complexes, x, strict=True)])
    encoder = CellEncoder(
        [
            Sum([Linear(2, 8), CycleCounts(LARGEST, 8)]),
            Sum([Categories([4], 8), CycleCounts(LARGEST, 8)]),
            FromVertices(),
        ]
    )
    return batch, randomise(encoder.double())


def test_beside_other_features():
    batch, encoder = with_features()
    found = encoder(batch)
    for d in range(2):
        parts = [one(batch.x[d], None, batch, d) for one in encoder.encoders[d].encoders]
        assert len(parts) == 2
        torch.testing.assert_close(found[d], parts[0] + parts[1])


def test_padding():
    batch, encoder = with_features()
    assert_padding_safe(encoder, lambda encoder, x, cells: encoder(cells), batch)


def test_configuration():
    check_config(with_features()[1])


class TestErrors:
    def test_nothing_to_count(self):
        with pytest.raises(ValueError, match="largest=2"):
            CycleCounts(2, 4)

    def test_graphs_without_rings(self):
        with pytest.raises(ValueError, match="list no 2-cells to count"):
            CycleCounts(6, 4)(None, None, cwnet.lift(nx.cycle_graph(3), None), 0)

    def test_higher_dimensions(self):
        with pytest.raises(ValueError, match="dimension 3 do not lie on rings"):
            CycleCounts(6, 4)(None, None, random_complex(3, 0), 3)
