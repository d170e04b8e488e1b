"""The paper's theorems on the cellular WL test, by name."""

from itertools import combinations

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cwnet
from cwnet import Cliques, Cycles, Rings
from cwnet.wl import ADJACENCIES, classes, refine
from cwnet.wl._refine import certify, refine_fast
from tests.strategies import complexes, small_graphs

HEXAGON = nx.cycle_graph(6)
TRIANGLES = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
# Decalin: two hexagons that share an edge. Bicyclopentyl: two pentagons joined by an edge.
DECALIN = nx.Graph([*nx.cycle_graph(10).edges, (0, 5)])
BICYCLOPENTYL = nx.Graph([*nx.disjoint_union(nx.cycle_graph(5), nx.cycle_graph(5)).edges, (0, 5)])
FAMILIES = ["sr16622", "sr251256", "sr261034", "sr281264", "sr291467", "sr351668", "sr351899", "sr361446", "sr401224"]


@pytest.fixture(scope="module")
def atlas():
    """All connected graphs with at most seven vertices, up to isomorphism."""
    graphs = [g for g in nx.graph_atlas_g() if len(g) and nx.is_connected(g)]
    assert len(graphs) == 1 + 1 + 2 + 6 + 21 + 112 + 853
    return graphs


def same_partition(a, b):
    pairs = torch.unique(torch.stack([a, b]), dim=1)
    return pairs.shape[1] == len(torch.unique(a)) == len(torch.unique(b))


@pytest.fixture(scope="module")
def stubborn():
    """Graphs that no test here with rings of up to six tells apart one by one: unions of two cycles, some with a tail.

    On the atlas every test puts every graph into a class of its own, and whatever has classes of one refines anything.
    """
    graphs = []
    for total in (20, 21):
        for first in range(3, 11):
            both = nx.disjoint_union(nx.cycle_graph(first), nx.cycle_graph(total - first))
            graphs += [both, nx.compose(both, nx.Graph([(total - 1, total)])), nx.compose(both, nx.Graph([(0, total)]))]
    return graphs


def has_classes_of_several(found):
    """Whether a partition is neither of classes of one nor one class."""
    return 1 < len(torch.unique(found)) < len(found)


def refines(a, b):
    """Whether graphs in one class of a are in one class of b."""
    return torch.unique(torch.stack([a, b]), dim=1).shape[1] == len(torch.unique(a))


def by_histogram(store, adjacencies):
    fast = refine_fast(store, adjacencies=adjacencies, keep_history=True)
    return in_classes(fast.histograms[fast.history_ptr[1:] - 1])


def in_classes(words):
    return torch.unique(torch.from_numpy(words.view("int64")), dim=0, return_inverse=True)[1]


SPARSE, WITHOUT_COBOUNDARY = ("boundary", "upper"), ("boundary", "lower", "upper")


class TestTheoremSparseCWL:
    """CWL without coboundary and lower adjacencies is as powerful as CWL with all of them.

    With it Lemma 'drop cofaces': the same without coboundaries alone.
    """

    @settings(max_examples=2000)
    @given(st.lists(complexes, min_size=2, max_size=4))
    def test_on_random_complexes(self, some):
        store = cwnet.ComplexStore.from_complexes(some)
        full = by_histogram(store, ADJACENCIES)
        for adjacencies in (SPARSE, WITHOUT_COBOUNDARY):
            assert same_partition(by_histogram(store, adjacencies), full)
        assert same_partition(in_classes(certify(store)), full)

    @settings(max_examples=200)
    @given(complexes)
    def test_the_stable_colourings_are_the_same_cell_by_cell(self, complex_):
        full = torch.cat(refine(complex_, adjacencies=ADJACENCIES).colours[-1])
        for adjacencies in (SPARSE, WITHOUT_COBOUNDARY):
            assert same_partition(torch.cat(refine(complex_, adjacencies=adjacencies).colours[-1]), full)

    def test_on_the_atlas(self, atlas):
        for lifting in (Rings(7), Cliques(4), Cycles(5)):
            store = cwnet.lift_many(atlas, lifting)
            full = by_histogram(store, ADJACENCIES)
            for adjacencies in (SPARSE, WITHOUT_COBOUNDARY):
                assert same_partition(by_histogram(store, adjacencies), full)
            assert same_partition(in_classes(certify(store)), full)

    @pytest.mark.parametrize("family", FAMILIES)
    @pytest.mark.parametrize("k", [4, 5])
    def test_on_strongly_regular_graphs(self, sr_family, family, k):
        graphs = sr_family(family)
        store = cwnet.lift_many(graphs[::40] if len(graphs) > 1000 else graphs, Rings(k))
        full = by_histogram(store, ADJACENCIES)
        for adjacencies in (SPARSE, WITHOUT_COBOUNDARY):
            assert same_partition(by_histogram(store, adjacencies), full)
        assert same_partition(in_classes(certify(store)), full)


