"""The lemmas behind the paper's theorems on the cellular WL test, round by round, and where they end."""

from collections import Counter
from itertools import chain

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cwnet
from cwnet import CellComplex, Cliques, ComplexStore, Cycles, Rings
from cwnet.lifting import Custom
from cwnet.nn.testing import permuted
from cwnet.topology import betti_numbers
from cwnet.wl import ADJACENCIES, classes, refine
from tests.reference.spaces import SPACES
from tests.strategies import complexes, seeds, small_graphs

SPARSE, WITHOUT_COBOUNDARY = ("boundary", "upper"), ("boundary", "lower", "upper")
#: Liftings of random graphs, and surfaces and solids with cells of other shapes, parallel edges among them.
regular = st.one_of(complexes, st.sampled_from([space for space, *_ in SPACES.values()]))
some_complexes = st.lists(regular, min_size=1, max_size=3)
some_clique_complexes = st.lists(st.builds(cwnet.lift, small_graphs, st.just(Cliques(6))), min_size=1, max_size=3)


def at(found, t):
    """The colours of all cells in round t; after the last round that was run, classes do not change."""
    return torch.cat(found.colours[min(t, len(found.colours) - 1)])


def finer(a, b):
    """Whether cells with one colour in a have one colour in b: a ⊑ b."""
    return torch.unique(torch.stack([a, b]), dim=1).shape[1] == len(torch.unique(a))


def random_labels(store, seed):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 2, n) for n in store.num_cells]


def rounds_of(*found):
    return range(max(len(f.colours) for f in found) + 1)


class TestDefinitionColouring:
    """Definitions 'cellular colouring' and 'c-similar': isomorphic complexes have the same histograms."""

    @settings(max_examples=100)
    @given(regular, seeds)
    def test_permuted_cells_keep_their_colours(self, complex_, seed):
        generator = torch.Generator().manual_seed(seed)
        orders = [torch.randperm(n, generator=generator) for n in complex_.num_cells]
        found = refine([complex_, permuted(complex_, orders, generator)], adjacencies=ADJACENCIES)
        for t in range(len(found.colours)):
            for order, ours, theirs in zip(orders, found.of(0, t), found.of(1, t), strict=True):
                assert [ours[i] for i in order.tolist()] == theirs
            assert found.histogram(0, t) == found.histogram(1, t)


class TestPropositionRefineMultiset:
    """If c ⊑ d, multisets of cells that differ in d differ in c; with it its corollary on whole complexes.

    Colours of a later round refine those of an earlier one.
    """

    @settings(max_examples=150)
    @given(regular, regular, st.data())
    def test_on_any_cells(self, x, y, data):
        found = refine([x, y], initial=random_labels(ComplexStore.from_complexes([x, y]), data.draw(seeds)))
        colours = [[[*chain(*found.of(i, t))] for i in (0, 1)] for t in range(len(found.colours))]
        chosen = [data.draw(st.sets(st.integers(0, len(colours[0][i]) - 1))) for i in (0, 1)]
        for cells in (chosen, [range(len(colours[0][i])) for i in (0, 1)]):
            differ = [Counter(c[0][s] for s in cells[0]) != Counter(c[1][s] for s in cells[1]) for c in colours]
            assert differ == sorted(differ), "told apart in one round, and no longer in a later one"

    @settings(max_examples=150)
    @given(some_complexes, st.sets(st.sampled_from(ADJACENCIES), min_size=1).map(sorted))
    def test_rounds_refine_each_other(self, some, adjacencies):
        found = refine(some, adjacencies=adjacencies)
        for t in range(1, len(found.colours)):
            assert finer(at(found, t), at(found, t - 1))


class TestLemmaDropCofaces:
    """Without coboundaries CWL is one round behind: a^t ⊑ b^t and b^(t+1) ⊑ a^t."""

    @settings(max_examples=200)
    @given(some_complexes, st.none() | seeds)
    def test_round_by_round(self, some, seed):
        store = ComplexStore.from_complexes(some)
        initial = "uniform" if seed is None else random_labels(store, seed)
        full, without = (refine(store, adjacencies=a, initial=initial) for a in (ADJACENCIES, WITHOUT_COBOUNDARY))
        for t in rounds_of(full, without):
            assert finer(at(full, t), at(without, t))
            assert finer(at(without, t + 1), at(full, t))

    def test_one_round_behind_is_sharp(self):
        """An edge on a hexagon, one on a triangle and a square: five upper neighbours by way of one coface or two."""
        hexagon = cwnet.lift(nx.Graph([*nx.cycle_graph(6).edges, (0, 6), (1, 7)]), Rings(6))
        house = cwnet.lift(nx.house_graph(), Rings(6))
        one, two = hexagon.cells(1).index((0, 1)), house.cells(1).index((2, 3))
        for adjacencies, told in ((WITHOUT_COBOUNDARY, False), (ADJACENCIES, True)):
            found = refine([hexagon, house], adjacencies=adjacencies)
            assert (found.of(0, 1)[1][one] != found.of(1, 1)[1][two]) == told
            assert found.of(0, 2)[1][one] != found.of(1, 2)[1][two]


