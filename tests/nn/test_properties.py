"""The paper's list of what CW Networks inherit from the cellular WL test, and what its theorem on them needs."""

import networkx as nx
import pytest
import torch

import cwnet
from cwnet import Cliques, Cycles, Rings
from cwnet.experiments.sr import sr_network
from cwnet.nn import CINConv, Readout, gin
from cwnet.nn.encoders import CellEncoder, Constant
from cwnet.wl import classes, refine

#: Relative to the size of the vectors, in float64.
SAME, APART = 1e-10, 1e-6

TRIANGLES, HEXAGON = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)), nx.cycle_graph(6)
DECALIN = nx.Graph([*nx.cycle_graph(10).edges, (0, 5)])
BICYCLOPENTYL = nx.Graph([*nx.disjoint_union(nx.cycle_graph(5), nx.cycle_graph(5)).edges, (0, 5)])


def distance(vectors):
    a, b = vectors
    return float((a - b).norm() / torch.maximum(a.norm(), b.norm()))


@torch.no_grad()
def apart(a, b, lifting, layers=3, seed=0):
    """How far the vectors of two graphs lie apart in a CIN with random weights."""
    store = cwnet.lift_many([a, b], lifting)
    torch.manual_seed(seed)
    return distance(sr_network(16, layers, dim=len(store.cell_ptr) - 1).double().embed(store.batch()))


@torch.no_grad()
def apart_in_gin(a, b, layers=4, seed=0):
    torch.manual_seed(seed)
    model = gin(CellEncoder([Constant(1, learnt=False)]), 16, layers, width_in=1, act="elu", norm="none").double()
    return distance(model.embed(cwnet.lift_many([a, b], None).batch()))


@pytest.mark.parametrize("seed", range(3))
class TestCorollaryPropertiesOfCWNs:
    """Each property on the pair of graphs that proves it, with random weights."""

    def test_1_at_least_as_powerful_as_wl(self, seed):
        """On all connected graphs with five vertices."""
        graphs = [g for g in nx.graph_atlas_g() if len(g) == 5 and nx.is_connected(g)]
        class_of = classes(graphs, test="wl")
        for lifting in (Rings(5), Cycles(4), Cliques(4)):
            store = cwnet.lift_many(graphs, lifting)
            torch.manual_seed(seed)
            with torch.no_grad():
                vectors = sr_network(16, 4, dim=len(store.cell_ptr) - 1).double().embed(store.batch())
            for i in range(len(graphs)):
                for j in range(i):
                    assert class_of[i] == class_of[j] or distance(vectors[[i, j]]) > APART

    @pytest.mark.parametrize("kind", [Rings, Cycles, Cliques])
    @pytest.mark.parametrize("k", [3, 6])
    def test_2_strictly_more_powerful_than_wl(self, kind, k, seed):
        assert apart_in_gin(TRIANGLES, HEXAGON, seed=seed) < SAME
        assert apart(TRIANGLES, HEXAGON, None, seed=seed) < SAME
        assert apart(TRIANGLES, HEXAGON, kind(k), seed=seed) > APART

    @pytest.mark.parametrize("lifting", [Cliques(4), Rings(4), Rings(5), Cycles(8)], ids=repr)
    def test_3_not_less_powerful_than_3_wl(self, rook, shrikhande, lifting, seed):
        assert not cwnet.distinguish(rook, shrikhande, test="3-wl")
        assert apart(rook, shrikhande, lifting, seed=seed) > APART
        assert apart(rook, shrikhande, type(lifting)(3), seed=seed) < SAME

    def test_4_at_least_as_powerful_as_simplicial_networks(self, rook, shrikhande, seed):
        """What a network tells apart on cliques, it tells apart on cliques and rings."""
        for a, b in ((TRIANGLES, HEXAGON), (rook, shrikhande)):
            assert apart(a, b, Cliques(4), seed=seed) > APART
            assert apart(a, b, Cliques(4) | Rings(6), seed=seed) > APART

    @pytest.mark.parametrize("k", [3, 4])
    def test_5_strictly_more_powerful_than_simplicial_networks(self, k, seed):
        assert apart(DECALIN, BICYCLOPENTYL, Cliques(k), seed=seed) < SAME
        for lifting in (Cliques(k) | Rings(5), Cliques(k) | Cycles(5), Rings(5)):
            assert apart(DECALIN, BICYCLOPENTYL, lifting, seed=seed) > APART


class TestTheoremAsPowerfulAsCWLNeeds:
    """What the theorem does not say."""

    @torch.no_grad()
    def test_a_readout_that_counts(self):
        """Injective layers are not enough: a mean over cells does not tell one hexagon from two."""
        store = cwnet.lift_many([HEXAGON, nx.disjoint_union(HEXAGON, HEXAGON)], Rings(6))
        assert cwnet.distinguish(store[0], store[1])
        batch = store.batch()
        x = [torch.ones(n, 8, dtype=torch.float64) for n in batch.num_cells]
        torch.manual_seed(0)
        for _ in range(3):
            x = CINConv(8, act="elu", norm="none").double()(x, batch)
        assert distance(Readout(8, 16, pool="mean", act="tanh").double()(x, batch)) < SAME
        assert distance(Readout(8, 16, pool="sum", act="tanh").double()(x, batch)) > APART
        assert distance(Readout(8, 16, pool="both", act="tanh").double()(x, batch)) > APART

    @torch.no_grad()
    def test_rounds_for_weights_of_each_dimension(self):
        """With weights per dimension a layer can be ahead of a round: c^t ⊑ h^t holds inside dimensions only.

        A filled square and a filled tetrahedron have one colour after round 1, and two vectors after layer 1.
        """
        store = cwnet.lift_many([nx.cycle_graph(4), nx.complete_graph(4)], Cliques(4) | Rings(4))
        found, batch = refine(store), store.batch()
        square = solid = 0  # the first of all 2-cells, the first of all 3-cells
        assert batch.boundary(2).sizes[square] == batch.boundary(3).sizes[solid] == 4
        x = [torch.ones(n, 8, dtype=torch.float64) for n in batch.num_cells]
        torch.manual_seed(0)
        after = CINConv(8, dim=3, act="elu", norm="none").double()(x, batch)
        assert found.colours[1][2][square] == found.colours[1][3][solid]
        assert distance([after[2][square], after[3][solid]]) > APART
        assert found.colours[2][2][square] != found.colours[2][3][solid]