class TestTheoremSkeletonPreserving:
    """CWL on a skeleton-preserving lifting is at least as powerful as WL."""

    def test_on_the_atlas(self, atlas):
        wl = classes(atlas, test="wl")
        for lifting in (Rings(3), Rings(7), Cycles(6), Cliques(4), Cliques(3) | Rings(5)):
            assert refines(classes(atlas, lifting), wl)

    @pytest.mark.parametrize("lifting", [Rings(3), Rings(6), Cycles(6), Cliques(4), Cliques(3) | Rings(5)], ids=repr)
    def test_on_graphs_that_stay_together(self, stubborn, lifting):
        wl, cwl = classes(stubborn, test="wl"), classes(stubborn, lifting)
        assert has_classes_of_several(wl)
        assert has_classes_of_several(cwl)
        assert refines(cwl, wl)

    def test_these_graphs_show_what_a_weaker_test_forgets(self, stubborn):
        wl, store = classes(stubborn, test="wl"), cwnet.lift_many(stubborn, Rings(6))
        for adjacencies in (("boundary",), ("coboundary",)):
            assert not refines(by_histogram(store, adjacencies), wl)

    @settings(max_examples=300)
    @given(small_graphs, small_graphs)
    def test_on_random_pairs(self, a, b):
        if cwnet.distinguish(a, b, test="wl"):
            assert cwnet.distinguish(a, b, Rings(6))
            assert cwnet.distinguish(a, b, Cliques(4))


class TestCorollaryStrictlyMorePowerfulThanWL:
    """CWL(k-CL), CWL(k-IC) and CWL(k-C) are strictly more powerful than WL, for all k ≥ 3."""

    @pytest.mark.parametrize("k", [3, 4, 6])
    @pytest.mark.parametrize("kind", [Cliques, Rings, Cycles])
    def test_two_triangles_and_a_hexagon(self, kind, k):
        assert not cwnet.distinguish(TRIANGLES, HEXAGON, test="wl")
        assert cwnet.distinguish(TRIANGLES, HEXAGON, kind(k))

    def test_decalin_and_bicyclopentyl(self):
        assert not cwnet.distinguish(DECALIN, BICYCLOPENTYL, test="wl")
        assert not cwnet.distinguish(DECALIN, BICYCLOPENTYL, test="swl")
        assert cwnet.distinguish(DECALIN, BICYCLOPENTYL, Rings(5))
        assert cwnet.distinguish(DECALIN, BICYCLOPENTYL, Cycles(5))

    def test_on_the_atlas(self, atlas):
        wl = classes(atlas, test="wl")
        assert len(torch.unique(classes(atlas, Rings(3)))) > len(torch.unique(wl))


class TestTheoremNotLessPowerfulThan3WL:
    """Rook 4x4 and Shrikhande: 3-WL (= 2-FWL) fails, CWL does not from k = 4 (CL, IC) and k = 8 (C) on."""

    def test_folklore(self, rook, shrikhande):
        assert not cwnet.distinguish(rook, shrikhande, test="2-fwl")
        assert not cwnet.distinguish(rook, shrikhande, test="3-wl")
        assert cwnet.distinguish(rook, shrikhande, test="3-fwl")

    @pytest.mark.parametrize("mode", ["fast", "exact"])
    @pytest.mark.parametrize(("kind", "threshold"), [(Cliques, 4), (Rings, 4), (Cycles, 8)])
    def test_the_thresholds_are_sharp_on_this_pair(self, rook, shrikhande, kind, threshold, mode):
        assert not cwnet.distinguish(rook, shrikhande, kind(threshold - 1), mode=mode)
        assert cwnet.distinguish(rook, shrikhande, kind(threshold), mode=mode)

    @pytest.mark.parametrize("family", FAMILIES[:5])
    def test_no_strongly_regular_family_is_resolved_by_2_fwl(self, sr_family, family):
        assert classes(sr_family(family), test="2-fwl").max() == 0