class TestTheoremSparseCWL:
    """Without coboundaries and lower neighbours CWL takes at most twice the rounds: b^(2t+1) ⊑ a^t."""

    @staticmethod
    def check(some, seed):
        store = ComplexStore.from_complexes(some)
        initial = "uniform" if seed is None else random_labels(store, seed)
        full, without, sparse = (
            refine(store, adjacencies=a, initial=initial) for a in (ADJACENCIES, WITHOUT_COBOUNDARY, SPARSE)
        )
        for t in rounds_of(full, without, sparse):
            assert finer(at(without, t), at(sparse, t))
            assert finer(at(sparse, 2 * t + 1), at(without, t))
            assert finer(at(sparse, 2 * t + 3), at(full, t))

    @settings(max_examples=200)
    @given(some_complexes, st.none() | seeds)
    def test_round_by_round(self, some, seed):
        self.check(some, seed)

    @settings(max_examples=100)
    @given(some_clique_complexes, st.none() | seeds)
    def test_on_simplicial_complexes(self, some, seed):
        """The theorem of the simplicial paper, which this one extends."""
        self.check(some, seed)

    def test_it_does_take_more_rounds(self):
        """On a path, news of the far end passes from edge to edge at once, and by way of vertices later."""
        path = cwnet.lift(nx.path_graph(12), None)
        full, sparse = refine(path, adjacencies=ADJACENCIES), refine(path, adjacencies=SPARSE)
        assert any(not finer(at(sparse, t), at(full, t)) for t in range(1, full.rounds + 1))


class TestPropositionPartitionLowerAdjacencies:
    """Cells whose boundaries meet a colour C₀ above a colour C₁ in different numbers come apart two rounds later."""

    @settings(max_examples=100)
    @given(st.lists(regular.filter(lambda c: sum(c.num_cells) < 120), min_size=1, max_size=2))
    def test_on_regular_complexes(self, some):
        found = refine(some, adjacencies=SPARSE)
        last = len(found.colours) - 1
        for t in range(1, last + 1):
            now, later = min(t, last), min(t + 2, last)
            seen = {}
            for i, complex_ in enumerate(some):
                before, after = found.of(i, now), found.of(i, later)
                for d in range(1, len(complex_.num_cells)):
                    above = [Counter(before[d][c] for c in row) for row in complex_.coboundary(d - 1).tolist()]
                    for cell, faces in enumerate(complex_.boundary(d).tolist()):
                        # All pairs (C₀, C₁) at once: per boundary cell its colour C₁, and how often each C₀ is above.
                        counts = sorted((before[d - 1][f], sorted(above[f].items())) for f in faces)
                        assert seen.setdefault(after[d][cell], counts) == counts


