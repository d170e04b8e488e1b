"""The paper's definitions of complexes, by name."""

from collections import Counter
from itertools import combinations, product

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cwnet
from cwnet import CellComplex, Cliques, Cycles, Rings
from tests.reference import cells as reference
from tests.reference.spaces import SPACES
from tests.strategies import complexes, small_graphs

regular = st.one_of(complexes, st.sampled_from([space for space, *_ in SPACES.values()]))


def closures(complex_):
    """The faces of every cell, itself among them, as (dimension, number): the partial order, by going down."""
    below = {(0, v): {(0, v)} for v in range(complex_.num_cells[0])}
    for d in range(1, len(complex_.num_cells)):
        for i, row in enumerate(complex_.boundary(d).tolist()):
            below[d, i] = {(d, i)}.union(*(below[d - 1, face] for face in row))
    return below


def cube(pinched):
    """A solid cube; pinched, with two opposite corners of its surface glued together."""
    corners = list(product((0, 1), repeat=3))
    number = {corner: i for i, corner in enumerate(corners)} | ({(1, 1, 1): 0} if pinched else {})
    edges = [(a, b) for a, b in combinations(corners, 2) if sum(x != y for x, y in zip(a, b, strict=True)) == 1]
    sides = [[i for i, (a, b) in enumerate(edges) if a[x] == b[x] == side] for x in range(3) for side in (0, 1)]
    return len(set(number.values())), [[(number[a], number[b]) for a, b in edges], sides, [range(6)]]


class TestDefinitionRegular:
    """The boundary of every cell is a sphere: up to dimension 3 whatever is none is refused."""

    def test_a_cube_is_a_3_cell(self):
        assert CellComplex.from_boundaries(*cube(False)).num_cells == (8, 12, 6, 1)

    def test_a_pinched_sphere_bounds_no_3_cell(self):
        with pytest.raises(cwnet.InvalidComplexError, match="Euler characteristic is 1"):
            CellComplex.from_boundaries(*cube(True))

    @pytest.mark.parametrize("name", ["torus", "Klein bottle", "projective plane", "Möbius strip", "disc"])
    def test_other_surfaces_bound_no_3_cell(self, name):
        surface = SPACES[name][0]
        with pytest.raises(cwnet.InvalidComplexError, match="the boundary of 3-cell 0"):
            CellComplex.from_boundaries(surface.num_cells[0], [*surface.boundaries, [range(surface.num_cells[2])]])

    def test_higher_cells_are_not_checked_completely(self):
        """All closed 3-manifolds have the Euler characteristic of the 3-sphere."""
        torus = SPACES["3-torus"][0]
        solid = CellComplex.from_boundaries(torus.num_cells[0], [*torus.boundaries, [range(torus.num_cells[3])]])
        assert solid.dim == 4


class TestDefinitionBoundaryRelation:
    """σ ≺ τ if σ < τ and nothing lies between: the order and its covering relation determine each other."""

    @settings(max_examples=60)
    @given(regular.filter(lambda c: sum(c.num_cells) < 200))
    def test_boundaries_are_the_covering_relation(self, complex_):
        below = closures(complex_)
        for (d, i), faces in below.items():
            proper = faces - {(d, i)}
            between = set().union(*(below[face] - {face} for face in proper))
            assert {n for _, n in proper - between} == set(complex_.boundary(d).tolist()[i])
            assert all(dimension == d - 1 for dimension, _ in proper - between)


class TestDefinitionSkeleton:
    """The k-skeleton is the subcomplex of all cells of dimension at most k."""

    @settings(max_examples=60)
    @given(regular)
    def test_on_regular_complexes(self, complex_):
        for k in range(len(complex_.num_cells)):
            skeleton = complex_.skeleton(k)
            assert skeleton.num_cells == complex_.num_cells[: k + 1]
            assert CellComplex.from_boundaries(skeleton.num_cells[0], skeleton.boundaries) == skeleton
            for d in range(1, k + 1):
                assert skeleton.boundary(d).tolist() == complex_.boundary(d).tolist()


class TestDefinitionAdjacencies:
    """A cell is no neighbour of itself, though the words of the definition would allow it."""

    @given(regular)
    def test_pairs_are_of_distinct_cells(self, complex_):
        for d in range(len(complex_.num_cells)):
            for pairs in (complex_.upper(d), complex_.lower(d)):
                assert not bool((pairs.index[0] == pairs.index[1]).any())

    @given(regular)
    def test_as_many_as_the_computational_analysis_counts(self, complex_):
        """A boundary of size k makes 2·C(k, 2) = k(k - 1) upper messages, and k boundary messages."""
        for d in range(1, len(complex_.num_cells)):
            sizes = complex_.boundary(d).sizes
            assert complex_.upper(d - 1).shared.numel() == int((sizes * (sizes - 1)).sum())
            assert complex_.boundary(d).idx.numel() == int(sizes.sum())
            cofaces = complex_.coboundary(d - 1).sizes
            assert complex_.lower(d).shared.numel() == int((cofaces * (cofaces - 1)).sum())

    @given(st.builds(cwnet.lift, small_graphs, st.just(Cliques(5))))
    def test_two_simplices_share_one_cell_at_most(self, complex_):
        """Which cells of other shapes need not: see the sphere of the paper."""
        for d in range(len(complex_.num_cells)):
            for pairs in (complex_.upper(d), complex_.lower(d)):
                shared = Counter(zip(*pairs.index.tolist(), strict=True))
                assert max(shared.values(), default=1) == 1


class TestDefinitionSubcomplex:
    """A subcomplex has the closures of its cells."""

    @settings(max_examples=60)
    @given(small_graphs, st.sampled_from([Rings(6), Cycles(5), Rings(5) | Cycles(4)]))
    def test_the_clique_complex_is_one_of_a_union(self, graph, other):
        whole, part = cwnet.lift(graph, Cliques(5) | other), cwnet.lift(graph, Cliques(5))
        number = [list(range(n)) for n in part.num_cells[:2]]
        assert whole.skeleton(1) == part.skeleton(1)
        for d in range(2, len(part.num_cells)):
            rows = {frozenset(row): i for i, row in enumerate(whole.boundary(d).tolist())}
            number.append([rows[frozenset(number[d - 1][f] for f in row)] for row in part.boundary(d).tolist()])
            assert len(set(number[d])) == part.num_cells[d]

    def test_what_lacks_a_face_is_none(self):
        """Without one of its edges a triangle's boundary is not closed, and no complex."""
        triangle = cwnet.lift(nx.cycle_graph(3), Rings(3))
        with pytest.raises(cwnet.InvalidComplexError, match="there are 2 of them"):
            CellComplex.from_boundaries(3, [triangle.boundary(1).tolist()[:2], triangle.boundary(2)])


def test_the_reference_agrees():
    """Vertices by closures, as the other oracle finds them."""
    torus = SPACES["torus"][0]
    for (d, i), faces in closures(torus).items():
        assert {n for e, n in faces if e == 0} == reference.vertices(torus, d, i)