class TestTheoremStrictlyMorePowerfulThanSWL:
    """CWL(k1-CL ∪ k2-IC) and CWL(k1-CL ∪ k2-C) are strictly above SWL(k1-CL), for k2 ≥ 5."""

    def test_at_least_as_powerful(self, atlas):
        for k in (3, 4):
            swl = classes(atlas, Cliques(k), test="swl")
            assert refines(classes(atlas, Cliques(k) | Rings(5)), swl)
            assert refines(classes(atlas, Cliques(k) | Cycles(5)), swl)

    @pytest.mark.parametrize("k", [3, 4])
    @pytest.mark.parametrize("rings", [Rings(5), Cycles(5)], ids=repr)
    def test_on_graphs_that_stay_together(self, stubborn, k, rings):
        swl, cwl = classes(stubborn, Cliques(k), test="swl"), classes(stubborn, Cliques(k) | rings)
        assert has_classes_of_several(swl)
        assert has_classes_of_several(cwl)
        assert refines(cwl, swl)
        assert not refines(swl, cwl)

    @pytest.mark.parametrize("k", [3, 4, 5])
    def test_strictly(self, k):
        assert not cwnet.distinguish(DECALIN, BICYCLOPENTYL, Cliques(k), test="swl")
        assert cwnet.distinguish(DECALIN, BICYCLOPENTYL, Cliques(k) | Rings(5))
        assert cwnet.distinguish(DECALIN, BICYCLOPENTYL, Cliques(k) | Cycles(5))


class TestPropositionBoundarySize:
    """From round 1 on, cells with boundaries of different sizes have different colours."""

    @given(complexes)
    def test_on_random_complexes(self, complex_):
        found = refine(complex_)
        for t in range(1, len(found.colours)):
            size_of = {}
            for d, colours in enumerate(found.of(0, t)):
                for colour, size in zip(colours, complex_.boundary(d).sizes.tolist(), strict=True):
                    assert size_of.setdefault(colour, size) == size


class TestPropositionSimplexIdentification:
    """After enough rounds no simplex shares a colour with a cell that is none."""

    @settings(max_examples=200)
    @given(small_graphs)
    def test_on_unions_of_cliques_and_rings(self, graph):
        complex_ = cwnet.lift(graph, Cliques(5) | Rings(7))
        found = refine(complex_)
        last = found.of(0)
        simplices, others = set(), set()
        for d, colours in enumerate(last):
            for colour, cell in zip(colours, complex_.cells(d), strict=True):
                (simplices if len(cell) == d + 1 else others).add(colour)
        assert not simplices & others


def test_pairs_of_the_atlas_one_by_one(atlas):
    """Classes and verdicts agree: graphs are in one class exactly if `distinguish` does not tell them apart."""
    some = atlas[200:240]
    class_of = classes(some, Rings(5))
    for (i, a), (j, b) in combinations(enumerate(some), 2):
        assert bool(cwnet.distinguish(a, b, Rings(5))) == bool(class_of[i] != class_of[j])


class TestExactAndFastAgree:
    """The fast mode's 128-bit sums give the classes of the exact mode."""

    @staticmethod
    def exact_classes(store):
        found = refine(store, mode="exact")
        histograms = [tuple(sorted(found.histogram(i).items())) for i in range(len(store))]
        return torch.tensor([histograms.index(h) for h in histograms])

    @pytest.mark.parametrize("lifting", [None, Rings(6), Cycles(5), Cliques(4), Cliques(4) | Rings(5)], ids=repr)
    def test_on_the_atlas(self, atlas, lifting):
        store = cwnet.lift_many(atlas, lifting)
        assert same_partition(self.exact_classes(store), classes(store))

    @pytest.mark.parametrize("family", FAMILIES)
    @pytest.mark.parametrize("k", [4, 5])
    def test_on_strongly_regular_graphs(self, sr_family, family, k):
        store = cwnet.lift_many(sr_family(family)[:15], Rings(k))
        assert same_partition(self.exact_classes(store), classes(store))