class TestPropositionSimplexIdentification:
    """An n-simplex shares no colour with a cell that is none, from round n + 1 on."""

    @settings(max_examples=200)
    @given(small_graphs)
    def test_from_round_n_plus_1_on(self, graph):
        complex_ = cwnet.lift(graph, Cliques(5) | Rings(7) | Cycles(4))
        found = refine(complex_)
        kinds = [[len(cell) == d + 1 for cell in complex_.cells(d)] for d in range(len(complex_.num_cells))]
        for n, is_simplex in enumerate(kinds):
            for t in range(n + 1, max(len(found.colours), n + 2)):
                colours = found.of(0, min(t, len(found.colours) - 1))
                simplices = {c for c, yes in zip(colours[n], is_simplex, strict=True) if yes}
                others = {
                    c
                    for d, many in enumerate(colours)
                    for c, yes in zip(many, kinds[d], strict=True)
                    if not (d == n and yes)
                }
                assert not simplices & others

    def test_round_n_is_too_early(self):
        """A filled square and a filled tetrahedron have four cells on their boundary: round 1 tells no more."""
        square, tetrahedron = cwnet.lift(nx.cycle_graph(4), Rings(4)), cwnet.lift(nx.complete_graph(4), Cliques(4))
        found = refine([square, tetrahedron])
        assert found.of(0, 1)[2][0] == found.of(1, 1)[3][0]
        assert found.of(0, 2)[2][0] != found.of(1, 2)[3][0]

    def test_counter_example_with_parallel_edges(self):
        """A ball with four triangles around it need not be a tetrahedron, and CWL does not see that it is none.

        Two tetrahedra with their vertices glued, and two pillows: every vertex is on six edges, every edge on two
        triangles, every triangle on one 3-cell.
        """

        def tetrahedron(a, b, c, d):
            edges = [(a, b), (a, c), (a, d), (b, c), (b, d), (c, d)]
            return edges, [(0, 1, 3), (0, 2, 4), (1, 2, 5), (3, 4, 5)]

        def pillow(a, b, c, d):
            edges = [(a, b), (a, b), (a, c), (b, c), (a, d), (b, d)]
            return edges, [(0, 2, 3), (1, 2, 3), (0, 4, 5), (1, 4, 5)]

        def glued(*solids):
            edges = [e for solid in solids for e in solid[0]]
            triangles = [[6 * i + e for e in t] for i, solid in enumerate(solids) for t in solid[1]]
            return CellComplex.from_boundaries(4, [edges, triangles, [range(4), range(4, 8)]])

        x = glued(tetrahedron(0, 1, 2, 3), tetrahedron(0, 1, 2, 3))
        y = glued(pillow(0, 1, 2, 3), pillow(2, 3, 0, 1))
        assert betti_numbers(glued(pillow(0, 1, 2, 3), tetrahedron(0, 1, 2, 3))) == (1, 3, 0, 0)
        pairs = [len({frozenset(c.cells(1)[e]) for t in range(4) for e in c.boundary(2).tolist()[t]}) for c in (x, y)]
        assert pairs == [6, 5]  # the ends of the edges around the first 3-cell: only in x is it a simplex
        for adjacencies in (SPARSE, ADJACENCIES):
            for mode in ("fast", "exact"):
                assert not cwnet.distinguish(x, y, adjacencies=adjacencies, mode=mode)
                found = refine([x, y], adjacencies=adjacencies, mode=mode)
                for colours in found.colours[1:]:
                    assert len(torch.unique(colours[3])) == 1


class TestDimensionsAreTold:
    """Cells of dimensions d < e have different colours from round d + 1 on, so dimensions need no colours of their own.

    The paper's proposition on simplices says so for vertices and goes up from there; this is the part of it that holds
    for all regular complexes.
    """

    @settings(max_examples=200)
    @given(some_complexes)
    def test_from_round_d_plus_1_on(self, some):
        found = refine(some)
        for d in range(len(found.colours[0])):
            for t in range(d + 1, d + 4):
                colours = found.colours[min(t, len(found.colours) - 1)]
                assert not set(colours[d].tolist()) & set(torch.cat([*colours[d + 1 :], colours[d][:0]]).tolist())

    @settings(max_examples=200)
    @given(some_complexes)
    def test_to_start_from_dimensions_changes_no_verdict(self, some):
        plain, by_dimension = refine(some), refine(some, initial="dimension")
        assert finer(at(plain, 10**6), at(by_dimension, 10**6))
        assert finer(at(by_dimension, 10**6), at(plain, 10**6))


@pytest.fixture(scope="module")
def atlas():
    """All connected graphs with at most seven vertices, up to isomorphism."""
    return [g for g in nx.graph_atlas_g() if len(g) and nx.is_connected(g)]


class TestTheoremSWLIsStrictlyMorePowerfulThanWL:
    """SWL on the clique complex tells apart what WL does, and more."""

    def test_at_least(self, atlas):
        assert finer(classes(atlas, test="swl"), classes(atlas, test="wl"))

    def test_strictly(self):
        triangles, hexagon = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)), nx.cycle_graph(6)
        assert not cwnet.distinguish(triangles, hexagon, test="wl")
        assert cwnet.distinguish(triangles, hexagon, test="swl")


def lonely_triangles_twice(graph):
    """All cliques of up to six vertices; triangles that share no edge with another one twice."""
    cliques = cwnet.lift(graph, Cliques(6))
    triangles = cliques.boundary(2).tolist()
    count = Counter(edge for triangle in triangles for edge in triangle)
    lonely = [triangle for triangle in triangles if all(count[edge] == 1 for edge in triangle)]
    higher = [cliques.boundary(d) for d in range(3, 6)]
    return CellComplex.from_boundaries(cliques.num_cells[0], [cliques.boundary(1), triangles + lonely, *higher])


HIDING = Custom(lonely_triangles_twice, dim=5)


class TestTheoremCliqueSubcomplex:
    """CWL on a lifting that has the clique complex inside is at least as powerful as SWL.

    As long as it attaches no simplices besides.
    """

    LIFTINGS = (Cliques(7) | Rings(5), Cliques(7) | Cycles(5), Cliques(7) | Rings(7) | Cycles(4))

    @pytest.mark.parametrize("lifting", LIFTINGS, ids=repr)
    def test_on_the_atlas(self, atlas, lifting):
        assert finer(classes(atlas, lifting), classes(atlas, test="swl"))

    @settings(max_examples=200)
    @given(small_graphs, small_graphs)
    def test_on_random_pairs(self, a, b):
        if cwnet.distinguish(a, b, test="swl"):
            for lifting in (Cliques(9) | Rings(5), Cliques(9) | Cycles(4)):
                assert cwnet.distinguish(a, b, lifting)

    @pytest.mark.parametrize(
        "graph", [nx.complete_graph(4), nx.complete_graph(6), nx.cycle_graph(3), nx.wheel_graph(6)]
    )
    def test_the_counter_example_has_the_clique_complex_inside(self, graph):
        cliques, lifted = cwnet.lift(graph, Cliques(6)), cwnet.lift(graph, HIDING)
        assert lifted.skeleton(1) == cliques.skeleton(1)
        for d in range(2, 6):
            inside = [frozenset(cell) for cell in lifted.cells(d)]
            assert set(inside) == {frozenset(cell) for cell in cliques.cells(d)}
            assert d == 2 or len(inside) == cliques.num_cells[d]

    def test_counter_example_with_more_simplices(self):
        """Two octahedra and a cuboctahedron: every edge on two triangles, or on one that is attached twice."""
        octahedra = nx.disjoint_union(nx.octahedral_graph(), nx.octahedral_graph())
        cuboctahedron = nx.line_graph(nx.hypercube_graph(3))
        cwnet.lifting.assert_invariant(HIDING, cuboctahedron)
        triangles = [cwnet.lift(graph, Cliques(6)).num_cells[2] for graph in (octahedra, cuboctahedron)]
        assert triangles == [16, 8]
        for graph in (octahedra, cuboctahedron):
            assert cwnet.lift(graph, HIDING).num_cells == (12, 24, 16, 0, 0, 0)
        assert cwnet.distinguish(octahedra, cuboctahedron, test="swl")
        assert not cwnet.distinguish(octahedra, cuboctahedron, HIDING)
        assert not cwnet.distinguish(octahedra, cuboctahedron, HIDING, mode="exact")


class TestAroundTheTheorems:
    """How sharp they are."""

    @pytest.mark.parametrize("k", [3, 4, 5])
    def test_squares_are_enough_to_be_above_swl(self, k):
        """The paper has k₂ ≥ 5 in its comparison with SWL; k₂ = 4 will do."""
        squares, octagon = nx.disjoint_union(nx.cycle_graph(4), nx.cycle_graph(4)), nx.cycle_graph(8)
        assert not cwnet.distinguish(squares, octagon, Cliques(k), test="swl")
        assert cwnet.distinguish(squares, octagon, Cliques(k) | Rings(4))
        assert cwnet.distinguish(squares, octagon, Cliques(k) | Cycles(4))

    @pytest.mark.parametrize("k", [3, 6, 9])
    def test_3_wl_is_not_less_powerful_either(self, k):
        """Rings longer than k are not seen; 3-WL tells one piece from two."""
        two, one = nx.disjoint_union(nx.cycle_graph(k + 1), nx.cycle_graph(k + 1)), nx.cycle_graph(2 * k + 2)
        assert cwnet.distinguish(two, one, test="3-wl")
        for lifting in (Rings(k), Cycles(k), Cliques(k)):
            assert not cwnet.distinguish(two, one, lifting)

    def test_3_wl_does_not_count_induced_cycles_of_size_4_to_8(self):
        """The line graph of K₈ and a graph of Chang, SR(28,12,6,4): all of these counts differ."""
        triangular = nx.convert_node_labels_to_integers(nx.line_graph(nx.complete_graph(8)), label_attribute="pair")
        matching = {v for v, pair in triangular.nodes(data="pair") if pair in [(0, 1), (2, 3), (4, 5), (6, 7)]}
        chang = nx.Graph(triangular.edges)
        for u in matching:
            for v in set(triangular) - matching:
                (chang.remove_edge if chang.has_edge(u, v) else chang.add_edge)(u, v)
        assert not cwnet.distinguish(triangular, chang, test="3-wl")
        counts = [
            torch.bincount(cwnet.lift(g, Rings(8)).boundary(2).sizes, minlength=9)[3:] for g in (triangular, chang)
        ]
        assert (counts[0] != counts[1]).tolist() == [False, True, True, True, True, True]
